//! The dependency graph in one array, and its strongly connected components without recursion.
//!
//! petgraph's `DiGraph` is for showing a witness; millions of edges go here.

use super::components::{self, Components, Walk};
use super::events::{Events, Layers};
use crate::budget::{Budget, Exhausted, Held};

/// Why one transaction precedes another, as a bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rel(u8);

impl Rel {
    /// The second overwrote what the first wrote.
    pub(crate) const WW: Self = Self(0);
    /// The second read what the first wrote.
    pub(crate) const WR: Self = Self(1);
    /// The second overwrote what the first read.
    pub(crate) const RW: Self = Self(2);
    /// The first comes earlier in time, or in its process.
    pub(crate) const ORDER: Self = Self(3);
    /// Leads on from an auxiliary node: no relation of its own.
    pub(crate) const ON: Self = Self(4);
    /// A ww that nothing demands: one way to order writes that nobody saw.
    pub(crate) const GUESS: Self = Self(5);

    const BITS: u32 = 3;
    const MASK: u32 = (1 << Self::BITS) - 1;

    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    pub(crate) const fn numbered(number: u8) -> Self {
        Self(number)
    }

    pub(crate) const fn set(self) -> Rels {
        Rels(1 << self.0)
    }
}

/// A set of relations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rels(pub(crate) u8);

impl Rels {
    /// Writes over writes, through auxiliary nodes too.
    pub(crate) const WW: Self = Self(Rel::WW.set().0 | Rel::ON.set().0);
    /// The flow of information.
    pub(crate) const FLOW: Self = Self(Self::WW.0 | Rel::WR.set().0);
    /// All that the data say.
    pub(crate) const DATA: Self = Self(Self::FLOW.0 | Rel::RW.set().0);

    pub(crate) const fn with(self, rel: Rel) -> Self {
        Self(self.0 | rel.set().0)
    }

    pub(crate) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) const fn has(self, rel: Rel) -> bool {
        self.0 & rel.set().0 != 0
    }
}

/// Why a graph was not searched to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stop {
    /// The time or the memory ran out.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// The graph has too many nodes or edges for its words.
    #[error("a graph of more than {NODES_MAX} nodes or {EDGES_MAX} edges is not searched")]
    TooLarge,
}

/// The most nodes a graph can have: a word holds a node and a relation.
const NODES_MAX: usize = 1 << (u32::BITS - Rel::BITS);

/// The most edges: a word is enough to number them.
const EDGES_MAX: usize = u32::MAX as usize - 1;

/// Where an edge leads and why, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct End(u32);

impl End {
    #[inline]
    const fn new(to: u32, rel: Rel) -> Self {
        debug_assert!((to as usize) < NODES_MAX);
        Self(to << Rel::BITS | rel.0 as u32)
    }

    #[inline]
    const fn to(self) -> u32 {
        self.0 >> Rel::BITS
    }

    #[inline]
    const fn rel(self) -> Rel {
        Rel((self.0 & Rel::MASK) as u8)
    }
}

/// Takes the edges of a graph as they are found, twice: to count them, and to put them in their slots.
/// What finding them anew costs is less than a list of them, which takes twice the memory of the graph.
#[derive(Debug)]
pub(crate) struct Edges<'b> {
    /// By node, two places on: how many edges start there. Then, one place on: its next slot.
    first: Vec<u32>,
    /// `None` as long as they are counted.
    ends: Option<Vec<End>>,
    count: usize,
    chain: u32,
    budget: &'b Budget,
    held: Vec<Held>,
    /// Why edges were left out.
    stop: Option<Stop>,
}

