//! One good and one bad case at least for each anomaly.

use crate::{Analysis, Claims, LeaseClaim, Verdict};
use deposed_history::OpType;
use deposed_history::fencing::{Grant, LogEvent, Seen, Served};

use super::script::{MS, R, Script, at, exposures, leader, lease, lock, names};

const OK: OpType = OpType::Ok;
const INFO: OpType = OpType::Info;

fn check(script: Script) -> Analysis {
    let analysis = script.check(Claims::default());
    let faults =
        analysis.undecided.iter().filter(|why| why.reason.contains("fault of the checker"));
    assert_eq!(faults.count(), 0, "{:#?}", analysis.undecided);
    analysis
}

#[track_caller]
fn bad(script: Script, expected: &[&str]) -> Analysis {
    let analysis = check(script);
    assert_eq!(names(&analysis), expected, "{analysis:#?}");
    assert_eq!(analysis.verdict, Verdict::Invalid);
    analysis
}

#[track_caller]
fn good(script: Script) -> Analysis {
    let analysis = check(script);
    assert_eq!(analysis.verdict, Verdict::Valid, "{analysis:#?}");
    analysis
}

fn start() -> Script {
    Script::default()
}

/// Process 1 held a lease for 5 ms; process 2 has had the next one since 12 and written under it.
fn taken_over() -> Script {
    start()
        .acquire(1, (0, 2), lease(33, 5))
        .acquire(2, (10, 12), lease(34, 50))
        .write(2, (13, 14), 34, "b", OK)
        .line(14, 1, 34, "b", true)
}

#[test]
fn an_empty_history_proves_nothing() {
    let analysis = check(start());
    assert_eq!(analysis.verdict, Verdict::Unknown);
    assert!(analysis.undecided[0].reason.starts_with("vacuous"));
}

#[test]
fn an_orderly_handover_is_fine() {
    good(
        start()
            .acquire(1, (0, 2), lock(33))
            .write(1, (3, 5), 33, "a", OK)
            .release(1, (6, 7), 33, OK)
            .acquire(2, (8, 9), lock(34))
            .write(2, (10, 12), 34, "b", OK)
            .release(2, (13, 14), 34, OK)
            .line(5, 1, 33, "a", true)
            .line(12, 2, 34, "b", true),
    );
}

#[test]
fn a_refused_stale_write_is_fine_and_measured() {
    let analysis =
        good(taken_over().write(1, (15, 17), 33, "a", OpType::Fail).line(17, 2, 33, "a", false));
    let first = &analysis.details["measures"]["takeover_to_first_refusal"];
    assert_eq!(first["max_ns"], 5 * MS, "granted by 12, refused at 17");
}

#[test]
fn an_accepted_stale_write_goes_back_in_tokens() {
    let analysis = bad(
        taken_over().write(1, (15, 17), 33, "a", OK).line(17, 2, 33, "a", true),
        &["stale-token-accepted", "token-regression"],
    );
    let stale = &analysis.anomalies[0];
    assert_eq!(stale.name, "stale-token-accepted");
    assert_eq!(stale.edges.len(), 2);
    assert_eq!(stale.key.as_deref(), Some(R));
}

#[test]
fn without_a_log_acknowledgements_show_that_a_stale_write_was_accepted() {
    let script = || start().acquire(1, (0, 2), lease(33, 5)).acquire(2, (10, 12), lease(34, 50));
    let last = |script: Script| script.snapshot(1, Seen::Every(vec!["a", "b"]));
    let analysis = bad(
        last(script().write(2, (13, 14), 34, "b", OK).write(1, (15, 17), 33, "a", OK)),
        &["stale-token-accepted"],
    );
    let sizes = &analysis.details["violations"]["stale-token-accepted"]["sizes"];
    assert_eq!(sizes["max_ns"], MS, "the newer by 14, the older from 15 on");
    // They overlap: either may have come first.
    good(last(script().write(2, (13, 16), 34, "b", OK).write(1, (15, 17), 33, "a", OK)));
}

