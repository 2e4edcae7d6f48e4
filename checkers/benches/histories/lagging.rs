//! Histories of a store that lets each node answer reads by itself: while a node is cut off, what is
//! read there is what it had before, and what is written there waits.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use deposed_history::{Header, History, Op, OpType, PRECONDITION, Process, Value};

use super::histories::Random;

const MS: u64 = 1_000_000;

/// Clients of each key; the first is at the node that is cut off.
const CLIENTS: usize = 5;

/// A node is cut off for so long, after as long a time in which it is not.
const CUT: u64 = 4_000 * MS;

/// How long a client thinks at most: so long that the calls on a key go on over several cuts.
const THINK: u64 = 600 * MS;

/// The stages of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Invoke,
    Execute,
    Return,
}

#[derive(Debug, Clone)]
struct Call {
    f: &'static str,
    from: Option<i64>,
    to: Option<i64>,
    end: OpType,
}

/// A history of so many keys, one after the other, with so many calls each. Values are written once; or,
/// if there are only so many, again and again, and there are no cas.
pub(crate) fn lagging(keys: i64, calls: usize, values: Option<u64>, seed: u64) -> History {
    let mut random = Random::new(seed);
    let mut ops = Vec::new();
    for key in 0..keys {
        one(key, calls, values, &mut random, &mut ops);
    }
    ops.sort_by_key(|op| op.time);
    for (index, op) in (0..).zip(&mut ops) {
        op.index = index;
    }
    History::from_ops(Header { keyed: true, ..Header::default() }, &ops)
}

/// Whether a time is in a cut: when the cut began and when it ends.
fn cut(now: u64) -> Option<(u64, u64)> {
    let phase = now % (2 * CUT);
    phase.checked_sub(CUT).map(|since| (now - since, now - since + CUT))
}

fn one(key: i64, calls: usize, values: Option<u64>, random: &mut Random, ops: &mut Vec<Op>) {
    let mut states: Vec<(u64, Option<i64>)> = vec![(0, None)];
    let mut open: Vec<Option<Call>> = vec![None; CLIENTS];
    let mut process: Vec<u32> = (0..CLIENTS as u32).map(|at| key as u32 * 1_000 + at).collect();
    let mut queue = BinaryHeap::new();
    // Shortly before a cut.
    let start = key as u64 * 2 * CUT + CUT - 500 * MS;
    queue
        .extend((0..CLIENTS).map(|client| Reverse((start + client as u64, Stage::Invoke, client))));
    let (mut begun, mut serial) = (0, 0);
    let number = |value: Option<i64>| value.map_or(Value::Nil, Value::Int);
    while let Some(Reverse((now, stage, client))) = queue.pop() {
        let soon = now + MS / 2 + random.below(4 * MS);
        let mut record = |kind, call: &Call, answered: bool| {
            let value = match call.f {
                "read" => number(call.to.filter(|_| answered)),
                "write" => number(call.to),
                _ => Value::List(vec![number(call.from), number(call.to)]),
            };
            let process = Process::Client(process[client]);
            let mut op = Op::new(kind, process, call.f, Value::pair(key, value));
            op.time = now;
            if kind == OpType::Fail {
                op.error = PRECONDITION.into();
            }
            ops.push(op);
        };
        let head = states[states.len() - 1].1;
        match (stage, open[client].take()) {
            (Stage::Invoke, _) if begun < calls => {
                begun += 1;
                serial += 1;
                let last = if values.is_some() { "write" } else { "cas" };
                let f = ["read", "read", "write", last][random.below(4) as usize];
                let value = values.map_or(serial, |values| random.below(values) as i64);
                let to = (f != "read").then_some(value);
                let call = Call { f, from: head, to, end: OpType::Ok };
                record(OpType::Invoke, &call, false);
                open[client] = Some(call);
                let late = cut(now).filter(|_| client == 0 && f != "read");
                let at = late.map_or(soon, |(_, end)| soon.max(end + random.below(9 * MS)));
                queue.push(Reverse((at, Stage::Execute, client)));
            }
            (Stage::Execute, Some(mut call)) => {
                let behind = cut(now).filter(|_| client == 0);
                match call.f {
                    "read" => {
                        let at = behind.map_or(now, |(begin, _)| begin);
                        let known = states.partition_point(|(time, _)| *time <= at);
                        call.to = states[known.max(1) - 1].1;
                    }
                    "cas" if call.from != head => call.end = OpType::Fail,
                    _ => states.push((now, call.to)),
                }
                if call.f != "read" && random.below(100) == 0 {
                    call.end = OpType::Info;
                }
                open[client] = Some(call);
                queue.push(Reverse((soon, Stage::Return, client)));
            }
            (Stage::Return, Some(call)) => {
                record(call.end, &call, true);
                if call.end == OpType::Info {
                    process[client] += CLIENTS as u32;
                }
                queue.push(Reverse((now + random.below(THINK), Stage::Invoke, client)));
            }
            _ => {}
        }
    }
}
