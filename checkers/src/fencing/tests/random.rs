//! Random small histories in which everything goes wrong that can.

use deposed_history::fencing::{
    FencedWrite, Grant, LogEvent, Observation, STALE_TOKEN, Seen, Served, Stamp, Token,
};
use deposed_history::{Header, History, Op, OpType, Process, Value};

use super::script::MS;
use super::simulated::Random;

const RESOURCES: [&str; 2] = ["r", "s"];
const NODES: [&str; 2] = ["n1", "n2"];
const PROCESSES: usize = 3;
const IDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// How often each call and each line of a log comes up.
struct Bias {
    /// Of acquires, renewals, releases, fenced writes, appends and reads.
    calls: [u64; 6],
    /// How many tokens there are.
    tokens: u64,
    /// Of accepted and refused writes, snapshots, grants, ends of grants, and terms of leaders.
    lines: [u64; 5],
}

/// Of everything something, or much of what belongs together.
const BIASES: [Bias; 5] = [
    Bias { calls: [4, 1, 1, 2, 2, 2], tokens: 4, lines: [4, 1, 1, 1, 1] },
    Bias { calls: [3, 4, 2, 1, 0, 0], tokens: 2, lines: [1, 0, 4, 4, 0] },
    Bias { calls: [2, 0, 2, 5, 0, 0], tokens: 2, lines: [0, 0, 1, 1, 0] },
    Bias { calls: [0, 0, 0, 1, 3, 4], tokens: 4, lines: [0, 0, 0, 0, 1] },
    Bias { calls: [2, 1, 1, 4, 0, 3], tokens: 2, lines: [5, 2, 1, 0, 0] },
];

struct Dice {
    random: Random,
    bias: &'static Bias,
    /// The token each process was last given, which it may ask for and use again.
    given: [Option<i64>; PROCESSES],
    /// Token and id of the last fenced write, which may be tried again.
    written: Option<(i64, &'static str)>,
}

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    /// A number, each as often as its weight says.
    fn weighed(&mut self, weights: &[u64]) -> usize {
        let mut roll = self.below(weights.iter().sum());
        let is_it = |&weight: &u64| {
            let is_it = roll < weight;
            roll = roll.saturating_sub(weight);
            is_it
        };
        weights.iter().position(is_it).unwrap()
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn token(&mut self) -> i64 {
        1 + self.below(self.bias.tokens) as i64
    }

    fn resource(&mut self) -> &'static str {
        if self.chance(6) { RESOURCES[1] } else { RESOURCES[0] }
    }

