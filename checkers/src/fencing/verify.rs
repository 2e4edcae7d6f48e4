//! Checks an anomaly against the raw history, on its own: nothing here comes from the sweeps that
//! found it. It is plain, for it runs on a handful of anomalies.

use std::collections::{BTreeMap, BTreeSet};

use deposed_history::fencing::{FencedWrite, LogEvent, Seen, Served};
use deposed_history::{History, Outcome, Process};

use super::Claims;
use super::event::Event;
use super::raw::Raw;
use super::refusal::{Refused, Why, demand};
use crate::{Anomaly, Edge, EdgeKind};

/// Checks one anomaly of [`Fencing`](super::Fencing).
///
/// # Errors
/// If it does not follow from the history: says what is wrong.
pub fn verify(history: &History, claims: &Claims, anomaly: &Anomaly) -> Result<(), Refused> {
    Verifier::of(history, claims, [anomaly], 1).verify(anomaly)
}

/// Checks anomalies of one history.
pub(super) struct Verifier<'a> {
    raw: Raw<'a>,
}

impl<'a> Verifier<'a> {
    /// One for these anomalies, and no others; made on up to so many threads.
    pub(super) fn of<'n>(
        history: &'a History,
        claims: &'a Claims,
        anomalies: impl IntoIterator<Item = &'n Anomaly>,
        threads: usize,
    ) -> Self {
        Self { raw: Raw::of(history, claims, anomalies, threads) }
    }

    /// Checks one of them.
    pub(super) fn verify(&self, anomaly: &Anomaly) -> Result<(), Refused> {
        let raw = &self.raw;
        let witness =
            anomaly.witness.iter().map(|&at| raw.event(at)).collect::<Option<Vec<Event<'_>>>>();
        let witness = witness.unwrap_or_default();
        let Some((first, rest)) = witness.split_first() else {
            return Err(Refused::because(Why::NoWitness));
        };
        for edge in &anomaly.edges {
            raw.edge(edge)?;
        }
        let name = anomaly.name.as_str();
        match (name, &anomaly.edges[..], rest) {
            ("mutual-exclusion", [there, back], _) => {
                let (second, release) = raw.cycle(there, back)?;
                demand(release.f == "release" && second.grant().is_some(), Why::OtherThings)?;
                raw.overlap(name, &witness)
            }
            ("mutual-exclusion" | "lease-overlap", [], _) => raw.overlap(name, &witness),
            ("lost-acked-write", [there, back], _) => {
                raw.cycle(there, back)?;
                raw.lost_of(&witness)
            }
            (_, [there, back], _) => {
                let (before, after) = raw.cycle(there, back)?;
                raw.contradiction(name, there, back, &before, &after)
            }
            ("dual-leader", [], [second]) => raw.two_leaders(first, second),
            ("duplicate-token", [], [second]) => raw.duplicate(first, second),
            ("unissued-token", [], []) => raw.unissued(first),
            ("overclaimed-lease", [], []) => raw.overclaimed(first),
            ("lost-acked-write", [], _) => raw.lost_of(&witness),
            ("duplicate-apply", ..) => raw.twice(&witness),
            _ => Err(Refused::because(Why::UnknownShape)),
        }
    }
}

/// Whether it is a write with a token that took effect, as the resource or else its client tells.
fn is_accepted(event: &Event<'_>) -> bool {
    matches!(event.f, "fenced-write" | "resource-write")
        && event.token().is_some()
        && event.happened()
}

/// Until which moment an accepted write took effect at the latest.
fn latest_ns(event: &Event<'_>) -> u64 {
    match event.log {
        Some(LogEvent::Write { at, .. }) => at.map_or(u64::MAX, |at| at.latest_ns()),
        _ => event.end_ns(),
    }
}

/// The epoch of whoever served a call.
fn epoch_of(event: &Event<'_>) -> Option<i64> {
    event.answered().and_then(Served::parse).map(|served| served.epoch)
}

/// The epoch of a snapshot, if it is one.
fn snapshot_of(event: &Event<'_>) -> Option<Option<i64>> {
    match event.log {
        Some(LogEvent::Snapshot { epoch, .. }) => Some(epoch),
        _ => None,
    }
}

