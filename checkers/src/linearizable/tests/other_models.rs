//! Every other model against brute force.

use std::collections::{BTreeSet, VecDeque};

use super::oracle::{End, Random, Spec, fuzz};
use crate::{Checker, Linearizable, ModelKind};
use deposed_history::Value;

pub(super) fn product(kind: ModelKind) -> Vec<(&'static str, Box<dyn Checker>)> {
    vec![("product", Box::new(Linearizable::new(kind)) as Box<dyn Checker>)]
}

fn pair(key: &str, value: Value) -> Value {
    Value::List(vec![key.into(), value])
}

fn ints(items: impl IntoIterator<Item = i64>) -> Value {
    Value::List(items.into_iter().map(Value::Int).collect())
}

/// One key of a store of strings.
pub(crate) struct KvSpec {
    pub(crate) unique: bool,
    pub(crate) puts: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum KvOp {
    Get(String),
    Put(String),
    Append(String),
}

impl Spec for KvSpec {
    type Op = KvOp;
    type State = String;

    fn init(&self) -> String {
        String::new()
    }

    fn random(&self, random: &mut Random, serial: i64, _process: u32) -> KvOp {
        let text = if self.unique {
            format!("<{serial}>")
        } else {
            ["a", "b", "ab", ""][random.below(4) as usize].to_owned()
        };
        match random.below(if self.puts { 5 } else { 4 }) {
            0 | 1 => KvOp::Get(String::new()),
            2 | 3 => KvOp::Append(text),
            _ => KvOp::Put(text),
        }
    }

    fn execute(&self, state: &mut String, op: &mut KvOp) -> bool {
        match op {
            KvOp::Get(v) => v.clone_from(state),
            KvOp::Put(v) => state.clone_from(v),
            KvOp::Append(v) => state.push_str(v),
        }
        true
    }

    fn replay(&self, state: &mut String, op: &KvOp, _process: u32, end: End) -> bool {
        match op {
            KvOp::Get(v) => end != End::Ok || v == state,
            KvOp::Put(v) => {
                state.clone_from(v);
                true
            }
            KvOp::Append(v) => {
                state.push_str(v);
                true
            }
        }
    }

    fn corrupt(&self, op: &mut KvOp, random: &mut Random) {
        let KvOp::Get(v) = op else { return };
        if random.chance(50) {
            let cut = v.char_indices().map(|(at, _)| at).nth(random.below(4) as usize);
            v.truncate(cut.unwrap_or(0));
        } else if self.unique {
            v.push_str(&format!("<{}>", random.below(6) + 1));
        } else {
            v.push('b');
        }
    }

    fn events(&self, op: &KvOp) -> (&'static str, Value, Value) {
        let text = |v: &String| Value::str(v.as_str());
        match op {
            KvOp::Get(v) => ("get", pair("k", Value::Nil), pair("k", text(v))),
            KvOp::Put(v) => ("put", pair("k", text(v)), pair("k", text(v))),
            KvOp::Append(v) => ("append", pair("k", text(v)), Value::Nil),
        }
    }
}

/// Appends and gets of strings, every string appended once.
#[test]
fn unique_appends_agree_with_brute_force() {
    fuzz("kv, unique, no puts", &KvSpec { unique: true, puts: false }, &product(ModelKind::Kv), 8);
}

/// Puts too.
#[test]
fn unique_kv_agrees_with_brute_force() {
    fuzz("kv, unique", &KvSpec { unique: true, puts: true }, &product(ModelKind::Kv), 8);
}

/// Strings that look like each other.
#[test]
fn small_kv_agrees_with_brute_force() {
    fuzz("kv, small", &KvSpec { unique: false, puts: true }, &product(ModelKind::Kv), 8);
}

/// Registers that are read and written together.
pub(super) struct MultiSpec;

#[derive(Debug, Clone)]
pub(super) struct Txn(pub(super) Vec<(bool, usize, Option<i64>)>);

impl Spec for MultiSpec {
    type Op = Txn;
    type State = [Option<i64>; 2];

    fn init(&self) -> Self::State {
        [None; 2]
    }

    fn random(&self, random: &mut Random, _serial: i64, _process: u32) -> Txn {
        let access = |random: &mut Random| {
            let write = random.chance(50);
            let value = Some(random.below(3) as i64).filter(|v| write && *v > 0);
            (write, random.below(2) as usize, value)
        };
        Txn((0..1 + random.below(3)).map(|_| access(random)).collect())
    }

