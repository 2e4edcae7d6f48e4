//! Small random histories and the answer by brute force: every order is tried.
//!
//! What a call does is written here once more, on purpose: nothing is shared with the checkers.

use crate::{Analysis, Budget, Checker, Verdict};
use deposed_history::{Header, History, Op, OpType, PRECONDITION, Process, Value};

/// A small generator of random numbers (SplitMix64), the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bf0_3635)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// How a call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Ok,
    Fail,
    /// Failed, and the comparison was seen to be false.
    Precondition,
    Info,
    /// No completion at all.
    Open,
}

/// One call of a test history.
#[derive(Debug, Clone)]
pub(crate) struct TestCall<O> {
    pub(crate) process: u32,
    pub(crate) op: O,
    pub(crate) inv: usize,
    pub(crate) ret: usize,
    pub(crate) end: End,
}

/// An object as the oracle knows it.
pub(crate) trait Spec {
    type Op: Clone + std::fmt::Debug;
    type State: Clone + PartialEq;

    fn init(&self) -> Self::State;

    /// Some operation, its result still open.
    fn random(&self, random: &mut Random, serial: i64, process: u32) -> Self::Op;

    /// Executes an operation and fills in its result. `false`: refused, nothing happened.
    fn execute(&self, state: &mut Self::State, op: &mut Self::Op) -> bool;

    /// Whether the operation, with its result, can happen; and then does.
    fn replay(&self, state: &mut Self::State, op: &Self::Op, process: u32, end: End) -> bool;

    /// Changes a result, so that it may be wrong.
    fn corrupt(&self, op: &mut Self::Op, random: &mut Random);

    /// How a refused operation ends.
    fn refusal(&self, random: &mut Random) -> End {
        let _ = random;
        End::Fail
    }

