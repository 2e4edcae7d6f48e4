//! Packets that come twice: a copy is sent to this machine, as if it had come in.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, sendto,
    setsockopt, socket, sockopt,
};

/// Marks copies, so that they are not fetched again.
pub(super) const MARK: u32 = 0x0de9_05ed;

/// Sends copies.
pub(super) struct Twins {
    v4: OwnedFd,
    v6: Option<OwnedFd>,
}

impl Twins {
    /// Without IPv6 on this machine there are no packets of it to copy.
    pub(super) fn open() -> io::Result<Self> {
        let raw = |family| {
            // With this protocol the packet's own header is sent.
            let socket = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw)?;
            setsockopt(&socket, sockopt::Mark, &MARK)?;
            Ok::<_, nix::Error>(socket)
        };
        Ok(Self { v4: raw(AddressFamily::Inet)?, v6: raw(AddressFamily::Inet6).ok() })
    }

    /// Sends a packet, from its IP header on, to where that says.
    pub(super) fn send(&self, packet: &[u8]) -> io::Result<()> {
        let malformed = || io::Error::from(io::ErrorKind::InvalidData);
        let flags = MsgFlags::MSG_DONTWAIT;
        match packet.first().map(|byte| byte >> 4) {
            Some(4) => {
                let to: [u8; 4] =
                    packet.get(16..20).and_then(|b| b.try_into().ok()).ok_or_else(malformed)?;
                let to = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::from(to), 0));
                sendto(self.v4.as_raw_fd(), packet, &to, flags)?;
            }
            Some(6) => {
                let to: [u8; 16] =
                    packet.get(24..40).and_then(|b| b.try_into().ok()).ok_or_else(malformed)?;
                let to = SockaddrIn6::from(SocketAddrV6::new(Ipv6Addr::from(to), 0, 0, 0));
                let socket = self.v6.as_ref().ok_or_else(malformed)?;
                sendto(socket.as_raw_fd(), packet, &to, flags)?;
            }
            _ => return Err(malformed()),
        }
        Ok(())
    }
}
