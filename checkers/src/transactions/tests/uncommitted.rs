//! Read uncommitted by brute force: every order of transactions is tried, and every choice of
//! indeterminate ones that happened.
//!
//! Adya's PL-1 forbids G0 alone: the writes of two transactions do not interleave, so there is an order of all
//! transactions in which each key was written. Reads may see what was not committed, so what they show
//! of an indeterminate transaction does not prove that it happened. But nothing is read that nobody
//! wrote, or twice; and what was appended by a transaction that happened is in a list from then on.

use std::collections::HashSet;

use deposed_history::OpType;

use super::oracle::{Mop, Small, Txn, permutations, written};
use super::phenomena::is_before;
use crate::transactions::level::OrderKind;

impl Small {
    /// Whether there is such an order. `None` if two reads of a list disagree about transactions that
    /// happened: that is named `incompatible-order`, and taken for a G1a, which is not forbidden.
    pub(super) fn is_uncommitted(&self, order: OrderKind) -> Option<bool> {
        let reads = || {
            let acknowledged = self.txns.iter().filter(|txn| txn.kind == OpType::Ok);
            acknowledged.flat_map(|txn| &txn.mops).filter(|mop| mop.write.is_none())
        };
        let anybody: HashSet<(usize, i64)> = self.txns.iter().flat_map(writes).collect();
        let possible = |mop: &Mop| {
            let once: HashSet<i64> = mop.read.iter().copied().collect();
            once.len() == mop.read.len() && once.iter().all(|&v| anybody.contains(&(mop.key, v)))
        };
        if !reads().all(possible) {
            return Some(false);
        }
        let (sure, open): (Vec<&Txn>, Vec<&Txn>) = self
            .txns
            .iter()
            .filter(|txn| txn.kind != OpType::Fail)
            .partition(|txn| txn.kind == OpType::Ok);
        let mut explained = false;
        for set in 0..1u32 << open.len() {
            let happened = (0..).zip(&open).filter(|(at, _)| set >> at & 1 == 1);
            let txns: Vec<&Txn> = sure.iter().copied().chain(happened.map(|(_, t)| *t)).collect();
            let known: HashSet<(usize, i64)> = txns.iter().copied().flat_map(writes).collect();
            permutations(txns.len(), &mut Vec::new(), &mut |places| {
                let in_time = (0..places.len()).all(|to| {
                    (0..to).all(|from| !is_before(&txns, places[to], places[from], order))
                });
                explained = explained
                    || in_time
                        && (!self.append
                            || reads().all(|mop| {
                                let all = places.iter().flat_map(|&at| written(txns[at], mop.key));
                                let mut all = all.collect::<Vec<i64>>();
                                let shown = only(mop, &known);
                                all.truncate(shown.len());
                                all == shown
                            }));
            });
        }
        let known: HashSet<(usize, i64)> = sure.iter().copied().flat_map(writes).collect();
        let agree = |one: &Mop, other: &Mop| {
            let (one, other) = (only(one, &known), only(other, &known));
            one.starts_with(&other) || other.starts_with(&one)
        };
        let mut pairs = reads().flat_map(|one| reads().map(move |other| (one, other)));
        let agreed = pairs.all(|(one, other)| one.key != other.key || agree(one, other));
        (explained || !self.append || agreed).then_some(explained)
    }
}

/// What a transaction wrote, by key.
fn writes(txn: &Txn) -> impl Iterator<Item = (usize, i64)> + '_ {
    txn.mops.iter().filter_map(|mop| Some((mop.key, mop.write?)))
}

/// What a read shows of some writes.
fn only(mop: &Mop, known: &HashSet<(usize, i64)>) -> Vec<i64> {
    mop.read.iter().copied().filter(|&value| known.contains(&(mop.key, value))).collect()
}
