//! Tokens: who was given which, and what resources made of them.

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::Claims;
use super::facts::{Acquire, Facts, NONE, Noted, Release, Span, Write};
use super::found::Found;
use super::planted::{Bug, planted};
use super::tell::{Story, length, short};
use crate::EdgeKind;

/// A write with a token that took effect.
#[derive(Debug, Clone, Copy)]
struct Accept {
    /// The line of the log, or the call if the resource has no log.
    position: u32,
    token: i64,
    /// The write, if its id is known.
    id: Option<u32>,
    /// It took effect no earlier and no later.
    earliest_ns: Option<u64>,
    latest_ns: u64,
    /// Position of one that had taken effect before, with a greater token.
    newer: Option<u32>,
}

/// Judges all that has to do with the order of tokens.
pub(super) fn judge(facts: &Facts<'_>, claims: &Claims, found: &mut Found) {
    let acquires = facts.by_resource(facts.acquires.iter().map(|acquire| acquire.resource));
    let releases = facts.by_resource(facts.releases.iter().map(|release| release.resource));
    let granted = facts.by_resource(facts.granted.iter().map(|granted| granted.resource));
    let writes = facts.by_resource(facts.writes.iter().map(|write| write.resource));
    for (number, resource) in facts.resources.iter().enumerate() {
        let judge = Judge {
            facts,
            claims,
            number,
            resource,
            acquires: acquires.facts(number, &facts.acquires),
            releases: releases.facts(number, &facts.releases),
            granted: granted.facts(number, &facts.granted),
            writes: writes.facts(number, &facts.writes),
        };
        judge.duplicates(found);
        judge.grant_order(found);
        let logged = !facts.logs[number].is_empty();
        let accepts = if logged { judge.log(found) } else { judge.calls() };
        found.count("accepted_with_token", accepts.len() as u64);
        judge.stale(&accepts, found);
        judge.unissued(&accepts, found);
        if logged {
            judge.after_newer_grant(&accepts, found);
        }
        judge.after_release(&accepts, logged, found);
    }
}

struct Judge<'a, 'h> {
    facts: &'a Facts<'h>,
    claims: &'a Claims,
    number: usize,
    resource: &'h str,
    acquires: Vec<&'a Acquire>,
    releases: Vec<&'a Release>,
    granted: Vec<&'a Noted>,
    writes: Vec<&'a Write>,
}

