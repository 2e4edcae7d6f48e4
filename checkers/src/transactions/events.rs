//! Snapshots as a graph of two layers, walked without being built: PROOFS.md, "Snapshots".
//!
//! Under snapshot isolation a transaction is two events, its *start* and its *commit*. Node `n` of
//! the dependency graph is its commit, here too, and `start(n)` comes after all nodes. An auxiliary
//! node is one event. An edge says which event of the one end is before which of the other:
//!
//! | edge | events |
//! |---|---|
//! | of its own | start(a) -> commit(a) |
//! | ww, wr, order | commit(a) -> start(b) |
//! | rw | start(a) -> commit(b) |
//! | rw through auxiliary nodes | start(a) -> aux -> ... -> commit(b) |
//!
//! A cycle of events is a cycle of transactions in which no two rw follow each other (Lemma S2).
//! *Prefix consistency* is the same without the first committer winning: ww only orders commits.

use std::collections::VecDeque;

use super::components::Walk;
use super::graph::{Graph, Rel, Rels, Stop};
use super::planted::{Bug, planted};
use crate::Budget;

/// How events lie over a graph.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layers {
    /// All nodes of the graph.
    nodes: u32,
    /// Nodes below are transactions.
    real: u32,
    rels: Rels,
    /// Transactions that write the same key may overlap.
    overlapping_writers: bool,
}

impl Layers {
    /// Snapshot isolation over some relations.
    pub(crate) const fn snapshot(graph: &Graph, real: u32, rels: Rels) -> Self {
        Self { nodes: graph.nodes() as u32, real, rels, overlapping_writers: false }
    }

    /// Prefix consistency over some relations.
    pub(crate) const fn prefix(graph: &Graph, real: u32, rels: Rels) -> Self {
        Self { overlapping_writers: true, ..Self::snapshot(graph, real, rels) }
    }

    #[cfg(test)]
    pub(crate) const fn of_size(nodes: u32, real: u32) -> Self {
        Self { nodes, real, rels: Rels::DATA, overlapping_writers: false }
    }

    /// How many events there are.
    pub(crate) const fn events(self) -> usize {
        self.nodes as usize + self.real as usize
    }

    /// The start of a transaction.
    #[inline]
    pub(crate) const fn start(self, txn: u32) -> u32 {
        self.nodes + txn
    }

    /// The event that comes before what depends on a node: the commit of a transaction.
    #[inline]
    pub(crate) const fn commit(self, node: u32) -> u32 {
        node
    }
}

/// The graph of events.
pub(crate) struct Events<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) layers: Layers,
}

impl Events<'_> {
    /// Builds it, for what has to add edges of its own.
    pub(crate) fn build(&self, budget: &Budget) -> Result<Graph, Stop> {
        Graph::of(self.nodes(), budget, |edges| {
            for event in 0..self.nodes() as u32 {
                let (from, to) = self.slots(event);
                for next in (from..to).filter_map(|slot| self.step(event, slot)) {
                    edges.push(event, next, Rel::ON);
                }
            }
            self.nodes() as u32
        })
    }
}

impl Events<'_> {
    /// A shortest path between two events: the nodes whose edges it takes, and their relations.
    pub(crate) fn path(
        &self,
        from: u32,
        to: u32,
        budget: &Budget,
    ) -> Result<Option<Vec<(u32, Rel)>>, Stop> {
        const UNSEEN: u32 = u32::MAX;
        let _states = budget.hold(8 * self.nodes() as u64)?;
        let mut before = vec![(UNSEEN, 0u32); self.nodes()];
        let mut next = VecDeque::from([from]);
        while let Some(event) = next.pop_front() {
            if event == to && before[to as usize].0 != UNSEEN {
                break;
            }
            let (first, end) = self.slots(event);
            for slot in first..end {
                let Some(reached) = self.step(event, slot) else { continue };
                if before[reached as usize].0 == UNSEEN {
                    before[reached as usize] = (event, slot);
                    next.push_back(reached);
                }
            }
        }
        let mut path = Vec::new();
        let mut at = to;
        loop {
            let (event, slot) = before[at as usize];
            if event == UNSEEN {
                return Ok(None);
            }
            let started = event.checked_sub(self.layers.nodes);
            let is_own = started.is_some_and(|txn| slot == self.graph.slots(txn).1);
            let node = started.unwrap_or(event);
            if !is_own {
                path.push((node, self.graph.end(slot).1));
            }
            at = event;
            if at == from {
                break;
            }
        }
        path.reverse();
        Ok(Some(path))
    }
}

impl Walk for Events<'_> {
    fn nodes(&self) -> usize {
        self.layers.events()
    }

    #[inline]
    fn slots(&self, event: u32) -> (u32, u32) {
        match event.checked_sub(self.layers.nodes) {
            None => self.graph.slots(event),
            // One more: to its own commit.
            Some(txn) => {
                let (from, to) = self.graph.slots(txn);
                (from, to + 1)
            }
        }
    }

    #[inline]
    fn step(&self, event: u32, slot: u32) -> Option<u32> {
        let layers = self.layers;
        if let Some(txn) = event.checked_sub(layers.nodes) {
            if slot == self.graph.slots(txn).1 {
                return Some(layers.commit(txn));
            }
            let (to, rel) = self.graph.end(slot);
            return (rel == Rel::RW && layers.rels.has(rel)).then_some(layers.commit(to));
        }
        let (to, rel) = self.graph.end(slot);
        if !layers.rels.has(rel) {
            return None;
        }
        match rel {
            Rel::RW if planted(Bug::AdjacentAllowed) => Some(layers.commit(to)),
            Rel::RW => None,
            Rel::ON => Some(layers.commit(to)),
            Rel::WW if layers.overlapping_writers => Some(layers.commit(to)),
            _ if to < layers.real => Some(layers.start(to)),
            _ => Some(to),
        }
    }
}