impl Edges<'_> {
    /// Adds a chain of auxiliary nodes after all other nodes, numbered from `first`: each leads to the
    /// next, and number `i` of them to node `i`. It takes no memory. Returns how many nodes there are.
    pub(crate) const fn add_chain(&mut self, first: u32, length: u32) -> u32 {
        self.chain = length;
        first + length
    }

    /// Adds an edge. If it has no room, [`Graph::of`] will say so.
    #[inline]
    pub(crate) fn push(&mut self, from: u32, to: u32, rel: Rel) {
        if self.ends.is_none() && to as usize >= NODES_MAX {
            self.stop.get_or_insert(Stop::TooLarge);
        }
        self.push_to(from, || to, rel);
    }

    /// Adds an edge to one of the nodes there are: which one is only asked for when it gets its slot.
    #[inline]
    pub(crate) fn push_to(&mut self, from: u32, to: impl FnOnce() -> u32, rel: Rel) {
        let Some(ends) = &mut self.ends else { return self.count(from) };
        let slot = &mut self.first[from as usize + 1];
        ends[*slot as usize] = End::new(to(), rel);
        *slot += 1;
    }

    #[inline]
    fn count(&mut self, from: u32) {
        if from as usize >= NODES_MAX {
            self.stop.get_or_insert(Stop::TooLarge);
        }
        if self.stop.is_none() && self.has_room(from as usize + 1) {
            self.count += 1;
            self.first[from as usize + 2] += 1;
        }
    }

    /// Makes room for so many nodes.
    #[inline]
    fn has_room(&mut self, nodes: usize) -> bool {
        nodes + 2 <= self.first.len() || self.grow(nodes)
    }

    #[cold]
    fn grow(&mut self, nodes: usize) -> bool {
        let length = (nodes + 2).max(self.first.len() + self.first.len() / 4);
        match self.budget.hold(4 * (length - self.first.len()) as u64) {
            Ok(held) => {
                self.held.push(held);
                self.first.resize(length, 0);
                true
            }
            Err(exhausted) => {
                self.stop.get_or_insert(Stop::Exhausted(exhausted));
                false
            }
        }
    }

    /// Gives every edge that was counted a slot. The nodes of the chain are not among `nodes`.
    fn place(&mut self, nodes: usize) -> Result<(), Stop> {
        let chain = self.chain as usize;
        if nodes + chain > NODES_MAX || self.count + 2 * chain > EDGES_MAX {
            return Err(Stop::TooLarge);
        }
        self.has_room(nodes);
        if let Some(stop) = self.stop {
            return Err(stop);
        }
        self.held.push(self.budget.hold((self.count * size_of::<End>()) as u64)?);
        // Shifted by two, so that filling the slots leaves each node's first slot in place.
        for node in 2..nodes + 2 {
            self.first[node] += self.first[node - 1];
        }
        self.ends = Some(vec![End(0); self.count]);
        Ok(())
    }
}

/// A directed graph: the edges of node `n` are `ends[first[n]..first[n + 1]]`, but for those of a
/// [chain](Edges::add_chain), whose slots come after.
#[derive(Debug)]
pub(crate) struct Graph {
    first: Vec<u32>,
    ends: Vec<End>,
    /// How many nodes the chain has.
    chain: u32,
    /// The memory it takes.
    #[expect(dead_code, reason = "it is given back when the graph is dropped")]
    held: Vec<Held>,
}

impl Graph {
    /// The graph of the edges that `add` adds, which is called twice, has to add the same ones both
    /// times, and returns how many nodes there are: about as many as `nodes`.
    ///
    /// # Errors
    /// If a limit is reached.
    pub(crate) fn of(
        nodes: usize,
        budget: &Budget,
        mut add: impl FnMut(&mut Edges<'_>) -> u32,
    ) -> Result<Self, Stop> {
        let (first, held) = (Vec::new(), Vec::new());
        let mut edges = Edges { first, ends: None, count: 0, chain: 0, budget, held, stop: None };
        edges.has_room(nodes);
        let nodes = add(&mut edges) - edges.chain;
        edges.place(nodes as usize)?;
        budget.check()?;
        add(&mut edges);
        let Edges { mut first, ends, chain, held, .. } = edges;
        first.truncate(nodes as usize + 1);
        Ok(Self { first, ends: ends.unwrap_or_default(), chain, held })
    }

    pub(crate) const fn nodes(&self) -> usize {
        self.first.len() - 1 + self.chain as usize
    }

    pub(crate) const fn edges(&self) -> usize {
        self.ends.len() + (2 * self.chain as usize).saturating_sub(1)
    }

    /// The edges of a node: where they lead, and their relation.
    #[inline]
    pub(crate) fn out(&self, node: u32) -> impl ExactSizeIterator<Item = (u32, Rel)> + '_ {
        let (first, end) = self.slots(node);
        (first..end).map(|slot| self.end(slot))
    }