impl<'h> Raw<'h> {
    /// Whether a step holds by itself.
    fn edge(&self, edge: &Edge) -> Result<(), Refused> {
        let (from, to) = (self.event(edge.from), self.event(edge.to));
        let (Some(from), Some(to)) = (from, to) else {
            return Err(Refused::because(Why::NoWitness));
        };
        demand(from.resource == to.resource, Why::TwoResources)?;
        let holds = match edge.kind {
            EdgeKind::RealTime => self.is_before(&from, &to),
            EdgeKind::ResourceOrder => match (&from.log, &to.log) {
                (Some(LogEvent::Write { seq: a, .. }), Some(LogEvent::Write { seq: b, .. })) => {
                    (a, from.position) < (b, to.position)
                }
                _ => false,
            },
            // Of tokens or of epochs: that depends on the anomaly.
            EdgeKind::TokenOrder => true,
            EdgeKind::GrantUse => {
                let excludes = from.f == "release" && matches!(to.f, "acquire" | "renew");
                excludes || from.token().is_some() && from.token() == to.token()
            }
            EdgeKind::ReadWrite => to.id().is_some_and(|id| self.misses(&from, to.resource, id)),
            EdgeKind::Process | EdgeKind::WriteRead | EdgeKind::WriteWrite => false,
        };
        demand(holds, Why::NoStep)
    }

    /// The two ends of two steps that make a cycle.
    fn cycle(&self, there: &Edge, back: &Edge) -> Result<(Event<'h>, Event<'h>), Refused> {
        demand((there.from, there.to) == (back.to, back.from), Why::OtherSteps)?;
        let ends = self.event(there.from).zip(self.event(there.to));
        ends.ok_or(Refused::because(Why::NoWitness))
    }

    /// An anomaly in which one event came before another one, and so must not.
    fn contradiction(
        &self,
        name: &str,
        there: &Edge,
        back: &Edge,
        before: &Event<'h>,
        after: &Event<'h>,
    ) -> Result<(), Refused> {
        use EdgeKind::{GrantUse, ReadWrite, RealTime, ResourceOrder, TokenOrder};
        let logged = self.is_logged(before.resource);
        let order = match name {
            "token-regression" => ResourceOrder,
            "stale-token-accepted" if logged => ResourceOrder,
            _ => RealTime,
        };
        let reason = match name {
            "stale-read-under-lease" => ReadWrite,
            "lost-notification" | "use-after-release" => GrantUse,
            _ => TokenOrder,
        };
        demand((there.kind, back.kind) == (order, reason), Why::OtherSteps)?;
        let is_acquire = |event: &Event<'_>| event.f == "acquire" && event.grant().is_some();
        let is_line = |event: &Event<'_>| event.log.is_some() && is_accepted(event);
        let is_noted = |event: &Event<'_>| matches!(event.log, Some(LogEvent::Granted { .. }));
        let is_of_it = match name {
            "token-regression" => is_line(before) && is_line(after),
            "stale-token-accepted" => is_accepted(before) && is_accepted(after),
            "stale-token-after-newer-grant" => {
                (is_acquire(before) || is_noted(before)) && is_line(after)
            }
            "token-grant-order" => is_acquire(before) && is_acquire(after),
            "dual-leader" | "dual-leader-effect" => {
                before.served().is_some() && after.served().is_some()
            }
            "stale-read-under-lease" => {
                before.call.is_some() && before.happened() && after.call.is_some()
            }
            "lost-notification" => {
                matches!(before.log, Some(LogEvent::Ended { .. })) && after.f == "renew"
            }
            "use-after-release" => {
                before.f == "release" && before.happened() && after.f == "fenced-write"
            }
            _ => return Err(Refused::because(Why::UnknownShape)),
        };
        demand(is_of_it, Why::OtherThings)?;
        match name {
            "dual-leader" | "dual-leader-effect" => {
                let (Some(newer), Some(older)) = (before.served(), after.served()) else {
                    return Err(Refused::because(Why::OtherThings));
                };
                demand(newer.epoch > older.epoch, Why::InOrder)?;
                demand(newer.node != older.node, Why::OneNode)
            }
            "stale-read-under-lease" => {
                let id = before.id().unwrap_or_default();
                demand(self.lost(before.resource, id).is_err(), Why::Lost)
            }
            "lost-notification" => demand(after.happened(), Why::NotAccepted),
            "use-after-release" => self.used(before, after, logged),
            _ => demand(before.token() > after.token(), Why::InOrder),
        }
    }

