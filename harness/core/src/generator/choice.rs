//! One of several generators at a time.

use deposed_history::Op;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{Context, Generator, Next, NoOp, Thread};

/// See [`mix`].
pub struct Mix {
    parts: Vec<Part>,
}

struct Part {
    weight: u32,
    generator: Box<dyn Generator>,
    /// Had no operation when asked for the current one.
    tried: bool,
}

/// Operations of several generators, drawn at random by weight. One that is pending does not hold
/// up the others; one that is done is left out; it is done when all are.
///
/// # Panics
/// If a weight is 0.
pub fn mix(parts: Vec<(u32, Box<dyn Generator>)>) -> Mix {
    assert!(parts.iter().all(|(weight, _)| *weight > 0), "a part of weight 0 is never drawn");
    let parts =
        parts.into_iter().map(|(weight, generator)| Part { weight, generator, tried: false });
    Mix { parts: parts.collect() }
}

impl Mix {
    /// Draws one of the parts not tried yet.
    fn draw(&self, rng: &mut ChaCha8Rng) -> Option<usize> {
        let open = || self.parts.iter().enumerate().filter(|(_, part)| !part.tried);
        let total: u32 = open().map(|(_, part)| part.weight).sum();
        if total == 0 {
            return None;
        }
        let mut draw = rng.random_range(..total);
        for (position, part) in open() {
            if draw < part.weight {
                return Some(position);
            }
            draw -= part.weight;
        }
        unreachable!("the draw is less than the sum of the weights")
    }
}

impl Generator for Mix {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        for part in &mut self.parts {
            part.tried = false;
        }
        let mut none = NoOp::default();
        while let Some(position) = self.draw(rng) {
            let part = &mut self.parts[position];
            part.tried = true;
            let next = part.generator.next(cx, rng);
            if next == Next::Done {
                self.parts.remove(position);
            } else if let Some(op) = none.take(next) {
                return op;
            }
        }
        none.answer()
    }

    fn update(&mut self, cx: &Context<'_>, thread: Thread, event: &Op) {
        for part in &mut self.parts {
            part.generator.update(cx, thread, event);
        }
    }
}