    fn execute(&self, state: &mut Self::State, op: &mut Txn) -> bool {
        for (write, register, value) in &mut op.0 {
            if *write {
                state[*register] = *value;
            } else {
                *value = state[*register];
            }
        }
        true
    }

    fn replay(&self, state: &mut Self::State, op: &Txn, _process: u32, end: End) -> bool {
        for (write, register, value) in &op.0 {
            if *write {
                state[*register] = *value;
            } else if end == End::Ok && *value != state[*register] {
                return false;
            }
        }
        true
    }

    fn corrupt(&self, op: &mut Txn, random: &mut Random) {
        if let Some(read) = op.0.iter_mut().find(|access| !access.0) {
            read.2 = Some(random.below(3) as i64).filter(|v| *v > 0);
        }
    }

    fn events(&self, op: &Txn) -> (&'static str, Value, Value) {
        let list = |result: bool| {
            let item = |&(write, register, value): &(bool, usize, Option<i64>)| {
                let value = value.filter(|_| write || result);
                let name = ["x", "y"][register];
                Value::List(vec![if write { "w" } else { "r" }.into(), name.into(), value.into()])
            };
            Value::List(op.0.iter().map(item).collect())
        };
        ("txn", list(false), list(true))
    }
}

/// Registers that are read and written together.
#[test]
fn multi_registers_agree_with_brute_force() {
    fuzz("multi-register", &MultiSpec, &product(ModelKind::MultiRegister), 7);
}

/// Everything that is acquired and released.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Mutex,
    Lock,
    Reentrant,
    Semaphore,
}

pub(super) struct HoldSpec(pub(super) Kind);

#[derive(Debug, Clone)]
pub(super) struct Hold {
    pub(super) acquire: bool,
    pub(super) count: u32,
    pub(super) owner: u32,
}

impl Spec for HoldSpec {
    type Op = Hold;
    /// The owner and how often.
    type State = (u32, u32);

    fn init(&self) -> (u32, u32) {
        (0, 0)
    }

    fn random(&self, random: &mut Random, _serial: i64, process: u32) -> Hold {
        let count = if self.0 == Kind::Semaphore { 1 + random.below(2) as u32 } else { 1 };
        Hold { acquire: random.chance(50), count, owner: process }
    }

    fn execute(&self, state: &mut (u32, u32), op: &mut Hold) -> bool {
        let before = *state;
        let owns = state.0 == op.owner;
        let fits = match (self.0, op.acquire) {
            (Kind::Mutex | Kind::Lock, true) => state.1 == 0,
            (Kind::Mutex, false) => state.1 == 1,
            (Kind::Lock, false) => state.1 == 1 && owns,
            (Kind::Reentrant, true) => state.1 == 0 || owns,
            (Kind::Reentrant, false) => state.1 > 0 && owns,
            (Kind::Semaphore, true) => state.1 + op.count <= 2,
            (Kind::Semaphore, false) => state.1 >= op.count,
        };
        if fits {
            let held = if op.acquire { before.1 + op.count } else { before.1 - op.count };
            let owner = if held > 0 && self.0 != Kind::Semaphore { op.owner } else { 0 };
            *state = (owner, held);
        }
        fits
    }

    fn replay(&self, state: &mut (u32, u32), op: &Hold, _process: u32, _end: End) -> bool {
        self.execute(state, &mut op.clone())
    }

    fn corrupt(&self, op: &mut Hold, random: &mut Random) {
        if random.chance(60) {
            op.acquire = !op.acquire;
        }
    }

    fn events(&self, op: &Hold) -> (&'static str, Value, Value) {
        let value = match self.0 {
            Kind::Semaphore if op.count > 1 => Value::Int(i64::from(op.count)),
            _ => Value::Nil,
        };
        (if op.acquire { "acquire" } else { "release" }, value.clone(), value)
    }
}

/// A mutex that anyone may release.
#[test]
fn mutexes_agree_with_brute_force() {
    fuzz("mutex", &HoldSpec(Kind::Mutex), &product(ModelKind::Mutex), 9);
}

/// A lock that only its owner may release.
#[test]
fn locks_agree_with_brute_force() {
    fuzz("lock", &HoldSpec(Kind::Lock), &product(ModelKind::Lock), 9);
}

/// A lock that its owner may acquire again.
#[test]
fn reentrant_locks_agree_with_brute_force() {
    fuzz("reentrant", &HoldSpec(Kind::Reentrant), &product(ModelKind::ReentrantLock), 9);
}

