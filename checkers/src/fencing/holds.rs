//! Holds: from when to when somebody certainly held a lock or a lease, and what was made of that.

use deposed_history::fencing::{Grant, Stamp};
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use super::Claims;
use super::claims::LeaseClaim;
use super::facts::{Facts, NONE, Renewal, Span};
use super::found::Found;
use super::planted::{Bug, planted};
use super::tell::{Story, length, seconds, short};
use crate::EdgeKind;

/// A grant or renewal, and how long it was certainly in force.
///
/// It begins with its completion: the holder had it by then. It ends where the holder asked to
/// release it, where its lease may have run out, or where the holder lost its connection (its
/// first operation of unknown outcome), for a service may end a hold then.
#[derive(Debug, Clone, Copy)]
struct Hold {
    /// The process that holds it.
    owner: u32,
    token: i64,
    grant: Span,
    lease_ms: Option<u64>,
    /// Position before which it was certainly in force.
    end: u32,
    /// Time before which it was.
    end_ns: u64,
    /// Where the release was invoked, if there was one.
    release: Option<u32>,
    is_renewal: bool,
}

/// What there is of each token of each resource: of nearly every one, a single thing.
type ByToken<T> = FxHashMap<(u32, i64), SmallVec<[T; 1]>>;

/// Room for so many tokens: growing into it would touch twice the memory.
fn by_token<T>(tokens: usize) -> ByToken<T> {
    ByToken::with_capacity_and_hasher(tokens, FxBuildHasher)
}

/// Where tokens were given back: positions of invocations, ascending.
struct Releases(ByToken<u32>);

impl Releases {
    fn of(facts: &Facts<'_>) -> Self {
        let mut releases = by_token(facts.releases.len());
        for release in &facts.releases {
            let key = (release.resource, release.token);
            let Span { invoke, complete, .. } = release.span;
            let late = planted(Bug::HeldUntilReleased) && release.span.is_ok();
            let end = if late { complete } else { invoke };
            releases.entry(key).or_default().push(end);
        }
        Self(releases)
    }

    fn first(&self, resource: u32, token: i64, after: u32) -> Option<u32> {
        let releases = self.0.get(&(resource, token))?;
        releases.get(releases.partition_point(|&release| release < after)).copied()
    }
}

/// Who was granted each token, in order of completion.
type Owners = ByToken<(u32, u32)>;

fn owners(facts: &Facts<'_>) -> Owners {
    let mut owners = by_token(facts.acquires.len());
    for acquire in &facts.acquires {
        let Some(grant) = acquire.grant else { continue };
        let of_token = owners.entry((acquire.resource, grant.token)).or_default();
        of_token.push((acquire.span.complete, acquire.process));
    }
    owners.values_mut().for_each(|of_token| of_token.sort_unstable());
    owners
}

/// Judges all that has to do with who held what when.
pub(super) fn judge(facts: &Facts<'_>, claims: &Claims, found: &mut Found) {
    let releases = Releases::of(facts);
    let bounds = claims.lease_bounds();
    let mut holds: Vec<Vec<Hold>> = vec![Vec::new(); facts.resources.len()];
    let owners = if facts.renewals.is_empty() { Owners::default() } else { owners(facts) };
    let acquired = facts
        .acquires
        .iter()
        .filter_map(|a| Some((a.resource, a.process, a.grant?.token, a.span, a.grant?, false)));
    let renewed = facts
        .renewals
        .iter()
        .filter_map(|r| Some((r.resource, r.process, r.token, r.span, r.grant?, true)));
    for (resource, process, token, span, grant, is_renewal) in acquired.chain(renewed) {
        let after = if planted(Bug::ReleasesEndLaterGrants) { 0 } else { span.complete };
        let release = releases.first(resource, token, after);
        let release = release.filter(|_| !planted(Bug::ReleasesIgnored));
        // Whoever renews a grant does it for the one that acquired it.
        let owner = if is_renewal && !planted(Bug::RenewersHold) {
            let grants = owners.get(&(resource, token)).map_or(&[][..], SmallVec::as_slice);
            let before = grants.partition_point(|&(complete, _)| complete < span.invoke);
            before.checked_sub(1).map_or(process, |last| grants[last].1)
        } else {
            process
        };
        let lost = [process, if planted(Bug::LostOwnersHold) { process } else { owner }]
            .into_iter()
            .filter_map(|who| facts.disconnected.get(&who).copied());
        let lost = lost.filter(|&lost| lost > span.complete && !planted(Bug::LostStillHold)).min();
        let from_ns = if planted(Bug::LeaseFromAnswer) { span.end_ns } else { span.begin_ns };
        let certain = |ms| bounds.certain_end_ns(from_ns, ms);
        holds[resource as usize].push(Hold {
            owner,
            token,
            grant: span,
            lease_ms: grant.lease_ms,
            end: release.unwrap_or(NONE).min(lost.unwrap_or(NONE)),
            end_ns: grant.lease_ms.map_or(u64::MAX, certain),
            release,
            is_renewal,
        });
    }
    for (resource, mut holds) in facts.resources.iter().zip(holds) {
        holds.sort_by_cached_key(|hold| {
            if planted(Bug::HeldWhenAsked) { hold.grant.invoke } else { hold.grant.complete }
        });
        found.count("holds", holds.iter().filter(|hold| !hold.is_renewal).count() as u64);
        let judge = Judge { facts, claims, bounds, resource };
        judge.overlaps(&holds, found);
        judge.margins(&holds, found);
    }
    Claimed { facts, claims, bounds }.judge(found);
    renewed_after_the_end(facts, claims, found);
}

