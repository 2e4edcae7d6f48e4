//! Transactions of appends to lists and reads of them.
//!
//! What is read shows the order of everything appended before it, so the version orders are known,
//! and with them nearly all dependencies.

mod edges;
mod reasons;
mod scan;
mod versions;

use deposed_history::History;

use super::certificate::Found;
use super::completeness::{Decided, Subject, add_cycles};
use super::cycles;
use super::facts::{Facts, Read, Writers};
use super::graph::Edges;
use super::interner::NONE;
use super::isolation::Isolation;
use super::level::Consistency;
use super::order::{Span, add_order};
use super::report::Report;
use super::txns::Txns;
use super::verify::Workload;
use crate::budget::Exhausted;
use crate::{Analysis, Budget, Checker};
use edges::Data;
use versions::{Longest, Versions};

/// Judges transactions whose micro-operations are `["append", key, element]` and
/// `["r", key, elements]`. Each element is appended to a key at most once.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListAppend {
    /// The level the history has to have.
    pub consistency: Consistency,
}

impl Checker for ListAppend {
    fn name(&self) -> &str {
        "list-append"
    }

    fn check(&self, history: &History, budget: &Budget) -> Analysis {
        let mut longest = Longest::default();
        let mut txns = Txns::of(history, &mut longest);
        let versions = Versions::of(&mut txns, &longest);
        let mut found = Found::default();
        scan::scan(&txns, &versions, &mut found);
        let mut report = Report::new(self.name(), self.consistency, Workload::Append);
        if let Err(exhausted) = self.judge(&txns, &versions, budget, &mut found, &mut report) {
            report.undecided(exhausted.to_string());
        }
        for certificate in found.shown.values_mut().flatten() {
            reasons::add_happened(&txns, &versions, certificate);
        }
        report.conclude(&txns, found)
    }
}

impl ListAppend {
    fn judge<'h>(
        &self,
        txns: &Txns<'h>,
        versions: &Versions,
        budget: &Budget,
        found: &mut Found<'h>,
        report: &mut Report,
    ) -> Result<(), Exhausted> {
        let order = Decided::order(self.consistency);
        let data = Data::of(txns, versions);
        let mut edges = Edges::with_capacity(txns.mop_count() + 3 * txns.len());
        let real = txns.len() as u32;
        let nodes = data.add_edges(txns, versions, real, &mut edges);
        let committed = (0..real).filter(|&txn| txns.is_committed(txn));
        let spans: Vec<Span> = committed.map(|txn| Span::of(txns, txn, txn)).collect();
        let nodes = add_order(order, &spans, nodes, &mut edges);
        report.graph(edges.len());
        if !edges.fit(nodes) {
            report.undecided("there are too many transactions for a graph of 2^29 nodes".into());
            return Ok(());
        }
        let cycles = cycles::find(&edges.into_graph(nodes as usize), real, order, budget)?;
        let reason = |from, rel, to| reasons::reason(txns, versions, &data, (from, rel, to));
        add_cycles(txns, order, cycles, &reason, found);
        if found.counts.keys().any(|name| self.consistency.is_ruled_out_by(name)) {
            return Ok(());
        }
        let (members, facts) = facts(txns, versions, &data, spans);
        let subject = Subject { txns, members, facts, graph_decides, reason: &reason };
        if let Some(open) = subject.complete(self.consistency, budget, found)? {
            report.undecided(open);
        }
        Ok(())
    }
}

/// An order of an acyclic graph is right if it is serial. In one of snapshots, two appends to
/// a key that nobody saw must not overlap either, and the graph does not know which comes first.
fn graph_decides(isolation: Isolation, facts: &Facts) -> bool {
    isolation == Isolation::Serial || facts.keys.iter().all(|writers| writers.loose.len() < 2)
}

/// The versions as chains, and appends that nobody saw as loose writers.
fn facts(
    txns: &Txns<'_>,
    versions: &Versions,
    data: &Data,
    mut spans: Vec<Span>,
) -> (Vec<u32>, Facts) {
    let members: Vec<u32> = spans.iter().map(|span| span.node).collect();
    let mut number = vec![NONE; txns.len()];
    for (node, span) in (0..).zip(&mut spans) {
        number[span.node as usize] = node;
        span.node = node;
    }
    let mut keys = vec![Writers::default(); txns.key_count()];
    for (key, writers) in (0..).zip(&mut keys) {
        let order = versions.order(key).iter();
        writers.chain = order.filter_map(|&v| Some(number[txns.writer(v)? as usize])).collect();
        writers.chain.dedup();
        let last = writers.chain.last().copied();
        let tail = data.tail(key).iter().map(|&(_, writer, _)| number[writer as usize]);
        writers.loose = tail.filter(|&writer| Some(writer) != last).collect();
        writers.loose.dedup();
    }
    let mut reads = Vec::new();
    for (reader, &txn) in (0..).zip(&members) {
        for mop in txns.mops(txn).iter().filter(|mop| !mop.is_write()) {
            let seen = versions.seen(mop.key(), mop.what).iter().rev();
            let writer = seen.filter_map(|&value| txns.writer(value)).next();
            let writer = writer.map_or(NONE, |writer| number[writer as usize]);
            if writer != reader {
                reads.push(Read { key: mop.key(), writer, reader });
            }
        }
    }
    reads.sort_unstable();
    reads.dedup();
    (members, Facts { spans, keys, reads })
}
