//! Levels below snapshot isolation that are defined by what each transaction sees of the others
//! (Cerone, Bernardi & Gotsman, CONCUR 2015), decided where the orders of versions are known.
//!
//! A transaction *sees* a set of others that committed before it; a read of a key shows the version of the
//! last writer among them. What has to be seen is known: the writers it read from, and what the
//! level adds. So a level is violated exactly if somebody sees a writer whose version it missed
//! (PROOFS.md, "Between read committed and snapshots").

use super::super::events::{Events, Layers};
use super::super::graph::{Edges, Graph, Rel, Rels, Stop};
use super::super::interner::NONE;
use super::super::level::Consistency;
use super::super::planted::{Bug, planted};
use super::super::reach;
use super::super::txns::Txns;
use super::edges::Data;
use super::versions::Versions;
use crate::Budget;

/// A level that is decided here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weak {
    /// Who reads from a transaction sees all of it.
    ReadAtomic,
    /// Who sees a transaction sees what that one saw.
    Causal,
    /// Who sees a transaction sees all that committed before it.
    Prefix,
    /// Causal, and of two that write one key one sees the other.
    ParallelSnapshot,
}

/// Transactions and why each precedes the next.
pub(crate) type Steps = Vec<(u32, Rel)>;

impl Weak {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::ReadAtomic, "read-atomic", "read-atomic-cycle-exists"),
        (Self::Causal, "causal-cerone", "causal-cerone-cycle-exists"),
        (Self::Prefix, "prefix", "prefix-cycle-exists"),
        (
            Self::ParallelSnapshot,
            "parallel-snapshot-isolation",
            "parallel-snapshot-isolation-cycle-exists",
        ),
    ];

    /// The level of a name, if it is one of these; and the anomaly that it does not hold.
    pub(crate) fn of(level: Consistency) -> Option<(Self, &'static str)> {
        let is = |name| Consistency::parse(name).is_ok_and(|known| known.is_same(level));
        let found = Self::ALL.into_iter().find(|(_, name, _)| is(name));
        found.map(|(weak, _, anomaly)| (weak, anomaly))
    }
}

/// What is known of a history of which no anomaly that was found rules the level out: so there
/// are no strays, and no cycles of ww and wr alone.
pub(crate) struct Known<'a, 'h> {
    pub(crate) txns: &'a Txns<'h>,
    pub(crate) versions: &'a Versions,
    pub(crate) data: &'a Data,
    pub(crate) graph: &'a Graph,
    pub(crate) budget: &'a Budget,
}

impl Known<'_, '_> {
    /// A cycle that rules a level out, if there is one.
    pub(crate) fn violation(&self, weak: Weak) -> Result<Option<Steps>, Stop> {
        match weak {
            Weak::ReadAtomic => self.fractured(),
            Weak::Causal => self.uncausal(),
            Weak::Prefix => self.no_prefix(),
            // Its cycles are G-single, which were looked for.
            Weak::ParallelSnapshot => Ok(None),
        }
    }

    /// Whether parallel snapshot isolation holds if writes that nobody saw are ordered as is likely,
    /// given that no G-single was found in what is certain.
    pub(crate) fn is_parallel_snapshot(&self, guessed: bool) -> Result<bool, Stop> {
        if !guessed || planted(Bug::UnseenTrusted) {
            return Ok(true);
        }
        let flow = Rels::FLOW.with(Rel::GUESS);
        if !self.graph.components(flow, self.budget)?.is_acyclic() {
            return Ok(false);
        }
        let all = self.graph.components(Rels::DATA.with(Rel::GUESS), self.budget)?;
        let rw = (0..self.txns.len() as u32).flat_map(|from| {
            let out = self.graph.out(from).filter(|(_, rel)| *rel == Rel::RW);
            out.map(move |(to, _)| (from, to))
        });
        let rw: Vec<(u32, u32)> = rw.filter(|&(from, to)| all.same(from, to)).collect();
        Ok(reach::joined(self.graph, flow, &rw, 1, self.budget)?.is_empty())
    }

