//! Session guarantees by brute force (Terry et al., "Session guarantees for weakly consistent replicated
//! data", PDIS 1994), in terms of what each transaction sees (Viotti & Vukolić, "Consistency in
//! non-transactional distributed storage systems", CSUR 2016): every order of commits is tried, and
//! every set of earlier transactions that each one can see.
//!
//! A session is a process. A transaction is asked what an operation is: it sees another one as a whole, or
//! not at all, which is more than these guarantees ask of a store.

use deposed_history::OpType;

use super::oracle::{KEYS, Mop, Small, Txn, written};
use super::phenomena::is_before;
use crate::transactions::level::OrderKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guarantee {
    /// What a session has seen, it goes on to see.
    MonotonicReads,
    /// A session's writes come in its order, wherever they are seen.
    MonotonicWrites,
    /// A session sees what it wrote.
    ReadYourWrites,
    /// A session's writes come after what it has seen, wherever they are seen.
    WritesFollowReads,
    /// Pipelined RAM: the first three.
    Pram,
    /// All four.
    Causal,
}

impl Small {
    /// Whether all reads are explained while a guarantee is kept. `None` if there are too many
    /// transactions.
    pub(super) fn is_guaranteed(&self, guarantee: Guarantee) -> Option<bool> {
        self.is_seen_if(&|txns, seen| is_kept(txns, seen, guarantee))
    }
}

impl Small {
    /// Whether a session breaks a guarantee on a single key, so that it is broken however transactions are
    /// thought of: its reads and writes of that key are looked at one by one. Of reads of a session the one that
    /// saw most counts.
    pub(super) fn is_broken_on_a_key(&self, guarantee: Guarantee) -> bool {
        let counted: Vec<&Txn> = self.txns.iter().filter(|txn| txn.kind != OpType::Fail).collect();
        let each_pair = || (0..counted.len()).flat_map(|b| (0..KEYS).map(move |key| (b, key)));
        each_pair().any(|(b, key)| {
            let before: Vec<usize> = (0..counted.len())
                .filter(|&a| is_before(&counted, a, b, OrderKind::Process))
                .collect();
            (0..counted[b].mops.len()).any(|number| {
                let mop = &counted[b].mops[number];
                mop.key == key && self.breaks(guarantee, &counted, &before, (b, number))
            })
        })
    }

    fn breaks(
        &self,
        guarantee: Guarantee,
        txns: &[&Txn],
        before: &[usize],
        (b, number): (usize, usize),
    ) -> bool {
        let Mop { key, write, read } = &txns[b].mops[number];
        let newest_of_others = |(reader, mop): &(usize, &Mop)| {
            let newest = mop.read.last().copied();
            let wrote = |txn: usize| written(txns[txn], *key).any(|value| Some(value) == newest);
            mop.write.is_none()
                && mop.key == *key
                && txns[*reader].kind == OpType::Ok
                && !wrote(*reader)
                && (0..txns.len()).any(wrote)
        };
        let of_session = before.iter().flat_map(|&a| txns[a].mops.iter().map(move |mop| (a, mop)));
        let seen_before = of_session.filter(newest_of_others).max_by_key(|(_, mop)| mop.read.len());
        let own = txns[b].mops[..number].iter().map(|mop| (b, mop));
        let own = own.filter(newest_of_others);
        let seen = seen_before.into_iter().chain(own).max_by_key(|(_, mop)| mop.read.len());
        let by_itself = |value: i64| written(txns[b], *key).any(|own| own == value);
        let newest = |(_, mop): (usize, &Mop)| mop.read.last().copied().filter(|&v| !by_itself(v));
        let writes = || before.iter().flat_map(|&a| written(txns[a], *key));
        // Whether some read shows one value below another.
        let below = |one: i64, other: i64| {
            let reads = self.txns.iter().filter(|t| t.kind == OpType::Ok).flat_map(|t| &t.mops);
            let mut reads = reads.filter(|mop| mop.key == *key && mop.write.is_none());
            reads.any(|mop| {
                let at = |value| mop.read.iter().position(|&seen| seen == value);
                at(one).zip(at(other)).is_some_and(|(one, other)| one < other)
            })
        };
        let is_read = write.is_none() && txns[b].kind == OpType::Ok;
        match guarantee {
            Guarantee::MonotonicReads => {
                is_read && seen_before.and_then(newest).is_some_and(|value| !read.contains(&value))
            }
            Guarantee::ReadYourWrites => is_read && writes().any(|value| !read.contains(&value)),
            Guarantee::MonotonicWrites => {
                write.is_some_and(|value| writes().any(|before| below(value, before)))
            }
            Guarantee::WritesFollowReads => write.is_some_and(|value| {
                seen.and_then(newest).is_some_and(|before| below(value, before))
            }),
            Guarantee::Pram | Guarantee::Causal => false,
        }
    }
}

fn is_kept(txns: &[&Txn], seen: &[u32], guarantee: Guarantee) -> bool {
    use Guarantee::*;
    let count = txns.len();
    let sees = |who: usize, whom: usize| seen[who] >> whom & 1 == 1;
    let writes = |txn: usize| txns[txn].mops.iter().any(|mop| mop.write.is_some());
    // Places are those in the order of commits.
    let precedes = |one: usize, other: usize| {
        one < other && (0..count).all(|who| !sees(who, other) || sees(who, one))
    };
    let in_session = |from: usize, to: usize| is_before(txns, from, to, OrderKind::Process);
    let mut pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
    match guarantee {
        MonotonicReads => pairs.all(|(a, b)| !in_session(a, b) || seen[a] & !seen[b] == 0),
        MonotonicWrites => {
            pairs.all(|(a, b)| !in_session(a, b) || !writes(a) || !writes(b) || precedes(a, b))
        }
        ReadYourWrites => pairs.all(|(a, b)| !in_session(a, b) || !writes(a) || sees(b, a)),
        WritesFollowReads => pairs.all(|(a, b)| {
            let follows = (a == b || in_session(a, b)) && writes(b);
            !follows || (0..count).all(|whom| !sees(a, whom) || !writes(whom) || precedes(whom, b))
        }),
        Pram => [MonotonicReads, MonotonicWrites, ReadYourWrites]
            .into_iter()
            .all(|guarantee| is_kept(txns, seen, guarantee)),
        Causal => {
            [Pram, WritesFollowReads].into_iter().all(|guarantee| is_kept(txns, seen, guarantee))
        }
    }
}
