//! An event while its fields come in, whatever the format.

use super::part::Part;
use super::scan::Scan;
use crate::arena::{Arena, Cell};
use crate::columns::{CLIENT_MAX, Event};
use crate::strings::Symbol;
use crate::{Flaw, OpType, Process};

/// What is known of an event. Anything else a file says of it is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Index,
    Time,
    Wall,
    Process,
    Type,
    F,
    Key,
    Value,
    Error,
    Node,
}

impl Field {
    const ALL: [Self; 10] = [
        Self::Index,
        Self::Time,
        Self::Wall,
        Self::Process,
        Self::Type,
        Self::F,
        Self::Key,
        Self::Value,
        Self::Error,
        Self::Node,
    ];

    /// The field of a name.
    pub(super) fn of(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name().as_bytes() == name)
    }

    /// The field of a name that was read as a little-endian number. Names have no zero bytes, so
    /// the number is theirs alone.
    #[inline]
    pub(super) fn of_bits(name: u64) -> Option<Self> {
        const BITS: [u64; Field::ALL.len()] = {
            let mut bits = [0; Field::ALL.len()];
            let mut i = 0;
            while i < bits.len() {
                let name = Field::ALL[i].name().as_bytes();
                let mut j = name.len();
                while j > 0 {
                    j -= 1;
                    bits[i] = bits[i] << 8 | name[j] as u64;
                }
                i += 1;
            }
            bits
        };
        BITS.iter().position(|&bits| bits == name).map(|i| Self::ALL[i])
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Time => "time",
            Self::Wall => "wall",
            Self::Process => "process",
            Self::Type => "type",
            Self::F => "f",
            Self::Key => "key",
            Self::Value => "value",
            Self::Error => "error",
            Self::Node => "node",
        }
    }

    /// What a value of this field has to be.
    pub(super) const fn wants(self) -> &'static str {
        match self {
            Self::Index => "a whole number from 0",
            Self::Time => "whole nanoseconds since the start of the run, from 0",
            Self::Wall => "whole nanoseconds since the Unix epoch",
            Self::Process => "a whole number from 0 to 4294967293, the nemesis, or the log",
            Self::Type => "invoke, ok, fail or info",
            Self::F | Self::Node => "text",
            Self::Key | Self::Value | Self::Error => "a value",
        }
    }
}

/// An event that is being read.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) line: u64,
    seen: u16,
    pub(super) kind: Option<OpType>,
    pub(super) process: Option<Process>,
    pub(super) f: Option<Symbol>,
    pub(super) key: Option<Cell>,
    pub(super) value: Cell,
    pub(super) error: Cell,
    pub(super) time: Option<u64>,
    pub(super) wall: Option<i64>,
    pub(super) index: Option<u64>,
    pub(super) node: Option<Symbol>,
    /// The first thing wrong with it that is not a matter of syntax.
    pub(super) flaw: Option<Flaw>,
}

/// How a format writes the words that events are made of.
pub(super) struct Words {
    invoke: &'static str,
    ok: &'static str,
    fail: &'static str,
    info: &'static str,
    nemesis: &'static str,
    log: &'static str,
}

pub(super) const QUOTED: Words = Words {
    invoke: "\"invoke\"",
    ok: "\"ok\"",
    fail: "\"fail\"",
    info: "\"info\"",
    nemesis: "\"nemesis\"",
    log: "\"log\"",
};

pub(super) const KEYWORDS: Words = Words {
    invoke: ":invoke",
    ok: ":ok",
    fail: ":fail",
    info: ":info",
    nemesis: ":nemesis",
    log: ":log",
};

// In place, where it is known which words they are, they are compared as numbers.
impl Words {
    /// The type at the cursor.
    #[inline(always)]
    pub(super) fn kind(&self, scan: &mut Scan<'_>) -> Option<OpType> {
        if scan.word(self.invoke) {
            Some(OpType::Invoke)
        } else if scan.word(self.ok) {
            Some(OpType::Ok)
        } else if scan.word(self.fail) {
            Some(OpType::Fail)
        } else {
            scan.word(self.info).then_some(OpType::Info)
        }
    }

    /// The process at the cursor.
    #[inline(always)]
    pub(super) fn process(&self, scan: &mut Scan<'_>) -> Option<Process> {
        if let Some(client) = scan.natural() {
            let client = u32::try_from(client).ok().filter(|&id| id <= CLIENT_MAX);
            client.map(Process::Client)
        } else if scan.word(self.nemesis) {
            Some(Process::Nemesis)
        } else {
            scan.word(self.log).then_some(Process::Log)
        }
    }
}

/// What an event without a function is: Elle's examples leave it out.
const F_OTHERWISE: &str = "txn";

impl Draft {
    #[inline]
    pub(super) const fn new(line: u64) -> Self {
        Self {
            line,
            seen: 0,
            kind: None,
            process: None,
            f: None,
            key: None,
            value: Cell::NIL,
            error: Cell::NIL,
            time: None,
            wall: None,
            index: None,
            node: None,
            flaw: None,
        }
    }

    /// Notes that a field was given; false if it had been before.
    #[inline]
    pub(super) const fn first(&mut self, field: Field) -> bool {
        let bit = 1 << field as u16;
        let first = self.seen & bit == 0;
        self.seen |= bit;
        first
    }

    /// Reads a field that is a plain number or one of a few words; false if something else stands
    /// at the cursor, wherever that is then.
    #[inline]
    pub(super) fn plain(&mut self, field: Field, scan: &mut Scan<'_>, words: &Words) -> bool {
        match field {
            Field::Index => {
                self.index = scan.natural();
                self.index.is_some()
            }
            Field::Time => {
                self.time = scan.natural();
                self.time.is_some()
            }
            Field::Wall => {
                let negative = scan.word("-");
                let wall = scan.natural().and_then(|n| i64::try_from(n).ok());
                self.wall = wall.map(|n| if negative { -n } else { n });
                self.wall.is_some()
            }
            Field::Process => {
                self.process = words.process(scan);
                self.process.is_some()
            }
            Field::Type => {
                self.kind = words.kind(scan);
                self.kind.is_some()
            }
            Field::F | Field::Key | Field::Value | Field::Error | Field::Node => false,
        }
    }

    /// Turns it into an event of the part, or into a flaw.
    #[inline]
    pub(super) fn finish(self, arena: &mut Arena, part: &mut Part) {
        if let Some(flaw) = self.flaw {
            part.flaws.push(flaw);
            return;
        }
        let Some(kind) = self.kind else {
            let mend = "an event says type invoke, ok, fail or info";
            part.flaws.push(Flaw::of_line(self.line, "this is no event: it has no type", mend));
            return;
        };
        part.process.note(self.process.is_some(), self.line);
        let process = self.process.unwrap_or(Process::Client(0));
        let mut value = self.value;
        if process.client().is_some() {
            part.key.note(self.key.is_some(), self.line);
            if let Some(key) = self.key {
                value = arena.list(&[key, value]);
            }
        }
        let f = self.f.unwrap_or_else(|| arena.strings.intern(F_OTHERWISE));
        part.columns.push(&Event {
            kind,
            process,
            f,
            value: arena.far.narrow(value),
            error: self.error,
            time: self.time,
            wall: self.wall,
            index: self.index,
            node: self.node,
            line: self.line,
        });
    }
}
