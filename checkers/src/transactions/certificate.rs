//! What proves an anomaly, in terms of the history itself: positions of invocations, keys, values.
//!
//! A certificate is checked by [`verify`](super::verify) and told by [`explain`](super::explain);
//! neither sees what the search was made of.

use std::collections::BTreeMap;

use deposed_history::ValueRef;
use rustc_hash::FxHashSet;

use super::isolation::Isolation;
use super::level::OrderKind;

/// Anomalies of one name that are shown; all are counted.
const SHOWN_MAX: usize = 8;

/// One anomaly and what proves it.
#[derive(Debug, Clone)]
pub(crate) struct Certificate<'h> {
    pub(crate) name: &'static str,
    pub(crate) proof: Proof<'h>,
    /// Why indeterminate transactions among those of the proof did happen.
    pub(crate) happened: Vec<Happened<'h>>,
}

/// An indeterminate transaction happened, since a read saw what it wrote.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Happened<'h> {
    pub(crate) txn: u32,
    pub(crate) key: ValueRef<'h>,
    pub(crate) value: ValueRef<'h>,
    pub(crate) reader: u32,
}

/// The argument.
#[derive(Debug, Clone)]
pub(crate) enum Proof<'h> {
    /// Each transaction precedes the next, and the last the first.
    Cycle(Vec<Step<'h>>),
    /// No order of some transactions explains their reads, as trying them all shows. `known` is what
    /// is certain of their order.
    NoOrder { txns: Vec<u32>, isolation: Isolation, order: OrderKind, known: Vec<Step<'h>> },
    /// `reader` saw a value that only `writer`, which failed, can have written.
    Aborted { reader: u32, writer: u32, key: ValueRef<'h>, value: ValueRef<'h> },
    /// `reader` saw as the newest a value over which its own writer wrote another.
    Intermediate {
        reader: u32,
        writer: u32,
        key: ValueRef<'h>,
        value: ValueRef<'h>,
        next: ValueRef<'h>,
    },
    /// A read within a transaction is not what its own reads and writes before it leave.
    Internal { txn: u32, mop: u32 },
    /// A transaction read a value that it wrote only later.
    Future { txn: u32, mop: u32, key: ValueRef<'h>, value: ValueRef<'h> },
    /// `after` was written on top of `value`, which failed to be.
    DirtyUpdate {
        failed: u32,
        txn: u32,
        reader: u32,
        key: ValueRef<'h>,
        value: ValueRef<'h>,
        after: ValueRef<'h>,
    },
    /// Two transactions read the same version and both wrote over it.
    LostUpdate { one: u32, other: u32, key: ValueRef<'h> },
    /// A list holds an element twice that was appended once.
    Duplicate { reader: u32, key: ValueRef<'h>, value: ValueRef<'h> },
    /// Two reads of a list, neither of which begins with the other.
    Incompatible { one: u32, other: u32, key: ValueRef<'h> },
    /// A value that nobody wrote was read.
    Garbage { reader: u32, key: ValueRef<'h>, value: ValueRef<'h> },
    /// A transaction wrote `first` before `second`, and a read shows `second` without `first` below.
    OwnOrder { txn: u32, reader: u32, key: ValueRef<'h>, first: ValueRef<'h>, second: ValueRef<'h> },
}

/// Why one transaction precedes another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step<'h> {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) because: Because<'h>,
}

/// The reason of a [`Step`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Because<'h> {
    /// It returned before the other was invoked.
    RealTime,
    /// The same process did it before.
    Process,
    /// The second read what the first wrote.
    Saw { key: ValueRef<'h>, value: ValueRef<'h> },
    /// The first wrote `before`, which `reader` saw, and the second `after` later: `reader` saw that
    /// too, above it; or nobody ever saw it.
    Wrote { key: ValueRef<'h>, before: ValueRef<'h>, after: ValueRef<'h>, reader: u32, seen: bool },
    /// The first read the key without the second's write.
    Missed { key: ValueRef<'h>, mop: u32, after: ValueRef<'h> },
}

impl Proof<'_> {
    /// The transactions it speaks of, in the order they are introduced.
    pub(crate) fn txns(&self) -> Vec<u32> {
        let mut txns = match self {
            Self::Cycle(steps) => {
                let mut txns: Vec<u32> = steps.iter().map(|step| step.from).collect();
                let readers = steps.iter().filter_map(|step| match step.because {
                    Because::Wrote { reader, .. } => Some(reader),
                    _ => None,
                });
                txns.extend(readers);
                txns
            }
            Self::NoOrder { txns, .. } => txns.clone(),
            Self::Aborted { reader, writer, .. } | Self::Intermediate { reader, writer, .. } => {
                vec![*writer, *reader]
            }
            Self::Internal { txn, .. } | Self::Future { txn, .. } => vec![*txn],
            Self::DirtyUpdate { failed, txn, reader, .. } => vec![*failed, *txn, *reader],
            Self::LostUpdate { one, other, .. } | Self::Incompatible { one, other, .. } => {
                vec![*one, *other]
            }
            Self::Duplicate { reader, .. } | Self::Garbage { reader, .. } => vec![*reader],
            Self::OwnOrder { txn, reader, .. } => vec![*txn, *reader],
        };
        let mut seen = FxHashSet::default();
        txns.retain(|txn| seen.insert(*txn));
        txns
    }
}

/// Anomalies as they are found: all counted, the first few of each name kept.
#[derive(Debug, Default)]
pub(crate) struct Found<'h> {
    pub(crate) shown: BTreeMap<&'static str, Vec<Certificate<'h>>>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl<'h> Found<'h> {
    /// Counts an anomaly, and keeps its proof if there are few yet.
    pub(crate) fn add(&mut self, name: &'static str, proof: impl FnOnce() -> Proof<'h>) {
        *self.counts.entry(name).or_default() += 1;
        let shown = self.shown.entry(name).or_default();
        if shown.len() < SHOWN_MAX {
            shown.push(Certificate { name, proof: proof(), happened: Vec::new() });
        }
    }
}
