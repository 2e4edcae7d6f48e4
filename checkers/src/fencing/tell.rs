//! Tells an anomaly in sentences.

use deposed_history::fencing::LogEvent;
use deposed_history::{History, Outcome, Process, ValueRef};

use crate::{Anomaly, Edge, EdgeKind};

/// An anomaly that is being told.
pub(super) struct Story<'h> {
    history: &'h History,
    anomaly: Anomaly,
}

impl<'h> Story<'h> {
    /// Begins with its witnesses: positions of invocations or of events of logs.
    pub(super) fn of(
        history: &'h History,
        name: &str,
        resource: Option<&str>,
        witness: &[u32],
        summary: String,
    ) -> Self {
        let mut witness = witness.to_vec();
        witness.sort_unstable();
        witness.dedup();
        let sentences =
            witness.iter().map(|&at| format!("{}.", capital(&about(history, at)))).collect();
        let key = resource.map(Into::into);
        let anomaly =
            Anomaly { name: name.into(), key, summary, sentences, witness, edges: Vec::new() };
        Self { history, anomaly }
    }

    /// Adds a sentence.
    pub(super) fn say(mut self, sentence: String) -> Self {
        self.anomaly.sentences.push(sentence);
        self
    }

    /// Adds a step: `from` has to come before `to`.
    pub(super) fn step(mut self, from: u32, to: u32, kind: EdgeKind, because: String) -> Self {
        self.anomaly.edges.push(Edge { from, to, kind, because });
        self
    }

    /// Adds the step that one call had returned before another was invoked.
    pub(super) fn real_time(self, from: u32, to: u32) -> Self {
        let (a, b) = (short(self.history, from), short(self.history, to));
        self.step(from, to, EdgeKind::RealTime, format!("{a} had returned before {b} was invoked"))
    }

    /// Ends.
    pub(super) fn end(self) -> Anomaly {
        self.anomaly
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Seconds with as many digits as are needed to tell milliseconds apart.
pub(super) fn seconds(ns: u64) -> String {
    format!("{}.{:03} s", ns / 1_000_000_000, ns / 1_000_000 % 1000)
}

/// A length of time.
pub(super) fn length(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// The payload of a call: what was answered, or else what was asked.
fn payload(history: &History, position: u32) -> (ValueRef<'_>, Option<Outcome>, Option<u32>) {
    let calls = history.calls();
    let call = calls.binary_search_by_key(&position, |call| call.invoke).ok().map(|at| calls[at]);
    let asked = history.op(position).pair().map_or(ValueRef::Nil, |(_, asked)| asked);
    let complete = call.and_then(|call| call.complete());
    let answered = complete.and_then(|at| history.op(at).pair()).map(|(_, answered)| answered);
    let value = answered.filter(|answered| !answered.is_nil()).unwrap_or(asked);
    (value, call.map(|call| call.outcome()), complete)
}

/// `process 3's acquire (op 12)`, `line 7 of volume's log`.
pub(super) fn short(history: &History, position: u32) -> String {
    let op = history.op(position);
    match (op.process(), LogEvent::parse(op)) {
        (_, Some(LogEvent::Write { resource, seq, .. })) => {
            format!("line {seq} of {resource}'s log")
        }
        (Process::Log, _) => format!("the {} in op {}", op.f(), op.index()),
        (process, _) => format!("process {process}'s {} (op {})", op.f(), op.index()),
    }
}

/// What an event is, with all that matters of it.
fn about(history: &History, position: u32) -> String {
    let op = history.op(position);
    match LogEvent::parse(op) {
        Some(LogEvent::Write { resource, seq, token, id, accepted, at, .. }) => format!(
            "line {seq} of {resource}'s log{}: write {} under {} was {}",
            at.map_or_else(String::new, |at| format!(" (at {})", seconds(at.at_ns))),
            id.unwrap_or("without an id"),
            token.map_or_else(|| "no token".into(), |token| format!("token {token}")),
            if accepted { "accepted" } else { "refused" },
        ),
        Some(LogEvent::Snapshot { resource, node, epoch, .. }) => format!(
            "the snapshot of {resource}{}{} when all had settled",
            node.map_or_else(String::new, |node| format!(" on {node}")),
            epoch.map_or_else(String::new, |epoch| format!(" in epoch {epoch}")),
        ),
        Some(LogEvent::Granted { resource, token, .. }) => {
            format!("the service granted token {token} of {resource}")
        }
        Some(LogEvent::Ended { resource, token, revoked, at }) => format!(
            "the service {} token {token} of {resource}{}",
            if revoked { "revoked" } else { "let expire" },
            at.map_or_else(String::new, |at| format!(" at {}", seconds(at.at_ns))),
        ),
        Some(LogEvent::Led { node, epoch, from_ns, to_ns, error_ns }) => format!(
            "{node} led in epoch {epoch} from {} to {} (both within {})",
            seconds(from_ns),
            seconds(to_ns),
            length(error_ns)
        ),
        None => call(history, position),
    }
}

fn call(history: &History, position: u32) -> String {
    let op = history.op(position);
    let (value, outcome, complete) = payload(history, position);
    let map = value.as_map();
    let mut told = Vec::new();
    let fields = [("token", "token"), ("id", "id"), ("node", "by"), ("epoch", "in epoch")];
    for (field, word) in fields {
        if let Some(value) = map.and_then(|map| map.get(field)).filter(|value| !value.is_nil()) {
            told.push(format!("{word} {}", value.as_str().map_or(value.to_string(), Into::into)));
        }
    }
    if let Some(ms) = map.and_then(|map| map.get("lease_ms")).and_then(ValueRef::as_int) {
        told.push(format!("for {}", length((ms as u64).saturating_mul(1_000_000))));
    }
    let end = match outcome {
        Some(Outcome::Ok) => "ok",
        Some(Outcome::Fail) => "failed",
        _ => "outcome unknown",
    };
    let (from, times) = (op.index(), seconds(op.time()));
    let span = complete.map_or_else(
        || format!("op {from}, from {times}"),
        |at| {
            let op = history.op(at);
            format!("ops {from} to {}, {times} to {}", op.index(), seconds(op.time()))
        },
    );
    let told = if told.is_empty() { String::new() } else { format!(": {}", told.join(", ")) };
    format!("process {}'s {}{told}, {end} ({span})", op.process(), op.f())
}
