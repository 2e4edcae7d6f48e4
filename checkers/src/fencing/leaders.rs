//! Leaders: whether two of them were at work at once, by what they served and not by what they
//! say, and how long a deposed one went on.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Claims;
use super::facts::{Facts, Led, Proof, Span};
use super::found::Found;
use super::planted::{Bug, planted};
use super::tell::{Story, length, short};
use crate::EdgeKind;

/// A call that a leader served.
#[derive(Debug, Clone, Copy)]
struct Service {
    resource: u32,
    span: Span,
    proof: Proof,
    is_read: bool,
}

/// Judges all that has to do with who led when.
pub(super) fn judge(facts: &Facts<'_>, claims: &Claims, found: &mut Found) {
    let writes = facts.writes.iter().filter(|write| write.span.is_ok());
    let writes = writes.filter_map(|w| Some((w.resource, w.span, w.served?, false)));
    let reads = facts.reads.iter().filter_map(|r| Some((r.resource, r.span, r.served?, true)));
    let mut services: Vec<Vec<Service>> = vec![Vec::new(); facts.resources.len()];
    for (resource, span, proof, is_read) in writes.chain(reads) {
        if proof.leader || planted(Bug::FollowersLead) {
            let service = Service { resource, span, proof, is_read };
            services[resource as usize].push(service);
        }
    }
    let judge = Judge { facts, claims };
    // In how many epochs somebody served: without two of them nobody took over from anybody.
    let mut epochs: FxHashSet<i64> = FxHashSet::default();
    for mut services in services {
        epochs.extend(services.iter().map(|service| service.proof.epoch));
        // Two ascending runs.
        services.sort_by_key(|service| service.span.invoke);
        found.count("proofs_of_service", services.len() as u64);
        judge.one_epoch(&services, found);
        judge.deposed(&services, found);
    }
    found.count("epochs_served", epochs.len() as u64);
    judge.observed(found);
    judge.handovers(found);
    judge.refusals(found);
}

struct Judge<'a, 'h> {
    facts: &'a Facts<'h>,
    claims: &'a Claims,
}

