//! Transactions of writes to registers and reads of them, each value written to a key once.
//!
//! Who wrote what was read is known, and that the initial nil comes before every write; the order
//! of writes is not. Cycles are looked for in what is certain. What they leave open of a level is
//! decided by searching for an order that explains all reads.

use std::cell::LazyCell;

use deposed_history::{History, ValueRef, Word};

use super::certificate::{Because, Certificate, Found, Happened, Proof};
use super::completeness::{Decided, Subject, add_cycles, deny_serial};
use super::cycles;
use super::decode::Reads;
use super::facts::{Facts, Read, Writers};
use super::graph::{Rel, Stop};
use super::interner::NONE;
use super::level::Consistency;
use super::order::Span;
use super::planted::{Bug, planted};
use super::report::{Open, Report};
use super::txns::{Mop, Txns};
use super::verify::Workload;
use crate::analysis::with_beginning;
use crate::{Analysis, Budget, Checker};

/// Judges transactions whose micro-operations are `["w", key, value]` and `["r", key, value]`. Each
/// value is written to a key at most once; before, the key holds nil.
#[derive(Debug, Clone, Copy, Default)]
pub struct RwRegister {
    /// The level the history has to have.
    pub consistency: Consistency,
}

/// Any value can be read.
#[derive(Debug, Default)]
struct Values;

impl<'h> Reads<'h> for Values {
    const WRITE: &'static str = "w";

    #[inline]
    fn see(&mut self, _call: u32, _key: u32, _seen: ValueRef<'h>) -> bool {
        true
    }
}

/// What a read keeps: the number of the value it saw, or [`NONE`] for nil.
#[inline]
fn value_read(txns: &mut Txns<'_>, key: u32, seen: Word) -> u32 {
    if seen.is_nil() { NONE } else { txns.value(key, seen) }
}

impl Checker for RwRegister {
    fn name(&self) -> &str {
        "rw-register"
    }

    fn check(&self, history: &History, budget: &Budget) -> Analysis {
        let fine = format!("keep to {}", self.consistency);
        with_beginning(history, fine, |history| self.judge_whole(history, budget))
    }
}

impl RwRegister {
    fn judge_whole(&self, history: &History, budget: &Budget) -> Analysis {
        let mut report = Report::new(self.name(), self.consistency, Workload::Register);
        let (txns, readers) = match self.read(history, budget) {
            Ok(read) => read,
            Err(stop) => return report.unread(history, stop),
        };
        let mut found = Found::default();
        Scan::new(&txns).scan(&mut found);
        if let Err(stop) = self.judge(&txns, budget, &mut found, &mut report) {
            report.undecided(Open::all(format!("{stop} before {} was decided", self.consistency)));
        }
        for certificate in found.shown.values_mut().flatten() {
            add_happened(&txns, &readers, certificate);
        }
        report.conclude(&txns, found)
    }
}

impl RwRegister {
    /// The transactions, and a reader of each value. Open transactions of which a write was seen did
    /// happen, unless what was read may never have been committed.
    fn read<'h>(
        &self,
        history: &'h History,
        budget: &Budget,
    ) -> Result<(Txns<'h>, Vec<u32>), Stop> {
        let (mut txns, _) = Txns::of::<Values>(history, budget, value_read)?;
        let mut readers = vec![NONE; txns.value_count()];
        for txn in 0..txns.len() as u32 {
            for mop in txns.mops(txn).iter().filter(|mop| !mop.is_write() && mop.what != NONE) {
                readers[mop.what as usize] = txn;
            }
        }
        let seen = (0..).zip(&readers).filter(|&(_, &reader)| reader != NONE);
        let counts = !self.consistency.allows_dirty_reads() || planted(Bug::DirtyReadsCount);
        txns.settle(seen.filter(|_| counts).map(|(value, _)| value), budget)?;
        Ok((txns, readers))
    }
}

