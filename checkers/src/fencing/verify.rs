//! Checks an anomaly against the raw history, on its own: nothing here comes from the sweeps that
//! found it. It is plain, for it runs on a handful of anomalies; only where to look for what
//! belongs to them is found out for all at once, in one pass.

use std::collections::{BTreeMap, BTreeSet};

use deposed_history::fencing::{Asked, FencedWrite, Line, LogEvent, Payloads, Seen, Served, Token};
use deposed_history::{History, Outcome, Process, Symbol};
use petgraph::algo::is_cyclic_directed;
use petgraph::graphmap::DiGraphMap;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Claims;
use super::event::{Event, event};
use crate::{Anomaly, Edge, EdgeKind};

/// Why an anomaly does not stand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

/// Checks one anomaly of [`Fencing`](super::Fencing).
///
/// # Errors
/// If it does not follow from the history: says what is wrong.
pub fn verify(history: &History, claims: &Claims, anomaly: &Anomaly) -> Result<(), Refused> {
    Verifier::of(history, claims, [anomaly]).verify(anomaly)
}

/// Checks anomalies of one history.
pub(super) struct Verifier<'a> {
    raw: Raw<'a>,
}

impl<'a> Verifier<'a> {
    /// One for these anomalies, and no others.
    pub(super) fn of<'n>(
        history: &'a History,
        claims: &'a Claims,
        anomalies: impl IntoIterator<Item = &'n Anomaly>,
    ) -> Self {
        Self { raw: Raw::of(history, claims, anomalies) }
    }

    /// Checks one of them.
    pub(super) fn verify(&self, anomaly: &Anomaly) -> Result<(), Refused> {
        let raw = &self.raw;
        let witness =
            anomaly.witness.iter().map(|&at| raw.event(at)).collect::<Option<Vec<Event<'_>>>>();
        let witness = witness.ok_or_else(|| Refused("a witness is no event of fencing".into()))?;
        for edge in &anomaly.edges {
            raw.edge(edge)?;
        }
        let cycle: DiGraphMap<u32, ()> =
            anomaly.edges.iter().map(|edge| (edge.from, edge.to)).collect();
        let is_cycle = is_cyclic_directed(&cycle);
        if !anomaly.edges.is_empty() {
            demand(is_cycle, "its steps are no cycle")?;
        }
        let [first, rest @ ..] = &witness[..] else {
            return Err(Refused("it has no witness".into()));
        };
        let second = rest.first();
        match (anomaly.name.as_str(), second) {
            (
                "token-regression"
                | "stale-token-accepted"
                | "stale-token-after-newer-grant"
                | "token-grant-order"
                | "dual-leader-effect"
                | "stale-read-under-lease"
                | "lost-notification",
                Some(_),
            ) => {
                demand(is_cycle, "it has no cycle")?;
                let mut ends = anomaly.edges.iter().filter_map(|edge| raw.event(edge.from));
                let is_its = |end: &Event<'_>| is_of(&anomaly.name, end) && end.happened();
                demand(ends.all(|end| is_its(&end)), "a step is of something else")
            }
            ("use-after-release", Some(_)) => {
                demand(is_cycle, "it has no cycle")?;
                let is_use =
                    |event: &Event<'_>| matches!(event.f, "fenced-write" | "resource-write");
                demand(witness.iter().any(|e| is_use(e) && e.happened()), "nothing was accepted")
            }
            ("dual-leader", Some(_)) if is_cycle => {
                let mut ends = anomaly.edges.iter().filter_map(|edge| raw.event(edge.from));
                demand(ends.all(|end| is_of("dual-leader", &end)), "a step is of something else")
            }
            ("dual-leader", Some(second)) => raw.two_leaders(first, second),
            ("duplicate-token", Some(second)) => raw.duplicate(first, second),
            ("mutual-exclusion" | "lease-overlap", Some(_)) => raw.overlap(&witness),
            ("unissued-token", None) => raw.unissued(first),
            ("overclaimed-lease", None) => raw.overclaimed(first),
            ("lost-acked-write", _) => {
                let write =
                    witness.iter().find(|event| event.call.is_some() && event.id().is_some());
                raw.lost(write.ok_or_else(|| Refused("no write is among its witnesses".into()))?)
            }
            ("duplicate-apply", _) => raw.twice(&witness),
            (name, _) => Err(Refused(format!("{name} does not look like that"))),
        }
    }
}

