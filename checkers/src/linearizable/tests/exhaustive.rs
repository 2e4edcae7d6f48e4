//! The smallest histories, all of them, against brute force: up to three calls of two clients, every
//! order of events, every way to end. Four calls if `DEPOSED_FUZZ` is set.

use super::oracle::{End, Spec, TestCall, history, is_linearizable, show};
use super::other_models::{
    CounterOp, CounterSpec, Hold, HoldSpec, Kind, KvOp, KvSpec, ListOp, ListSpec, MultiSpec,
    QueueOp, QueueSpec, SetOp, SetSpec, Txn,
};
use super::registers::{RegisterOp, RegisterSpec};
use super::{alone, product};
use crate::{Budget, Checker, ModelKind, Verdict};

/// Clients that are busy at the same time, at most.
const CLIENTS: usize = 2;

fn calls_max() -> usize {
    if std::env::var_os("DEPOSED_FUZZ").is_some() { 4 } else { 3 }
}

/// Compares a checker with the oracle on all histories of calls that a process may make.
struct Exhaustive<'a, S: Spec> {
    spec: &'a S,
    calls_of: &'a dyn Fn(u32) -> Vec<(S::Op, End)>,
    checkers: Vec<Box<dyn Checker>>,
    size: usize,
    calls: Vec<TestCall<S::Op>>,
    /// Of each client the number of its process, and the call it waits for.
    clients: [(u32, Option<usize>); CLIENTS],
    time: usize,
    legal: u64,
    illegal: u64,
}

impl<S: Spec> Exhaustive<'_, S> {
    /// Goes on in every way from what has happened so far.
    fn go_on(&mut self) {
        if self.calls.len() == self.size && self.clients.iter().all(|client| client.1.is_none()) {
            self.compare();
            return;
        }
        // Clients are alike: the first call is the first client's.
        let clients = if self.calls.is_empty() { 1 } else { CLIENTS };
        for client in 0..clients {
            match self.clients[client] {
                (process, None) if self.calls.len() < self.size => self.invoke(client, process),
                (_, None) => {}
                (_, Some(at)) => self.complete(client, at),
            }
        }
    }

    fn invoke(&mut self, client: usize, process: u32) {
        let before = self.clients[client];
        for (op, end) in (self.calls_of)(process) {
            let at = self.calls.len();
            // When nobody knows whether it happened, nobody cares when that was said.
            let lost = end == End::Info;
            let (inv, ret) = (self.time, if lost { self.time + 1 } else { usize::MAX });
            self.calls.push(TestCall { process, op, inv, ret, end });
            let next = process + CLIENTS as u32;
            self.clients[client] = if lost { (next, None) } else { (process, Some(at)) };
            self.time += 2;
            self.go_on();
            self.time -= 2;
            self.clients[client] = before;
            self.calls.pop();
        }
    }

    fn complete(&mut self, client: usize, at: usize) {
        let before = self.clients[client];
        self.calls[at].ret = self.time;
        self.clients[client].1 = None;
        self.time += 2;
        self.go_on();
        self.time -= 2;
        self.clients[client] = before;
        self.calls[at].ret = usize::MAX;
    }

    fn compare(&mut self) {
        if !self.calls.iter().any(|call| call.end == End::Ok) {
            return;
        }
        let legal = is_linearizable(self.spec, &self.calls);
        let expected = if legal { Verdict::Valid } else { Verdict::Invalid };
        let history = history(self.spec, &self.calls);
        for checker in &self.checkers {
            let analysis = checker.check(&history, &Budget::unlimited());
            assert_eq!(analysis.verdict, expected, "{analysis:#?}\n{}", show(&history));
        }
        *(if legal { &mut self.legal } else { &mut self.illegal }) += 1;
    }
}

fn exhaust<S: Spec>(
    spec: &S,
    checkers: Vec<Box<dyn Checker>>,
    calls_of: impl Fn(u32) -> Vec<(S::Op, End)>,
) {
    let mut all = Exhaustive {
        spec,
        calls_of: &calls_of,
        checkers,
        size: 0,
        calls: Vec::new(),
        clients: [(0, None), (1, None)],
        time: 0,
        legal: 0,
        illegal: 0,
    };
    for size in 1..=calls_max() {
        all.size = size;
        all.go_on();
    }
    assert!(all.legal > 100 && all.illegal > 100, "{} legal, {} illegal", all.legal, all.illegal);
}

fn by_product(kind: ModelKind) -> Vec<Box<dyn Checker>> {
    product(kind).into_iter().map(|(_, checker)| checker).collect()
}

/// Registers, by zones where they apply and by each search alone.
#[test]
fn registers() {
    let spec = RegisterSpec { cas: true, values: Some(2), observes: true };
    let mut checkers = by_product(ModelKind::CasRegister);
    checkers.extend([alone(false), alone(true)]);
    exhaust(&spec, checkers, |_| {
        vec![
            (RegisterOp::Read(None), End::Ok),
            (RegisterOp::Read(Some(1)), End::Ok),
            (RegisterOp::Read(Some(2)), End::Ok),
            (RegisterOp::Write(Some(1)), End::Ok),
            (RegisterOp::Write(Some(2)), End::Info),
            (RegisterOp::Write(Some(2)), End::Fail),
            (RegisterOp::Cas(Some(1), Some(2)), End::Ok),
            (RegisterOp::Cas(Some(1), Some(2)), End::Info),
            (RegisterOp::Cas(Some(1), Some(2)), End::Precondition),
        ]
    });
}

