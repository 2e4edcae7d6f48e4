//! Transactions of appends to lists and reads of them.
//!
//! What is read shows the order of everything appended before it, so the version orders are known,
//! and with them nearly all dependencies.

mod edges;
mod reasons;
mod scan;
mod sessions;
mod versions;
mod weak;

use std::cell::LazyCell;

use deposed_history::History;

use super::certificate::{Because, Found};
use super::completeness::{Decided, Subject, add_cycles, cycle_proof, deny_serial};
use super::cycles;
use super::events::Layers;
use super::facts::{Facts, Read, Writers};
use super::graph::{Graph, Rel, Rels, Stop};
use super::interner::NONE;
use super::isolation::Isolation;
use super::level::{Consistency, OrderKind};
use super::order::{Span, add_order};
use super::planted::{Bug, planted};
use super::report::{Open, Report};
use super::txns::Txns;
use super::verify::Workload;
use crate::analysis::with_beginning;
use crate::parallel::both;
use crate::{Analysis, Budget, Checker};
use edges::Data;
use sessions::Guarantee;
use versions::{Longest, Versions};
use weak::{Known, Weak};

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
        let fine = format!("keep to {}", self.consistency);
        with_beginning(history, fine, |history| self.judge_whole(history, budget))
    }
}

impl ListAppend {
    fn judge_whole(&self, history: &History, budget: &Budget) -> Analysis {
        let mut report = Report::new(self.name(), self.consistency, Workload::Append);
        match self.read(history, budget) {
            Ok((txns, versions)) => {
                let mut found = Found::default();
                if let Err(stop) = self.judge(&txns, &versions, budget, &mut found, &mut report) {
                    report.undecided(Open::all(format!(
                        "{stop} before {} was decided",
                        self.consistency
                    )));
                }
                for certificate in found.shown.values_mut().flatten() {
                    reasons::add_happened(&txns, &versions, certificate);
                }
                report.conclude(&txns, found)
            }
            Err(stop) => report.unread(history, stop),
        }
    }
}

impl ListAppend {
    fn read<'h>(
        &self,
        history: &'h History,
        budget: &Budget,
    ) -> Result<(Txns<'h>, Versions), Stop> {
        let keep = |txns: &mut Txns<'h>, _, seen| versions::length(txns, seen);
        let (mut txns, parts) = Txns::of::<Longest<'h>>(history, budget, keep)?;
        let dirty_reads = self.consistency.allows_dirty_reads();
        let versions = Versions::of(&mut txns, &Longest::of(&parts), dirty_reads, budget)?;
        Ok((txns, versions))
    }

    fn judge<'h>(
        &self,
        txns: &Txns<'h>,
        versions: &Versions,
        budget: &Budget,
        found: &mut Found<'h>,
        report: &mut Report,
    ) -> Result<(), Stop> {
        let order = Decided::order(self.consistency);
        let scan = || {
            let mut found = Found::default();
            let scanned = scan::scan(txns, versions, budget, &mut found);
            (scanned, found)
        };
        let search = || -> Result<_, Stop> {
            let graph = Dependencies::of(txns, versions, order, budget)?;
            let cycles = cycles::find(&graph.graph, txns.len() as u32, order, budget)?;
            Ok((graph, cycles))
        };
        let ((scanned, scan_found), searched) = both(budget.threads, scan, search);
        *found = scan_found;
        let (dependencies, cycles) = searched?;
        let Dependencies { data, graph, .. } = &dependencies;
        report.graph(graph.edges());
        let reason = |from, rel, to| reasons::reason(txns, versions, data, (from, rel, to));
        add_cycles(txns, order, cycles, &reason, found);
        scanned?;
        if found.counts.keys().any(|name| self.consistency.is_ruled_out_by(name))
            || deny_serial(self.consistency, found)
        {
            return Ok(());
        }
        if self.consistency.allows_dirty_reads()
            && !versions.strays.is_empty()
            && !planted(Bug::DisagreementIgnored)
        {
            report.undecided(Open::all(format!(
                "reads disagree about the order of appends: that does not rule {} out, which allows \
                 reads of what was not committed, but leaves open what was committed in which order",
                self.consistency
            )));
            return Ok(());
        }
        if let Some(decided) = self.see(&dependencies, (txns, versions), budget, found, &reason)? {
            return Ok(decided);
        }
        let graph_decides = |level: &Decided| dependencies.decides(level, order, budget);
        let facts = LazyCell::new(|| facts(txns, versions, data));
        let subject = Subject { txns, facts, graph_decides: &graph_decides, reason: &reason };
        if let Some(open) = subject.complete(self.consistency, budget, found)? {
            report.undecided(open);
        }
        Ok(())
    }
}

/// Why one transaction depends on another.
type Reason<'a, 'h> = dyn Fn(u32, Rel, u32) -> Option<Because<'h>> + 'a;