#[test]
fn an_old_token_after_a_newer_grant_is_an_exposure_unless_resources_ask() {
    let script = || {
        start()
            .acquire(1, (0, 2), lease(33, 5))
            .acquire(2, (10, 12), lease(34, 50))
            .write(1, (15, 17), 33, "a", OK)
            .line(16, 1, 33, "a", true)
    };
    let analysis = good(script());
    let exposure = &analysis.details["exposures"]["stale-token-after-newer-grant"];
    assert_eq!((&exposure["count"], &exposure["sizes"]["max_ns"]), (&1.into(), &(4 * MS).into()));
    let claims = Claims { validated_tokens: true, ..Claims::default() };
    assert_eq!(names(&script().check(claims)), ["stale-token-after-newer-grant"]);
}

#[test]
fn one_token_for_two_holders_is_a_duplicate() {
    bad(
        start()
            .acquire(1, (0, 2), lock(33))
            .release(1, (3, 4), 33, OK)
            .acquire(2, (5, 6), lock(33))
            .write(2, (7, 8), 33, "b", OK)
            .line(8, 1, 33, "b", true),
        &["duplicate-token"],
    );
    // Reentered, not granted again.
    good(start().acquire(1, (0, 2), lock(33)).acquire(1, (3, 4), lock(33)));
    bad(
        start().acquire(1, (0, 2), lock(33)).release(1, (3, 4), 33, OK).acquire(
            1,
            (5, 6),
            lock(33),
        ),
        &["duplicate-token"],
    );
}

#[test]
fn tokens_may_not_go_back_in_real_time() {
    let script = |second: (u64, u64)| {
        start().acquire(1, (0, 2), lock(34)).release(1, (3, 4), 34, OK).acquire(2, second, lock(33))
    };
    let analysis = bad(script((5, 6)), &["token-grant-order"]);
    assert_eq!(analysis.anomalies[0].edges.len(), 2);
    // Asked for before the first had returned.
    good(script((1, 6)));
}

#[test]
fn a_token_that_nobody_was_given_is_forged_unless_a_lost_acquire_may_have_got_it() {
    let forged = || {
        start().acquire(1, (0, 2), lock(33)).write(1, (3, 4), 40, "a", OK).line(4, 1, 40, "a", true)
    };
    bad(forged(), &["unissued-token"]);
    good(forged().lost_acquire(2, (1, 3)));
    // The lost acquire began too late.
    bad(forged().lost_acquire(2, (5, 6)), &["unissued-token"]);
    // One lost acquire got one token, not two.
    bad(forged().lost_acquire(2, (1, 3)).line(5, 2, 41, "b", true), &["unissued-token"]);
    good(forged().log(&LogEvent::Granted { resource: R, token: 40, at: None }));
    // Used before it was asked for.
    bad(start().acquire(1, (5, 7), lock(40)).line(4, 1, 40, "a", true), &["unissued-token"]);
}

#[test]
fn a_lock_has_one_holder_at_a_time() {
    let script = |release: (u64, u64), kind| {
        start()
            .acquire(1, (0, 2), lock(33))
            .acquire(2, (3, 5), lock(34))
            .release(1, release, 33, kind)
            .release(2, (10, 11), 34, OK)
    };
    let analysis = bad(script((8, 9), OK), &["mutual-exclusion"]);
    assert_eq!(analysis.details["measures"]["mutual-exclusion"]["max_ns"], 3 * MS);
    // The release was under way, whether it succeeds or nobody knows.
    good(script((4, 9), OK));
    good(script((4, 9), INFO));
    bad(script((6, 9), INFO), &["mutual-exclusion"]);
    // A release that failed released nothing.
    bad(script((4, 9), OpType::Fail), &["mutual-exclusion"]);
    // Whoever lost its connection may have lost its lock.
    good(start().acquire(1, (0, 2), lock(33)).write(1, (3, 4), 33, "a", INFO).acquire(
        2,
        (5, 6),
        lock(34),
    ));
    good(start().lost_acquire(1, (0, 2)).acquire(2, (3, 5), lock(34)));
}

