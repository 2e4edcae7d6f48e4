//! Tables of ours in the kernel's packet filter, over netlink (`linux/netfilter/nf_tables.h`).
//!
//! What the program `nft` would do takes it some milliseconds, most of which go into starting it; a
//! partition is to come at once. So what is done to the kernel's rules is said to it directly, in one
//! transaction. To look at them there is `nft`.
//!
//! All tables are of the family `inet`: rules for IPv4 and IPv6 alike.

use std::io;

use crate::netlink::{ACKNOWLEDGE, Attributes, Netfilter};

/// Messages of the subsystem.
const SUBSYSTEM: u16 = 10;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const GET_TABLE: u16 = NEW_TABLE | 1;
const DELETE_TABLE: u16 = NEW_TABLE | 2;
const NEW_CHAIN: u16 = NEW_TABLE | 3;
const NEW_RULE: u16 = NEW_TABLE | 6;
const DELETE_RULE: u16 = NEW_TABLE | 8;

/// What surrounds a transaction.
const BEGIN: u16 = 0x10;
const END: u16 = 0x11;

const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

const INET: u8 = 1;

/// Attributes that messages about tables, chains and rules have in common.
const TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const CHAIN_NAME: u16 = 3;

/// Longest answer that matters: an error and the head of what it is about.
const ANSWER_MAX: usize = 8 << 10;

/// Where packets pass a chain of the kernel's.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hook {
    /// On their way to a process of this machine.
    Input,
    /// On their way to another machine, or a container.
    Forward,
}

/// Where a packet is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Header {
    /// From the network header on: IPv4 or IPv6.
    Network,
    /// From the transport header on: TCP, UDP, ICMP.
    Transport,
}

/// A part of a rule: a condition, or what is done if all before it were met.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    /// The packet is of this family (`AF_INET`, `AF_INET6`).
    Family(u8),
    /// The packet is of this protocol (`IPPROTO_TCP` and so on).
    Protocol(u8),
    /// There are these bytes, so far from a header on.
    Bytes(Header, u32, Vec<u8>),
    /// These bits are all set in a byte so far from a header on.
    Bits(Header, u32, u8),
    /// Packets and bytes are counted.
    Count,
    /// It is dropped.
    Drop,
    /// It goes on as if this chain were not there.
    Return,
    /// It goes on in another chain.
    Jump(&'static str),
    /// It is dropped and answered with a reset of TCP.
    Reset,
    /// It is dropped and answered with "port unreachable".
    Unreachable,
}

impl Part {
    /// What the kernel calls it: one or more expressions.
    fn expressions(&self) -> Attributes {
        match self {
            Self::Family(family) => meta(15).and(&is(&[*family])),
            Self::Protocol(protocol) => meta(16).and(&is(&[*protocol])),
            Self::Bytes(header, offset, bytes) => {
                load(*header, *offset, bytes.len() as u32).and(&is(bytes))
            }
            Self::Bits(header, offset, bits) => {
                let mask = Attributes::new().number(1, REGISTER).number(2, REGISTER).number(3, 1);
                let mask = mask.nested(4, &value(&[*bits])).nested(5, &value(&[0]));
                load(*header, *offset, 1).and(&expression("bitwise", &mask)).and(&is(&[*bits]))
            }
            Self::Count => expression("counter", &Attributes::new()),
            Self::Drop => verdict(0, None),
            Self::Return => verdict(-5, None),
            Self::Jump(chain) => verdict(-3, Some(chain)),
            Self::Reset => expression("reject", &Attributes::new().number(1, 1)),
            Self::Unreachable => {
                expression("reject", &Attributes::new().number(1, 2).bytes(2, &[1]))
            }
        }
    }
}

/// The register through which what is loaded reaches what compares it.
const REGISTER: u32 = 1;

fn expression(name: &str, data: &Attributes) -> Attributes {
    Attributes::new().nested(1, &Attributes::new().text(1, name).nested(2, data))
}

/// Loads what is known of a packet besides its bytes.
fn meta(key: u32) -> Attributes {
    expression("meta", &Attributes::new().number(1, REGISTER).number(2, key))
}

fn load(header: Header, offset: u32, length: u32) -> Attributes {
    let base = match header {
        Header::Network => 1,
        Header::Transport => 2,
    };
    let from = Attributes::new().number(1, REGISTER).number(2, base);
    expression("payload", &from.number(3, offset).number(4, length))
}

/// Goes on if the register holds this.
fn is(bytes: &[u8]) -> Attributes {
    expression("cmp", &Attributes::new().number(1, REGISTER).number(2, 0).nested(3, &value(bytes)))
}

