//! Generators that wait.

use std::time::Duration;

use deposed_history::Op;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{Context, Generator, Next, Thread, nanos, sooner};

/// How far a rate may fall behind and still catch up. It makes good the delays of timers, and is
/// short enough not to turn a stall of the store into a burst.
const CATCH_UP_NS: u64 = 10_000_000;

/// See [`Generator::stagger`].
///
/// Intervals are exponential, as between independent arrivals. Time lost while no thread was free
/// is not made up, but for [`CATCH_UP_NS`].
#[derive(Debug, Clone)]
pub struct Stagger<G> {
    inner: G,
    mean_ns: f64,
    due: Option<u64>,
}

impl<G: Generator> Stagger<G> {
    pub(super) fn new(inner: G, rate: f64) -> Self {
        assert!(rate > 0.0, "a rate of {rate} operations a second");
        Self { inner, mean_ns: 1e9 / rate, due: None }
    }
}

impl<G: Generator> Generator for Stagger<G> {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        let due = *self.due.get_or_insert(cx.time);
        if cx.time < due {
            return Next::Pending { until: Some(due) };
        }
        let next = self.inner.next(cx, rng);
        if matches!(next, Next::Op { .. }) {
            let uniform: f64 = rng.random();
            let interval = -(1.0 - uniform).ln() * self.mean_ns;
            let from = due.max(cx.time.saturating_sub(CATCH_UP_NS));
            self.due = Some(from.saturating_add(interval as u64));
        }
        next
    }

    fn update(&mut self, cx: &Context<'_>, thread: Thread, event: &Op) {
        self.inner.update(cx, thread, event);
    }
}

/// Nothing, for a while.
#[derive(Debug, Clone)]
pub struct Sleep {
    length: u64,
    end: Option<u64>,
}

/// Nothing for this long, counted from when it was first asked; then done.
pub fn sleep(length: Duration) -> Sleep {
    Sleep { length: nanos(length), end: None }
}

impl Generator for Sleep {
    fn next(&mut self, cx: &Context<'_>, _rng: &mut ChaCha8Rng) -> Next {
        let end = *self.end.get_or_insert(cx.time.saturating_add(self.length));
        if cx.time >= end { Next::Done } else { Next::Pending { until: Some(end) } }
    }
}

/// Nothing, for as long as it is asked.
#[derive(Debug, Clone, Copy)]
pub struct Silence;

/// Nothing, for as long as it is asked: the quiet part of [`cycle_times`].
pub const fn silence() -> Silence {
    Silence
}

impl Generator for Silence {
    fn next(&mut self, _cx: &Context<'_>, _rng: &mut ChaCha8Rng) -> Next {
        Next::Pending { until: None }
    }
}

/// See [`cycle_times`].
pub struct CycleTimes {
    parts: Vec<(u64, Box<dyn Generator>)>,
    done: Vec<bool>,
    start: Option<u64>,
}

/// Each generator for its time, over and over: 25 s of load, 5 s of [`silence`], and again. A part
/// goes on where it was when its turn had ended; the whole is done when every part is.
///
/// # Panics
/// If the times add up to nothing.
pub fn cycle_times(parts: Vec<(Duration, Box<dyn Generator>)>) -> CycleTimes {
    let parts: Vec<_> = parts.into_iter().map(|(length, part)| (nanos(length), part)).collect();
    assert!(parts.iter().any(|(length, _)| *length > 0), "a cycle takes time");
    CycleTimes { done: vec![false; parts.len()], parts, start: None }
}

impl CycleTimes {
    /// Whose turn it is, and when that ends.
    fn turn(&self, start: u64, time: u64) -> (usize, u64) {
        let cycle: u64 = self.parts.iter().map(|(length, _)| length).sum();
        let into = (time - start) % cycle;
        let mut end = 0;
        for (position, (length, _)) in self.parts.iter().enumerate() {
            end += length;
            if into < end {
                return (position, time + (end - into));
            }
        }
        unreachable!("{into} is less than the sum {cycle}")
    }
}

impl Generator for CycleTimes {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        let start = *self.start.get_or_insert(cx.time);
        let (turn, end) = self.turn(start, cx.time);
        let until = match self.parts[turn].1.next(cx, rng) {
            Next::Pending { until } => until,
            Next::Done => {
                self.done[turn] = true;
                None
            }
            op => return op,
        };
        if self.done.iter().all(|&done| done) {
            return Next::Done;
        }
        Next::Pending { until: sooner(until, Some(end)) }
    }

    fn update(&mut self, cx: &Context<'_>, thread: Thread, event: &Op) {
        for (_, part) in &mut self.parts {
            part.update(cx, thread, event);
        }
    }
}