fn demand(holds: bool, otherwise: &str) -> Result<(), Refused> {
    if holds { Ok(()) } else { Err(Refused(otherwise.into())) }
}

/// Whether an event is of the kind that the steps of an anomaly connect.
fn is_of(name: &str, event: &Event<'_>) -> bool {
    match name {
        "token-regression" | "stale-token-accepted" => {
            matches!(event.f, "fenced-write" | "resource-write") && event.token().is_some()
        }
        "token-grant-order" => event.f == "acquire" && event.grant().is_some(),
        "dual-leader" | "dual-leader-effect" => event.served().is_some(),
        "stale-read-under-lease" => {
            event.f == "read" || event.call.is_some() && event.id().is_some()
        }
        "lost-notification" => matches!(event.f, "expired" | "revoked" | "renew"),
        // A grant, by whoever tells of it, and a write that came after it.
        _ => event.token().is_some(),
    }
}

/// The epoch of whoever served a call.
fn epoch_of(event: &Event<'_>) -> Option<i64> {
    event.answered().and_then(Served::parse).map(|served| served.epoch)
}

/// What anomalies are about, and where in the history there is more about it.
struct Raw<'a> {
    history: &'a History,
    claims: &'a Claims,
    /// Calls and lines of logs with one of the ids, by resource and id.
    of_id: FxHashMap<(&'a str, &'a str), Vec<u32>>,
    /// Grants, renewals, releases and what is noted of them with one of the tokens, by resource
    /// and token.
    of_token: FxHashMap<(&'a str, i64), Vec<u32>>,
    /// Everything of each resource that every event matters of.
    whole: FxHashMap<&'a str, Vec<u32>>,
    /// Snapshots and reads, by resource.
    observed: FxHashMap<&'a str, Vec<u32>>,
    /// Resources that have a log of their own.
    logged: FxHashSet<&'a str>,
    /// Epochs in which a node held itself for the leader.
    led: BTreeSet<i64>,
    /// Calls of unknown outcome: who, and where it began.
    disconnected: Vec<(Process, u32)>,
}

