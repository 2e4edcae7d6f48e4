//! Where operations come from.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{Context, Generator, Limit, Next};
use crate::Invocation;

/// Operations made by a function, each on a random free thread.
#[derive(Debug, Clone)]
pub struct FromFn<F> {
    make: F,
    done: bool,
}

/// Operations made by a function, until it returns `None`.
pub fn from_fn<F>(make: F) -> FromFn<F>
where
    F: FnMut(&Context<'_>, &mut ChaCha8Rng) -> Option<Invocation> + Send,
{
    FromFn { make, done: false }
}

/// Operations from an iterator, in order.
pub fn from_iter<I>(
    ops: I,
) -> FromFn<impl FnMut(&Context<'_>, &mut ChaCha8Rng) -> Option<Invocation> + Send>
where
    I: IntoIterator<Item = Invocation>,
    I::IntoIter: Send,
{
    let mut ops = ops.into_iter();
    from_fn(move |_, _| ops.next())
}

/// One operation.
pub fn once(
    op: Invocation,
) -> Limit<FromFn<impl FnMut(&Context<'_>, &mut ChaCha8Rng) -> Option<Invocation> + Send>> {
    from_fn(move |_, _| Some(op.clone())).limit(1)
}

impl<F> Generator for FromFn<F>
where
    F: FnMut(&Context<'_>, &mut ChaCha8Rng) -> Option<Invocation> + Send,
{
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        if self.done {
            return Next::Done;
        }
        let Some(op) = (self.make)(cx, rng) else {
            self.done = true;
            return Next::Done;
        };
        Next::Op { op, thread: cx.free[rng.random_range(..cx.free.len())] }
    }
}
