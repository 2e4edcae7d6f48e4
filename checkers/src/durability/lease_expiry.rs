//! What was put under a lease goes with the lease: not before its end, and not long after.
//!
//! A lease that nobody renews begins somewhere between the invocation and the completion of the call
//! that was given it, and so ends between the same two moments, a lease later. Whoever sees the key gone
//! before the first has lost it too early; whoever sees it there for long after the second has a lease
//! that does not end.
//!
//! Stores let leases begin anew when somebody else leads. So a lease is given its whole length again
//! after every fault by which that may have come about: after all that were applied, but `clock`. One that
//! was not seen to be healed may go on for ever. A lease whose begin is not known is not judged.

use deposed_history::{Call, Effect, Episode, History, Outcome, Value, ValueRef, episodes};
use rustc_hash::FxHashMap;

use super::planted::{Bug, planted};
use super::{LISTED_MAX, is_f};
use crate::distribution::distribution;
use crate::linearizable::Reservation;
use crate::{Analysis, Anomaly, Budget, Checker, Exhausted, Undecided};

/// The fault that makes nobody else lead.
const HARMLESS: &str = "clock";

/// How much shorter a lease may be by the run's clock than by another: clocks are not that exact.
const SHORTER: f64 = 0.01;

/// Judges `put-leased` of `[key, {lease_ms}]`, whose completed value has the length that was granted,
/// and `read` of `[key, value]`, where `nil` is gone. Each key is put once and never renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseExpiry {
    /// How long after its end a key may still be there.
    pub late_max_ns: u64,
}

/// A key and the lease it is under. Times are of the run, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lease {
    /// Position of the invocation of its put.
    put: u32,
    length_ns: u64,
    /// It does not end before.
    earliest_ns: u64,
    /// It ends before, as far as it is not extended.
    latest_ns: u64,
    /// When its key was known to be there.
    there_ns: u64,
}

/// A definite read of a key.
#[derive(Debug, Clone, Copy)]
struct Read {
    invoke: u32,
    begin_ns: u64,
    end_ns: u64,
    there: bool,
}

impl Lease {
    /// The lease that a put was given.
    fn of(history: &History, put: u32, complete: u32) -> Option<Self> {
        let (asked, given) = (history.op(put).time(), history.op(complete).time());
        let told = if planted(Bug::LeasesAsAsked) { put } else { complete };
        let granted = history.op(told).pair()?.1.as_map()?.get("lease_ms")?.as_int()?;
        let length_ns = u64::try_from(granted).ok()?.checked_mul(1_000_000)?;
        let shorter = if planted(Bug::LeasesAreExact) { 0.0 } else { SHORTER };
        let shortest_ns = length_ns - (length_ns as f64 * shorter) as u64;
        let first_ns = if planted(Bug::LeasesBeginWhenGiven) { given } else { asked };
        let last_ns = if planted(Bug::LeasesBeginWhenAsked) { asked } else { given };
        Some(Self {
            put,
            length_ns,
            earliest_ns: first_ns.saturating_add(shortest_ns),
            latest_ns: last_ns.saturating_add(length_ns),
            there_ns: given,
        })
    }

    /// When it ends at the latest, with what faults may have added. `None` if that never comes.
    fn due_ns(&self, late_max_ns: u64, faults: &[&Episode]) -> Option<u64> {
        let mut due = self.latest_ns;
        for fault in faults {
            let before = if planted(Bug::FaultsExtendAlone) { self.latest_ns } else { due };
            let over = fault.begin.time > before.saturating_add(late_max_ns)
                && !planted(Bug::LateFaultsExtend);
            let healed = healed_ns(fault);
            if over || healed.is_none() && planted(Bug::OpenFaultsEnd) {
                continue;
            }
            // One that was healed before the lease was given makes no difference here.
            due = due.max(healed?.saturating_add(self.length_ns));
        }
        Some(due)
    }
}

/// From when on a fault was certainly not in force any more.
fn healed_ns(fault: &Episode) -> Option<u64> {
    let healed = fault.healed.map(|healed| healed.time);
    healed.filter(|_| fault.is_healed() || planted(Bug::HealingNeedsNoProof))
}

