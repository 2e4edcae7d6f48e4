//! What a history says of fencing, in columns: calls by what they ask, logs by what they tell.

use std::ops::Range;

use deposed_history::fencing::{
    FencedWrite, Grant, LogEvent, Observation, Seen, Served, Stamp, Token,
};
use deposed_history::{Call, History, Outcome, Process, ValueRef};
use rustc_hash::FxHashMap;

use crate::budget::{Budget, Exhausted};

/// Stands for no position and no number.
pub(super) const NONE: u32 = u32::MAX;

/// Events between two looks at the budget.
const STRIDE: usize = 1 << 16;

/// Events in no known shape that are listed.
const ODDITIES_MAX: usize = 8;

/// When a call happened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) invoke: u32,
    /// Position of the completion; [`NONE`] unless it is `ok` or `fail`.
    pub(super) complete: u32,
    pub(super) begin_ns: u64,
    /// Time of the completion; the greatest there is unless it is `ok` or `fail`.
    pub(super) end_ns: u64,
    pub(super) outcome: Outcome,
}

impl Span {
    pub(super) fn is_ok(&self) -> bool {
        self.outcome == Outcome::Ok
    }
}

/// An `acquire` that did not fail.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acquire {
    pub(super) span: Span,
    pub(super) process: u32,
    pub(super) resource: u32,
    /// What it got; none if it is indeterminate.
    pub(super) grant: Option<Grant>,
}

/// A `renew` that did not fail.
#[derive(Debug, Clone, Copy)]
pub(super) struct Renewal {
    pub(super) span: Span,
    pub(super) process: u32,
    pub(super) resource: u32,
    pub(super) token: i64,
    /// What it got; none if it is indeterminate.
    pub(super) grant: Option<Grant>,
}

/// A `release` that did not fail.
#[derive(Debug, Clone, Copy)]
pub(super) struct Release {
    pub(super) span: Span,
    pub(super) process: u32,
    pub(super) resource: u32,
    pub(super) token: i64,
}

/// Who served a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Proof {
    pub(super) node: u32,
    pub(super) epoch: i64,
    pub(super) leader: bool,
}

/// A `fenced-write` or an `append`, however it ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Write {
    pub(super) span: Span,
    pub(super) process: u32,
    pub(super) resource: u32,
    pub(super) id: u32,
    pub(super) token: Option<i64>,
    pub(super) believed_valid: bool,
    pub(super) served: Option<Proof>,
}

/// The writes that were seen, by their numbers.
#[derive(Debug, Clone)]
pub(super) enum SeenIds {
    /// All of these, a part of [`Facts::listed`].
    Every(Range<usize>),
    /// This was the last.
    Last(Option<u32>),
}

/// A `read` that succeeded.
#[derive(Debug, Clone)]
pub(super) struct Read {
    pub(super) span: Span,
    pub(super) resource: u32,
    pub(super) seen: SeenIds,
    pub(super) served: Option<Proof>,
}

/// A line of a resource's log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    pub(super) position: u32,
    pub(super) resource: u32,
    pub(super) seq: u64,
    pub(super) token: Option<i64>,
    pub(super) id: Option<u32>,
    pub(super) accepted: bool,
    pub(super) at: Option<Stamp>,
}

/// What was held at the end.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) position: u32,
    pub(super) resource: u32,
    pub(super) epoch: Option<i64>,
    pub(super) seen: SeenIds,
}

/// A line of the log of who grants tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noted {
    pub(super) position: u32,
    pub(super) resource: u32,
    pub(super) token: i64,
    pub(super) at: Option<Stamp>,
}

/// A node held itself for the leader.
#[derive(Debug, Clone, Copy)]
pub(super) struct Led {
    pub(super) position: u32,
    pub(super) node: u32,
    pub(super) epoch: i64,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) error_ns: u64,
}