struct Judge<'a, 'h> {
    facts: &'a Facts<'h>,
    claims: &'a Claims,
    bounds: LeaseClaim,
    resource: &'h str,
}

impl<'h> Judge<'_, 'h> {
    /// A hold that began while another one was certainly in force. `holds` by completion.
    fn overlaps(&self, holds: &[Hold], found: &mut Found) {
        // Times as they grow with the completions: an event cannot be earlier than those before.
        let mut clock = Vec::with_capacity(holds.len());
        let mut now = 0;
        for hold in holds {
            now = hold.grant.end_ns.max(now);
            clock.push(now);
        }
        // Where each hold ends, as a number of the first hold that begins after that.
        let end_of = |hold: &Hold| {
            let by_time = clock.partition_point(|&at| at < hold.end_ns);
            by_time.min(holds.partition_point(|other| other.grant.complete < hold.end))
        };
        // Of those that began before: the one that lasts longest, and the one that lasts longest
        // of those of other owners.
        let mut longest: [Option<(usize, &Hold)>; 2] = [None, None];
        for (i, hold) in holds.iter().enumerate() {
            let end = end_of(hold);
            if end <= i && !planted(Bug::OverIsHeld) {
                // Over before it was known.
                continue;
            }
            let other = longest
                .into_iter()
                .flatten()
                .find(|(_, other)| other.owner != hold.owner || planted(Bug::OwnHoldsOverlap));
            if let Some((other_end, other)) = other
                && other_end > i
            {
                self.overlap(other, hold, found);
            }
            let candidate = Some((end, hold));
            let [first, second] = longest;
            longest = match first {
                None => [candidate, None],
                Some((most, best)) if best.owner == hold.owner => {
                    [if end > most { candidate } else { first }, second]
                }
                Some((most, _)) if end > most => [candidate, first],
                _ if second.is_none_or(|(most, _)| end > most) => [first, candidate],
                _ => longest,
            };
            if planted(Bug::OnlyTheLongestHold) {
                longest[1] = None;
            } else if planted(Bug::OnlyTheLastHold) {
                longest = [candidate, None];
            }
        }
    }

    fn overlap(&self, first: &Hold, second: &Hold, found: &mut Found) {
        let (from, history) = (second.grant.end_ns, self.facts.history);
        let last = history.op(history.len() as u32 - 1).time();
        let end_ns = |hold: &Hold| {
            let stop = if hold.end == NONE { last } else { history.op(hold.end).time() };
            hold.end_ns.min(stop)
        };
        let overlap = end_ns(first).min(end_ns(second)).saturating_sub(from);
        let leased = first.lease_ms.is_some() != planted(Bug::LeasesAreLocks);
        let name = if leased { "lease-overlap" } else { "mutual-exclusion" };
        let claimed = if leased { self.claims.lease.is_some() } else { self.claims.mutex };
        let (a, b) = (first.grant.invoke, second.grant.invoke);
        found.note(name, claimed, Some(overlap), || {
            let summary = format!(
                "{} was held under token {} and token {} at once, for {} at least",
                self.resource,
                first.token,
                second.token,
                length(overlap)
            );
            let mut witness = vec![a, b];
            witness.extend(first.release);
            let mut story = Story::of(history, name, Some(self.resource), &witness, summary);
            if let Some(ms) = first.lease_ms {
                story = story.say(format!(
                    "The lease of token {} was asked for at {} for {}, so with clocks that are at \
                     most {} ms apart and drift by at most {} it lasted until {} at least.",
                    first.token,
                    seconds(first.grant.begin_ns),
                    length(ms.saturating_mul(1_000_000)),
                    self.bounds.clock_error_ms,
                    self.bounds.drift,
                    seconds(first.end_ns)
                ));
            } else if first.release.is_none() {
                story = story.say(format!("Token {} was not released before that.", first.token));
            }
            story = story.say(format!(
                "Token {} had been granted by {}.",
                second.token,
                seconds(from)
            ));
            if let Some(release) = first.release.filter(|_| !leased) {
                let (r, b_name) = (short(history, release), short(history, b));
                story = story
                    .step(b, release, EdgeKind::RealTime, format!("{b_name} had returned before {r} was invoked"))
                    .step(
                        release,
                        b,
                        EdgeKind::GrantUse,
                        format!("{b_name} can be granted only after {r}, for there is one holder at a time"),
                    );
            }
            story.end()
        });
    }

    /// How much time there was between the end of a lease, as its holder may reckon it (from when
    /// it asked), and the moment in which the next holder knew of its own.
    fn margins(&self, holds: &[Hold], found: &mut Found) {
        let mut last: Option<(i64, u64, u32)> = None;
        for hold in holds {
            let term_ns = hold.lease_ms.map(|ms| ms.saturating_mul(1_000_000));
            let end_ns = term_ns.map(|term| hold.grant.begin_ns.saturating_add(term));
            if let Some((token, ends_ns, released)) = last
                && token != hold.token
                && !hold.is_renewal
                && released > hold.grant.complete
            {
                let margin = i128::from(hold.grant.end_ns) - i128::from(ends_ns);
                found.measure(
                    "lease_handover_margin",
                    margin.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
                );
            }
            last = match (last, end_ns) {
                (_, None) => None,
                (Some((token, before, _)), Some(end)) if token == hold.token => {
                    Some((token, before.max(end), hold.end))
                }
                (_, Some(_)) if hold.is_renewal => last,
                (_, Some(end)) => Some((hold.token, end, hold.end)),
            };
        }
    }
}

