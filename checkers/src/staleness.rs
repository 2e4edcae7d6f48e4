//! How old were the reads of a register: the smallest bound within which every read would have had
//! to be allowed to lag for the history to be linearizable, and how far single reads lagged.
//!
//! A read that may lag by a bound may have taken effect that much before it was invoked. So the
//! bound is found by moving the invocations of reads back in time and asking whether the result is
//! linearizable; a larger bound only widens intervals, so the smallest is found by bisection. It is
//! the Δ of "Δ-atomicity" (Golab, Li and Shah, *Analyzing consistency properties for fun and
//! profit*, PODC 2011).

use std::collections::BTreeMap;

use deposed_history::{Call, History, Op, OpType, Outcome, Process, Value, ValueRef};
use rustc_hash::FxHashMap;

use crate::{Analysis, Budget, Checker, Exhausted, Linearizable, ModelKind, Undecided, Verdict};

/// The bound is given to this precision, in nanoseconds: a tenth of a millisecond.
const PRECISION_NS: u64 = 100_000;

/// Measures how far reads lag. It only measures: `linearizable` says whether they may.
#[derive(Debug, Clone, Copy, Default)]
pub struct Staleness {
    /// Whether values are `[key, value]` pairs, one register for each key.
    pub keyed: bool,
}

/// The calls of one key, and how their values are found.
struct Register<'h> {
    history: &'h History,
    keyed: bool,
    calls: Vec<Call>,
}

impl Checker for Staleness {
    fn name(&self) -> &str {
        "staleness"
    }

    fn check(&self, history: &History, budget: &Budget) -> Analysis {
        let keyed = self.keyed || history.header().keyed;
        let mut lags: Vec<u64> = Vec::new();
        let (mut bound, mut unbounded, mut reads) = (0u64, 0u64, 0u64);
        let mut undecided = Vec::new();
        for (key, register) in registers(history, keyed) {
            reads += register.reads().count() as u64;
            lags.extend(register.lags());
            match register.bound(budget) {
                Ok(Some(of_this)) => bound = bound.max(of_this),
                Ok(None) => unbounded += 1,
                Err(why) => undecided.push(Undecided {
                    key: keyed.then(|| key.to_string()),
                    window: register.window(),
                    reason: why,
                    known: None,
                }),
            }
        }
        lags.sort_unstable();
        let quantile = |q: f64| {
            lags.get(((lags.len() as f64 * q) as usize).min(lags.len().saturating_sub(1))).copied()
        };
        let ms = |ns: u64| ns as f64 / 1e6;
        let mut summary = match (lags.is_empty() && bound == 0, unbounded) {
            (true, 0) => format!("none of {reads} reads lagged"),
            _ => format!(
                "{} of {reads} reads lagged; linearizable if reads may lag by {:.1} ms",
                lags.len(),
                ms(bound)
            ),
        };
        if unbounded > 0 {
            summary.push_str(&format!("; {unbounded} registers are wrong however far reads lag"));
        }
        let details = serde_json::json!({
            "bound_ns": bound,
            "not_explained_by_lag": unbounded,
            "reads": reads,
            "lagging_reads": lags.len(),
            "lag_p50_ns": quantile(0.5),
            "lag_p95_ns": quantile(0.95),
            "lag_max_ns": lags.last(),
        });
        Analysis { details, ..Analysis::from_findings(self.name(), summary, Vec::new(), undecided) }
    }
}

/// The calls of each register, in the order of their invocations.
fn registers(history: &History, keyed: bool) -> BTreeMap<String, Register<'_>> {
    let mut place: FxHashMap<ValueRef<'_>, usize> = FxHashMap::default();
    let mut found: Vec<(String, Register<'_>)> = Vec::new();
    for &call in history.calls() {
        let key = if keyed {
            match history.op(call.invoke).pair() {
                Some((key, _)) => key,
                None => continue,
            }
        } else {
            ValueRef::Nil
        };
        let at = *place.entry(key).or_insert_with(|| {
            found.push((key.to_string(), Register { history, keyed, calls: Vec::new() }));
            found.len() - 1
        });
        found[at].1.calls.push(call);
    }
    found.into_iter().collect()
}

impl<'h> Register<'h> {
    fn window(&self) -> (u32, u32) {
        let ends = self.calls.iter().map(|call| call.complete.unwrap_or(call.invoke));
        (self.calls.first().map_or(0, |call| call.invoke), ends.max().unwrap_or(0))
    }

