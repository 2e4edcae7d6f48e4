//! How fencing, leases and failover stand in a history: what clients ask and are told, and what was
//! collected of others' logs after the run.
//!
//! Calls of clients have `[resource, payload]` as value:
//!
//! | f              | invocation                    | ok                                          |
//! |----------------|-------------------------------|---------------------------------------------|
//! | `acquire`      | nil                           | a [`Grant`]                                 |
//! | `renew`        | a [`Token`]                   | a [`Grant`]                                 |
//! | `release`      | a [`Token`]                   | the same                                    |
//! | `fenced-write` | a [`FencedWrite`]             | the same, or a [`Served`]                   |
//! | `append`       | `{"id", "value"}`             | a [`Served`] with that id                   |
//! | `read`         | nil                           | an [`Observation`]                          |
//!
//! A write that the resource refused for its token is a `fail` with the error [`STALE_TOKEN`].
//!
//! Logs are events of [`Process::Log`], all `info`, each a [`LogEvent`]. They stand behind the
//! run, with the time of their collection; *when* something happened is a [`Stamp`] inside.

mod payloads;

pub use payloads::{Asked, Ids, Line, Payloads, Server, Sighting, Write};

use crate::{Op, OpRef, OpType, Process, Value, ValueRef};

/// The `error` of a write that the resource refused because it knew a newer token.
pub const STALE_TOKEN: &str = "stale-token";

/// A moment of the run's clock, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Nanoseconds since the start of the run: the reading of another clock, converted.
    pub at_ns: u64,
    /// The true moment is at most so far away, before or after.
    pub error_ns: u64,
}

impl Stamp {
    /// It was not earlier than this.
    pub const fn earliest_ns(self) -> u64 {
        self.at_ns.saturating_sub(self.error_ns)
    }

    /// It was not later than this.
    pub const fn latest_ns(self) -> u64 {
        self.at_ns.saturating_add(self.error_ns)
    }
}

/// What an `acquire` or a `renew` got: `{"token": 33, "lease_ms": 10000, "valid_until_ns": …}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The fencing token, greater than all before it.
    pub token: i64,
    /// How long it lasts from when it was granted, by the clock of who granted it; `None`: until it
    /// is released.
    pub lease_ms: Option<u64>,
    /// Until when the client took it for valid, on the run's clock, if it works that out.
    pub valid_until_ns: Option<u64>,
}

/// The argument of a `renew` and a `release`: `{"token": 33}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token(
    /// The token of the grant that is meant.
    pub i64,
);

/// The argument of a `fenced-write`: `{"token": 33, "id": "7-12", "value": 5}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FencedWrite<'a> {
    /// The token it is made under; `None`: the client has none and shows none.
    pub token: Option<i64>,
    /// Different for every write of a run. A write that is tried again keeps its id.
    pub id: &'a str,
    /// What is written.
    pub value: Value,
    /// The client had looked just before, and held its lease for valid.
    pub believed_valid: bool,
}

/// Who served a call, as it said itself: `{"id": …, "node": "n2", "epoch": 5, "role": "leader"}`.
/// It proves that the node acted in that role between invocation and completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served<'a> {
    /// The id of the write, for a write.
    pub id: Option<&'a str>,
    /// The node.
    pub node: &'a str,
    /// The term, the generation or the token it led under; greater for a later leader.
    pub epoch: i64,
    /// Whether it served as a leader; left out for one, `"role": "follower"` for another.
    pub leader: bool,
}

/// What a `read` or a [`LogEvent::Snapshot`] saw of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen<'a> {
    /// The ids of all writes that took effect, in order: `"values": ["7-12", …]`.
    Every(Vec<&'a str>),
    /// The id of the last write that took effect, or nil if none ever did: `"last": "7-12"`.
    Last(Option<&'a str>),
}

/// The result of a `read`: what was seen, and the fields of [`Served`] if the node told them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation<'a> {
    /// What was read.
    pub seen: Seen<'a>,
    /// Who served it.
    pub served: Option<Served<'a>>,
}