/// What clients took their leases for.
struct Claimed<'a, 'h> {
    facts: &'a Facts<'h>,
    claims: &'a Claims,
    bounds: LeaseClaim,
}

/// The ends of all grants and renewals of one token: position of the invocation, and the latest
/// end of it and all before it.
type Latest = ByToken<(u32, u64)>;

impl Claimed<'_, '_> {
    fn judge(&self, found: &mut Found) {
        let facts = self.facts;
        let told = facts.acquires.iter().filter_map(|a| Some((a.resource, a.span, a.grant?)));
        let told = told.chain(
            facts
                .renewals
                .iter()
                .filter_map(|r| Some((r.resource, r.span, Grant { token: r.token, ..r.grant? }))),
        );
        let told: Vec<_> = told.filter(|(.., grant)| grant.valid_until_ns.is_some()).collect();
        if told.is_empty() && !facts.writes.iter().any(|write| write.believed_valid) {
            return;
        }
        let latest = self.latest();
        for (resource, span, grant) in told {
            let until = if planted(Bug::LaterGrantsCount) { NONE } else { span.complete };
            let end = end_before(&latest, resource, grant.token, until);
            if let (Some(valid), Some(end)) = (grant.valid_until_ns, end)
                && valid > end
            {
                self.overclaimed(resource, span.invoke, grant.token, valid, end, found);
            }
        }
        for write in facts.writes.iter().filter(|write| write.believed_valid) {
            let Some(token) = write.token else { continue };
            let (span, resource) = (write.span, write.resource);
            if let Some(end) = end_before(&latest, resource, token, span.invoke)
                && span.begin_ns > end
            {
                self.overclaimed(resource, span.invoke, token, span.begin_ns, end, found);
            }
        }
    }