impl RwRegister {
    fn judge<'h>(
        &self,
        txns: &Txns<'h>,
        budget: &Budget,
        found: &mut Found<'h>,
        report: &mut Report,
    ) -> Result<(), Stop> {
        let order = Decided::order(self.consistency);
        let (members, facts) = facts(txns, budget)?;
        let graph = facts.graph(order, budget)?;
        report.graph(graph.edges());
        let mut cycles = cycles::find(&graph, members.len() as u32, order, budget)?;
        for step in cycles.shown.iter_mut().flat_map(|cycle| &mut cycle.steps) {
            step.0 = members[step.0 as usize];
        }
        let reason = |from, rel, to| reason(txns, from, rel, to);
        add_cycles(txns, order, cycles, &reason, found);
        if found.counts.keys().any(|name| self.consistency.is_ruled_out_by(name)) {
            return Ok(());
        }
        if deny_serial(self.consistency, found) {
            return Ok(());
        }
        let known = facts.keys.iter().all(|writers| writers.loose.len() < 2);
        let graph_decides = |_: &Decided| Ok(known);
        let facts = LazyCell::new(|| (members, facts));
        let subject = Subject { txns, facts, graph_decides: &graph_decides, reason: &reason };
        if let Some(open) = subject.complete(self.consistency, budget, found)? {
            report.undecided(open);
        }
        Ok(())
    }
}

/// Every committed transaction's last write to a key is a loose version.
fn facts(txns: &Txns<'_>, budget: &Budget) -> Result<(Vec<u32>, Facts), Stop> {
    let bytes = txns.len() * (8 + size_of::<Span>())
        + txns.key_count() * size_of::<Writers>()
        + txns.mop_count() * size_of::<Read>();
    let held = Some(budget.hold(bytes as u64)?);
    let members: Vec<u32> = (0..txns.len() as u32).filter(|&txn| txns.is_committed(txn)).collect();
    let mut number = vec![NONE; txns.len()];
    let mut facts = Facts {
        spans: Vec::with_capacity(members.len()),
        keys: vec![Writers::default(); txns.key_count()],
        reads: Vec::with_capacity(txns.mop_count()),
        held,
    };
    for (node, &txn) in (0..).zip(&members) {
        number[txn as usize] = node;
        facts.spans.push(Span::of(txns, txn));
    }
    for (node, &txn) in (0..).zip(&members) {
        for mop in txns.mops(txn) {
            let key = mop.key();
            if !mop.is_write() {
                let writer = match mop.what {
                    NONE => NONE,
                    value => match txns.writer(value) {
                        Some(writer) => number[writer as usize],
                        None => continue,
                    },
                };
                if writer != node {
                    facts.reads.push(Read { key, writer, reader: node });
                }
            } else if !txns.is_overwritten(mop.what) && txns.writer(mop.what) == Some(txn) {
                facts.keys[key as usize].loose.push(node);
            }
        }
    }
    facts.reads.sort_unstable();
    facts.reads.dedup();
    Ok((members, facts))
}

/// Why one transaction precedes another.
fn reason<'h>(txns: &Txns<'h>, from: u32, rel: Rel, to: u32) -> Option<Because<'h>> {
    if rel == Rel::WR {
        return txns.mops(to).iter().filter(|mop| !mop.is_write()).find_map(|mop| {
            (mop.what != NONE && txns.writer(mop.what) == Some(from)).then(|| Because::Saw {
                key: txns.key_text(mop.key()),
                value: txns.value_text(mop.what),
            })
        });
    }
    let nil = |mop: &Mop| !mop.is_write() && mop.what == NONE;
    (0..).zip(txns.mops(from)).filter(|(_, mop)| nil(mop)).find_map(|(at, read)| {
        let wrote = |mop: &&Mop| mop.is_write() && mop.key() == read.key();
        let write = txns.mops(to).iter().find(wrote)?;
        Some(Because::Missed {
            key: txns.key_text(read.key()),
            mop: at,
            after: txns.value_text(write.what),
        })
    })
}

/// Adds to a certificate why its indeterminate transactions happened.
fn add_happened<'h>(txns: &Txns<'h>, readers: &[u32], certificate: &mut Certificate<'h>) {
    for position in certificate.proof.txns() {
        let Some(txn) = txns.at(position).filter(|&txn| !txns.is_acknowledged(txn)) else {
            continue;
        };
        let seen = txns.mops(txn).iter().find(|mop| {
            mop.is_write() && readers[mop.what as usize] != NONE && txns.writer(mop.what).is_some()
        });
        certificate.happened.extend(seen.map(|mop| Happened {
            txn: position,
            key: txns.key_text(mop.key()),
            value: txns.value_text(mop.what),
            reader: txns.invoke(readers[mop.what as usize]),
        }));
    }
}

