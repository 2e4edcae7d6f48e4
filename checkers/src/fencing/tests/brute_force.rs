//! The definitions of all anomalies as they are written, pair by pair, and nothing clever.

use std::collections::{BTreeMap, BTreeSet};

use crate::fencing::planted::{Bug, plant};
use crate::{Analysis, Budget, Checker, Claims, FENCING_NAMES, Fencing, LeaseClaim};
use deposed_history::fencing::{
    FencedWrite, Grant, LogEvent, Observation, Seen, Served, Stamp, Token,
};
use deposed_history::{History, Outcome, ValueRef};

use super::script::MS;
use super::{random, text};

/// Histories that are judged in every run; more if `DEPOSED_FUZZ` says so.
const HISTORIES: u64 = 10_000;

fn histories() -> u64 {
    let asked = std::env::var("DEPOSED_FUZZ").ok().and_then(|n| n.parse().ok());
    HISTORIES.max(asked.unwrap_or(0))
}

#[derive(Clone)]
struct Call<'h> {
    invoke: u32,
    /// `None`: nobody knows.
    complete: Option<u32>,
    begin: u64,
    end: Option<u64>,
    ok: bool,
    info: bool,
    f: &'h str,
    process: u32,
    asked: ValueRef<'h>,
    answer: Option<ValueRef<'h>>,
}

impl<'h> Call<'h> {
    fn grant(&self) -> Option<Grant> {
        matches!(self.f, "acquire" | "renew").then(|| Grant::parse(self.answer?))?
    }
    fn write(&self) -> Option<FencedWrite<'h>> {
        matches!(self.f, "fenced-write" | "append").then(|| FencedWrite::parse(self.asked))?
    }
    fn token(&self) -> Option<i64> {
        match self.f {
            "acquire" => Some(self.grant()?.token),
            "renew" | "release" => Some(Token::parse(self.asked)?.0),
            _ => self.write()?.token,
        }
    }
    fn served(&self) -> Option<Served<'h>> {
        matches!(self.f, "fenced-write" | "append" | "read").then(|| Served::parse(self.answer?))?
    }
    fn leader(&self) -> Option<Served<'h>> {
        self.served().filter(|served| served.leader)
    }
    fn before(&self, other: &Call<'_>) -> bool {
        self.complete.is_some_and(|complete| complete < other.invoke)
    }
}

struct Line<'h> {
    position: u32,
    seq: u64,
    token: Option<i64>,
    id: Option<&'h str>,
    accepted: bool,
    at: Option<Stamp>,
}

struct Resource<'h> {
    calls: Vec<Call<'h>>,
    lines: Vec<Line<'h>>,
    snapshots: Vec<(Option<i64>, Seen<'h>)>,
    granted: Vec<(i64, Option<Stamp>)>,
    ended: Vec<(i64, Option<Stamp>)>,
}

/// Token, id, earliest and latest time, and whether a newer token had been accepted before.
type Accept<'h> = (i64, Option<&'h str>, Option<u64>, u64, bool);

/// Node, epoch, and from and to when it certainly led.
type Led<'h> = (&'h str, i64, u64, u64);

