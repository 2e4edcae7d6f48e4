//! A store that keeps transactions apart as much as it is told to, and clients that use it: where
//! histories of a known isolation come from.

use deposed_history::{Header, History, HistoryBuilder, Op, OpType, Process, Value};

/// How far transactions are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// Snapshots; a transaction fails if anything it read or wrote has changed since.
    StrictSerializable,
    /// Snapshots; a transaction fails if a key it writes was written since.
    Snapshot,
    /// Each read sees what is committed by then; a transaction fails if a key was written by
    /// others since it wrote it.
    ReadCommitted,
    /// Everything is seen at once, and stays if its transaction fails.
    ReadUncommitted,
}

/// What is simulated.
#[derive(Debug, Clone)]
pub(crate) struct Simulation {
    pub(crate) isolation: Isolation,
    /// Writes append to lists, instead of replacing what a register holds.
    pub(crate) append: bool,
    pub(crate) seed: u64,
    pub(crate) invocations: usize,
    pub(crate) processes: u32,
    /// Keys in use at a time, and writes to a key before a new one takes its place.
    pub(crate) keys: usize,
    pub(crate) writes_per_key: usize,
    pub(crate) mops_max: usize,
    /// Transactions in a hundred that fail, and that end without an answer, for no reason.
    pub(crate) fail_percent: u64,
    pub(crate) info_percent: u64,
}

impl Default for Simulation {
    fn default() -> Self {
        Self {
            isolation: Isolation::StrictSerializable,
            append: true,
            seed: 1,
            invocations: 1000,
            processes: 10,
            keys: 10,
            writes_per_key: 32,
            mops_max: 4,
            fail_percent: 2,
            info_percent: 1,
        }
    }
}

/// A small generator of random numbers (Vigna's splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 to below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[derive(Debug, Clone, Copy)]
struct Mop {
    key: usize,
    /// The value to write; `None` to read.
    write: Option<i64>,
}

/// A transaction under way.
#[derive(Debug)]
struct Running {
    mops: Vec<Mop>,
    /// The time of its snapshot.
    snapshot: u64,
    done: Vec<Value>,
    reads: Vec<usize>,
    /// Keys, values, and when.
    writes: Vec<(usize, i64, u64)>,
}

/// What was written to a key, and when it was committed.
#[derive(Debug, Default)]
struct Stored {
    versions: Vec<(i64, u64)>,
    writes: usize,
}

struct Store {
    simulation: Simulation,
    random: Random,
    keys: Vec<Stored>,
    active: Vec<usize>,
    time: u64,
}

impl Simulation {
    /// Runs it.
    pub(crate) fn run(&self) -> History {
        let mut store = Store {
            simulation: self.clone(),
            random: Random(self.seed),
            keys: (0..self.keys).map(|_| Stored::default()).collect(),
            active: (0..self.keys).collect(),
            time: 1,
        };
        let mut builder = HistoryBuilder::new(Header::default());
        let mut index = 0;
        let mut push = |kind, process, value| {
            let op = Op {
                index,
                time: index * 1000,
                ..Op::new(kind, Process::Client(process), "txn", value)
            };
            builder.push(&op);
            index += 1;
        };
        let mut clients: Vec<(u32, Option<Running>)> =
            (0..self.processes).map(|p| (p, None)).collect();
        let mut left = self.invocations;
        while left > 0 || clients.iter().any(|(_, running)| running.is_some()) {
            let at = store.random.below(clients.len() as u64) as usize;
            let (process, running) = &mut clients[at];
            let Some(txn) = running else {
                if left > 0 {
                    left -= 1;
                    let txn = store.begin();
                    push(OpType::Invoke, *process, store.asked(&txn.mops));
                    *running = Some(txn);
                }
                continue;
            };
            if txn.done.len() < txn.mops.len() {
                store.step(txn);
                continue;
            }
            let Some(txn) = running.take() else { continue };
            let kind = store.end(&txn);
            let value =
                if kind == OpType::Ok { Value::List(txn.done) } else { store.asked(&txn.mops) };
            push(kind, *process, value);
            if kind == OpType::Info {
                *process += self.processes;
            }
        }
        builder.finish()
    }
}

