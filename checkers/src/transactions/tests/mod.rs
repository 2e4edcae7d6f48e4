//! The checkers of lists and registers against brute force, on all of the smallest histories and many
//! random ones, with every rule broken on purpose.

mod anomalies;
mod bank;
mod budgets;
mod chains;
mod every_level;
mod exhaustive;
mod forks;
mod lies;
mod oracle;
mod phenomena;
mod sessions;
#[path = "../../../tests/simulator/mod.rs"]
mod simulator;
mod uncommitted;

use std::time::Duration;

use deposed_history::{Header, History, Op, OpType, Process, Value};

use self::every_level::Truth;
use self::oracle::Small;
use self::simulator::{Random, Simulation};
use super::isolation::Isolation;
use super::level::{Consistency, OrderKind};
use super::list_append::ListAppend;
use super::planted::{Bug, plant};
use super::rw_register::RwRegister;
use crate::{Analysis, Budget, Checker, Verdict};

/// Levels that are decided by an order of all transactions: those that tell most of the search for one.
/// All others are in [`every_level`].
const LEVELS: &[(&str, Isolation, OrderKind)] = &[
    ("serializable", Isolation::Serial, OrderKind::Data),
    ("strong-session-serializable", Isolation::Serial, OrderKind::Process),
    ("strict-serializable", Isolation::Serial, OrderKind::RealTime),
    ("snapshot-isolation", Isolation::Snapshot, OrderKind::Data),
    ("strong-session-snapshot-isolation", Isolation::Snapshot, OrderKind::Process),
    ("strong-snapshot-isolation", Isolation::Snapshot, OrderKind::RealTime),
];

