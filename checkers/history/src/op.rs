//! One event of a history: an invocation or a completion.

use std::fmt;
use std::sync::Arc;

use crate::Value;

/// What kind of event an [`Op`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpType {
    /// A process is about to perform an operation.
    Invoke,
    /// The operation happened, between its invocation and now.
    Ok,
    /// The operation certainly did not happen, and never will.
    Fail,
    /// Nobody knows: it may take effect once, at any time after its invocation, or never.
    Info,
}

impl OpType {
    /// The word used in every format: `invoke`, `ok`, `fail`, `info`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invoke => "invoke",
            Self::Ok => "ok",
            Self::Fail => "fail",
            Self::Info => "info",
        }
    }

    /// The inverse of [`OpType::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "invoke" => Self::Invoke,
            "ok" => Self::Ok,
            "fail" => Self::Fail,
            "info" => Self::Info,
            _ => return None,
        })
    }
}

impl fmt::Display for OpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who performs operations, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Process {
    /// A logical client. After an indeterminate completion it is never used again: its worker
    /// goes on under `id + concurrency`.
    Client(u32),
    /// The one that injects faults. Its ops are kept in the history and never judged.
    Nemesis,
    /// Whoever collects logs after the run: its ops tell what others had noted while it went on, in
    /// the shape of a [`LogEvent`](crate::LogEvent). They are no calls.
    Log,
}

impl Process {
    /// The client's number, if it is one.
    pub const fn client(self) -> Option<u32> {
        match self {
            Self::Client(id) => Some(id),
            Self::Nemesis | Self::Log => None,
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(id) => write!(f, "{id}"),
            Self::Nemesis => f.write_str("nemesis"),
            Self::Log => f.write_str("log"),
        }
    }
}

/// One event, owned: what the run loop records and what readers and writers exchange.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    /// Position in the history it was recorded in, from 0.
    pub index: u64,
    /// Nanoseconds of the controller's monotonic clock since the start of the run. Stamped by the
    /// worker just before (invocation) or just after (completion) the client call.
    pub time: u64,
    /// Wall clock, nanoseconds since the Unix epoch, to lay the op beside node logs. Never
    /// compared by a checker.
    pub wall: Option<i64>,
    /// Invocation or completion.
    pub kind: OpType,
    /// Who.
    pub process: Process,
    /// Which function: `read`, `write`, `cas`, ...
    pub f: Arc<str>,
    /// Its argument (invocation) or its argument and result (completion).
    pub value: Value,
    /// Why it failed or is indeterminate; `Nil` if there is nothing to say.
    ///
    /// A `fail` with the error `"precondition"` is more than a failure: the store evaluated the
    /// comparison between invocation and completion and found it false, so a checker may use it
    /// as an observation.
    pub error: Value,
    /// The node the client was talking to.
    pub node: Option<Arc<str>>,
}

/// The `error` of a `fail` whose comparison was evaluated and found false.
pub const PRECONDITION: &str = "precondition";

impl Op {
    /// An event with nothing but what every event has; index, time and the rest are filled in later.
    pub fn new(kind: OpType, process: Process, f: &str, value: Value) -> Self {
        Self {
            index: 0,
            time: 0,
            wall: None,
            kind,
            process,
            f: f.into(),
            value,
            error: Value::Nil,
            node: None,
        }
    }
}
