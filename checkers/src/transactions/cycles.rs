//! Cycles among transactions, by the name of the anomaly they are.
//!
//! Each strongly connected component of the whole graph is searched for the worst kinds first, and
//! not for kinds that those found imply. Whether a kind is there is decided by components of parts of
//! the graph, and reachability, so no search can time out; one short cycle is then shown.
//!
//! For snapshot isolation the component is searched as the graph of its events, in which a cycle is
//! one of transactions without two rw in a row (Cerone & Gotsman, PODC 2016; PROOFS.md, "Snapshots").

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::events::Layers;
use super::graph::{Graph, Rel, Rels, Stop};
use super::level::{self, OrderKind};
use super::planted::{Bug, planted};
use super::reach;
use crate::budget::Budget;

/// Cycles of one kind that are shown; all are counted, one a component.
const SHOWN_MAX: usize = 8;

/// Places in a component from which a short cycle is looked for.
const STARTS_MAX: usize = 16;

/// A cycle of transactions: each step's relation leads to the transaction of the next step, and
/// that of the last one to the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cycle {
    pub(crate) name: &'static str,
    pub(crate) steps: Vec<(u32, Rel)>,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Cycles {
    /// The shortest of each kind, worst kinds first.
    pub(crate) shown: Vec<Cycle>,
    /// By kind: in how many components it was found.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// Components with more than one transaction.
    pub(crate) components: usize,
}

/// Looks for cycles. Nodes below `real` are transactions, the others auxiliary.
pub(crate) fn find(
    graph: &Graph,
    real: u32,
    order: OrderKind,
    budget: &Budget,
) -> Result<Cycles, Stop> {
    let all = Rels::DATA.with(Rel::ORDER);
    let components = graph.components(all, budget)?;
    let mut cycles = Cycles::default();
    if components.is_acyclic() {
        return Ok(cycles);
    }
    let _numbers = budget.hold(4 * graph.nodes() as u64)?;
    let mut number = vec![0; graph.nodes()];
    let mut shown: BTreeMap<&'static str, Vec<Cycle>> = BTreeMap::new();
    for members in components.cyclic() {
        budget.check()?;
        let part = Part {
            graph: graph.inside(&members, &mut number, &components, budget)?,
            real: members.partition_point(|&node| node < real) as u32,
            members: &members,
            budget,
        };
        cycles.components += 1;
        for cycle in part.search(order)? {
            *cycles.counts.entry(cycle.name).or_default() += 1;
            let best = shown.entry(cycle.name).or_default();
            let at = best.partition_point(|other| other.steps.len() <= cycle.steps.len());
            if at < SHOWN_MAX {
                best.insert(at, cycle);
                best.truncate(SHOWN_MAX);
            }
        }
    }
    cycles.shown = shown.into_values().flatten().collect();
    cycles.shown.sort_by_key(|cycle| level::severity(cycle.name));
    Ok(cycles)
}

/// A strongly connected component.
struct Part<'a> {
    graph: Graph,
    members: &'a [u32],
    /// Nodes below are transactions.
    real: u32,
    budget: &'a Budget,
}

/// A path: nodes of the part, and the relation that leads on from each.
type Path = Vec<(u32, Rel)>;

