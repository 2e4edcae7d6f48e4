//! Reads of everything at the end, when it was healed: what has the last word.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deposed_core::Invocation;
use deposed_core::generator::{Context, Generator, Next, Thread};
use deposed_history::{Op, OpType, Value};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A final read that fails is tried so many times: a store may still be at an election.
const ATTEMPTS_MAX: u32 = 20;
/// At most so many resources, the newest, are read.
const RESOURCES_MAX: u64 = 1000;

/// The numbered resources of a run, of which ever more are used.
#[derive(Debug, Clone)]
pub(crate) struct Numbered {
    prefix: &'static str,
    used: Arc<AtomicU64>,
}

impl Numbered {
    /// None are used yet.
    pub(crate) fn new(prefix: &'static str) -> Self {
        Self { prefix, used: Arc::default() }
    }

    /// Each time one that was not used before.
    pub(crate) fn fresh(&self) -> impl Iterator<Item = Value> + Send + 'static {
        let numbered = self.clone();
        std::iter::repeat_with(move || numbered.name(numbered.used.fetch_add(1, Ordering::Relaxed)))
    }

    fn name(&self, number: u64) -> Value {
        Value::from(format!("{}{number}", self.prefix))
    }

    /// The newest of those that were used.
    fn newest(&self) -> Vec<Value> {
        let used = self.used.load(Ordering::Relaxed);
        (used.saturating_sub(RESOURCES_MAX)..used).map(|number| self.name(number)).collect()
    }
}

/// Reads each resource until that has succeeded once, any thread any resource.
pub(crate) struct LastReads {
    resources: Box<dyn Fn() -> Vec<Value> + Send>,
    /// What is still to be read, with attempts left. `None` before the first question, as the main
    /// phase may still be at work when this is made.
    queue: Option<Vec<(Value, u32)>>,
    reading: BTreeMap<Thread, (Value, u32)>,
}

impl LastReads {
    /// Of one resource.
    pub(crate) fn of(resource: &'static str) -> Self {
        Self::new(move || vec![Value::from(resource)])
    }

    /// Of all that will have been used.
    pub(crate) fn of_all(numbered: Numbered) -> Self {
        Self::new(move || numbered.newest())
    }

    fn new(resources: impl Fn() -> Vec<Value> + Send + 'static) -> Self {
        Self { resources: Box::new(resources), queue: None, reading: BTreeMap::new() }
    }
}

impl Generator for LastReads {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        let queue = self.queue.get_or_insert_with(|| {
            (self.resources)().into_iter().map(|resource| (resource, ATTEMPTS_MAX)).collect()
        });
        if queue.is_empty() && self.reading.is_empty() {
            return Next::Done;
        }
        let Some((resource, attempts)) = queue.pop() else { return Next::Pending { until: None } };
        let thread = cx.free[rng.random_range(..cx.free.len())];
        self.reading.insert(thread, (resource.clone(), attempts - 1));
        Next::Op { op: Invocation::new("read", Value::pair(resource, Value::Nil)), thread }
    }

    fn update(&mut self, _cx: &Context<'_>, thread: Thread, event: &Op) {
        if event.kind == OpType::Invoke {
            return;
        }
        let Some((resource, attempts)) = self.reading.remove(&thread) else { return };
        if event.kind != OpType::Ok && attempts > 0 {
            self.queue.get_or_insert_default().push((resource, attempts));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use deposed_core::generator::{Reply, Simulation, simulate};

    use super::*;

    /// Every resource that was used is read, again while that fails, and not for ever.
    #[test]
    fn everything_is_read() {
        let numbered = Numbered::new("log-");
        let used: Vec<Value> = numbered.fresh().take(3).collect();
        assert_eq!(used[2], Value::from("log-2"));
        let mut failures = 5;
        let how = Simulation { threads: 2, seed: 1, ops_max: 1000 };
        let ops = simulate(&mut LastReads::of_all(numbered), how, |op, _| {
            failures -= 1;
            let kind = if failures >= 0 { OpType::Fail } else { OpType::Ok };
            Reply { after: Duration::from_millis(1), kind, value: op.value.clone() }
        });
        let read: Vec<_> = ops.iter().filter(|op| op.kind == OpType::Ok).collect();
        assert_eq!((ops.len(), read.len()), (16, 3), "{ops:?}");

        let ops = simulate(&mut LastReads::of("volume"), how, |op, _| Reply {
            after: Duration::from_millis(1),
            kind: OpType::Fail,
            value: op.value.clone(),
        });
        assert_eq!(ops.len() as u32, 2 * ATTEMPTS_MAX);
    }
}
