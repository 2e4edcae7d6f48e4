//! What to do next: pure, seeded sources of operations.
//!
//! A generator is asked for an operation whenever a thread is free, and told of every event. It
//! sees time and randomness only through its arguments, so that it can be run by a simulator with
//! no cluster: same seed and same events, same operations.

use deposed_history::Op;
use rand_chacha::ChaCha8Rng;

use crate::Invocation;

/// A worker of the run loop, numbered from 0. It runs one process at a time.
pub type Thread = usize;

/// What a generator may know when it is asked.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Nanoseconds since the start of the run.
    pub time: u64,
    /// Threads that are free now, ascending. Never empty when [`Generator::next`] is called by the
    /// run loop, but a combinator may hand its parts an empty subset.
    pub free: &'a [Thread],
    /// All threads this generator may use, ascending.
    pub threads: &'a [Thread],
    /// The process each thread is running now, indexed by thread.
    pub processes: &'a [u32],
}

/// A generator's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Do this, on this thread, no earlier than `time` (nanoseconds since the start of the run).
    Op {
        /// What.
        op: Invocation,
        /// A member of `cx.free`.
        thread: Thread,
        /// When; a time in the past means now.
        time: u64,
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
    /// The next operation. An answer of [`Next::Op`] is always performed.
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next;

    /// An invocation or completion happened on `thread`.
    fn update(&mut self, _cx: &Context<'_>, _thread: Thread, _event: &Op) {}
}
