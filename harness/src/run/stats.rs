//! Running figures of a run: counts and latencies, in memory that does not grow.

use std::collections::BTreeMap;
use std::sync::Arc;

use deposed_history::{Op, OpType, Value};
use hdrhistogram::Histogram;
use serde::Serialize;

/// How many kinds of error are told apart. Further ones are counted together.
const ERRORS_MAX: usize = 100;

/// Errors are cut to so many characters, so that figures in their tails do not make each its own.
const ERROR_CHARS_MAX: usize = 120;

/// The longest latency told apart, in microseconds.
const LATENCY_US_MAX: u64 = 600_000_000;

/// How operations ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Happened.
    pub ok: u64,
    /// Did not happen.
    pub fail: u64,
    /// Nobody knows.
    pub info: u64,
}

impl Counts {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.ok + self.fail + self.info
    }

    fn add(&mut self, kind: OpType) {
        match kind {
            OpType::Ok => self.ok += 1,
            OpType::Fail => self.fail += 1,
            OpType::Info => self.info += 1,
            OpType::Invoke => {}
        }
    }
}

/// Latencies of operations that succeeded, in microseconds, two digits exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Half were faster.
    pub p50_us: u64,
    /// 99 in 100 were faster.
    pub p99_us: u64,
    /// The slowest.
    pub max_us: u64,
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            p50_us: histogram.value_at_quantile(0.5),
            p99_us: histogram.value_at_quantile(0.99),
            max_us: histogram.max(),
        }
    }
}

/// Counts and latencies over some time.
#[derive(Debug, Clone)]
struct Figures {
    by_f: Vec<(Arc<str>, Counts)>,
    latency: Histogram<u64>,
}

impl Figures {
    fn new() -> Self {
        let latency = Histogram::new_with_bounds(1, LATENCY_US_MAX, 2).expect("sound bounds");
        Self { by_f: Vec::new(), latency }
    }

    fn add(&mut self, op: &Op, latency_us: u64) {
        let position = match self.by_f.iter().position(|(f, _)| *f == op.f) {
            Some(position) => position,
            None => {
                self.by_f.push((Arc::clone(&op.f), Counts::default()));
                self.by_f.len() - 1
            }
        };
        self.by_f[position].1.add(op.kind);
        if op.kind == OpType::Ok {
            self.latency.saturating_record(latency_us.max(1));
        }
    }

    fn clear(&mut self) {
        self.by_f.clear();
        self.latency.reset();
    }

    fn total(&self) -> u64 {
        self.by_f.iter().map(|(_, counts)| counts.total()).sum()
    }

    fn counts(&self) -> BTreeMap<String, Counts> {
        self.by_f.iter().map(|(f, counts)| (f.to_string(), *counts)).collect()
    }
}

/// What happened in a whole run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Completed operations by function.
    pub by_f: BTreeMap<String, Counts>,
    /// Of those that succeeded.
    pub latency: Latency,
    /// How often each error was met, the first [`ERRORS_MAX`] kinds; the rest are under `other`.
    pub errors: BTreeMap<String, u64>,
}

impl Totals {
    /// Completed operations of all functions.
    pub fn counts(&self) -> Counts {
        self.by_f.values().fold(Counts::default(), |sum, counts| Counts {
            ok: sum.ok + counts.ok,
            fail: sum.fail + counts.fail,
            info: sum.info + counts.info,
        })
    }
}

/// How the run goes, since the last time it was asked and in total.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Progress {
    /// Nanoseconds since the start of the run.
    pub time: u64,
    /// Operations in flight.
    pub in_flight: usize,
    /// Completed operations by function since the start.
    pub total: BTreeMap<String, Counts>,
    /// Completed operations by function since the last progress.
    pub recent: BTreeMap<String, Counts>,
    /// Completions a second since the last progress.
    pub rate: f64,
    /// Of the operations that succeeded since the last progress.
    pub latency: Latency,
}

/// Collects the figures.
#[derive(Debug)]
pub(super) struct Stats {
    total: Figures,
    recent: Figures,
    recent_since: u64,
    errors: BTreeMap<String, u64>,
}

impl Stats {
    pub(super) fn new(now: u64) -> Self {
        Self {
            total: Figures::new(),
            recent: Figures::new(),
            recent_since: now,
            errors: BTreeMap::new(),
        }
    }

    /// Counts a completion whose invocation was so many nanoseconds earlier.
    pub(super) fn completed(&mut self, op: &Op, latency_ns: u64) {
        let latency_us = latency_ns / 1000;
        self.total.add(op, latency_us);
        self.recent.add(op, latency_us);
        if let Value::Str(error) = &op.error {
            self.count_error(error);
        }
    }

    fn count_error(&mut self, error: &str) {
        let end = error.char_indices().nth(ERROR_CHARS_MAX).map_or(error.len(), |(at, _)| at);
        let error = &error[..end];
        if let Some(count) = self.errors.get_mut(error) {
            *count += 1;
            return;
        }
        let error = if self.errors.len() < ERRORS_MAX { error } else { "other" };
        *self.errors.entry(error.to_owned()).or_default() += 1;
    }

    /// The figures since the last call, and in total.
    pub(super) fn progress(&mut self, now: u64, in_flight: usize) -> Progress {
        let seconds = now.saturating_sub(self.recent_since).max(1) as f64 / 1e9;
        let progress = Progress {
            time: now,
            in_flight,
            total: self.total.counts(),
            recent: self.recent.counts(),
            rate: self.recent.total() as f64 / seconds,
            latency: Latency::of(&self.recent.latency),
        };
        self.recent.clear();
        self.recent_since = now;
        progress
    }

    pub(super) fn totals(&self) -> Totals {
        Totals {
            by_f: self.total.counts(),
            latency: Latency::of(&self.total.latency),
            errors: self.errors.clone(),
        }
    }
}