/// One line of a log that was collected after the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEvent<'a> {
    /// A resource's own log, `resource-write`: it was asked for a write. Complete for each resource
    /// that has one.
    Write {
        /// The resource.
        resource: &'a str,
        /// Its place in the order of this resource.
        seq: u64,
        /// The token it came with.
        token: Option<i64>,
        /// Its id.
        id: Option<&'a str>,
        /// What was written.
        value: Value,
        /// Whether it took effect, or was refused.
        accepted: bool,
        /// When.
        at: Option<Stamp>,
    },
    /// What a resource (or one copy of it) held when everything had settled, `snapshot`.
    Snapshot {
        /// The resource.
        resource: &'a str,
        /// The copy, if there are several.
        node: Option<&'a str>,
        /// The epoch it is of. Of several snapshots only those of the greatest epoch count.
        epoch: Option<i64>,
        /// The writes in it, in the field `applied` or `last`.
        seen: Seen<'a>,
        /// Its contents.
        value: Value,
    },
    /// The service granted a token or renewed its grant, `granted`. Complete for each token of
    /// which it notes any.
    Granted {
        /// The resource.
        resource: &'a str,
        /// The token.
        token: i64,
        /// When.
        at: Option<Stamp>,
    },
    /// The service took a grant for expired (`expired`) or withdrew it (`revoked`).
    Ended {
        /// The resource.
        resource: &'a str,
        /// The token.
        token: i64,
        /// It was withdrawn before its time.
        revoked: bool,
        /// When.
        at: Option<Stamp>,
    },
    /// A node held itself entitled to act as leader, `led`.
    Led {
        /// The node.
        node: &'a str,
        /// Its epoch.
        epoch: i64,
        /// From when, nanoseconds since the start of the run.
        from_ns: u64,
        /// Until when.
        to_ns: u64,
        /// Both bounds are at most so far off.
        error_ns: u64,
    },
}

/// Collects the pairs of a map.
#[derive(Debug, Default)]
struct Pairs(Vec<(Value, Value)>);

impl Pairs {
    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.push((key.into(), value.into()));
        self
    }

    /// Leaves the pair out if there is no value.
    fn with_any<V: Into<Value>>(self, key: &str, value: Option<V>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    fn with_ns(self, key: &str, ns: u64) -> Self {
        self.with(key, i64::try_from(ns).unwrap_or(i64::MAX))
    }

    fn with_stamp(self, at: Option<Stamp>) -> Self {
        match at {
            Some(at) => self.with_ns("at_ns", at.at_ns).with_ns("error_ns", at.error_ns),
            None => self,
        }
    }

    fn with_seen(self, every: &str, seen: &Seen<'_>) -> Self {
        match seen {
            Seen::Every(ids) => {
                self.with(every, ids.iter().map(|&id| id.into()).collect::<Vec<Value>>())
            }
            Seen::Last(id) => self.with("last", *id),
        }
    }

    fn with_served(self, served: Option<&Served<'_>>) -> Self {
        match served {
            Some(Served { id, node, epoch, leader }) => self
                .with_any("id", *id)
                .with("node", *node)
                .with("epoch", *epoch)
                .with_any("role", (!leader).then_some("follower")),
            None => self,
        }
    }

    fn map(self) -> Value {
        Value::Map(self.0)
    }
}

/// The fields of a map.
#[derive(Clone, Copy)]
struct Fields<'h>(crate::MapRef<'h>);

impl<'h> Fields<'h> {
    fn of(value: ValueRef<'h>) -> Option<Self> {
        value.as_map().map(Self)
    }

    fn int(self, key: &str) -> Option<i64> {
        self.0.get(key)?.as_int()
    }

    fn natural(self, key: &str) -> Option<u64> {
        self.int(key).and_then(|n| u64::try_from(n).ok())
    }

