//! How old were the reads of a register: the smallest bound within which every read would have had
//! to be allowed to lag for the history to be linearizable, and how far single reads lagged.
//!
//! A read that may lag by a bound may have taken effect that much before it was invoked. The bound is
//! the Δ of "Δ-atomicity" (Golab, Li and Shah, *Analyzing consistency properties for fun and
//! profit*, PODC 2011); where values are written more than once it is known to a thousandth. Registers are
//! independent of each other, so that of a history is that of the register that needs most. How it is
//! found is told in [`Lagging`].

use deposed_history::History;

use crate::linearizable::{
    Between, Effort, GaveUp, Lagging, Least, Object, Objects, Reservation, split, vacuous,
};
use crate::parallel::in_parallel;
use crate::{Analysis, Budget, Checker, Exhausted, Undecided};

/// Measures how far reads lag. It only measures: `linearizable` says whether they may.
#[derive(Debug, Clone, Copy, Default)]
pub struct Staleness {
    /// Whether values are `[key, value]` pairs, one register for each key.
    pub keyed: bool,
}

impl Checker for Staleness {
    fn name(&self) -> &str {
        "staleness"
    }

    fn check(&self, history: &History, budget: &Budget) -> Analysis {
        if let Some(vacuous) = vacuous(history) {
            return Analysis::from_findings(self.name(), "no reads", Vec::new(), vec![vacuous]);
        }
        let keyed = self.keyed || history.header().keyed;
        let mut memory = Reservation::new(budget);
        let mut found = Found::default();
        match memory.hold(history.calls().len() as u64 * BYTES_PER_CALL) {
            Ok(()) => {
                let Objects { objects, .. } = split(history, keyed);
                let measured = measure(history, &objects, keyed, budget);
                for (object, measured) in objects.iter().zip(measured) {
                    found.add(history, object, measured);
                }
            }
            Err(exhausted) => {
                let calls = (0..history.calls().len() as u32).collect();
                found.add(history, &Object { key: None, calls }, Measured::exhausted(exhausted));
            }
        }
        found.finish(self.name())
    }
}

/// Bytes a call takes when a history is split, as vectors grow.
const BYTES_PER_CALL: u64 = 2 * size_of::<u32>() as u64;

/// What was found of one register.
struct Measured {
    reads: u64,
    /// How long each read that lagged began after its value was certainly gone, in nanoseconds.
    lags: Vec<u64>,
    least: Result<Least, Unknown>,
}

/// Why it is not known how far reads have to be allowed to lag.
enum Unknown {
    /// Some call is none on a register.
    Malformed(String),
    /// The budget or the effort was not enough.
    GivenUp(Between),
}

impl Measured {
    const fn nothing(why: Unknown) -> Self {
        Self { reads: 0, lags: Vec::new(), least: Err(why) }
    }

    fn exhausted(exhausted: Exhausted) -> Self {
        let why = GaveUp::Budget(exhausted);
        Self::nothing(Unknown::GivenUp(Between { low: 0, high: None, why }))
    }

    /// Whether more effort may help.
    const fn is_hard(&self) -> bool {
        matches!(self.least, Err(Unknown::GivenUp(Between { why: GaveUp::Nodes, .. })))
    }
}

/// Measures all registers. One that is hard does not keep the others from being measured.
fn measure(history: &History, objects: &[Object], keyed: bool, budget: &Budget) -> Vec<Measured> {
    let of = |at: usize, effort| measure_one(history, &objects[at], keyed, effort, budget);
    let threads = budget.threads;
    let all = (0..objects.len()).collect();
    let mut measured = in_parallel(threads, all, |at| of(at, Effort::Quick));
    let hard: Vec<usize> = (0..objects.len()).filter(|at| measured[*at].is_hard()).collect();
    // Either each has one thread, or one after the other has all.
    let (at_once, each) = if hard.len() >= threads { (threads, 1) } else { (1, threads) };
    let full = in_parallel(at_once, hard.clone(), |at| of(at, Effort::Full { threads: each }));
    for (at, answer) in hard.into_iter().zip(full) {
        measured[at] = answer;
    }
    measured
}

fn measure_one(
    history: &History,
    object: &Object,
    keyed: bool,
    effort: Effort,
    budget: &Budget,
) -> Measured {
    match Lagging::new(history, &object.calls, keyed, budget) {
        Ok(Ok(register)) => Measured {
            reads: register.reads_count() as u64,
            lags: register.certain_lags(),
            least: register.least(effort, budget).map_err(Unknown::GivenUp),
        },
        Ok(Err((call, why))) => {
            let invoke = history.calls()[call as usize].invoke;
            let why = format!("op {}: {why}", history.op(invoke).index());
            Measured::nothing(Unknown::Malformed(why))
        }
        Err(exhausted) => Measured::exhausted(exhausted),
    }
}