    /// `f`, the value of the invocation, the value of an ok.
    fn events(&self, op: &Self::Op) -> (&'static str, Value, Value);
}

/// A random history: an execution on a single copy, then perhaps something wrong in it.
pub(crate) fn random_calls<S: Spec>(
    spec: &S,
    random: &mut Random,
    size: usize,
    info_percent: u64,
) -> Vec<TestCall<S::Op>> {
    let processes = 1 + random.below(5) as usize;
    let mut calls: Vec<TestCall<S::Op>> = Vec::new();
    let mut state = spec.init();
    // Of each process: the open call and whether it has been executed.
    let mut open: Vec<Option<(usize, bool)>> = vec![None; processes];
    let mut ids: Vec<u32> = (0..processes as u32).collect();
    // Calls whose client gave up, and that may still happen.
    let mut loose: Vec<usize> = Vec::new();
    let mut time = 0;
    let mut refused = vec![false; size];
    while calls.len() < size || open.iter().any(Option::is_some) {
        if let Some(&at) = loose.first()
            && random.chance(30)
        {
            let _ = spec.execute(&mut state, &mut calls[at].op);
            loose.remove(0);
        }
        let who = random.below(processes as u64) as usize;
        match open[who] {
            None if calls.len() < size => {
                let op = spec.random(random, calls.len() as i64 + 1, ids[who]);
                open[who] = Some((calls.len(), false));
                calls.push(TestCall {
                    process: ids[who],
                    op,
                    inv: time,
                    ret: usize::MAX,
                    end: End::Open,
                });
                time += 1;
            }
            None => {}
            Some((at, false)) => {
                if random.chance(info_percent) {
                    calls[at].end = if random.chance(30) { End::Open } else { End::Info };
                    calls[at].ret = time;
                    time += 1;
                    if random.chance(60) {
                        loose.push(at);
                    }
                    ids[who] += processes as u32;
                    open[who] = None;
                } else {
                    refused[at] = !spec.execute(&mut state, &mut calls[at].op);
                    open[who] = Some((at, true));
                }
            }
            Some((at, true)) => {
                calls[at].end = if refused[at] { spec.refusal(random) } else { End::Ok };
                calls[at].ret = time;
                time += 1;
                open[who] = None;
            }
        }
    }
    if random.chance(60) && !calls.is_empty() {
        for _ in 0..1 + random.below(2) {
            let at = random.below(calls.len() as u64) as usize;
            spec.corrupt(&mut calls[at].op, random);
            if random.chance(10) && calls[at].end == End::Ok {
                calls[at].end = End::Fail;
            }
        }
    }
    calls
}

/// The history that a recorder would have written.
pub(crate) fn history<S: Spec>(spec: &S, calls: &[TestCall<S::Op>]) -> History {
    let mut events: Vec<(usize, Op)> = Vec::new();
    for call in calls {
        let (f, input, output) = spec.events(&call.op);
        let op = |kind, value| Op::new(kind, Process::Client(call.process), f, value);
        events.push((call.inv * 2, op(OpType::Invoke, input.clone())));
        let end = match call.end {
            End::Ok => op(OpType::Ok, output),
            End::Fail => op(OpType::Fail, input),
            End::Precondition => Op { error: PRECONDITION.into(), ..op(OpType::Fail, input) },
            End::Info => op(OpType::Info, input),
            End::Open => continue,
        };
        events.push((call.ret * 2 + 1, end));
    }
    events.sort_by_key(|event| event.0);
    let ops: Vec<Op> = events
        .into_iter()
        .enumerate()
        .map(|(index, (_, op))| Op { index: index as u64, ..op })
        .collect();
    History::from_ops(Header::default(), &ops)
}

/// Whether some order of the calls is legal, by trying them all.
pub(crate) fn is_linearizable<S: Spec>(spec: &S, calls: &[TestCall<S::Op>]) -> bool {
    let calls: Vec<&TestCall<S::Op>> = calls.iter().filter(|call| call.end != End::Fail).collect();
    try_orders(spec, &calls, 0, &spec.init(), &mut Vec::new())
}

fn is_optional(end: End) -> bool {
    matches!(end, End::Info | End::Open)
}

fn try_orders<S: Spec>(
    spec: &S,
    calls: &[&TestCall<S::Op>],
    taken: u64,
    state: &S::State,
    seen: &mut Vec<(u64, S::State)>,
) -> bool {
    if seen.iter().any(|known| known.0 == taken && known.1 == *state) {
        return false;
    }
    let left = |at: usize| taken >> at & 1 == 0;
    if (0..calls.len()).all(|at| !left(at) || is_optional(calls[at].end)) {
        return true;
    }
    for at in (0..calls.len()).filter(|at| left(*at)) {
        let call = calls[at];
        let must_wait = (0..calls.len()).any(|other| {
            left(other) && !is_optional(calls[other].end) && calls[other].ret < call.inv
        });
        let mut next = state.clone();
        if !must_wait
            && spec.replay(&mut next, &call.op, call.process, call.end)
            && try_orders(spec, calls, taken | 1 << at, &next, seen)
        {
            return true;
        }
    }
    seen.push((taken, state.clone()));
    false
}

/// How many random histories: `DEPOSED_FUZZ`, or a few thousand.
pub(crate) fn rounds() -> u64 {
    std::env::var("DEPOSED_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000)
}

/// Compares checkers with the oracle on random histories; both answers must be frequent.
pub(crate) fn fuzz<S: Spec>(
    name: &str,
    spec: &S,
    checkers: &[(&str, Box<dyn Checker>)],
    size_max: u64,
) {
    let (mut legal, mut illegal) = (0u64, 0u64);
    for round in 0..rounds() {
        let mut random = Random::new(round);
        let size = 1 + random.below(size_max) as usize;
        let info = [0, 0, 10, 30, 60][random.below(5) as usize];
        let calls = random_calls(spec, &mut random, size, info);
        let history = history(spec, &calls);
        if !calls.iter().any(|call| call.end == End::Ok) {
            continue;
        }
        let expected =
            if is_linearizable(spec, &calls) { Verdict::Valid } else { Verdict::Invalid };
        for (algorithm, checker) in checkers {
            let analysis = checker.check(&history, &Budget::unlimited());
            assert_eq!(
                analysis.verdict,
                expected,
                "{name} by {algorithm}, round {round}: {:#?}\n{}",
                analysis,
                show(&history)
            );
            well_formed(&analysis, &history);
        }
        if expected == Verdict::Valid { legal += 1 } else { illegal += 1 }
    }
    let least = rounds() / 20;
    assert!(legal > least && illegal > least, "{name}: {legal} legal, {illegal} illegal");
}

/// Every violation has a witness in the history, in order.
fn well_formed(analysis: &Analysis, history: &History) {
    for anomaly in &analysis.anomalies {
        assert!(!anomaly.witness.is_empty() && anomaly.witness.is_sorted());
        assert!(anomaly.witness.iter().all(|at| (*at as usize) < history.len()));
        assert!(anomaly.sentences.last().is_some_and(|s| s.ends_with("a contradiction.")));
    }
}

/// A history to read.
pub(crate) fn show(history: &History) -> String {
    history
        .ops()
        .map(|op| {
            format!(
                "{:>3} {} {} {} {} {}\n",
                op.index(),
                op.process(),
                op.kind(),
                op.f(),
                op.value(),
                op.error()
            )
        })
        .collect()
}