impl<'h> Judge<'_, 'h> {
    fn story(&self, name: &str, witness: &[u32], summary: String) -> Story<'h> {
        Story::of(self.facts.history, name, Some(self.resource), witness, summary)
    }

    /// Two grants with one token. A holder that asks again and gets the token it still has is
    /// no harm: the lock is reentrant.
    fn duplicates(&self, found: &mut Found) {
        let mut granted: Vec<(i64, &Acquire)> =
            self.acquires.iter().filter_map(|a| Some((a.grant?.token, *a))).collect();
        granted.sort_by_key(|(token, acquire)| (*token, acquire.span.complete));
        // Where each process gave each token back, once anybody wants to know.
        let mut released: Option<FxHashMap<(u32, i64), Vec<u32>>> = None;
        for pair in granted.windows(2) {
            let [(token, first), (other, second)] = [pair[0], pair[1]];
            if token != other {
                continue;
            }
            let released = released.get_or_insert_with(|| {
                let mut released: FxHashMap<(u32, i64), Vec<u32>> = FxHashMap::default();
                for release in &self.releases {
                    let of_token = released.entry((release.process, release.token)).or_default();
                    of_token.push(release.span.invoke);
                }
                released
            });
            let between = first.span.complete..second.span.invoke;
            let given_back = released.get(&(first.process, token)).is_some_and(|releases| {
                let next = releases.partition_point(|&release| release < between.start);
                planted(Bug::AnyReleaseReturns)
                    || releases.get(next).is_some_and(|release| between.contains(release))
            });
            let given_back = given_back && !planted(Bug::ReturnedMayBeGranted)
                || planted(Bug::ReentryIsDuplicate);
            let is_holder = first.process == second.process || planted(Bug::OthersReenter);
            if is_holder && !given_back {
                continue;
            }
            found.note("duplicate-token", self.claims.fencing, None, || {
                let witness = [first.span.invoke, second.span.invoke];
                let summary = format!("token {token} of {} was granted twice", self.resource);
                let why = if first.process == second.process {
                    format!("Process {} had released it in between.", first.process)
                } else {
                    format!(
                        "Processes {} and {} cannot be told apart by {} any more.",
                        first.process, second.process, self.resource
                    )
                };
                self.story("duplicate-token", &witness, summary).say(why).end()
            });
        }
    }

    /// A grant that came after another one had returned, with a smaller token.
    fn grant_order(&self, found: &mut Found) {
        let mut returned: Vec<(u32, i64, u32)> = self
            .acquires
            .iter()
            .filter_map(|a| Some((a.span.complete, a.grant?.token, a.span.invoke)))
            .collect();
        returned.sort_unstable();
        let (mut next, mut greatest) = (0, None::<(i64, u32)>);
        for acquire in &self.acquires {
            let Some(grant) = acquire.grant else { continue };
            while let Some(&(complete, token, invoke)) = returned.get(next)
                && (complete < acquire.span.invoke
                    || planted(Bug::OverlappingGrantsOrdered) && complete < acquire.span.complete)
            {
                let last = planted(Bug::GrantsFollowTheLast);
                if greatest.is_none_or(|(most, _)| token > most || last) {
                    greatest = Some((token, invoke));
                }
                next += 1;
            }
            let Some((token, before)) = greatest.filter(|(most, _)| {
                *most > grant.token || planted(Bug::EqualGrantsGoBack) && *most == grant.token
            }) else {
                continue;
            };
            let after = acquire.span.invoke;
            found.note("token-grant-order", self.claims.fencing, None, || {
                let summary = format!(
                    "token {} of {} was granted after token {token}",
                    grant.token, self.resource
                );
                self.story("token-grant-order", &[before, after], summary)
                    .real_time(before, after)
                    .step(
                        after,
                        before,
                        EdgeKind::TokenOrder,
                        format!("token {} is smaller than token {token}", grant.token),
                    )
                    .end()
            });
        }
    }

    /// What the resource accepted, by its own log. Notes where that goes back.
    fn log(&self, found: &mut Found) -> Vec<Accept> {
        let facts = self.facts;
        let mut accepts: Vec<Accept> = Vec::new();
        let mut greatest: Option<(i64, u32)> = None;
        let mut bare = 0;
        for attempt in &facts.attempts[facts.logs[self.number].clone()] {
            let Some(token) = attempt.token else {
                bare += u64::from(attempt.accepted);
                continue;
            };
            if !attempt.accepted && !planted(Bug::RefusedIsAccepted) {
                continue;
            }
            let begun = attempt.id.map(|id| &facts.fates[id as usize]);
            let begun = begun.filter(|fate| fate.invoke != NONE).map(|fate| fate.begin_ns);
            let begun = begun.filter(|_| !planted(Bug::EffectsBeforeBegun));
            let exact = planted(Bug::LinesAreExact);
            let noted = attempt.at.map(|at| if exact { at.at_ns } else { at.earliest_ns() });
            let newer = greatest.filter(|(most, _)| *most > token).map(|(_, at)| at);
            if let Some(before) = accepts.last().filter(|before| {
                before.token > token
                    || planted(Bug::RegressionFromGreatest) && newer.is_some()
                    || planted(Bug::EqualTokensGoBack) && before.token == token
            }) {
                self.regression(before, attempt.position, token, found);
            }
            if newer.is_none() || planted(Bug::StaleByTheLast) {
                greatest = Some((token, attempt.position));
            }
            accepts.push(Accept {
                position: attempt.position,
                token,
                id: attempt.id,
                earliest_ns: noted.max(begun),
                latest_ns: attempt
                    .at
                    .map_or(u64::MAX, |at| if exact { at.at_ns } else { at.latest_ns() }),
                newer,
            });
        }
        found.count("accepted_without_token", bare);
        accepts
    }

    fn regression(&self, before: &Accept, after: u32, token: i64, found: &mut Found) {
        found.note("token-regression", self.claims.fencing, None, || {
            let summary = format!(
                "{} accepted token {token} right after token {}",
                self.resource, before.token
            );
            let story = self.story("token-regression", &[before.position, after], summary);
            self.backwards(story, before.position, after).end()
        });
    }

    /// The cycle of two writes that were accepted in the wrong order.
    fn backwards(&self, story: Story<'h>, newer: u32, older: u32) -> Story<'h> {
        let history = self.facts.history;
        let (a, b) = (short(history, newer), short(history, older));
        let story = if history.op(newer).process().client().is_some() {
            story.real_time(newer, older)
        } else {
            let because = format!("{} handled {a} before {b}", self.resource);
            story.step(newer, older, EdgeKind::ResourceOrder, because)
        };
        let because = format!("{b} bears the smaller token, so it may not follow {a}");
        story.step(older, newer, EdgeKind::TokenOrder, because)
    }

    /// What a resource without a log accepted, by what clients were told, in order of invocation.
    fn calls(&self) -> Vec<Accept> {
        let accepted = || {
            self.writes
                .iter()
                .filter(|write| write.span.is_ok() || planted(Bug::OpenWritesAccepted))
                .filter_map(|w| Some((*w, w.token?)))
        };
        let mut returned: Vec<(u32, i64, u32)> =
            accepted().map(|(w, token)| (w.span.complete, token, w.span.invoke)).collect();
        returned.sort_unstable();
        let (mut next, mut greatest) = (0, None::<(i64, u32)>);
        let accept = |(write, token): (&Write, i64)| {
            while let Some(&(complete, token, invoke)) = returned.get(next)
                && (complete < write.span.invoke
                    || planted(Bug::OverlappingWritesOrdered) && complete < write.span.complete)
            {
                let last = planted(Bug::WritesFollowTheLast);
                if greatest.is_none_or(|(most, _)| token > most || last) {
                    greatest = Some((token, invoke));
                }
                next += 1;
            }
            Accept {
                position: write.span.invoke,
                token,
                id: Some(write.id),
                earliest_ns: Some(write.span.begin_ns),
                latest_ns: write.span.end_ns,
                newer: greatest.filter(|(most, _)| *most > token).map(|(_, at)| at),
            }
        };
        accepted().map(accept).collect()
    }

    /// Writes that were accepted although the resource had accepted a newer token, and how long after that at
    /// least.
    fn stale(&self, accepts: &[Accept], found: &mut Found) {
        for accept in accepts {
            let Some(newer) = accept.newer else { continue };
            let at = accepts.binary_search_by_key(&newer, |accept| accept.position);
            let newer_ns = at.ok().map(|at| accepts[at].latest_ns).filter(|&ns| ns < u64::MAX);
            let after_ns =
                accept.earliest_ns.zip(newer_ns).map(|(at, newer)| at.saturating_sub(newer));
            found.note("stale-token-accepted", self.claims.fencing, after_ns, || {
                let summary = format!(
                    "{} accepted token {} after it had seen a newer one",
                    self.resource, accept.token
                );
                let story = self.story("stale-token-accepted", &[newer, accept.position], summary);
                self.backwards(story, newer, accept.position).end()
            });
        }
    }

    /// Tokens that nobody can have been given before they were used. An indeterminate acquire may
    /// have got one, any.
    fn unissued(&self, accepts: &[Accept], found: &mut Found) {
        let mut known: FxHashSet<i64> = self.granted.iter().map(|noted| noted.token).collect();
        if planted(Bug::NotedGrantsIgnored) {
            known.clear();
        }
        if self.acquires.is_empty() && known.is_empty() && !planted(Bug::NobodyGrants) {
            // Nobody says who may have which.
            return;
        }
        if !planted(Bug::EpochsAreNoTokens) {
            known.extend(self.facts.led.iter().map(|led| led.epoch));
        }
        let mut asked: FxHashMap<i64, u64> =
            FxHashMap::with_capacity_and_hasher(self.acquires.len(), FxBuildHasher);
        let mut lost: Vec<u64> = Vec::new();
        for acquire in &self.acquires {
            let begin_ns = acquire.span.begin_ns;
            match acquire.grant {
                Some(grant) => {
                    let first = asked.entry(grant.token).or_insert(begin_ns);
                    *first = begin_ns.min(*first);
                }
                None if planted(Bug::LostAcquiresGetNothing) => {}
                None => lost.push(begin_ns),
            }
        }
        lost.sort_unstable();
        let mut unissued: FxHashMap<i64, &Accept> = FxHashMap::default();
        // A token, and from when on it can have been known to whoever used it.
        let mut last: Option<(i64, Option<u64>)> = None;
        for accept in accepts {
            let from = match last {
                Some((token, from)) if token == accept.token => from,
                _ if known.contains(&accept.token) => Some(0),
                _ => asked.get(&accept.token).copied(),
            };
            last = Some((accept.token, from));
            if from.is_none_or(|from| from > accept.latest_ns && !planted(Bug::TokensBeforeAsked)) {
                let first = unissued.entry(accept.token).or_insert(accept);
                if accept.latest_ns < first.latest_ns && !planted(Bug::LastUseCounts) {
                    *first = accept;
                }
            }
        }
        let mut unissued: Vec<&Accept> = unissued.into_values().collect();
        unissued.sort_unstable_by_key(|accept| (accept.latest_ns, accept.position));
        // Each lost acquire got one token at most, and what was asked early enough for one is so
        // for all later: taking them in order matches as many as can be.
        let mut matched = 0;
        for accept in unissued {
            let early = planted(Bug::LostAcquiresGetEarly);
            if lost.get(matched).is_some_and(|&begin| begin <= accept.latest_ns || early) {
                matched += usize::from(!planted(Bug::LostAcquiresGetMany));
                continue;
            }
            found.note("unissued-token", self.claims.fencing, None, || {
                let token = accept.token;
                let summary =
                    format!("{} accepted token {token}, which nobody was given", self.resource);
                self.story("unissued-token", &[accept.position], summary)
                    .say(format!("No acquire that began before then returned token {token}."))
                    .say(format!(
                        "{} acquires of unknown outcome may have got a token each; other writes \
                         bear {matched} tokens that only they can have got.",
                        lost.partition_point(|&begin| begin <= accept.latest_ns)
                    ))
                    .end()
            });
        }
        found.count("tokens_of_lost_acquires", matched as u64);
    }

    /// Writes that were accepted after a newer token had been granted, though not yet used.
    fn after_newer_grant(&self, accepts: &[Accept], found: &mut Found) {
        let granted = |acquire: &Acquire| {
            let Span { begin_ns, end_ns, .. } = acquire.span;
            if planted(Bug::GrantedWhenAsked) { begin_ns } else { end_ns }
        };
        let noted =
            self.granted.iter().filter_map(|n| Some((n.token, n.at?.latest_ns(), n.position)));
        let noted = noted.filter(|_| !planted(Bug::NotedGrantsIgnored));
        let acquired = self.acquires.iter();
        let acquired = acquired.filter_map(|a| Some((a.grant?.token, granted(a), a.span.invoke)));
        let mut grants: Vec<(i64, u64, u32)> = acquired.chain(noted).collect();
        grants.sort_unstable();
        // For each: the first to be granted of it and all greater ones.
        let mut first = grants.iter().map(|&(_, at, who)| (at, who)).collect::<Vec<_>>();
        for i in (1..first.len()).rev().filter(|_| !planted(Bug::FirstGreaterCounts)) {
            first[i - 1] = first[i - 1].min(first[i]);
        }
        let mut last: Option<(i64, Option<(u64, u32)>)> = None;
        let unused = |accept: &&Accept| accept.newer.is_none() || planted(Bug::UsedIsGranted);
        for accept in accepts.iter().filter(unused) {
            let greater = match last {
                Some((token, greater)) if token == accept.token => greater,
                _ => {
                    let after = grants.partition_point(|&(token, ..)| {
                        token < accept.token
                            || token == accept.token && !planted(Bug::SameTokenIsNewer)
                    });
                    first.get(after).copied()
                }
            };
            last = Some((accept.token, greater));
            let Some((granted_ns, grant)) = greater else { continue };
            let Some(late) = accept.earliest_ns.and_then(|at| at.checked_sub(granted_ns)) else {
                continue;
            };
            if late == 0 && !planted(Bug::TiesAreLate) {
                continue;
            }
            let name = "stale-token-after-newer-grant";
            found.note(name, self.claims.validated_tokens, Some(late), || {
                let position = accept.position;
                let summary = format!(
                    "{} accepted token {} {} after a newer one had been granted",
                    self.resource,
                    accept.token,
                    length(late)
                );
                let history = self.facts.history;
                let (a, b) = (short(history, grant), short(history, position));
                self.story(name, &[grant, position], summary)
                    .step(
                        grant,
                        position,
                        EdgeKind::RealTime,
                        format!("{a} was over {} before {b}", length(late)),
                    )
                    .step(
                        position,
                        grant,
                        EdgeKind::TokenOrder,
                        format!("{b} bears a smaller token than {a} granted"),
                    )
                    .end()
            });
        }
    }

    /// Writes that were accepted and began after their owner had released.
    fn after_release(&self, accepts: &[Accept], logged: bool, found: &mut Found) {
        // Completions of acquires and releases, with the invocation of a release.
        type Ends = SmallVec<[(u32, Option<u32>); 2]>;
        let who = |process: u32| if planted(Bug::ReleasedByAnybody) { 0 } else { process };
        let mut holds: FxHashMap<(u32, i64), Ends> =
            FxHashMap::with_capacity_and_hasher(self.releases.len(), FxBuildHasher);
        for release in self.releases.iter().filter(|release| release.span.is_ok()) {
            let ends = holds.entry((who(release.process), release.token)).or_default();
            ends.push((release.span.complete, Some(release.span.invoke)));
        }
        if holds.is_empty() {
            return;
        }
        for acquire in &self.acquires {
            if let Some(grant) = acquire.grant
                && let Some(hold) = holds.get_mut(&(who(acquire.process), grant.token))
                && !planted(Bug::ReacquiredIsReleased)
            {
                hold.push((acquire.span.complete, None));
            }
        }
        for hold in holds.values_mut() {
            hold.sort_unstable();
        }
        let mut of_id: FxHashMap<(u32, i64), &Accept> = FxHashMap::default();
        for write in &self.writes {
            let Some(token) = write.token else { continue };
            let Some(hold) = holds.get(&(who(write.process), token)) else { continue };
            let before = hold.partition_point(|&(complete, _)| complete < write.span.invoke);
            let Some(release) = before.checked_sub(1).and_then(|at| hold[at].1) else { continue };
            if of_id.is_empty() {
                for accept in accepts {
                    if let Some(id) = accept.id {
                        of_id.entry((id, accept.token)).or_insert(accept);
                    }
                }
            }
            let Some(accept) = of_id.get(&(write.id, token)) else { continue };
            if !logged && accept.position != write.span.invoke && !planted(Bug::AllTriesAccepted) {
                continue;
            }
            let claimed = self.claims.fencing && accept.newer.is_some();
            let (name, used) = ("use-after-release", write.span.invoke);
            found.note(name, claimed, None, || {
                let summary = format!(
                    "{} accepted a write under token {token} after its owner had released it",
                    self.resource
                );
                let mut witness = vec![release, used, accept.position];
                witness.extend(accept.newer);
                let history = self.facts.history;
                let because = format!(
                    "{} needs the token that {} gave back",
                    short(history, used),
                    short(history, release)
                );
                self.story(name, &witness, summary)
                    .real_time(release, used)
                    .step(used, release, EdgeKind::GrantUse, because)
                    .end()
            });
        }
    }
}
