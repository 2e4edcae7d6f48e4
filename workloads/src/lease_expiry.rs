//! `lease-expiry`: keys are put under a lease that nobody renews, and looked at before and after its end.
//!
//! A client puts a key, looks at it once while the lease lasts, and then until it is gone, or
//! has been there for so long that nobody waits for its end any more.

use std::collections::BTreeMap;

use deposed_checkers::{Checker, Claims, LeaseExpiry};
use deposed_core::generator::{Context, Generator, Next, Thread};
use deposed_core::{Invocation, OpSet};
use deposed_history::{Op, OpType, Value};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::last_reads::Numbered;
use crate::{Generators, Workload, WorkloadOptions};

/// How long a lease is to last, in milliseconds. Stores may grant longer ones.
const LEASE_MS: i64 = 3000;
/// How long after its end a key may still be there. Stores look for ended leases now and then, and an
/// election that no fault brought about may add a whole lease.
const LATE_MAX_NS: u64 = 5_000_000_000;
/// A client that looks at a key which should be gone waits so long before it looks again.
const LOOK_EVERY_NS: u64 = 400_000_000;
/// A key that is there for so long after the end of its lease is left alone.
const GIVE_UP_NS: u64 = 4 * LATE_MAX_NS;
/// A client that got no answer, or no lease, waits so long.
const RETRY_NS: u64 = 200_000_000;

/// The workload.
#[derive(Debug, Clone, Copy)]
pub struct LeaseExpiries;

impl Workload for LeaseExpiries {
    fn name(&self) -> &'static str {
        "lease-expiry"
    }

    fn about(&self) -> &'static str {
        "keys under leases that nobody renews: gone with the lease, not earlier, not much later"
    }

    fn requires(&self) -> OpSet {
        ["put-leased", "read"].map(str::to_owned).into()
    }

    fn keyed(&self) -> bool {
        true
    }

    fn generators(&self, _options: &WorkloadOptions) -> Generators {
        let keys = Box::new(Numbered::new("leased-").fresh());
        Generators { main: LeaseOps { keys, threads: BTreeMap::new() }.boxed(), last: None }
    }

    fn checkers(&self, _claims: &Claims) -> Vec<Box<dyn Checker>> {
        vec![Box::new(LeaseExpiry { late_max_ns: LATE_MAX_NS })]
    }
}

struct LeaseOps {
    keys: Box<dyn Iterator<Item = Value> + Send>,
    threads: BTreeMap<Thread, Client>,
}

/// What one thread is at.
#[derive(Debug, Clone, Default)]
struct Client {
    /// The key it put, and when its lease is over.
    key: Option<(Value, u64)>,
    /// It does nothing before.
    busy_until: u64,
}

impl Client {
    fn completed(&mut self, time: u64, event: &Op) {
        let Some([key, payload]) = event.value.as_list() else { return };
        self.busy_until = time + RETRY_NS;
        match (&*event.f, event.kind) {
            ("put-leased", OpType::Ok) => {
                let granted = payload.get("lease_ms").and_then(Value::as_int).unwrap_or(LEASE_MS);
                let lease_ns = granted.unsigned_abs() * 1_000_000;
                self.key = Some((key.clone(), time + lease_ns));
                self.busy_until = time + lease_ns / 2;
            }
            ("put-leased", _) => self.key = None,
            ("read", OpType::Ok) => {
                let over = self.key.as_ref().map_or(0, |(_, over)| *over);
                if payload.is_nil() || time > over + GIVE_UP_NS {
                    self.key = None;
                } else {
                    self.busy_until = over.max(time + LOOK_EVERY_NS);
                }
            }
            _ => {}
        }
    }
}