impl<'h> Judge<'_, 'h> {
    /// Two nodes that served in one epoch.
    fn one_epoch(&self, services: &[Service], found: &mut Found) {
        let mut first: FxHashMap<i64, (&Service, bool)> = FxHashMap::default();
        let mut last = None;
        for service in services {
            let proof = service.proof;
            if last == Some((proof.epoch, proof.node)) {
                continue;
            }
            last = Some((proof.epoch, proof.node));
            let (before, told) = first.entry(proof.epoch).or_insert((service, false));
            let is_one = before.proof.node == proof.node && !planted(Bug::OneNodeIsTwo);
            if is_one || *told && !planted(Bug::EpochsCountAgain) {
                continue;
            }
            *told = true;
            let (a, b) = (before.span.invoke, service.span.invoke);
            let nodes = [before.proof.node, proof.node];
            self.note_epoch([a, b], nodes, proof.epoch, Some(service.resource), found);
        }
    }

    fn note_epoch(
        &self,
        witness: [u32; 2],
        nodes: [u32; 2],
        epoch: i64,
        resource: Option<u32>,
        found: &mut Found,
    ) {
        let name = "dual-leader";
        found.note(name, self.claims.epochs_are_unique(), None, || {
            let [a, b] = nodes.map(|node| self.facts.nodes[node as usize]);
            let resource = resource.map(|resource| self.facts.resources[resource as usize]);
            let summary = format!("{a} and {b} both led in epoch {epoch}");
            Story::of(self.facts.history, name, resource, &witness, summary)
                .say("An epoch has one leader.".into())
                .end()
        });
    }

    /// What a leader served after another one of a later epoch had served: the effects, and for
    /// each old epoch the window. `services` by invocation.
    fn deposed(&self, services: &[Service], found: &mut Found) {
        let completes = services.iter().map(|service| service.span.complete);
        let mut returned: Vec<(u32, u32)> = completes.zip(0..).collect();
        returned.sort_unstable();
        let returned: Vec<&Service> =
            returned.iter().map(|&(_, number)| &services[number as usize]).collect();
        let mut next = 0;
        // The first that served in the latest epoch known, and the same among other nodes.
        let mut latest: [Option<&Service>; 2] = [None, None];
        // For each epoch and node: the last that it served after a later one by another node had.
        let mut windows: BTreeMap<(i64, u32), &Service> = BTreeMap::new();
        for service in services {
            while let Some(done) = returned.get(next)
                && (done.span.complete < service.span.invoke
                    || planted(Bug::OverlappingServicesOrdered)
                        && done.span.complete < service.span.complete)
            {
                latest = later(latest, done);
                if planted(Bug::OnlyTheLatestEpoch) {
                    latest[1] = None;
                }
                next += 1;
            }
            let proof = service.proof;
            let newer = latest
                .into_iter()
                .flatten()
                .find(|other| other.proof.node != proof.node || planted(Bug::OwnEpochsDepose));
            let Some(newer) =
                newer.map(|newer| (newer, newer.proof.epoch)).filter(|&(_, epoch)| {
                    epoch > proof.epoch || planted(Bug::EqualEpochsDepose) && epoch == proof.epoch
                })
            else {
                continue;
            };
            self.note_effect(newer.0, service, found);
            let node = if planted(Bug::OneWindowAnEpoch) { 0 } else { proof.node };
            windows.insert((proof.epoch, node), service);
        }
        if windows.is_empty() {
            return;
        }
        // Who was first to return in each epoch, by node.
        let mut firsts: BTreeMap<(i64, u32), &Service> = BTreeMap::new();
        for service in returned {
            firsts.entry((service.proof.epoch, service.proof.node)).or_insert(service);
        }
        let claimed = self.claims.lease.is_some();
        for ((epoch, node), last) in windows {
            let later = firsts
                .range((epoch.saturating_add(1), 0)..)
                .filter(|((_, other), _)| *other != node);
            let Some(first) = later.map(|(_, first)| first).min_by_key(|s| s.span.complete) else {
                continue;
            };
            let ns = last.span.begin_ns.saturating_sub(first.span.end_ns);
            found.measure("two_leaders_window", i64::try_from(ns).unwrap_or(i64::MAX));
            let name = "dual-leader";
            let (from, to) = (first.span.invoke, last.span.invoke);
            found.note(name, claimed, Some(ns), || {
                let history = self.facts.history;
                let node = self.facts.nodes[node as usize];
                let summary = format!(
                    "{node} still served in epoch {epoch} when its successor had for {}",
                    length(ns)
                );
                let resource = history.op(to).pair().and_then(|(resource, _)| resource.as_str());
                let because = format!("{} is of the earlier epoch", short(history, to));
                Story::of(history, name, resource, &[from, to], summary)
                    .real_time(from, to)
                    .step(to, from, EdgeKind::TokenOrder, because)
                    .end()
            });
        }
    }

    fn note_effect(&self, newer: &Service, old: &Service, found: &mut Found) {
        let claims = self.claims;
        let effect = if old.is_read { claims.linearizable_reads } else { claims.durability };
        let claimed = claims.lease.is_some() || effect;
        let late = old.span.begin_ns.saturating_sub(newer.span.end_ns);
        let name = "dual-leader-effect";
        found.note(name, claimed, Some(late), || {
            let (history, facts) = (self.facts.history, self.facts);
            let (from, to) = (newer.span.invoke, old.span.invoke);
            let [n, o] = [newer.proof, old.proof].map(|proof| facts.nodes[proof.node as usize]);
            let summary = format!(
                "{o} {} in epoch {} after {n} had served in epoch {}",
                if old.is_read { "served a read" } else { "acknowledged a write" },
                old.proof.epoch,
                newer.proof.epoch
            );
            let because = format!(
                "epoch {} is over once epoch {} has begun, so {} comes first",
                old.proof.epoch,
                newer.proof.epoch,
                short(history, to)
            );
            let resource = Some(facts.resources[old.resource as usize]);
            Story::of(history, name, resource, &[from, to], summary)
                .real_time(from, to)
                .step(to, from, EdgeKind::TokenOrder, because)
                .end()
        });
    }

    /// Nodes that held themselves for leaders at one time, or in one epoch.
    fn observed(&self, found: &mut Found) {
        let mut led: Vec<&Led> = self.facts.led.iter().collect();
        let error = |led: &Led| if planted(Bug::LeadersAreExact) { 0 } else { led.error_ns };
        let sure_from = |led: &Led| led.from_ns.saturating_add(error(led));
        let sure_to = |led: &Led| led.to_ns.saturating_sub(error(led));
        led.sort_unstable_by_key(|led| (sure_from(led), led.position));
        let mut first: FxHashMap<i64, (u32, u32)> = FxHashMap::default();
        for led in &led {
            let &mut (node, position) = first.entry(led.epoch).or_insert((led.node, led.position));
            if node != led.node {
                let witness = [position, led.position];
                self.note_epoch(witness, [node, led.node], led.epoch, None, found);
            }
        }
        let claimed = self.claims.lease.is_some();
        let mut longest: [Option<&Led>; 2] = [None, None];
        for led in led {
            let (from, to) = (sure_from(led), sure_to(led));
            if to < from || to == from && !planted(Bug::EmptyTermsOverlap) {
                continue;
            }
            let other = longest
                .into_iter()
                .flatten()
                .find(|other| other.node != led.node || planted(Bug::OwnTermsOverlap));
            if let Some(other) = other
                && (other.epoch != led.epoch || planted(Bug::SameEpochOverlaps))
                && sure_to(other) > from
            {
                let (name, ns) = ("dual-leader", sure_to(other).min(to) - from);
                found.measure("two_leaders_believed_window", ns as i64);
                found.note(name, claimed, Some(ns), || {
                    let [a, b] = [other.node, led.node].map(|node| self.facts.nodes[node as usize]);
                    let summary = format!(
                        "{a} in epoch {} and {b} in epoch {} both held themselves for the leader, \
                         for {} at least",
                        other.epoch,
                        led.epoch,
                        length(ns)
                    );
                    let witness = [other.position, led.position];
                    Story::of(self.facts.history, name, None, &witness, summary).end()
                });
            }
            let [longest_of_all, second] = longest;
            longest = match longest_of_all {
                None => [Some(led), None],
                Some(most) if most.node == led.node => {
                    [if to > sure_to(most) { Some(led) } else { longest_of_all }, second]
                }
                Some(most) if to > sure_to(most) => [Some(led), longest_of_all],
                _ if second.is_none_or(|other| to > sure_to(other)) => [longest_of_all, Some(led)],
                _ => longest,
            };
            if planted(Bug::OnlyTheLongestLeader) {
                longest[1] = None;
            }
        }
    }

    /// What was left between the end of each leader's lease, as it reckons, and the next one's begin: by
    /// so much more pause or skew there would have been two.
    fn handovers(&self, found: &mut Found) {
        if self.claims.lease.is_none() {
            return;
        }
        let mut led: Vec<&Led> = self.facts.led.iter().collect();
        led.sort_unstable_by_key(|led| (led.epoch, led.position));
        for pair in led.windows(2).filter(|pair| pair[0].node != pair[1].node) {
            let end = pair[0].to_ns.saturating_add(pair[0].error_ns);
            let begin = pair[1].from_ns.saturating_sub(pair[1].error_ns);
            let left = i128::from(begin) - i128::from(end);
            found.measure("lease_handover_margin", i64::try_from(left).unwrap_or(i64::MAX));
        }
    }

    /// How long after its takeover a deposed leader or holder met with its first refusal, and how
    /// long after it stepped down.
    fn refusals(&self, found: &mut Found) {
        let facts = self.facts;
        let acquires = facts.by_resource(facts.acquires.iter().map(|acquire| acquire.resource));
        let granted = facts.by_resource(facts.granted.iter().map(|granted| granted.resource));
        for (resource, log) in facts.logs.iter().enumerate() {
            // When each token was first known to be in use: the earliest of all signs.
            let mut begun: Vec<(i64, u64)> = Vec::new();
            let log = &facts.attempts[log.clone()];
            if log.iter().all(|attempt| attempt.accepted) {
                continue;
            }
            let acquired = acquires.facts(resource, &facts.acquires).into_iter();
            begun.extend(acquired.filter_map(|a| Some((a.grant?.token, a.span.end_ns))));
            let noted = granted.facts(resource, &facts.granted).into_iter();
            begun.extend(noted.filter_map(|n| Some((n.token, n.at?.latest_ns()))));
            let accepted = log.iter().filter(|attempt| attempt.accepted);
            for (token, at) in accepted.filter_map(|a| Some((a.token?, a.at?.latest_ns()))) {
                match begun.last_mut() {
                    Some((last, first)) if *last == token => *first = at.min(*first),
                    _ => begun.push((token, at)),
                }
            }
            begun.sort_unstable();
            for i in (1..begun.len()).rev() {
                begun[i - 1].1 = begun[i - 1].1.min(begun[i].1);
            }
            let takeover = |token: i64| {
                begun.get(begun.partition_point(|&(other, _)| other <= token)).map(|&(_, at)| at)
            };
            let mut refused: FxHashMap<i64, u64> = FxHashMap::default();
            for attempt in log.iter().filter(|attempt| !attempt.accepted) {
                let (Some(token), Some(at)) = (attempt.token, attempt.at) else { continue };
                refused.entry(token).or_insert(at.at_ns);
            }
            let mut refused: Vec<(i64, u64)> = refused.into_iter().collect();
            refused.sort_unstable();
            for (token, at_ns) in refused {
                let Some(taken_ns) = takeover(token) else { continue };
                let after =
                    |ns: u64| i64::try_from(ns.saturating_sub(taken_ns)).unwrap_or(i64::MAX);
                found.measure("takeover_to_first_refusal", after(at_ns));
                for led in facts.led.iter().filter(|led| led.epoch == token) {
                    found.measure("takeover_to_step_down", after(led.to_ns));
                }
            }
        }
    }
}

/// Takes one more into account of the first that served in the latest epoch, and of the first in
/// the latest epoch among other nodes than that one's.
fn later<'s>(latest: [Option<&'s Service>; 2], done: &'s Service) -> [Option<&'s Service>; 2] {
    let [first, second] = latest;
    let epoch = done.proof.epoch;
    let is_later = |than: Option<&Service>| than.is_none_or(|than| epoch > than.proof.epoch);
    match first {
        Some(first) if first.proof.node == done.proof.node => {
            [if is_later(Some(first)) { Some(done) } else { Some(first) }, second]
        }
        _ if is_later(first) => [Some(done), first],
        _ if is_later(second) => [first, Some(done)],
        _ => latest,
    }
}
