//! One generator after another.

use std::collections::VecDeque;

use deposed_history::Op;
use rand_chacha::ChaCha8Rng;

use super::{Context, Generator, Next, Thread};

/// See [`sequence`].
pub struct Sequence(VecDeque<Box<dyn Generator>>);

/// Each generator until it is done, then the next. Operations of the last may still be in flight
/// when the next begins; [`phases`] waits for them.
pub fn sequence(parts: Vec<Box<dyn Generator>>) -> Sequence {
    Sequence(parts.into())
}

impl Generator for Sequence {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        while let Some(part) = self.0.front_mut() {
            match part.next(cx, rng) {
                Next::Done => drop(self.0.pop_front()),
                next => return next,
            }
        }
        Next::Done
    }

    fn update(&mut self, cx: &Context<'_>, thread: Thread, event: &Op) {
        if let Some(part) = self.0.front_mut() {
            part.update(cx, thread, event);
        }
    }
}

/// See [`phases`].
pub struct Phases(VecDeque<Box<dyn Generator>>);

/// Each generator until it is done and every thread is free, then the next. The deadline of
/// operations bounds the wait.
pub fn phases(parts: Vec<Box<dyn Generator>>) -> Phases {
    Phases(parts.into())
}

impl Generator for Phases {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        while let Some(part) = self.0.front_mut() {
            match part.next(cx, rng) {
                Next::Done if self.0.len() == 1 || cx.free.len() == cx.threads.len() => {
                    self.0.pop_front();
                }
                Next::Done => return Next::Pending { until: None },
                next => return next,
            }
        }
        Next::Done
    }

    fn update(&mut self, cx: &Context<'_>, thread: Thread, event: &Op) {
        if let Some(part) = self.0.front_mut() {
            part.update(cx, thread, event);
        }
    }
}
