//! Random small histories in which everything goes wrong that can.

use deposed_history::fencing::{
    FencedWrite, Grant, LogEvent, Observation, STALE_TOKEN, Seen, Served, Stamp, Token,
};
use deposed_history::{Header, History, Op, OpType, Process, Value};

use crate::script::MS;
use crate::simulated::Random;

const RESOURCES: [&str; 2] = ["r", "s"];
const NODES: [&str; 2] = ["n1", "n2"];
const IDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const TOKENS: u64 = 4;

struct Dice(Random);

impl Dice {
    fn chance(&mut self, one_in: u64) -> bool {
        self.0.below(one_in) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.below(of.len() as u64) as usize]
    }

    fn token(&mut self) -> i64 {
        1 + self.0.below(TOKENS) as i64
    }

    fn resource(&mut self) -> &'static str {
        if self.chance(6) { RESOURCES[1] } else { RESOURCES[0] }
    }

    fn ids(&mut self) -> Vec<&'static str> {
        let mut ids: Vec<&str> = IDS.iter().copied().filter(|_| self.0.below(3) > 0).collect();
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
        let (node, epoch) = (self.pick(&NODES), 1 + self.0.below(3) as i64);
        Served { id, node, epoch, leader: !self.chance(4) }
    }

    fn grant(&mut self, token: i64, now: u64) -> Grant {
        let lease_ms = self.chance(2).then(|| self.0.below(12));
        let valid_until_ns = self.chance(3).then(|| (now + self.0.below(14)) * MS);
        Grant { token, lease_ms, valid_until_ns }
    }

    fn stamp(&mut self, end: u64) -> Option<Stamp> {
        let (at_ns, error_ns) = (self.0.below(end + 2) * MS, self.0.below(3) * MS);
        (!self.chance(4)).then_some(Stamp { at_ns, error_ns })
    }

    /// What a call asks, and what it answers if it succeeds.
    fn call(&mut self, now: u64) -> (&'static str, Value, Value) {
        let token = self.token();
        match self.0.below(12) {
            0..4 => ("acquire", Value::Nil, self.grant(token, now).to_value()),
            4 => ("renew", Token(token).to_value(), self.grant(token, now).to_value()),
            5 => ("release", Token(token).to_value(), Token(token).to_value()),
            6 | 7 => {
                let token = (!self.chance(8)).then_some(token);
                let (id, believed_valid) = (self.pick(&IDS), self.chance(3));
                let write = FencedWrite { token, id, value: Value::Int(1), believed_valid };
                let answer = if self.chance(2) {
                    write.to_value()
                } else {
                    self.served(Some(id)).to_value()
                };
                ("fenced-write", write.to_value(), answer)
            }
            8 | 9 => {
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
        match self.0.below(8) {
            0..4 => LogEvent::Write {
                resource,
                seq,
                token: (!self.chance(8)).then_some(token),
                id: (!self.chance(8)).then(|| self.pick(&IDS)),
                value: Value::Nil,
                accepted: !self.chance(4),
                at,
            },
            4 => LogEvent::Snapshot {
                resource,
                node: None,
                epoch: Some(self.0.below(2) as i64),
                seen: self.seen(),
                value: Value::Nil,
            },
            5 => LogEvent::Granted { resource, token, at },
            6 => LogEvent::Ended { resource, token, revoked: self.chance(2), at },
            _ => {
                let from_ns = self.0.below(end + 1) * MS;
                LogEvent::Led {
                    node: self.pick(&NODES),
                    epoch: token,
                    from_ns,
                    to_ns: from_ns + self.0.below(6) * MS,
                    error_ns: self.0.below(2) * MS,
                }
            }
        }
    }
}

/// A history of a few calls of three processes at a time, and of a few log events.
pub(crate) fn history(seed: u64) -> History {
    let mut dice = Dice(Random::new(seed));
    let (calls, logs) = (2 + dice.0.below(9), dice.0.below(9));
    let processes = 3;
    let mut ids: Vec<u32> = (0..processes).collect();
    type Open = (&'static str, &'static str, Value, Value);
    let mut open: Vec<Option<Open>> = vec![None; processes as usize];
    let (mut ops, mut begun, mut now) = (Vec::<Op>::new(), 0, 0);
    while begun < calls || open.iter().any(Option::is_some) {
        let who = dice.0.below(u64::from(processes)) as usize;
        now += dice.0.below(3);
        let (kind, f, value, error) = match open[who].take() {
            None if begun == calls => continue,
            None => {
                begun += 1;
                let resource = dice.resource();
                let (f, asked, answer) = dice.call(now);
                open[who] = Some((f, resource, asked.clone(), answer));
                (OpType::Invoke, f, Value::pair(resource, asked), Value::Nil)
            }
            Some((f, resource, asked, answer)) => match dice.0.below(10) {
                0 => (OpType::Fail, f, Value::pair(resource, asked), Value::str(STALE_TOKEN)),
                1 => (OpType::Info, f, Value::pair(resource, asked), Value::str("timeout")),
                _ => (OpType::Ok, f, Value::pair(resource, answer), Value::Nil),
            },
        };
        let op = Op::new(kind, Process::Client(ids[who]), f, value);
        ops.push(Op { time: now * MS, error, ..op });
        if kind == OpType::Info {
            ids[who] += processes;
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