    /// The first edge of a node, and the one after its last.
    #[inline]
    pub(crate) fn slots(&self, node: u32) -> (u32, u32) {
        let stored = self.first.len() as u32 - 1;
        if node < stored {
            return (self.first[node as usize], self.first[node as usize + 1]);
        }
        let number = node - stored;
        let first = self.ends.len() as u32 + 2 * number;
        // The last one leads to no next.
        (first, first + if number + 1 < self.chain { 2 } else { 1 })
    }

    /// Where an edge leads, and its relation.
    #[inline]
    pub(crate) fn end(&self, slot: u32) -> (u32, Rel) {
        match self.ends.get(slot as usize) {
            Some(end) => (end.to(), end.rel()),
            None => self.end_in_chain(slot - self.ends.len() as u32),
        }
    }

    #[inline]
    const fn end_in_chain(&self, slot: u32) -> (u32, Rel) {
        let (number, leads_on) = (slot / 2, slot % 2 == 1);
        let to = if leads_on { self.first.len() as u32 + number } else { number };
        (to, Rel::ORDER)
    }

    /// The strongly connected components over some relations.
    pub(crate) fn components(&self, rels: Rels, budget: &Budget) -> Result<Components, Exhausted> {
        components::of(&Whole { graph: self, rels }, budget)
    }

    /// The components of the events of its transactions.
    pub(crate) fn components_of_events(
        &self,
        layers: Layers,
        budget: &Budget,
    ) -> Result<Components, Exhausted> {
        components::of(&Events { graph: self, layers }, budget)
    }

    /// The part of the graph inside a component, its nodes numbered as in `members`.
    pub(crate) fn inside(
        &self,
        members: &[u32],
        number: &mut [u32],
        components: &Components,
        budget: &Budget,
    ) -> Result<Self, Exhausted> {
        let all: usize = members.iter().map(|&member| self.out(member).len()).sum();
        let held = budget.hold(4 * (members.len() + 1 + all) as u64)?;
        for (local, &member) in members.iter().enumerate() {
            number[member as usize] = local as u32;
        }
        let component = members.first().map(|&m| components.of[m as usize]);
        let mut inside = Self {
            first: Vec::with_capacity(members.len() + 1),
            ends: Vec::with_capacity(all),
            chain: 0,
            held: vec![held],
        };
        inside.first.push(0);
        for &member in members {
            for (to, rel) in self.out(member) {
                if Some(components.of[to as usize]) == component {
                    inside.ends.push(End::new(number[to as usize], rel));
                }
            }
            inside.first.push(inside.ends.len() as u32);
        }
        Ok(inside)
    }
}

/// A graph as it is, over some relations.
struct Whole<'a> {
    graph: &'a Graph,
    rels: Rels,
}