/// What became of one write, by its id, however often it was tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fate {
    pub(super) resource: u32,
    /// Position and time of its first invocation.
    pub(super) invoke: u32,
    pub(super) begin_ns: u64,
    /// The attempt that was acknowledged first, a number of [`Facts::writes`].
    pub(super) acknowledged: u32,
    /// Position from which on it takes no more effect; [`NONE`] if it may at any time.
    pub(super) done: u32,
    /// The first and the last attempt that the resource accepted, numbers of [`Facts::attempts`].
    pub(super) accepted: u32,
    pub(super) accepted_last: u32,
    pub(super) accepted_count: u32,
    /// The first attempt that it refused.
    pub(super) refused: u32,
}

/// All of it.
pub(super) struct Facts<'h> {
    pub(super) history: &'h History,
    pub(super) resources: Vec<&'h str>,
    pub(super) nodes: Vec<&'h str>,
    /// In order of invocation, as are the next four.
    pub(super) acquires: Vec<Acquire>,
    pub(super) renewals: Vec<Renewal>,
    pub(super) releases: Vec<Release>,
    pub(super) writes: Vec<Write>,
    pub(super) reads: Vec<Read>,
    /// By resource, then in its order.
    pub(super) attempts: Vec<Attempt>,
    /// The part of `attempts` of each resource; empty for one without a log.
    pub(super) logs: Vec<Range<usize>>,
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) granted: Vec<Noted>,
    pub(super) ended: Vec<Noted>,
    pub(super) led: Vec<Led>,
    /// By number of id.
    pub(super) fates: Vec<Fate>,
    pub(super) listed: Vec<u32>,
    /// Positions of events in no known shape.
    pub(super) oddities: Vec<u32>,
    pub(super) oddity_count: u64,
}

/// Numbers texts of one history: equal texts are one and the same there.
#[derive(Default)]
struct Names<'h> {
    numbers: FxHashMap<(usize, usize), u32>,
    texts: Vec<&'h str>,
}

impl<'h> Names<'h> {
    fn number(&mut self, text: &'h str) -> u32 {
        *self.numbers.entry((text.as_ptr() as usize, text.len())).or_insert_with(|| {
            self.texts.push(text);
            self.texts.len() as u32 - 1
        })
    }
}

struct Reader<'h> {
    facts: Facts<'h>,
    resources: Names<'h>,
    nodes: Names<'h>,
    ids: FxHashMap<(u32, usize, usize), u32>,
}

impl<'h> Facts<'h> {
    /// Reads a history.
    pub(super) fn of(history: &'h History, budget: &Budget) -> Result<Self, Exhausted> {
        let facts = Facts {
            history,
            resources: Vec::new(),
            nodes: Vec::new(),
            acquires: Vec::new(),
            renewals: Vec::new(),
            releases: Vec::new(),
            writes: Vec::new(),
            reads: Vec::new(),
            attempts: Vec::new(),
            logs: Vec::new(),
            snapshots: Vec::new(),
            granted: Vec::new(),
            ended: Vec::new(),
            led: Vec::new(),
            fates: Vec::new(),
            listed: Vec::new(),
            oddities: Vec::new(),
            oddity_count: 0,
        };
        let (resources, nodes, ids) = (Names::default(), Names::default(), FxHashMap::default());
        let mut reader = Reader { facts, resources, nodes, ids };
        for calls in history.calls().chunks(STRIDE) {
            budget.check()?;
            for call in calls {
                if reader.call(call).is_none() {
                    reader.odd(call.invoke);
                }
            }
        }
        for (i, op) in history.ops().enumerate() {
            if i % STRIDE == 0 {
                budget.check()?;
            }
            if op.process() != Process::Log {
                continue;
            }
            match LogEvent::parse(op) {
                Some(event) => reader.log(op.position(), event),
                None => reader.odd(op.position()),
            }
        }
        Ok(reader.finish())
    }