impl Store {
    const fn word(&self) -> &'static str {
        if self.simulation.append { "append" } else { "w" }
    }

    fn begin(&mut self) -> Running {
        let count = 1 + self.random.below(self.simulation.mops_max as u64) as usize;
        let mops = (0..count).map(|_| self.mop()).collect();
        Running {
            mops,
            snapshot: self.time,
            done: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
        }
    }

    fn mop(&mut self) -> Mop {
        let slot = self.random.below(self.active.len() as u64) as usize;
        let key = self.active[slot];
        if self.random.percent(50) {
            return Mop { key, write: None };
        }
        self.keys[key].writes += 1;
        let value = self.keys[key].writes as i64;
        if self.keys[key].writes >= self.simulation.writes_per_key {
            self.active[slot] = self.keys.len();
            self.keys.push(Stored::default());
        }
        Mop { key, write: Some(value) }
    }

    fn asked(&self, mops: &[Mop]) -> Value {
        let mop = |mop: &Mop| match mop.write {
            Some(value) => {
                Value::List(vec![self.word().into(), (mop.key as i64).into(), value.into()])
            }
            None => Value::List(vec!["r".into(), (mop.key as i64).into(), Value::Nil]),
        };
        Value::List(mops.iter().map(mop).collect())
    }

    /// Does the next micro-operation.
    fn step(&mut self, txn: &mut Running) {
        let mop = txn.mops[txn.done.len()];
        let Some(value) = mop.write else {
            let read = self.read(txn, mop.key);
            txn.reads.push(mop.key);
            txn.done.push(Value::List(vec!["r".into(), (mop.key as i64).into(), read]));
            return;
        };
        if self.simulation.isolation == Isolation::ReadUncommitted {
            self.time += 1;
            self.keys[mop.key].versions.push((value, self.time));
        }
        txn.writes.push((mop.key, value, self.time));
        txn.done.push(Value::List(vec![self.word().into(), (mop.key as i64).into(), value.into()]));
    }

    fn read(&self, txn: &Running, key: usize) -> Value {
        let versions = &self.keys[key].versions;
        let until = match self.simulation.isolation {
            Isolation::ReadCommitted | Isolation::ReadUncommitted => versions.len(),
            _ => versions.partition_point(|&(_, time)| time <= txn.snapshot),
        };
        let dirty = self.simulation.isolation == Isolation::ReadUncommitted;
        let own =
            txn.writes.iter().filter(|&&(k, ..)| k == key && !dirty).map(|&(_, value, _)| value);
        let mut seen = versions[..until].iter().map(|&(value, _)| value).chain(own);
        if self.simulation.append {
            Value::List(seen.map(Value::Int).collect())
        } else {
            seen.next_back().map_or(Value::Nil, Value::Int)
        }
    }

    /// Commits it if it can be, and says what its client is told.
    fn end(&mut self, txn: &Running) -> OpType {
        let changed = |key: usize, since: u64| {
            self.keys[key].versions.last().is_some_and(|&(_, time)| time > since)
        };
        let written = || txn.writes.iter().map(|&(key, ..)| key);
        let conflict = match self.simulation.isolation {
            Isolation::StrictSerializable => {
                txn.reads.iter().copied().chain(written()).any(|key| changed(key, txn.snapshot))
            }
            Isolation::Snapshot => written().any(|key| changed(key, txn.snapshot)),
            Isolation::ReadCommitted => txn.writes.iter().any(|&(key, _, time)| changed(key, time)),
            Isolation::ReadUncommitted => false,
        };
        if conflict || self.random.percent(self.simulation.fail_percent) {
            return OpType::Fail;
        }
        let lost = self.random.percent(self.simulation.info_percent);
        if lost && self.random.percent(50) {
            return OpType::Info;
        }
        self.time += 1;
        if self.simulation.isolation != Isolation::ReadUncommitted {
            for &(key, value, _) in &txn.writes {
                self.keys[key].versions.push((value, self.time));
            }
        }
        if lost { OpType::Info } else { OpType::Ok }
    }
}