/// What was found of all registers.
#[derive(Default)]
struct Found {
    registers: usize,
    reads: u64,
    lags: Vec<u64>,
    bound: u64,
    /// Registers that no lag explains.
    unexplained: u64,
    undecided: Vec<Undecided>,
}

impl Found {
    fn add(&mut self, history: &History, object: &Object, measured: Measured) {
        self.registers += 1;
        self.reads += measured.reads;
        self.lags.extend(measured.lags);
        let (reason, known) = match measured.least {
            Ok(Least::None) => return self.unexplained += 1,
            Ok(Least::Lag(lag)) => return self.bound = self.bound.max(lag),
            Err(Unknown::Malformed(why)) => (why, None),
            Err(Unknown::GivenUp(Between { low, high, why })) => {
                self.bound = self.bound.max(low);
                let enough = high.map(|high| format!(", and {} are enough", ms(high)));
                let enough = enough.unwrap_or_default();
                let known = format!("reads have to lag by {} at least{enough}", ms(low));
                (why.to_string(), (low > 0).then_some(known))
            }
        };
        let calls = object.calls.iter().map(|call| history.calls()[*call as usize]);
        let ends = calls.clone().map(|call| call.complete().unwrap_or(call.invoke));
        self.undecided.push(Undecided {
            key: object.key.as_ref().map(ToString::to_string),
            window: (calls.map(|call| call.invoke).min().unwrap_or(0), ends.max().unwrap_or(0)),
            reason,
            known,
        });
    }

    fn finish(mut self, checker: &str) -> Analysis {
        let Self { registers, reads, bound, unexplained, .. } = self;
        self.lags.sort_unstable();
        let (lagging, open) = (self.lags.len(), self.undecided.len());
        let mut summary = match (lagging, open) {
            (0, 0) if bound == 0 => format!("none of {reads} reads lagged"),
            // Of a value that was written twice it cannot be said which write was seen.
            (0, 0) => format!(
                "some of {reads} reads lagged; linearizable if reads may lag by {}",
                ms(bound)
            ),
            (_, 0) => format!(
                "{lagging} of {reads} reads lagged; linearizable if reads may lag by {}",
                ms(bound)
            ),
            _ => format!(
                "{lagging} of {reads} reads certainly lagged; not linearizable unless reads may lag by {} or \
                 more: {open} of {registers} registers were not decided",
                ms(bound)
            ),
        };
        if unexplained > 0 {
            summary.push_str(&format!("; {unexplained} registers are wrong however far reads lag"));
        }
        let quantile = |q: f64| {
            self.lags.get(((lagging as f64 * q) as usize).min(lagging.saturating_sub(1))).copied()
        };
        let details = serde_json::json!({
            "bound_ns": bound,
            "not_explained_by_lag": unexplained,
            "reads": reads,
            "lagging_reads": lagging,
            "lag_p50_ns": quantile(0.5),
            "lag_p95_ns": quantile(0.95),
            "lag_max_ns": self.lags.last(),
        });
        Analysis {
            details,
            ..Analysis::from_findings(checker, summary, Vec::new(), self.undecided)
        }
    }
}