    fn is_before(&self, from: &Event<'_>, to: &Event<'_>) -> bool {
        let noted_ns = match &from.log {
            Some(LogEvent::Granted { at, .. } | LogEvent::Ended { at, .. }) => {
                at.map(|at| at.latest_ns())
            }
            Some(_) => return false,
            None => None,
        };
        // A line of a log is collected long after what it tells of.
        let earliest_ns = match &to.log {
            Some(LogEvent::Write { at, id, .. }) => {
                let of_id = id.iter().flat_map(|id| self.of_id(to.resource, id));
                let begun = of_id.filter(|event| event.call.is_some());
                at.map(|at| at.earliest_ns()).max(begun.map(|event| event.begin_ns()).min())
            }
            _ => Some(to.begin_ns()),
        };
        match (noted_ns, &to.log) {
            (Some(noted), _) => earliest_ns.is_some_and(|earliest| noted < earliest),
            (None, Some(LogEvent::Write { .. })) => {
                earliest_ns.is_some_and(|earliest| from.end_ns() < earliest)
            }
            (None, _) => from.complete().is_some_and(|complete| complete < to.position),
        }
    }

    /// Whether one write certainly took effect after another one had for the last time.
    fn is_newer(&self, resource: Option<&str>, id: &str, than: &str) -> bool {
        let accepted = |id: &'_ str| {
            let lines: Vec<(u64, u32)> = self
                .of_id(resource, id)
                .into_iter()
                .filter_map(|event| match event.log {
                    Some(LogEvent::Write { seq, accepted: true, .. }) => {
                        Some((seq, event.position))
                    }
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

    /// A write that began after its owner had released, and was accepted.
    fn used(&self, release: &Event<'_>, write: &Event<'_>, logged: bool) -> Result<(), Refused> {
        demand(release.process() == write.process(), Why::ReleasedByAnother)?;
        let again = self.of_token(release).into_iter().any(|event| {
            event.f == "acquire"
                && event.process() == write.process()
                && event.complete().is_some_and(|complete| complete < write.position)
                && event.complete() > release.complete()
        });
        demand(!again, Why::Reacquired)?;
        let id = write.id().unwrap_or_default();
        let of_id = self.of_id(write.resource, id);
        let mut accepted = of_id
            .iter()
            .filter(|event| event.log.is_some() == logged)
            .filter(|event| is_accepted(event) && event.token() == write.token());
        // Without a log, its own answer tells, if no earlier try had been accepted.
        let first = accepted.next();
        let is_it = first.is_some_and(|first| logged || first.position == write.position);
        demand(is_it, Why::NotAccepted)
    }

    fn two_leaders(&self, first: &Event<'h>, second: &Event<'h>) -> Result<(), Refused> {
        demand(first.resource == second.resource, Why::TwoResources)?;
        let term = |event: &Event<'h>| match event.log {
            Some(LogEvent::Led { node, epoch, from_ns, to_ns, error_ns }) => {
                let (from, to) = (from_ns.saturating_add(error_ns), to_ns.saturating_sub(error_ns));
                Some((node, epoch, from, to))
            }
            _ => None,
        };
        if let (Some(a), Some(b)) = (term(first), term(second)) {
            demand(a.0 != b.0, Why::OneNode)?;
            return demand(a.1 == b.1 || a.2.max(b.2) < a.3.min(b.3), Why::ApartInTime);
        }
        let (Some(a), Some(b)) = (first.served(), second.served()) else {
            return Err(Refused::because(Why::OtherThings));
        };
        demand(a.node != b.node, Why::OneNode)?;
        demand(a.epoch == b.epoch, Why::TwoEpochs)
    }

    fn duplicate(&self, first: &Event<'_>, second: &Event<'_>) -> Result<(), Refused> {
        let grants = first.grant().zip(second.grant());
        let Some((a, b)) = grants.filter(|_| first.f == "acquire" && second.f == "acquire") else {
            return Err(Refused::because(Why::OtherThings));
        };
        demand(first.resource == second.resource, Why::TwoResources)?;
        demand(a.token == b.token, Why::TwoTokens)?;
        let is_another = first.position != second.position;
        let released = || {
            self.of_token(first).into_iter().any(|event| {
                event.f == "release"
                    && event.process() == first.process()
                    && event.outcome() != Some(Outcome::Fail)
                    && first.position < event.position
                    && event.position < second.position
            })
        };
        let reentered = first.process() == second.process() && !released();
        demand(is_another && !reentered, Why::Reentered)
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

    fn overlap(&self, name: &str, witness: &[Event<'_>]) -> Result<(), Refused> {
        let mut grants: Vec<&Event<'_>> = witness.iter().filter(|e| e.grant().is_some()).collect();
        grants.sort_by_key(|event| event.complete());
        let [first, second] = grants[..] else {
            return Err(Refused::because(Why::UnknownShape));
        };
        let (Some(from), Some(to)) = (first.complete(), second.complete()) else {
            return Err(Refused::because(Why::OtherThings));
        };
        demand(first.resource == second.resource, Why::TwoResources)?;
        demand(self.owner(first) != self.owner(second), Why::OneHolder)?;
        let leased = |event: &Event<'_>| event.grant().and_then(|grant| grant.lease_ms);
        demand(leased(first).is_some() == (name == "lease-overlap"), Why::OtherHold)?;
        let released = self.of_token(first).into_iter().any(|event| {
            event.f == "release"
                && event.outcome() != Some(Outcome::Fail)
                && (from..to).contains(&event.position)
        });
        demand(!released, Why::Released)?;
        let holders = [first.process(), self.owner(first)];
        let mut lost = self.disconnected().iter();
        let lost = lost.any(|(process, at)| holders.contains(process) && (from..to).contains(at));
        demand(!lost, Why::Disconnected)?;
        let bounds = self.claims.lease_bounds();
        let in_force = |event: &Event<'_>| match leased(event) {
            Some(ms) => bounds.certain_end_ns(event.begin_ns(), ms) > second.end_ns(),
            None => true,
        };
        demand(in_force(first) && in_force(second), Why::MayBeOver)
    }

    fn unissued(&self, accept: &Event<'_>) -> Result<(), Refused> {
        let logged = self.is_logged(accept.resource);
        let counts = |event: &Event<'_>| is_accepted(event) && event.log.is_some() == logged;
        demand(counts(accept), Why::NotAccepted)?;
        let events = self.whole(accept.resource);
        // By token: the earliest moment in which somebody may have been given it.
        let mut issued: BTreeMap<i64, u64> = self.led().iter().map(|&epoch| (epoch, 0)).collect();
        let mut told = false;
        for event in &events {
            let from = match (&event.log, event.f) {
                (Some(LogEvent::Granted { .. }), _) => 0,
                (None, "acquire") => event.begin_ns(),
                _ => continue,
            };
            told |= event.outcome() != Some(Outcome::Fail);
            if let Some(token) = event.token() {
                issued.entry(token).and_modify(|first| *first = from.min(*first)).or_insert(from);
            }
        }
        demand(told, Why::NobodyTells)?;
        let is_issued = |token: i64, by: u64| issued.get(&token).is_some_and(|&from| from <= by);
        let deadline = latest_ns(accept);
        let unissued: BTreeSet<i64> = events
            .iter()
            .filter(|event| counts(event) && latest_ns(event) <= deadline)
            .filter_map(|event| Some((event.token()?, latest_ns(event))))
            .filter(|&(token, by)| !is_issued(token, by))
            .map(|(token, _)| token)
            .collect();
        let lost = events.iter().filter(|event| {
            event.f == "acquire"
                && event.outcome() == Some(Outcome::Info)
                && event.begin_ns() <= deadline
        });
        let is_one = accept.token().is_some_and(|token| unissued.contains(&token));
        demand(is_one && unissued.len() > lost.count(), Why::MayBeIssued)
    }

    fn overclaimed(&self, event: &Event<'_>) -> Result<(), Refused> {
        let write = || event.asked().and_then(FencedWrite::parse);
        let (until, believed) = match (event.grant(), event.f) {
            (Some(grant), _) => (event.complete(), grant.valid_until_ns),
            (None, "fenced-write") => {
                let believed = write().is_some_and(|write| write.believed_valid);
                (Some(event.position), believed.then(|| event.begin_ns()))
            }
            _ => (None, None),
        };
        let (Some(until), Some(believed)) = (until, believed) else {
            return Err(Refused::because(Why::NoBelief));
        };
        let bounds = self.claims.lease_bounds();
        let of_token = self.of_token(event);
        let mut grants = of_token
            .iter()
            .filter(|other| matches!(other.f, "acquire" | "renew") && other.position < until)
            .filter(|other| other.outcome() != Some(Outcome::Fail))
            .peekable();
        demand(grants.peek().is_some(), Why::NoLease)?;
        let is_over = |grant: &Event<'_>| {
            let (from, to) = (grant.begin_ns(), grant.end_ns());
            let noted = of_token.iter().filter_map(|noted| match noted.log {
                Some(LogEvent::Granted { at, .. }) => at,
                _ => None,
            });
            let noted = noted.filter(|at| at.latest_ns() >= from && at.earliest_ns() <= to);
            let granted =
                noted.map(|at| at.latest_ns()).max().map_or(to, |granted| granted.min(to));
            let lease_ms = grant.grant().and_then(|grant| grant.lease_ms);
            lease_ms.is_some_and(|ms| bounds.latest_end_ns(granted, ms) < believed)
        };
        demand(grants.all(is_over), Why::MayBeValid)
    }

    /// Whether the write among some witnesses is lost.
    fn lost_of(&self, witness: &[Event<'_>]) -> Result<(), Refused> {
        let mut writes = witness.iter().filter(|event| event.call.is_some());
        let write = writes.find_map(|event| Some((event.resource, event.id()?)));
        let (resource, id) = write.ok_or(Refused::because(Why::NoWitness))?;
        self.lost(resource, id)
    }

    /// Whether an acknowledged write is in nothing that has the last word.
    fn lost(&self, resource: Option<&str>, id: &str) -> Result<(), Refused> {
        let of_it = self.of_id(resource, id);
        let acknowledged = of_it.iter().filter(|event| event.call.is_some() && event.happened());
        let Some(write) = acknowledged.min_by_key(|event| event.complete()) else {
            return Err(Refused::because(Why::NotAcknowledged));
        };
        let events = self.observed(resource);
        let last = events.iter().filter_map(snapshot_of).max();
        if let Some(last) = last {
            let mut snapshots = events.iter().filter(|event| snapshot_of(event) == Some(last));
            let missed = snapshots.all(|snapshot| self.misses(snapshot, resource, id));
            return demand(missed, Why::Survives);
        }
        if self.is_logged(resource) {
            let mut lines = of_it.iter().filter(|event| event.f == "resource-write");
            return demand(!lines.any(Event::happened), Why::Survives);
        }
        let (Some(of_write), Some(complete)) = (epoch_of(write), write.complete()) else {
            return Err(Refused::because(Why::NothingTells));
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
        demand(later.clone().any(tells), Why::NothingTells)?;
        let has = |read: &Event<'_>| match read.seen() {
            Some(Seen::Every(ids)) => ids.contains(&id),
            Some(Seen::Last(last)) => last == Some(id),
            None => true,
        };
        demand(!later.any(has), Why::Survives)
    }

    /// Whether an observation certainly does not have a write.
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
        let lines: Vec<_> = accepted.collect();
        if let [first, second] = lines[..] {
            let same = (first.resource, first.id()) == (second.resource, second.id());
            return demand(same && first.position != second.position, Why::Once);
        }
        let repeats = |event: &&Event<'_>| match event.seen() {
            Some(Seen::Every(ids)) => ids.iter().collect::<BTreeSet<_>>().len() < ids.len(),
            _ => false,
        };
        let Some(seen) = witness.iter().find(repeats) else {
            return Err(Refused::because(Why::Once));
        };
        let last = self.observed(seen.resource).iter().filter_map(snapshot_of).max();
        demand(seen.call.is_some() || snapshot_of(seen) == last, Why::OldSnapshot)
    }
}