/// How often each anomaly is there, and whether it breaks what is claimed.
type Counts = BTreeMap<(&'static str, bool), u64>;

/// Whether an anomaly that is always of one kind breaks what is claimed.
fn is_claimed(name: &str, claims: &Claims) -> bool {
    match name {
        "token-regression"
        | "stale-token-accepted"
        | "duplicate-token"
        | "token-grant-order"
        | "unissued-token" => claims.fencing,
        "stale-token-after-newer-grant" => claims.validated_tokens,
        "mutual-exclusion" => claims.mutex,
        "lease-overlap" | "overclaimed-lease" | "lost-notification" => claims.lease.is_some(),
        "lost-acked-write" => claims.durability,
        "duplicate-apply" => claims.writes_once,
        "stale-read-under-lease" => claims.linearizable_reads,
        _ => unreachable!("{name} is of several kinds"),
    }
}

/// Whether there has to be one leader of an epoch.
fn one_leader(claims: &Claims) -> bool {
    let Claims { mutex, fencing, lease, linearizable_reads, durability, .. } = *claims;
    mutex || fencing || lease.is_some() || linearizable_reads || durability
}

fn split(history: &History) -> (BTreeMap<&str, Resource<'_>>, Vec<Led<'_>>) {
    let mut resources: BTreeMap<&str, Resource<'_>> = BTreeMap::new();
    let empty = || Resource {
        calls: vec![],
        lines: vec![],
        snapshots: vec![],
        granted: vec![],
        ended: vec![],
    };
    for call in history.calls() {
        let op = history.op(call.invoke);
        let (resource, asked) = op.pair().unwrap();
        let known = call.complete().filter(|_| call.outcome() != Outcome::Info);
        let ok = call.outcome() == Outcome::Ok;
        resources.entry(resource.as_str().unwrap()).or_insert_with(empty).calls.push(Call {
            invoke: call.invoke,
            complete: known,
            begin: op.time(),
            end: known.map(|at| history.op(at).time()),
            ok,
            info: call.outcome() == Outcome::Info,
            f: op.f(),
            process: op.process().client().unwrap(),
            asked,
            answer: known.filter(|_| ok).map(|at| history.op(at).pair().unwrap().1),
        });
    }
    let mut led = vec![];
    for op in history.ops() {
        match LogEvent::parse(op) {
            Some(LogEvent::Write { resource, seq, token, id, accepted, at, .. }) => {
                let line = Line { position: op.position(), seq, token, id, accepted, at };
                resources.entry(resource).or_insert_with(empty).lines.push(line);
            }
            Some(LogEvent::Snapshot { resource, epoch, seen, .. }) => {
                resources.entry(resource).or_insert_with(empty).snapshots.push((epoch, seen));
            }
            Some(LogEvent::Granted { resource, token, at }) => {
                resources.entry(resource).or_insert_with(empty).granted.push((token, at));
            }
            Some(LogEvent::Ended { resource, token, at, .. }) => {
                resources.entry(resource).or_insert_with(empty).ended.push((token, at));
            }
            Some(LogEvent::Led { node, epoch, from_ns, to_ns, error_ns }) => {
                led.push((node, epoch, from_ns + error_ns, to_ns.saturating_sub(error_ns)));
            }
            None => {}
        }
    }
    for resource in resources.values_mut() {
        resource.lines.sort_by_key(|line| (line.seq, line.position));
    }
    (resources, led)
}

/// `None` where a definition leaves a choice of names: nothing is compared then.
pub(crate) fn brute_force(history: &History, claims: &Claims) -> Option<Counts> {
    let (resources, led) = split(history);
    let mut counts = Counts::new();
    // The first operation of unknown outcome of each process, on whatever resource.
    let mut lost: BTreeMap<u32, u32> = BTreeMap::new();
    for call in resources.values().flat_map(|r| &r.calls).filter(|call| call.info) {
        let first = lost.entry(call.process).or_insert(call.invoke);
        *first = call.invoke.min(*first);
    }
    for resource in resources.values() {
        for (name, count) in resource.count(claims, &lost, &led)? {
            *counts.entry((name, is_claimed(name, claims))).or_default() += count as u64;
        }
        for (kind, count) in resource.count_leaders(claims) {
            *counts.entry(kind).or_default() += count as u64;
        }
        for (_, is_stale) in resource.used_after_release() {
            let kind = ("use-after-release", claims.fencing && is_stale);
            *counts.entry(kind).or_default() += 1;
        }
    }
    let (mut same_epoch, mut overlapping) = (0, 0);
    let mut order: Vec<usize> = (0..led.len()).collect();
    order.sort_by_key(|&i| led[i].2);
    for (n, &i) in order.iter().enumerate() {
        let (node, epoch, from, to) = led[i];
        // The first of an epoch is the one that tells; each other node in it is one more.
        let first = order.iter().find(|&&j| led[j].1 == epoch).unwrap();
        same_epoch += u64::from(led[*first].0 != node);
        // Whoever led longest of all other nodes that had begun.
        let others = order[..n].iter().map(|&j| led[j]).filter(|o| o.0 != node && o.3 > o.2);
        let longest = others.clone().map(|other| other.3).max();
        let mut longest = others.filter(|other| Some(other.3) == longest);
        if to > from && longest.clone().any(|other| other.3 > from) {
            // Of equals any may be taken: such histories are not compared.
            let differs = longest.clone().all(|other| other.1 != epoch);
            if !differs && longest.any(|other| other.1 != epoch) {
                return None;
            }
            overlapping += u64::from(differs);
        }
    }
    *counts.entry(("dual-leader", one_leader(claims))).or_default() += same_epoch;
    *counts.entry(("dual-leader", claims.lease.is_some())).or_default() += overlapping;
    counts.retain(|_, count| *count > 0);
    Some(counts)
}

impl<'h> Resource<'h> {
    fn ok<'s>(&'s self, f: &'s str) -> impl Iterator<Item = &'s Call<'h>> + 's {
        self.calls.iter().filter(move |call| call.ok && call.f == f)
    }
    fn writes(&self) -> impl Iterator<Item = (&Call<'h>, FencedWrite<'h>)> {
        self.calls.iter().filter_map(|call| Some((call, call.write()?)))
    }

    /// `(token, id, earliest, latest, seen a newer token before)` of all that was accepted.
    fn accepts(&self) -> Vec<Accept<'h>> {
        if self.lines.is_empty() {
            let ok = || self.writes().filter(|(call, write)| call.ok && write.token.is_some());
            return ok()
                .map(|(call, write)| {
                    let newer = ok().any(|(c, w)| c.before(call) && w.token > write.token);
                    let end = call.end.unwrap();
                    (write.token.unwrap(), Some(write.id), Some(call.begin), end, newer)
                })
                .collect();
        }
        let accepted: Vec<&Line<'_>> =
            self.lines.iter().filter(|l| l.accepted && l.token.is_some()).collect();
        let with = |(i, line): (usize, &&Line<'h>)| {
            let newer = accepted[..i].iter().any(|before| before.token > line.token);
            let begun = self.writes().filter(|(_, w)| Some(w.id) == line.id).map(|(c, _)| c.begin);
            let earliest = line.at.map(Stamp::earliest_ns).max(begun.min());
            let latest = line.at.map_or(u64::MAX, Stamp::latest_ns);
            (line.token.unwrap(), line.id, earliest, latest, newer)
        };
        accepted.iter().enumerate().map(with).collect()
    }

    fn released(&self, by: &Call<'_>, token: i64, from: u32, to: u32) -> bool {
        self.calls.iter().any(|c| {
            c.f == "release"
                && (c.ok || c.info)
                && c.process == by.process
                && c.token() == Some(token)
                && from < c.invoke
                && c.invoke < to
        })
    }

    fn count(
        &self,
        claims: &Claims,
        lost: &BTreeMap<u32, u32>,
        led: &[Led<'_>],
    ) -> Option<Vec<(&'static str, usize)>> {
        let bounds = claims.lease.unwrap_or_default();
        let eps = bounds.clock_error_ms * MS;
        let accepts = self.accepts();
        let mut counts = vec![];

        if !self.lines.is_empty() {
            let regressions = accepts.windows(2).filter(|pair| pair[1].0 < pair[0].0).count();
            counts.push(("token-regression", regressions));
            let late = accepts.iter().filter(|&&(token, _, earliest, _, newer)| {
                let by_client = self.ok("acquire").filter(|c| c.grant().unwrap().token > token);
                let by_service = self.granted.iter().filter(|(other, _)| *other > token);
                let granted = by_client
                    .map(|c| c.end.unwrap())
                    .chain(by_service.filter_map(|(_, at)| Some((*at)?.latest_ns())));
                !newer && granted.min().is_some_and(|g| earliest.is_some_and(|at| g < at))
            });
            counts.push(("stale-token-after-newer-grant", late.count()));
        }
        counts.push(("stale-token-accepted", accepts.iter().filter(|a| a.4).count()));

        let mut acquires: Vec<&Call<'_>> = self.ok("acquire").collect();
        acquires.sort_by_key(|call| call.complete);
        let duplicates = acquires.iter().enumerate().filter(|(i, second)| {
            let first = acquires[..*i].iter().rev().find(|first| first.token() == second.token());
            first.is_some_and(|first| {
                let token = first.token().unwrap();
                first.process != second.process
                    || self.released(first, token, first.complete.unwrap(), second.invoke)
            })
        });
        counts.push(("duplicate-token", duplicates.count()));
        let backwards = acquires
            .iter()
            .filter(|b| acquires.iter().any(|a| a.before(b) && a.token() > b.token()));
        counts.push(("token-grant-order", backwards.count()));
        counts.push(("unissued-token", self.unissued(&accepts, led)));

        // Holds: acquires and renewals.
        let holds: Vec<&Call<'_>> = self.calls.iter().filter(|c| c.grant().is_some()).collect();
        let owner = |hold: &Call<'_>| {
            let mut acquired =
                acquires.iter().filter(|a| a.token() == hold.token() && a.before(hold));
            let last = if hold.f == "renew" { acquired.next_back() } else { None };
            last.map_or(hold.process, |acquire| acquire.process)
        };
        let in_force = |hold: &Call<'_>, at: &Call<'_>| {
            let (from, to) = (hold.complete.unwrap(), at.complete.unwrap());
            let lease = hold.grant().unwrap().lease_ms;
            let certain = lease.map_or(u64::MAX, |ms| {
                let term = (ms as f64 * 1e6 * (1.0 - bounds.drift)) as u64;
                (hold.begin + term).saturating_sub(eps)
            });
            from <= to
                && at.end.unwrap() < certain
                && !self.calls.iter().any(|c| {
                    c.f == "release"
                        && (c.ok || c.info)
                        && c.token() == hold.token()
                        && from < c.invoke
                        && c.invoke < to
                })
                && ![hold.process, owner(hold)]
                    .iter()
                    .any(|who| lost.get(who).is_some_and(|&lost| from < lost && lost < to))
        };
        let (mut mutex, mut lease) = (0, 0);
        for second in holds.iter().filter(|second| in_force(second, second)) {
            let others = holds
                .iter()
                .filter(|first| owner(first) != owner(second) && first.complete < second.complete);
            let clash: Vec<bool> = others
                .filter(|first| in_force(first, first) && in_force(first, second))
                .map(|first| first.grant().unwrap().lease_ms.is_some())
                .collect();
            // With several, either name is right.
            match (clash.contains(&false), clash.contains(&true)) {
                (true, true) => return None,
                (true, false) => mutex += 1,
                (false, true) => lease += 1,
                (false, false) => {}
            }
        }
        counts.push(("mutual-exclusion", mutex));
        counts.push(("lease-overlap", lease));
        counts.push(("overclaimed-lease", self.overclaimed(bounds)));

        let renewals = self.ok("renew").filter(|renewal| {
            let ended = self.ended.iter().filter(|(token, _)| Some(*token) == renewal.token());
            ended.filter_map(|(_, at)| *at).any(|at| at.latest_ns() < renewal.begin)
        });
        counts.push(("lost-notification", renewals.count()));

        self.count_writes(claims, &mut counts);
        Some(counts)
    }

    /// Writes that began after their owner had released and were accepted; the second says whether
    /// a newer token had been accepted before.
    fn used_after_release(&self) -> Vec<(&Call<'h>, bool)> {
        let accepts = self.accepts();
        let used = self.writes().filter_map(|(call, write)| {
            let token = write.token.filter(|_| call.f == "fenced-write")?;
            let mine = self.calls.iter().filter(|c| {
                c.ok && c.process == call.process && c.token() == Some(token) && c.before(call)
            });
            let last =
                mine.filter(|c| matches!(c.f, "acquire" | "release")).max_by_key(|c| c.complete);
            last.filter(|last| last.f == "release")?;
            // The first that was accepted of its id and token: without a log, this one.
            let accept = accepts.iter().find(|a| a.0 == token && a.1 == Some(write.id))?;
            let first =
                self.writes().find(|(c, w)| c.ok && w.id == write.id && w.token == write.token);
            let is_first = first.is_some_and(|(first, _)| first.invoke == call.invoke);
            (!self.lines.is_empty() || is_first).then_some((call, accept.4))
        });
        used.collect()
    }

    fn unissued(&self, accepts: &[Accept<'_>], led: &[Led<'_>]) -> usize {
        let asked = self.calls.iter().filter(|c| c.f == "acquire" && (c.ok || c.info));
        if asked.count() == 0 && self.granted.is_empty() {
            return 0;
        }
        let issued = |token: i64, by: u64| {
            self.granted.iter().any(|(other, _)| *other == token)
                || led.iter().any(|led| led.1 == token)
                || self.ok("acquire").any(|c| c.token() == Some(token) && c.begin <= by)
        };
        let mut deadlines: BTreeMap<i64, u64> = BTreeMap::new();
        for &(token, _, _, latest, _) in accepts.iter().filter(|a| !issued(a.0, a.3)) {
            let deadline = deadlines.entry(token).or_insert(latest);
            *deadline = latest.min(*deadline);
        }
        let lost: Vec<u64> =
            self.calls.iter().filter(|c| c.f == "acquire" && c.info).map(|c| c.begin).collect();
        // The most tokens that lost acquires can have got, one each: try them all.
        let deadlines: Vec<u64> = deadlines.into_values().collect();
        deadlines.len() - most_matched(&deadlines, &lost, &mut vec![false; lost.len()])
    }

    fn overclaimed(&self, bounds: LeaseClaim) -> usize {
        // Whether a belief at a time is refuted by all grants of a token that began before.
        let refuted = |token: i64, until: u32, believed: u64| {
            let of_token = |c: &&Call<'_>| {
                matches!(c.f, "acquire" | "renew")
                    && (c.ok || c.info && c.f == "renew")
                    && c.token() == Some(token)
                    && c.invoke < until
            };
            let mut all = self.calls.iter().filter(of_token).peekable();
            all.peek().is_some()
                && all.all(|c| {
                    let Some(ms) = c.grant().and_then(|grant| grant.lease_ms) else { return false };
                    let end = c.end.unwrap();
                    let noted = self.granted.iter().filter(|(of, _)| *of == token);
                    let noted = noted.filter_map(|(_, at)| *at);
                    let noted =
                        noted.filter(|at| at.latest_ns() >= c.begin && at.earliest_ns() <= end);
                    let granted = noted.map(Stamp::latest_ns).max().unwrap_or(end).min(end);
                    let term = (ms as f64 * 1e6 * (1.0 + bounds.drift)).ceil() as u64;
                    granted + term + bounds.clock_error_ms * MS < believed
                })
        };
        let grants = self.calls.iter().filter(|call| {
            let valid = call.grant().and_then(|grant| grant.valid_until_ns);
            valid.is_some_and(|valid| refuted(call.token().unwrap(), call.complete.unwrap(), valid))
        });
        let writes = self.writes().filter(|(call, write)| {
            write.believed_valid
                && write.token.is_some_and(|token| refuted(token, call.invoke, call.begin))
        });
        grants.count() + writes.count()
    }

    /// Whether one write certainly took effect after the last time another one did.
    fn newer(&self, id: &str, than: &str) -> bool {
        if self.lines.is_empty() {
            let of = |id: &str| -> Vec<&Call<'_>> {
                self.writes().filter(|(_, w)| w.id == id).map(|(c, _)| c).collect()
            };
            let (newer, older) = (of(id), of(than));
            return !newer.is_empty()
                && !older.is_empty()
                && older.iter().all(|o| newer.iter().all(|n| o.before(n)));
        }
        let of = |id: &str| -> Vec<usize> {
            let lines = self.lines.iter().enumerate();
            lines.filter(|(_, l)| l.accepted && l.id == Some(id)).map(|(i, _)| i).collect()
        };
        let (newer, older) = (of(id), of(than));
        !newer.is_empty() && !older.is_empty() && older.iter().all(|o| newer.iter().all(|n| o < n))
    }

    fn misses(&self, seen: &Seen<'_>, id: &str) -> bool {
        match seen {
            Seen::Every(ids) => !ids.contains(&id),
            Seen::Last(None) => true,
            Seen::Last(Some(last)) => *last != id && self.newer(id, last),
        }
    }

    fn count_writes(&self, claims: &Claims, counts: &mut Vec<(&'static str, usize)>) {
        // Each acknowledged id with the call that was acknowledged first.
        let mut acknowledged: BTreeMap<&str, &Call<'_>> = BTreeMap::new();
        for (call, write) in self.writes().filter(|(call, _)| call.ok) {
            let first = acknowledged.entry(write.id).or_insert(call);
            if call.complete < first.complete {
                *first = call;
            }
        }
        let reads: Vec<(&Call<'_>, Observation<'_>)> =
            self.ok("read").map(|c| (c, Observation::parse(c.answer.unwrap()).unwrap())).collect();
        let last = self.snapshots.iter().map(|(epoch, _)| *epoch).max();
        let lost = |id: &str, call: &Call<'_>| {
            if let Some(last) = last {
                let mut of_last = self.snapshots.iter().filter(|(epoch, _)| *epoch == last);
                return of_last.all(|(_, seen)| self.misses(seen, id));
            }
            if !self.lines.is_empty() {
                return !self.lines.iter().any(|l| l.accepted && l.id == Some(id));
            }
            let Some(of_write) = call.served() else {
                return false;
            };
            let later = reads.iter().filter(|(c, read)| {
                call.before(c) && read.served.is_some_and(|served| served.epoch > of_write.epoch)
            });
            let tells = |read: &Observation<'_>| {
                let leader = read.served.is_some_and(|served| served.leader);
                matches!(read.seen, Seen::Every(_)) && (leader || claims.linearizable_reads)
            };
            later.clone().any(|(_, read)| tells(read))
                && later.clone().all(|(_, read)| match &read.seen {
                    Seen::Every(ids) => !ids.contains(&id),
                    Seen::Last(last) => *last != Some(id),
                })
        };
        counts
            .push(("lost-acked-write", acknowledged.iter().filter(|(id, c)| lost(id, c)).count()));
        let stale = reads.iter().filter(|(read, observation)| {
            acknowledged.iter().any(|(id, write)| {
                !lost(id, write) && write.before(read) && self.misses(&observation.seen, id)
            })
        });
        counts.push(("stale-read-under-lease", stale.count()));
        let mut twice: BTreeSet<&str> = BTreeSet::new();
        let of_last = self.snapshots.iter().filter(|(epoch, _)| Some(*epoch) == last);
        let seen = of_last.map(|(_, seen)| seen).chain(reads.iter().map(|(_, read)| &read.seen));
        let lines = self.lines.iter().filter(|l| l.accepted).filter_map(|l| l.id).collect();
        for ids in seen
            .filter_map(|seen| match seen {
                Seen::Every(ids) => Some(ids.clone()),
                Seen::Last(_) => None,
            })
            .chain([lines])
        {
            let count = |id: &str| ids.iter().filter(|other| **other == id).count();
            twice.extend(ids.iter().copied().filter(|id| count(id) > 1));
        }
        counts.push(("duplicate-apply", twice.len()));
    }

    /// Leaders by what they served.
    fn count_leaders(&self, claims: &Claims) -> Vec<((&'static str, bool), usize)> {
        let served: Vec<(&Call<'_>, Served<'_>)> =
            self.calls.iter().filter_map(|c| Some((c, c.leader()?))).collect();
        let mut epochs: BTreeMap<i64, BTreeSet<&str>> = BTreeMap::new();
        for (_, proof) in &served {
            epochs.entry(proof.epoch).or_default().insert(proof.node);
        }
        let deposed: Vec<_> = served
            .iter()
            .filter(|(call, proof)| {
                served.iter().any(|(other, newer)| {
                    other.before(call) && newer.epoch > proof.epoch && newer.node != proof.node
                })
            })
            .collect();
        let windows: BTreeSet<_> = deposed.iter().map(|(_, p)| (p.epoch, p.node)).collect();
        let twice = epochs.values().filter(|nodes| nodes.len() > 1).count();
        let lease = claims.lease.is_some();
        let reads = deposed.iter().filter(|(call, _)| call.f == "read").count();
        vec![
            (("dual-leader", one_leader(claims)), twice),
            (("dual-leader", lease), windows.len()),
            (("dual-leader-effect", lease || claims.linearizable_reads), reads),
            (("dual-leader-effect", lease || claims.durability), deposed.len() - reads),
        ]
    }
}

