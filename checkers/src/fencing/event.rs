//! An event of a raw history, read anew for each question: what a witness is checked against.

use deposed_history::fencing::{FencedWrite, Grant, LogEvent, Observation, Seen, Served, Token};
use deposed_history::{Call, History, Outcome, Process, ValueRef};

/// An event, or a call with its completion.
#[derive(Debug, Clone)]
pub(super) struct Event<'h> {
    history: &'h History,
    pub(super) position: u32,
    pub(super) f: &'h str,
    pub(super) resource: Option<&'h str>,
    pub(super) call: Option<Call>,
    pub(super) log: Option<LogEvent<'h>>,
}

impl<'h> Event<'h> {
    pub(super) fn asked(&self) -> Option<ValueRef<'h>> {
        self.history.op(self.position).pair().map(|(_, asked)| asked)
    }

    pub(super) fn answered(&self) -> Option<ValueRef<'h>> {
        let call = self.call.filter(|call| call.outcome() == Outcome::Ok)?;
        self.history.op(call.complete()?).pair().map(|(_, answered)| answered)
    }

    pub(super) fn outcome(&self) -> Option<Outcome> {
        self.call.map(|call| call.outcome())
    }

    /// It succeeded, was accepted, or was noted.
    pub(super) fn happened(&self) -> bool {
        match &self.log {
            Some(LogEvent::Write { accepted, .. }) => *accepted,
            Some(_) => true,
            None => self.outcome() == Some(Outcome::Ok),
        }
    }

    pub(super) fn process(&self) -> Process {
        self.history.op(self.position).process()
    }

    pub(super) fn grant(&self) -> Option<Grant> {
        matches!(self.f, "acquire" | "renew").then(|| self.answered().and_then(Grant::parse))?
    }

    pub(super) fn token(&self) -> Option<i64> {
        match (&self.log, self.f) {
            (Some(LogEvent::Write { token, .. }), _) => *token,
            (Some(LogEvent::Granted { token, .. } | LogEvent::Ended { token, .. }), _) => {
                Some(*token)
            }
            (_, "acquire") => self.grant().map(|grant| grant.token),
            (_, "renew" | "release") => Token::parse(self.asked()?).map(|token| token.0),
            (_, "fenced-write") => FencedWrite::parse(self.asked()?)?.token,
            _ => None,
        }
    }

    pub(super) fn served(&self) -> Option<Served<'h>> {
        self.answered().and_then(Served::parse).filter(|served| served.leader)
    }

    pub(super) fn id(&self) -> Option<&'h str> {
        match (&self.log, self.f) {
            (Some(LogEvent::Write { id, .. }), _) => *id,
            (_, "fenced-write" | "append") => FencedWrite::parse(self.asked()?).map(|w| w.id),
            _ => None,
        }
    }

    pub(super) fn seen(&self) -> Option<Seen<'h>> {
        match (&self.log, self.f) {
            (Some(LogEvent::Snapshot { seen, .. }), _) => Some(seen.clone()),
            (_, "read") => Observation::parse(self.answered()?).map(|read| read.seen),
            _ => None,
        }
    }

    pub(super) fn begin_ns(&self) -> u64 {
        self.history.op(self.position).time()
    }

    pub(super) fn end_ns(&self) -> u64 {
        let complete = self.call.filter(|call| call.outcome() != Outcome::Info);
        complete
            .and_then(|call| call.complete())
            .map_or(u64::MAX, |complete| self.history.op(complete).time())
    }

    /// Position of the completion, if it is certain.
    pub(super) fn complete(&self) -> Option<u32> {
        self.call.filter(|call| call.outcome() != Outcome::Info)?.complete()
    }
}

/// The event at a position: its first look, without anything that is found out later.
pub(super) fn event(history: &History, position: u32) -> Option<Event<'_>> {
    if position as usize >= history.len() {
        return None;
    }
    let op = history.op(position);
    let log = LogEvent::parse(op);
    let calls = history.calls();
    let call = calls.binary_search_by_key(&position, |call| call.invoke).ok().map(|at| calls[at]);
    let resource = match &log {
        Some(
            LogEvent::Write { resource, .. }
            | LogEvent::Snapshot { resource, .. }
            | LogEvent::Granted { resource, .. }
            | LogEvent::Ended { resource, .. },
        ) => Some(*resource),
        Some(LogEvent::Led { .. }) => None,
        None => op.pair().and_then(|(resource, _)| resource.as_str()),
    };
    let f = op.f();
    (log.is_some() || call.is_some() && resource.is_some()).then_some(Event {
        history,
        position,
        f,
        resource,
        call,
        log,
    })
}