/// A semaphore of two permits.
#[test]
fn semaphores_agree_with_brute_force() {
    let kind = ModelKind::parse("semaphore:2").expect("a model");
    fuzz("semaphore", &HoldSpec(Kind::Semaphore), &product(kind), 9);
}

/// A queue, of unique values or of few.
pub(crate) struct QueueSpec {
    pub(crate) unique: bool,
    /// Whether dequeues can be indeterminate in such a history.
    pub(crate) both: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum QueueOp {
    Enqueue(i64),
    Dequeue(Option<i64>),
}

impl Spec for QueueSpec {
    type Op = QueueOp;
    type State = VecDeque<i64>;

    fn init(&self) -> VecDeque<i64> {
        VecDeque::new()
    }

    fn random(&self, random: &mut Random, serial: i64, _process: u32) -> QueueOp {
        if random.chance(50) {
            QueueOp::Enqueue(if self.unique { serial } else { random.below(2) as i64 })
        } else {
            QueueOp::Dequeue(None)
        }
    }

    fn execute(&self, state: &mut VecDeque<i64>, op: &mut QueueOp) -> bool {
        match op {
            QueueOp::Enqueue(v) => state.push_back(*v),
            QueueOp::Dequeue(v) => *v = state.pop_front(),
        }
        true
    }

    fn replay(&self, state: &mut VecDeque<i64>, op: &QueueOp, _process: u32, end: End) -> bool {
        match op {
            QueueOp::Enqueue(v) => {
                state.push_back(*v);
                true
            }
            QueueOp::Dequeue(v) => {
                let head = state.pop_front();
                end != End::Ok || head == *v
            }
        }
    }

    fn corrupt(&self, op: &mut QueueOp, random: &mut Random) {
        if let QueueOp::Dequeue(v) = op {
            let other = random.below(if self.both { 4 } else { 7 }) as i64;
            *v = Some(other).filter(|v| *v > 0);
        }
    }

    fn events(&self, op: &QueueOp) -> (&'static str, Value, Value) {
        match op {
            QueueOp::Enqueue(v) => ("enqueue", Value::Int(*v), Value::Int(*v)),
            QueueOp::Dequeue(v) => ("dequeue", Value::Nil, (*v).into()),
        }
    }
}

/// Every value enqueued once.
#[test]
fn unique_queues_agree_with_brute_force() {
    let spec = QueueSpec { unique: true, both: false };
    fuzz("queue, unique", &spec, &product(ModelKind::FifoQueue), 9);
}

/// Values that repeat.
#[test]
fn small_queues_agree_with_brute_force() {
    let spec = QueueSpec { unique: false, both: true };
    fuzz("queue, small", &spec, &product(ModelKind::FifoQueue), 9);
}

/// A set that is read as a whole.
pub(super) struct SetSpec {
    pub(super) unique: bool,
}

#[derive(Debug, Clone)]
pub(super) enum SetOp {
    Add(i64),
    Read(BTreeSet<i64>),
}

impl Spec for SetSpec {
    type Op = SetOp;
    type State = BTreeSet<i64>;

    fn init(&self) -> BTreeSet<i64> {
        BTreeSet::new()
    }

    fn random(&self, random: &mut Random, serial: i64, _process: u32) -> SetOp {
        if random.chance(50) {
            SetOp::Add(if self.unique { serial } else { random.below(3) as i64 })
        } else {
            SetOp::Read(BTreeSet::new())
        }
    }

    fn execute(&self, state: &mut BTreeSet<i64>, op: &mut SetOp) -> bool {
        match op {
            SetOp::Add(v) => {
                state.insert(*v);
            }
            SetOp::Read(seen) => seen.clone_from(state),
        }
        true
    }

    fn replay(&self, state: &mut BTreeSet<i64>, op: &SetOp, _process: u32, end: End) -> bool {
        match op {
            SetOp::Add(v) => {
                state.insert(*v);
                true
            }
            SetOp::Read(seen) => end != End::Ok || seen == state,
        }
    }

    fn corrupt(&self, op: &mut SetOp, random: &mut Random) {
        let SetOp::Read(seen) = op else { return };
        let v = random.below(if self.unique { 9 } else { 3 }) as i64;
        if !seen.remove(&v) {
            seen.insert(v);
        }
    }