fn most_matched(deadlines: &[u64], lost: &[u64], taken: &mut Vec<bool>) -> usize {
    let Some((&deadline, rest)) = deadlines.split_first() else { return 0 };
    let mut most = most_matched(rest, lost, taken);
    for i in 0..lost.len() {
        if !taken[i] && lost[i] <= deadline {
            taken[i] = true;
            most = most.max(1 + most_matched(rest, lost, taken));
            taken[i] = false;
        }
    }
    most
}

/// What the checker counts.
fn counted(analysis: &Analysis) -> Counts {
    let kinds = [("violations", true), ("exposures", false)];
    let counts = kinds.into_iter().flat_map(|(kind, claimed)| {
        let names = analysis.details[kind].as_object().unwrap().iter();
        names.map(move |(name, of_name)| {
            let name = FENCING_NAMES.into_iter().find(|known| known == name).unwrap();
            ((name, claimed), of_name["count"].as_u64().unwrap())
        })
    });
    counts.collect()
}

/// What is claimed of a random history.
pub(crate) fn claims(seed: u64) -> Claims {
    let (clock_error_ms, drift) = [(0, 0.0), (1, 0.0), (0, 0.25)][seed as usize % 3];
    let lease = Some(LeaseClaim { clock_error_ms, drift });
    match seed % 4 {
        0 => Claims { lease, ..Claims::default() },
        1 => Claims { lease, validated_tokens: true, writes_once: false, ..Claims::default() },
        2 => Claims { fencing: false, durability: false, mutex: false, ..Claims::default() },
        _ => Claims { linearizable_reads: false, lease: None, ..Claims::default() },
    }
}

