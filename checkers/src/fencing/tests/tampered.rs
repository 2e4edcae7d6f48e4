//! The verifier against anomalies that are not so.

use crate::fencing::verify;
use crate::{Anomaly, Budget, Checker, Claims, Fencing};
use deposed_history::History;

use super::simulated::{Mistake, Random, history};

const EVENTS: usize = 3_000;

/// Anomalies of every kind that is always a violation, each with the history it is of.
fn found() -> Vec<(History, Vec<Anomaly>)> {
    let mistakes = [
        Mistake::TokensRestart,
        Mistake::SameTokenTwice,
        Mistake::ComparesNothing,
        Mistake::GrantsTooEarly,
        Mistake::ReckonsFromReply,
        Mistake::ForgesTokens,
        Mistake::Forgets,
        Mistake::DeposedServes,
        Mistake::StaleReads,
        Mistake::AppliesTwice,
        Mistake::RenewsExpired,
    ];
    let judged = mistakes.into_iter().map(|mistake| {
        let history = history(EVENTS, mistake, 7);
        let mut found = Fencing::default().check(&history, &Budget::unlimited()).anomalies;
        found.retain(|anomaly| anomaly.name != "use-after-release");
        (history, found)
    });
    judged.collect()
}

/// What was found stands; without one of its steps, or with one turned round, it does not.
#[test]
fn a_broken_argument_is_refused() {
    let claims = Claims::default();
    let mut broken = 0;
    for (history, anomalies) in found() {
        for anomaly in anomalies {
            assert_eq!(verify(&history, &claims, &anomaly), Ok(()), "{anomaly:#?}");
            for step in 0..anomaly.edges.len() {
                let mut without = anomaly.clone();
                without.edges.remove(step);
                assert!(verify(&history, &claims, &without).is_err(), "{without:#?}");
                let mut turned = anomaly.clone();
                let edge = &mut turned.edges[step];
                std::mem::swap(&mut edge.from, &mut edge.to);
                assert!(verify(&history, &claims, &turned).is_err(), "{turned:#?}");
                broken += 2;
            }
            let nameless = Anomaly { name: "no-such-thing".into(), ..anomaly.clone() };
            assert!(verify(&history, &claims, &nameless).is_err());
            let nothing = Anomaly { witness: Vec::new(), ..anomaly };
            assert!(verify(&history, &claims, &nothing).is_err());
        }
    }
    assert!(broken > 100, "{broken}");
}

/// Nothing is ever proven of a system that is right, whatever events an anomaly points at.
#[test]
fn nothing_is_proven_of_a_right_system() {
    let claims = Claims::default();
    let right = history(EVENTS, Mistake::Nothing, 7);
    let mut random = Random::new(11);
    for (_, anomalies) in found() {
        for anomaly in anomalies {
            assert!(verify(&right, &claims, &anomaly).is_err(), "{anomaly:#?}");
            for _ in 0..40 {
                // Steps that met go on meeting.
                let shift = random.below(right.len() as u64);
                let moved = |at: u32| ((u64::from(at) + shift) % right.len() as u64) as u32;
                let mut tampered = anomaly.clone();
                tampered.witness.iter_mut().for_each(|at| *at = moved(*at));
                for edge in &mut tampered.edges {
                    (edge.from, edge.to) = (moved(edge.from), moved(edge.to));
                }
                assert!(verify(&right, &claims, &tampered).is_err(), "{tampered:#?}");
            }
        }
    }
}
