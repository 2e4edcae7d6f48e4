//! How many calls there were, how they ended, and how many were open at once.

use std::collections::BTreeMap;

use deposed_history::{Effect, Episode, History, OpType, Outcome};
use serde::{Deserialize, Serialize};

/// Calls by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Happened.
    pub ok: u64,
    /// Did not happen.
    pub fail: u64,
    /// Indeterminate.
    pub info: u64,
}

impl Tally {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.ok + self.fail + self.info
    }

    /// One more call.
    pub(crate) fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Ok => self.ok += 1,
            Outcome::Fail => self.fail += 1,
            Outcome::Info => self.info += 1,
        }
    }
}

/// What a history amounts to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// All calls.
    pub calls: Tally,
    /// By function.
    pub by_f: BTreeMap<String, Tally>,
    /// By the node the client talked to.
    pub by_node: BTreeMap<String, Tally>,
    /// Calls that succeeded and were invoked while a proven fault was in force.
    pub ok_under_fault: u64,
    /// Calls open at once, averaged over the time in which any was.
    pub concurrency_mean: f64,
    /// Calls open at once, at most.
    pub concurrency_max: u64,
    /// Time of the last event, nanoseconds since the start of the run.
    pub span_ns: u64,
}

impl Counts {
    /// Counts a history.
    pub(crate) fn of(history: &History, episodes: &[Episode]) -> Self {
        let mut counts = Self { span_ns: span(history), ..Self::default() };
        let proven = proven_times(episodes);
        for call in history.calls() {
            let op = history.op(call.invoke);
            counts.calls.add(call.outcome());
            tally(&mut counts.by_f, op.f()).add(call.outcome());
            if let Some(node) = op.node() {
                tally(&mut counts.by_node, node).add(call.outcome());
            }
            let begun = proven.partition_point(|&(from, _)| from <= op.time());
            let under_fault = begun > 0 && op.time() < proven[begun - 1].1;
            counts.ok_under_fault += u64::from(call.outcome() == Outcome::Ok && under_fault);
        }
        (counts.concurrency_mean, counts.concurrency_max) = concurrency(history);
        counts
    }
}

/// The tally of a name, without copying a name that is known.
fn tally<'m>(by: &'m mut BTreeMap<String, Tally>, name: &str) -> &'m mut Tally {
    if !by.contains_key(name) {
        by.insert(name.to_owned(), Tally::default());
    }
    by.get_mut(name).expect("it was just inserted")
}

/// When some proven fault was in force, as disjoint stretches of time in order.
fn proven_times(episodes: &[Episode]) -> Vec<(u64, u64)> {
    let mut times: Vec<(u64, u64)> = episodes
        .iter()
        .filter(|e| e.effect() == Effect::Proven)
        .map(|e| (e.applied.unwrap_or(e.begin).time, e.heal.map_or(u64::MAX, |m| m.time)))
        .collect();
    times.sort_unstable();
    let mut disjoint: Vec<(u64, u64)> = Vec::new();
    for (from, to) in times {
        match disjoint.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => disjoint.push((from, to)),
        }
    }
    disjoint
}

/// Time of the last event.
fn span(history: &History) -> u64 {
    history.ops().map(|op| op.time()).max().unwrap_or(0)
}

/// Mean and maximum of the number of calls that clients were waiting for. An `info` ends the
/// waiting, though not the call.
fn concurrency(history: &History) -> (f64, u64) {
    let (mut open, mut open_max, mut last) = (0u64, 0u64, 0u64);
    let (mut busy_ns, mut open_ns) = (0f64, 0f64);
    for op in history.ops() {
        if op.process().client().is_none() {
            continue;
        }
        let waited = op.time().saturating_sub(last) as f64;
        last = last.max(op.time());
        if open > 0 {
            busy_ns += waited;
            open_ns += waited * open as f64;
        }
        if op.kind() == OpType::Invoke {
            open += 1;
            open_max = open_max.max(open);
        } else {
            open = open.saturating_sub(1);
        }
    }
    (if busy_ns > 0.0 { open_ns / busy_ns } else { open_max as f64 }, open_max)
}

#[cfg(test)]
mod tests {
    use deposed_history::{Header, Moment, Op, Process, Sighting, Value};

    use super::*;

    fn episode(from: u64, to: u64, effect: Effect) -> Episode {
        let moment = |time| Moment { position: 0, time };
        Episode {
            fault: "kill".into(),
            id: 1,
            lane: "kill".into(),
            choice: Value::Nil,
            nodes: vec![],
            begin: moment(from),
            applied: Some(moment(from)),
            heal: Some(moment(to)),
            healed: None,
            bite: Some(Sighting { effect, summary: String::new(), figures: Value::Nil }),
            healing: None,
        }
    }

    fn history(calls: &[(u32, u64, u64, OpType)]) -> History {
        let mut ops: Vec<Op> = Vec::new();
        for &(process, from, to, kind) in calls {
            let op = |kind, time| Op {
                time,
                ..Op::new(kind, Process::Client(process), "read", Value::Nil)
            };
            ops.extend([op(OpType::Invoke, from), op(kind, to)]);
        }
        ops.sort_by_key(|op| op.time);
        History::from_ops(Header::default(), &ops)
    }

    /// Only proven faults count, overlapping ones once, and only while they are in force.
    #[test]
    fn calls_under_a_fault_are_counted_once() {
        let ok = |at| (at as u32, at, at + 1, OpType::Ok);
        let history = history(&[ok(5), ok(15), ok(25), ok(35), ok(45), ok(95)]);
        let episodes = [
            episode(10, 30, Effect::Proven),
            episode(20, 40, Effect::Proven),
            episode(90, 99, Effect::Indeterminate),
        ];
        assert_eq!(Counts::of(&history, &episodes).ok_under_fault, 3);
    }

    /// Concurrency is averaged over the time in which any call was open.
    #[test]
    fn concurrency_ignores_silence() {
        let history = history(&[
            (0, 0, 10, OpType::Ok),
            (1, 0, 10, OpType::Info),
            (0, 1_000, 1_010, OpType::Ok),
        ]);
        let counts = Counts::of(&history, &[]);
        assert_eq!((counts.concurrency_mean, counts.concurrency_max), (1.5, 2));
    }
}