/// What the definitions count in a random history, if they leave no choice; fails if the checker counts
/// something else, or tells what its verifier does not confirm.
fn compare(seed: u64) -> Result<Option<Counts>, String> {
    let (history, claims) = (random::history(seed), claims(seed));
    let analysis = Fencing { claims }.check(&history, &Budget::unlimited());
    let mut faults = analysis.undecided.iter().map(|undecided| &undecided.reason);
    if let Some(fault) = faults.find(|reason| reason.contains("fault of the checker")) {
        return Err(format!("seed {seed}: {fault}"));
    }
    let expected = brute_force(&history, &claims);
    if expected.as_ref().is_some_and(|expected| *expected != counted(&analysis)) {
        let (counted, text) = (counted(&analysis), text(&history));
        return Err(format!("seed {seed}, {claims:?}: {counted:?}, and not {expected:?}:\n{text}"));
    }
    Ok(expected)
}

/// On random histories the checker counts what the definitions count, whatever is claimed, and its
/// verifier confirms all that it tells.
#[test]
fn the_checker_agrees_with_the_definitions() {
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    let mut compared = 0;
    let histories = histories();
    for seed in 0..histories {
        let expected = compare(seed).unwrap_or_else(|differs| panic!("{differs}"));
        let Some(expected) = expected else { continue };
        compared += 1;
        for ((name, _), count) in expected {
            *seen.entry(name).or_default() += count;
        }
    }
    assert!(compared > histories / 2, "only {compared} were compared");
    assert_eq!(seen.len(), 16, "every anomaly comes up: {seen:?}");
    println!("{compared} histories: {seen:?}");
}

/// Each rule is broken once, and the comparison tells.
#[test]
fn every_planted_bug_is_found() {
    let missed: Vec<Bug> = Bug::ALL
        .iter()
        .copied()
        .filter(|&bug| {
            plant(Some(bug));
            let found = (0..HISTORIES).any(|seed| compare(seed).is_err());
            plant(None);
            !found
        })
        .collect();
    assert_eq!(missed, []);
}