/// How many random histories: `DEPOSED_FUZZ`, or a few thousand.
fn fuzz() -> u64 {
    std::env::var("DEPOSED_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000)
}

fn level(name: &str) -> Consistency {
    Consistency::parse(name).unwrap_or_else(|unknown| panic!("{unknown}"))
}

fn check(append: bool, history: &History, name: &str) -> Analysis {
    let consistency = level(name);
    let budget = Budget::unlimited();
    if append {
        ListAppend { consistency }.check(history, &budget)
    } else {
        RwRegister { consistency }.check(history, &budget)
    }
}

/// What brute force says at each level.
fn expected(small: &Small) -> Vec<bool> {
    LEVELS.iter().map(|&(_, isolation, order)| small.is_explained(isolation, order)).collect()
}

/// The first level at which the checker and brute force differ, and what the checker said.
fn disagreement(small: &Small, expected: &[bool]) -> Option<(&'static str, Analysis)> {
    let history = small.history();
    LEVELS.iter().zip(expected).find_map(|(&(name, ..), &expected)| {
        let analysis = check(small.append, &history, name);
        // Where nothing succeeded there is nothing to judge.
        let vacuous = analysis.undecided.iter().any(|open| open.reason.starts_with("vacuous"));
        let agrees = match analysis.verdict {
            Verdict::Valid => expected,
            Verdict::Invalid => !expected,
            Verdict::Unknown => vacuous && expected,
        };
        (!agrees).then_some((name, analysis))
    })
}

fn agree(append: bool) {
    let mut random = Random(if append { 5 } else { 6 });
    for number in 0..fuzz() {
        let small = oracle::random(&mut random, append);
        if let Some((name, analysis)) = disagreement(&small, &expected(&small)) {
            panic!("history {number}, {name}: {small:#?}\n{analysis:#?}");
        }
    }
}

#[test]
fn lists_are_judged_as_by_brute_force() {
    agree(true);
}

#[test]
fn registers_are_judged_as_by_brute_force() {
    agree(false);
}

/// Every rule, when broken, makes a difference that the comparison sees.
#[test]
fn every_planted_bug_is_found() {
    use Bug::*;
    const HISTORIES: usize = 8_000;
    let both = [true, false];
    let bugs: &[(Bug, &[bool])] = &[
        (AbortedIgnored, &both),
        (GarbageIgnored, &both),
        (DuplicateIgnored, &both[..1]),
        (IntermediateIgnored, &both[1..]),
        (InternalIgnored, &both),
        (FutureIgnored, &both),
        (StraysIgnored, &both[..1]),
        (OwnOrderIgnored, &both[..1]),
        (OpenNeverHappens, &both),
        (OpenAlwaysHappens, &both),
        (OpenEnds, &both),
        (NoWriteWrite, &both[..1]),
        (NoWriteRead, &both),
        (NoReadWrite, &both),
        (TailForgotten, &both[..1]),
        (FanToItself, &both),
        (FanHalf, &both),
        (ReturnTooEarly, &both),
        (ReturnTooLate, &both),
        (ProcessesForgotten, &both),
        (AdjacentAllowed, &both[..1]),
        (OverlapIgnored, &both),
        (BetweenIgnored, &both[1..]),
        (NoSecondTry, &both[1..]),
        (OnlyLikely, &both[1..]),
    ];
    let mut missed = Vec::new();
    for append in both {
        let mut random = Random(77);
        let mut histories: Vec<(Small, Vec<bool>)> = Vec::new();
        for &(bug, _) in bugs.iter().filter(|(_, workloads)| workloads.contains(&append)) {
            let mut found = false;
            for at in 0..HISTORIES {
                if at == histories.len() {
                    let small = oracle::random(&mut random, append);
                    let expected = expected(&small);
                    histories.push((small, expected));
                }
                let (small, expected) = &histories[at];
                plant(Some(bug));
                found = disagreement(small, expected).is_some();
                plant(None);
                if found {
                    break;
                }
            }
            if !found {
                missed.push((bug, append));
            }
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// Rules that only some level needs: the comparison at that level sees it when they are broken.
#[test]
fn bugs_planted_in_single_levels_are_found() {
    use Bug::*;
    const HISTORIES: usize = 8_000;
    let bugs: &[(Bug, bool, &str)] = &[
        (IntermediateIgnored, true, "read-committed"),
        (IntermediateIgnored, false, "read-committed"),
        (LostUpdateIgnored, true, "cursor-stability"),
        (LostUpdateIgnored, false, "cursor-stability"),
        (LostUpdateIgnored, true, "update-atomic"),
        (FracturedIgnored, true, "read-atomic"),
        (FracturedIgnored, true, "update-atomic"),
        (FracturedIgnored, true, "monotonic-atomic-view"),
        (LaterVersionsForgotten, true, "causal-cerone"),
        (OnlySources, true, "causal-cerone"),
        (WritersApart, true, "prefix"),
        (GuessTrusted, true, "snapshot-isolation"),
        (OnlySingles, true, "snapshot-isolation"),
        (UnseenTrusted, true, "parallel-snapshot-isolation"),
        (UnseenTrusted, true, "consistent-view"),
        (ViewsTrusted, true, "cursor-stability"),
        (ViewsTrusted, true, "monotonic-view"),
        (DirtyReadsCount, true, "read-uncommitted"),
        (DirtyReadsCount, false, "strong-session-read-uncommitted"),
        (StrongerIgnored, true, "linearizable"),
        (StrongerIgnored, false, "causal-cerone"),
        (ProcessesForgotten, true, "strong-session-read-committed"),
        (ReturnTooLate, true, "linearizable"),
        (ReturnTooLate, false, "linearizable"),
        (SerialIgnored, true, "view-serializable"),
        (SerialIgnored, true, "1SR"),
        (SerialIgnored, true, "session-serializable"),
        (SerialIgnored, false, "1SR"),
        (ReadsForgotten, true, "monotonic-reads"),
        (ReadsForgotten, true, "PRAM"),
        (WritesApartInSession, true, "monotonic-writes"),
        (WritesApartInSession, true, "PRAM"),
        (OwnWritesForgotten, true, "read-your-writes"),
        (CausesForgotten, true, "writes-follow-reads"),
        (CausesForgotten, true, "causal"),
        (CommitOrderIgnored, true, "monotonic-writes"),
        (MissesIgnored, true, "monotonic-reads"),
        (BrokenReadsTrusted, true, "monotonic-reads"),
        (LessReadIgnored, true, "monotonic-reads"),
        (OwnWriteMissedIgnored, true, "read-your-writes"),
        (WritesInAnyOrder, true, "monotonic-writes"),
        (WriteBeforeRead, true, "writes-follow-reads"),
        (OwnOrderIgnored, true, "read-uncommitted"),
        (OwnOrderUnseenIgnored, true, "read-uncommitted"),
        (DuplicateIgnored, true, "read-uncommitted"),
        (GarbageIgnored, true, "read-uncommitted"),
        (GarbageIgnored, false, "read-uncommitted"),
        (TailForgotten, true, "strong-read-uncommitted"),
        (WriteCyclesIgnored, true, "read-uncommitted"),
        (WriteCyclesIgnored, true, "strong-session-read-uncommitted"),
        (WriteCyclesIgnored, true, "strong-read-uncommitted"),
    ];
    let mut missed = Vec::new();
    for append in [true, false] {
        let mut random = Random(78);
        let mut histories: Vec<(Small, Truth)> = Vec::new();
        for &(bug, _, name) in bugs.iter().filter(|(_, lists, _)| *lists == append) {
            let found = (0..HISTORIES).any(|at| {
                if at == histories.len() {
                    let small = every_level::random(&mut random, append);
                    let truth = Truth::of(&small);
                    histories.push((small, truth));
                }
                let (small, truth) = &histories[at];
                plant(Some(bug));
                let found = truth.is_contradicted(small, name);
                plant(None);
                found
            });
            if !found {
                missed.push((bug, append, name));
            }
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// Rules of which the loss changes no verdict, but what is named.
#[test]
fn bugs_planted_in_what_is_named_are_found() {
    for (bug, append) in [
        (Bug::DirtyUpdateIgnored, true),
        (Bug::LostUpdateIgnored, true),
        (Bug::LostUpdateIgnored, false),
        (Bug::IntermediateIgnored, true),
        (Bug::FutureIgnored, true),
    ] {
        let mut random = Random(79);
        let found = (0..8_000).any(|_| {
            let small = anomalies::random(&mut random, append);
            plant(Some(bug));
            let difference = anomalies::difference(&small);
            plant(None);
            difference.is_some()
        });
        assert!(found, "{bug:?} {append}");
    }
}

/// A value that two transactions wrote tells nothing, and a checker that believes it is wrong.
#[test]
fn a_planted_belief_in_ambiguous_values_is_found() {
    let mop = |write, read: &[i64]| oracle::Mop { key: 0, write, read: read.to_vec() };
    let txn = |at: usize, mops| oracle::Txn {
        process: 0,
        inv: 2 * at,
        ret: 2 * at + 1,
        kind: deposed_history::OpType::Ok,
        mops,
    };
    // Read after the first write of 1, and not after the second.
    let txns = vec![
        txn(0, vec![mop(Some(1), &[])]),
        txn(1, vec![mop(None, &[1])]),
        txn(2, vec![mop(Some(1), &[])]),
    ];
    let history = Small { append: false, txns }.history();
    let reason = || {
        let analysis = check(false, &history, "strict-serializable");
        analysis.undecided.first().map(|open| open.reason.clone()).unwrap_or_default()
    };
    assert!(reason().contains("write each value once per key"), "{}", reason());
    plant(Some(Bug::AmbiguityIgnored));
    let believed = reason();
    plant(None);
    assert!(believed.contains("this is a fault of the checker"), "{believed}");
}

/// Where some reads saw what failed, the order of what did not is not known to a checker of read
/// uncommitted, and one that takes it for known is wrong.
#[test]
fn a_planted_trust_in_reads_that_disagree_is_found() {
    use deposed_history::OpType::{Fail, Ok};
    let append = |key, value| oracle::Mop { key, write: Some(value), read: Vec::new() };
    let read = |key, read: &[i64]| oracle::Mop { key, write: None, read: read.to_vec() };
    let txn = |at: usize, kind, mops| oracle::Txn {
        process: at as u32,
        inv: at,
        ret: 10 + at,
        kind,
        mops,
    };
    let txns = vec![
        txn(0, Fail, vec![append(0, 2)]),
        txn(1, Ok, vec![append(0, 1), append(1, 1)]),
        txn(2, Ok, vec![append(0, 3), append(1, 2)]),
        txn(3, Ok, vec![read(0, &[1, 2]), read(1, &[2, 1])]),
        txn(4, Ok, vec![read(0, &[1, 3])]),
    ];
    let small = Small { append: true, txns };
    assert_eq!(small.is_uncommitted(OrderKind::Data), Some(false));
    let verdict = || check(true, &small.history(), "read-uncommitted").verdict;
    assert_eq!(verdict(), Verdict::Unknown);
    plant(Some(Bug::DisagreementIgnored));
    let trusted = verdict();
    plant(None);
    assert_eq!(trusted, Verdict::Valid);
}

/// A level that holds takes all weaker ones with it, and none that fails leaves a stronger one.
#[test]
fn levels_are_ordered_on_every_history() {
    let names: Vec<&str> = Consistency::names().collect();
    let mut random = Random(9);
    for number in 0..fuzz() / 20 {
        let small = oracle::random(&mut random, number % 2 == 0);
        let history = small.history();
        let verdicts: Vec<Verdict> =
            names.iter().map(|name| check(small.append, &history, name).verdict).collect();
        for (strong, &verdict) in names.iter().zip(&verdicts) {
            for (weak, &weaker) in names.iter().zip(&verdicts) {
                if level(strong).implies(level(weak)) {
                    let ordered = match (verdict, weaker) {
                        (Verdict::Valid, weaker) => weaker == Verdict::Valid,
                        (strong, Verdict::Invalid) => strong == Verdict::Invalid,
                        _ => true,
                    };
                    assert!(ordered, "{strong} {verdict}, {weak} {weaker}: {small:#?}");
                }
            }
        }
    }
}

/// What a store of some isolation produces has the level of it, whatever its size and its losses.
#[test]
fn simulated_stores_keep_their_promises() {
    use simulator::Isolation::{ReadCommitted, Snapshot, StrictSerializable};
    for (append, seed) in [(true, 1), (false, 2), (true, 3), (false, 4)] {
        for (isolation, name) in [
            (StrictSerializable, "strict-serializable"),
            (Snapshot, "strong-snapshot-isolation"),
            (ReadCommitted, "read-committed"),
        ] {
            let simulation =
                Simulation { isolation, append, seed, info_percent: 5, ..Simulation::default() };
            let analysis = check(append, &simulation.run(), name);
            assert_eq!(analysis.verdict, Verdict::Valid, "{simulation:?}: {analysis:#?}");
        }
    }
}

/// A store that lets everything through is caught at every level, and with proofs that stand.
#[test]
fn a_careless_store_is_caught() {
    let isolation = simulator::Isolation::ReadUncommitted;
    for append in [true, false] {
        let history = Simulation { isolation, append, ..Simulation::default() }.run();
        for name in ["read-committed", "snapshot-isolation", "strict-serializable"] {
            let analysis = check(append, &history, name);
            assert_eq!(analysis.verdict, Verdict::Invalid, "{analysis:#?}");
            assert!(analysis.undecided.is_empty(), "{:#?}", analysis.undecided);
        }
    }
}

/// The same history gives the same report.
#[test]
fn reports_are_reproducible() {
    let isolation = simulator::Isolation::ReadUncommitted;
    let history = Simulation { isolation, ..Simulation::default() }.run();
    let report = || serde_json::to_string(&check(true, &history, "serializable")).ok();
    assert_eq!(report(), report());
}

/// The same history gives the same report on any number of threads: also if it is read in many blocks, and
/// its reads are of one length and do not agree, so that one of them has to be taken for the order.
#[test]
fn threads_change_nothing() {
    const KEYS: i64 = 10;
    let mut random = Random(3);
    let list = |elements: [i64; 2]| Value::List(elements.map(Value::Int).to_vec());
    let mop = |f: &str, key, value| Value::List(vec![Value::str(f), Value::Int(key), value]);
    let append = |element| move |key| mop("append", key, Value::Int(element));
    let appends = [1, 2].into_iter().flat_map(|element| (0..KEYS).map(append(element)));
    // Those that do not agree are in the end of the second block, and in the beginning of the third, which
    // the first of two threads reads.
    let reads = (0..40_000).map(|number| {
        if number < 32_700 {
            return mop("r", 0, list([1, 2]));
        }
        let seen = if random.percent(50) { [1, 2] } else { [2, 1] };
        mop("r", random.below(KEYS as u64) as i64, list(seen))
    });
    let ops = appends.chain(reads).flat_map(|mop| {
        [OpType::Invoke, OpType::Ok]
            .map(|kind| Op::new(kind, Process::Client(0), "txn", Value::List(vec![mop.clone()])))
    });
    let forked = History::from_ops(Header::default(), &ops.collect::<Vec<Op>>());
    let invocations = 60_000;
    let isolation = simulator::Isolation::ReadUncommitted;
    let torn = Simulation { isolation, invocations, ..Simulation::default() }.run();
    for history in [forked, torn] {
        let report = |threads| {
            let budget = Budget::new(|| Duration::ZERO, Duration::MAX, u64::MAX, threads);
            let checker = ListAppend { consistency: level("strict-serializable") };
            serde_json::to_string(&checker.check(&history, &budget)).ok()
        };
        let one = report(1);
        assert!(one.as_ref().is_some_and(|report| report.contains("invalid")));
        for threads in [2, 3, 5] {
            assert!(report(threads) == one, "{threads} threads");
        }
    }
}