impl ListAppend {
    /// Decides a level by what transactions see, if it can; `None` if stronger levels have to be
    /// looked at.
    fn see<'h>(
        &self,
        dependencies: &Dependencies,
        (txns, versions): (&Txns<'h>, &Versions),
        budget: &Budget,
        found: &mut Found<'h>,
        reason: &Reason<'_, 'h>,
    ) -> Result<Option<()>, Stop> {
        let Dependencies { data, graph, guessed, .. } = dependencies;
        let known = Known { txns, versions, data, graph, budget };
        let single = |found: &Found<'h>| {
            found.shown.get("G-single-item").and_then(|shown| Some(shown.first()?.proof.clone()))
        };
        let is = |names: &[&str]| {
            let mut levels = names.iter().filter_map(|name| Consistency::parse(name).ok());
            levels.any(|level| level.is_same(self.consistency))
        };
        let atomic = |name: &&str| {
            Consistency::parse("read-atomic").is_ok_and(|level| !level.is_ruled_out_by(name))
        };
        let atomic = found.counts.keys().all(atomic);
        known.find_broken(&Guarantee::promised_by(self.consistency), found)?;
        if found.counts.keys().any(|name| self.consistency.is_ruled_out_by(name)) {
            return Ok(Some(()));
        }
        if let Some(rules) = Guarantee::rules(self.consistency)
            && (atomic || planted(Bug::BrokenReadsTrusted))
            && known.keeps(rules)?
        {
            return Ok(Some(()));
        }
        match Weak::of(self.consistency) {
            Some((Weak::ParallelSnapshot, anomaly)) => match single(found) {
                Some(proof) => found.add(anomaly, || proof),
                None if known.is_parallel_snapshot(*guessed)? => {}
                None => return Ok(None),
            },
            Some((weak, anomaly)) => {
                if let Some(steps) = known.violation(weak)? {
                    found.add(anomaly, || cycle_proof(txns, OrderKind::Data, &steps, reason));
                }
            }
            // Who sees all of a transaction, or nothing, does not miss any of it later.
            None if is(&["monotonic-atomic-view"]) => {
                if !atomic || known.violation(Weak::ReadAtomic)?.is_some() {
                    return Ok(None);
                }
            }
            // Between read atomic and parallel snapshots.
            None if is(&["update-atomic"]) => {
                if let Some(steps) = known.violation(Weak::ReadAtomic)? {
                    let proof = || cycle_proof(txns, OrderKind::Data, &steps, reason);
                    found.add("read-atomic-cycle-exists", proof);
                } else if single(found).is_some() || !known.is_parallel_snapshot(*guessed)? {
                    return Ok(None);
                }
            }
            // A view is consistent if there is no G-single. Then it stays so, whenever transactions
            // started, and what is asked less of views holds too.
            None if is(&["PL-CS", "PL-2L", "PL-MSR", "PL-2+", "PL-FCV"])
                && (single(found).is_none() || planted(Bug::ViewsTrusted)) =>
            {
                if !known.is_parallel_snapshot(*guessed)? {
                    return Ok(None);
                }
            }
            None => return Ok(None),
        }
        Ok(Some(()))
    }
}

/// The graph of all dependencies.
struct Dependencies {
    data: Data,
    graph: Graph,
    /// Nodes below are transactions.
    real: u32,
    /// Whether the graph leaves the order of some appends open, those that nobody saw.
    guessed: bool,
}

impl Dependencies {
    fn of(
        txns: &Txns<'_>,
        versions: &Versions,
        order: OrderKind,
        budget: &Budget,
    ) -> Result<Self, Stop> {
        let data = Data::of(txns, versions, budget)?;
        let real = txns.len() as u32;
        let mut guessed = false;
        let graph = Graph::of(txns.len(), budget, |edges| {
            let added = data.add_edges(txns, versions, real, edges);
            guessed = added.guessed;
            add_order(order, txns, added.nodes, edges)
        })?;
        Ok(Self { data, graph, real, guessed })
    }

    /// Whether that no cycle was found proves that a level has its order. Of a serial one it does. In
    /// one of snapshots, two appends to a key that nobody saw must not overlap either, and the graph
    /// does not know which comes first: then it proves it only if the likely order is one (Lemma S3,
    /// and S4).
    fn decides(&self, level: &Decided, order: OrderKind, budget: &Budget) -> Result<bool, Stop> {
        let trusted = !self.guessed || planted(Bug::GuessTrusted);
        if level.isolation == Some(Isolation::Serial) || trusted {
            return Ok(true);
        }
        let data = Rels::DATA.with(Rel::GUESS);
        let rels = match level.order {
            OrderKind::Data => data,
            kind if kind == order => data.with(Rel::ORDER),
            _ => return Ok(false),
        };
        let layers = Layers::snapshot(&self.graph, self.real, rels);
        Ok(self.graph.components_of_events(layers, budget)?.is_acyclic())
    }
}

/// The versions as chains, and appends that nobody saw as loose writers.
fn facts(txns: &Txns<'_>, versions: &Versions, data: &Data) -> (Vec<u32>, Facts) {
    let members: Vec<u32> = (0..txns.len() as u32).filter(|&txn| txns.is_committed(txn)).collect();
    let spans = members.iter().map(|&txn| Span::of(txns, txn)).collect();
    let mut number = vec![NONE; txns.len()];
    for (node, &txn) in (0..).zip(&members) {
        number[txn as usize] = node;
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
    (members, Facts { spans, keys, reads, held: None })
}