/// Faults after which somebody else may lead, in the order they began.
fn faults(episodes: &[Episode]) -> Vec<&Episode> {
    let may_depose = |fault: &&Episode| {
        let applied = fault.effect() != Effect::Skipped || planted(Bug::SkippedFaultsExtend);
        applied && (fault.fault != HARMLESS || planted(Bug::ClockFaultsExtend))
    };
    episodes.iter().filter(may_depose).collect()
}

/// What is known of one key.
#[derive(Debug, Default)]
struct Key {
    puts: u32,
    lease: Option<Lease>,
    reads: Vec<Read>,
}

impl Checker for LeaseExpiry {
    fn name(&self) -> &str {
        "lease-expiry"
    }

    fn check(&self, history: &History, budget: &Budget) -> Analysis {
        self.judge(history, budget)
            .unwrap_or_else(|why| Analysis::exhausted(self.name(), history, why))
    }
}

/// Bytes a key takes, as the vector and the table of them grow.
const BYTES_PER_KEY: u64 =
    3 * (size_of::<(ValueRef<'_>, Key)>() + size_of::<(ValueRef<'_>, usize)>() + 1) as u64;

/// Bytes a read takes, as the vector of those of a key grows.
const BYTES_PER_READ: u64 = 2 * size_of::<Read>() as u64;

impl LeaseExpiry {
    fn judge(&self, history: &History, budget: &Budget) -> Result<Analysis, Exhausted> {
        let mut memory = Reservation::new(budget);
        let episodes = episodes(history);
        let (faults, keys) = (faults(&episodes), collect(history, &mut memory)?);
        let (mut anomalies, mut count) = (Vec::new(), 0u64);
        let (mut leases, mut ended, mut outlived) = (0u64, 0u64, Vec::new());
        for key in budget.pace(&keys) {
            let (name, key) = key?;
            // Whoever put it again, or may have, gave it another lease.
            let once = key.puts == 1 || planted(Bug::LastPutCounts);
            let Some(lease) = key.lease.filter(|_| once) else { continue };
            leases += 1;
            let early = key.reads.iter().find(|read| lost(&lease, read));
            let due = lease.due_ns(self.late_max_ns, &faults);
            let asked_ns = |read: &Read| match planted(Bug::AnswersAreLate) {
                true => read.end_ns,
                false => read.begin_ns,
            };
            let after = |read: &&Read| due.is_some_and(|due| asked_ns(read) > due);
            ended += u64::from(key.reads.iter().any(|read| after(&read)));
            let mut there = key.reads.iter().filter(after).filter(|read| read.there);
            let last = if planted(Bug::FirstReadTells) { there.next() } else { there.next_back() };
            if let (Some(last), Some(due)) = (last, due) {
                let late_ns = last.begin_ns.saturating_sub(due);
                outlived.push(i64::try_from(late_ns).unwrap_or(i64::MAX));
            }
            let late_max_ns = if planted(Bug::EndsAreExact) { 0 } else { self.late_max_ns };
            let late = last.filter(|read| {
                due.is_some_and(|due| asked_ns(read) > due.saturating_add(late_max_ns))
            });
            let found = early.map(|read| cut_short(history, *name, &lease, read)).into_iter();
            let found = found.chain(
                late.zip(due).map(|(read, due)| outlives(history, *name, &lease, read, due)),
            );
            for anomaly in found {
                count += 1;
                if anomalies.len() < LISTED_MAX {
                    anomalies.push(anomaly);
                }
            }
        }
        let mut undecided = Vec::new();
        if ended == 0 && anomalies.is_empty() {
            let none = "no key was looked at after the end of its lease";
            undecided.push(Undecided::untested(history, none));
        }
        let summary = format!("{leases} leases, {ended} of them looked at after their end");
        let details = serde_json::json!({
            "leases": leases,
            "looked_at_after_their_end": ended,
            "measures": { "lease_outlived": distribution(&outlived) },
        });
        let analysis = Analysis {
            details,
            anomaly_count: count,
            ..Analysis::from_findings(self.name(), summary, anomalies, undecided)
        };
        Ok(analysis.verified(history, budget, |anomaly| {
            let put = history.op(anomaly.witness[0]).pair();
            put.is_some_and(|(key, _)| self.confirmed(history, &episodes, key, anomaly))
        }))
    }
}

