//! Where a raw history has more about what anomalies are about: found for all of them in one pass, by
//! nothing of what the sweeps have read.

use std::collections::BTreeSet;

use deposed_history::fencing::{Asked, Line, Payloads, Seen, Token};
use deposed_history::{History, Outcome, Process, Symbol};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Claims;
use super::event::{Event, event};
use crate::Anomaly;

/// What anomalies are about, and where in the history there is more about it.
pub(super) struct Raw<'a> {
    pub(super) history: &'a History,
    pub(super) claims: &'a Claims,
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
    pub(super) led: BTreeSet<i64>,
    /// Calls of unknown outcome: who, and where it began.
    pub(super) disconnected: Vec<(Process, u32)>,
}

impl<'h> Raw<'h> {
    pub(super) fn of<'n>(
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

    pub(super) fn event(&self, position: u32) -> Option<Event<'h>> {
        event(self.history, position)
    }

    fn events(&self, positions: Option<&Vec<u32>>) -> Vec<Event<'h>> {
        positions.into_iter().flatten().filter_map(|&at| self.event(at)).collect()
    }

    /// Calls and lines with an id.
    pub(super) fn of_id(&self, resource: Option<&str>, id: &str) -> Vec<Event<'h>> {
        self.events(resource.and_then(|resource| self.of_id.get(&(resource, id))))
    }

    /// Grants, renewals, releases and what is noted of them with a token.
    pub(super) fn of_token(&self, of: &Event<'_>) -> Vec<Event<'h>> {
        let key = of.resource.zip(of.token());
        self.events(key.and_then(|key| self.of_token.get(&key)))
    }

    /// Everything of a resource that every event matters of.
    pub(super) fn whole(&self, resource: Option<&str>) -> Vec<Event<'h>> {
        self.events(resource.and_then(|resource| self.whole.get(resource)))
    }

    /// Snapshots and reads of a resource.
    pub(super) fn observed(&self, resource: Option<&str>) -> Vec<Event<'h>> {
        self.events(resource.and_then(|resource| self.observed.get(resource)))
    }

    pub(super) fn is_logged(&self, resource: Option<&str>) -> bool {
        resource.is_some_and(|resource| self.logged.contains(resource))
    }
}