impl Part<'_> {
    fn search(&self, order: OrderKind) -> Result<Vec<Cycle>, Stop> {
        let mut found: Vec<Cycle> = Vec::new();
        self.search_over(Order { rels: Rels(0), kind: OrderKind::Data }, &mut found)?;
        if order != OrderKind::Data {
            self.search_over(Order { rels: Rel::ORDER.set(), kind: order }, &mut found)?;
        }
        Ok(found)
    }

    /// Searches for all kinds over the data and an order, worst first.
    fn search_over(&self, order: Order, found: &mut Vec<Cycle>) -> Result<(), Stop> {
        for (base, rels) in [(Kind::G0, Rels::WW), (Kind::G1c, Rels::FLOW)] {
            if !order.is_implied(base, found) {
                let cycle = self.through_any_node(rels.and(order.rels))?;
                self.add(cycle, order, found);
            }
        }
        // What implies a single rw implies any number of them that are not adjacent.
        if !order.is_implied(Kind::Single, found) {
            let layers = Layers::snapshot(&self.graph, self.real, Rels::DATA.and(order.rels));
            let events = self.graph.components_of_events(layers, self.budget)?;
            let rw: Vec<(u32, u32)> = self
                .rw_edges()
                .filter(|&(a, b)| events.same(layers.start(a), layers.commit(b)))
                .collect();
            drop(events);
            let flow = Rels::FLOW.and(order.rels);
            let single = reach::joined(&self.graph, flow, &rw, STARTS_MAX, self.budget)?;
            let cycle = if !single.is_empty() {
                let rw: Vec<(u32, u32)> = single.into_iter().map(|i| rw[i]).collect();
                self.through_edges(&rw, flow, false)?
            } else if !order.is_implied(Kind::Nonadjacent, found) && !planted(Bug::OnlySingles) {
                self.through_edges(&rw, Rels::DATA.and(order.rels), true)?
            } else {
                None
            };
            self.add(cycle, order, found);
        }
        if !order.is_implied(Kind::G2, found) {
            let rels = Rels::DATA.and(order.rels);
            let components = self.graph.components(rels, self.budget)?;
            let rw: Vec<(u32, u32)> =
                self.rw_edges().filter(|&(a, b)| components.same(a, b)).collect();
            let cycle = self.through_edges(&rw, rels, false)?;
            self.add(cycle, order, found);
        }
        Ok(())
    }

    fn add(&self, cycle: Option<Path>, order: Order, found: &mut Vec<Cycle>) {
        let Some(path) = cycle else { return };
        let steps: Vec<(u32, Rel)> =
            path.into_iter().map(|(node, rel)| (self.members[node as usize], rel)).collect();
        let kind = Kind::of(&steps);
        if kind == Kind::G0 && planted(Bug::WriteCyclesIgnored) {
            return;
        }
        let ordered = steps.iter().any(|(_, rel)| *rel == Rel::ORDER);
        let name = kind.name(if ordered { order.kind } else { OrderKind::Data });
        if !found.iter().any(|known| level::implies(known.name, name)) {
            found.push(Cycle { name, steps });
        }
    }

    /// Every edge rw, also those to auxiliary nodes.
    fn rw_edges(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..self.real).flat_map(move |from| {
            let out = self.graph.out(from).filter(|(_, rel)| *rel == Rel::RW);
            out.map(move |(to, _)| (from, to))
        })
    }

    fn degree(&self, node: u32) -> usize {
        self.graph.out(node).len()
    }

    /// A short cycle over some relations, if there is one.
    fn through_any_node(&self, rels: Rels) -> Result<Option<Path>, Stop> {
        let components = self.graph.components(rels, self.budget)?;
        let Some(smallest) = components.cyclic().into_iter().min_by_key(Vec::len) else {
            return Ok(None);
        };
        let mut starts: Vec<u32> = smallest.into_iter().filter(|&node| node < self.real).collect();
        starts.sort_by_key(|&node| self.degree(node));
        starts.truncate(STARTS_MAX);
        let mut best: Option<Path> = None;
        for node in starts {
            let path = self.path((node, 0), node, rels, false)?;
            best = shorter(best, path.map(|path| self.without_auxiliary(path)));
        }
        Ok(best)
    }

    /// A short cycle through one of some edges rw, without two rw in a row if `layered`.
    fn through_edges(
        &self,
        edges: &[(u32, u32)],
        rels: Rels,
        layered: bool,
    ) -> Result<Option<Path>, Stop> {
        let mut edges = edges.to_vec();
        edges.sort_by_key(|&(a, b)| self.degree(a) + self.degree(b));
        edges.truncate(STARTS_MAX);
        let mut best: Option<Path> = None;
        for (a, b) in edges {
            let back = self.path((b, u32::from(layered)), a, rels, layered)?;
            let cycle = back.map(|back| {
                let mut cycle = vec![(a, Rel::RW)];
                cycle.extend(back);
                let cycle = self.without_auxiliary(cycle);
                if layered { simple(cycle) } else { cycle }
            });
            best = shorter(best, cycle);
        }
        Ok(best)
    }

    /// The path of the fewest transactions from a node, in a layer, to another one, in layer 0 if
    /// layered. Layer 1 of a node is its commit, layer 0 its start. From a node to itself it is a
    /// cycle, not empty.
    fn path(
        &self,
        from: (u32, u32),
        to: u32,
        rels: Rels,
        layered: bool,
    ) -> Result<Option<Path>, Stop> {
        self.budget.check()?;
        let state = |node: u32, layer: u32| (node << 1 | layer) as usize;
        let states = 2 * self.graph.nodes();
        let _states = self.budget.hold(9 * states as u64)?;
        // 0: not reached; else one more than the state before it, and the relation that leads on.
        // Pages that are not touched are not made: most searches are short.
        let mut before = vec![0u64; states];
        let mut done = vec![false; states];
        let mut next: VecDeque<(u32, u32)> = VecDeque::from([from]);
        let goal = state(to, 0);
        while let Some((node, layer)) = next.pop_front() {
            let at = state(node, layer);
            if std::mem::replace(&mut done[at], true) {
                continue;
            }
            for (to, rel) in self.graph.out(node).filter(|(_, rel)| rels.has(*rel)) {
                let to_layer = if layered { next_layer(layer, rel) } else { Some(0) };
                let Some(to_layer) = to_layer else { continue };
                let reached = &mut before[state(to, to_layer)];
                if *reached == 0 {
                    *reached = (at as u64 + 1) << u8::BITS | u64::from(rel.number());
                    // Auxiliary nodes cost nothing, so they go first.
                    if to < self.real {
                        next.push_back((to, to_layer));
                    } else {
                        next.push_front((to, to_layer));
                    }
                }
            }
            if before[goal] != 0 {
                break;
            }
        }
        let start = state(from.0, from.1);
        let mut path = Vec::new();
        let mut at = goal;
        loop {
            let reached = before[at];
            let Some(previous) = (reached >> u8::BITS).checked_sub(1) else { return Ok(None) };
            path.push(((previous >> 1) as u32, Rel::numbered(reached as u8)));
            at = previous as usize;
            if at == start {
                break;
            }
        }
        path.reverse();
        Ok(Some(path))
    }

    /// Leaves auxiliary nodes out of a cycle that starts at a transaction: what leads to them leads
    /// on to the next transaction.
    fn without_auxiliary(&self, mut cycle: Path) -> Path {
        cycle.retain(|&(node, _)| node < self.real);
        cycle
    }
}