    fn ids(&mut self) -> Vec<&'static str> {
        let mut ids: Vec<&str> = IDS.iter().copied().filter(|_| self.below(3) > 0).collect();
        if self.chance(8) {
            ids.push(self.pick(&IDS));
        }
        ids
    }

    fn seen(&mut self) -> Seen<'static> {
        if self.chance(2) {
            Seen::Every(self.ids())
        } else if self.chance(6) {
            Seen::Last(None)
        } else {
            Seen::Last(Some(self.pick(&IDS)))
        }
    }

    fn served(&mut self, id: Option<&'static str>) -> Served<'static> {
        let (node, epoch) = (self.pick(&NODES), 1 + self.below(3) as i64);
        Served { id, node, epoch, leader: !self.chance(4) }
    }

    fn grant(&mut self, token: i64, now: u64) -> Grant {
        let lease_ms = self.chance(2).then(|| self.below(12));
        let valid_until_ns = self.chance(3).then(|| (now + self.below(14)) * MS);
        Grant { token, lease_ms, valid_until_ns }
    }

    fn stamp(&mut self, end: u64) -> Option<Stamp> {
        let (at_ns, error_ns) = (self.below(end + 2) * MS, self.below(3) * MS);
        (!self.chance(4)).then_some(Stamp { at_ns, error_ns })
    }

    /// What a call asks, and what it answers if it succeeds.
    fn call(&mut self, who: usize, now: u64) -> (&'static str, Value, Value) {
        let again = self.chance(3);
        let fresh = self.token();
        let token = self.given[who].filter(|_| again).unwrap_or(fresh);
        match self.weighed(&self.bias.calls) {
            0 => {
                self.given[who] = Some(token);
                ("acquire", Value::Nil, self.grant(token, now).to_value())
            }
            1 => ("renew", Token(token).to_value(), self.grant(token, now).to_value()),
            2 => ("release", Token(token).to_value(), Token(token).to_value()),
            3 => {
                let again = self.chance(3);
                let fresh = (token, self.pick(&IDS));
                let (token, id) = self.written.filter(|_| again).unwrap_or(fresh);
                self.written = Some((token, id));
                let (token, believed_valid) = ((!self.chance(8)).then_some(token), self.chance(3));
                let write = FencedWrite { token, id, value: Value::Int(1), believed_valid };
                let answer = if self.chance(2) {
                    write.to_value()
                } else {
                    self.served(Some(id)).to_value()
                };
                ("fenced-write", write.to_value(), answer)
            }
            4 => {
                let id = self.pick(&IDS);
                let asked = Value::Map(vec![("id".into(), id.into()), ("value".into(), 1.into())]);
                ("append", asked, self.served(Some(id)).to_value())
            }
            _ => {
                let served = (!self.chance(4)).then(|| self.served(None));
                let read = Observation { seen: self.seen(), served };
                ("read", Value::Nil, read.to_value())
            }
        }
    }

    fn log(&mut self, seq: u64, end: u64) -> LogEvent<'static> {
        let (resource, token, at) = (self.resource(), self.token(), self.stamp(end));
        match self.weighed(&self.bias.lines) {
            0 => LogEvent::Write {
                resource,
                seq,
                token: (!self.chance(8)).then_some(token),
                id: (!self.chance(8)).then(|| self.pick(&IDS)),
                value: Value::Nil,
                accepted: !self.chance(4),
                at,
            },
            1 => LogEvent::Snapshot {
                resource,
                node: None,
                epoch: Some(self.below(2) as i64),
                seen: self.seen(),
                value: Value::Nil,
            },
            2 => LogEvent::Granted { resource, token, at },
            3 => LogEvent::Ended { resource, token, revoked: self.chance(2), at },
            _ => {
                let from_ns = self.below(end + 1) * MS;
                LogEvent::Led {
                    node: self.pick(&NODES),
                    epoch: token,
                    from_ns,
                    to_ns: from_ns + self.below(6) * MS,
                    error_ns: self.below(2) * MS,
                }
            }
        }
    }
}

/// A history of a few calls of three processes at a time, and of a few log events.
pub(crate) fn history(seed: u64) -> History {
    let bias = &BIASES[seed as usize % BIASES.len()];
    let mut dice =
        Dice { random: Random::new(seed), bias, given: [None; PROCESSES], written: None };
    let (calls, logs) = (2 + dice.below(9), dice.below(9));
    let mut ids: Vec<u32> = (0..PROCESSES as u32).collect();
    type Open = (&'static str, &'static str, Value, Value);
    let mut open: Vec<Option<Open>> = vec![None; PROCESSES];
    let (mut ops, mut begun, mut now) = (Vec::<Op>::new(), 0, 0);
    while begun < calls || open.iter().any(Option::is_some) {
        let who = dice.below(PROCESSES as u64) as usize;
        now += dice.below(3);
        let (kind, f, value, error) = match open[who].take() {
            None if begun == calls => continue,
            None => {
                begun += 1;
                let resource = dice.resource();
                let (f, asked, answer) = dice.call(who, now);
                open[who] = Some((f, resource, asked.clone(), answer));
                (OpType::Invoke, f, Value::pair(resource, asked), Value::Nil)
            }
            Some((f, resource, asked, answer)) => match dice.below(10) {
                0 => (OpType::Fail, f, Value::pair(resource, asked), Value::str(STALE_TOKEN)),
                1 => (OpType::Info, f, Value::pair(resource, asked), Value::str("timeout")),
                _ => (OpType::Ok, f, Value::pair(resource, answer), Value::Nil),
            },
        };
        let op = Op::new(kind, Process::Client(ids[who]), f, value);
        ops.push(Op { time: now * MS, error, ..op });
        if kind == OpType::Info {
            ids[who] += PROCESSES as u32;
        }
    }
    for seq in 0..logs {
        // Not in order of their places.
        let event = dice.log((seq * 5) % 9, now);
        ops.push(Op { time: now * MS, ..event.to_op() });
    }
    for (index, op) in (0..).zip(&mut ops) {
        op.index = index;
    }
    History::from_ops(Header::default(), &ops)
}