#[test]
fn a_lease_is_not_granted_again_while_it_certainly_lasts() {
    let script = || {
        start().acquire(1, (0, 2), lease(33, 10)).acquire(2, (4, 9), lease(34, 10)).release(
            2,
            (20, 21),
            34,
            OK,
        )
    };
    let analysis = bad(script(), &["lease-overlap"]);
    assert_eq!(analysis.details["measures"]["lease-overlap"]["max_ns"], MS);
    assert_eq!(analysis.details["measures"]["lease_handover_margin"]["min_ns"], -(MS as i64));
    // Within the error of clocks.
    let lease_claim = |clock_error_ms, drift| Claims {
        lease: Some(LeaseClaim { clock_error_ms, drift }),
        ..Claims::default()
    };
    assert_eq!(script().check(lease_claim(1, 0.0)).verdict, Verdict::Valid);
    assert_eq!(script().check(lease_claim(0, 0.1)).verdict, Verdict::Valid);
    assert_eq!(script().check(lease_claim(0, 0.05)).verdict, Verdict::Invalid);
    // Nobody promised.
    let analysis = script().check(Claims { lease: None, ..Claims::default() });
    assert_eq!((analysis.verdict, exposures(&analysis)), (Verdict::Valid, vec!["lease-overlap"]));
    good(script().release(1, (3, 4), 33, INFO));
}

#[test]
fn a_handover_within_the_error_of_clocks_is_fine() {
    let claims =
        Claims { lease: Some(LeaseClaim { clock_error_ms: 2, drift: 0.01 }), ..Claims::default() };
    let script = start().acquire(1, (0, 2), lease(33, 10)).acquire(2, (10, 12), lease(34, 10));
    let analysis = script.check(claims);
    assert_eq!(analysis.verdict, Verdict::Valid);
    assert_eq!(analysis.details["measures"]["lease_handover_margin"]["max_ns"], 2 * MS);
}

#[test]
fn a_renewed_lease_lasts_longer_and_none_is_renewed_once_lost() {
    let renewed = || start().acquire(1, (0, 2), lease(33, 10)).renew(1, (8, 9), lease(33, 10));
    bad(renewed().acquire(2, (12, 13), lease(34, 10)), &["lease-overlap"]);
    good(renewed().acquire(2, (17, 18), lease(34, 10)));
    bad(
        start().acquire(1, (0, 2), lease(33, 5)).acquire(2, (6, 7), lease(34, 10)).renew(
            1,
            (8, 9),
            lease(33, 10),
        ),
        &["lease-overlap"],
    );
}

#[test]
fn a_client_may_not_take_its_lease_for_longer_than_it_can_be() {
    let until = |ms: u64| Grant { valid_until_ns: Some(ms * MS), ..lease(33, 10) };
    good(start().acquire(1, (0, 2), until(12)));
    bad(start().acquire(1, (0, 2), until(13)), &["overclaimed-lease"]);
    // The service says when it granted: the client reckoned from the reply.
    let granted = LogEvent::Granted { resource: R, token: 33, at: at(1) };
    bad(start().acquire(1, (0, 2), until(12)).log(&granted), &["overclaimed-lease"]);

    let logged = |script: Script| script.line(20, 1, 33, "w", true);
    let held = || start().acquire(1, (0, 2), lease(33, 10));
    good(logged(held().trusting_write(1, (12, 13), 33)));
    bad(logged(held().trusting_write(1, (13, 14), 33)), &["overclaimed-lease"]);
    // A renewal of unknown outcome, by another thread of the client, may have come through.
    let renewing = held().call(3, (3, 4), "renew", INFO, token(33), token(33));
    good(logged(renewing.trusting_write(1, (13, 14), 33)));
}

fn token(token: i64) -> deposed_history::Value {
    deposed_history::fencing::Token(token).to_value()
}

#[test]
fn a_write_after_its_release_is_an_exposure_and_worse_once_the_token_is_stale() {
    let released = || {
        start()
            .acquire(1, (0, 2), lock(33))
            .release(1, (3, 4), 33, OK)
            .write(1, (5, 6), 33, "a", OK)
            .line(6, 2, 33, "a", true)
    };
    assert_eq!(exposures(&good(released())), ["use-after-release"]);
    bad(
        released().acquire(2, (4, 5), lock(34)).line(5, 1, 34, "b", true),
        &["stale-token-accepted", "token-regression", "use-after-release"],
    );
}

