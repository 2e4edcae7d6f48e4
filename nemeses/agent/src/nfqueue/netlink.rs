//! The kernel's queues of packets, over netlink (`linux/netfilter/nfnetlink_queue.h`).
//!
//! A rule of iptables sends packets into a numbered queue. Whoever has bound the queue is sent each
//! packet's head and must say what is to become of it. When nobody has bound it any more the packets
//! pass, if the rule says so (`--queue-bypass`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;

/// Messages of the subsystem.
const SUBSYSTEM: u16 = 3 << 8;
const PACKET: u16 = SUBSYSTEM;
const VERDICT: u16 = SUBSYSTEM | 1;
const CONFIGURE: u16 = SUBSYSTEM | 2;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;

/// Attributes of packets and verdicts.
const PACKET_HEADER: u16 = 1;
const VERDICT_HEADER: u16 = 2;
const PAYLOAD: u16 = 10;
const WHOLE_LENGTH: u16 = 13;

/// Attributes of a configuration.
const COMMAND: u16 = 1;
const PARAMETERS: u16 = 2;
const LENGTH_MAX: u16 = 3;
const MASK: u16 = 4;
const FLAGS: u16 = 5;

/// What does not fit is let through, and large packets are not cut to pieces first.
const FAIL_OPEN: u32 = 1;
const UNCUT: u32 = 4;

/// How many packets a queue holds.
const QUEUE_MAX: u32 = 1 << 16;

/// How much the kernel may have for us that we have not fetched, in bytes.
const BUFFER: usize = 32 << 20;

/// Length of the head that is fetched where only lengths count.
const HEAD: u32 = 64;

/// Largest packet, and what surrounds it in a message.
const MESSAGE_MAX: usize = (64 << 10) + 512;

/// A packet that waits in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packet {
    /// Which queue it is in.
    pub(super) queue: u16,
    /// Its number there.
    pub(super) id: u32,
    /// Its length in bytes.
    pub(super) length: u64,
    /// Its contents from the network header on, or only their beginning.
    pub(super) contents: Vec<u8>,
}

/// A connection to the kernel's queues.
pub(super) struct Queues {
    socket: OwnedFd,
    /// Verdicts that were not sent yet.
    verdicts: Vec<u8>,
}