    /// Whether there is nothing to judge.
    pub(super) fn is_empty(&self) -> bool {
        !self.acquires.iter().any(|acquire| acquire.grant.is_some())
            && !self.writes.iter().any(|write| write.span.is_ok())
            && self.reads.is_empty()
            && self.attempts.is_empty()
            && self.led.is_empty()
    }

    /// The numbers of some of the facts, a list for each resource, in the order they came.
    pub(super) fn by_resource(&self, of: impl Iterator<Item = u32>) -> Vec<Vec<u32>> {
        let mut lists = vec![Vec::new(); self.resources.len()];
        for (number, resource) in (0..).zip(of) {
            lists[resource as usize].push(number);
        }
        lists
    }

    /// The call of a write that was acknowledged first.
    pub(super) fn acknowledgement(&self, fate: &Fate) -> Option<&Write> {
        self.writes.get(fate.acknowledged as usize)
    }

    /// Every id that was seen.
    pub(super) fn every(&self, seen: &SeenIds) -> &[u32] {
        match seen {
            SeenIds::Every(range) => &self.listed[range.clone()],
            SeenIds::Last(_) => &[],
        }
    }
}

impl<'h> Reader<'h> {
    fn odd(&mut self, position: u32) {
        self.facts.oddity_count += 1;
        if self.facts.oddities.len() < ODDITIES_MAX {
            self.facts.oddities.push(position);
        }
    }

    fn span(&self, call: &Call) -> Span {
        let history = self.facts.history;
        let complete = call.complete.filter(|_| call.outcome != Outcome::Info);
        Span {
            invoke: call.invoke,
            complete: complete.unwrap_or(NONE),
            begin_ns: history.op(call.invoke).time(),
            end_ns: complete.map_or(u64::MAX, |complete| history.op(complete).time()),
            outcome: call.outcome,
        }
    }