/// What the transaction at hand did to a key.
#[derive(Debug, Clone, Copy)]
struct OwnKey {
    txn: u32,
    /// What it last read or wrote.
    last: Option<u32>,
    first_read: Option<u32>,
    wrote: bool,
}

/// Looks for anomalies within single transactions, and pairs.
struct Scan<'a, 'h> {
    txns: &'a Txns<'h>,
    keys: Vec<OwnKey>,
    /// Reads that their transaction then wrote over: key, what was read, transaction.
    updates: Vec<(u32, u32, u32)>,
    /// By value: whether a write of it was come by.
    written: Vec<bool>,
}

impl<'a, 'h> Scan<'a, 'h> {
    fn new(txns: &'a Txns<'h>) -> Self {
        let key = OwnKey { txn: NONE, last: None, first_read: None, wrote: false };
        let written = vec![false; txns.value_count()];
        Self { txns, keys: vec![key; txns.key_count()], updates: Vec::new(), written }
    }

    fn scan(mut self, found: &mut Found<'h>) {
        let txns = self.txns;
        for txn in (0..txns.len() as u32).filter(|&txn| txns.is_committed(txn)) {
            let mut internal = false;
            for (at, mop) in (0..).zip(txns.mops(txn)) {
                let own = &mut self.keys[mop.key() as usize];
                if own.txn != txn {
                    *own = OwnKey { txn, last: None, first_read: None, wrote: false };
                }
                if mop.is_write() {
                    if let (Some(read), false) = (own.first_read, own.wrote) {
                        self.updates.push((mop.key(), read, txn));
                    }
                    own.wrote = true;
                    self.written[mop.what as usize] = true;
                } else {
                    if own.last.is_some_and(|last| last != mop.what)
                        && !internal
                        && !planted(Bug::InternalIgnored)
                    {
                        internal = true;
                        found
                            .add("internal", || Proof::Internal { txn: txns.invoke(txn), mop: at });
                    }
                    if own.last.is_none() {
                        own.first_read = Some(mop.what);
                    }
                    if mop.what != NONE {
                        let written = self.written[mop.what as usize];
                        value(txns, (txn, at), *mop, written, found);
                    }
                }
                own.last = Some(mop.what);
            }
        }
        self.updates.sort_unstable();
        for group in self.updates.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let [(key, _, one), (_, _, other), ..] = *group else { continue };
            if planted(Bug::LostUpdateIgnored) {
                continue;
            }
            found.add("lost-update", || Proof::LostUpdate {
                one: txns.invoke(one),
                other: txns.invoke(other),
                key: txns.key_text(key),
            });
        }
    }
}

/// What is wrong with a read of a value. `written`: whether its transaction, if it is the writer, wrote
/// it before.
fn value<'h>(
    txns: &Txns<'h>,
    (txn, at): (u32, u32),
    read: Mop,
    written: bool,
    found: &mut Found<'h>,
) {
    let value = read.what;
    let text = || (txns.key_text(read.key()), txns.value_text(value));
    let reader = txns.invoke(txn);
    let Some(writer) = txns.writer(value) else {
        if txns.written_by(value).is_some() {
            return;
        }
        match txns.failed(value) {
            Some(_) if planted(Bug::AbortedIgnored) => {}
            Some(writer) => found.add("G1a", || {
                let (key, value) = text();
                Proof::Aborted { reader, writer, key, value }
            }),
            None if planted(Bug::GarbageIgnored) => {}
            None => found.add("garbage-read", || {
                let (key, value) = text();
                Proof::Garbage { reader, key, value }
            }),
        }
        return;
    };
    if writer == txn && !written && !planted(Bug::FutureIgnored) {
        found.add("future-read", || {
            let (key, value) = text();
            Proof::Future { txn: reader, mop: at, key, value }
        });
    }
    if writer != txn && txns.is_overwritten(value) && !planted(Bug::IntermediateIgnored) {
        found.add("G1b", || {
            let (key, value) = text();
            let next = txns.next_text(read.what);
            Proof::Intermediate { reader, writer: txns.invoke(writer), key, value, next }
        });
    }
}
