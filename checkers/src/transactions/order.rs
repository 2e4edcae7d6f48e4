//! The order of time and of processes, as edges.

use deposed_history::Process;
use rustc_hash::FxHashMap;

use super::graph::{Edges, Rel};
use super::interner::NONE;
use super::level::OrderKind;
use super::planted::{Bug, planted};
use super::txns::Txns;
use crate::Budget;
use crate::budget::{Exhausted, Held};

/// When a transaction ran, and in which process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    /// Its node.
    pub(crate) node: u32,
    /// Position of its invocation.
    pub(crate) invoke: u32,
    /// Position of its return; [`NONE`] if it may still take effect.
    pub(crate) ret: u32,
    pub(crate) process: Process,
}

impl Span {
    /// That of a transaction.
    pub(crate) fn of(txns: &Txns<'_>, txn: u32, node: u32) -> Self {
        let call = txns.call(txn);
        let ends = txns.is_acknowledged(txn) || planted(Bug::OpenEnds);
        let ret = call.complete.filter(|_| ends).unwrap_or(NONE);
        let process = txns.history.op(call.invoke).process();
        Self { node, invoke: call.invoke, ret, process }
    }
}

/// An order between transactions, ready to be added to a graph.
#[derive(Debug)]
pub(crate) enum Order {
    /// None.
    Data,
    Process(Processes),
    RealTime(RealTime),
}

impl Order {
    /// The order of transactions that come in the order of their invocations, which is that of their
    /// nodes. All nodes are below `nodes`.
    ///
    /// # Errors
    /// If it has no room.
    pub(crate) fn of(
        kind: OrderKind,
        spans: impl Iterator<Item = Span> + Clone,
        nodes: usize,
        budget: &Budget,
    ) -> Result<Self, Exhausted> {
        Ok(match kind {
            OrderKind::Data => Self::Data,
            OrderKind::Process => Self::Process(Processes::of(spans, nodes, budget)?),
            OrderKind::RealTime => Self::RealTime(RealTime::of(spans, nodes, budget)?),
        })
    }

    /// Adds its edges. Auxiliary nodes are numbered from `nodes`; returns how many nodes there are
    /// then.
    pub(crate) fn add_edges(&self, nodes: u32, edges: &mut Edges<'_>) -> u32 {
        match self {
            Self::Data => nodes,
            Self::Process(order) => {
                order.add_edges(edges);
                nodes
            }
            Self::RealTime(order) => order.add_edges(nodes, edges),
        }
    }
}

/// A chain for each process. Whether a transaction without a return took effect before the next
/// one of its process is not known, so nothing follows from it.
#[derive(Debug)]
pub(crate) struct Processes {
    /// By node: the transaction before it, or [`NONE`].
    before: Vec<u32>,
    /// The memory it takes.
    #[expect(dead_code, reason = "it is given back when this is dropped")]
    held: Held,
}

impl Processes {
    fn of(
        spans: impl Iterator<Item = Span>,
        nodes: usize,
        budget: &Budget,
    ) -> Result<Self, Exhausted> {
        let held = budget.hold(4 * nodes as u64)?;
        let mut last: FxHashMap<Process, u32> = FxHashMap::default();
        let mut before = vec![NONE; nodes];
        for span in spans.filter(|_| !planted(Bug::ProcessesForgotten)) {
            before[span.node as usize] = last.get(&span.process).copied().unwrap_or(NONE);
            if span.ret != NONE {
                last.insert(span.process, span.node);
            }
        }
        Ok(Self { before, held })
    }

    fn add_edges(&self, edges: &mut Edges<'_>) {
        let known = (0..).zip(&self.before).filter(|&(_, &before)| before != NONE);
        known.for_each(|(node, &before)| edges.push(before, node, Rel::ORDER));
    }
}

