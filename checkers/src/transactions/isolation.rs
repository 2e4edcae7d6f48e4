//! Whether some order of transactions, serial or of snapshots, explains what was read.
//!
//! Serial: each transaction is one event. Snapshot isolation: each is two, its *start*, when its
//! snapshot is taken, and its *commit*; transactions that write the same key do not overlap, and
//! a read sees what was last committed before its start (PROOFS.md, "Snapshots").

use super::events::{Events, Layers};
use super::facts::{Facts, Read};
use super::graph::{Rel, Rels, Stop};
use super::interner::NONE;
use super::level::OrderKind;
use super::planted::{Bug, planted};
use super::sequence::{Choice, Choices, Sequencer};
use crate::budget::Budget;

/// What kind of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// One transaction after the other.
    Serial,
    /// Reads from a snapshot, writes at commit, the first of two concurrent writers wins.
    Snapshot,
}

/// Writers that are found at once between a version and its reader.
const BETWEEN_MAX: usize = 32;

/// Whether there is an order.
pub(crate) fn is_possible(
    facts: &Facts,
    isolation: Isolation,
    order: OrderKind,
    budget: &Budget,
) -> Result<bool, Stop> {
    let graph = facts.graph(order, budget)?;
    match isolation {
        Isolation::Serial => {
            let mut priority = vec![0; graph.nodes()];
            for (priority, span) in priority.iter_mut().zip(&facts.spans) {
                *priority = end(span.ret, span.invoke);
            }
            let choices = Serial { facts, order: Vec::new() };
            Ok(Sequencer::new(&graph, &priority, choices, budget)?.succeeds()?)
        }
        Isolation::Snapshot => {
            let layers =
                Layers::snapshot(&graph, facts.spans.len() as u32, Rels::DATA.with(Rel::ORDER));
            let events = Events { graph: &graph, layers }.build(budget)?;
            let mut priority = vec![0; events.nodes()];
            for (txn, span) in (0..).zip(&facts.spans) {
                priority[layers.start(txn) as usize] = span.invoke;
                priority[layers.commit(txn) as usize] = end(span.ret, span.invoke);
            }
            let choices = Snapshot { facts, layers, order: Vec::new() };
            Ok(Sequencer::new(&events, &priority, choices, budget)?.succeeds()?)
        }
    }
}

const fn end(ret: u32, invoke: u32) -> u32 {
    if ret == NONE { invoke } else { ret }
}

/// Loose writers of each key by their places, and the reads of their versions.
fn each_key<'f>(
    facts: &'f Facts,
    order: &mut Vec<u32>,
    by: impl Fn(u32) -> u32,
    mut visit: impl FnMut(&[u32], &'f [Read]),
) {
    let mut at = 0;
    for (key, writers) in (0..).zip(&facts.keys) {
        let rest = &facts.reads[at..];
        let reads = &rest[..rest.partition_point(|read| read.key <= key)];
        order.clear();
        order.extend_from_slice(&writers.loose);
        order.sort_unstable_by_key(|&writer| by(writer));
        visit(order, reads);
        at += reads.len();
    }
}

struct Serial<'a> {
    facts: &'a Facts,
    order: Vec<u32>,
}

impl Choices for Serial<'_> {
    /// A writer between a version and its reader comes before the one or after the other.
    fn violated(&mut self, place: &[u32], choices: &mut Vec<Choice>) {
        let of = |txn: u32| place[txn as usize];
        each_key(self.facts, &mut self.order, of, |loose, reads| {
            for read in reads {
                let Some(at) = position(loose, read.writer, of) else { continue };
                if planted(Bug::BetweenIgnored) {
                    continue;
                }
                let between = loose[at + 1..].iter().take_while(|&&w| of(w) < of(read.reader));
                for &writer in between.filter(|&&w| w != read.reader).take(BETWEEN_MAX) {
                    choices
                        .push(Choice { one: (read.reader, writer), other: (writer, read.writer) });
                }
            }
        });
    }
}

/// Where a writer is among those sorted by place.
fn position(loose: &[u32], writer: u32, of: impl Fn(u32) -> u32) -> Option<usize> {
    if writer == NONE {
        return None;
    }
    let at = loose.partition_point(|&w| of(w) < of(writer));
    (loose.get(at) == Some(&writer)).then_some(at)
}

struct Snapshot<'a> {
    facts: &'a Facts,
    layers: Layers,
    order: Vec<u32>,
}

impl Choices for Snapshot<'_> {
    fn violated(&mut self, place: &[u32], choices: &mut Vec<Choice>) {
        let layers = self.layers;
        let (start, commit) = (|txn| layers.start(txn), |txn| layers.commit(txn));
        let started = |txn: u32| place[start(txn) as usize];
        let committed = |txn: u32| place[commit(txn) as usize];
        each_key(self.facts, &mut self.order, committed, |loose, reads| {
            for pair in loose.windows(2) {
                let (a, b) = (pair[0], pair[1]);
                if started(b) < committed(a) && !planted(Bug::OverlapIgnored) {
                    choices
                        .push(Choice { one: (commit(a), start(b)), other: (commit(b), start(a)) });
                }
            }
            for read in reads {
                let Some(at) = position(loose, read.writer, committed) else { continue };
                let between =
                    loose[at + 1..].iter().take_while(|&&w| committed(w) < started(read.reader));
                for &writer in between.filter(|&&w| w != read.reader).take(BETWEEN_MAX) {
                    choices.push(Choice {
                        one: (start(read.reader), commit(writer)),
                        other: (commit(writer), start(read.writer)),
                    });
                }
            }
        });
    }
}

/// A set of transactions that no order explains, as small as leaving out single ones makes it; the
/// whole is such a set.
pub(crate) fn core(
    facts: &Facts,
    isolation: Isolation,
    order: OrderKind,
    budget: &Budget,
) -> Result<Vec<u32>, Stop> {
    let impossible = |kept: &[u32]| {
        is_possible(&facts.only(kept), isolation, order, budget).map(|possible| !possible)
    };
    let all: Vec<u32> = (0..facts.spans.len() as u32).collect();
    // The shortest impossible beginning, then its shortest impossible end.
    let (mut low, mut high) = (0, all.len());
    while low + 1 < high {
        let middle = (low + high) / 2;
        if impossible(&all[..middle])? { high = middle } else { low = middle }
    }
    let all = &all[..high];
    let (mut low, mut high) = (0, all.len());
    while low + 1 < high {
        let middle = (low + high) / 2;
        if impossible(&all[middle..])? { low = middle } else { high = middle }
    }
    let window = all[low..].to_vec();
    let facts = facts.only(&window);
    let impossible = |kept: &[u32]| {
        is_possible(&facts.only(kept), isolation, order, budget).map(|possible| !possible)
    };
    let mut kept: Vec<u32> = (0..window.len() as u32).collect();
    let mut size = kept.len().div_ceil(2);
    while size > 0 {
        let (mut at, mut smaller) = (0, false);
        while at < kept.len() {
            let mut without = kept.clone();
            without.drain(at..(at + size).min(kept.len()));
            if impossible(&without)? {
                kept = without;
                smaller = true;
            } else {
                at += size;
            }
        }
        // Once single ones are left, until none of them can be.
        if !(size == 1 && smaller) {
            size /= 2;
        }
    }
    Ok(kept.into_iter().map(|at| window[at as usize]).collect())
}
