//! The order of time and of processes, as edges.

use deposed_history::Process;
use rustc_hash::FxHashMap;

use super::graph::{Edges, Rel};
use super::interner::NONE;
use super::level::OrderKind;
use super::planted::{Bug, planted};
use super::txns::Txns;

/// When transactions ran, and in which processes.
pub(crate) trait Times {
    /// How many there are. They are numbered in the order of their invocations.
    fn count(&self) -> u32;

    /// Position of an invocation.
    fn invoke(&self, txn: u32) -> u32;

    /// Position of a return; [`NONE`] if the transaction may still take effect.
    fn ret(&self, txn: u32) -> u32;

    fn process(&self, txn: u32) -> Process;
}

/// When a transaction ran, and in which process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) invoke: u32,
    pub(crate) ret: u32,
    pub(crate) process: Process,
}

impl Span {
    /// That of a transaction.
    pub(crate) fn of(txns: &Txns<'_>, txn: u32) -> Self {
        Self { invoke: txns.invoke(txn), ret: txns.ret(txn), process: txns.process(txn) }
    }
}

impl Times for [Span] {
    fn count(&self) -> u32 {
        self.len() as u32
    }

    fn invoke(&self, txn: u32) -> u32 {
        self[txn as usize].invoke
    }

    fn ret(&self, txn: u32) -> u32 {
        self[txn as usize].ret
    }

    fn process(&self, txn: u32) -> Process {
        self[txn as usize].process
    }
}

impl Times for Txns<'_> {
    fn count(&self) -> u32 {
        self.len() as u32
    }

    #[inline]
    fn invoke(&self, txn: u32) -> u32 {
        self.call(txn).invoke
    }

    #[inline]
    fn ret(&self, txn: u32) -> u32 {
        let ends = self.is_acknowledged(txn) || planted(Bug::OpenEnds);
        self.call(txn).complete().filter(|_| ends).unwrap_or(NONE)
    }

    fn process(&self, txn: u32) -> Process {
        self.history.op(self.call(txn).invoke).process()
    }
}

/// Adds the edges of an order between transactions, whose nodes are their numbers. Auxiliary nodes are
/// numbered from `nodes`, after all others; returns how many nodes there are then.
pub(crate) fn add_order(
    kind: OrderKind,
    times: &(impl Times + ?Sized),
    nodes: u32,
    edges: &mut Edges<'_>,
) -> u32 {
    match kind {
        OrderKind::Data => nodes,
        OrderKind::Process => {
            add_processes(times, edges);
            nodes
        }
        OrderKind::RealTime => add_real_time(times, nodes, edges),
    }
}

/// A chain for each process. Whether a transaction without a return took effect before the next
/// one of its process is not known, so nothing follows from it.
fn add_processes(times: &(impl Times + ?Sized), edges: &mut Edges<'_>) {
    let mut last: FxHashMap<Process, u32> = FxHashMap::default();
    for txn in 0..times.count() {
        let process = times.process(txn);
        if let Some(&before) = last.get(&process).filter(|_| !planted(Bug::ProcessesForgotten)) {
            edges.push(before, txn, Rel::ORDER);
        }
        if times.ret(txn) != NONE {
            last.insert(process, txn);
        }
    }
}

/// A chain of the invocations, each of which leads to its transaction: a transaction leads to the first
/// invocation after its return, and so to all of them.
fn add_real_time(times: &(impl Times + ?Sized), nodes: u32, edges: &mut Edges<'_>) -> u32 {
    let count = times.count();
    let last = count.checked_sub(1).map_or(0, |last| times.invoke(last));
    for txn in (0..count).filter(|&txn| times.ret(txn) < last) {
        let next = || match first_after(times, txn) {
            next if planted(Bug::ReturnTooEarly) => (next - 1).max(txn + 1),
            next if planted(Bug::ReturnTooLate) => (next + 1).min(count - 1),
            next => next,
        };
        edges.push_to(txn, || nodes + next(), Rel::ORDER);
    }
    edges.add_chain(nodes, count)
}

/// The first transaction that was invoked after another one returned, or how many there are. It is not
/// far, so steps from there grow until one goes too far.
fn first_after(times: &(impl Times + ?Sized), txn: u32) -> u32 {
    let (count, ret) = (times.count(), times.ret(txn));
    let is_before = |other: u32| other < count && times.invoke(other) < ret;
    let (mut before, mut step) = (txn, 1);
    while is_before(before + step) {
        before += step;
        step *= 2;
    }
    let mut after = (before + step).min(count);
    while after - before > 1 {
        let middle = before + (after - before) / 2;
        if is_before(middle) { before = middle } else { after = middle }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever else is at it, the first invocation after a return is found.
    #[test]
    fn the_first_invocation_after_a_return() {
        for open in 1..40u32 {
            // Transaction `n` returns before the invocation of number `n + open`.
            let spans: Vec<Span> = (0..100)
                .map(|n| Span {
                    invoke: 2 * n,
                    ret: 2 * (n + open) - 1,
                    process: Process::Client(n),
                })
                .collect();
            for txn in 0..100 {
                assert_eq!(first_after(&spans[..], txn), (txn + open).min(100), "{open}");
            }
        }
    }
}