    fn text(self, key: &str) -> Option<&'h str> {
        self.0.get(key)?.as_str()
    }

    fn value(self, key: &str) -> Value {
        self.0.get(key).map_or(Value::Nil, ValueRef::to_value)
    }

    fn is_true(self, key: &str) -> bool {
        matches!(self.0.get(key), Some(ValueRef::Bool(true)))
    }

    fn stamp(self) -> Option<Stamp> {
        let at_ns = self.natural("at_ns")?;
        Some(Stamp { at_ns, error_ns: self.natural("error_ns").unwrap_or(0) })
    }

    fn seen(self, every: &str) -> Option<Seen<'h>> {
        if let Some(ids) = self.0.get(every).and_then(ValueRef::as_list) {
            return ids.iter().map(ValueRef::as_str).collect::<Option<_>>().map(Seen::Every);
        }
        match self.0.get("last")? {
            ValueRef::Nil => Some(Seen::Last(None)),
            id => id.as_str().map(|id| Seen::Last(Some(id))),
        }
    }
}

impl Grant {
    /// As it stands in a value.
    pub fn to_value(&self) -> Value {
        let pairs = Pairs::default().with("token", self.token);
        let pairs = pairs.with_any("lease_ms", self.lease_ms.map(|ms| ms as i64));
        match self.valid_until_ns {
            Some(ns) => pairs.with_ns("valid_until_ns", ns).map(),
            None => pairs.map(),
        }
    }

    /// Reads it back; `None` if it is not in this shape.
    pub fn parse(value: ValueRef<'_>) -> Option<Self> {
        let fields = Fields::of(value)?;
        Some(Self {
            token: fields.int("token")?,
            lease_ms: fields.natural("lease_ms"),
            valid_until_ns: fields.natural("valid_until_ns"),
        })
    }
}

impl Token {
    /// As it stands in a value.
    pub fn to_value(self) -> Value {
        Pairs::default().with("token", self.0).map()
    }

    /// Reads it back; `None` if it is not in this shape.
    pub fn parse(value: ValueRef<'_>) -> Option<Self> {
        Fields::of(value)?.int("token").map(Self)
    }
}

impl<'h> FencedWrite<'h> {
    /// As it stands in a value.
    pub fn to_value(&self) -> Value {
        Pairs::default()
            .with("token", self.token)
            .with("id", self.id)
            .with("value", self.value.clone())
            .with_any("believed_valid", self.believed_valid.then_some(true))
            .map()
    }

    /// Reads it back; `None` if it is not in this shape.
    pub fn parse(value: ValueRef<'h>) -> Option<Self> {
        let fields = Fields::of(value)?;
        Some(Self {
            token: fields.int("token"),
            id: fields.text("id")?,
            value: fields.value("value"),
            believed_valid: fields.is_true("believed_valid"),
        })
    }
}

impl<'h> Served<'h> {
    /// As it stands in a value.
    pub fn to_value(&self) -> Value {
        Pairs::default().with_served(Some(self)).map()
    }

    /// Reads it back; `None` if it is not in this shape.
    pub fn parse(value: ValueRef<'h>) -> Option<Self> {
        let fields = Fields::of(value)?;
        Some(Self {
            id: fields.text("id"),
            node: fields.text("node")?,
            epoch: fields.int("epoch")?,
            leader: fields.text("role").is_none_or(|role| role == "leader"),
        })
    }
}

impl<'h> Observation<'h> {
    /// As it stands in a value.
    pub fn to_value(&self) -> Value {
        let pairs = Pairs::default().with_seen("values", &self.seen);
        pairs.with_served(self.served.as_ref()).map()
    }

    /// Reads it back; `None` if it is not in this shape.
    pub fn parse(value: ValueRef<'h>) -> Option<Self> {
        let seen = Fields::of(value)?.seen("values")?;
        Some(Self { seen, served: Served::parse(value) })
    }
}

