//! What to do next: pure, seeded sources of operations.
//!
//! A generator is asked for an operation whenever a thread is free, and told of every event. It
//! sees time and randomness only through its arguments, so that it can be run by a simulator with
//! no cluster ([`simulate`]): same seed and same events, same operations.
//!
//! Sources are [`from_fn`], [`from_iter`], [`once`]. Methods of [`Generator`] bound and pace one
//! generator; functions combine several:
//!
//! ```
//! use std::time::Duration;
//! use deposed_core::generator::{from_fn, independent, mix, Generator};
//! use deposed_core::Invocation;
//! use deposed_history::Value;
//!
//! let read = || from_fn(|_, _| Some(Invocation::new("read", Value::Nil)));
//! let mut written = 0;
//! let mut write = move || {
//!     written += 1;
//!     Invocation::new("write", written.into())
//! };
//! let writes = from_fn(move |_, _| Some(write()));
//! // One key: twice as many reads as writes, at 100 operations a second in total, for a minute.
//! let _register = mix(vec![(2, read().boxed()), (1, writes.boxed())])
//!     .stagger(100.0)
//!     .time_limit(Duration::from_secs(60));
//! // Many keys: two threads share a key and take a fresh one after 50 operations on it.
//! let _many = independent(2, (0_i64..).map(Value::from), move |_key| read().limit(50).boxed());
//! ```

mod choice;
mod independent;
mod limit;
mod order;
mod pace;
mod partition;
mod simulator;
mod source;
#[cfg(test)]
mod tests;
mod threads;

use deposed_history::Op;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

use crate::Invocation;

pub use choice::{Mix, mix};
pub use independent::{Independent, independent};
pub use limit::{Limit, TimeLimit, UntilOk};
pub use order::{Phases, Sequence, phases, sequence};
pub use pace::{CycleTimes, Silence, Sleep, Stagger, cycle_times, silence, sleep};
pub use partition::{EachThread, Reserve, each_thread, reserve};
pub use simulator::{Reply, Simulation, simulate};
pub use source::{FromFn, from_fn, from_iter, once};
pub use threads::Threads;

/// A worker of the run loop, numbered from 0. It runs one process at a time.
pub type Thread = usize;

/// What a generator may know when it is asked.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Nanoseconds since the start of the run.
    pub time: u64,
    /// Threads that are free now, ascending. Never empty when a generator is asked.
    pub free: &'a [Thread],
    /// All threads this generator may use, ascending. The same in every call.
    pub threads: &'a [Thread],
    /// The process each thread is running now, indexed by thread.
    pub processes: &'a [u32],
}

impl<'a> Context<'a> {
    /// The same, for some of the threads only: those at `positions` of [`Context::threads`].
    fn within(&self, positions: std::ops::Range<usize>) -> Context<'a> {
        let threads = &self.threads[positions];
        let (Some(&first), Some(&last)) = (threads.first(), threads.last()) else {
            return Context { free: &[], threads, ..*self };
        };
        // Both lists ascend, so the free ones among neighbours are neighbours.
        let from = self.free.partition_point(|&thread| thread < first);
        let to = self.free.partition_point(|&thread| thread <= last);
        Context { free: &self.free[from..to], threads, ..*self }
    }
}

/// A generator's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Do this now, on this thread.
    Op {
        /// What.
        op: Invocation,
        /// A member of `cx.free`.
        thread: Thread,
    },
    /// Nothing before an event happens or `until` is reached, whichever is first.
    Pending {
        /// Nanoseconds since the start of the run; `None`: only an event can change the answer.
        until: Option<u64>,
    },
    /// Nothing ever again.
    Done,
}

/// A source of operations.
pub trait Generator: Send {
    /// The next operation. An answer of [`Next::Op`] is always performed, at once, so whoever asks
    /// a part of several passes its operation on and asks no further.
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next;

    /// An invocation or completion happened on `thread`, one of `cx.threads`.
    fn update(&mut self, _cx: &Context<'_>, _thread: Thread, _event: &Op) {}

    /// At most this many operations.
    fn limit(self, ops_max: usize) -> Limit<Self>
    where
        Self: Sized,
    {
        Limit::new(self, ops_max)
    }

    /// Nothing after this long, counted from when it was first asked. Operations in flight then
    /// are not touched.
    fn time_limit(self, limit: Duration) -> TimeLimit<Self>
    where
        Self: Sized,
    {
        TimeLimit::new(self, limit)
    }

    /// Goes on until one of its operations has succeeded.
    fn until_ok(self) -> UntilOk<Self>
    where
        Self: Sized,
    {
        UntilOk::new(self)
    }

    /// At most `rate` operations a second in total, not for each thread, at random intervals.
    fn stagger(self, rate: f64) -> Stagger<Self>
    where
        Self: Sized,
    {
        Stagger::new(self, rate)
    }

    /// This, and once all its operations have completed, `next`.
    fn then(self, next: impl Generator + 'static) -> Phases
    where
        Self: Sized + 'static,
    {
        phases(vec![self.boxed(), next.boxed()])
    }

    /// The same, behind a pointer.
    fn boxed(self) -> Box<dyn Generator>
    where
        Self: Sized + 'static,
    {
        Box::new(self)
    }
}

impl Generator for Box<dyn Generator> {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        (**self).next(cx, rng)
    }

    fn update(&mut self, cx: &Context<'_>, thread: Thread, event: &Op) {
        (**self).update(cx, thread, event);
    }

    fn boxed(self) -> Box<dyn Generator> {
        self
    }
}

/// What several parts that had no operation amount to: done if all are, else pending until the
/// first of them may have something.
#[derive(Debug, Default)]
struct NoOp {
    pending: bool,
    until: Option<u64>,
}

impl NoOp {
    /// Takes the answer of one part; gives it back if it is an operation.
    fn take(&mut self, next: Next) -> Option<Next> {
        match next {
            Next::Op { .. } => return Some(next),
            Next::Pending { until } => {
                self.pending = true;
                self.until = sooner(self.until, until);
            }
            Next::Done => {}
        }
        None
    }

    /// A part was not asked because none of its threads is free.
    fn busy(&mut self) {
        self.pending = true;
    }

    fn answer(self) -> Next {
        if self.pending { Next::Pending { until: self.until } } else { Next::Done }
    }
}

/// Where a thread stands in [`Context::threads`].
fn position(cx: &Context<'_>, thread: Thread) -> usize {
    cx.threads.binary_search(&thread).expect("a generator hears of its own threads only")
}

/// The earlier of two times that may be never.
fn sooner(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

/// A duration as the run loop counts it.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