fn ms(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use deposed_history::{Header, Op, OpType, Process, Value};

    use super::*;

    /// `(process, kind, f, value, time in ms)`.
    fn history(events: &[(u32, OpType, &str, Value, u64)]) -> History {
        let ops: Vec<Op> = events
            .iter()
            .map(|(process, kind, f, value, ms)| Op {
                time: ms * 1_000_000,
                ..Op::new(*kind, Process::Client(*process), f, value.clone())
            })
            .collect();
        History::from_ops(Header::default(), &ops)
    }

    fn call(process: u32, f: &'static str, value: Value, from: u64, to: u64) -> [Event; 2] {
        let argument = if f == "read" { Value::Nil } else { value.clone() };
        [(process, OpType::Invoke, f, argument, from), (process, OpType::Ok, f, value, to)]
    }

    type Event = (u32, OpType, &'static str, Value, u64);

    fn measure(events: &[Event]) -> Analysis {
        Staleness::default().check(&history(events), &Budget::unlimited())
    }

    fn ms(analysis: &Analysis, name: &str) -> f64 {
        analysis.details[name].as_f64().unwrap() / 1e6
    }

    #[test]
    fn fresh_reads_need_no_bound() {
        let analysis = measure(
            &[call(0, "write", 1.into(), 0, 10), call(1, "read", 1.into(), 20, 30)].concat(),
        );
        assert_eq!(ms(&analysis, "bound_ns"), 0.0);
        assert_eq!(analysis.details["lagging_reads"], 0);
    }

    #[test]
    fn the_bound_is_from_the_latest_moment_the_value_was_current_to_the_read() {
        // 1 may be current until 2 has returned, at 30; the read begins at 100.
        let analysis = measure(
            &[
                call(0, "write", 1.into(), 0, 10),
                call(0, "write", 2.into(), 20, 30),
                call(1, "read", 1.into(), 100, 110),
                call(1, "read", 2.into(), 120, 130),
            ]
            .concat(),
        );
        assert_eq!(ms(&analysis, "bound_ns"), 70.0);
        assert_eq!(ms(&analysis, "lag_max_ns"), 70.0);
        assert_eq!(analysis.details["lagging_reads"], 1);
    }

    #[test]
    fn where_values_are_written_twice_the_bound_is_known_to_a_thousandth() {
        let analysis = measure(
            &[
                call(0, "write", 1.into(), 0, 10),
                call(0, "write", 2.into(), 20, 30),
                call(1, "read", 1.into(), 100, 110),
                call(1, "read", 2.into(), 120, 130),
                call(0, "write", 1.into(), 200, 210),
            ]
            .concat(),
        );
        let bound = ms(&analysis, "bound_ns");
        assert!((70.0..70.08).contains(&bound), "{bound}");
        let summary = &analysis.summary;
        assert!(summary.starts_with("some of 2 reads lagged; linearizable if "), "{summary}");
    }

    #[test]
    fn two_reads_that_contradict_each_other_need_a_bound_though_neither_is_late_by_itself() {
        // 2 is still being written when both reads run: the first sees it, the second does not.
        let mut events = [call(0, "write", 1.into(), 0, 10)].concat();
        events.push((0, OpType::Invoke, "write", 2.into(), 20));
        events.extend(call(1, "read", 2.into(), 30, 40));
        events.extend(call(1, "read", 1.into(), 60, 70));
        events.push((0, OpType::Ok, "write", 2.into(), 80));
        let analysis = measure(&events);
        assert_eq!(analysis.details["lagging_reads"], 0);
        assert_eq!(ms(&analysis, "bound_ns"), 20.0);
    }

    #[test]
    fn a_value_nobody_wrote_is_explained_by_no_lag() {
        let analysis = measure(&call(1, "read", 7.into(), 0, 10));
        assert_eq!(analysis.details["not_explained_by_lag"], 1);
    }

    /// Reads of 1 long after it was gone; and calls that no search is done with, of which the zones know
    /// nothing, as their values are not unique.
    fn hard() -> History {
        let keyed = |key: &str, value: &Value| Value::pair(key, value.clone());
        let mut events: Vec<Event> = [
            call(100, "write", 1.into(), 0, 10),
            call(100, "write", 2.into(), 20, 30),
            call(101, "read", 1.into(), 100, 110),
        ]
        .concat()
        .into_iter()
        .map(|(process, kind, f, value, at)| (process, kind, f, keyed("easy", &value), at))
        .collect();
        let cas = |from: i64, to: i64| Value::List(vec![from.into(), to.into()]);
        let mut calls: Vec<(&str, Value)> =
            (0..36).map(|i| ("cas", cas(i % 5, (i * 3 + 1 + i / 5) % 5))).collect();
        calls.extend([("write", 0.into()), ("write", 0.into()), ("cas", cas(8, 7))]);
        calls.push(("cas", cas(8, 7)));
        for (kind, at) in [(OpType::Invoke, 200), (OpType::Ok, 300)] {
            let all = (0..).zip(&calls);
            events.extend(all.map(|(process, (f, v))| (process, kind, *f, keyed("hard", v), at)));
            if kind == OpType::Invoke {
                let looks = call(101, "read", 7.into(), 210, 220).into_iter();
                let looks =
                    looks.map(|(p, kind, f, value, at)| (p, kind, f, keyed("hard", &value), at));
                events.extend(looks);
            }
        }
        history(&events)
    }

    #[test]
    fn one_register_that_is_not_decided_keeps_no_other_from_being_so() {
        let budget =
            Budget::new(|| std::time::Duration::ZERO, std::time::Duration::MAX, 8 << 20, 1);
        let analysis = Staleness { keyed: true }.check(&hard(), &budget);
        assert_eq!(
            analysis.summary,
            "1 of 2 reads certainly lagged; not linearizable unless reads may lag by 70.000 ms or \
             more: 1 of 2 registers were not decided"
        );
        let undecided = &analysis.undecided[0];
        assert_eq!(undecided.key.as_deref(), Some("\"hard\""));
        assert_eq!(undecided.reason, "the memory budget of 8 MiB ran out");
        assert_eq!(undecided.known, None);
        assert_eq!(undecided.window, (6, 87));
    }

    #[test]
    fn what_is_no_call_on_a_register_is_named() {
        let analysis = measure(&call(1, "append", 7.into(), 0, 10));
        let why = &analysis.undecided[0].reason;
        assert!(why.starts_with("op 0: ") && why.contains("append"), "{why}");
    }
}