impl<'h> LogEvent<'h> {
    /// The op that records it.
    pub fn to_op(&self) -> Op {
        let pairs = Pairs::default();
        let (f, pairs) = match self {
            Self::Write { resource, seq, token, id, value, accepted, at } => (
                "resource-write",
                pairs
                    .with("resource", *resource)
                    .with("seq", *seq as i64)
                    .with("token", *token)
                    .with("id", *id)
                    .with("value", value.clone())
                    .with("accepted", *accepted)
                    .with_stamp(*at),
            ),
            Self::Snapshot { resource, node, epoch, seen, value } => (
                "snapshot",
                pairs
                    .with("resource", *resource)
                    .with_any("node", *node)
                    .with_any("epoch", *epoch)
                    .with_seen("applied", seen)
                    .with("value", value.clone()),
            ),
            Self::Granted { resource, token, at } => {
                ("granted", pairs.with("resource", *resource).with("token", *token).with_stamp(*at))
            }
            Self::Ended { resource, token, revoked, at } => (
                if *revoked { "revoked" } else { "expired" },
                pairs.with("resource", *resource).with("token", *token).with_stamp(*at),
            ),
            Self::Led { node, epoch, from_ns, to_ns, error_ns } => (
                "led",
                pairs
                    .with("node", *node)
                    .with("epoch", *epoch)
                    .with_ns("from_ns", *from_ns)
                    .with_ns("to_ns", *to_ns)
                    .with_ns("error_ns", *error_ns),
            ),
        };
        Op::new(OpType::Info, Process::Log, f, pairs.map())
    }