/// One chain of barriers through all of time: a barrier after each run of returns. A return leads
/// to its barrier, and the last barrier to an invocation: fewer than three edges a transaction.
#[derive(Debug)]
pub(crate) struct RealTime {
    /// By node: the barrier that its return leads to, [`OPEN`] if it has none; or [`ABSENT`].
    barriers: Vec<u32>,
    /// By barrier: the node of the first transaction that is invoked after it.
    first: Vec<u32>,
    /// The memory it takes.
    #[expect(dead_code, reason = "it is given back when this is dropped")]
    held: Held,
}

/// In the place of the barrier of a transaction that has no return.
const OPEN: u32 = NONE;

/// In the place of the barrier of a node that is not part of the order.
const ABSENT: u32 = NONE - 1;

impl RealTime {
    fn of(
        spans: impl Iterator<Item = Span> + Clone,
        nodes: usize,
        budget: &Budget,
    ) -> Result<Self, Exhausted> {
        let events = Events::of(spans, budget)?;
        // There are no more barriers than returns.
        let held = budget.hold(8 * nodes as u64)?;
        let mut barriers = vec![ABSENT; nodes];
        let mut first: Vec<u32> = Vec::new();
        let mut next = 0;
        let mut in_returns = false;
        for &event in events.list.iter().filter(|&&event| event != NONE) {
            if event & RETURN == 0 {
                in_returns = planted(Bug::BarrierTooLate) && in_returns;
                barriers[event as usize] = OPEN;
                next = event + 1;
                continue;
            }
            let shared = in_returns || !first.is_empty() && planted(Bug::BarrierTooEarly);
            if !shared {
                in_returns = true;
                first.push(next);
            }
            barriers[(event & !RETURN) as usize] = first.len() as u32 - 1;
        }
        Ok(Self { barriers, first, held })
    }

    /// The barriers are numbered from `nodes`.
    fn add_edges(&self, nodes: u32, edges: &mut Edges<'_>) -> u32 {
        let returns = (0..).zip(&self.barriers).filter(|&(_, &barrier)| barrier < ABSENT);
        returns.for_each(|(node, barrier)| edges.push(node, nodes + barrier, Rel::ORDER));
        let mut ends = self.first.iter().copied().skip(1);
        for (barrier, &first) in (nodes..).zip(&self.first) {
            let next = ends.next();
            for node in first..next.unwrap_or(self.barriers.len() as u32) {
                if self.barriers[node as usize] != ABSENT {
                    edges.push(barrier, node, Rel::ORDER);
                }
            }
            if next.is_some() {
                edges.push(barrier, barrier + 1, Rel::ORDER);
            }
        }
        nodes + self.first.len() as u32
    }
}

/// Invocations and returns in their order.
struct Events {
    /// Nodes, with the bit [`RETURN`] for their returns; and [`NONE`] where nothing is.
    list: Vec<u32>,
    /// The memory it takes.
    #[expect(dead_code, reason = "it is given back when this is dropped")]
    held: Held,
}

const RETURN: u32 = 1 << 31;

impl Events {
    /// Above as many positions an event, sorting is cheaper than a table of positions.
    const POSITIONS_PER_EVENT_MAX: usize = 16;

    fn of(spans: impl Iterator<Item = Span> + Clone, budget: &Budget) -> Result<Self, Exhausted> {
        let ends = |span: Span| [(span.invoke, span.node), (span.ret, span.node | RETURN)];
        let all = || spans.clone().flat_map(ends).filter(|&(position, _)| position != NONE);
        let (mut count, mut length) = (0, 0);
        for (position, _) in all() {
            count += 1;
            length = length.max(position as usize + 1);
        }
        if length > Self::POSITIONS_PER_EVENT_MAX * count {
            let held = budget.hold((count * size_of::<(u32, u32)>()) as u64)?;
            let mut sorted: Vec<(u32, u32)> = Vec::with_capacity(count);
            sorted.extend(all());
            sorted.sort_unstable();
            return Ok(Self { list: sorted.into_iter().map(|(_, event)| event).collect(), held });
        }
        let held = budget.hold((length * size_of::<u32>()) as u64)?;
        let mut list = vec![NONE; length];
        all().for_each(|(position, event)| list[position as usize] = event);
        Ok(Self { list, held })
    }
}
