//! Threads divided among generators.

use std::ops::Range;

use deposed_history::Op;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{Context, Generator, Next, NoOp, Thread, position};

/// See [`reserve`].
pub struct Reserve {
    /// Positions in `cx.threads`, and who has them. The last part has all that is left.
    parts: Vec<(Range<usize>, Box<dyn Generator>)>,
}

/// So many threads for each generator, taken in order; `rest` has the remaining ones. Where there
/// are fewer threads than reserved, the last parts go short.
pub fn reserve(parts: Vec<(usize, Box<dyn Generator>)>, rest: Box<dyn Generator>) -> Reserve {
    let mut from = 0;
    let mut reserved = Vec::with_capacity(parts.len() + 1);
    for (threads, generator) in parts {
        reserved.push((from..from + threads, generator));
        from += threads;
    }
    reserved.push((from..usize::MAX, rest));
    Reserve { parts: reserved }
}

impl Generator for Reserve {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        let mut none = NoOp::default();
        let first = rng.random_range(..self.parts.len());
        for i in 0..self.parts.len() {
            let position = (first + i) % self.parts.len();
            let (range, part) = &mut self.parts[position];
            let positions = clamp(range, cx.threads.len());
            if positions.is_empty() {
                continue; // Without a thread it can do nothing, ever.
            }
            let cx = cx.within(positions);
            if cx.free.is_empty() {
                none.busy();
            } else if let Some(op) = none.take(part.next(&cx, rng)) {
                return op;
            }
        }
        none.answer()
    }

    fn update(&mut self, cx: &Context<'_>, thread: Thread, event: &Op) {
        let position = position(cx, thread);
        for (range, part) in &mut self.parts {
            if range.contains(&position) {
                part.update(&cx.within(clamp(range, cx.threads.len())), thread, event);
            }
        }
    }
}

fn clamp(range: &Range<usize>, len: usize) -> Range<usize> {
    range.start.min(len)..range.end.min(len)
}

/// See [`each_thread`].
pub struct EachThread {
    make: Box<dyn FnMut(Thread) -> Box<dyn Generator> + Send>,
    parts: Vec<Box<dyn Generator>>,
}

/// A generator of its own for each thread, made when the first operation is asked for.
pub fn each_thread(make: impl FnMut(Thread) -> Box<dyn Generator> + Send + 'static) -> EachThread {
    EachThread { make: Box::new(make), parts: Vec::new() }
}

impl Generator for EachThread {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        while self.parts.len() < cx.threads.len() {
            self.parts.push((self.make)(cx.threads[self.parts.len()]));
        }
        let mut none = NoOp::default();
        if cx.free.len() < cx.threads.len() {
            none.busy();
        }
        let first = rng.random_range(..cx.free.len());
        for i in 0..cx.free.len() {
            let thread = cx.free[(first + i) % cx.free.len()];
            let position = position(cx, thread);
            let next = self.parts[position].next(&cx.within(position..position + 1), rng);
            if let Some(op) = none.take(next) {
                return op;
            }
        }
        none.answer()
    }

    fn update(&mut self, cx: &Context<'_>, thread: Thread, event: &Op) {
        let position = position(cx, thread);
        if let Some(part) = self.parts.get_mut(position) {
            part.update(&cx.within(position..position + 1), thread, event);
        }
    }
}
