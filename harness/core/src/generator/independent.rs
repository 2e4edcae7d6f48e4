//! One object for each key: many small histories in one run.

use std::ops::Range;

use deposed_history::{Op, Value};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{Context, Generator, Next, NoOp, Thread, position};
use crate::Invocation;

/// How many keys in a row may have nothing to do before that counts as a bug.
const EMPTY_KEYS_MAX: usize = 1000;

type MakeGenerator = dyn FnMut(&Value) -> Box<dyn Generator> + Send;

/// See [`independent`].
pub struct Independent {
    threads_per_key: usize,
    keys: Box<dyn Iterator<Item = Value> + Send>,
    make: Box<MakeGenerator>,
    groups: Vec<Option<Keyed>>,
}

/// The key a group of threads works on.
struct Keyed {
    key: Value,
    generator: Box<dyn Generator>,
}

/// Groups of `threads_per_key` threads, each on one key at a time: when the generator of a key is
/// done, its group goes on with the next key. The last group may be smaller.
///
/// Values become pairs, `[key, value]`. Events are passed on as they are, pair and all, to the
/// generator of their key, as long as its group works on it.
///
/// # Panics
/// If `threads_per_key` is 0; when asked, if 1,000 keys in a row have no operation at all.
pub fn independent(
    threads_per_key: usize,
    keys: impl IntoIterator<Item = Value, IntoIter: Send + 'static>,
    make: impl FnMut(&Value) -> Box<dyn Generator> + Send + 'static,
) -> Independent {
    assert!(threads_per_key > 0, "a key needs a thread");
    Independent {
        threads_per_key,
        keys: Box::new(keys.into_iter()),
        make: Box::new(make),
        groups: Vec::new(),
    }
}

impl Independent {
    fn positions(&self, group: usize, threads: usize) -> Range<usize> {
        let from = group * self.threads_per_key;
        from..threads.min(from + self.threads_per_key)
    }

    fn next_key(&mut self) -> Option<Keyed> {
        let key = self.keys.next()?;
        let generator = (self.make)(&key);
        Some(Keyed { key, generator })
    }

    /// The answer of one group; done once there are no more keys for it.
    fn ask(&mut self, group: usize, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        for _ in 0..EMPTY_KEYS_MAX {
            let Some(keyed) = &mut self.groups[group] else { return Next::Done };
            match keyed.generator.next(cx, rng) {
                Next::Op { op: Invocation { f, value }, thread } => {
                    let value = Value::List(vec![keyed.key.clone(), value]);
                    return Next::Op { op: Invocation { f, value }, thread };
                }
                pending @ Next::Pending { .. } => return pending,
                Next::Done => self.groups[group] = self.next_key(),
            }
        }
        panic!("{EMPTY_KEYS_MAX} keys in a row have no operation at all");
    }
}

impl Generator for Independent {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        while self.groups.len() < cx.threads.len().div_ceil(self.threads_per_key) {
            let keyed = self.next_key();
            self.groups.push(keyed);
        }
        let mut none = NoOp::default();
        let first = rng.random_range(..self.groups.len());
        for i in 0..self.groups.len() {
            let group = (first + i) % self.groups.len();
            let cx = cx.within(self.positions(group, cx.threads.len()));
            if cx.free.is_empty() {
                none.busy();
            } else if let Some(op) = none.take(self.ask(group, &cx, rng)) {
                return op;
            }
        }
        none.answer()
    }

    fn update(&mut self, cx: &Context<'_>, thread: Thread, event: &Op) {
        let group = position(cx, thread) / self.threads_per_key;
        let positions = self.positions(group, cx.threads.len());
        if let Some(Some(keyed)) = self.groups.get_mut(group)
            && event.value.as_list().and_then(<[Value]>::first) == Some(&keyed.key)
        {
            keyed.generator.update(&cx.within(positions), thread, event);
        }
    }
}