/// A message under construction.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16, queue: u16) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        bytes.extend([0; 8]);
        // Family (any), version, and the queue.
        bytes.extend([0, 0]);
        bytes.extend(queue.to_be_bytes());
        Self(bytes)
    }

    fn attribute(mut self, kind: u16, payload: &[u8]) -> Self {
        self.0.extend((4 + payload.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(payload);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn finish(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
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

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?))
}

/// Kind, queue and attributes of a message.
fn parse(bytes: &[u8]) -> Option<(u16, u16, &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(16..length)?;
    let queue = u16::from_be_bytes(body.get(2..4)?.try_into().ok()?);
    Some((kind, queue, &body[4..]))
}

fn parse_packet(bytes: &[u8]) -> Option<Packet> {
    let (kind, queue, body) = parse(bytes)?;
    if kind != PACKET {
        return None;
    }
    let (mut id, mut whole, mut contents) = (None, None, Vec::new());
    for (kind, payload) in attributes(body) {
        match kind {
            PACKET_HEADER => id = number(payload),
            WHOLE_LENGTH => whole = number(payload),
            PAYLOAD => contents = payload.to_vec(),
            _ => {}
        }
    }
    let length = whole.map_or(contents.len() as u64, u64::from);
    Some(Packet { queue, id: id?, length, contents })
}

impl Queues {
    /// Connects to the kernel.
    pub(super) fn open() -> io::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkNetFilter,
        )?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        setsockopt(&socket, sockopt::RcvBufForce, &BUFFER)?;
        Ok(Self { socket, verdicts: Vec::new() })
    }

    /// Takes a queue over. With `contents` whole packets are fetched, and large ones are cut to what
    /// the network takes first; without, only heads.
    pub(super) fn bind(&self, queue: u16, contents: bool) -> io::Result<()> {
        const BIND: u8 = 1;
        const COPY_PACKET: u8 = 2;
        let range = if contents { 0xffff } else { HEAD };
        let mut parameters = range.to_be_bytes().to_vec();
        parameters.push(COPY_PACKET);
        let flags = if contents { FAIL_OPEN } else { FAIL_OPEN | UNCUT };
        self.configure(queue, &[(COMMAND, &[BIND, 0, 0, 0])])?;
        self.configure(
            queue,
            &[
                (PARAMETERS, &parameters),
                (LENGTH_MAX, &QUEUE_MAX.to_be_bytes()),
                (FLAGS, &flags.to_be_bytes()),
                (MASK, &(FAIL_OPEN | UNCUT).to_be_bytes()),
            ],
        )
    }

    fn configure(&self, queue: u16, attributes: &[(u16, &[u8])]) -> io::Result<()> {
        let message = attributes
            .iter()
            .fold(Message::new(CONFIGURE, NLM_F_ACK, queue), |message, (kind, payload)| {
                message.attribute(*kind, payload)
            });
        self.send(&message.finish())?;
        let mut answer = vec![0; MESSAGE_MAX];
        // Packets of queues that are bound already may come in between; the kernel sends them into
        // a buffer that is emptied only after this, so they pass (see FAIL_OPEN) or are lost.
        loop {
            let length = recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
            let answer = &answer[..length];
            if answer.get(4..6) == Some(&NLMSG_ERROR.to_ne_bytes()[..]) {
                let code = answer.get(16..20).and_then(|bytes| bytes.try_into().ok());
                return match code.map_or(-libc::EPROTO, i32::from_ne_bytes) {
                    0 => Ok(()),
                    code => Err(io::Error::from_raw_os_error(-code)),
                };
            }
        }
    }

    fn send(&self, message: &[u8]) -> io::Result<()> {
        let kernel = NetlinkAddr::new(0, 0);
        sendto(self.socket.as_raw_fd(), message, &kernel, MsgFlags::empty())?;
        Ok(())
    }

    /// The next packet, if there is one.
    pub(super) fn next(&self, buffer: &mut Vec<u8>) -> io::Result<Option<Packet>> {
        buffer.resize(MESSAGE_MAX, 0);
        loop {
            match recv(self.socket.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => {
                    if let Some(packet) = parse_packet(&buffer[..length]) {
                        return Ok(Some(packet));
                    }
                }
                Err(nix::errno::Errno::EAGAIN) => return Ok(None),
                // Some packets did not fit into the buffer; they have passed.
                Err(nix::errno::Errno::ENOBUFS | nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for a packet, but not for longer than `within`.
    pub(super) fn wait(&self, within: Duration) -> io::Result<()> {
        let mut ready = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut ready, Some(TimeSpec::from_duration(within)), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Decides about a packet, with other contents if there are any. Told to the kernel by
    /// [`Queues::flush`].
    pub(super) fn decide(&mut self, queue: u16, id: u32, passes: bool, contents: Option<&[u8]>) {
        let mut header = u32::from(passes).to_be_bytes().to_vec();
        header.extend(id.to_be_bytes());
        let message = Message::new(VERDICT, 0, queue).attribute(VERDICT_HEADER, &header);
        let message = match contents {
            Some(contents) => message.attribute(PAYLOAD, contents),
            None => message,
        };
        self.verdicts.extend(message.finish());
    }

    /// Tells the kernel what was decided.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.verdicts.is_empty() {
            return Ok(());
        }
        let sent = self.send(&self.verdicts);
        self.verdicts.clear();
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet as the kernel sends it is read, with the length it had before it was cut.
    #[test]
    fn packets_are_read() {
        let message = Message::new(PACKET, 0, 7301)
            .attribute(PACKET_HEADER, &[0, 0, 1, 2, 8, 0, 3])
            .attribute(WHOLE_LENGTH, &1500_u32.to_be_bytes())
            .attribute(PAYLOAD, &[0x45, 1, 2, 3, 4])
            .finish();
        let packet = parse_packet(&message).unwrap();
        let expected =
            Packet { queue: 7301, id: 258, length: 1500, contents: vec![0x45, 1, 2, 3, 4] };
        assert_eq!(packet, expected);
    }

    /// What is cut short or something else is no packet.
    #[test]
    fn other_messages_are_no_packets() {
        let message = Message::new(VERDICT, 0, 1).attribute(VERDICT_HEADER, &[0; 8]).finish();
        assert_eq!(parse_packet(&message), None);
        let packet = Message::new(PACKET, 0, 1).attribute(PACKET_HEADER, &[0; 7]).finish();
        for length in 0..packet.len() - 1 {
            assert_eq!(parse_packet(&packet[..length]), None);
        }
    }
}
