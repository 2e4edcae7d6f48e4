//! Every level that can be demanded, against brute force from its published definition.
//!
//! At each of them a verdict has to be *sound*: `valid` only of histories that the definition allows,
//! `invalid` only of others. How often it may be `unknown` is what [`Claim`] says of it: many levels
//! are decided; the others, which the anomalies do not fully describe, have to follow from those that
//! are. Wherever nothing succeeded there is nothing to judge.
//!
//! Where a level is defined for single operations, as session guarantees and linearizability are, a
//! transaction is taken for one of them.

use deposed_history::OpType;

use super::anomalies::loses_an_update;
use super::oracle::{self, KEYS, Sees, Small, written};
use super::phenomena::Forbids;
use super::sessions::Guarantee;
use super::simulator::{self, Random, Simulation};
use super::{check, fuzz, level};
use crate::transactions::isolation::Isolation;
use crate::transactions::level::{Consistency, OrderKind};
use crate::{Analysis, Verdict};

/// How brute force decides a level.
#[derive(Debug, Clone, Copy)]
enum Oracle {
    /// An order of writes.
    Uncommitted(OrderKind),
    /// Orders of versions without some of Adya's phenomena.
    Avoids(Forbids, OrderKind),
    /// What each transaction sees of the others.
    Sees(Sees),
    /// The same, with what sessions are guaranteed.
    Guaranteed(Guarantee),
    /// An order of transactions, or of snapshots and commits.
    Ordered(Isolation, OrderKind),
}

/// How far a level is decided.
#[derive(Debug, Clone, Copy)]
enum Claim {
    /// Always.
    Decided,
    /// But where two acknowledged appends to one key were not seen, of which the order is not known.
    UnlessUnseen,
    /// But where two reads of a list disagree about the order of appends.
    UnlessForked,
    /// Where it holds, and where a session breaks one of these guarantees on a single key, but where two
    /// reads of a list disagree, or show something twice.
    WhereItHolds(&'static [Guarantee]),
    /// At least where one of the first levels holds, or one of the second ones does not, but not where
    /// appends were not seen, as above.
    Between(&'static [&'static str], &'static [&'static str]),
}

struct Level {
    name: &'static str,
    oracle: Oracle,
    lists: Claim,
    registers: Claim,
}

/// Of a level.
const fn of(name: &'static str, oracle: Oracle, lists: Claim, registers: Claim) -> Level {
    Level { name, oracle, lists, registers }
}

const RC: &[&str] = &["read-committed"];
const SI: &[&str] = &["snapshot-isolation"];
/// Not a level, but what rules out some: two transactions that read one version both wrote over it.
const LOST_UPDATE: &str = "lost-update";
/// What the strongest level alone implies.
const STRONGEST: Claim = Claim::Between(&["strict-serializable"], &[]);
/// What a serial order implies that keeps to the order of processes.
const SERIAL: Claim = Claim::Between(&["strong-session-serializable"], &[]);