/// The layer an edge leads to, if it can be taken there.
fn next_layer(layer: u32, rel: Rel) -> Option<u32> {
    match (layer, rel) {
        (0, Rel::RW) => Some(1),
        (_, Rel::RW) if planted(Bug::AdjacentAllowed) => Some(1),
        (_, Rel::RW) => None,
        (layer, Rel::ON) => Some(layer),
        _ => Some(0),
    }
}

/// The shorter of two cycles, the first of equal ones.
fn shorter(one: Option<Path>, other: Option<Path>) -> Option<Path> {
    one.into_iter().chain(other).min_by_key(Vec::len)
}

/// A cycle that meets a transaction twice is two cycles, one of which has no two rw in a row if the
/// whole has none: if both joints of one were rw, those of the other are not (Lemma S2).
fn simple(mut cycle: Path) -> Path {
    while let Some((from, to)) = repetition(&cycle) {
        let inner: Path = cycle.drain(from..to).collect();
        let good = |part: &Path| Kind::of(part) != Kind::G2;
        let has_rw = |part: &Path| part.iter().any(|(_, rel)| *rel == Rel::RW);
        cycle = [inner, cycle]
            .into_iter()
            .filter(good)
            .min_by_key(|part| (Reverse(has_rw(part)), part.len()))
            .unwrap_or_default();
    }
    cycle
}

/// Two places of a cycle at which the same transaction stands.
fn repetition(cycle: &Path) -> Option<(usize, usize)> {
    let mut places: FxHashMap<u32, usize> = FxHashMap::default();
    cycle.iter().enumerate().find_map(|(at, (node, _))| Some((places.insert(*node, at)?, at)))
}

/// The order a search goes along.
#[derive(Debug, Clone, Copy)]
struct Order {
    rels: Rels,
    kind: OrderKind,
}

impl Order {
    fn is_implied(self, kind: Kind, found: &[Cycle]) -> bool {
        found.iter().any(|cycle| level::implies(cycle.name, kind.name(self.kind)))
    }
}

/// A cycle's kind by its relations alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    G0,
    G1c,
    Single,
    Nonadjacent,
    G2,
}

impl Kind {
    fn of(cycle: &[(u32, Rel)]) -> Self {
        let is_rw = |at: usize| cycle[at % cycle.len()].1 == Rel::RW;
        match (0..cycle.len()).filter(|&at| is_rw(at)).count() {
            0 if cycle.iter().any(|(_, rel)| *rel == Rel::WR) => Self::G1c,
            0 => Self::G0,
            1 => Self::Single,
            _ if (0..cycle.len()).any(|at| is_rw(at) && is_rw(at + 1)) => Self::G2,
            _ => Self::Nonadjacent,
        }
    }

    const fn name(self, order: OrderKind) -> &'static str {
        match (self, order) {
            (Self::G0, OrderKind::Data) => "G0",
            (Self::G0, OrderKind::Process) => "G0-process",
            (Self::G0, OrderKind::RealTime) => "G0-realtime",
            (Self::G1c, OrderKind::Data) => "G1c",
            (Self::G1c, OrderKind::Process) => "G1c-process",
            (Self::G1c, OrderKind::RealTime) => "G1c-realtime",
            (Self::Single, OrderKind::Data) => "G-single-item",
            (Self::Single, OrderKind::Process) => "G-single-item-process",
            (Self::Single, OrderKind::RealTime) => "G-single-item-realtime",
            (Self::Nonadjacent, OrderKind::Data) => "G-nonadjacent-item",
            (Self::Nonadjacent, OrderKind::Process) => "G-nonadjacent-item-process",
            (Self::Nonadjacent, OrderKind::RealTime) => "G-nonadjacent-item-realtime",
            (Self::G2, OrderKind::Data) => "G2-item",
            (Self::G2, OrderKind::Process) => "G2-item-process",
            (Self::G2, OrderKind::RealTime) => "G2-item-realtime",
        }
    }
}
