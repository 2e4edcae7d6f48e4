//! What is said where the time or the memory runs out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deposed_history::History;

use super::level;
use super::simulator::{Isolation, Simulation};
use crate::transactions::{ListAppend, RwRegister};
use crate::{Analysis, Budget, Checker, Verdict};

fn check(append: bool, history: &History, name: &str, budget: &Budget) -> Analysis {
    let consistency = level(name);
    if append {
        ListAppend { consistency }.check(history, budget)
    } else {
        RwRegister { consistency }.check(history, budget)
    }
}

fn simulated(append: bool, isolation: Isolation) -> History {
    Simulation { isolation, append, ..Simulation::default() }.run()
}

/// A clock that goes on by a second each time it is looked at.
fn ticking(seconds: u64) -> Budget {
    let looks = AtomicU64::new(0);
    let elapsed = move || Duration::from_secs(looks.fetch_add(1, Ordering::Relaxed));
    Budget::new(elapsed, Duration::from_secs(seconds), u64::MAX, 1)
}

/// However early the time runs out, the verdict is the right one or `unknown`, and an `unknown` names
/// the budget and the window.
#[test]
fn time_that_runs_out_is_named() {
    for append in [true, false] {
        for (isolation, right) in [
            (Isolation::StrictSerializable, Verdict::Valid),
            (Isolation::ReadUncommitted, Verdict::Invalid),
        ] {
            let history = simulated(append, isolation);
            let mut last = Verdict::Unknown;
            for seconds in 1..200 {
                let analysis = check(append, &history, "strict-serializable", &ticking(seconds));
                last = analysis.verdict;
                if last != Verdict::Unknown {
                    assert_eq!(last, right, "{analysis:#?}");
                    continue;
                }
                let open = &analysis.undecided[0];
                let budget = format!("the time budget of {seconds}s ran out");
                assert!(open.reason.contains(&budget), "{open:?}");
                assert_eq!(open.window.1 as usize, history.len() - 1);
            }
            assert_eq!(last, right, "in the end there is time enough");
        }
    }
}

/// Where the search for an order takes more than its share of the time, the rest goes to the beginning of
/// the history, and that is said to be fine.
#[test]
fn a_beginning_is_known_to_be_fine() {
    let history = simulated(false, Isolation::StrictSerializable);
    let mut known = 0;
    for looks_before in 1..40 {
        // After so many looks more than the share of the search has passed, and then no more.
        let looks = AtomicU64::new(0);
        let elapsed = move || {
            let late = looks.fetch_add(1, Ordering::Relaxed) >= looks_before;
            Duration::from_secs(if late { 70 } else { 0 })
        };
        let budget = Budget::new(elapsed, Duration::from_secs(100), u64::MAX, 1);
        let analysis = check(false, &history, "strict-serializable", &budget);
        if analysis.verdict == Verdict::Valid {
            continue;
        }
        known += 1;
        let open = &analysis.undecided[0];
        assert_eq!(analysis.verdict, Verdict::Unknown);
        assert!(
            open.reason.starts_with("the time budget of 100s ran out while an order"),
            "{open:?}"
        );
        assert!(open.window.0 > 0 && open.window.1 as usize == history.len() - 1, "{open:?}");
        let said = open.known.as_deref().unwrap_or_default();
        assert!(said.ends_with("taken alone, have such an order"), "{open:?}");
    }
    assert!(known > 0);
}

/// The same for memory: what is refused is named, and all of it is given back.
#[test]
fn memory_that_runs_out_is_named() {
    for append in [true, false] {
        let history = simulated(append, Isolation::Snapshot);
        let right = check(append, &history, "snapshot-isolation", &Budget::unlimited());
        assert_eq!(right.verdict, Verdict::Valid);
        let mut refused = 0;
        for bits in 8..30 {
            let memory = 1u64 << bits;
            let budget = Budget::new(|| Duration::ZERO, Duration::MAX, memory, 1);
            let analysis = check(append, &history, "snapshot-isolation", &budget);
            assert!(budget.reserve(memory).is_ok(), "all was given back");
            if analysis.verdict == Verdict::Unknown {
                refused += 1;
                let reason = &analysis.undecided[0].reason;
                assert!(reason.contains("the memory budget of"), "{reason}");
            } else {
                assert_eq!(analysis.verdict, Verdict::Valid);
            }
        }
        assert!((5..20).contains(&refused), "{refused}");
    }
}

/// Threads change nothing of what is said.
#[test]
fn threads_change_nothing() {
    for append in [true, false] {
        for isolation in [Isolation::Snapshot, Isolation::ReadUncommitted] {
            let simulation =
                Simulation { isolation, append, invocations: 20_000, ..Simulation::default() };
            let history = simulation.run();
            let said = |threads| {
                let budget = Budget::new(|| Duration::ZERO, Duration::MAX, u64::MAX, threads);
                serde_json::to_string(&check(append, &history, "snapshot-isolation", &budget)).ok()
            };
            assert_eq!(said(1), said(2));
            assert_eq!(said(1), said(5));
        }
    }
}
