//! The kernel's queues of packets, over netlink (`linux/netfilter/nfnetlink_queue.h`).
//!
//! A rule of iptables sends packets into a numbered queue. Whoever has bound the queue is sent each
//! packet's head and must say what is to become of it. When nobody has bound it any more the packets
//! pass, if the rule says so (`--queue-bypass`).

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeSpec;

use crate::netlink::{ACKNOWLEDGE, Answer, Attributes, Netfilter};

/// Messages of the subsystem.
const SUBSYSTEM: u16 = 3 << 8;
const PACKET: u16 = SUBSYSTEM;
const VERDICT: u16 = SUBSYSTEM | 1;
const CONFIGURE: u16 = SUBSYSTEM | 2;

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
    netfilter: Netfilter,
    /// Verdicts that were not sent yet.
    verdicts: Vec<u8>,
}

/// A message about a queue.
fn message(kind: u16, flags: u16, queue: u16, attributes: Attributes) -> Vec<u8> {
    attributes.message(kind, flags, libc::AF_UNSPEC as u8, queue)
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?))
}

fn parse_packet(answer: Answer<'_>) -> Option<Packet> {
    if answer.kind()? != PACKET {
        return None;
    }
    let (queue, attributes) = answer.body()?;
    let (mut id, mut whole, mut contents) = (None, None, Vec::new());
    for (kind, payload) in attributes {
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
        let netfilter = Netfilter::open()?;
        setsockopt(&netfilter, sockopt::RcvBufForce, &BUFFER)?;
        Ok(Self { netfilter, verdicts: Vec::new() })
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
        let attributes = attributes
            .iter()
            .fold(Attributes::new(), |all, (kind, payload)| all.bytes(*kind, payload));
        self.netfilter.send(&message(CONFIGURE, ACKNOWLEDGE, queue, attributes))?;
        let mut buffer = vec![0; MESSAGE_MAX];
        // Packets of queues that are bound already may come in between; the kernel sends them into
        // a buffer that is emptied only after this, so they pass (see FAIL_OPEN) or are lost.
        while let Some(answer) = self.netfilter.receive(&mut buffer)? {
            if let Some(outcome) = answer.outcome() {
                return outcome;
            }
        }
        Err(io::Error::other("the kernel does not answer"))
    }

    /// The next packet, if there is one.
    pub(super) fn next(&self, buffer: &mut Vec<u8>) -> io::Result<Option<Packet>> {
        buffer.resize(MESSAGE_MAX, 0);
        loop {
            match self.netfilter.receive(buffer) {
                Ok(None) => return Ok(None),
                Ok(Some(answer)) => {
                    if let Some(packet) = parse_packet(answer) {
                        return Ok(Some(packet));
                    }
                }
                // Some packets did not fit into the buffer; they have passed.
                Err(Errno::ENOBUFS | Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Waits for a packet, but not for longer than `within`.
    pub(super) fn wait(&self, within: Duration) -> io::Result<()> {
        let mut ready = [PollFd::new(self.netfilter.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut ready, Some(TimeSpec::from_duration(within)), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Decides about a packet, with other contents if there are any. Told to the kernel by
    /// [`Queues::flush`].
    pub(super) fn decide(&mut self, queue: u16, id: u32, passes: bool, contents: Option<&[u8]>) {
        let mut header = u32::from(passes).to_be_bytes().to_vec();
        header.extend(id.to_be_bytes());
        let decision = Attributes::new().bytes(VERDICT_HEADER, &header);
        let decision = match contents {
            Some(contents) => decision.bytes(PAYLOAD, contents),
            None => decision,
        };
        self.verdicts.extend(message(VERDICT, 0, queue, decision));
    }

    /// Tells the kernel what was decided.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.verdicts.is_empty() {
            return Ok(());
        }
        let sent = self.netfilter.send(&self.verdicts);
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
        let packet = Attributes::new()
            .bytes(PACKET_HEADER, &[0, 0, 1, 2, 8, 0, 3])
            .number(WHOLE_LENGTH, 1500)
            .bytes(PAYLOAD, &[0x45, 1, 2, 3, 4]);
        let bytes = message(PACKET, 0, 7301, packet);
        let packet = parse_packet(Answer::new(&bytes)).unwrap();
        let expected =
            Packet { queue: 7301, id: 258, length: 1500, contents: vec![0x45, 1, 2, 3, 4] };
        assert_eq!(packet, expected);
    }

    /// What is cut short or something else is no packet.
    #[test]
    fn other_messages_are_no_packets() {
        let verdict = Attributes::new().bytes(VERDICT_HEADER, &[0; 8]);
        assert_eq!(parse_packet(Answer::new(&message(VERDICT, 0, 1, verdict))), None);
        let packet = Attributes::new().bytes(PACKET_HEADER, &[0; 7]);
        let packet = message(PACKET, 0, 1, packet);
        for length in 0..packet.len() - 1 {
            assert_eq!(parse_packet(Answer::new(&packet[..length])), None);
        }
    }
}
