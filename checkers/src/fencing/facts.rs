//! What a history says of fencing, in columns: calls by what they ask, logs by what they tell.

use std::ops::Range;

use deposed_history::fencing::{
    Asked, Grant, Line, Payloads, Server, Sighting, Stamp, Token, Write as Asking,
};
use deposed_history::{Call, History, Outcome, Symbol};
use rustc_hash::FxHashMap;

use super::planted::{Bug, planted};
use crate::budget::{Budget, Exhausted};
use crate::parallel::both;

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
    /// In order of resource and sequence number.
    pub(super) attempts: Vec<Attempt>,
    /// The lines of each resource in [`attempts`](Self::attempts).
    pub(super) logs: Vec<Range<usize>>,
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) granted: Vec<Noted>,
    pub(super) ended: Vec<Noted>,
    pub(super) led: Vec<Led>,
    /// By number of write.
    pub(super) fates: Vec<Fate>,
    /// The first invocation of unknown outcome of each process that has one, by process.
    pub(super) disconnected: FxHashMap<u32, u32>,
    /// Ids that reads and snapshots list.
    listed: Vec<u32>,
    /// Positions of events in no known shape: some, and how many there are.
    pub(super) oddities: Vec<u32>,
    pub(super) oddity_count: u64,
}

/// The numbers of some facts by resource, those of each in the order they came.
pub(super) struct ByResource {
    starts: Vec<u32>,
    numbers: Vec<u32>,
}

impl ByResource {
    /// By the resources of all facts of a kind, of so many resources.
    pub(super) fn of(resources: usize, of: impl Iterator<Item = u32> + Clone) -> Self {
        let mut starts = vec![0; resources + 1];
        for resource in of.clone() {
            starts[resource as usize + 1] += 1;
        }
        for at in 0..resources {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut numbers = vec![0; starts[resources] as usize];
        for (number, resource) in (0..).zip(of) {
            let at = &mut next[resource as usize];
            numbers[*at as usize] = number;
            *at += 1;
        }
        Self { starts, numbers }
    }

    /// Those of one resource.
    pub(super) fn get(&self, resource: usize) -> &[u32] {
        &self.numbers[self.starts[resource] as usize..self.starts[resource + 1] as usize]
    }

    /// The facts of one resource.
    pub(super) fn facts<'f, T>(&self, resource: usize, all: &'f [T]) -> Vec<&'f T> {
        self.get(resource).iter().map(|&number| &all[number as usize]).collect()
    }
}

/// Gives things numbers by their symbols, in the order they come up.
struct Numbers {
    of: Vec<u32>,
    symbols: Vec<Symbol>,
}

impl Numbers {
    fn new(history: &History) -> Self {
        Self { of: vec![NONE; history.symbol_count()], symbols: Vec::new() }
    }

    #[inline]
    fn number(&mut self, symbol: Symbol) -> u32 {
        let number = &mut self.of[symbol.index()];
        if *number == NONE {
            *number = self.symbols.len() as u32;
            self.symbols.push(symbol);
        }
        *number
    }

    fn texts<'h>(&self, history: &'h History) -> Vec<&'h str> {
        self.symbols.iter().map(|&symbol| history.text(symbol)).collect()
    }
}