    fn latest(&self) -> Latest {
        let mut latest = by_token(self.facts.acquires.len());
        let acquired = self.facts.acquires.iter();
        let acquired = acquired.filter_map(|a| Some((a.resource, a.grant?.token, a.span, a.grant)));
        let renewed = self.facts.renewals.iter().map(|r| (r.resource, r.token, r.span, r.grant));
        let nothing = planted(Bug::LostRenewalsGiveNothing);
        let renewed = renewed.filter(|(.., grant)| grant.is_some() || !nothing);
        let mut noted: ByToken<Stamp> = by_token(self.facts.acquires.len());
        for granted in &self.facts.granted {
            noted.entry((granted.resource, granted.token)).or_default().extend(granted.at);
        }
        for (resource, token, span, grant) in acquired.chain(renewed) {
            // What the service noted of it is at least as good as when its answer came.
            let of_this = noted.get(&(resource, token)).into_iter().flatten().filter(|at| {
                at.latest_ns() >= span.begin_ns && at.earliest_ns() <= span.end_ns
                    || planted(Bug::NotesOfOthers)
            });
            let noted = of_this.map(|at| at.latest_ns());
            let granted = if planted(Bug::FirstNoteCounts) { noted.min() } else { noted.max() };
            let granted = granted.filter(|_| !planted(Bug::NotedGrantsIgnored));
            let granted_ns = match granted {
                _ if planted(Bug::OverSinceAsked) => span.begin_ns,
                Some(granted_ns) if planted(Bug::NotesBeforeAnswers) => granted_ns,
                granted => granted.unwrap_or(u64::MAX).min(span.end_ns),
            };
            // A renewal of unknown outcome may take effect at any time.
            let lease_ms = grant.and_then(|grant| grant.lease_ms);
            let endless = if planted(Bug::LocksRunOut) { 0 } else { u64::MAX };
            let end = lease_ms.map_or(endless, |ms| self.bounds.latest_end_ns(granted_ns, ms));
            latest.entry((resource, token)).or_default().push((span.invoke, end));
        }
        for ends in latest.values_mut() {
            ends.sort_unstable();
            let mut most = 0;
            for (_, end) in ends {
                most = if planted(Bug::LastGrantCounts) { *end } else { most.max(*end) };
                *end = most;
            }
        }
        latest
    }

    fn overclaimed(
        &self,
        resource: u32,
        position: u32,
        token: i64,
        believed_ns: u64,
        end_ns: u64,
        found: &mut Found,
    ) {
        let (name, over) = ("overclaimed-lease", believed_ns - end_ns);
        found.note(name, self.claims.lease.is_some(), Some(over), || {
            let resource = self.facts.resources[resource as usize];
            let summary = format!(
                "a client held its lease of {resource} under token {token} for valid {} too long",
                length(over)
            );
            Story::of(self.facts.history, name, Some(resource), &[position], summary)
                .say(format!(
                    "With clocks that are at most {} ms apart and drift by at most {}, every grant \
                     and renewal of token {token} was over by {}.",
                    self.bounds.clock_error_ms,
                    self.bounds.drift,
                    seconds(end_ns)
                ))
                .say(format!("The client believed it valid at {}.", seconds(believed_ns)))
                .end()
        });
    }
}

/// By when all grants and renewals of a token that began before a position are over; none if
/// there are none.
fn end_before(latest: &Latest, resource: u32, token: i64, position: u32) -> Option<u64> {
    let ends = latest.get(&(resource, token))?;
    let before = ends.partition_point(|&(invoke, _)| invoke < position);
    before.checked_sub(1).map(|at| ends[at].1)
}

/// Renewals that began after the service had ended what they renew, and were told all is well.
fn renewed_after_the_end(facts: &Facts<'_>, claims: &Claims, found: &mut Found) {
    let mut ended: FxHashMap<(u32, i64), (u64, u32)> = FxHashMap::default();
    for noted in &facts.ended {
        let Some(at) = noted.at else { continue };
        let end = ended.entry((noted.resource, noted.token)).or_insert((u64::MAX, NONE));
        let ns = if planted(Bug::NotesAreExact) { at.at_ns } else { at.latest_ns() };
        *end = (*end).min((ns, noted.position));
        if planted(Bug::LastEndCounts) {
            *end = (ns, noted.position);
        }
    }
    let succeeded = |renewal: &&Renewal| renewal.span.is_ok() || planted(Bug::OpenRenewalsSucceed);
    for renewal in facts.renewals.iter().filter(succeeded) {
        let key = (renewal.resource, renewal.token);
        let Some(&(end_ns, position)) = ended.get(&key) else { continue };
        let Span { begin_ns, end_ns: answered_ns, .. } = renewal.span;
        let begin_ns = if planted(Bug::RenewedWhenAnswered) { answered_ns } else { begin_ns };
        let is_late = |late: &u64| *late > 0 || planted(Bug::TiesAreLate);
        let Some(late) = begin_ns.checked_sub(end_ns).filter(is_late) else {
            continue;
        };
        let (name, renew) = ("lost-notification", renewal.span.invoke);
        found.note(name, claims.lease.is_some(), Some(late), || {
            let resource = facts.resources[renewal.resource as usize];
            let summary = format!(
                "token {} of {resource} was renewed {} after the service had ended it",
                renewal.token,
                length(late)
            );
            let (a, b) = (short(facts.history, position), short(facts.history, renew));
            Story::of(facts.history, name, Some(resource), &[position, renew], summary)
                .step(
                    position,
                    renew,
                    EdgeKind::RealTime,
                    format!("{a} was {} before {b}", length(late)),
                )
                .step(renew, position, EdgeKind::GrantUse, format!("{b} needs what {a} ended"))
                .end()
        });
    }
}
