//! Session guarantees by brute force (Terry et al., "Session guarantees for weakly consistent replicated
//! data", PDIS 1994), in terms of what each transaction sees (Viotti & Vukolić, "Consistency in
//! non-transactional distributed storage systems", CSUR 2016): every order of commits is tried, and
//! every set of earlier transactions that each one can see.
//!
//! A session is a process. A transaction is asked what an operation is: it sees another one as a whole, or
//! not at all, which is more than these guarantees ask of a store.

use super::oracle::{Small, Txn};
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
