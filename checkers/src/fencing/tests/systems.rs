//! Whole systems: right ones are not blamed, and every planted mistake is named.

use std::time::Duration;

use crate::{Analysis, Budget, Checker, Fencing, Verdict};

use super::script::names;
use super::simulated::{Mistake, history};

const EVENTS: usize = 10_000;

fn check(mistake: Mistake, seed: u64) -> Analysis {
    let analysis = Fencing::default().check(&history(EVENTS, mistake, seed), &Budget::unlimited());
    let mut faults =
        analysis.undecided.iter().filter(|u| u.reason.contains("fault of the checker"));
    assert_eq!(faults.next(), None, "{mistake:?}");
    analysis
}

/// A system that keeps its promises passes, with all claims on and perfect clocks claimed.
#[test]
fn a_system_that_is_right_is_never_blamed() {
    for seed in 0..20 {
        let analysis = check(Mistake::Nothing, seed);
        assert_eq!(analysis.verdict, Verdict::Valid, "seed {seed}: {:#?}", analysis);
    }
}

/// What is found does not depend on how many threads look for it.
#[test]
fn threads_change_nothing() {
    for mistake in [Mistake::Nothing, Mistake::DeposedServes, Mistake::ComparesNothing] {
        let history = history(EVENTS, mistake, 1);
        let judge = |threads| {
            let budget = Budget::new(|| Duration::ZERO, Duration::MAX, u64::MAX, threads);
            Fencing::default().check(&history, &budget)
        };
        assert_eq!(judge(1), judge(4), "{mistake:?}");
    }
}

/// Each mistake is found in three runs at most, under its right name.
#[test]
fn every_planted_mistake_is_named() {
    let mistakes = [
        (Mistake::TokensRestart, "token-grant-order"),
        (Mistake::SameTokenTwice, "duplicate-token"),
        (Mistake::ComparesWithLast, "stale-token-accepted"),
        (Mistake::ComparesNothing, "token-regression"),
        (Mistake::GrantsTooEarly, "lease-overlap"),
        (Mistake::GrantsTooEarly, "mutual-exclusion"),
        (Mistake::ReckonsFromReply, "overclaimed-lease"),
        (Mistake::ChecksThenPauses, "overclaimed-lease"),
        (Mistake::ForgesTokens, "unissued-token"),
        (Mistake::Forgets, "lost-acked-write"),
        (Mistake::DeposedServes, "dual-leader-effect"),
        (Mistake::DeposedServes, "dual-leader"),
        (Mistake::DeposedServes, "lost-acked-write"),
        (Mistake::StaleReads, "stale-read-under-lease"),
        (Mistake::AppliesTwice, "duplicate-apply"),
        (Mistake::RenewsExpired, "lost-notification"),
    ];
    for (mistake, name) in mistakes {
        let found = (0..3).any(|seed| names(&check(mistake, seed)).contains(&name));
        assert!(found, "{mistake:?} shows as {name}");
    }
    let used = check(Mistake::WritesAfterRelease, 0);
    assert!(used.details["exposures"]["use-after-release"]["count"].as_u64() > Some(0));
}
