//! The verifier against every witness there can be: what is not there is never confirmed, and each of its
//! demands is needed for that.

use deposed_history::fencing::LogEvent;

use super::brute_force::{brute_force, claims};
use super::random;
use crate::fencing::refusal::{Why, plant};
use crate::fencing::verify::Verifier;
use crate::{Anomaly, Claims, Edge, EdgeKind, FENCING_NAMES};

/// Histories in which every witness is tried.
const HISTORIES: u64 = 700;

/// What is wrong by its shape: there is nothing to waive.
const SHAPES: [Why; 4] = [Why::NoWitness, Why::UnknownShape, Why::NoBelief, Why::NotAcknowledged];

/// What an anomaly of a name may point at: the kinds of its two steps, if it has some.
fn steps(name: &str) -> &'static [[EdgeKind; 2]] {
    use EdgeKind::{GrantUse, ReadWrite, RealTime, ResourceOrder, TokenOrder};
    match name {
        "token-regression" => &[[ResourceOrder, TokenOrder], [RealTime, TokenOrder]],
        "stale-token-accepted" => &[[ResourceOrder, TokenOrder], [RealTime, TokenOrder]],
        "stale-token-after-newer-grant"
        | "token-grant-order"
        | "dual-leader"
        | "dual-leader-effect" => &[[RealTime, TokenOrder]],
        "stale-read-under-lease" => &[[RealTime, ReadWrite], [RealTime, TokenOrder]],
        "lost-notification" => &[[RealTime, GrantUse], [RealTime, TokenOrder]],
        "use-after-release" | "mutual-exclusion" => &[[RealTime, GrantUse]],
        _ => &[],
    }
}

/// Whether an anomaly may have two witnesses and no steps.
fn is_pair(name: &str) -> bool {
    matches!(
        name,
        "duplicate-token"
            | "mutual-exclusion"
            | "lease-overlap"
            | "dual-leader"
            | "duplicate-apply"
    )
}

fn anomaly(name: &str, witness: &[u32], edges: Vec<Edge>) -> Anomaly {
    Anomaly {
        name: name.into(),
        key: None,
        summary: String::new(),
        sentences: Vec::new(),
        witness: witness.to_vec(),
        edges,
    }
}

/// All that a name may be given to: one event or two, with and without steps.
fn witnesses(events: &[u32], name: &str) -> Vec<Anomaly> {
    let mut all: Vec<Anomaly> = events.iter().map(|&a| anomaly(name, &[a], Vec::new())).collect();
    for (a, b) in events.iter().flat_map(|&a| events.iter().map(move |&b| (a, b))) {
        all.extend(is_pair(name).then(|| anomaly(name, &[a, b], Vec::new())));
        let edge = |from, to, kind| Edge { from, to, kind, because: String::new() };
        let cycle = |&[there, back]: &[EdgeKind; 2]| vec![edge(a, b, there), edge(b, a, back)];
        all.extend(steps(name).iter().map(|kinds| anomaly(name, &[a, b], cycle(kinds))));
    }
    all
}

/// What is confirmed in a random history, although its definition says that it is not there.
fn wrong(seed: u64) -> Option<(Claims, Anomaly)> {
    let (history, claims) = (random::history(seed), claims(seed));
    let counts = brute_force(&history, &claims)?;
    let there = |name: &str| counts.keys().any(|(of, _)| *of == name);
    let mut absent = FENCING_NAMES.into_iter().filter(|&name| {
        // An old token after a newer grant is one after a newer token was accepted, too.
        let too = name == "stale-token-after-newer-grant" && there("stale-token-accepted");
        !there(name) && !too
    });
    let calls = history.calls().iter().map(|call| call.invoke);
    let lines = history.ops().filter(|op| LogEvent::parse(*op).is_some()).map(|op| op.position());
    let events: Vec<u32> = calls.chain(lines).collect();
    // One that is about everything there is.
    let verifier =
        Verifier::of(&history, &claims, [&anomaly("unissued-token", &events, Vec::new())], 1);
    let wrong = absent.find_map(|name| {
        witnesses(&events, name).into_iter().find(|anomaly| verifier.verify(anomaly).is_ok())
    });
    wrong.map(|anomaly| (claims, anomaly))
}

/// A wrong witness is refused, whatever it is.
#[test]
fn what_is_not_there_is_never_confirmed() {
    for seed in 0..HISTORIES {
        assert_eq!(wrong(seed), None, "seed {seed}\n{}", super::text(&random::history(seed)));
    }
}

/// Without any one of its demands, the verifier confirms what is not there.
#[test]
fn every_demand_is_needed() {
    let needless: Vec<Why> = Why::ALL
        .iter()
        .copied()
        .filter(|why| !SHAPES.contains(why))
        .filter(|&why| {
            plant(Some(why));
            let found = (0..HISTORIES).any(|seed| wrong(seed).is_some());
            plant(None);
            !found
        })
        .collect();
    assert_eq!(needless, []);
}
