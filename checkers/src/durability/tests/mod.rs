//! Small cases with known answers.

use deposed_history::{Header, History, Op, OpType, Process, Value};

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{
    Analysis, Availability, Budget, Checker, CounterBounds, LeaseExpiry, SetFull, TotalQueue,
    UniqueIds, Verdict,
};

mod definitions;
mod leases;

/// `(process, kind, f, value)`: time is ten times the position.
type Event = (u32, OpType, &'static str, Value);

const INVOKE: OpType = OpType::Invoke;
const OK: OpType = OpType::Ok;
const FAIL: OpType = OpType::Fail;
const INFO: OpType = OpType::Info;

fn history(events: &[Event]) -> History {
    let ops: Vec<Op> = events
        .iter()
        .enumerate()
        .map(|(i, (process, kind, f, value))| Op {
            index: i as u64,
            time: i as u64 * 10,
            ..Op::new(*kind, Process::Client(*process), f, value.clone())
        })
        .collect();
    History::from_ops(Header::default(), &ops)
}

fn ints(items: &[i64]) -> Value {
    Value::List(items.iter().map(|&n| Value::Int(n)).collect())
}

/// A call that nothing overlaps.
fn call(process: u32, f: &'static str, kind: OpType, argument: Value, result: Value) -> [Event; 2] {
    [(process, INVOKE, f, argument), (process, kind, f, result)]
}

fn check(checker: &dyn Checker, events: &[Event]) -> Analysis {
    checker.check(&history(events), &Budget::unlimited())
}

fn names(analysis: &Analysis) -> Vec<&str> {
    analysis.anomalies.iter().map(|a| a.name.as_str()).collect()
}

#[test]
fn an_empty_history_proves_nothing() {
    let checkers: [&dyn Checker; 5] =
        [&SetFull::default(), &TotalQueue, &CounterBounds, &UniqueIds, &Availability { goal: 0.5 }];
    for checker in checkers {
        let analysis = check(checker, &[]);
        assert_eq!(analysis.verdict, Verdict::Unknown, "{}", checker.name());
        assert!(analysis.undecided[0].reason.starts_with("vacuous"), "{}", checker.name());
    }
}

#[test]
fn an_acknowledged_element_that_no_later_read_sees_is_lost() {
    let events = [
        call(0, "add", OK, 1.into(), 1.into()),
        call(0, "add", OK, 2.into(), 2.into()),
        call(1, "read", OK, Value::Nil, ints(&[1])),
    ]
    .concat();
    let analysis = check(&SetFull::default(), &events);
    assert_eq!(names(&analysis), ["lost-element"]);
    assert_eq!(analysis.anomalies[0].witness, [2, 4]);
}

#[test]
fn an_element_missed_once_and_seen_again_is_stale_and_only_a_linearizable_set_minds() {
    let events = [
        call(0, "add", OK, 1.into(), 1.into()),
        call(1, "read", OK, Value::Nil, ints(&[])),
        call(1, "read", OK, Value::Nil, ints(&[1])),
    ]
    .concat();
    let lenient = check(&SetFull::default(), &events);
    assert_eq!(lenient.verdict, Verdict::Valid);
    assert_eq!(lenient.details["stale"], 1);
    assert_eq!(lenient.details["worst_stale_ns"], 10);
    let strict = check(&SetFull { linearizable: true }, &events);
    assert_eq!(names(&strict), ["stale-element"]);
}

#[test]
fn duplicates_and_elements_nobody_added_are_violations() {
    let events = [
        call(0, "add", OK, 1.into(), 1.into()),
        call(0, "add", FAIL, 2.into(), 2.into()),
        call(1, "read", OK, Value::Nil, ints(&[1, 2, 1])),
    ]
    .concat();
    assert_eq!(
        names(&check(&SetFull::default(), &events)),
        ["duplicate-elements", "unexpected-element"]
    );
}

#[test]
fn an_indeterminate_add_may_be_seen_or_not() {
    for seen in [&[][..], &[1][..]] {
        let events = [
            call(0, "add", INFO, 1.into(), 1.into()),
            call(2, "add", OK, 5.into(), 5.into()),
            call(1, "read", OK, Value::Nil, ints(&[seen, &[5]].concat())),
        ]
        .concat();
        assert_eq!(check(&SetFull::default(), &events).verdict, Verdict::Valid, "{seen:?}");
    }
}

#[test]
fn a_queue_that_loses_an_element_is_caught_unless_a_crash_may_have_taken_it() {
    let lost = [
        call(0, "enqueue", OK, 1.into(), 1.into()),
        call(0, "enqueue", OK, 2.into(), 2.into()),
        call(1, "dequeue", OK, Value::Nil, 1.into()),
    ]
    .concat();
    assert_eq!(names(&check(&TotalQueue, &lost)), ["lost-element"]);

    let crashed =
        [lost.clone(), call(2, "dequeue", INFO, Value::Nil, Value::Nil).to_vec()].concat();
    assert_eq!(check(&TotalQueue, &crashed).verdict, Verdict::Unknown);

    let told = [lost.clone(), call(2, "drain", INFO, Value::Nil, ints(&[2])).to_vec()].concat();
    assert_eq!(check(&TotalQueue, &told).verdict, Verdict::Valid);

    // Two are missing, and one crashed dequeue cannot have taken both.
    let two = [
        call(0, "enqueue", OK, 1.into(), 1.into()),
        call(0, "enqueue", OK, 2.into(), 2.into()),
        call(1, "dequeue", INFO, Value::Nil, Value::Nil),
    ]
    .concat();
    let analysis = check(&TotalQueue, &two);
    assert_eq!((analysis.verdict, analysis.anomaly_count), (Verdict::Invalid, 1));
}

#[test]
fn an_element_that_was_never_put_in_is_unexpected() {
    let events = [
        call(0, "enqueue", FAIL, 1.into(), 1.into()),
        call(1, "dequeue", OK, Value::Nil, 1.into()),
    ]
    .concat();
    assert_eq!(names(&check(&TotalQueue, &events)), ["unexpected-element"]);
}

#[test]
fn ids_are_unique_or_named() {
    let events = [
        call(0, "generate", OK, Value::Nil, "a".into()),
        call(1, "generate", OK, Value::Nil, "b".into()),
        call(2, "generate", OK, Value::Nil, "a".into()),
    ]
    .concat();
    let analysis = check(&UniqueIds, &events);
    assert_eq!(analysis.anomalies[0].witness, [0, 4]);
    assert_eq!(check(&UniqueIds, &events[..4]).verdict, Verdict::Valid);
}

#[test]
fn a_counter_takes_failed_joint_and_negative_adds_for_what_they_are() {
    let base = [
        call(0, "add", OK, ints(&[2, 3]), ints(&[2, 3])),
        call(0, "add", FAIL, 100.into(), 100.into()),
        call(1, "add", INFO, Value::Int(-4), Value::Int(-4)),
    ]
    .concat();
    for (value, verdict) in [
        (5, Verdict::Valid),
        (1, Verdict::Valid),
        (6, Verdict::Invalid),
        (0, Verdict::Invalid),
        (105, Verdict::Invalid),
    ] {
        let events =
            [base.clone(), call(2, "read", OK, Value::Nil, value.into()).to_vec()].concat();
        assert_eq!(check(&CounterBounds, &events).verdict, verdict, "read {value}");
    }
}

#[test]
fn availability_below_the_goal_leaves_the_verdict_open() {
    let events =
        [call(0, "read", OK, Value::Nil, 1.into()), call(0, "read", FAIL, Value::Nil, Value::Nil)]
            .concat();
    assert_eq!(check(&Availability { goal: 0.5 }, &events).verdict, Verdict::Valid);
    assert_eq!(check(&Availability { goal: 0.6 }, &events).verdict, Verdict::Unknown);
}

/// What calls of the wrong shape may have done is held against nobody, and what came before them is judged.
#[test]
fn calls_of_the_wrong_shape_leave_open_what_they_may_explain() {
    let call = |f, argument: Value, result: Value| call(0, f, OK, argument, result);
    let read = |value: Value| call("read", Value::Nil, value);
    let judge = |checker: &dyn Checker, calls: &[[Event; 2]]| {
        let analysis = check(checker, &calls.concat());
        let reasons: Vec<String> = analysis.undecided.iter().map(|o| o.reason.clone()).collect();
        (analysis.verdict, reasons.join("; "))
    };
    let (one, odd) = (call("add", 1.into(), 1.into()), call("add", "x".into(), "x".into()));
    let open = |reason: &str| (Verdict::Unknown, reason.to_owned());
    let (bounds, set) = (&CounterBounds, &SetFull::default());
    let (seven, odd_read) = (read(7.into()), read("x".into()));
    let added = open("op 2: no amounts can be added of \"x\"");
    assert_eq!(judge(bounds, &[one.clone(), odd.clone(), seven.clone()]), added);
    assert_eq!(judge(bounds, &[seven, odd.clone()]).0, Verdict::Invalid);
    assert_eq!(judge(bounds, std::slice::from_ref(&one)).0, Verdict::Valid);
    let frobnicated = call("frobnicate", 1.into(), 1.into());
    assert_eq!(judge(bounds, &[frobnicated]), open("vacuous: no add or read succeeded"));
    let untold = open("the read of op 4 tells no list of elements");
    assert_eq!(judge(set, &[one.clone(), read(ints(&[])), odd_read.clone()]), untold);
    // Of what came before, it is told whether it is fine.
    let known = |checker: &dyn Checker, calls: &[[Event; 2]]| {
        let undecided = check(checker, &calls.concat()).undecided.remove(0);
        (undecided.window, undecided.known)
    };
    let fine = |what| Some(format!("the 2 calls that succeeded before op 4, taken alone, {what}"));
    let (sum, seen) = (read(1.into()), read(ints(&[1])));
    let (within, kept) = (fine("are within the bounds"), fine("lose nothing"));
    assert_eq!(known(bounds, &[one.clone(), sum.clone(), odd.clone(), sum]), ((4, 7), within));
    assert_eq!(known(set, &[one.clone(), seen, odd_read.clone()]), ((4, 5), kept));
    assert_eq!(known(set, &[one.clone(), read(ints(&[])), odd_read.clone()]), ((4, 5), None));
    assert_eq!(judge(set, &[one, odd_read, read(ints(&[]))]).0, Verdict::Invalid);
    let put = |n: i64| call("enqueue", n.into(), n.into());
    let (take, drain) =
        (call("dequeue", Value::Nil, 1.into()), call("drain", Value::Nil, 5.into()));
    assert_eq!(judge(&TotalQueue, &[put(1), drain.clone()]).0, Verdict::Unknown);
    let kept = "the other 1 acknowledged elements came out, and nothing that was not put in";
    assert_eq!(known(&TotalQueue, &[put(1), put(2), take, drain]), ((0, 7), Some(kept.into())));
}

/// Only where nothing succeeded at all is a history vacuous; where what succeeded tells nothing, that is
/// said.
#[test]
fn a_history_in_which_anything_succeeded_is_not_vacuous() {
    let nil = || Value::Nil;
    let lease = || Value::List(vec!["k".into(), Value::Nil]);
    let unread = "no element was both acknowledged and read afterwards";
    let unended = "no key was looked at after the end of its lease";
    let set: &dyn Checker = &SetFull::default();
    let cases = [
        (set, "add", 1.into(), 1.into(), Some(unread)),
        (set, "read", nil(), ints(&[]), Some(unread)),
        (&TotalQueue, "dequeue", nil(), nil(), None),
        (&CounterBounds, "add", 1.into(), 1.into(), None),
        (&CounterBounds, "read", nil(), 0.into(), None),
        (&UniqueIds, "generate", nil(), 1.into(), None),
        (&LeaseExpiry { late_max_ns: 0 }, "put-leased", lease(), lease(), Some(unended)),
    ];
    for (checker, f, asked, told, missing) in cases {
        let judge = |kind| check(checker, &call(0, f, kind, asked.clone(), told.clone()));
        let failed = judge(FAIL);
        assert_eq!(failed.verdict, Verdict::Unknown, "{failed:?}");
        assert!(failed.undecided[0].reason.starts_with("vacuous: no "), "{failed:?}");
        let succeeded = judge(OK);
        let reason = succeeded.undecided.first().map(|open| open.reason.as_str());
        assert_eq!(reason, missing, "{succeeded:?}");
    }
}

/// Where the time runs out before what was found is verified, nothing is claimed; what was verified by
/// then stays.
#[test]
fn what_there_is_no_time_to_verify_is_not_claimed() {
    let ids: Vec<_> = (0..4).map(|_| call(0, "generate", OK, Value::Nil, 7.into())).collect();
    let history = history(&ids.concat());
    // Each look at the clock takes a second.
    let judge = |seconds| {
        let looks = AtomicU64::new(0);
        let clock = move || Duration::from_secs(looks.fetch_add(1, Ordering::Relaxed));
        let budget = Budget::new(clock, Duration::from_secs(seconds), u64::MAX, 1);
        UniqueIds.check(&history, &budget)
    };
    let (none, some, all) = (judge(0), judge(1), judge(9));
    let reason = "the time budget of 0ns ran out before any of the anomalies that were found was \
                  verified";
    assert_eq!((none.verdict, none.undecided[0].reason.as_str()), (Verdict::Unknown, reason));
    assert_eq!((some.verdict, some.anomalies.len()), (Verdict::Invalid, 1));
    assert_eq!((all.verdict, all.anomalies.len()), (Verdict::Invalid, 3));
    assert_eq!((some.anomaly_count, all.anomaly_count), (3, 3));
}

/// How many random histories: `DEPOSED_FUZZ`, or a few thousand.
fn fuzz() -> u64 {
    std::env::var("DEPOSED_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(4_000)
}

/// A small deterministic source of randomness (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}