    /// Reads it back; `None` if it is no event of a log, or not in this shape.
    pub fn parse(op: OpRef<'h>) -> Option<Self> {
        if op.process() != Process::Log {
            return None;
        }
        let fields = Fields::of(op.value())?;
        Some(match op.f() {
            "resource-write" => Self::Write {
                resource: fields.text("resource")?,
                seq: fields.natural("seq")?,
                token: fields.int("token"),
                id: fields.text("id"),
                value: fields.value("value"),
                accepted: match fields.0.get("accepted")? {
                    ValueRef::Bool(accepted) => accepted,
                    _ => return None,
                },
                at: fields.stamp(),
            },
            "snapshot" => Self::Snapshot {
                resource: fields.text("resource")?,
                node: fields.text("node"),
                epoch: fields.int("epoch"),
                seen: fields.seen("applied")?,
                value: fields.value("value"),
            },
            "granted" => Self::Granted {
                resource: fields.text("resource")?,
                token: fields.int("token")?,
                at: fields.stamp(),
            },
            f @ ("expired" | "revoked") => Self::Ended {
                resource: fields.text("resource")?,
                token: fields.int("token")?,
                revoked: f == "revoked",
                at: fields.stamp(),
            },
            "led" => Self::Led {
                node: fields.text("node")?,
                epoch: fields.int("epoch")?,
                from_ns: fields.natural("from_ns")?,
                to_ns: fields.natural("to_ns")?,
                error_ns: fields.natural("error_ns").unwrap_or(0),
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Header, History, jsonl, read_str};

    pub(super) fn events() -> Vec<LogEvent<'static>> {
        let at = Some(Stamp { at_ns: 5_000, error_ns: 20 });
        vec![
            LogEvent::Write {
                resource: "volume",
                seq: 1,
                token: Some(33),
                id: Some("7-12"),
                value: Value::Int(5),
                accepted: true,
                at,
            },
            LogEvent::Write {
                resource: "mail",
                seq: 2,
                token: None,
                id: None,
                value: Value::Nil,
                accepted: false,
                at: None,
            },
            LogEvent::Snapshot {
                resource: "volume",
                node: Some("n1"),
                epoch: Some(6),
                seen: Seen::Every(vec!["7-12", "7-13"]),
                value: Value::Int(5),
            },
            LogEvent::Snapshot {
                resource: "volume",
                node: None,
                epoch: None,
                seen: Seen::Last(None),
                value: Value::Nil,
            },
            LogEvent::Granted { resource: "volume", token: 33, at },
            LogEvent::Ended { resource: "volume", token: 33, revoked: false, at },
            LogEvent::Ended { resource: "volume", token: 33, revoked: true, at: None },
            LogEvent::Led { node: "n1", epoch: 5, from_ns: 0, to_ns: 40, error_ns: 2 },
        ]
    }

    /// What was collected is read back unchanged, also from a file.
    #[test]
    fn log_events_survive_a_history_and_a_file() {
        let events = events();
        let ops = (0..).zip(&events).map(|(index, event)| Op { index, ..event.to_op() });
        let ops: Vec<Op> = ops.collect();
        let history = History::from_ops(Header::default(), &ops);
        let read: Vec<LogEvent<'_>> = history.ops().filter_map(LogEvent::parse).collect();
        assert_eq!(read, events);
        assert!(history.calls().is_empty());

        let mut bytes = Vec::new();
        jsonl::write(&mut bytes, &history).unwrap();
        let loaded = read_str(std::str::from_utf8(&bytes).unwrap()).unwrap();
        let read: Vec<LogEvent<'_>> = loaded.history.ops().filter_map(LogEvent::parse).collect();
        assert_eq!(read, events);
    }

    /// One of each kind that clients have: grants, tokens, writes, who served, what was read.
    pub(super) fn payloads() -> Vec<Value> {
        let (grants, write, bare, leader, reads) = samples();
        let mut values: Vec<Value> = grants.iter().map(Grant::to_value).collect();
        values.extend([Token(33).to_value(), write.to_value(), bare.to_value(), leader.to_value()]);
        values.extend(reads.iter().map(Observation::to_value));
        values
    }

    type Samples = (
        [Grant; 2],
        FencedWrite<'static>,
        FencedWrite<'static>,
        Served<'static>,
        [Observation<'static>; 2],
    );

    fn samples() -> Samples {
        let grants = [
            Grant { token: 33, lease_ms: Some(10_000), valid_until_ns: Some(7) },
            Grant { token: 34, lease_ms: None, valid_until_ns: None },
        ];
        let write =
            FencedWrite { token: Some(33), id: "a", value: Value::Int(1), believed_valid: true };
        let bare = FencedWrite { token: None, believed_valid: false, ..write.clone() };
        let leader = Served { id: Some("a"), node: "n2", epoch: 5, leader: true };
        let follower = Served { id: None, leader: false, ..leader };
        let reads = [
            Observation { seen: Seen::Every(vec!["a", "b"]), served: Some(follower) },
            Observation { seen: Seen::Last(Some("b")), served: None },
        ];
        (grants, write, bare, leader, reads)
    }

    /// Payloads of clients are read back unchanged.
    #[test]
    fn payloads_survive_a_history() {
        let (grants, write, bare, leader, reads) = samples();
        let op = |value| Op::new(OpType::Invoke, Process::Client(0), "x", value);
        let ops: Vec<Op> = payloads().into_iter().map(op).collect();
        let history = History::from_ops(Header::default(), &ops);
        let value = |at| history.op(at).value();
        assert_eq!([0, 1].map(|at| Grant::parse(value(at))), grants.map(Some));
        assert_eq!(Token::parse(value(2)), Some(Token(33)));
        assert_eq!(FencedWrite::parse(value(3)), Some(write));
        assert_eq!(FencedWrite::parse(value(4)), Some(bare));
        assert_eq!(Served::parse(value(5)), Some(leader));
        assert_eq!([6, 7].map(|at| Observation::parse(value(at))), reads.map(Some));
    }

    /// What is in another shape, or by another process, is not taken for one of ours.
    #[test]
    fn other_events_are_no_log_events() {
        let mut ops: Vec<Op> = events().iter().map(LogEvent::to_op).collect();
        for op in &mut ops {
            op.process = Process::Nemesis;
        }
        ops.push(Op::new(OpType::Info, Process::Log, "led", Value::Map(vec![])));
        ops.push(Op::new(OpType::Info, Process::Log, "rained", Value::Map(vec![])));
        ops.push(Op::new(OpType::Info, Process::Log, "granted", Value::Nil));
        let history = History::from_ops(Header::default(), &ops);
        assert_eq!(history.ops().filter_map(LogEvent::parse).count(), 0);
    }
}
