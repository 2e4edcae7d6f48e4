//! Cycles among transactions, by the name of the anomaly they are.
//!
//! Each strongly connected component of the whole graph is searched for the worst kinds first, and
//! not for kinds that those found imply. Whether a kind is there is decided by components of parts of
//! the graph, and reachability, so no search can time out; one short cycle is then shown.
//!
//! For snapshot isolation the component is laid out in two layers: an edge rw leads from layer 0 to
//! layer 1, and every other edge from either to layer 0. A cycle of that graph is one in which no two
//! rw follow each other (Cerone & Gotsman, PODC 2016).

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use super::graph::{Components, Edges, Graph, Rel, Rels};
use super::level::{self, OrderKind};
use super::planted::{Bug, planted};
use super::reach;
use crate::budget::{Budget, Exhausted};

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
) -> Result<Cycles, Exhausted> {
    budget.check()?;
    let all = Rels::DATA.with(Rel::ORDER);
    let components = graph.components(all);
    let mut cycles = Cycles::default();
    if components.is_acyclic() {
        return Ok(cycles);
    }
    let mut number = vec![0; graph.nodes()];
    let mut shown: BTreeMap<&'static str, Vec<Cycle>> = BTreeMap::new();
    for members in components.cyclic() {
        budget.check()?;
        let part = Part {
            graph: graph.inside(&members, &mut number, &components),
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
    fn search(&self, order: OrderKind) -> Result<Vec<Cycle>, Exhausted> {
        let mut found: Vec<Cycle> = Vec::new();
        self.search_over(Order { rels: Rels(0), kind: OrderKind::Data }, &mut found)?;
        if order != OrderKind::Data {
            self.search_over(Order { rels: Rel::ORDER.set(), kind: order }, &mut found)?;
        }
        Ok(found)
    }

    /// Searches for all kinds over the data and an order, worst first.
    fn search_over(&self, order: Order, found: &mut Vec<Cycle>) -> Result<(), Exhausted> {
        for (base, rels) in [(Kind::G0, Rels::WW), (Kind::G1c, Rels::FLOW)] {
            if !order.is_implied(base, found) {
                let cycle = self.through_any_node(rels.and(order.rels));
                self.add(cycle, order, found);
            }
        }
        // What implies a single rw implies any number of them that are not adjacent.
        if !order.is_implied(Kind::Single, found) {
            let layered = self.layered(order.rels);
            let rw: Vec<(u32, u32)> =
                self.rw_edges().filter(|&(a, b)| layered.same(a << 1, b << 1 | 1)).collect();
            let flow = Rels::FLOW.and(order.rels);
            let single = reach::joined(&self.graph, flow, &rw, STARTS_MAX, self.budget)?;
            let cycle = if !single.is_empty() {
                let rw: Vec<(u32, u32)> = single.into_iter().map(|i| rw[i]).collect();
                self.through_edges(&rw, flow, false)
            } else if !order.is_implied(Kind::Nonadjacent, found) && !planted(Bug::OnlySingles) {
                self.through_edges(&rw, Rels::DATA.and(order.rels), true)
            } else {
                None
            };
            self.add(cycle, order, found);
        }
        if !order.is_implied(Kind::G2, found) {
            let rels = Rels::DATA.and(order.rels);
            let components = self.graph.components(rels);
            let rw: Vec<(u32, u32)> =
                self.rw_edges().filter(|&(a, b)| components.same(a, b)).collect();
            let cycle = self.through_edges(&rw, rels, false);
            self.add(cycle, order, found);
        }
        Ok(())
    }

    fn add(&self, cycle: Option<Path>, order: Order, found: &mut Vec<Cycle>) {
        let Some(path) = cycle else { return };
        let steps: Vec<(u32, Rel)> =
            path.into_iter().map(|(node, rel)| (self.members[node as usize], rel)).collect();
        let kind = Kind::of(&steps);
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

    /// The components of the two layers: node `n` is `2n` in layer 0 and `2n + 1` in layer 1.
    fn layered(&self, order: Rels) -> Components {
        let rels = Rels::DATA.and(order);
        let mut edges = Edges::default();
        for from in 0..self.graph.nodes() as u32 {
            for (to, rel) in self.graph.out(from).filter(|(_, rel)| rels.has(*rel)) {
                for layer in 0..2 {
                    if let Some(next) = next_layer(layer, rel) {
                        edges.push(from << 1 | layer, to << 1 | next, rel);
                    }
                }
            }
        }
        edges.into_graph(2 * self.graph.nodes()).components(rels)
    }

    /// A short cycle over some relations, if there is one.
    fn through_any_node(&self, rels: Rels) -> Option<Path> {
        let components = self.graph.components(rels);
        let smallest = components.cyclic().into_iter().min_by_key(Vec::len)?;
        let mut starts: Vec<u32> = smallest.into_iter().filter(|&node| node < self.real).collect();
        starts.sort_by_key(|&node| self.degree(node));
        starts.truncate(STARTS_MAX);
        let cycles = starts.into_iter().filter_map(|node| self.path((node, 0), node, rels, false));
        cycles.map(|path| self.without_auxiliary(path)).min_by_key(Vec::len)
    }

    /// A short cycle through one of some edges rw, without two rw in a row if `layered`.
    fn through_edges(&self, edges: &[(u32, u32)], rels: Rels, layered: bool) -> Option<Path> {
        let mut edges = edges.to_vec();
        edges.sort_by_key(|&(a, b)| self.degree(a) + self.degree(b));
        edges.truncate(STARTS_MAX);
        let cycles = edges.into_iter().filter_map(|(a, b)| {
            let mut cycle = vec![(a, Rel::RW)];
            cycle.extend(self.path((b, u32::from(layered)), a, rels, layered)?);
            let cycle = self.without_auxiliary(cycle);
            Some(if layered { simple(cycle) } else { cycle })
        });
        cycles.min_by_key(Vec::len)
    }

    /// The path of the fewest transactions from a node, in a layer, to another one, in layer 0 if
    /// layered. From a node to itself it is a cycle, not empty.
    fn path(&self, from: (u32, u32), to: u32, rels: Rels, layered: bool) -> Option<Path> {
        const UNSEEN: u32 = u32::MAX;
        let state = |node: u32, layer: u32| (node << 1 | layer) as usize;
        let mut before = vec![(UNSEEN, Rel::ON); 2 * self.graph.nodes()];
        let mut done = vec![false; 2 * self.graph.nodes()];
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
                let reached = state(to, to_layer);
                if before[reached].0 == UNSEEN {
                    before[reached] = (at as u32, rel);
                    // Auxiliary nodes cost nothing, so they go first.
                    if to < self.real {
                        next.push_back((to, to_layer));
                    } else {
                        next.push_front((to, to_layer));
                    }
                }
            }
            if before[goal].0 != UNSEEN {
                break;
            }
        }
        let start = state(from.0, from.1);
        let mut path = Vec::new();
        let mut at = goal;
        loop {
            let (previous, rel) = before[at];
            if previous == UNSEEN {
                return None;
            }
            path.push((previous >> 1, rel));
            at = previous as usize;
            if at == start {
                break;
            }
        }
        path.reverse();
        Some(path)
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

/// A cycle that meets a transaction twice is two cycles, one of which has no two rw in a row if the
/// whole has none: if both joints of one were rw, those of the other are not.
fn simple(mut cycle: Path) -> Path {
    'again: loop {
        for from in 0..cycle.len() {
            for to in from + 1..cycle.len() {
                if cycle[from].0 == cycle[to].0 {
                    let inner: Path = cycle.drain(from..to).collect();
                    let good = |part: &Path| Kind::of(part) != Kind::G2;
                    let has_rw = |part: &Path| part.iter().any(|(_, rel)| *rel == Rel::RW);
                    cycle = [inner, cycle]
                        .into_iter()
                        .filter(good)
                        .min_by_key(|part| (Reverse(has_rw(part)), part.len()))
                        .unwrap_or_default();
                    continue 'again;
                }
            }
        }
        return cycle;
    }
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