    /// The value at an event, without its key.
    fn value(&self, position: u32) -> ValueRef<'h> {
        let op = self.history.op(position);
        if self.keyed { op.pair().map_or(ValueRef::Nil, |(_, value)| value) } else { op.value() }
    }

    fn is(&self, call: &Call, f: &str) -> bool {
        self.history.op(call.invoke).f() == f
    }

    /// Definite reads: the call, and the value it saw.
    fn reads(&self) -> impl Iterator<Item = (&Call, ValueRef<'h>)> {
        self.calls
            .iter()
            .filter(|call| call.outcome == Outcome::Ok && self.is(call, "read"))
            .map(|call| (call, self.value(call.complete.unwrap_or(call.invoke))))
    }

    /// What a call writes, if it is a write or a cas that may have happened.
    fn written(&self, call: &Call) -> Option<ValueRef<'h>> {
        if call.outcome == Outcome::Fail {
            return None;
        }
        let argument = self.value(call.invoke);
        if self.is(call, "write") {
            Some(argument)
        } else if self.is(call, "cas") {
            argument.as_list().and_then(|pair| pair.get(1))
        } else {
            None
        }
    }

    /// How long each read that lagged began after its value was certainly gone, in nanoseconds. Only
    /// for values that were written once: of others it cannot be said which write a read saw.
    fn lags(&self) -> Vec<u64> {
        // The return of the writer of each value; `None` where it is not certain.
        let mut writers: FxHashMap<ValueRef<'h>, (u32, Option<u32>)> = FxHashMap::default();
        let mut overwrites: Vec<(u32, u32)> = Vec::new();
        for call in &self.calls {
            let Some(value) = self.written(call) else { continue };
            let ended = (call.outcome == Outcome::Ok).then_some(call.complete).flatten();
            writers.entry(value).or_insert((0, ended)).0 += 1;
            if let Some(ended) = ended {
                overwrites.push((call.invoke, ended));
            }
        }
        // For writes invoked from a position on, the earliest return: a running minimum from behind.
        overwrites.sort_unstable();
        let mut earliest = u32::MAX;
        for (_, ended) in overwrites.iter_mut().rev() {
            earliest = earliest.min(*ended);
            *ended = earliest;
        }
        let gone_after = |position: u32| {
            let next = overwrites.partition_point(|(invoke, _)| *invoke <= position);
            overwrites.get(next).map(|(_, ended)| *ended)
        };
        let time = |position: u32| self.history.op(position).time();
        let lag = |(call, value): (&Call, ValueRef<'h>)| {
            let gone = match writers.get(&value) {
                Some((1, Some(written))) => gone_after(*written)?,
                // The initial value is gone once any write is over.
                None if value.is_nil() => overwrites.first().map(|(_, ended)| *ended)?,
                _ => return None,
            };
            (gone < call.invoke).then(|| time(call.invoke).saturating_sub(time(gone)))
        };
        self.reads().filter_map(lag).filter(|&lag| lag > 0).collect()
    }

    /// The smallest bound, in nanoseconds; `None` if no lag of reads explains this history.
    fn bound(&self, budget: &Budget) -> Result<Option<u64>, String> {
        if self.explained_by(0, budget)? {
            return Ok(Some(0));
        }
        let times = self.calls.iter().map(|call| self.history.op(call.invoke).time());
        let (mut low, mut high) = (0, times.max().unwrap_or(0) + 1);
        if !self.explained_by(high, budget)? {
            return Ok(None);
        }
        while high - low > PRECISION_NS {
            let middle = low + (high - low) / 2;
            if self.explained_by(middle, budget)? {
                high = middle;
            } else {
                low = middle;
            }
        }
        Ok(Some(high))
    }

    /// Whether the history is linearizable if reads may lag by so much.
    fn explained_by(&self, lag_ns: u64, budget: &Budget) -> Result<bool, String> {
        budget.check().map_err(|exhausted: Exhausted| exhausted.to_string())?;
        // Where an event goes: its new time, then whether it is a completion moved to the same time,
        // then its old place. Events that were not moved keep their order.
        let mut events: Vec<(u64, u32, Op)> = Vec::with_capacity(2 * self.calls.len());
        for (number, call) in self.calls.iter().enumerate() {
            let mut invoke = self.history.op(call.invoke).to_op();
            // A read that begins earlier overlaps the call before it: each call its own process.
            invoke.process = Process::Client(number as u32);
            invoke.value = owned(self.value(call.invoke));
            let mut at = self.history.op(call.invoke).time();
            if self.is(call, "read") {
                at = at.saturating_sub(lag_ns);
            }
            events.push((at, call.invoke, invoke));
            if let Some(complete) = call.complete {
                let mut op = self.history.op(complete).to_op();
                op.process = Process::Client(number as u32);
                op.value = owned(self.value(complete));
                events.push((op.time, complete, op));
            }
        }
        // An invocation moved to the time of a completion goes before it: wider, never narrower.
        events.sort_by_key(|(at, place, op)| (*at, op.kind != OpType::Invoke, *place));
        let ops: Vec<Op> = events.into_iter().map(|(at, _, op)| Op { time: at, ..op }).collect();
        let relaxed = History::from_ops(Default::default(), &ops);
        let analysis = Linearizable::new(ModelKind::CasRegister).check(&relaxed, budget);
        match analysis.verdict {
            Verdict::Valid => Ok(true),
            Verdict::Invalid => Ok(false),
            Verdict::Unknown => match analysis.undecided.first() {
                Some(open) if !open.reason.starts_with("vacuous") => Err(open.reason.clone()),
                _ => Ok(true),
            },
        }
    }
}

fn owned(value: ValueRef<'_>) -> Value {
    value.to_value()
}

#[cfg(test)]
mod tests {
    use deposed_history::Header;

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
        assert!((ms(&analysis, "bound_ns") - 70.0).abs() < 0.2, "{}", analysis.details);
        assert!((ms(&analysis, "lag_max_ns") - 70.0).abs() < 0.2, "{}", analysis.details);
        assert_eq!(analysis.details["lagging_reads"], 1);
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
        assert!((ms(&analysis, "bound_ns") - 20.0).abs() < 0.2, "{}", analysis.details);
    }

    #[test]
    fn a_value_nobody_wrote_is_explained_by_no_lag() {
        let analysis = measure(&call(1, "read", 7.into(), 0, 10));
        assert_eq!(analysis.details["not_explained_by_lag"], 1);
    }
}
