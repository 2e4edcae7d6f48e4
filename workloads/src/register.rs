//! `register`: read, write and compare-and-set on many independent keys.
//!
//! Threads are split into groups. A group works on one key for a number of operations, then on a
//! fresh one, so that no key's history grows beyond what can be checked. By default every value
//! written to a key is written only once, so a read tells which write it saw. After everything was
//! healed, each key is read once more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deposed_checkers::{Checker, Claims, Linearizable, ModelKind, Staleness};
use deposed_core::generator::{Context, Generator, Next, Thread, independent};
use deposed_core::{Invocation, OpSet};
use deposed_history::{Op, OpType, Value};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::{Generators, Workload, WorkloadOptions};

/// Of ten operations, so many are reads; the next so many writes; the others cas.
const READS_OF_TEN: u32 = 4;
const WRITES_OF_TEN: u32 = 3;
/// At most so many keys, the newest, are read at the end.
const FINAL_KEYS_MAX: u64 = 1000;
/// A final read that fails is tried so many times.
const FINAL_ATTEMPTS_MAX: u32 = 3;

/// The workload.
#[derive(Debug, Clone, Copy)]
pub struct Register;

impl Workload for Register {
    fn name(&self) -> &'static str {
        "register"
    }

    fn about(&self) -> &'static str {
        "read, write and compare-and-set on many keys, judged by linearizability"
    }

    fn requires(&self) -> OpSet {
        ["read", "write", "cas"].map(str::to_owned).into()
    }

    fn keyed(&self) -> bool {
        true
    }

    fn generators(&self, options: &WorkloadOptions) -> Generators {
        let key_count = Arc::new(AtomicU64::new(0));
        let count = key_count.clone();
        let keys = std::iter::repeat_with(move || key(count.fetch_add(1, Ordering::Relaxed)));
        let (values, ops_per_key) = (options.values, options.ops_per_key.max(1));
        let main = independent(options.threads_per_key.max(1), keys, move |_key| {
            KeyOps { values, last_written: 0, seen: None }.limit(ops_per_key).boxed()
        });
        let last = FinalReads { key_count, queue: None, reading: BTreeMap::new() };
        Generators { main: main.boxed(), last: Some(last.boxed()) }
    }

    fn checkers(&self, _claims: &Claims) -> Vec<Box<dyn Checker>> {
        vec![
            Box::new(Linearizable::new(ModelKind::CasRegister).keyed(self.keyed())),
            Box::new(Staleness { keyed: self.keyed() }),
        ]
    }
}

/// The key of a number.
fn key(number: u64) -> Value {
    Value::from(format!("k{number}"))
}

/// Operations on one key, without the key: [`independent`] adds it.
struct KeyOps {
    values: Option<u32>,
    /// The greatest value written, if each is written once.
    last_written: i64,
    /// The value the key was last seen to have, so that a cas has a chance.
    seen: Option<i64>,
}

impl KeyOps {
    /// A value to write: the next of its own, or one of the few.
    fn value(&mut self, rng: &mut ChaCha8Rng) -> i64 {
        match self.values {
            Some(few) => rng.random_range(0..i64::from(few.max(1))),
            None => {
                self.last_written += 1;
                self.last_written
            }
        }
    }
}

impl Generator for KeyOps {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        let op = match (rng.random_range(0..10), self.seen) {
            (0..READS_OF_TEN, _) => Invocation::new("read", Value::Nil),
            (n, Some(seen)) if n >= READS_OF_TEN + WRITES_OF_TEN => {
                Invocation::new("cas", Value::pair(seen, self.value(rng)))
            }
            // Nothing is known of the key yet: a cas would be a guess.
            _ => Invocation::new("write", self.value(rng).into()),
        };
        Next::Op { op, thread: cx.free[rng.random_range(..cx.free.len())] }
    }

    fn update(&mut self, _cx: &Context<'_>, _thread: Thread, event: &Op) {
        if event.kind != OpType::Ok {
            return;
        }
        // `[key, value]` of a read or a write, `[key, [old, new]]` of a cas.
        let value = event.value.as_list().and_then(<[Value]>::last);
        let seen = value.and_then(|value| value.as_list().map_or(Some(value), <[Value]>::last));
        self.seen = seen.and_then(Value::as_int).or(self.seen);
    }
}

/// Reads the newest keys once each, newest first, any thread any key.
struct FinalReads {
    key_count: Arc<AtomicU64>,
    /// Keys to read, the next last, with attempts left. `None` before the first question, as the
    /// main phase may still be at work when this is made.
    queue: Option<Vec<(u64, u32)>>,
    /// What each thread is reading.
    reading: BTreeMap<Thread, (u64, u32)>,
}