    /// Those a transaction read from.
    fn sources(&self, txn: u32) -> impl Iterator<Item = u32> + '_ {
        let reads = self.txns.mops(txn).iter().filter(|mop| !mop.is_write());
        let newest = reads.filter_map(|mop| self.versions.seen(mop.key(), mop.what).last());
        newest.filter_map(|&value| self.txns.writer(value)).filter(move |&writer| writer != txn)
    }

    fn committed(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.txns.len() as u32).filter(|&txn| self.txns.is_committed(txn))
    }

    /// Somebody read from a transaction and missed another write of it.
    fn fractured(&self) -> Result<Option<Steps>, Stop> {
        // By key: who last read it, and how much.
        let mut read = vec![(NONE, 0u32); self.txns.key_count()];
        for txn in self.committed() {
            let mops = self.txns.mops(txn).iter();
            for mop in mops.filter(|mop| !mop.is_write()) {
                let (by, length) = &mut read[mop.key() as usize];
                *length = if *by == txn { mop.what.min(*length) } else { mop.what };
                *by = txn;
            }
            for writer in self.sources(txn) {
                let mut writes = self.txns.mops(writer).iter().filter(|mop| mop.is_write());
                let missed = writes.any(|mop| {
                    let (by, length) = read[mop.key() as usize];
                    let place = self.versions.place(mop.what);
                    by == txn && (place > length || place == 0)
                });
                if missed && !planted(Bug::FracturedIgnored) {
                    return Ok(Some(vec![(txn, Rel::RW), (writer, Rel::WR)]));
                }
            }
        }
        Ok(None)
    }

    /// Somebody saw, through others, a transaction of which it missed a write.
    ///
    /// Besides transactions there is a node for each version, which leads to its writer and to the next
    /// one, and a node for the tail of each key: a read leads to the version after the one it saw.
    fn uncausal(&self) -> Result<Option<Steps>, Stop> {
        let (txns, versions) = (self.txns, self.versions);
        let real = txns.len() as u32;
        let missed = |txn: u32| self.missed(txn, real).map(move |next| (txn, next));
        let nodes = real as usize + versions.length() + txns.key_count();
        let graph = Graph::of(nodes, self.budget, |edges| {
            self.add_versions(real, edges);
            for txn in self.committed() {
                for writer in self.sources(txn).filter(|_| !planted(Bug::OnlySources)) {
                    edges.push(writer, txn, Rel::WR);
                }
                missed(txn).for_each(|(txn, next)| edges.push(txn, next, Rel::RW));
            }
            nodes as u32
        })?;
        let missed: Vec<(u32, u32)> = self.committed().flat_map(missed).collect();
        let flow = Rels(Rel::WR.set().0 | Rel::ON.set().0);
        let all = graph.components(flow.with(Rel::RW), self.budget)?;
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        let mut readers: Vec<u32> = Vec::new();
        for (txn, next) in missed.into_iter().filter(|&(txn, next)| all.same(txn, next)) {
            for source in self.sources(txn).filter(|&source| all.same(txn, source)) {
                pairs.push((source, next));
                readers.push(txn);
            }
        }
        let found = reach::joined(&graph, flow, &pairs, 1, self.budget)?;
        let Some(&first) = found.first() else { return Ok(None) };
        let (source, next) = pairs[first];
        let layers = Layers::snapshot(&graph, 0, flow);
        let events = Events { graph: &graph, layers };
        let mut steps = vec![(readers[first], Rel::RW)];
        let path = events.path(next, source, self.budget)?.unwrap_or_default();
        steps.extend(path.into_iter().filter(|&(node, _)| node < real));
        steps.push((source, Rel::WR));
        Ok(Some(steps))
    }

    /// Adds a node for each version, which leads to its writer and to the next one, and then one for the
    /// tail of each key, which leads to its writers. They are numbered from `first`.
    pub(super) fn add_versions(&self, first: u32, edges: &mut Edges<'_>) {
        let Self { txns, versions, data, .. } = self;
        for key in 0..txns.key_count() as u32 {
            for (at, &value) in (0..).zip(versions.order(key)) {
                let version = self.after(key, at, first);
                if let Some(writer) = txns.writer(value) {
                    edges.push(version, writer, Rel::ON);
                }
                if !planted(Bug::LaterVersionsForgotten) {
                    edges.push(version, self.after(key, at + 1, first), Rel::ON);
                }
            }
            let tail = self.after(key, versions.order(key).len() as u32, first);
            for &(_, writer, _) in data.tail(key) {
                edges.push(tail, writer, Rel::ON);
            }
        }
    }

    /// The nodes of the versions that come next after those a transaction read.
    pub(super) fn missed(&self, txn: u32, first: u32) -> impl Iterator<Item = u32> + '_ {
        let reads = self.txns.mops(txn).iter().filter(|mop| !mop.is_write());
        reads.map(move |mop| self.after(mop.key(), mop.what, first))
    }

    /// The node of the version, or the tail, that comes after so many elements of a key's order.
    fn after(&self, key: u32, length: u32, first: u32) -> u32 {
        let versions = self.versions;
        if length as usize >= versions.order(key).len() {
            first + versions.length() as u32 + key
        } else {
            first + versions.first(key) as u32 + length
        }
    }

    /// A cycle in which each rw follows a wr.
    fn no_prefix(&self) -> Result<Option<Steps>, Stop> {
        let real = self.txns.len() as u32;
        let layers = match planted(Bug::WritersApart) {
            false => Layers::prefix(self.graph, real, Rels::DATA),
            true => Layers::snapshot(self.graph, real, Rels::DATA),
        };
        let components = self.graph.components_of_events(layers, self.budget)?;
        if components.is_acyclic() {
            return Ok(None);
        }
        let events = Events { graph: self.graph, layers };
        let rw = (0..real).flat_map(|from| {
            let out = self.graph.out(from).filter(|(_, rel)| *rel == Rel::RW);
            out.map(move |(to, _)| (from, to))
        });
        let mut best: Option<Steps> = None;
        let on_cycles =
            rw.filter(|&(from, to)| components.same(layers.start(from), layers.commit(to)));
        for (from, to) in on_cycles.take(STARTS_MAX) {
            let back = events.path(layers.commit(to), layers.start(from), self.budget)?;
            let mut steps = vec![(from, Rel::RW)];
            steps.extend(back.unwrap_or_default().into_iter().filter(|&(node, _)| node < real));
            let steps = once_each(steps);
            if best.as_ref().is_none_or(|best| steps.len() < best.len()) {
                best = Some(steps);
            }
        }
        Ok(best)
    }
}

/// Edges from which a short cycle is looked for.
const STARTS_MAX: usize = 16;

/// Of a cycle that meets a transaction twice, a part that does not and in which each rw follows a wr.
/// The part from the transaction's commit to its start is one (Lemma S8).
fn once_each(mut cycle: Steps) -> Steps {
    let follows = |part: &Steps| {
        (0..part.len()).all(|at| {
            let before = part[(at + part.len() - 1) % part.len()].1;
            part[at].1 != Rel::RW || before == Rel::WR
        })
    };
    loop {
        let mut places = rustc_hash::FxHashMap::default();
        let twice = cycle
            .iter()
            .enumerate()
            .find_map(|(at, (node, _))| Some((places.insert(*node, at)?, at)));
        let Some((from, to)) = twice else { return cycle };
        let inner: Steps = cycle.drain(from..to).collect();
        cycle = if follows(&inner) { inner } else { cycle };
    }
}