impl<'h> Raw<'h> {
    fn of<'n>(
        history: &'h History,
        claims: &'h Claims,
        anomalies: impl IntoIterator<Item = &'n Anomaly>,
    ) -> Self {
        let mut raw = Self {
            history,
            claims,
            of_id: FxHashMap::default(),
            of_token: FxHashMap::default(),
            whole: FxHashMap::default(),
            observed: FxHashMap::default(),
            logged: FxHashSet::default(),
            led: BTreeSet::new(),
            disconnected: Vec::new(),
        };
        for anomaly in anomalies {
            raw.look_for(anomaly);
        }
        raw.gather();
        raw
    }

    /// Notes what an anomaly is about.
    fn look_for(&mut self, anomaly: &Anomaly) {
        let ends = anomaly.edges.iter().flat_map(|edge| [edge.from, edge.to]);
        for position in anomaly.witness.iter().copied().chain(ends) {
            let Some(event) = event(self.history, position) else { continue };
            let Some(resource) = event.resource else { continue };
            self.observed.entry(resource).or_default();
            if anomaly.name == "unissued-token" {
                self.whole.entry(resource).or_default();
            }
            if let Some(token) = event.token() {
                self.of_token.entry((resource, token)).or_default();
            }
            let last = match event.seen() {
                Some(Seen::Last(last)) => last,
                _ => None,
            };
            for id in event.id().into_iter().chain(last) {
                self.of_id.entry((resource, id)).or_default();
            }
        }
    }

    /// Finds all there is of what was noted.
    fn gather(&mut self) {
        let history = self.history;
        let payloads = Payloads::of(history);
        // Whether a symbol is a resource or an id that matters: mostly, neither is.
        let mut matters = vec![false; history.symbol_count()];
        let resources = self.observed.keys().copied();
        for text in resources.chain(self.of_id.keys().map(|&(_, id)| id)) {
            if let Some(symbol) = history.symbol(text) {
                matters[symbol.index()] = true;
            }
        }
        let matters = |symbol: Symbol| matters[symbol.index()];
        let mut add = |position: u32, resource: Symbol, id: Option<Symbol>, token: Option<i64>| {
            let resource = history.text(resource);
            if let Some(id) = id.filter(|&id| matters(id))
                && let Some(of_id) = self.of_id.get_mut(&(resource, history.text(id)))
            {
                of_id.push(position);
            }
            if let Some(token) = token
                && let Some(of_token) = self.of_token.get_mut(&(resource, token))
            {
                of_token.push(position);
            }
            if !self.whole.is_empty()
                && let Some(whole) = self.whole.get_mut(resource)
            {
                whole.push(position);
            }
        };
        for call in history.calls() {
            let at = call.invoke;
            if call.outcome == Outcome::Info {
                self.disconnected.push((history.op(at).process(), at));
            }
            let Some(Some((resource, asked))) = payloads.asked(at) else { continue };
            if !matters(resource) {
                continue;
            }
            match asked {
                Asked::Acquire => {
                    let grant = call.complete.filter(|_| call.outcome == Outcome::Ok);
                    let grant = grant.and_then(|complete| payloads.grant(complete));
                    add(at, resource, None, grant.map(|grant| grant.token));
                }
                Asked::Renew(Token(token)) | Asked::Release(Token(token)) => {
                    add(at, resource, None, Some(token));
                }
                Asked::Write(write) => add(at, resource, Some(write.id), None),
                Asked::Read => {
                    let observed = self.observed.get_mut(history.text(resource));
                    observed.into_iter().for_each(|observed| observed.push(at));
                }
            }
        }
        let mut last = None;
        for at in 0..history.len() as u32 {
            match payloads.line(at).flatten() {
                Some(Line::Write { resource, id, .. }) if matters(resource) => {
                    if last != Some(resource) {
                        self.logged.insert(history.text(resource));
                        last = Some(resource);
                    }
                    add(at, resource, id, None);
                }
                Some(Line::Snapshot { resource, .. }) if matters(resource) => {
                    let observed = self.observed.get_mut(history.text(resource));
                    observed.into_iter().for_each(|observed| observed.push(at));
                }
                Some(
                    Line::Granted { resource, token, .. } | Line::Ended { resource, token, .. },
                ) if matters(resource) => {
                    add(at, resource, None, Some(token));
                }
                Some(Line::Led { epoch, .. }) => {
                    self.led.insert(epoch);
                }
                _ => {}
            }
        }
    }

    fn event(&self, position: u32) -> Option<Event<'h>> {
        event(self.history, position)
    }

    fn events(&self, positions: Option<&Vec<u32>>) -> Vec<Event<'h>> {
        positions.into_iter().flatten().filter_map(|&at| self.event(at)).collect()
    }

    /// Calls and lines with an id.
    fn of_id(&self, resource: Option<&str>, id: &str) -> Vec<Event<'h>> {
        self.events(resource.and_then(|resource| self.of_id.get(&(resource, id))))
    }

    /// Grants, renewals, releases and what is noted of them with a token.
    fn of_token(&self, of: &Event<'_>) -> Vec<Event<'h>> {
        let key = of.resource.zip(of.token());
        self.events(key.and_then(|key| self.of_token.get(&key)))
    }

    /// Snapshots and reads of a resource.
    fn observed(&self, resource: Option<&str>) -> Vec<Event<'h>> {
        self.events(resource.and_then(|resource| self.observed.get(resource)))
    }

    fn is_logged(&self, resource: Option<&str>) -> bool {
        resource.is_some_and(|resource| self.logged.contains(resource))
    }

    fn edge(&self, edge: &Edge) -> Result<(), Refused> {
        let (from, to) = (self.event(edge.from), self.event(edge.to));
        let (Some(from), Some(to)) = (from, to) else {
            return Err(Refused("a step leads to no event".into()));
        };
        demand(from.resource == to.resource, "a step leads to another resource")?;
        let holds = match edge.kind {
            EdgeKind::RealTime => self.is_before(&from, &to),
            EdgeKind::ResourceOrder => match (&from.log, &to.log) {
                (Some(LogEvent::Write { seq: a, .. }), Some(LogEvent::Write { seq: b, .. })) => a < b,
                _ => false,
            },
            EdgeKind::TokenOrder => [false, true].into_iter().any(|epochs| {
                matches!((from.number(epochs), to.number(epochs)), (Some(a), Some(b)) if a < b)
            }),
            EdgeKind::GrantUse => {
                let excludes = from.f == "release" && matches!(to.f, "acquire" | "renew");
                excludes || from.token().is_some() && from.token() == to.token()
            }
            EdgeKind::ReadWrite => match (from.seen(), to.id()) {
                (Some(Seen::Every(ids)), Some(id)) => !ids.contains(&id),
                (Some(Seen::Last(None)), Some(_)) => true,
                (Some(Seen::Last(Some(last))), Some(id)) => self.is_newer(to.resource, id, last),
                _ => false,
            },
            EdgeKind::Process | EdgeKind::WriteRead | EdgeKind::WriteWrite => false,
        };
        demand(holds, &format!("the step from op {} to op {} is not so", edge.from, edge.to))
    }

    fn is_before(&self, from: &Event<'_>, to: &Event<'_>) -> bool {
        let noted_ns = match &from.log {
            Some(LogEvent::Granted { at, .. } | LogEvent::Ended { at, .. }) => {
                at.map(|at| at.latest_ns())
            }
            Some(_) => return false,
            None => None,
        };
        let earliest_ns = match &to.log {
            Some(LogEvent::Write { at, id, .. }) => {
                let of_id = id.iter().flat_map(|id| self.of_id(to.resource, id));
                let begun = of_id.filter(|event| event.call.is_some());
                at.map(|at| at.earliest_ns()).max(begun.map(|event| event.begin_ns()).min())
            }
            _ => None,
        };
        match (noted_ns, earliest_ns) {
            (Some(noted), Some(earliest)) => noted < earliest,
            (Some(noted), None) => noted < to.begin_ns(),
            (None, Some(earliest)) => from.end_ns() < earliest,
            (None, None) => from.complete().is_some_and(|complete| complete < to.position),
        }
    }

    /// Whether one write certainly took effect after another one had for the last time.
    fn is_newer(&self, resource: Option<&str>, id: &str, than: &str) -> bool {
        let accepted = |id: &'_ str| {
            let lines: Vec<u64> = self
                .of_id(resource, id)
                .into_iter()
                .filter_map(|event| match event.log {
                    Some(LogEvent::Write { seq, accepted: true, .. }) => Some(seq),
                    _ => None,
                })
                .collect();
            lines
        };
        if self.is_logged(resource) {
            let first = accepted(id).into_iter().min();
            let last = accepted(than).into_iter().max();
            return matches!((first, last), (Some(first), Some(last)) if first > last);
        }
        let calls = |id| self.of_id(resource, id).into_iter().filter(|event| event.call.is_some());
        let begun = calls(id).map(|event| event.position).min();
        // One whose end is not certain may take effect at any time.
        let done = calls(than).map(|event| event.complete().unwrap_or(u32::MAX)).max();
        matches!((begun, done), (Some(begun), Some(done)) if begun > done)
    }

    fn two_leaders(&self, first: &Event<'_>, second: &Event<'_>) -> Result<(), Refused> {
        if let (Some(LogEvent::Led { .. }), Some(LogEvent::Led { .. })) = (&first.log, &second.log)
        {
            let span = |event: &Event<'_>| match event.log {
                Some(LogEvent::Led { from_ns, to_ns, error_ns, .. }) => {
                    (from_ns.saturating_add(error_ns), to_ns.saturating_sub(error_ns))
                }
                _ => (0, 0),
            };
            let who = |event: &Event<'_>| match event.log {
                Some(LogEvent::Led { node, epoch, .. }) => (node.to_owned(), epoch),
                _ => (String::new(), 0),
            };
            let ((a, b), (c, d)) = (span(first), span(second));
            let ((one, epoch), (other, other_epoch)) = (who(first), who(second));
            demand(one != other, "it is one node")?;
            return demand(
                epoch == other_epoch || a.max(c) < b.min(d),
                "they did not lead at one time",
            );
        }
        let (Some(a), Some(b)) = (first.served(), second.served()) else {
            return Err(Refused("a witness proves no leader".into()));
        };
        demand(a.node != b.node && a.epoch == b.epoch, "it is not two nodes in one epoch")
    }

    fn duplicate(&self, first: &Event<'_>, second: &Event<'_>) -> Result<(), Refused> {
        let tokens = (first.grant(), second.grant());
        let (Some(a), Some(b)) = tokens else { return Err(Refused("no grant".into())) };
        demand(first.f == "acquire" && second.f == "acquire", "it is no acquire")?;
        demand(a.token == b.token && first.resource == second.resource, "the tokens differ")?;
        let released = || {
            self.of_token(first).into_iter().any(|event| {
                event.f == "release"
                    && event.process() == first.process()
                    && event.outcome() != Some(Outcome::Fail)
                    && first.position < event.position
                    && event.position < second.position
            })
        };
        demand(first.process() != second.process() || released(), "the lock was reentered")
    }

    /// Who holds what was granted: for a renewal, the last that had acquired the token by then.
    fn owner(&self, grant: &Event<'_>) -> Process {
        let acquired = self.of_token(grant).into_iter().filter(|event| {
            event.f == "acquire"
                && event.grant().is_some()
                && event.complete().is_some_and(|complete| complete < grant.position)
        });
        let last = acquired.filter(|_| grant.f == "renew").max_by_key(|event| event.complete());
        last.map_or(grant.process(), |event| event.process())
    }

    fn overlap(&self, witness: &[Event<'_>]) -> Result<(), Refused> {
        let mut grants: Vec<&Event<'_>> = witness.iter().filter(|e| e.grant().is_some()).collect();
        grants.sort_by_key(|event| event.complete());
        let [first, second] = grants[..] else { return Err(Refused("not two grants".into())) };
        demand(first.resource == second.resource, "they are of two resources")?;
        demand(self.owner(first) != self.owner(second), "it is one holder")?;
        let (Some(from), Some(to)) = (first.complete(), second.complete()) else {
            return Err(Refused("a grant is not certain".into()));
        };
        for event in self.of_token(first).into_iter().filter(|event| event.f == "release") {
            let ended = event.outcome() != Some(Outcome::Fail);
            let between = (from..to).contains(&event.position);
            demand(!ended || !between, "the first had been released")?;
        }
        let holders = [first.process(), self.owner(first)];
        for (process, at) in &self.disconnected {
            let lost = holders.contains(process) && (from..to).contains(at);
            demand(!lost, "the first had lost its connection")?;
        }
        let bounds = self.claims.lease_bounds();
        let now = second.end_ns();
        let in_force = |event: &Event<'_>| match event.grant().and_then(|grant| grant.lease_ms) {
            Some(ms) => bounds.certain_end_ns(event.begin_ns(), ms) > now,
            None => true,
        };
        demand(in_force(first) && in_force(second), "a lease may have been over")
    }

    fn unissued(&self, accept: &Event<'_>) -> Result<(), Refused> {
        demand(accept.happened() && accept.token().is_some(), "nothing was accepted")?;
        // By when a token was in use, for every token that was accepted.
        let latest = |event: &Event<'_>| match (&event.log, event.f) {
            (Some(LogEvent::Write { at, .. }), _) => at.map_or(u64::MAX, |at| at.latest_ns()),
            _ => event.end_ns(),
        };
        let deadline = latest(accept);
        let whole = accept.resource.and_then(|resource| self.whole.get(resource));
        let events = self.events(whole);
        // By token: the earliest moment in which somebody may have been given it.
        let mut issued: BTreeMap<i64, u64> = self.led.iter().map(|&epoch| (epoch, 0)).collect();
        for event in &events {
            let from = match (&event.log, event.f) {
                (Some(LogEvent::Granted { .. }), _) => 0,
                (None, "acquire") => event.begin_ns(),
                _ => continue,
            };
            if let Some(token) = event.token() {
                issued.entry(token).and_modify(|first| *first = from.min(*first)).or_insert(from);
            }
        }
        let is_issued = |token: i64, by: u64| issued.get(&token).is_some_and(|&from| from <= by);
        let token = accept.token().unwrap_or_default();
        demand(!is_issued(token, deadline), "somebody was given it")?;
        let writes =
            if self.is_logged(accept.resource) { "resource-write" } else { "fenced-write" };
        let unissued: BTreeSet<i64> = events
            .iter()
            .filter(|event| event.f == writes && event.happened() && latest(event) <= deadline)
            .filter_map(|event| Some((event.token()?, latest(event))))
            .filter(|&(token, by)| !is_issued(token, by))
            .map(|(token, _)| token)
            .collect();
        let lost = events.iter().filter(|event| {
            event.f == "acquire"
                && event.outcome() == Some(Outcome::Info)
                && event.begin_ns() <= deadline
        });
        demand(unissued.len() > lost.count(), "an acquire of unknown outcome may have got it")
    }

    fn overclaimed(&self, event: &Event<'_>) -> Result<(), Refused> {
        let write = || event.asked().and_then(FencedWrite::parse);
        let (token, until, believed) = match (event.grant(), event.f) {
            (Some(grant), _) => (event.token(), event.complete(), grant.valid_until_ns),
            (None, "fenced-write") => {
                let believed = write().is_some_and(|write| write.believed_valid);
                (event.token(), Some(event.position), believed.then(|| event.begin_ns()))
            }
            _ => (None, None, None),
        };
        let (Some(_), Some(until), Some(believed)) = (token, until, believed) else {
            return Err(Refused("nothing was believed valid".into()));
        };
        let bounds = self.claims.lease_bounds();
        let mut known = false;
        for other in self.of_token(event).into_iter().filter(|other| other.position < until) {
            if !matches!(other.f, "acquire" | "renew") || other.outcome() == Some(Outcome::Fail) {
                continue;
            }
            known = true;
            let (from, to) = (other.begin_ns(), other.end_ns());
            let noted = self.of_token(event).into_iter().filter_map(|noted| match noted.log {
                Some(LogEvent::Granted { at, .. }) => at,
                _ => None,
            });
            let noted = noted.filter(|at| at.latest_ns() >= from && at.earliest_ns() <= to);
            let granted =
                noted.map(|at| at.latest_ns()).max().map_or(to, |granted| granted.min(to));
            let lease_ms = other.grant().and_then(|grant| grant.lease_ms);
            let over = lease_ms.is_some_and(|ms| bounds.latest_end_ns(granted, ms) < believed);
            demand(over, "the lease may have been valid")?;
        }
        demand(known, "nothing is known of its lease")
    }

    fn lost(&self, write: &Event<'_>) -> Result<(), Refused> {
        let id = write.id().unwrap_or_default();
        let of_it = self.of_id(write.resource, id);
        let mut acknowledged = of_it.iter().filter(|event| event.call.is_some());
        demand(acknowledged.any(Event::happened), "it was not acknowledged")?;
        let events = self.observed(write.resource);
        let epoch = |event: &Event<'_>| match event.log {
            Some(LogEvent::Snapshot { epoch, .. }) => Some(epoch),
            _ => None,
        };
        let last = events.iter().filter_map(epoch).max();
        if let Some(last) = last {
            let mut snapshots = events.iter().filter(|event| epoch(event) == Some(last));
            return demand(
                snapshots.all(|snapshot| self.misses(snapshot, write.resource, id)),
                "a snapshot has it",
            );
        }
        if self.is_logged(write.resource) {
            let mut lines = of_it.iter().filter(|event| event.f == "resource-write");
            return demand(!lines.any(Event::happened), "the resource accepted it");
        }
        let (Some(of_write), Some(complete)) = (epoch_of(write), write.complete()) else {
            return Err(Refused("its epoch is not known".into()));
        };
        let mut later = events.iter().filter(|event| {
            event.f == "read"
                && event.position > complete
                && epoch_of(event).is_some_and(|read| read > of_write)
        });
        let tells = |read: &Event<'_>| {
            let served = read.answered().and_then(Served::parse);
            let authoritative = served.is_some_and(|served| served.leader);
            (authoritative || self.claims.linearizable_reads)
                && matches!(read.seen(), Some(Seen::Every(_)))
        };
        demand(later.clone().any(tells), "no later epoch was read")?;
        let has = |read: &Event<'_>| match read.seen() {
            Some(Seen::Every(ids)) => ids.contains(&id),
            Some(Seen::Last(last)) => last == Some(id),
            None => true,
        };
        demand(!later.any(has), "a later read has it")
    }

    fn misses(&self, observation: &Event<'_>, resource: Option<&str>, id: &str) -> bool {
        match observation.seen() {
            Some(Seen::Every(ids)) => !ids.contains(&id),
            Some(Seen::Last(None)) => true,
            Some(Seen::Last(Some(last))) => self.is_newer(resource, id, last),
            None => false,
        }
    }

    fn twice(&self, witness: &[Event<'_>]) -> Result<(), Refused> {
        let accepted =
            witness.iter().filter(|e| e.f == "resource-write" && e.happened() && e.id().is_some());
        let ids: Vec<_> = accepted.map(|event| (event.resource, event.id())).collect();
        let lines = ids.len() == 2 && ids[0] == ids[1];
        let repeats = |event: &Event<'_>| match event.seen() {
            Some(Seen::Every(ids)) => ids.iter().collect::<BTreeSet<_>>().len() < ids.len(),
            _ => false,
        };
        demand(lines || witness.iter().any(repeats), "nothing took effect twice")
    }
}