    /// `None` if it is in no known shape.
    fn call(&mut self, call: &Call) -> Option<()> {
        let history = self.facts.history;
        let invoke = history.op(call.invoke);
        let f = invoke.f();
        if !matches!(f, "acquire" | "renew" | "release" | "fenced-write" | "append" | "read") {
            // Other checkers' business.
            return Some(());
        }
        let (resource, asked) = invoke.pair()?;
        let resource = self.resources.number(resource.as_str()?);
        let process = invoke.process().client()?;
        let span = self.span(call);
        let answer = || -> Option<ValueRef<'h>> {
            if !span.is_ok() {
                return None;
            }
            history.op(span.complete).pair().map(|(_, answer)| answer)
        };
        let failed = span.outcome == Outcome::Fail;
        match f {
            "acquire" | "renew" | "release" | "read" if failed => {}
            "acquire" => {
                let grant = answer().and_then(Grant::parse);
                if span.is_ok() && grant.is_none() {
                    return None;
                }
                self.facts.acquires.push(Acquire { span, process, resource, grant });
            }
            "renew" => {
                let Token(token) = Token::parse(asked)?;
                let grant = answer().and_then(Grant::parse);
                if span.is_ok() && grant.is_none() {
                    return None;
                }
                self.facts.renewals.push(Renewal { span, process, resource, token, grant });
            }
            "release" => {
                let Token(token) = Token::parse(asked)?;
                self.facts.releases.push(Release { span, process, resource, token });
            }
            "read" => {
                // An indeterminate read saw nothing.
                if span.is_ok() {
                    let Observation { seen, served } = Observation::parse(answer()?)?;
                    let seen = self.seen(resource, &seen);
                    let served = self.proof(served);
                    self.facts.reads.push(Read { span, resource, seen, served });
                }
            }
            _ => {
                let FencedWrite { token, id, believed_valid, .. } = FencedWrite::parse(asked)?;
                let served = answer().and_then(Served::parse);
                let served = self.proof(served);
                let id = self.id(resource, id);
                self.write(Write { span, process, resource, id, token, believed_valid, served });
            }
        }
        Some(())
    }

    fn write(&mut self, write: Write) {
        let number = self.facts.writes.len() as u32;
        self.facts.writes.push(write);
        let fate = &mut self.facts.fates[write.id as usize];
        let Span { invoke, complete, begin_ns, .. } = write.span;
        if fate.invoke == NONE {
            (fate.invoke, fate.begin_ns, fate.done) = (invoke, begin_ns, complete);
        }
        // NONE is the greatest, and stays.
        fate.done = fate.done.max(complete);
        let first = self.facts.writes.get(fate.acknowledged as usize);
        if write.span.is_ok() && first.is_none_or(|first| complete < first.span.complete) {
            self.facts.fates[write.id as usize].acknowledged = number;
        }
    }

    fn log(&mut self, position: u32, event: LogEvent<'h>) {
        match event {
            LogEvent::Write { resource, seq, token, id, accepted, at, .. } => {
                let resource = self.resources.number(resource);
                let id = id.map(|id| self.id(resource, id));
                let attempt = Attempt { position, resource, seq, token, id, accepted, at };
                self.facts.attempts.push(attempt);
            }
            LogEvent::Snapshot { resource, epoch, seen, .. } => {
                let resource = self.resources.number(resource);
                let seen = self.seen(resource, &seen);
                self.facts.snapshots.push(Snapshot { position, resource, epoch, seen });
            }
            LogEvent::Granted { resource, token, at } => {
                let resource = self.resources.number(resource);
                self.facts.granted.push(Noted { position, resource, token, at });
            }
            LogEvent::Ended { resource, token, at, .. } => {
                let resource = self.resources.number(resource);
                self.facts.ended.push(Noted { position, resource, token, at });
            }
            LogEvent::Led { node, epoch, from_ns, to_ns, error_ns } => {
                let node = self.nodes.number(node);
                self.facts.led.push(Led { position, node, epoch, from_ns, to_ns, error_ns });
            }
        }
    }

    fn proof(&mut self, served: Option<Served<'h>>) -> Option<Proof> {
        let Served { node, epoch, leader, .. } = served?;
        Some(Proof { node: self.nodes.number(node), epoch, leader })
    }

    fn id(&mut self, resource: u32, id: &'h str) -> u32 {
        let fates = &mut self.facts.fates;
        *self.ids.entry((resource, id.as_ptr() as usize, id.len())).or_insert_with(|| {
            fates.push(Fate {
                resource,
                invoke: NONE,
                begin_ns: 0,
                acknowledged: NONE,
                done: NONE,
                accepted: NONE,
                accepted_last: NONE,
                accepted_count: 0,
                refused: NONE,
            });
            fates.len() as u32 - 1
        })
    }

    fn seen(&mut self, resource: u32, seen: &Seen<'h>) -> SeenIds {
        match seen {
            Seen::Last(id) => SeenIds::Last(id.map(|id| self.id(resource, id))),
            Seen::Every(ids) => {
                let start = self.facts.listed.len();
                for id in ids {
                    let id = self.id(resource, id);
                    self.facts.listed.push(id);
                }
                SeenIds::Every(start..self.facts.listed.len())
            }
        }
    }

    fn finish(self) -> Facts<'h> {
        let Self { mut facts, resources, nodes, .. } = self;
        (facts.resources, facts.nodes) = (resources.texts, nodes.texts);
        facts.attempts.sort_by_key(|attempt| (attempt.resource, attempt.seq, attempt.position));
        facts.logs = vec![0..0; facts.resources.len()];
        for (number, attempt) in facts.attempts.iter().enumerate() {
            let log = &mut facts.logs[attempt.resource as usize];
            if log.end == 0 {
                log.start = number;
            }
            log.end = number + 1;
            let Some(id) = attempt.id else { continue };
            let fate = &mut facts.fates[id as usize];
            let number = number as u32;
            if attempt.accepted {
                fate.accepted = fate.accepted.min(number);
                fate.accepted_last = number;
                fate.accepted_count += 1;
            } else {
                fate.refused = fate.refused.min(number);
            }
        }
        facts
    }
}