#[test]
fn what_was_acknowledged_has_to_survive() {
    let written = || {
        start()
            .acquire(1, (0, 2), lock(33))
            .write(1, (3, 5), 33, "a", OK)
            .write(1, (6, 8), 33, "b", OK)
            .line(5, 1, 33, "a", true)
    };
    let kept = || written().line(8, 2, 33, "b", true);
    bad(kept().snapshot(2, Seen::Every(vec!["a"])), &["lost-acked-write"]);
    bad(kept().snapshot(2, Seen::Last(Some("a"))), &["lost-acked-write"]);
    good(kept().snapshot(2, Seen::Last(Some("b"))));
    // Copies lag: one that has it is enough, but one of an old epoch does not count.
    good(kept().snapshot(2, Seen::Every(vec!["a"])).snapshot(2, Seen::Every(vec!["a", "b"])));
    bad(
        kept().snapshot(2, Seen::Every(vec!["a"])).snapshot(1, Seen::Every(vec!["a", "b"])),
        &["lost-acked-write"],
    );
    // Of two copies one lists all it has, the other tells the last only: neither has it.
    let lists = || kept().snapshot(2, Seen::Every(vec!["a"]));
    bad(lists().snapshot(2, Seen::Last(Some("a"))), &["lost-acked-write"]);
    good(lists().snapshot(2, Seen::Last(Some("b"))));
    // Its log is the last word if there is no other.
    let analysis = bad(written().line(8, 2, 33, "b", false), &["lost-acked-write"]);
    assert_eq!(analysis.details["counts"]["acknowledged_then_refused"], 1);
    bad(written(), &["lost-acked-write"]);
    good(kept());
    // Nobody promised that a write of unknown outcome survives.
    good(
        start()
            .write(1, (3, 5), 33, "a", OK)
            .write(1, (6, 8), 33, "b", INFO)
            .snapshot(2, Seen::Every(vec!["a"])),
    );
}

#[test]
fn reads_of_a_later_epoch_show_what_is_lost() {
    let read = |epoch, ids: &[&'static str]| {
        start()
            .append(1, (0, 2), "a", leader("n1", 1))
            .append(1, (3, 4), "b", leader("n2", 2))
            .read(2, (5, 6), Seen::Every(ids.to_vec()), Some(leader("n2", epoch)))
    };
    bad(read(2, &["b"]), &["lost-acked-write"]);
    good(read(2, &["a", "b"]));
    bad(read(1, &["b"]), &["dual-leader", "stale-read-under-lease"]);
    // Where reads may be old, only a leader's tell; and nobody promised that anything is kept.
    let found = |by: Served<'static>| {
        let history = start()
            .append(1, (0, 2), "a", leader("n1", 1))
            .append(1, (3, 4), "b", leader("n2", 2))
            .read(2, (5, 6), Seen::Every(vec!["b"]), Some(by));
        let analysis = history.check(Claims::NONE);
        assert_eq!(analysis.verdict, Verdict::Valid);
        exposures(&analysis).into_iter().filter(|name| *name == "lost-acked-write").count()
    };
    assert_eq!(found(leader("n2", 2)), 1);
    assert_eq!(found(Served { leader: false, ..leader("n3", 2) }), 0);
}

#[test]
fn acknowledged_writes_that_nothing_tells_of_are_undecided() {
    let analysis = check(start().write(1, (0, 1), 33, "a", OK));
    assert_eq!(analysis.verdict, Verdict::Unknown);
    assert!(analysis.undecided[0].reason.contains("nothing tells"), "{:?}", analysis.undecided);
}

#[test]
fn a_write_takes_effect_once() {
    let written = || start().write(1, (0, 1), 33, "a", OK).line(1, 1, 33, "a", true);
    bad(written().line(2, 2, 33, "a", true), &["duplicate-apply"]);
    good(written().line(2, 2, 33, "a", false));
    bad(written().snapshot(1, Seen::Every(vec!["a", "a"])), &["duplicate-apply"]);
}