/// All levels.
const EVERY: &[Level] = {
    use self::Claim::{Between, Decided, UnlessForked, UnlessUnseen, WhereItHolds};
    use self::Forbids::*;
    use self::Guarantee::*;
    use self::Isolation::{Serial, Snapshot};
    use self::Oracle::*;
    use self::OrderKind::{Data, Process, RealTime};
    use self::Sees::{Atomically, Causally, Prefixes, Updates, UpdatesAlone};
    const VIEW: &[&str] = &["consistent-view"];
    const SESSIONS: Claim = Between(&["strong-session-serializable"], &["serializable"]);
    const PRAM: &[Guarantee] = &[MonotonicReads, MonotonicWrites, ReadYourWrites];
    const CAUSAL: &[Guarantee] =
        &[MonotonicReads, MonotonicWrites, ReadYourWrites, WritesFollowReads];
    const RC_UPDATE: &[&str] = &["read-committed", LOST_UPDATE];
    &[
        of("read-uncommitted", Uncommitted(Data), UnlessForked, Decided),
        of("strong-session-read-uncommitted", Uncommitted(Process), UnlessForked, Decided),
        of("strong-read-uncommitted", Uncommitted(RealTime), UnlessForked, Decided),
        of("read-committed", Avoids(Nothing, Data), Decided, Decided),
        of("strong-session-read-committed", Avoids(Nothing, Process), Decided, Decided),
        of("strong-read-committed", Avoids(Nothing, RealTime), Decided, Decided),
        of(
            "monotonic-atomic-view",
            Avoids(Vanishing, Data),
            Between(&["read-atomic", "repeatable-read"], RC),
            Between(&["snapshot-isolation", "repeatable-read"], RC),
        ),
        of(
            "cursor-stability",
            Avoids(Cursor, Data),
            Between(VIEW, RC_UPDATE),
            Between(SI, RC_UPDATE),
        ),
        of("monotonic-view", Avoids(Monotonic, Data), Between(VIEW, RC), Between(SI, RC)),
        of("monotonic-snapshot-read", Avoids(Monotonic, Data), Between(VIEW, RC), Between(SI, RC)),
        of("consistent-view", Avoids(Single, Data), UnlessUnseen, Between(SI, RC)),
        of("forward-consistent-view", Avoids(Single, Data), UnlessUnseen, Between(SI, RC)),
        of(
            "update-serializable",
            Avoids(Update, Data),
            Between(&["serializable"], &["read-committed", "consistent-view"]),
            Between(&["serializable"], RC),
        ),
        of("repeatable-read", Avoids(Any, Data), Decided, Decided),
        of("read-atomic", Sees(Atomically), Decided, Between(SI, RC)),
        of(
            "update-atomic",
            Sees(UpdatesAlone),
            Between(&["parallel-snapshot-isolation"], &["read-atomic", LOST_UPDATE]),
            Between(SI, RC_UPDATE),
        ),
        of("causal-cerone", Sees(Causally), Decided, Between(SI, RC)),
        of("prefix", Sees(Prefixes), Decided, Between(SI, RC)),
        of("parallel-snapshot-isolation", Sees(Updates), UnlessUnseen, Between(SI, RC)),
        of("snapshot-isolation", Ordered(Snapshot, Data), Decided, Decided),
        of("strong-session-snapshot-isolation", Ordered(Snapshot, Process), Decided, Decided),
        of("strong-snapshot-isolation", Ordered(Snapshot, RealTime), Decided, Decided),
        of("view-serializable", Ordered(Serial, Data), Decided, Decided),
        of("serializable", Ordered(Serial, Data), Decided, Decided),
        of("strong-session-serializable", Ordered(Serial, Process), Decided, Decided),
        of("strict-serializable", Ordered(Serial, RealTime), Decided, Decided),
        of("1SR", Ordered(Serial, Data), Decided, Decided),
        of("session-serializable", Ordered(Serial, Process), SESSIONS, SESSIONS),
        of("monotonic-reads", Guaranteed(MonotonicReads), WhereItHolds(&[MonotonicReads]), SERIAL),
        of(
            "monotonic-writes",
            Guaranteed(MonotonicWrites),
            WhereItHolds(&[MonotonicWrites]),
            SERIAL,
        ),
        of("read-your-writes", Guaranteed(ReadYourWrites), WhereItHolds(&[ReadYourWrites]), SERIAL),
        of(
            "writes-follow-reads",
            Guaranteed(WritesFollowReads),
            WhereItHolds(&[WritesFollowReads]),
            SERIAL,
        ),
        of("PRAM", Guaranteed(Pram), WhereItHolds(PRAM), SERIAL),
        of("causal", Guaranteed(Causal), WhereItHolds(CAUSAL), SERIAL),
        of("sequential", Ordered(Serial, Process), SERIAL, SERIAL),
        of("linearizable", Ordered(Serial, RealTime), STRONGEST, STRONGEST),
    ]
};

/// What brute force says of each level; `None` where it says nothing.
pub(super) struct Truth(Vec<Option<bool>>);

impl Truth {
    pub(super) fn of(small: &Small) -> Self {
        let phenomena: Vec<(Forbids, OrderKind)> = EVERY
            .iter()
            .filter_map(|level| match level.oracle {
                Oracle::Avoids(forbids, order) => Some((forbids, order)),
                _ => None,
            })
            .collect();
        let avoided = small.avoids(&phenomena);
        let mut avoided = avoided.iter().flatten().copied();
        let of_level = |level: &Level| match level.oracle {
            Oracle::Uncommitted(order) => small.is_uncommitted(order),
            Oracle::Avoids(..) => avoided.next(),
            Oracle::Sees(sees) => small.is_seen(sees),
            Oracle::Guaranteed(guarantee) => small.is_guaranteed(guarantee),
            Oracle::Ordered(isolation, order) => Some(small.is_explained(isolation, order)),
        };
        Self(EVERY.iter().map(of_level).collect())
    }

    /// Of the level of a name.
    fn says(&self, name: &str) -> Option<bool> {
        let at = EVERY.iter().position(|level| level.name == name);
        at.and_then(|at| self.0[at])
    }

