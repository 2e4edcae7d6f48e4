//! What the kernel's netfilter is told, and says, over netlink (`linux/netfilter/nfnetlink.h`).
//!
//! The kernel does what it is told before a message counts as sent, so its answers are there by then.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto,
    socket,
};

/// The message that says how a request went: 0, or an error of the system's, negated.
const ERROR: u16 = 2;

const REQUEST: u16 = 1;

/// Asks for a message that says how it went, and not only if it went wrong.
pub(crate) const ACKNOWLEDGE: u16 = 4;

/// Head of a message, and netfilter's own behind it.
const HEAD: usize = 16;
const OWN_HEAD: usize = 4;

/// A connection to netfilter.
pub(crate) struct Netfilter(OwnedFd);

impl Netfilter {
    pub(crate) fn open() -> io::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkNetFilter,
        )?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Self(socket))
    }

    /// Tells the kernel some messages.
    pub(crate) fn send(&self, messages: &[u8]) -> io::Result<()> {
        let kernel = NetlinkAddr::new(0, 0);
        sendto(self.0.as_raw_fd(), messages, &kernel, MsgFlags::empty())?;
        Ok(())
    }

    /// The next message, if there is one already. What does not fit into `buffer` is cut off.
    pub(crate) fn receive<'a>(&self, buffer: &'a mut [u8]) -> nix::Result<Option<Answer<'a>>> {
        match recv(self.0.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(length) => Ok(Some(Answer(&buffer[..length]))),
            Err(Errno::EAGAIN) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl AsFd for Netfilter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What netfilter said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer<'a>(&'a [u8]);

impl<'a> Answer<'a> {
    /// A message that was read elsewhere.
    #[cfg(test)]
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// How a request went, if it says that.
    pub(crate) fn outcome(&self) -> Option<io::Result<()>> {
        if self.kind()? != ERROR {
            return None;
        }
        let code = self.0.get(HEAD..HEAD + 4).and_then(|bytes| bytes.try_into().ok());
        Some(match code.map_or(-libc::EPROTO, i32::from_ne_bytes) {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(-code)),
        })
    }

    /// What kind of message it is.
    pub(crate) fn kind(&self) -> Option<u16> {
        Some(u16::from_ne_bytes(self.0.get(4..6)?.try_into().ok()?))
    }

    /// Which resource it is about, and its attributes.
    pub(crate) fn body(&self) -> Option<(u16, impl Iterator<Item = (u16, &'a [u8])>)> {
        let length = u32::from_ne_bytes(self.0.get(..4)?.try_into().ok()?) as usize;
        let body = self.0.get(HEAD..length)?;
        let resource = u16::from_be_bytes(body.get(2..OWN_HEAD)?.try_into().ok()?);
        Some((resource, attributes(&body[OWN_HEAD..])))
    }
}

/// The attributes in some bytes.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let payload = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// Attributes under construction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attributes(Vec<u8>);

impl Attributes {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn bytes(mut self, kind: u16, payload: &[u8]) -> Self {
        self.0.extend((4 + payload.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(payload);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// A number, which netfilter wants with its highest byte first.
    pub(crate) fn number(self, kind: u16, number: u32) -> Self {
        self.bytes(kind, &number.to_be_bytes())
    }

    /// A text, which ends with a zero.
    pub(crate) fn text(self, kind: u16, text: &str) -> Self {
        self.bytes(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Attributes within one.
    pub(crate) fn nested(self, kind: u16, attributes: &Self) -> Self {
        const NESTED: u16 = 1 << 15;
        self.bytes(kind | NESTED, &attributes.0)
    }

    /// The same, and these.
    pub(crate) fn and(mut self, attributes: &Self) -> Self {
        self.0.extend(&attributes.0);
        self
    }

    /// A request of some kind with them, about a family of addresses and a resource.
    pub(crate) fn message(self, kind: u16, flags: u16, family: u8, resource: u16) -> Vec<u8> {
        let length = (HEAD + OWN_HEAD + self.0.len()) as u32;
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((REQUEST | flags).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend([family, 0]);
        bytes.extend(resource.to_be_bytes());
        bytes.extend(self.0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written is read again, and what is cut short is nothing.
    #[test]
    fn attributes_are_read_as_they_were_written() {
        let inner = Attributes::new().number(1, 258);
        let message = Attributes::new().text(7, "abc").nested(9, &inner).message(5, 0, 2, 29_501);
        let answer = Answer::new(&message);
        let (resource, read) = answer.body().unwrap();
        assert_eq!(resource, 29_501);
        let read: Vec<(u16, Vec<u8>)> = read.map(|(kind, text)| (kind, text.to_vec())).collect();
        assert_eq!(read, [(7, b"abc\0".to_vec()), (0x8009, vec![8, 0, 1, 0, 0, 0, 1, 2])]);
        assert!(Answer::new(&message[..message.len() - 1]).body().is_none());
        assert_eq!(Answer::new(&message).outcome().map(|outcome| outcome.is_ok()), None);
    }
}
