//! Tries all orders of a few transactions: the last word of the verifier.
//!
//! Reads of values that none of them wrote say nothing here and are left out, and so are other
//! transactions' elements in lists that were read.

use deposed_history::{Process, ValueRef};
use rustc_hash::{FxHashMap, FxHashSet};

use super::isolation::Isolation;
use super::level::OrderKind;
use super::verify::{RawMop, Workload};

/// States that are looked at.
const STATES_MAX: usize = 1 << 20;

/// Transactions that are looked at: their set is one word.
const TXNS_MAX: usize = 64;

/// A transaction as it stands in the history.
pub(crate) struct RawTxn<'h> {
    pub(crate) mops: Vec<RawMop<'h>>,
    pub(crate) invoke: u32,
    /// Position of its return; `None` if it may still take effect.
    pub(crate) complete: Option<u32>,
    pub(crate) process: Process,
}

/// What keys hold: numbers of values, oldest first; of a register only the last.
type State = Vec<Vec<u32>>;

struct Small {
    /// Keys and what they must hold when the transaction starts.
    expects: Vec<(usize, Vec<u32>)>,
    writes: Vec<(usize, u32)>,
    /// Those that must come before.
    after: u64,
}

/// Whether some order explains all reads; `None` if there are too many orders. Of each pair of
/// invocations in `known`, the first one's transaction has to commit before the second one's starts.
pub(crate) fn is_explained(
    txns: &[RawTxn<'_>],
    known: &[(u32, u32)],
    workload: Workload,
    isolation: Isolation,
    order: OrderKind,
) -> Option<bool> {
    if txns.is_empty() || txns.len() > TXNS_MAX {
        return txns.is_empty().then_some(true);
    }
    let (mut small, keys) = reduce(txns, workload, order);
    for (small, txn) in small.iter_mut().zip(txns) {
        for (other, before) in txns.iter().enumerate() {
            if known.contains(&(before.invoke, txn.invoke)) {
                small.after |= 1 << other;
            }
        }
    }
    let start = (0u64, 0u64, vec![Vec::new(); keys]);
    let all = (1u64 << (txns.len() - 1) << 1).wrapping_sub(1);
    let mut seen: FxHashSet<(u64, u64, State)> = FxHashSet::default();
    let mut next = vec![start];
    // The events are starts and commits; one after the other, the one follows right on the other.
    while let Some((started, committed, state)) = next.pop() {
        if committed == all {
            return Some(true);
        }
        if !seen.insert((started, committed, state.clone())) {
            continue;
        }
        if seen.len() > STATES_MAX {
            return None;
        }
        for (number, txn) in small.iter().enumerate() {
            let bit = 1 << number;
            let open = started & !committed;
            if started & bit == 0 {
                let alone = isolation == Isolation::Snapshot || open == 0;
                let fits = txn.expects.iter().all(|(key, holds)| state[*key] == *holds);
                if alone && fits && txn.after & !committed == 0 {
                    next.push((started | bit, committed, state.clone()));
                }
            } else if open & bit != 0 {
                let rivals = (0..small.len()).filter(|&o| o != number && open & (1 << o) != 0);
                let mut rivals = rivals.flat_map(|other| &small[other].writes);
                if rivals.any(|(key, _)| txn.writes.iter().any(|(own, _)| own == key)) {
                    continue;
                }
                let mut after = state.clone();
                for &(key, value) in &txn.writes {
                    if workload == Workload::Register {
                        after[key].clear();
                    }
                    after[key].push(value);
                }
                next.push((started, committed | bit, after));
            }
        }
    }
    Some(false)
}

/// The transactions with numbers for keys and values, and how many keys there are.
fn reduce(txns: &[RawTxn<'_>], workload: Workload, order: OrderKind) -> (Vec<Small>, usize) {
    let mut keys: FxHashMap<ValueRef<'_>, usize> = FxHashMap::default();
    let mut values: FxHashMap<(usize, ValueRef<'_>), u32> = FxHashMap::default();
    for (f, key, value) in txns.iter().flat_map(|txn| &txn.mops) {
        let count = keys.len();
        let key = *keys.entry(*key).or_insert(count);
        if *f == workload.write() {
            let count = values.len() as u32;
            values.entry((key, *value)).or_insert(count);
        }
    }
    let small = |txn: &RawTxn<'_>| {
        let mut small = Small { expects: Vec::new(), writes: Vec::new(), after: 0 };
        for (f, key, value) in &txn.mops {
            let key = keys[key];
            if *f == workload.write() {
                small.writes.push((key, values[&(key, *value)]));
                continue;
            }
            let own = small.writes.iter().any(|&(own, _)| own == key);
            // Only a transaction that returned has reads.
            if own || txn.complete.is_none() {
                continue;
            }
            let holds: Vec<u32> = match (workload, value) {
                (Workload::Append, ValueRef::List(list)) => {
                    list.iter().filter_map(|v| values.get(&(key, v)).copied()).collect()
                }
                (_, ValueRef::Nil) => Vec::new(),
                (_, value) => match values.get(&(key, *value)) {
                    Some(&value) => vec![value],
                    None => continue,
                },
            };
            small.expects.push((key, holds));
        }
        for (other, before) in txns.iter().enumerate() {
            let ended = before.complete.is_some_and(|complete| complete < txn.invoke);
            let ordered = match order {
                OrderKind::Data => false,
                OrderKind::Process => before.process == txn.process,
                OrderKind::RealTime => true,
            };
            if ended && ordered {
                small.after |= 1 << other;
            }
        }
        small
    };
    (txns.iter().map(small).collect(), keys.len())
}