    fn events(&self, op: &SetOp) -> (&'static str, Value, Value) {
        match op {
            SetOp::Add(v) => ("add", Value::Int(*v), Value::Int(*v)),
            SetOp::Read(seen) => ("read", Value::Nil, ints(seen.iter().rev().copied())),
        }
    }
}

/// Every element added once.
#[test]
fn unique_sets_agree_with_brute_force() {
    fuzz("set, unique", &SetSpec { unique: true }, &product(ModelKind::Set), 9);
}

/// Elements added again and again.
#[test]
fn small_sets_agree_with_brute_force() {
    fuzz("set, small", &SetSpec { unique: false }, &product(ModelKind::Set), 9);
}

/// A list that is read as a whole.
pub(super) struct ListSpec {
    pub(super) unique: bool,
}

#[derive(Debug, Clone)]
pub(super) enum ListOp {
    Append(i64),
    Read(Vec<i64>),
}

impl Spec for ListSpec {
    type Op = ListOp;
    type State = Vec<i64>;

    fn init(&self) -> Vec<i64> {
        Vec::new()
    }

    fn random(&self, random: &mut Random, serial: i64, _process: u32) -> ListOp {
        if random.chance(50) {
            ListOp::Append(if self.unique { serial } else { random.below(2) as i64 })
        } else {
            ListOp::Read(Vec::new())
        }
    }

    fn execute(&self, state: &mut Vec<i64>, op: &mut ListOp) -> bool {
        match op {
            ListOp::Append(v) => state.push(*v),
            ListOp::Read(seen) => seen.clone_from(state),
        }
        true
    }

    fn replay(&self, state: &mut Vec<i64>, op: &ListOp, _process: u32, end: End) -> bool {
        match op {
            ListOp::Append(v) => {
                state.push(*v);
                true
            }
            ListOp::Read(seen) => end != End::Ok || seen == state,
        }
    }

    fn corrupt(&self, op: &mut ListOp, random: &mut Random) {
        let ListOp::Read(seen) = op else { return };
        match random.below(3) {
            0 => seen.truncate(random.below(3) as usize),
            1 => seen.push(random.below(9) as i64),
            _ if seen.len() > 1 => seen.swap(0, 1),
            _ => {}
        }
    }

    fn events(&self, op: &ListOp) -> (&'static str, Value, Value) {
        match op {
            ListOp::Append(v) => ("append", Value::Int(*v), Value::Int(*v)),
            ListOp::Read(seen) => ("read", Value::Nil, ints(seen.iter().copied())),
        }
    }
}

/// Every element appended once.
#[test]
fn unique_lists_agree_with_brute_force() {
    fuzz("list, unique", &ListSpec { unique: true }, &product(ModelKind::List), 9);
}

/// Elements appended again and again.
#[test]
fn small_lists_agree_with_brute_force() {
    fuzz("list, small", &ListSpec { unique: false }, &product(ModelKind::List), 9);
}

/// A number that goes up, or up and down.
pub(super) struct CounterSpec {
    pub(super) down: bool,
}

#[derive(Debug, Clone)]
pub(super) enum CounterOp {
    Add(i64),
    Read(i64),
}

impl Spec for CounterSpec {
    type Op = CounterOp;
    type State = i64;

    fn init(&self) -> i64 {
        0
    }

    fn random(&self, random: &mut Random, _serial: i64, _process: u32) -> CounterOp {
        if random.chance(50) {
            CounterOp::Add(random.below(3) as i64 - i64::from(self.down))
        } else {
            CounterOp::Read(0)
        }
    }

    fn execute(&self, state: &mut i64, op: &mut CounterOp) -> bool {
        match op {
            CounterOp::Add(n) => *state += *n,
            CounterOp::Read(n) => *n = *state,
        }
        true
    }

    fn replay(&self, state: &mut i64, op: &CounterOp, _process: u32, end: End) -> bool {
        match op {
            CounterOp::Add(n) => {
                *state += n;
                true
            }
            CounterOp::Read(n) => end != End::Ok || n == state,
        }
    }

    fn corrupt(&self, op: &mut CounterOp, random: &mut Random) {
        if let CounterOp::Read(n) = op {
            *n += random.below(3) as i64 - 1;
        }
    }

    fn events(&self, op: &CounterOp) -> (&'static str, Value, Value) {
        match op {
            CounterOp::Add(n) => ("add", Value::Int(*n), Value::Nil),
            CounterOp::Read(n) => ("read", Value::Nil, Value::Int(*n)),
        }
    }
}

/// A counter that only grows.
#[test]
fn growing_counters_agree_with_brute_force() {
    fuzz("counter, growing", &CounterSpec { down: false }, &product(ModelKind::Counter), 9);
}

/// A counter that goes up and down.
#[test]
fn counters_agree_with_brute_force() {
    fuzz("counter", &CounterSpec { down: true }, &product(ModelKind::Counter), 9);
}
