//! The order of time and of processes, as edges.

use deposed_history::Process;
use rustc_hash::FxHashMap;

use super::graph::{Edges, Rel};
use super::interner::NONE;
use super::level::OrderKind;
use super::planted::{Bug, planted};
use super::txns::Txns;

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

/// Adds the edges of an order between transactions, which are in the order of their invocations and
/// are gone through a few times. Auxiliary nodes are numbered from `nodes`; returns how many nodes
/// there are then.
pub(crate) fn add_order(
    kind: OrderKind,
    spans: impl Iterator<Item = Span> + Clone,
    nodes: u32,
    edges: &mut Edges<'_>,
) -> u32 {
    match kind {
        OrderKind::Data => nodes,
        OrderKind::Process => {
            add_processes(spans, edges);
            nodes
        }
        OrderKind::RealTime => add_real_time(spans, nodes, edges),
    }
}

/// A chain for each process. Whether a transaction without a return took effect before the next
/// one of its process is not known, so nothing follows from it.
fn add_processes(spans: impl Iterator<Item = Span>, edges: &mut Edges<'_>) {
    let mut last: FxHashMap<Process, u32> = FxHashMap::default();
    for span in spans {
        if let Some(&before) = last.get(&span.process).filter(|_| !planted(Bug::ProcessesForgotten))
        {
            edges.push(before, span.node, Rel::ORDER);
        }
        if span.ret != NONE {
            last.insert(span.process, span.node);
        }
    }
}

const RETURN: u32 = 1 << 31;

/// One chain of barriers through all of time: a barrier after each run of returns. A return leads
/// to its barrier, and the last barrier to an invocation: fewer than three edges a transaction.
fn add_real_time(
    spans: impl Iterator<Item = Span> + Clone,
    nodes: u32,
    edges: &mut Edges<'_>,
) -> u32 {
    let mut barriers = nodes;
    let mut in_returns = false;
    for event in events(spans) {
        if event & RETURN == 0 {
            in_returns = planted(Bug::BarrierTooLate) && in_returns;
            if barriers > nodes {
                edges.push(barriers - 1, event, Rel::ORDER);
            }
            continue;
        }
        let shared = in_returns || barriers > nodes && planted(Bug::BarrierTooEarly);
        if !shared {
            in_returns = true;
            if barriers > nodes {
                edges.push(barriers - 1, barriers, Rel::ORDER);
            }
            barriers += 1;
        }
        edges.push(event & !RETURN, barriers - 1, Rel::ORDER);
    }
    barriers
}

/// Nodes in the order of their invocations and returns, the latter with the bit [`RETURN`].
fn events(spans: impl Iterator<Item = Span> + Clone) -> Vec<u32> {
    /// Above as many positions an event, sorting is cheaper than a table of positions.
    const POSITIONS_PER_EVENT_MAX: usize = 16;
    let ends = |span: Span| [(span.invoke, span.node), (span.ret, span.node | RETURN)];
    let all = || spans.clone().flat_map(ends).filter(|&(position, _)| position != NONE);
    let (mut count, mut length) = (0, 0);
    for (position, _) in all() {
        count += 1;
        length = length.max(position as usize + 1);
    }
    if length > POSITIONS_PER_EVENT_MAX * count {
        let mut sorted: Vec<(u32, u32)> = all().collect();
        sorted.sort_unstable();
        return sorted.into_iter().map(|(_, event)| event).collect();
    }
    let mut table = vec![NONE; length];
    all().for_each(|(position, event)| table[position as usize] = event);
    table.retain(|&event| event != NONE);
    table
}