    /// Whether a level follows from one that holds, or from one that does not.
    fn is_between(&self, claim: Claim) -> bool {
        let Claim::Between(with, without) = claim else { return false };
        let is = |names: &[&str], says| names.iter().any(|name| self.says(name) == Some(says));
        is(with, true) || is(without, false)
    }

    /// What is wrong with a verdict, if anything is.
    fn objection(&self, small: &Small, level: &Level, analysis: &Analysis) -> Option<&'static str> {
        let expected = self.says(level.name);
        match analysis.verdict {
            Verdict::Valid if expected == Some(false) => Some("it does not hold"),
            Verdict::Invalid if expected == Some(true) => Some("it holds"),
            Verdict::Valid | Verdict::Invalid => None,
            Verdict::Unknown => {
                let nothing = |open: &crate::Undecided| open.reason.starts_with("vacuous");
                let claim = if small.append { level.lists } else { level.registers };
                let has_to_be = match claim {
                    _ if analysis.undecided.iter().any(nothing) => false,
                    Claim::Decided => expected.is_some(),
                    Claim::UnlessForked => expected.is_some() && !is_forked(small),
                    Claim::UnlessUnseen => expected.is_some() && !two_unseen(small),
                    Claim::WhereItHolds(guarantees) => {
                        let broken = |&kept: &Guarantee| small.is_broken_on_a_key(kept);
                        expected == Some(true)
                            || !is_forked(small)
                                && !shows_twice(small)
                                && guarantees.iter().any(broken)
                    }
                    Claim::Between(_, without) if without.contains(&LOST_UPDATE) => {
                        loses_an_update(small) || !two_unseen(small) && self.is_between(claim)
                    }
                    Claim::Between(..) => !two_unseen(small) && self.is_between(claim),
                };
                has_to_be.then_some("it can be decided")
            }
        }
    }

    /// Whether the checker is wrong at a level.
    pub(super) fn is_contradicted(&self, small: &Small, name: &str) -> bool {
        let analysis = check(small.append, &small.history(), name);
        let mut asked = EVERY.iter().filter(|level| level.name == name);
        asked.any(|level| self.objection(small, level, &analysis).is_some())
    }

    /// The first level at which the checker is wrong, why, and what it said.
    pub(super) fn contradiction(
        &self,
        small: &Small,
    ) -> Option<(&'static str, &'static str, Analysis)> {
        let history = small.history();
        EVERY.iter().find_map(|level| {
            let analysis = check(small.append, &history, level.name);
            let objection = self.objection(small, level, &analysis)?;
            Some((level.name, objection, analysis))
        })
    }

    /// Levels that hold.
    pub(super) fn holding(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.saying(true)
    }

    /// Levels that do not.
    pub(super) fn failing(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.saying(false)
    }

    fn saying(&self, holds: bool) -> impl Iterator<Item = &'static str> + '_ {
        let known = EVERY.iter().zip(&self.0);
        known.filter(move |(_, says)| **says == Some(holds)).map(|(level, _)| level.name)
    }
}

/// Whether there are two transactions, that may have happened, whose appends to some key were in no
/// acknowledged read.
fn two_unseen(small: &Small) -> bool {
    let counted = || small.txns.iter().filter(|txn| txn.kind != OpType::Fail);
    let shown = |key: usize, value: i64| {
        let mut reads = small.txns.iter().filter(|t| t.kind == OpType::Ok).flat_map(|t| &t.mops);
        reads.any(|mop| mop.key == key && mop.write.is_none() && mop.read.contains(&value))
    };
    small.append
        && (0..KEYS).any(|key| {
            let unseen = |txn: &&oracle::Txn| written(txn, key).any(|value| !shown(key, value));
            counted().filter(unseen).count() > 1
        })
}

/// Whether two acknowledged reads of a list are such that neither begins with the other.
fn is_forked(small: &Small) -> bool {
    let acknowledged = || small.txns.iter().filter(|txn| txn.kind == OpType::Ok);
    let reads = || acknowledged().flat_map(|t| &t.mops).filter(|mop| mop.write.is_none());
    reads().any(|one| {
        let mut others = reads().filter(|other| other.key == one.key).map(|other| &other.read);
        others.any(|other| !one.read.starts_with(other) && !other.starts_with(&one.read))
    })
}

/// Whether an acknowledged read shows something twice.
fn shows_twice(small: &Small) -> bool {
    let acknowledged = small.txns.iter().filter(|txn| txn.kind == OpType::Ok);
    let mut reads = acknowledged.flat_map(|txn| &txn.mops).map(|mop| &mop.read);
    reads.any(|read| (1..read.len()).any(|at| read[..at].contains(&read[at])))
}