/// Strings.
#[test]
fn kv() {
    let text = |text: &str| text.to_owned();
    exhaust(&KvSpec { unique: false, puts: true }, by_product(ModelKind::Kv), |_| {
        vec![
            (KvOp::Get(text("")), End::Ok),
            (KvOp::Get(text("a")), End::Ok),
            (KvOp::Get(text("aa")), End::Ok),
            (KvOp::Get(text("ba")), End::Ok),
            (KvOp::Append(text("a")), End::Ok),
            (KvOp::Append(text("a")), End::Info),
            (KvOp::Append(text("a")), End::Fail),
            (KvOp::Put(text("b")), End::Ok),
            (KvOp::Put(text("b")), End::Info),
        ]
    });
}

/// Two registers together.
#[test]
fn multi_registers() {
    let txn = |accesses: &[(bool, usize, Option<i64>)]| Txn(accesses.to_vec());
    exhaust(&MultiSpec, by_product(ModelKind::MultiRegister), |_| {
        vec![
            (txn(&[(false, 0, None), (false, 1, None)]), End::Ok),
            (txn(&[(false, 0, Some(1)), (false, 1, None)]), End::Ok),
            (txn(&[(false, 0, Some(1)), (false, 1, Some(1))]), End::Ok),
            (txn(&[(true, 0, Some(1)), (true, 1, Some(1))]), End::Ok),
            (txn(&[(true, 0, Some(1)), (true, 1, Some(1))]), End::Info),
            (txn(&[(true, 0, Some(1))]), End::Fail),
            (txn(&[(true, 0, Some(1)), (false, 1, None)]), End::Ok),
            (txn(&[(true, 0, Some(1)), (false, 1, None)]), End::Info),
        ]
    });
}

/// Everything that is held.
#[test]
fn holds() {
    for (kind, model) in [
        (Kind::Mutex, ModelKind::Mutex),
        (Kind::Lock, ModelKind::Lock),
        (Kind::Reentrant, ModelKind::ReentrantLock),
        (Kind::Semaphore, ModelKind::Semaphore { permits: 2 }),
    ] {
        exhaust(&HoldSpec(kind), by_product(model), |owner| {
            let mut calls = Vec::new();
            for acquire in [true, false] {
                for end in [End::Ok, End::Info, End::Fail] {
                    calls.push((Hold { acquire, count: 1, owner }, end));
                }
                if kind == Kind::Semaphore {
                    calls.push((Hold { acquire, count: 2, owner }, End::Ok));
                }
            }
            calls
        });
    }
}

/// Queues, also with values that repeat.
#[test]
fn queues() {
    let spec = QueueSpec { unique: false, both: true };
    exhaust(&spec, by_product(ModelKind::FifoQueue), |_| {
        vec![
            (QueueOp::Enqueue(1), End::Ok),
            (QueueOp::Enqueue(2), End::Ok),
            (QueueOp::Enqueue(2), End::Info),
            (QueueOp::Enqueue(2), End::Fail),
            (QueueOp::Dequeue(None), End::Ok),
            (QueueOp::Dequeue(None), End::Info),
            (QueueOp::Dequeue(Some(1)), End::Ok),
            (QueueOp::Dequeue(Some(2)), End::Ok),
        ]
    });
}

/// Sets.
#[test]
fn sets() {
    let read = |elements: &[i64]| (SetOp::Read(elements.iter().copied().collect()), End::Ok);
    exhaust(&SetSpec { unique: false }, by_product(ModelKind::Set), |_| {
        vec![
            (SetOp::Add(1), End::Ok),
            (SetOp::Add(2), End::Ok),
            (SetOp::Add(2), End::Info),
            (SetOp::Add(2), End::Fail),
            read(&[]),
            read(&[1]),
            read(&[2]),
            read(&[1, 2]),
        ]
    });
}

/// Lists.
#[test]
fn lists() {
    let read = |elements: &[i64]| (ListOp::Read(elements.to_vec()), End::Ok);
    exhaust(&ListSpec { unique: false }, by_product(ModelKind::List), |_| {
        vec![
            (ListOp::Append(1), End::Ok),
            (ListOp::Append(2), End::Ok),
            (ListOp::Append(2), End::Info),
            (ListOp::Append(2), End::Fail),
            read(&[]),
            read(&[1]),
            read(&[1, 2]),
            read(&[2, 1]),
        ]
    });
}

/// Counters.
#[test]
fn counters() {
    exhaust(&CounterSpec { down: true }, by_product(ModelKind::Counter), |_| {
        vec![
            (CounterOp::Add(1), End::Ok),
            (CounterOp::Add(1), End::Info),
            (CounterOp::Add(-1), End::Ok),
            (CounterOp::Add(1), End::Fail),
            (CounterOp::Read(0), End::Ok),
            (CounterOp::Read(1), End::Ok),
            (CounterOp::Read(-1), End::Ok),
        ]
    });
}
