//! Where a raw history has more about what anomalies are about: found for all of them in one pass, by
//! nothing of what the sweeps have read.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::ops::Range;

use deposed_history::fencing::{Asked, Line, Payloads, Seen, Token};
use deposed_history::{History, Outcome, Process, Symbol};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Claims;
use super::event::{Event, event};
use crate::Anomaly;
use crate::parallel::in_parallel;

/// Events that are looked at in one go.
const STRIDE: u32 = 1 << 16;

/// What anomalies are about, and where in the history there is more about it.
pub(super) struct Raw<'a> {
    pub(super) history: &'a History,
    pub(super) claims: &'a Claims,
    places: Places<'a>,
}

/// Where in a history there is something of what was noted, in the order of the events.
#[derive(Debug, Clone, Default)]
struct Places<'a> {
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

impl<'a> Places<'a> {
    /// Notes what an anomaly is about.
    fn look_for(&mut self, history: &'a History, anomaly: &Anomaly) {
        let ends = anomaly.edges.iter().flat_map(|edge| [edge.from, edge.to]);
        for position in anomaly.witness.iter().copied().chain(ends) {
            let Some(event) = event(history, position) else { continue };
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

    /// Which symbols are resources or ids that matter: mostly, neither are.
    fn matters(&self, history: &History) -> Vec<bool> {
        let mut matters = vec![false; history.symbol_count()];
        let resources = self.observed.keys().copied();
        for text in resources.chain(self.of_id.keys().map(|&(_, id)| id)) {
            if let Some(symbol) = history.symbol(text) {
                matters[symbol.index()] = true;
            }
        }
        matters
    }

    /// Finds all there is of what was noted among some of the events.
    fn gather(&mut self, history: &'a History, matters: &[bool], events: Range<u32>) {
        let payloads = Payloads::of(history);
        let matters = |symbol: Symbol| matters[symbol.index()];
        let calls = history.calls();
        let at = |position: u32| calls.partition_point(|call| call.invoke < position);
        for call in &calls[at(events.start)..at(events.end)] {
            let at = call.invoke;
            if call.outcome() == Outcome::Info {
                self.disconnected.push((history.op(at).process(), at));
            }
            let Some(Some((resource, asked))) = payloads.asked(at) else { continue };
            if !matters(resource) {
                continue;
            }
            let resource = history.text(resource);
            match asked {
                Asked::Acquire => {
                    let grant = call.complete().filter(|_| call.outcome() == Outcome::Ok);
                    let grant = grant.and_then(|complete| payloads.grant(complete));
                    self.add(at, resource, None, grant.map(|grant| grant.token));
                }
                Asked::Renew(Token(token)) | Asked::Release(Token(token)) => {
                    self.add(at, resource, None, Some(token));
                }
                Asked::Write(write) => {
                    let id = Some(write.id).filter(|&id| matters(id));
                    self.add(at, resource, id.map(|id| history.text(id)), None);
                }
                Asked::Read => self.observe(at, resource),
            }
        }
        let mut last = None;
        for at in events {
            match payloads.line(at).flatten() {
                Some(Line::Write { resource, id, .. }) if matters(resource) => {
                    if last != Some(resource) {
                        self.logged.insert(history.text(resource));
                        last = Some(resource);
                    }
                    let id = id.filter(|&id| matters(id));
                    self.add(at, history.text(resource), id.map(|id| history.text(id)), None);
                }
                Some(Line::Snapshot { resource, .. }) if matters(resource) => {
                    self.observe(at, history.text(resource));
                }
                Some(
                    Line::Granted { resource, token, .. } | Line::Ended { resource, token, .. },
                ) if matters(resource) => {
                    self.add(at, history.text(resource), None, Some(token));
                }
                Some(Line::Led { epoch, .. }) => {
                    self.led.insert(epoch);
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, position: u32, resource: &'a str, id: Option<&'a str>, token: Option<i64>) {
        let of_id = id.and_then(|id| self.of_id.get_mut(&(resource, id)));
        let of_token = token.and_then(|token| self.of_token.get_mut(&(resource, token)));
        let whole = if self.whole.is_empty() { None } else { self.whole.get_mut(resource) };
        for places in [of_id, of_token, whole].into_iter().flatten() {
            places.push(position);
        }
    }

    fn observe(&mut self, position: u32, resource: &str) {
        if let Some(observed) = self.observed.get_mut(resource) {
            observed.push(position);
        }
    }

    /// Adds what was found among later events.
    fn append(&mut self, later: Self) {
        fn each<K: Eq + Hash>(places: &mut FxHashMap<K, Vec<u32>>, later: FxHashMap<K, Vec<u32>>) {
            for (key, positions) in later {
                places.entry(key).or_default().extend(positions);
            }
        }
        each(&mut self.of_id, later.of_id);
        each(&mut self.of_token, later.of_token);
        each(&mut self.whole, later.whole);
        each(&mut self.observed, later.observed);
        self.logged.extend(later.logged);
        self.led.extend(later.led);
        self.disconnected.extend(later.disconnected);
    }
}

impl<'h> Raw<'h> {
    /// What there is about some anomalies, found on up to so many threads.
    pub(super) fn of<'n>(
        history: &'h History,
        claims: &'h Claims,
        anomalies: impl IntoIterator<Item = &'n Anomaly>,
        threads: usize,
    ) -> Self {
        let mut places = Places::default();
        for anomaly in anomalies {
            places.look_for(history, anomaly);
        }
        let matters = places.matters(history);
        let len = history.len() as u32;
        let starts = (0..len).step_by(STRIDE as usize);
        let parts = starts.map(|start| start..len.min(start + STRIDE)).collect();
        let found = in_parallel(threads, parts, |events| {
            let mut places = places.clone();
            places.gather(history, &matters, events);
            places
        });
        for part in found {
            places.append(part);
        }
        Self { history, claims, places }
    }

    pub(super) fn event(&self, position: u32) -> Option<Event<'h>> {
        event(self.history, position)
    }

    fn events(&self, positions: Option<&Vec<u32>>) -> Vec<Event<'h>> {
        positions.into_iter().flatten().filter_map(|&at| self.event(at)).collect()
    }

    /// Calls and lines with an id.
    pub(super) fn of_id(&self, resource: Option<&str>, id: &str) -> Vec<Event<'h>> {
        self.events(resource.and_then(|resource| self.places.of_id.get(&(resource, id))))
    }

    /// Grants, renewals, releases and what is noted of them with a token.
    pub(super) fn of_token(&self, of: &Event<'_>) -> Vec<Event<'h>> {
        let key = of.resource.zip(of.token());
        self.events(key.and_then(|key| self.places.of_token.get(&key)))
    }

    /// Everything of a resource that every event matters of.
    pub(super) fn whole(&self, resource: Option<&str>) -> Vec<Event<'h>> {
        self.events(resource.and_then(|resource| self.places.whole.get(resource)))
    }

    /// Snapshots and reads of a resource.
    pub(super) fn observed(&self, resource: Option<&str>) -> Vec<Event<'h>> {
        self.events(resource.and_then(|resource| self.places.observed.get(resource)))
    }

    pub(super) fn is_logged(&self, resource: Option<&str>) -> bool {
        resource.is_some_and(|resource| self.places.logged.contains(resource))
    }

    /// Epochs in which a node held itself for the leader.
    pub(super) fn led(&self) -> &BTreeSet<i64> {
        &self.places.led
    }

    /// Calls of unknown outcome: who, and where it began.
    pub(super) fn disconnected(&self) -> &[(Process, u32)] {
        &self.places.disconnected
    }
}
