//! The order of time and of processes, as edges.

use deposed_history::Process;
use rustc_hash::FxHashMap;

use super::graph::{Edges, Rel};
use super::interner::NONE;
use super::level::OrderKind;
use super::txns::Txns;

/// Adds the edges of an order between committed transactions. Auxiliary nodes are numbered from
/// `nodes`; returns how many nodes there are then.
pub(crate) fn add_order(kind: OrderKind, txns: &Txns<'_>, nodes: u32, edges: &mut Edges) -> u32 {
    match kind {
        OrderKind::Data => nodes,
        OrderKind::Process => {
            add_processes(txns, edges);
            nodes
        }
        OrderKind::RealTime => add_real_time(txns, nodes, edges),
    }
}

/// A chain for each process. Whether an open transaction took effect before the next one of its
/// process is not known, so nothing follows from it.
fn add_processes(txns: &Txns<'_>, edges: &mut Edges) {
    let mut last: FxHashMap<Process, u32> = FxHashMap::default();
    for txn in (0..txns.len() as u32).filter(|&txn| txns.is_committed(txn)) {
        let process = txns.history.op(txns.invoke(txn)).process();
        if let Some(&before) = last.get(&process) {
            edges.push(before, txn, Rel::ORDER);
        }
        if txns.is_acknowledged(txn) {
            last.insert(process, txn);
        }
    }
}

/// One chain of barriers through all of time: a barrier after each run of returns. A return leads
/// to its barrier, and the last barrier to an invocation: fewer than three edges a transaction.
fn add_real_time(txns: &Txns<'_>, nodes: u32, edges: &mut Edges) -> u32 {
    const RETURN: u32 = 1 << 31;
    // By position in the history: the transaction that begins or returns there.
    let mut events = vec![NONE; txns.history.len()];
    for txn in (0..txns.len() as u32).filter(|&txn| txns.is_committed(txn)) {
        let call = txns.call(txn);
        events[call.invoke as usize] = txn;
        if let Some(complete) = call.complete.filter(|_| txns.is_acknowledged(txn)) {
            events[complete as usize] = txn | RETURN;
        }
    }
    let mut barriers = nodes;
    let mut in_returns = false;
    for event in events.into_iter().filter(|&event| event != NONE) {
        if event & RETURN == 0 {
            in_returns = false;
            if barriers > nodes {
                edges.push(barriers - 1, event, Rel::ORDER);
            }
            continue;
        }
        if !in_returns {
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
