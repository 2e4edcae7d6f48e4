//! `lock`: clients take a lock, write to what it guards, renew it now and then, and give it back.
//!
//! Now and then a holder pauses for longer than its lease, as clients do, and then goes on with what
//! it was about to write. It says of each write whether it takes its lease for valid.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deposed_checkers::{Checker, Claims, Fencing};
use deposed_core::generator::{Context, Generator, Next, Thread, independent};
use deposed_core::{Invocation, OpSet};
use deposed_history::fencing::{FencedWrite, Token};
use deposed_history::{Op, OpType, Value};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::last_reads::Numbered;
use crate::{Generators, Workload, WorkloadOptions};

/// Operations on one lock before the next is used.
const OPS_PER_LOCK: usize = 400;
/// Writes of one holder, at most.
const WRITES_MAX: u32 = 5;
/// Of so many holds, one is paused for longer than its lease.
const HOLDS_PER_PAUSE: u32 = 6;
/// How long such a pause is, by the length of the lease.
const PAUSE_LEASES: f64 = 1.5;
/// How much of its lease a client does not use.
const SAFE_PART: f64 = 0.7;
/// A lock without a lease is taken for one that lasts so long.
const NO_LEASE_NS: u64 = 1_000_000_000;
/// A client that was refused the lock waits so long before it asks again.
const RETRY_NS: u64 = 100_000_000;

/// The workload.
#[derive(Debug, Clone, Copy)]
pub struct Lock;

impl Workload for Lock {
    fn name(&self) -> &'static str {
        "lock"
    }

    fn about(&self) -> &'static str {
        "acquire, renew, release and writes guarded by the lock, with holders that pause"
    }

    fn requires(&self) -> OpSet {
        ["acquire", "renew", "release", "fenced-write"].map(str::to_owned).into()
    }

    fn keyed(&self) -> bool {
        true
    }

    fn generators(&self, options: &WorkloadOptions) -> Generators {
        let written = Arc::new(AtomicU64::new(0));
        let locks = Numbered::new("lock-");
        let main = independent(options.threads_per_key.max(2), locks.fresh(), move |_lock| {
            let written = written.clone();
            LockOps { written, threads: BTreeMap::new() }.limit(OPS_PER_LOCK).boxed()
        });
        Generators { main: main.boxed(), last: None }
    }

    fn checkers(&self, claims: &Claims) -> Vec<Box<dyn Checker>> {
        vec![Box::new(Fencing { claims: *claims })]
    }
}

/// Operations on one lock, without the lock: [`independent`] adds it.
struct LockOps {
    written: Arc<AtomicU64>,
    threads: BTreeMap<Thread, Client>,
}

/// What one thread is at.
#[derive(Debug, Clone, Copy, Default)]
struct Client {
    hold: Option<Hold>,
    /// When it asked for what it is waiting for.
    asked: u64,
    /// It does nothing before.
    busy_until: u64,
}

/// A lock that it holds, as far as it knows.
#[derive(Debug, Clone, Copy)]
struct Hold {
    token: i64,
    lease_ns: u64,
    /// Until when it takes its lease for valid.
    valid_until: u64,
    /// What it will still write before it releases, once it has made up its mind.
    writes_left: Option<u32>,
}

impl Client {
    /// A new holder makes up its mind.
    fn plan(&mut self, time: u64, rng: &mut ChaCha8Rng) {
        if let Some(hold) = self.hold.as_mut().filter(|hold| hold.writes_left.is_none()) {
            hold.writes_left = Some(rng.random_range(1..=WRITES_MAX));
            if rng.random_range(0..HOLDS_PER_PAUSE) == 0 {
                self.busy_until = time + (hold.lease_ns as f64 * PAUSE_LEASES) as u64;
            }
        }
    }

    fn next(&mut self, time: u64, written: &AtomicU64, rng: &mut ChaCha8Rng) -> Invocation {
        self.asked = time;
        let Some(hold) = &mut self.hold else { return Invocation::new("acquire", Value::Nil) };
        let token = Token(hold.token).to_value();
        let left = hold.writes_left.get_or_insert(0);
        if *left == 0 {
            return Invocation::new("release", token);
        }
        if rng.random_range(0..4) == 0 {
            return Invocation::new("renew", token);
        }
        *left -= 1;
        let number = written.fetch_add(1, Ordering::Relaxed);
        let write = FencedWrite {
            token: Some(hold.token),
            id: &format!("g{number}"),
            value: i64::try_from(number).unwrap_or(i64::MAX).into(),
            believed_valid: time < hold.valid_until,
        };
        Invocation::new("fenced-write", write.to_value())
    }