impl Generator for LeaseOps {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        let busy_until = |thread: &Thread| self.threads.get(thread).map_or(0, |c| c.busy_until);
        let ready: Vec<Thread> =
            cx.free.iter().copied().filter(|thread| busy_until(thread) <= cx.time).collect();
        if ready.is_empty() {
            return Next::Pending { until: cx.free.iter().map(busy_until).min() };
        }
        let thread = ready[rng.random_range(..ready.len())];
        let client = self.threads.entry(thread).or_default();
        let op = match &client.key {
            Some((key, _)) => Invocation::new("read", Value::pair(key.clone(), Value::Nil)),
            None => {
                let asked = Value::Map(vec![("lease_ms".into(), Value::Int(LEASE_MS))]);
                let key = self.keys.next().unwrap_or(Value::Nil);
                Invocation::new("put-leased", Value::pair(key, asked))
            }
        };
        Next::Op { op, thread }
    }

    fn update(&mut self, cx: &Context<'_>, thread: Thread, event: &Op) {
        if event.kind == OpType::Invoke {
            return;
        }
        if let Some(client) = self.threads.get_mut(&thread) {
            client.completed(cx.time, event);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use deposed_checkers::{Budget, Verdict};
    use deposed_core::generator::{Reply, Simulation, simulate};
    use deposed_history::{Header, History};

    use super::*;

    /// Tells a store what time it is.
    struct Clocked(Box<dyn Generator>, Arc<AtomicU64>);

    impl Generator for Clocked {
        fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
            self.1.store(cx.time, Ordering::Relaxed);
            self.0.next(cx, rng)
        }

        fn update(&mut self, cx: &Context<'_>, thread: Thread, event: &Op) {
            self.0.update(cx, thread, event);
        }
    }

    /// What the workload does to a store whose leases last `factor` times as long as it says, and what its
    /// checker says of that.
    fn judged(factor: f64) -> (Verdict, Vec<Op>) {
        let options =
            WorkloadOptions { concurrency: 4, threads_per_key: 2, ops_per_key: 1, values: None };
        let mut ends: BTreeMap<String, u64> = BTreeMap::new();
        let how = Simulation { threads: 4, seed: 3, ops_max: 1500 };
        let time = Arc::<AtomicU64>::default();
        let mut main = Clocked(LeaseExpiries.generators(&options).main, time.clone());
        let ops = simulate(&mut main, how, |op, _| {
            let now = time.load(Ordering::Relaxed);
            let [key, payload] = op.value.as_list().unwrap() else { panic!("{op:?}") };
            let lasts = (LEASE_MS as f64 * 1e6 * factor) as u64;
            let answer = match &*op.f {
                "put-leased" => {
                    assert!(ends.insert(key.to_string(), now + lasts).is_none(), "{key}");
                    payload.clone()
                }
                _ if ends[&key.to_string()] > now => Value::Int(1),
                _ => Value::Nil,
            };
            let value = Value::pair(key.clone(), answer);
            Reply { after: Duration::from_millis(3), kind: OpType::Ok, value }
        });
        let header = Header { keyed: true, ..Header::default() };
        let history = History::from_ops(header, &ops);
        let checker = &LeaseExpiries.checkers(&Claims::default())[0];
        (checker.check(&history, &Budget::unlimited()).verdict, ops)
    }

    /// Every key is put once, looked at while it should be there and when it should be gone; leases that
    /// end too early, too late or never are found, those that end in time are not.
    #[test]
    fn leases_that_do_not_end_in_time_are_found() {
        let (verdict, ops) = judged(1.1);
        assert_eq!(verdict, Verdict::Valid);
        let reads = ops.iter().filter(|op| &*op.f == "read" && op.kind == OpType::Ok);
        let gone = |op: &&Op| op.value.as_list().unwrap()[1].is_nil();
        let (absent, there): (Vec<&Op>, Vec<&Op>) = reads.partition(gone);
        assert!(absent.len() > 50 && there.len() > 100, "{} {}", absent.len(), there.len());
        assert_eq!(judged(0.5).0, Verdict::Invalid);
        assert_eq!(judged(4.0).0, Verdict::Invalid);
        assert_eq!(judged(1e6).0, Verdict::Invalid);
    }
}
