//! Generators that end: after so many operations, so much time, or a success.

use std::time::Duration;

use deposed_history::{Op, OpType};
use rand_chacha::ChaCha8Rng;

use super::{Context, Generator, Next, Thread, nanos, sooner};

/// See [`Generator::limit`].
#[derive(Debug, Clone)]
pub struct Limit<G> {
    inner: G,
    left: usize,
}

impl<G: Generator> Limit<G> {
    pub(super) const fn new(inner: G, ops_max: usize) -> Self {
        Self { inner, left: ops_max }
    }
}

impl<G: Generator> Generator for Limit<G> {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        if self.left == 0 {
            return Next::Done;
        }
        let next = self.inner.next(cx, rng);
        if matches!(next, Next::Op { .. }) {
            self.left -= 1;
        }
        next
    }

    fn update(&mut self, cx: &Context<'_>, thread: Thread, event: &Op) {
        self.inner.update(cx, thread, event);
    }
}

/// See [`Generator::time_limit`].
#[derive(Debug, Clone)]
pub struct TimeLimit<G> {
    inner: G,
    limit: u64,
    end: Option<u64>,
}

impl<G: Generator> TimeLimit<G> {
    pub(super) fn new(inner: G, limit: Duration) -> Self {
        Self { inner, limit: nanos(limit), end: None }
    }
}

impl<G: Generator> Generator for TimeLimit<G> {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        let end = *self.end.get_or_insert(cx.time.saturating_add(self.limit));
        if cx.time >= end {
            return Next::Done;
        }
        match self.inner.next(cx, rng) {
            Next::Pending { until } => Next::Pending { until: sooner(until, Some(end)) },
            next => next,
        }
    }

    fn update(&mut self, cx: &Context<'_>, thread: Thread, event: &Op) {
        self.inner.update(cx, thread, event);
    }
}

/// See [`Generator::until_ok`].
#[derive(Debug, Clone)]
pub struct UntilOk<G> {
    inner: G,
    /// Threads on which an operation of `inner` is in flight.
    asked: Vec<Thread>,
    succeeded: bool,
}

impl<G: Generator> UntilOk<G> {
    pub(super) const fn new(inner: G) -> Self {
        Self { inner, asked: Vec::new(), succeeded: false }
    }
}

impl<G: Generator> Generator for UntilOk<G> {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        if self.succeeded {
            return Next::Done;
        }
        let next = self.inner.next(cx, rng);
        if let Next::Op { thread, .. } = next {
            self.asked.push(thread);
        }
        next
    }

    fn update(&mut self, cx: &Context<'_>, thread: Thread, event: &Op) {
        if event.kind != OpType::Invoke
            && let Some(position) = self.asked.iter().position(|&asked| asked == thread)
        {
            self.asked.swap_remove(position);
            self.succeeded |= event.kind == OpType::Ok;
        }
        self.inner.update(cx, thread, event);
    }
}