impl Walk for Whole<'_> {
    fn nodes(&self) -> usize {
        self.graph.nodes()
    }

    #[inline]
    fn slots(&self, node: u32) -> (u32, u32) {
        self.graph.slots(node)
    }

    #[inline]
    fn step(&self, _node: u32, slot: u32) -> Option<u32> {
        let (to, rel) = self.graph.end(slot);
        self.rels.has(rel).then_some(to)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn graph(nodes: usize, edges: &[(u32, u32, Rel)]) -> Result<Graph, Stop> {
        let budget = Budget::unlimited();
        Graph::of(nodes, &budget, |all| {
            edges.iter().for_each(|&(from, to, rel)| all.push(from, to, rel));
            nodes as u32
        })
    }

    /// A cycle counts only over the relations asked for.
    #[test]
    fn components_by_relation() -> Result<(), Stop> {
        let budget = Budget::unlimited();
        let edges = [(0, 1, Rel::WW), (1, 0, Rel::RW), (1, 2, Rel::WR), (2, 3, Rel::ORDER)];
        let g = graph(4, &edges)?;
        assert!(g.components(Rels::FLOW, &budget)?.is_acyclic());
        let data = g.components(Rels::DATA, &budget)?;
        assert_eq!(data.cyclic(), [vec![0, 1]]);
        assert!(data.of[2] < data.of[0], "edges lead to lower components");
        Ok(())
    }

    /// The last node that fits comes back with its relation; the next one is refused, wherever it
    /// turns up, and so is a graph with as many nodes.
    #[test]
    fn nodes_that_do_not_fit_are_refused() {
        const LAST: u32 = NODES_MAX as u32 - 1;
        for rel in [Rel::WW, Rel::WR, Rel::RW, Rel::ORDER, Rel::ON, Rel::GUESS] {
            let end = End::new(LAST, rel);
            assert_eq!((end.to(), end.rel()), (LAST, rel));
        }
        let refused = |result: Result<Graph, Stop>| result.err();
        assert_eq!(refused(graph(2, &[(0, LAST + 1, Rel::WW)])), Some(Stop::TooLarge));
        assert_eq!(refused(graph(2, &[(u32::MAX, 0, Rel::WW)])), Some(Stop::TooLarge));
        assert_eq!(refused(graph(NODES_MAX + 1, &[])), Some(Stop::TooLarge));
    }

    /// The events of the largest graph have different numbers, each in a word.
    #[test]
    fn events_of_the_largest_graph_fit() {
        const { assert!(2 * (NODES_MAX as u64) < u32::MAX as u64) };
        let largest = Layers::of_size(NODES_MAX as u32, NODES_MAX as u32);
        assert_eq!(largest.events(), 2 * NODES_MAX);
        let last = NODES_MAX as u32 - 1;
        assert_eq!(largest.commit(last), last);
        assert_eq!(largest.start(0), NODES_MAX as u32);
        assert_eq!(largest.start(last) as usize, largest.events() - 1);
    }

    /// The nodes of a chain lead to the next one, and to the node of their number.
    #[test]
    fn chains_are_not_stored() -> Result<(), Stop> {
        let graph = Graph::of(0, &Budget::unlimited(), |edges| {
            edges.push(0, 5, Rel::ORDER);
            edges.push(1, 3, Rel::RW);
            edges.add_chain(4, 3)
        })?;
        let order = |to| (to, Rel::ORDER);
        let out = |node| graph.out(node).collect::<Vec<_>>();
        assert_eq!((out(0), out(1)), (vec![order(5)], vec![(3, Rel::RW)]));
        assert_eq!((out(2), out(3)), (vec![], vec![]));
        assert_eq!(out(4), [order(0), order(5)]);
        assert_eq!(out(5), [order(1), order(6)]);
        assert_eq!(out(6), [order(2)]);
        assert_eq!((graph.nodes(), graph.edges()), (7, 7));
        Ok(())
    }

    /// Edges take memory as they come, and a graph that had not enough says so.
    #[test]
    fn memory_is_counted() {
        let budget = |bytes| Budget::new(|| Duration::ZERO, Duration::MAX, bytes, 1);
        let make = |budget: &Budget| {
            let graph = Graph::of(10, budget, |edges| {
                (0..1000).for_each(|n| edges.push(n, n + 1, Rel::WW));
                1001
            });
            graph.map(|graph| graph.edges())
        };
        assert_eq!(make(&budget(1 << 20)), Ok(1000));
        let small = budget(1 << 10);
        assert_eq!(make(&small), Err(Stop::Exhausted(Exhausted::Memory(1 << 10))));
        assert!(small.reserve(1 << 10).is_ok(), "all of it was given back");
    }
}