struct Reader<'h> {
    facts: Facts<'h>,
    payloads: Payloads<'h>,
    resources: Numbers,
    nodes: Numbers,
    /// The first write of each id, by symbol; those of other resources with the same id besides.
    ids: Vec<u32>,
    more_ids: FxHashMap<(u32, Symbol), u32>,
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
            disconnected: FxHashMap::default(),
            listed: Vec::new(),
            oddities: Vec::new(),
            oddity_count: 0,
        };
        let mut reader = Reader {
            facts,
            payloads: Payloads::of(history),
            resources: Numbers::new(history),
            nodes: Numbers::new(history),
            ids: vec![NONE; history.symbol_count()],
            more_ids: FxHashMap::default(),
        };
        let payloads = reader.payloads;
        let (calls, lines) = both(
            budget.threads,
            || reader.calls(budget),
            || lines(payloads, history.len() as u32, budget),
        );
        calls?;
        let lines = lines?;
        reader.facts.attempts.reserve_exact(lines.len());
        for (position, line) in lines {
            match line {
                Some(line) => reader.log(position, line),
                None => reader.odd(position),
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

    /// The numbers of some of the facts by resource.
    pub(super) fn by_resource(&self, of: impl Iterator<Item = u32> + Clone) -> ByResource {
        ByResource::of(self.resources.len(), of)
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

/// The lines of logs, each with its position, among so many events; `None` for what is in no known shape.
fn lines<'h>(
    payloads: Payloads<'h>,
    events: u32,
    budget: &Budget,
) -> Result<Vec<(u32, Option<Line<'h>>)>, Exhausted> {
    let mut lines = Vec::with_capacity((0..events).filter(|&at| payloads.is_line(at)).count());
    for start in (0..events).step_by(STRIDE) {
        budget.check()?;
        let positions = start..events.min(start + STRIDE as u32);
        lines.extend(positions.filter_map(|at| Some((at, payloads.line(at)?))));
    }
    Ok(lines)
}

impl<'h> Reader<'h> {
    fn calls(&mut self, budget: &Budget) -> Result<(), Exhausted> {
        let calls = self.facts.history.calls();
        // Most of what there is: growing into it would touch twice the memory.
        let writes = calls.iter().filter(|call| self.payloads.is_write(call.invoke)).count();
        self.facts.writes.reserve_exact(writes);
        self.facts.fates.reserve_exact(writes);
        for calls in calls.chunks(STRIDE) {
            budget.check()?;
            for call in calls {
                if self.call(call).is_none() {
                    self.odd(call.invoke);
                }
            }
        }
        Ok(())
    }

    fn odd(&mut self, position: u32) {
        self.facts.oddity_count += 1;
        if self.facts.oddities.len() < ODDITIES_MAX {
            self.facts.oddities.push(position);
        }
    }

    fn span(&self, call: &Call) -> Span {
        let history = self.facts.history;
        let complete = call.complete().filter(|_| call.outcome() != Outcome::Info);
        Span {
            invoke: call.invoke,
            complete: complete.unwrap_or(NONE),
            begin_ns: history.op(call.invoke).time(),
            end_ns: complete.map_or(u64::MAX, |complete| history.op(complete).time()),
            outcome: call.outcome(),
        }
    }

    /// `None` if it is in no known shape.
    fn call(&mut self, call: &Call) -> Option<()> {
        let process = self.facts.history.op(call.invoke).process().client()?;
        if call.outcome() == Outcome::Info {
            self.facts.disconnected.entry(process).or_insert(call.invoke);
        }
        let Some(asked) = self.payloads.asked(call.invoke) else {
            // Other checkers' business.
            return Some(());
        };
        let (resource, asked) = asked?;
        let resource = self.resources.number(resource);
        let span = self.span(call);
        if span.outcome == Outcome::Fail && !matches!(asked, Asked::Write(_)) {
            return Some(());
        }
        match asked {
            Asked::Acquire => {
                let grant = self.grant(&span)?;
                self.facts.acquires.push(Acquire { span, process, resource, grant });
            }
            Asked::Renew(Token(token)) => {
                let grant = self.grant(&span)?;
                self.facts.renewals.push(Renewal { span, process, resource, token, grant });
            }
            Asked::Release(Token(token)) => {
                self.facts.releases.push(Release { span, process, resource, token });
            }
            Asked::Read => {
                // An indeterminate read saw nothing.
                if span.is_ok() {
                    let (seen, server) = self.payloads.observation(span.complete)?;
                    let seen = self.seen(resource, seen);
                    let served = server.map(|server| self.proof(server));
                    self.facts.reads.push(Read { span, resource, seen, served });
                }
            }
            Asked::Write(Asking { token, id, believed_valid }) => {
                let server = if span.is_ok() { self.payloads.server(span.complete) } else { None };
                let served = server.map(|server| self.proof(server));
                let id = self.id(resource, id);
                self.write(Write { span, process, resource, id, token, believed_valid, served });
            }
        }
        Some(())
    }

    /// What a call got, if it succeeded; `None` if that is in no known shape.
    fn grant(&self, span: &Span) -> Option<Option<Grant>> {
        if span.is_ok() { self.payloads.grant(span.complete).map(Some) } else { Some(None) }
    }

    fn write(&mut self, write: Write) {
        let number = self.facts.writes.len() as u32;
        let fate = &mut self.facts.fates[write.id as usize];
        let Span { invoke, complete, begin_ns, .. } = write.span;
        if fate.invoke == NONE {
            (fate.invoke, fate.begin_ns, fate.done) = (invoke, begin_ns, complete);
        }
        // NONE is the greatest, and stays.
        if !planted(Bug::FirstTryIsDone) {
            fate.done = fate.done.max(complete);
        }
        let first = self.facts.writes.get(fate.acknowledged as usize);
        if write.span.is_ok()
            && first.is_none_or(|first| {
                complete < first.span.complete || planted(Bug::LastAcknowledgementCounts)
            })
        {
            fate.acknowledged = number;
        }
        self.facts.writes.push(write);
    }

    fn log(&mut self, position: u32, line: Line<'h>) {
        match line {
            Line::Write { resource, seq, token, id, accepted, at } => {
                let resource = self.resources.number(resource);
                let id = id.map(|id| self.id(resource, id));
                let attempt = Attempt { position, resource, seq, token, id, accepted, at };
                self.facts.attempts.push(attempt);
            }
            Line::Snapshot { resource, epoch, seen } => {
                let resource = self.resources.number(resource);
                let seen = self.seen(resource, seen);
                self.facts.snapshots.push(Snapshot { position, resource, epoch, seen });
            }
            Line::Granted { resource, token, at } => {
                let resource = self.resources.number(resource);
                self.facts.granted.push(Noted { position, resource, token, at });
            }
            Line::Ended { resource, token, at } => {
                let resource = self.resources.number(resource);
                self.facts.ended.push(Noted { position, resource, token, at });
            }
            Line::Led { node, epoch, from_ns, to_ns, error_ns } => {
                let node = self.nodes.number(node);
                self.facts.led.push(Led { position, node, epoch, from_ns, to_ns, error_ns });
            }
        }
    }

    fn proof(&mut self, server: Server) -> Proof {
        let Server { node, epoch, leader } = server;
        Proof { node: self.nodes.number(node), epoch, leader }
    }

    #[inline]
    fn id(&mut self, resource: u32, id: Symbol) -> u32 {
        let first = self.ids[id.index()];
        if first == NONE {
            let number = self.fate(resource);
            self.ids[id.index()] = number;
            return number;
        }
        if self.facts.fates[first as usize].resource == resource || planted(Bug::IdsAreGlobal) {
            return first;
        }
        if let Some(&number) = self.more_ids.get(&(resource, id)) {
            return number;
        }
        let number = self.fate(resource);
        self.more_ids.insert((resource, id), number);
        number
    }

    /// The number of a write of which nothing is known yet.
    fn fate(&mut self, resource: u32) -> u32 {
        self.facts.fates.push(Fate {
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
        self.facts.fates.len() as u32 - 1
    }

    fn seen(&mut self, resource: u32, seen: Sighting<'h>) -> SeenIds {
        match seen {
            Sighting::Last(id) => SeenIds::Last(id.map(|id| self.id(resource, id))),
            Sighting::Every(ids) => {
                let start = self.facts.listed.len();
                for id in ids.iter() {
                    let id = self.id(resource, id);
                    self.facts.listed.push(id);
                }
                SeenIds::Every(start..self.facts.listed.len())
            }
        }
    }

    fn finish(self) -> Facts<'h> {
        let Self { mut facts, resources, nodes, .. } = self;
        let history = facts.history;
        (facts.resources, facts.nodes) = (resources.texts(history), nodes.texts(history));
        let by_resource = facts.by_resource(facts.attempts.iter().map(|a| a.resource));
        let order = by_resource.numbers.iter();
        facts.attempts = order.map(|&number| facts.attempts[number as usize]).collect();
        for bounds in by_resource.starts.windows(2).filter(|_| !planted(Bug::LinesAsCollected)) {
            // As they were collected they mostly stand in order, which costs a sort nothing.
            facts.attempts[bounds[0] as usize..bounds[1] as usize]
                .sort_by_key(|attempt| (attempt.seq, attempt.position));
        }
        let bounds = by_resource.starts.windows(2);
        facts.logs = bounds.map(|bounds| bounds[0] as usize..bounds[1] as usize).collect();
        for (number, attempt) in facts.attempts.iter().enumerate() {
            let Some(id) = attempt.id else { continue };
            let fate = &mut facts.fates[id as usize];
            let number = number as u32;
            if attempt.accepted || planted(Bug::RefusedIsApplied) {
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
