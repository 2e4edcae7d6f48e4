//! Writes: which survived, which took effect twice, and which reads should have seen them.

use super::Claims;
use super::facts::{Facts, Fate, NONE, Proof, Read, SeenIds, Snapshot, Write};
use super::found::Found;
use super::planted::{Bug, planted};
use super::tell::{Story, length, short};
use crate::EdgeKind;

/// Judges all that has to do with what became of writes.
pub(super) fn judge(facts: &Facts<'_>, claims: &Claims, found: &mut Found) {
    let ids = facts.by_resource(facts.fates.iter().map(|fate| fate.resource));
    let reads = facts.by_resource(facts.reads.iter().map(|read| read.resource));
    let snapshots = facts.by_resource(facts.snapshots.iter().map(|snapshot| snapshot.resource));
    let mut marks = Marks { lost: vec![false; facts.fates.len()], seen: Marked::of(facts) };
    let mut gone = Gone::default();
    for (number, resource) in facts.resources.iter().enumerate() {
        let ids = ids.get(number);
        let is_acknowledged = |id: &u32| facts.fates[*id as usize].acknowledged != NONE;
        let judge = Judge {
            facts,
            claims,
            number,
            resource,
            snapshots: last_snapshots(snapshots.facts(number, &facts.snapshots)),
            acknowledged: ids.iter().copied().filter(is_acknowledged).collect(),
            reads: reads.facts(number, &facts.reads),
        };
        judge.lost(&mut marks, &mut gone, found);
        judge.duplicates(ids, &mut marks.seen, found);
        judge.stale_reads(&mut marks, found);
        found.count("acknowledged_writes", judge.acknowledged.len() as u64);
        found.count("reads", judge.reads.len() as u64);
    }
    gone.measure(found);
}

/// Who acknowledged a write: a node in an epoch, if it said so, or else a token of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Leader(i64, u32),
    Token(usize, Option<i64>),
}

/// When writes were acknowledged that are gone, and by whom.
#[derive(Debug, Default)]
struct Gone {
    lost: Vec<(By, u64)>,
    /// Those of them that the resource refused.
    refused: Vec<(By, u64)>,
}

impl Gone {
    /// From the first to the last of each that went on to acknowledge what it could not keep.
    fn measure(self, found: &mut Found) {
        found.count("acknowledged_then_refused", self.refused.len() as u64);
        let windows = [
            ("lost_acknowledgements_window", self.lost),
            ("acknowledged_then_refused_window", self.refused),
        ];
        for (name, mut acknowledged) in windows {
            acknowledged.sort_unstable();
            for of_one in acknowledged.chunk_by(|a, b| a.0 == b.0) {
                let (first, last) = (of_one[0].1, of_one[of_one.len() - 1].1);
                found.measure(name, (last - first) as i64);
            }
        }
    }
}

/// What is noted of writes by their ids, in one place for all resources.
struct Marks {
    /// It was acknowledged, and is in none of the observations with the last word.
    lost: Vec<bool>,
    seen: Marked,
}

/// A set of ids that is emptied at no cost.
struct Marked {
    round: u32,
    rounds: Vec<u32>,
}

impl Marked {
    fn of(facts: &Facts<'_>) -> Self {
        Self { round: 0, rounds: vec![0; facts.fates.len()] }
    }

    fn clear(&mut self) {
        self.round += 1;
    }

    /// Puts one in; says whether it is new.
    fn insert(&mut self, id: u32) -> bool {
        std::mem::replace(&mut self.rounds[id as usize], self.round) != self.round
    }

    fn contains(&self, id: u32) -> bool {
        self.rounds[id as usize] == self.round
    }
}

/// Those of the greatest epoch there is.
fn last_snapshots(mut snapshots: Vec<&Snapshot>) -> Vec<&Snapshot> {
    let last = snapshots.iter().map(|snapshot| snapshot.epoch).max();
    snapshots.retain(|snapshot| Some(snapshot.epoch) == last || planted(Bug::OldSnapshotsCount));
    snapshots
}

struct Judge<'a, 'h> {
    facts: &'a Facts<'h>,
    claims: &'a Claims,
    number: usize,
    resource: &'h str,
    /// What has the last word.
    snapshots: Vec<&'a Snapshot>,
    /// Ids of acknowledged writes.
    acknowledged: Vec<u32>,
    /// In order of invocation.
    reads: Vec<&'a Read>,
}

/// What proves that a write is lost.
enum Authority {
    Snapshot(u32),
    Log(Option<u32>),
    Read(u32),
}