fn value(bytes: &[u8]) -> Attributes {
    Attributes::new().bytes(1, bytes)
}

fn verdict(code: i32, chain: Option<&str>) -> Attributes {
    let verdict = Attributes::new().number(1, code as u32);
    let verdict = chain.into_iter().fold(verdict, |verdict, chain| verdict.text(2, chain));
    let data = Attributes::new().nested(2, &verdict);
    expression("immediate", &Attributes::new().number(1, 0).nested(2, &data))
}

/// A transaction on one table: all of it comes into force at once, or nothing.
pub(crate) struct Transaction {
    table: String,
    messages: Vec<Vec<u8>>,
}

impl Transaction {
    /// One that does nothing yet.
    pub(crate) fn on(table: &str) -> Self {
        Self { table: table.to_owned(), messages: Vec::new() }
    }

    fn say(mut self, kind: u16, flags: u16, attributes: &Attributes) -> Self {
        let table = Attributes::new().text(TABLE, &self.table);
        self.messages.push(table.and(attributes).message(kind, flags | ACKNOWLEDGE, INET, 0));
        self
    }

    /// Makes the table; where there is one already, nothing of the transaction is done
    /// ([`io::ErrorKind::AlreadyExists`]).
    pub(crate) fn create(self) -> Self {
        self.say(NEW_TABLE, CREATE | EXCLUSIVE, &Attributes::new())
    }

    /// Has the table be gone, whether or not it is there.
    pub(crate) fn remove(self) -> Self {
        // What has just been made can be deleted for sure.
        let made = self.say(NEW_TABLE, CREATE, &Attributes::new());
        made.say(DELETE_TABLE, 0, &Attributes::new())
    }

    /// Adds a chain to which others lead.
    pub(crate) fn chain(self, name: &str) -> Self {
        self.say(NEW_CHAIN, CREATE, &Attributes::new().text(CHAIN_NAME, name))
    }

    /// Adds a chain that every packet passes somewhere, before the tables of iptables. What it does not
    /// decide about goes on.
    pub(crate) fn hooked(self, name: &str, hook: Hook) -> Self {
        const BEFORE_FILTER: i32 = -10;
        const ACCEPT: u32 = 1;
        let number = match hook {
            Hook::Input => 1,
            Hook::Forward => 2,
        };
        let hook = Attributes::new().number(1, number).number(2, BEFORE_FILTER as u32);
        let chain = Attributes::new().text(CHAIN_NAME, name).nested(4, &hook);
        self.say(NEW_CHAIN, CREATE, &chain.number(5, ACCEPT).text(7, "filter"))
    }

    /// Adds a rule to the end of a chain.
    pub(crate) fn rule(self, chain: &str, parts: &[Part]) -> Self {
        let parts = parts.iter().fold(Attributes::new(), |all, part| all.and(&part.expressions()));
        let rule = Attributes::new().text(RULE_CHAIN, chain).nested(4, &parts);
        self.say(NEW_RULE, CREATE | APPEND, &rule)
    }

    /// Removes all rules of a chain.
    pub(crate) fn flush(self, chain: &str) -> Self {
        self.say(DELETE_RULE, 0, &Attributes::new().text(RULE_CHAIN, chain))
    }

    /// Has the kernel do it.
    ///
    /// # Errors
    /// If it did nothing of it, with its first reason.
    pub(crate) fn commit(self) -> io::Result<()> {
        let border = |kind| Attributes::new().message(kind, 0, libc::AF_UNSPEC as u8, SUBSYSTEM);
        let (begin, end) = (vec![border(BEGIN)], vec![border(END)]);
        let asked = self.messages.len();
        ask(&[begin, self.messages, end].concat().concat(), asked)
    }
}

/// Whether there is a table.
pub(crate) fn has_table(name: &str) -> io::Result<bool> {
    let asked = Attributes::new().text(TABLE, name).message(GET_TABLE, ACKNOWLEDGE, INET, 0);
    match ask(&asked, 1) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Tells the kernel messages, so many of which it has to acknowledge.
fn ask(messages: &[u8], acknowledged: usize) -> io::Result<()> {
    let netfilter = Netfilter::open()?;
    netfilter.send(messages)?;
    let mut buffer = vec![0; ANSWER_MAX];
    let mut heard = 0;
    while let Some(answer) = netfilter.receive(&mut buffer)? {
        if let Some(outcome) = answer.outcome() {
            outcome?;
            heard += 1;
        }
    }
    if heard != acknowledged {
        let said = format!("the kernel acknowledged {heard} of {acknowledged} messages");
        return Err(io::Error::other(said));
    }
    Ok(())
}