    fn completed(&mut self, time: u64, event: &Op) {
        let payload = event.value.as_list().and_then(<[Value]>::last);
        let int = |name| payload.and_then(|payload| payload.get(name)).and_then(Value::as_int);
        match (&*event.f, event.kind) {
            ("acquire" | "renew", OpType::Ok) => {
                let lease_ms = int("lease_ms").and_then(|ms| u64::try_from(ms).ok());
                let lease_ns = lease_ms.map_or(NO_LEASE_NS, |ms| ms * 1_000_000);
                let valid_until = self.asked + (lease_ns as f64 * SAFE_PART) as u64;
                match &mut self.hold {
                    Some(hold) => hold.valid_until = valid_until,
                    None => {
                        let token = int("token").unwrap_or(0);
                        self.hold = Some(Hold { token, lease_ns, valid_until, writes_left: None });
                    }
                }
            }
            ("fenced-write", OpType::Ok) => {}
            // Refused, it knows that its lease is over, and finishes what it was about to do all
            // the same, as clients do that have no other thought.
            ("fenced-write", OpType::Fail) => {
                if let Some(hold) = &mut self.hold {
                    hold.valid_until = 0;
                }
            }
            // A write that got no answer does not end the hold, but its client is gone.
            _ => {
                self.hold = None;
                self.busy_until = time + RETRY_NS;
            }
        }
    }
}

impl Generator for LockOps {
    fn next(&mut self, cx: &Context<'_>, rng: &mut ChaCha8Rng) -> Next {
        for client in self.threads.values_mut() {
            client.plan(cx.time, rng);
        }
        let ready = |thread: &&Thread| {
            self.threads.get(thread).is_none_or(|client| client.busy_until <= cx.time)
        };
        let ready: Vec<Thread> = cx.free.iter().filter(ready).copied().collect();
        if ready.is_empty() {
            let until = cx.free.iter().filter_map(|thread| self.threads.get(thread));
            return Next::Pending { until: until.map(|client| client.busy_until).min() };
        }
        let thread = ready[rng.random_range(..ready.len())];
        let client = self.threads.entry(thread).or_default();
        Next::Op { op: client.next(cx.time, &self.written, rng), thread }
    }

    fn update(&mut self, cx: &Context<'_>, thread: Thread, event: &Op) {
        if event.kind == OpType::Invoke {
            return;
        }
        let Some(client) = self.threads.get_mut(&thread) else { return };
        client.completed(cx.time, event);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use deposed_core::generator::{Reply, Simulation, simulate};
    use deposed_history::fencing::{Grant, STALE_TOKEN};

    use super::*;

    /// A lock service and the resource behind it, which compares tokens.
    #[derive(Default)]
    struct Service {
        holder: Option<i64>,
        token: i64,
        seen: i64,
        refused: usize,
    }

    impl Service {
        fn answer(&mut self, op: &Invocation) -> (OpType, Value) {
            let [_, argument] = op.value.as_list().unwrap() else { panic!("{op:?}") };
            let token = argument.get("token").and_then(Value::as_int);
            let grant =
                |token| Grant { token, lease_ms: Some(20), valid_until_ns: None }.to_value();
            match &*op.f {
                "acquire" if self.holder.is_none() || self.token % 3 == 0 => {
                    self.token += 1;
                    self.holder = Some(self.token);
                    (OpType::Ok, grant(self.token))
                }
                "renew" if self.holder == token => (OpType::Ok, grant(self.token)),
                "release" if self.holder == token => {
                    self.holder = None;
                    (OpType::Ok, argument.clone())
                }
                "fenced-write" if token >= Some(self.seen) => {
                    self.seen = token.unwrap();
                    (OpType::Ok, argument.clone())
                }
                "fenced-write" => {
                    self.refused += 1;
                    assert_eq!(STALE_TOKEN, "stale-token");
                    (OpType::Fail, argument.clone())
                }
                _ => (OpType::Fail, argument.clone()),
            }
        }
    }

    /// Every function succeeds often; ids are unique; a write that comes after a pause says that
    /// its lease may be over; a release is always of what was acquired.
    #[test]
    fn clients_hold_and_pause() {
        let options =
            WorkloadOptions { concurrency: 4, threads_per_key: 2, ops_per_key: 1, values: None };
        let mut generators = Lock.generators(&options);
        let mut services: BTreeMap<String, Service> = BTreeMap::new();
        let how = Simulation { threads: 4, seed: 3, ops_max: 3000 };
        let ops = simulate(&mut *generators.main, how, |op, _| {
            let lock = op.value.as_list().unwrap()[0].clone();
            let (kind, payload) = services.entry(lock.to_string()).or_default().answer(op);
            Reply { after: Duration::from_millis(1), kind, value: Value::pair(lock, payload) }
        });
        let count = |f: &str, kind| ops.iter().filter(|op| &*op.f == f && op.kind == kind).count();
        for f in ["acquire", "renew", "release", "fenced-write"] {
            assert!(count(f, OpType::Ok) > 50, "{f}: {}", count(f, OpType::Ok));
        }
        assert!(services.values().any(|service| service.refused > 0));
        let writes = ops.iter().filter(|op| op.kind == OpType::Invoke && &*op.f == "fenced-write");
        let mut ids = std::collections::BTreeSet::new();
        let mut doubtful = 0;
        for write in writes {
            let payload = &write.value.as_list().unwrap()[1];
            assert!(ids.insert(payload.get("id").unwrap().to_string()), "{write:?}");
            doubtful += usize::from(payload.get("believed_valid").is_none());
        }
        assert!(doubtful > 0 && doubtful * 2 < ids.len(), "{doubtful} of {}", ids.len());
    }
}
