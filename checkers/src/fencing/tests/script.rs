//! Writes small histories down in a readable way. Times are milliseconds.

use crate::{Analysis, Budget, Checker, Claims, Fencing};
use deposed_history::fencing::{
    FencedWrite, Grant, LogEvent, Observation, STALE_TOKEN, Seen, Served, Stamp, Token,
};
use deposed_history::{Header, History, Op, OpType, Process, Value};

pub(crate) const R: &str = "r";

pub(crate) const MS: u64 = 1_000_000;

/// A history that is being written.
#[derive(Default)]
pub(crate) struct Script {
    events: Vec<Op>,
    logs: Vec<Op>,
}

/// A moment that is known exactly.
pub(crate) fn at(ms: u64) -> Option<Stamp> {
    Some(Stamp { at_ns: ms * MS, error_ns: 0 })
}

pub(crate) fn lease(token: i64, lease_ms: u64) -> Grant {
    Grant { token, lease_ms: Some(lease_ms), valid_until_ns: None }
}

pub(crate) fn lock(token: i64) -> Grant {
    Grant { token, lease_ms: None, valid_until_ns: None }
}

pub(crate) fn leader(node: &'static str, epoch: i64) -> Served<'static> {
    Served { id: None, node, epoch, leader: true }
}

impl Script {
    /// A call of a process, from and to, that ends in some way.
    pub(crate) fn call(
        mut self,
        process: u32,
        times: (u64, u64),
        f: &str,
        kind: OpType,
        asked: Value,
        answered: Value,
    ) -> Self {
        for (time, kind, value) in [(times.0, OpType::Invoke, asked), (times.1, kind, answered)] {
            let error = if kind == OpType::Fail { Value::str(STALE_TOKEN) } else { Value::Nil };
            let op = Op::new(kind, Process::Client(process), f, Value::pair(R, value));
            self.events.push(Op { time: time * MS, error, ..op });
        }
        self
    }

    pub(crate) fn acquire(self, process: u32, times: (u64, u64), grant: Grant) -> Self {
        self.call(process, times, "acquire", OpType::Ok, Value::Nil, grant.to_value())
    }

    /// An acquire of unknown outcome.
    pub(crate) fn lost_acquire(self, process: u32, times: (u64, u64)) -> Self {
        self.call(process, times, "acquire", OpType::Info, Value::Nil, Value::Nil)
    }

    pub(crate) fn renew(self, process: u32, times: (u64, u64), grant: Grant) -> Self {
        let asked = Token(grant.token).to_value();
        self.call(process, times, "renew", OpType::Ok, asked, grant.to_value())
    }

    pub(crate) fn release(self, process: u32, times: (u64, u64), token: i64, kind: OpType) -> Self {
        let value = Token(token).to_value();
        self.call(process, times, "release", kind, value.clone(), value)
    }

    pub(crate) fn write(
        self,
        process: u32,
        times: (u64, u64),
        token: i64,
        id: &str,
        kind: OpType,
    ) -> Self {
        let write =
            FencedWrite { token: Some(token), id, value: Value::Int(1), believed_valid: false };
        self.call(process, times, "fenced-write", kind, write.to_value(), write.to_value())
    }

    /// A write whose client had just looked at its lease.
    pub(crate) fn trusting_write(self, process: u32, times: (u64, u64), token: i64) -> Self {
        let write =
            FencedWrite { token: Some(token), id: "w", value: Value::Int(1), believed_valid: true };
        self.call(process, times, "fenced-write", OpType::Ok, write.to_value(), write.to_value())
    }

    pub(crate) fn append(
        self,
        process: u32,
        times: (u64, u64),
        id: &str,
        served: Served<'static>,
    ) -> Self {
        let asked = Value::Map(vec![("id".into(), id.into()), ("value".into(), 1.into())]);
        let served = Served { id: Some(id), ..served };
        self.call(process, times, "append", OpType::Ok, asked, served.to_value())
    }

    pub(crate) fn read(
        self,
        process: u32,
        times: (u64, u64),
        seen: Seen<'_>,
        served: Option<Served<'static>>,
    ) -> Self {
        let value = Observation { seen, served }.to_value();
        self.call(process, times, "read", OpType::Ok, Value::Nil, value)
    }

    pub(crate) fn log(mut self, event: &LogEvent<'_>) -> Self {
        self.logs.push(event.to_op());
        self
    }

    /// A line of the resource's log.
    pub(crate) fn line(self, ms: u64, seq: u64, token: i64, id: &str, accepted: bool) -> Self {
        self.log(&LogEvent::Write {
            resource: R,
            seq,
            token: Some(token),
            id: Some(id),
            value: Value::Int(1),
            accepted,
            at: at(ms),
        })
    }

    pub(crate) fn snapshot(self, epoch: i64, seen: Seen<'_>) -> Self {
        let epoch = Some(epoch);
        self.log(&LogEvent::Snapshot { resource: R, node: None, epoch, seen, value: Value::Nil })
    }

    pub(crate) fn history(mut self) -> History {
        self.events.sort_by_key(|op| op.time);
        let end = self.events.last().map_or(0, |op| op.time);
        self.events.extend(self.logs.into_iter().map(|op| Op { time: end, ..op }));
        for (index, op) in (0..).zip(&mut self.events) {
            op.index = index;
        }
        History::from_ops(Header::default(), &self.events)
    }

    pub(crate) fn check(self, claims: Claims) -> Analysis {
        Fencing { claims }.check(&self.history(), &Budget::unlimited())
    }
}

/// The names of the violations, each once, in order of the alphabet.
pub(crate) fn names(analysis: &Analysis) -> Vec<&str> {
    let mut names: Vec<&str> = analysis.anomalies.iter().map(|a| a.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The names of the exposures.
pub(crate) fn exposures(analysis: &Analysis) -> Vec<&str> {
    analysis.details["exposures"].as_object().unwrap().keys().map(String::as_str).collect()
}