impl Generator for FinalReads {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        let queue = self.queue.get_or_insert_with(|| {
            let count = self.key_count.load(Ordering::Relaxed);
            let first = count.saturating_sub(FINAL_KEYS_MAX);
            (first..count).map(|number| (number, FINAL_ATTEMPTS_MAX)).collect()
        });
        if queue.is_empty() && self.reading.is_empty() {
            return Next::Done;
        }
        let Some((number, attempts)) = queue.pop() else { return Next::Pending { until: None } };
        let thread = cx.free[rng.random_range(..cx.free.len())];
        self.reading.insert(thread, (number, attempts - 1));
        Next::Op { op: Invocation::new("read", Value::pair(key(number), Value::Nil)), thread }
    }

    fn update(&mut self, _cx: &Context<'_>, thread: Thread, event: &Op) {
        if event.kind == OpType::Invoke {
            return;
        }
        let Some((number, attempts)) = self.reading.remove(&thread) else { return };
        if event.kind != OpType::Ok && attempts > 0 {
            self.queue.get_or_insert_default().push((number, attempts));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use deposed_checkers::{Budget, Verdict};
    use deposed_core::generator::{Reply, Simulation, simulate};
    use deposed_history::{Header, History};
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    /// A register that answers at once, each key for itself.
    #[derive(Default)]
    struct Store(BTreeMap<String, Value>);

    impl Store {
        fn reply(&mut self, op: &Invocation, rng: &mut ChaCha8Rng) -> Reply {
            let [key, argument] = op.value.as_list().unwrap() else { panic!("{op:?}") };
            let kept = self.0.entry(key.as_str().unwrap().to_owned()).or_default();
            let (kind, value) = match (&*op.f, argument.as_list()) {
                ("read", _) => (OpType::Ok, kept.clone()),
                ("cas", Some([old, _])) if old != kept => (OpType::Fail, argument.clone()),
                (_, list) => {
                    *kept = list.map_or(argument, |cas| &cas[1]).clone();
                    (OpType::Ok, argument.clone())
                }
            };
            let after = Duration::from_micros(rng.random_range(100..2000));
            Reply { after, kind, value: Value::pair(key.clone(), value) }
        }
    }

    fn options(values: Option<u32>) -> WorkloadOptions {
        WorkloadOptions { concurrency: 7, threads_per_key: 3, ops_per_key: 40, values }
    }

    fn run(values: Option<u32>) -> (Vec<Op>, Vec<Op>) {
        let mut generators = Register.generators(&options(values));
        let mut store = Store::default();
        let how = Simulation { threads: 7, seed: 1, ops_max: 2000 };
        let main = simulate(&mut *generators.main, how, |op, rng| store.reply(op, rng));
        let mut last = generators.last.unwrap();
        let how = Simulation { threads: 7, seed: 2, ops_max: 2000 };
        let reads = simulate(&mut *last, how, |op, rng| store.reply(op, rng));
        (main, reads)
    }

    fn keys(ops: &[Op]) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for op in ops.iter().filter(|op| op.kind == OpType::Invoke) {
            let key = op.value.as_list().unwrap()[0].as_str().unwrap();
            *counts.entry(key.to_owned()).or_default() += 1;
        }
        counts
    }

    /// Keys are retired after their share of operations, no value is written twice to a key, and
    /// the final reads visit every key once.
    #[test]
    fn keys_are_retired_and_read_at_the_end() {
        let (main, reads) = run(None);
        let used = keys(&main);
        assert!(used.len() >= 2000 / 40 && used.values().all(|&count| count <= 40), "{used:?}");
        let mut written = std::collections::BTreeSet::new();
        for op in main.iter().filter(|op| op.kind == OpType::Invoke && &*op.f != "read") {
            let [key, value] = op.value.as_list().unwrap() else { panic!("{op:?}") };
            let new = value.as_list().map_or(value, |cas| &cas[1]).as_int().unwrap();
            assert!(written.insert((key.to_string(), new)), "{op:?} is written twice");
        }
        assert!(reads.iter().all(|op| &*op.f == "read"));
        assert_eq!(keys(&reads), used.keys().map(|key| (key.clone(), 1)).collect());
    }

    /// A good share of every function succeeds, also with few values.
    #[test]
    fn each_function_succeeds() {
        for values in [None, Some(5)] {
            let (main, _) = run(values);
            for f in ["read", "write", "cas"] {
                let count = |kind| main.iter().filter(|op| &*op.f == f && op.kind == kind).count();
                let (invoked, ok) = (count(OpType::Invoke), count(OpType::Ok));
                assert!(invoked > 300 && ok * 10 > invoked * 3, "{f}: {ok} of {invoked}");
            }
        }
    }

    /// What the workload makes is judged by its checker: valid when the store is sound, invalid when
    /// one read in the middle is of the value before.
    #[test]
    fn its_checker_judges_it() {
        let (mut ops, _) = run(None);
        let verdict = |ops: &[Op]| {
            let history = History::from_ops(Header { keyed: true, ..Header::default() }, ops);
            Register.checkers(&Claims::default())[0].check(&history, &Budget::unlimited()).verdict
        };
        assert_eq!(verdict(&ops), Verdict::Valid);
        let read = |op: &&mut Op| {
            let value = op.value.as_list().and_then(|pair| pair[1].as_int());
            op.kind == OpType::Ok && &*op.f == "read" && value.is_some_and(|value| value > 5)
        };
        let stale = ops.iter_mut().find(read).unwrap();
        stale.value = Value::pair(stale.value.as_list().unwrap()[0].clone(), 1);
        assert_eq!(verdict(&ops), Verdict::Invalid);
    }

    /// A final read that fails is tried again, but not for ever.
    #[test]
    fn final_reads_give_up() {
        let mut generators = Register.generators(&options(None));
        let (threads, processes) = ([0], [0]);
        let cx = Context { time: 0, free: &threads, threads: &threads, processes: &processes };
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        assert!(matches!(generators.main.next(&cx, &mut rng), Next::Op { .. }));
        let how = Simulation { threads: 2, seed: 1, ops_max: 100 };
        let reads = simulate(&mut *generators.last.unwrap(), how, |op, _| Reply {
            after: Duration::from_millis(1),
            kind: OpType::Fail,
            value: op.value.clone(),
        });
        assert_eq!(keys(&reads), BTreeMap::from([("k0".to_owned(), 3)]));
    }
}
