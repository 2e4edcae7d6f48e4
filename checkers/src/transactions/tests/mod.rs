//! The checkers of lists and registers against brute force, on all of the smallest histories and many
//! random ones, with every rule broken on purpose.

mod budgets;
mod chains;
mod exhaustive;
mod oracle;
mod phenomena;
#[path = "../../../tests/simulator/mod.rs"]
mod simulator;

use self::oracle::{Sees, Small};
use self::phenomena::Forbids;
use self::simulator::{Random, Simulation};
use super::isolation::Isolation;
use super::level::{Consistency, OrderKind};
use super::list_append::ListAppend;
use super::planted::{Bug, plant};
use super::rw_register::RwRegister;
use crate::{Analysis, Budget, Checker, Verdict};

/// Levels that brute force decides.
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

fn check(append: bool, history: &deposed_history::History, name: &str) -> Analysis {
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

/// Levels at which brute force decides what lists show of what transactions see.
const SEEN: &[(&str, Sees)] = &[
    ("read-atomic", Sees::Atomically),
    ("causal-cerone", Sees::Causally),
    ("prefix", Sees::Prefixes),
    ("parallel-snapshot-isolation", Sees::Updates),
];

/// Histories of up to four transactions: what each sees of the others, by brute force.
#[test]
fn what_is_seen_is_judged_as_by_brute_force() {
    let mut random = Random(15);
    let (mut judged, mut open) = (0, [0; SEEN.len()]);
    let (mut valid, mut invalid) = ([0; SEEN.len()], [0; SEEN.len()]);
    while judged < fuzz() / 2 {
        let small = match judged % 2 {
            0 => oracle::random(&mut random, true),
            _ => oracle::random_seen(&mut random),
        };
        let history = small.history();
        for (at, &(name, sees)) in SEEN.iter().enumerate() {
            let Some(expected) = small.is_seen(sees) else { break };
            judged += u64::from(at == 0);
            let analysis = check(true, &history, name);
            let counter = match analysis.verdict {
                Verdict::Valid if expected => &mut valid,
                Verdict::Invalid if !expected => &mut invalid,
                // Both orders of two writes that nobody saw may lead to a contradiction.
                Verdict::Unknown if expected || sees == Sees::Updates => &mut open,
                _ => panic!("{name}, expected {expected}: {small:#?}\n{analysis:#?}"),
            };
            counter[at] += 1;
        }
    }
    // Otherwise open are only histories in which nothing succeeded.
    let few = |counts: [u64; SEEN.len()]| counts.into_iter().all(|count| count < judged / 10);
    let many = |counts: [u64; SEEN.len()]| counts.into_iter().all(|count| count > judged / 20);
    assert!(few(open) && many(valid) && many(invalid), "{valid:?} {invalid:?} {open:?}");
    assert!(valid[0] > valid[1] && valid[1] >= valid[2] && valid[1] > valid[3], "{valid:?}");
}

/// Levels that Adya's phenomena define, and whether they are decided wherever something succeeded.
const PHENOMENA: &[(&str, Forbids, OrderKind, bool)] = &[
    ("read-committed", Forbids::Nothing, OrderKind::Data, true),
    ("strong-session-read-committed", Forbids::Nothing, OrderKind::Process, true),
    ("strong-read-committed", Forbids::Nothing, OrderKind::RealTime, true),
    ("cursor-stability", Forbids::Cursor, OrderKind::Data, false),
    ("monotonic-view", Forbids::Monotonic, OrderKind::Data, false),
    ("monotonic-snapshot-read", Forbids::Monotonic, OrderKind::Data, false),
    ("consistent-view", Forbids::Single, OrderKind::Data, true),
    ("forward-consistent-view", Forbids::Single, OrderKind::Data, true),
    ("update-serializable", Forbids::Update, OrderKind::Data, false),
    ("repeatable-read", Forbids::Any, OrderKind::Data, true),
    ("serializable", Forbids::Any, OrderKind::Data, true),
];

/// What cycles, lost updates and the rest say of a level is what all orders of versions say.
#[test]
fn phenomena_are_found_as_by_brute_force() {
    let mut random = Random(21);
    let levels: Vec<(Forbids, OrderKind)> = PHENOMENA.iter().map(|p| (p.1, p.2)).collect();
    let mut judged = 0;
    let mut counts = vec![[0u64; 3]; PHENOMENA.len()];
    while judged < fuzz() / 2 {
        let small = match judged % 2 {
            0 => oracle::random(&mut random, true),
            _ => oracle::random_seen(&mut random),
        };
        let Some(avoided) = small.avoids(&levels) else { continue };
        judged += 1;
        let history = small.history();
        for ((&(name, ..), counts), expected) in PHENOMENA.iter().zip(&mut counts).zip(avoided) {
            let analysis = check(true, &history, name);
            let sound = match analysis.verdict {
                Verdict::Valid => expected,
                Verdict::Invalid => !expected,
                Verdict::Unknown => true,
            };
            assert!(sound, "{name}, expected {expected}: {small:#?}\n{analysis:#?}");
            counts[analysis.verdict as usize] += 1;
        }
    }
    for (&(name, _, _, decided), [valid, unknown, invalid]) in PHENOMENA.iter().zip(counts) {
        let said = format!("{name}: {valid} valid, {unknown} open, {invalid} invalid");
        assert!(valid > judged / 50 && invalid > judged / 50, "{said}");
        assert!(!decided || unknown < judged / 10, "{said}");
    }
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
        (OwnOrderUnseenIgnored, &both[..1]),
        (OpenNeverHappens, &both),
        (OpenAlwaysHappens, &both),
        (OpenEnds, &both),
        (NoWriteWrite, &both[..1]),
        (NoWriteRead, &both),
        (NoReadWrite, &both),
        (TailForgotten, &both[..1]),
        (FanToItself, &both),
        (FanHalf, &both),
        (BarrierTooEarly, &both),
        (BarrierTooLate, &both),
        (ProcessesForgotten, &both),
        (AdjacentAllowed, &both[..1]),
        (OnlySingles, &both[..1]),
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
