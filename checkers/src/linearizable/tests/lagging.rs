//! How far reads have to be allowed to lag, against brute force: every lag that could matter, and for
//! each of them every order.

use std::collections::BTreeSet;

use deposed_history::{Header, History, Op};

use super::oracle::{End, Random, TestCall, history, is_linearizable, random_calls, rounds, show};
use super::registers::RegisterOp;
use super::{Bug, RegisterSpec, SPECS, plant};
use crate::{Budget, Checker, Staleness, Verdict};

/// A history with a time for each event, in nanoseconds.
struct Timed {
    calls: Vec<TestCall<RegisterOp>>,
    times: Vec<u64>,
}

impl Timed {
    /// A random one, in which reads may see what was there before.
    fn random(spec: &RegisterSpec, round: u64) -> Self {
        let mut random = Random::new(round);
        let size = 2 + random.below(7) as usize;
        let info = [0, 0, 10, 30][random.below(4) as usize];
        let mut calls = random_calls(spec, &mut random, size, info);
        let mut written = vec![None];
        for call in &mut calls {
            match &mut call.op {
                RegisterOp::Write(value) | RegisterOp::Cas(_, value) => written.push(*value),
                RegisterOp::Read(value) if random.chance(40) => {
                    *value = written[random.below(written.len() as u64) as usize];
                }
                RegisterOp::Read(_) => {}
            }
        }
        let mut now = 0;
        let times = (0..2 * size)
            .map(|_| {
                // Some events happen at the same time.
                now += random.below(5);
                now
            })
            .collect();
        Self { calls, times }
    }

    fn history(&self, spec: &RegisterSpec) -> History {
        // A call that never ends leaves a gap.
        let ends = self.calls.iter().filter(|call| call.end != End::Open).map(|call| call.ret);
        let positions: BTreeSet<usize> =
            self.calls.iter().map(|call| call.inv).chain(ends).collect();
        let events = history(spec, &self.calls);
        let timed = events.ops().zip(positions).map(|(event, position)| {
            let time = self.time(position);
            Op { time, ..event.to_op() }
        });
        History::from_ops(Header::default(), &timed.collect::<Vec<_>>())
    }

    fn time(&self, position: usize) -> u64 {
        self.times.get(position).copied().unwrap_or(u64::MAX)
    }

    /// Whether there is a legal order if reads may take effect so much earlier.
    fn is_linearizable(&self, spec: &RegisterSpec, lag: u64) -> bool {
        let calls: Vec<TestCall<RegisterOp>> = (self.calls.iter())
            .map(|call| {
                let read = matches!(call.op, RegisterOp::Read(_));
                let inv = self.time(call.inv).saturating_sub(if read { lag } else { 0 });
                let ret = self.time(call.ret);
                TestCall { inv: inv as usize, ret: ret as usize, ..call.clone() }
            })
            .collect();
        is_linearizable(spec, &calls)
    }

    /// The smallest lag with which there is one.
    fn least(&self, spec: &RegisterSpec) -> Option<u64> {
        let reads = self.calls.iter().filter(|call| matches!(call.op, RegisterOp::Read(_)));
        let mut lags = BTreeSet::from([0]);
        for read in reads {
            let ends = self.calls.iter().map(|call| self.time(call.ret));
            lags.extend(ends.map(|end| self.time(read.inv).saturating_sub(end)));
        }
        lags.into_iter().find(|lag| self.is_linearizable(spec, *lag))
    }
}

/// What the checker says, if it is wrong.
fn wrong(spec: &RegisterSpec, timed: &Timed) -> Option<String> {
    let history = timed.history(spec);
    let analysis = Staleness::default().check(&history, &Budget::unlimited());
    let details = &analysis.details;
    if analysis.undecided.iter().any(|open| open.reason.starts_with("vacuous: ")) {
        let has_ok = timed.calls.iter().any(|call| call.end == End::Ok);
        return has_ok.then(|| format!("not vacuous\n{}", show(&history)));
    }
    let least = (details["not_explained_by_lag"] == 0).then(|| details["bound_ns"].as_u64());
    let (least, expected) = (least.flatten(), timed.least(spec));
    // No read lags by more than reads have to be allowed to.
    let most = details["lag_max_ns"].as_u64().unwrap_or(0);
    let fits = expected.is_none_or(|expected| most <= expected);
    (analysis.verdict != Verdict::Valid || least != expected || !fits)
        .then(|| format!("{expected:?}, {details}\n{:?}\n{}", timed.times, show(&history)))
}

/// The least lag agrees with brute force, to the nanosecond.
#[test]
fn the_least_lag_agrees_with_brute_force() {
    let (mut none, mut some, mut never) = (0, 0, 0);
    for round in 0..rounds() {
        for spec in &SPECS {
            let timed = Timed::random(spec, round);
            if let Some(wrong) = wrong(spec, &timed) {
                panic!("round {round}, values {:?}: {wrong}", spec.values);
            }
            match timed.least(spec) {
                Some(0) => none += 1,
                Some(_) => some += 1,
                None => never += 1,
            }
        }
    }
    let least = rounds() / 5;
    assert!(none > least && some > least && never > least, "{none} {some} {never}");
}

/// How many random histories a bug may survive.
const SURVIVED_MAX: u64 = 20_000;

/// Every rule that is broken on purpose is found by comparison with brute force.
#[test]
fn planted_bugs_of_lags_are_found() {
    use Bug::*;
    for bug in [
        WriterMustReturn,
        ReadsAtOnce,
        OneWriterOfMany,
        InitialOnlyOnce,
        ZonesSuffice,
        LeapsSuffice,
        AnythingLags,
        GoneWhenInvoked,
    ] {
        plant(Some(bug));
        let found = (0..SURVIVED_MAX).any(|round| {
            SPECS.iter().any(|spec| wrong(spec, &Timed::random(spec, round)).is_some())
        });
        plant(None);
        assert!(found, "{bug:?} survives {SURVIVED_MAX} rounds");
    }
}

/// A failed cas between two writes can ask for more than the zones do.
#[test]
fn failed_cas_are_observations() {
    let spec = RegisterSpec { cas: true, values: None, observes: true };
    let call = |process, op, inv, ret, end| TestCall { process, op, inv, ret, end };
    // The cas found that 1 was gone, so 2 had been written, before it returned at 40. The read of 1
    // began at 60, and 2 is still being written until 90.
    let calls = vec![
        call(0, RegisterOp::Write(Some(1)), 0, 1, End::Ok),
        call(0, RegisterOp::Write(Some(2)), 2, 7, End::Ok),
        call(1, RegisterOp::Cas(Some(1), Some(3)), 3, 4, End::Precondition),
        call(1, RegisterOp::Read(Some(1)), 5, 6, End::Ok),
    ];
    let timed = Timed { calls, times: vec![0, 10, 20, 30, 40, 60, 70, 90] };
    assert_eq!(timed.least(&spec), Some(20));
    assert_eq!(wrong(&spec, &timed), None);
}