/// Gives the transactions to two processes, one after the other in any order.
fn in_sessions(random: &mut Random, mut small: Small) -> Small {
    let mut places: Vec<usize> = (0..small.txns.len()).collect();
    for at in (1..places.len()).rev() {
        places.swap(at, random.below(at as u64 + 1) as usize);
    }
    for (txn, place) in small.txns.iter_mut().zip(places) {
        txn.process = random.below(2) as u32;
        (txn.inv, txn.ret) = (2 * place, 2 * place + 1);
    }
    small
}

/// Histories of all kinds.
pub(super) fn random(random: &mut Random, append: bool) -> Small {
    match random.below(4) {
        0 | 1 => oracle::random(random, append),
        2 => oracle::random_seen(random, append),
        _ => {
            let small = oracle::random_seen(random, append);
            in_sessions(random, small)
        }
    }
}

/// No level can be demanded that is not in the table, and none is there twice.
#[test]
fn every_level_has_an_oracle() {
    for name in Consistency::names() {
        let same = EVERY.iter().filter(|other| level(other.name).is_same(level(name)));
        assert_eq!(same.count(), 1, "{name}");
    }
}

fn agree(append: bool) {
    let mut source = Random(if append { 21 } else { 22 });
    let judged = fuzz() / 2;
    let mut counts = vec![[0u64; 2]; EVERY.len()];
    let mut verdicts = vec![[0u64; 3]; EVERY.len()];
    for number in 0..judged {
        let small = random(&mut source, append);
        let truth = Truth::of(&small);
        let history = small.history();
        for (at, level) in EVERY.iter().enumerate() {
            let analysis = check(append, &history, level.name);
            if let Some(objection) = truth.objection(&small, level, &analysis) {
                panic!("{number}, {}: {objection}: {small:#?}\n{analysis:#?}", level.name);
            }
            verdicts[at][analysis.verdict as usize] += 1;
            if let Some(says) = truth.0[at] {
                counts[at][usize::from(says)] += 1;
            }
        }
    }
    // Nothing of that was said of too few histories to mean anything.
    for ((level, counts), [valid, unknown, invalid]) in EVERY.iter().zip(&counts).zip(verdicts) {
        let said = format!("{}: {valid} valid, {unknown} open, {invalid} invalid", level.name);
        assert!(counts.iter().all(|&count| count > judged / 100), "{said}, in truth {counts:?}");
        println!("{said}");
        assert!(valid > judged / 50, "{said}");
        let claim = if append { level.lists } else { level.registers };
        match claim {
            Claim::Decided | Claim::UnlessUnseen | Claim::UnlessForked => {
                assert!(invalid > judged / 100 && unknown < judged / 5, "{said}");
            }
            Claim::WhereItHolds(_) => assert!(invalid > judged / 100, "{said}"),
            Claim::Between(_, without) => {
                assert!(without.is_empty() || invalid > judged / 50, "{said}");
            }
        }
    }
}

#[test]
fn every_level_of_lists_is_judged_as_by_brute_force() {
    agree(true);
}

#[test]
fn every_level_of_registers_is_judged_as_by_brute_force() {
    agree(false);
}

/// Levels of which nothing is known after ten thousand transactions on a simulated store.
fn left_open(isolation: simulator::Isolation) -> Vec<&'static str> {
    let history = Simulation { isolation, invocations: 10_000, ..Simulation::default() }.run();
    let verdicts =
        EVERY.iter().map(|level| (level.name, check(true, &history, level.name).verdict));
    verdicts.filter(|(_, verdict)| *verdict == Verdict::Unknown).map(|(name, _)| name).collect()
}

/// Each store is judged at all levels; what is left open is known.
#[test]
fn long_histories_of_lists_leave_few_levels_open() {
    use simulator::Isolation::{ReadCommitted, ReadUncommitted, Snapshot, StrictSerializable};
    const SESSIONS: [&str; 8] = [
        "monotonic-reads",
        "monotonic-writes",
        "read-your-writes",
        "writes-follow-reads",
        "PRAM",
        "causal",
        "sequential",
        "linearizable",
    ];
    let nothing: [&str; 0] = [];
    assert_eq!(left_open(StrictSerializable), nothing);
    assert_eq!(left_open(Snapshot), ["update-serializable", "sequential", "linearizable"]);
    let views = ["monotonic-atomic-view", "monotonic-view", "monotonic-snapshot-read"];
    assert_eq!(left_open(ReadCommitted), [&views[..], &SESSIONS[..]].concat());
    assert_eq!(left_open(ReadUncommitted), SESSIONS);
}