/// Whether a read saw a key gone before its lease could be over.
fn lost(lease: &Lease, read: &Read) -> bool {
    let known = read.begin_ns >= lease.there_ns || planted(Bug::EarlyReadsLose);
    let told_ns = if planted(Bug::ReadsUnderWayLose) { read.begin_ns } else { read.end_ns };
    !read.there && known && told_ns < lease.earliest_ns
}

/// Every key with its lease and what was read of it, in the order of their first calls.
fn collect<'h>(
    history: &'h History,
    memory: &mut Reservation<'_>,
) -> Result<Vec<(ValueRef<'h>, Key)>, Exhausted> {
    let (mut is_put, mut is_read) = (is_f(history, "put-leased"), is_f(history, "read"));
    let mut place: FxHashMap<ValueRef<'_>, usize> = FxHashMap::default();
    let mut keys: Vec<(ValueRef<'_>, Key)> = Vec::new();
    let mut reads_count = 0;
    for call in memory.budget.pace(history.calls()) {
        let call = call?;
        let (put, read) = (is_put(call.invoke), is_read(call.invoke));
        let Some((name, _)) = history.op(call.invoke).pair().filter(|_| put || read) else {
            continue;
        };
        let at = *place.entry(name).or_insert_with(|| {
            keys.push((name, Key::default()));
            keys.len() - 1
        });
        reads_count += u64::from(read);
        memory.hold(keys.len() as u64 * BYTES_PER_KEY + reads_count * BYTES_PER_READ)?;
        let key = &mut keys[at].1;
        let may_have = match call.outcome() {
            Outcome::Ok => true,
            Outcome::Info => !planted(Bug::OpenPutsIgnored),
            Outcome::Fail => planted(Bug::FailedPutsCount),
        };
        if put && may_have {
            key.puts += 1;
        }
        let (Outcome::Ok, Some(complete)) = (call.outcome(), call.complete()) else { continue };
        if put {
            key.lease = Lease::of(history, call.invoke, complete);
        } else if let Some((_, value)) = history.op(complete).pair() {
            key.reads.push(Read {
                invoke: call.invoke,
                begin_ns: history.op(call.invoke).time(),
                end_ns: history.op(complete).time(),
                there: value.to_value() != Value::Nil,
            });
        }
    }
    Ok(keys)
}

impl LeaseExpiry {
    /// Looks at the calls of a witness once more, without anything that was made of them: a lease of this
    /// key and no other, and a read of it that saw what it is said to have seen, late enough for the lease
    /// to be over in spite of all faults, or early enough for it not to be.
    pub(super) fn confirmed(
        &self,
        history: &History,
        episodes: &[Episode],
        key: ValueRef<'_>,
        anomaly: &Anomaly,
    ) -> bool {
        let [put, read] = anomaly.witness[..] else { return false };
        let of_key =
            |call: &&Call| history.op(call.invoke).pair().is_some_and(|pair| pair.0 == key);
        let found = |at: u32| history.calls().iter().filter(of_key).find(|call| call.invoke == at);
        let (Some(put), Some(read)) = (found(put), found(read)) else { return false };
        let f = |call: &Call| history.op(call.invoke).f();
        let puts = history.calls().iter().filter(of_key).filter(|call| f(call) == "put-leased");
        let alone = puts.filter(|call| call.outcome() != Outcome::Fail).count() == 1;
        let named = (f(put), f(read)) == ("put-leased", "read");
        let both = put.outcome() == Outcome::Ok && read.outcome() == Outcome::Ok;
        let (Some(given), Some(told)) = (put.complete(), read.complete()) else { return false };
        let ends = history.op(given).pair().zip(history.op(told).pair());
        let Some(((_, lease), (_, seen))) = ends.filter(|_| alone && named && both) else {
            return false;
        };
        let lease_ms =
            lease.as_map().and_then(|lease| lease.get("lease_ms")?.as_int()).unwrap_or(0);
        let lease_ns = lease_ms.unsigned_abs().saturating_mul(1_000_000);
        let time = |position: u32| history.op(position).time();
        let (given_ns, asked_ns) = (time(given), time(read.invoke));
        match anomaly.name.as_str() {
            "lease-outlived" => {
                let over_ns = may_last_until(given_ns, lease_ns, self.late_max_ns, episodes);
                seen.to_value() != Value::Nil && asked_ns > over_ns
            }
            "lease-cut-short" => {
                let held_ns = time(told).saturating_sub(time(put.invoke));
                let early = held_ns < lease_ns - (lease_ns as f64 * SHORTER) as u64;
                seen.to_value() == Value::Nil && early && asked_ns >= given_ns
            }
            _ => false,
        }
    }
}

/// Until when a key may be there that was under a lease from a moment on: until no fault makes it any more.
fn may_last_until(from_ns: u64, lease_ns: u64, late_ns: u64, episodes: &[Episode]) -> u64 {
    let mut until_ns = from_ns.saturating_add(lease_ns).saturating_add(late_ns);
    loop {
        let extends = episodes.iter().filter(|fault| {
            let harmless = fault.fault == HARMLESS || fault.effect() == Effect::Skipped;
            !harmless && fault.begin.time <= until_ns
        });
        let until = extends.map(|fault| match fault.healed.filter(|_| fault.is_healed()) {
            Some(at) => at.time.saturating_add(lease_ns).saturating_add(late_ns),
            None => u64::MAX,
        });
        match until.max().filter(|&until| until > until_ns) {
            Some(later) => until_ns = later,
            None => return until_ns,
        }
    }
}

fn seconds(ns: u64) -> String {
    format!("{:.1} s", ns as f64 / 1e9)
}

/// What both kinds of anomalies begin with.
fn given(history: &History, key: ValueRef<'_>, lease: &Lease) -> String {
    format!(
        "Process {} put key {key} under a lease of {}: it asked at {} and was told at {}, so the lease \
         began in between. Nobody renewed it.",
        history.op(lease.put).process(),
        seconds(lease.length_ns),
        seconds(history.op(lease.put).time()),
        seconds(lease.there_ns),
    )
}

fn outlives(
    history: &History,
    key: ValueRef<'_>,
    lease: &Lease,
    read: &Read,
    due_ns: u64,
) -> Anomaly {
    let process = history.op(read.invoke).process();
    let late = seconds(read.begin_ns.saturating_sub(due_ns));
    let mut sentences = vec![given(history, key, lease)];
    if due_ns > lease.latest_ns {
        sentences.push(format!(
            "Faults by which another node may have come to lead were over early enough for a lease that \
             began anew after the last of them to end by {}.",
            seconds(due_ns)
        ));
    } else {
        sentences.push(format!("So it was over by {}.", seconds(due_ns)));
    }
    sentences.push(format!(
        "Process {process} asked at {}, which is {late} later, and the key was still there: the lease \
         did not end.",
        seconds(read.begin_ns)
    ));
    Anomaly {
        name: "lease-outlived".into(),
        key: Some(key.to_string()),
        summary: format!(
            "key {key}: process {process} found it {late} after the end of the lease of {} that it was \
             put under",
            seconds(lease.length_ns)
        ),
        sentences,
        witness: vec![lease.put, read.invoke],
        edges: Vec::new(),
    }
}

fn cut_short(history: &History, key: ValueRef<'_>, lease: &Lease, read: &Read) -> Anomaly {
    let process = history.op(read.invoke).process();
    let left = seconds(lease.earliest_ns.saturating_sub(read.end_ns));
    Anomaly {
        name: "lease-cut-short".into(),
        key: Some(key.to_string()),
        summary: format!(
            "key {key}: process {process} found it gone {left} before the end of the lease of {} that \
             it was put under",
            seconds(lease.length_ns)
        ),
        sentences: vec![
            given(history, key, lease),
            format!("So it was not over before {}.", seconds(lease.earliest_ns)),
            format!(
                "Process {process} asked after the key was known to be there, was told by {} that it is \
                 gone, and nobody had removed it: the lease ended too early.",
                seconds(read.end_ns)
            ),
        ],
        witness: vec![lease.put, read.invoke],
        edges: Vec::new(),
    }
}