impl<'h> Judge<'_, 'h> {
    fn fate(&self, id: u32) -> &Fate {
        &self.facts.fates[id as usize]
    }

    fn acknowledgement(&self, id: u32) -> &Write {
        let fate = self.fate(id);
        self.facts.acknowledgement(fate).expect("only acknowledged writes are looked at")
    }

    fn is_logged(&self) -> bool {
        !self.facts.logs[self.number].is_empty()
    }

    /// Whether one write certainly took effect after another one, and that not again.
    fn is_newer(&self, id: u32, than: u32) -> bool {
        let (newer, older) = (self.fate(id), self.fate(than));
        if self.is_logged() {
            let both = newer.accepted != NONE && older.accepted != NONE;
            let first = planted(Bug::FirstEffectCounts);
            let last = if first { older.accepted } else { older.accepted_last };
            return both && newer.accepted > last;
        }
        let over = if planted(Bug::BegunBeforeIsOlder) { older.invoke } else { older.done };
        newer.invoke != NONE && over != NONE && newer.invoke > over
    }

    /// Marks the acknowledged writes that are in none of the observations with the last word.
    fn lost(&self, marks: &mut Marks, gone: &mut Gone, found: &mut Found) {
        let Some(authority) = self.authority(&mut marks.seen) else {
            if self.claims.durability && !self.acknowledged.is_empty() {
                let reason = format!(
                    "{} writes to {} were acknowledged, and nothing tells what became of them: \
                     collect its log or take a snapshot when all has settled",
                    self.acknowledged.len(),
                    self.resource
                );
                found.undecided.push((0, reason));
            }
            return;
        };
        for (id, proof) in authority {
            marks.lost[id as usize] = true;
            let write = self.acknowledgement(id);
            let by = write.served.map_or(By::Token(self.number, write.token), |served| {
                By::Leader(served.epoch, served.node)
            });
            let acknowledged = (by, write.span.end_ns);
            gone.lost.push(acknowledged);
            gone.refused.extend((self.fate(id).refused != NONE).then_some(acknowledged));
            self.note_lost(write, &proof, found);
        }
    }

    /// The acknowledged writes that are lost, each with what proves it; none if nothing can.
    fn authority(&self, seen: &mut Marked) -> Option<Vec<(u32, Authority)>> {
        if let Some(first) = self.snapshots.first() {
            seen.clear();
            let mut last_seen: Vec<Option<u32>> = Vec::new();
            for snapshot in &self.snapshots {
                for &id in self.facts.every(&snapshot.seen) {
                    seen.insert(id);
                }
                if let SeenIds::Last(id) = snapshot.seen {
                    last_seen.push(id);
                }
            }
            let survives = |id: u32| {
                if planted(Bug::AllSnapshotsMustHave) && self.snapshots.len() > 1 {
                    return self.snapshots.iter().all(|s| self.facts.every(&s.seen).contains(&id));
                }
                let has = |last: u32| match planted(Bug::LastIsAll) {
                    true => id == last,
                    false => !self.is_newer(id, last),
                };
                seen.contains(id) || last_seen.iter().any(|last| last.is_some_and(has))
            };
            let lost = self.acknowledged.iter().filter(|&&id| !survives(id));
            return Some(lost.map(|&id| (id, Authority::Snapshot(first.position))).collect());
        }
        if self.is_logged() && !planted(Bug::LogsTellNothing) {
            let refused = |fate: &Fate| planted(Bug::RefusedIsLost) && fate.refused != NONE;
            let is_lost = |fate: &Fate| fate.accepted == NONE || refused(fate);
            let lost = self.acknowledged.iter().filter(|&&id| is_lost(self.fate(id)));
            let line = |fate: &Fate| {
                self.facts.attempts.get(fate.refused as usize).map(|attempt| attempt.position)
            };
            return Some(lost.map(|&id| (id, Authority::Log(line(self.fate(id))))).collect());
        }
        self.lost_to_reads(seen)
    }

    /// By reads of everything in a later epoch, if there are any: of what a leader has, unless all
    /// reads are as good as that.
    fn lost_to_reads(&self, survives: &mut Marked) -> Option<Vec<(u32, Authority)>> {
        let tells = |read: &&&Read| {
            let all = self.claims.linearizable_reads || planted(Bug::FollowersTell);
            let sound = |served: Proof| served.leader || all;
            let every = matches!(read.seen, SeenIds::Every(_)) || planted(Bug::LastReadsTell);
            every && read.served.is_some_and(sound)
        };
        let reads: Vec<&Read> = self.reads.iter().filter(tells).copied().collect();
        let epoch = |read: &Read| read.served.map_or(i64::MIN, |served| served.epoch);
        // The greatest epoch of a read and all after it, and which has it.
        let mut latest: Vec<(i64, u32)> =
            reads.iter().map(|read| (epoch(read), read.span.invoke)).collect();
        for i in (1..latest.len()).rev().filter(|_| !planted(Bug::FirstReadTells)) {
            latest[i - 1] = latest[i - 1].max(latest[i]);
        }
        latest.first()?;
        let of_write = |write: &Write| write.served.map(|served| served.epoch);
        survives.clear();
        for read in &self.reads {
            let last = match read.seen {
                SeenIds::Last(last) if !planted(Bug::LastReadsSaveNothing) => last,
                _ => None,
            };
            for &id in self.facts.every(&read.seen).iter().chain(&last) {
                let Some(write) = self.facts.acknowledgement(self.fate(id)) else { continue };
                let is_later =
                    read.span.invoke > write.span.complete || planted(Bug::EarlierReadsSave);
                let any = planted(Bug::AnyEpochSaves);
                if is_later && of_write(write).is_some_and(|of_write| epoch(read) > of_write || any)
                {
                    survives.insert(id);
                }
            }
        }
        let lost = self.acknowledged.iter().filter_map(|&id| {
            let write = self.acknowledgement(id);
            let complete = write.span.complete;
            let mut after = reads.partition_point(|read| read.span.invoke < complete);
            if planted(Bug::EarlierReadsTell) {
                after = 0;
            }
            let &(last, read) = latest.get(after)?;
            let of_write = of_write(write)?;
            let is_later = last > of_write || planted(Bug::SameEpochTells) && last == of_write;
            (is_later && !survives.contains(id)).then_some((id, Authority::Read(read)))
        });
        Some(lost.collect())
    }

    fn note_lost(&self, write: &Write, proof: &Authority, found: &mut Found) {
        let (name, history) = ("lost-acked-write", self.facts.history);
        found.note(name, self.claims.durability, None, || {
            let at = write.span.invoke;
            let summary = format!("an acknowledged write to {} is gone", self.resource);
            let a = short(history, at);
            let missed = |story: Story<'h>, by: u32| {
                let b = short(history, by);
                story.real_time(at, by).step(
                    by,
                    at,
                    EdgeKind::ReadWrite,
                    format!("{b} does not have what {a} wrote"),
                )
            };
            let story = |witness: &[u32]| {
                Story::of(history, name, Some(self.resource), witness, summary.clone())
            };
            match *proof {
                Authority::Snapshot(snapshot) => {
                    // One that tells the last write misses all older ones: which, is to be seen.
                    let lasts =
                        self.snapshots.iter().filter(|s| matches!(s.seen, SeenIds::Last(_)));
                    let lasts = lasts.map(|s| s.position).filter(|other| *other != snapshot);
                    let witness: Vec<u32> = [at, snapshot].into_iter().chain(lasts).collect();
                    missed(story(&witness), snapshot)
                }
                Authority::Read(read) => missed(story(&[at, read]), read)
                    .say("No read of a later epoch ever had it.".into()),
                Authority::Log(Some(refused)) => {
                    story(&[at, refused]).say(format!("{} never accepted it.", self.resource))
                }
                Authority::Log(None) => story(&[at])
                    .say(format!("It never came to {}, as its log shows.", self.resource)),
            }
            .end()
        });
    }

    /// Writes that took effect twice.
    fn duplicates(&self, ids: &[u32], seen_before: &mut Marked, found: &mut Found) {
        let mut twice: Vec<(u32, [u32; 2])> = Vec::new();
        let attempts = &self.facts.attempts;
        for &id in ids {
            let fate = self.fate(id);
            if fate.accepted_count > 1 {
                let lines = [fate.accepted, fate.accepted_last];
                twice.push((id, lines.map(|line| attempts[line as usize].position)));
            }
        }
        let mut known: rustc_hash::FxHashSet<u32> = twice.iter().map(|&(id, _)| id).collect();
        let snapshots = self.snapshots.iter().map(|s| (s.position, &s.seen));
        let reads = self.reads.iter().map(|r| (r.span.invoke, &r.seen));
        for (position, seen) in snapshots.chain(reads) {
            seen_before.clear();
            for &id in self.facts.every(seen) {
                let twice_seen = !seen_before.insert(id) && !planted(Bug::RepeatsIgnored);
                if twice_seen && (known.insert(id) || planted(Bug::RepeatsCountAgain)) {
                    twice.push((id, [position, position]));
                }
            }
        }
        for (id, witness) in twice {
            let name = "duplicate-apply";
            found.note(name, self.claims.writes_once, None, || {
                let mut witness = witness.to_vec();
                witness.extend(Some(self.fate(id).invoke).filter(|&invoke| invoke != NONE));
                let summary = format!("a write to {} took effect twice", self.resource);
                Story::of(self.facts.history, name, Some(self.resource), &witness, summary)
                    .say("One id, one write: the second time is one too many.".into())
                    .end()
            });
        }
    }

    /// Reads that miss a write which was acknowledged before they began, and is not lost.
    fn stale_reads(&self, marks: &mut Marks, found: &mut Found) {
        if self.reads.is_empty() {
            return;
        }
        let survives = |id: u32| !marks.lost[id as usize] || planted(Bug::LostIsMissed);
        let mut survivors: Vec<u32> =
            self.acknowledged.iter().copied().filter(|&id| survives(id)).collect();
        survivors.sort_by_cached_key(|&id| self.acknowledgement(id).span.complete);
        let order = Order::of(self, &survivors);
        for read in &self.reads {
            let missed = match &read.seen {
                SeenIds::Every(_) => {
                    marks.seen.clear();
                    for &id in self.facts.every(&read.seen) {
                        marks.seen.insert(id);
                    }
                    survivors.iter().copied().find(|&id| !marks.seen.contains(id))
                }
                SeenIds::Last(None) if planted(Bug::NothingIsFine) => None,
                SeenIds::Last(None) => survivors.first().copied(),
                SeenIds::Last(Some(seen)) => order.first_newer(self, *seen),
            };
            let Some(missed) = missed else { continue };
            let write = self.acknowledgement(missed);
            let until = match planted(Bug::UnderWayIsMissed) {
                true => read.span.complete,
                false => read.span.invoke,
            };
            if write.span.complete > until {
                continue;
            }
            let late = read.span.begin_ns.saturating_sub(write.span.end_ns);
            self.note_stale(read, write, late, found);
        }
    }

    fn note_stale(&self, read: &Read, write: &Write, late: u64, found: &mut Found) {
        let (name, history) = ("stale-read-under-lease", self.facts.history);
        found.note(name, self.claims.linearizable_reads, Some(late), || {
            let (from, to) = (write.span.invoke, read.span.invoke);
            let summary = format!(
                "a read of {} missed a write acknowledged {} before it began",
                self.resource,
                length(late)
            );
            let (a, b) = (short(history, from), short(history, to));
            let mut witness = vec![from, to];
            let because = match read.seen {
                SeenIds::Last(Some(seen)) => {
                    witness.extend(Some(self.fate(seen).invoke).filter(|&at| at != NONE));
                    format!("{b} saw an older write than {a}")
                }
                _ => format!("{b} did not see {a}"),
            };
            Story::of(history, name, Some(self.resource), &witness, summary)
                .real_time(from, to)
                .step(to, from, EdgeKind::ReadWrite, because)
                .end()
        });
    }
}

