//! Queues whose values are enqueued once need no search.
//!
//! After Henzinger, Sezgin & Vafeiadis, "Aspect-oriented linearizability proofs" (CONCUR 2013): such a
//! history is linearizable unless a value comes from nowhere, comes out twice, overtakes another, or
//! the queue is found empty while something was certainly in it. O(n log n).

use deposed_history::Value;
use rustc_hash::FxHashMap;

use super::NEVER;
use super::case::Kept;
use super::models::QueueOp;
use super::planted::{Bug, planted};

/// What can be said of a history without a search.
#[derive(Debug)]
pub(crate) enum Shortcut {
    /// It has a legal order.
    Legal,
    /// It has none: the name of what is wrong, and the calls that prove it, by index, ascending.
    Illegal(&'static str, Vec<usize>),
    /// Only a search can tell.
    Undecided,
}

/// A value on its way: the call that enqueued it and the one that got it.
#[derive(Debug, Clone, Copy)]
struct Passage {
    enqueue: usize,
    dequeue: Option<usize>,
    /// Times of the calls; of a dequeue that did not happen they never come.
    enqueued: (u32, u32),
    dequeued: (u32, u32),
}

/// Judges the calls on one queue, which are in the order of their invocations.
pub(crate) fn aspects(kept: &[Kept<QueueOp>]) -> Shortcut {
    match violation(kept) {
        Err(Repeats) => Shortcut::Undecided,
        Ok(None) => Shortcut::Legal,
        // A dequeue of which nobody knows what it got may have got what is in the way.
        Ok(Some(_)) if kept.iter().any(|kept| kept.op == QueueOp::DequeueSomething) => {
            Shortcut::Undecided
        }
        Ok(Some((name, mut calls))) => {
            calls.sort_unstable();
            calls.dedup();
            Shortcut::Illegal(name, calls)
        }
    }
}

/// Some value was enqueued twice.
struct Repeats;

type Found = Option<(&'static str, Vec<usize>)>;

fn violation(kept: &[Kept<QueueOp>]) -> Result<Found, Repeats> {
    let mut passages: Vec<Passage> = Vec::new();
    let mut by_value: FxHashMap<&Value, usize> = FxHashMap::default();
    for (index, call) in kept.iter().enumerate() {
        let QueueOp::Enqueue(v) = &call.op else { continue };
        if by_value.insert(v, passages.len()).is_some() {
            return Err(Repeats);
        }
        let enqueued = (call.inv, call.ret);
        passages.push(Passage {
            enqueue: index,
            dequeue: None,
            enqueued,
            dequeued: (NEVER, NEVER),
        });
    }
    for (index, call) in kept.iter().enumerate() {
        let QueueOp::Dequeue(v) = &call.op else { continue };
        let Some(passage) = by_value.get(v).map(|at| &mut passages[*at]) else {
            return Ok(Some(("dequeue-of-unknown-value", vec![index])));
        };
        if let Some(first) = passage.dequeue {
            return Ok(Some(("duplicate-dequeue", vec![passage.enqueue, first, index])));
        }
        if call.ret < passage.enqueued.0 {
            return Ok(Some(("future-dequeue", vec![passage.enqueue, index])));
        }
        passage.dequeue = Some(index);
        passage.dequeued = (call.inv, call.ret);
    }
    // An enqueue that may not have happened, and whose value nobody got, did not.
    passages.retain(|p| p.dequeue.is_some() || p.enqueued.1 != NEVER);
    Ok(overtaking(&passages).or_else(|| false_empty(kept, &passages)))
}

/// A value that was enqueued wholly after another one, and came out wholly before it.
fn overtaking(passages: &[Passage]) -> Found {
    let mut by_return: Vec<&Passage> = passages.iter().collect();
    by_return.sort_unstable_by_key(|p| p.enqueued.1);
    let mut earlier = by_return.into_iter().peekable();
    let mut last_out: Option<&Passage> = None;
    // Passages are in the order of their enqueues' invocations.
    for late in passages.iter().filter(|p| p.dequeue.is_some()) {
        while let Some(p) = earlier.next_if(|p| p.enqueued.1 < late.enqueued.0) {
            if last_out.is_none_or(|last| p.dequeued.0 > last.dequeued.0) {
                last_out = Some(p);
            }
        }
        if planted(Bug::OvertakingIgnored) {
            return None;
        }
        if let Some(early) = last_out.filter(|early| early.dequeued.0 > late.dequeued.1) {
            let calls = [Some(early.enqueue), Some(late.enqueue), late.dequeue, early.dequeue];
            return Some(("out-of-order", calls.into_iter().flatten().collect()));
        }
    }
    None
}

/// A queue that was found empty although at every moment something was certainly in it: enqueued
/// already, and its dequeue not even invoked.
fn false_empty(kept: &[Kept<QueueOp>], passages: &[Passage]) -> Found {
    let mut inside: Vec<&Passage> =
        passages.iter().filter(|p| p.enqueued.1 < p.dequeued.0).collect();
    inside.sort_unstable_by_key(|p| p.enqueued.1);
    // Overlapping stays, merged: first and last time, and which of `inside`.
    let mut merged: Vec<(u32, u32, std::ops::Range<usize>)> = Vec::new();
    for (at, p) in inside.iter().enumerate() {
        let (from, to) = (p.enqueued.1, p.dequeued.0);
        match merged.last_mut().filter(|last| from < last.1) {
            Some(last) => {
                last.1 = last.1.max(to);
                last.2.end = at + 1;
            }
            None => merged.push((from, to, at..at + 1)),
        }
    }
    for (index, call) in kept.iter().enumerate().filter(|(_, k)| k.op == QueueOp::FindEmpty) {
        let before = merged.partition_point(|stay| stay.0 < call.inv);
        let Some(stay) = before.checked_sub(1).map(|at| &merged[at]) else { continue };
        if stay.1 > call.ret && !planted(Bug::FalseEmptyIgnored) {
            let mut calls = vec![index];
            // The few of them that reach furthest, one after the other.
            let mut reached = call.inv;
            while reached < call.ret {
                let next = inside[stay.2.clone()]
                    .iter()
                    .filter(|p| p.enqueued.1 <= reached)
                    .max_by_key(|p| p.dequeued.0)?;
                calls.push(next.enqueue);
                calls.extend(next.dequeue);
                if next.dequeued.0 <= reached {
                    return None;
                }
                reached = next.dequeued.0;
            }
            return Some(("false-empty", calls));
        }
    }
    None
}