#[test]
fn two_leaders_at_once_are_measured_by_what_they_served() {
    let served = |old: (u64, u64)| {
        start()
            .append(1, (0, 2), "a", leader("n1", 5))
            .append(2, (10, 12), "b", leader("n2", 6))
            .append(1, old, "c", leader("n1", 5))
            .snapshot(6, Seen::Every(vec!["a", "b", "c"]))
    };
    let analysis = bad(served((20, 22)), &["dual-leader", "dual-leader-effect"]);
    assert_eq!(analysis.details["measures"]["two_leaders_window"]["max_ns"], 8 * MS);
    good(served((11, 22)));
    // A follower that lags does not lead.
    let follower = deposed_history::fencing::Served { leader: false, ..leader("n1", 5) };
    good(
        start()
            .append(1, (0, 2), "a", leader("n1", 5))
            .append(2, (10, 12), "b", leader("n2", 6))
            .read(3, (13, 14), Seen::Every(vec!["a", "b"]), Some(follower))
            .snapshot(6, Seen::Every(vec!["a", "b"])),
    );
    bad(
        start()
            .append(1, (0, 2), "a", leader("n1", 5))
            .append(2, (1, 3), "b", leader("n2", 5))
            .snapshot(6, Seen::Every(vec!["a", "b"])),
        &["dual-leader"],
    );
}

#[test]
fn nodes_that_hold_themselves_for_leaders_at_once() {
    let led = |node, epoch, from: u64, to: u64, error: u64| LogEvent::Led {
        node,
        epoch,
        from_ns: from * MS,
        to_ns: to * MS,
        error_ns: error * MS,
    };
    bad(start().log(&led("n1", 5, 0, 40, 0)).log(&led("n2", 6, 30, 80, 0)), &["dual-leader"]);
    good(start().log(&led("n1", 5, 0, 40, 5)).log(&led("n2", 6, 30, 80, 5)));
    good(start().log(&led("n1", 5, 0, 40, 0)).log(&led("n1", 6, 30, 80, 0)));
    bad(start().log(&led("n1", 5, 0, 10, 0)).log(&led("n2", 5, 30, 80, 0)), &["dual-leader"]);
    // What is left between them is measured, as little as it may be.
    let handover = start().log(&led("n2", 6, 30, 80, 1)).log(&led("n1", 5, 0, 20, 1));
    let left = good(handover).details["measures"]["lease_handover_margin"]["min_ns"].as_u64();
    assert_eq!(left, Some(8 * MS));
}

#[test]
fn a_read_that_misses_an_acknowledged_write_is_stale() {
    let read = |seen| {
        start()
            .append(1, (0, 2), "a", leader("n1", 1))
            .append(1, (3, 5), "b", leader("n1", 1))
            .read(2, (9, 10), seen, Some(leader("n1", 1)))
            .snapshot(1, Seen::Every(vec!["a", "b"]))
    };
    for seen in [Seen::Every(vec!["a"]), Seen::Last(Some("a"))] {
        let analysis = bad(read(seen), &["stale-read-under-lease"]);
        let stale = &analysis.details["measures"]["stale-read-under-lease"];
        assert_eq!(stale["max_ns"], 4 * MS);
    }
    good(read(Seen::Every(vec!["a", "b"])));
    good(read(Seen::Last(Some("b"))));
    bad(read(Seen::Last(None)), &["stale-read-under-lease"]);
    let analysis = read(Seen::Last(Some("a")))
        .check(Claims { linearizable_reads: false, ..Claims::default() });
    assert_eq!(analysis.verdict, Verdict::Valid);
    assert_eq!(exposures(&analysis), ["stale-read-under-lease"]);
}

#[test]
fn a_revoked_lease_cannot_be_renewed() {
    let renewed = |ended: u64| {
        start()
            .acquire(1, (0, 2), lease(33, 10))
            .renew(1, (5, 6), lease(33, 10))
            .log(&LogEvent::Ended { resource: R, token: 33, revoked: true, at: at(ended) })
    };
    bad(renewed(4), &["lost-notification"]);
    good(renewed(5));
}

#[test]
fn an_event_in_no_known_shape_is_undecided() {
    let odd = start().acquire(1, (0, 1), lock(33)).call(
        2,
        (2, 3),
        "renew",
        OK,
        deposed_history::Value::Nil,
        deposed_history::Value::Nil,
    );
    let analysis = check(odd);
    assert_eq!(analysis.verdict, Verdict::Unknown);
    assert!(analysis.undecided[0].reason.contains("no known shape"));
    assert_eq!(analysis.undecided[0].window.0, 2);
    let known = "the 1 calls that succeeded before op 2, taken alone, break no claim";
    assert_eq!(analysis.undecided[0].known.as_deref(), Some(known));
}