/// Acknowledged writes in the order in which they certainly took effect.
struct Order {
    /// Where each first took effect (a line of the log, or else its invocation), ascending.
    starts: Vec<u32>,
    /// Of it and all after it, the one that was acknowledged first.
    first: Vec<u32>,
}

impl Order {
    fn of(judge: &Judge<'_, '_>, survivors: &[u32]) -> Self {
        let logged = judge.is_logged();
        let start = |id: u32| {
            let fate = judge.fate(id);
            if logged { fate.accepted } else { fate.invoke }
        };
        let mut ordered: Vec<(u32, u32)> =
            survivors.iter().map(|&id| (start(id), id)).filter(|(at, _)| *at != NONE).collect();
        ordered.sort_unstable();
        let mut first: Vec<u32> = ordered.iter().map(|&(_, id)| id).collect();
        let acknowledged = |id: u32| judge.acknowledgement(id).span.complete;
        for i in (1..first.len()).rev().filter(|_| !planted(Bug::OnlyTheNextWrite)) {
            first[i - 1] = std::cmp::min_by_key(first[i - 1], first[i], |&id| acknowledged(id));
        }
        Self { starts: ordered.into_iter().map(|(at, _)| at).collect(), first }
    }

    /// Of all writes newer than one, the one that was acknowledged first.
    fn first_newer(&self, judge: &Judge<'_, '_>, seen: u32) -> Option<u32> {
        let fate = judge.fate(seen);
        let over = if judge.is_logged() { fate.accepted_last } else { fate.done };
        if over == NONE {
            return None;
        }
        let after = self
            .starts
            .partition_point(|&start| start < over || start == over && !planted(Bug::SeenIsMissed));
        self.first.get(after).copied()
    }
}
