//! What was put under a lease goes with the lease: not before its end, and not long after.
//!
//! A lease that nobody renews begins somewhere between the invocation and the completion of the call
//! that was given it, and so ends between the same two moments, a lease later. Whoever sees the key gone
//! before the first has lost it too early; whoever sees it there for long after the second has a lease
//! that does not end.
//!
//! Stores let leases begin anew when somebody else leads. So a lease is given its whole length again
//! after every fault by which that may have come about: after all but `clock`. A lease whose begin is
//! not known is not judged.

use deposed_history::{Call, Episode, History, Outcome, Value, ValueRef, episodes};
use rustc_hash::FxHashMap;

use super::{LISTED_MAX, is_f, vacuous, whole};
use crate::distribution::distribution;
use crate::{Analysis, Anomaly, Budget, Checker, Undecided};

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
        let granted = history.op(complete).pair()?.1.as_map()?.get("lease_ms")?.as_int()?;
        let length_ns = u64::try_from(granted).ok()?.checked_mul(1_000_000)?;
        let shortest_ns = length_ns - (length_ns as f64 * SHORTER) as u64;
        Some(Self {
            put,
            length_ns,
            earliest_ns: asked.saturating_add(shortest_ns),
            latest_ns: given.saturating_add(length_ns),
            there_ns: given,
        })
    }

    /// When it ends at the latest, with what faults may have added. `None` if that never comes.
    fn due_ns(&self, late_max_ns: u64, faults: &[&Episode]) -> Option<u64> {
        let mut due = self.latest_ns;
        for fault in faults {
            let over = fault.begin.time > due.saturating_add(late_max_ns);
            if over || fault.healed.is_some_and(|healed| healed.time < self.there_ns) {
                continue;
            }
            due = due.max(fault.healed?.time.saturating_add(self.length_ns));
        }
        Some(due)
    }
}

/// Faults after which somebody else may lead, in the order they began.
fn faults(episodes: &[Episode]) -> Vec<&Episode> {
    let mut faults: Vec<&Episode> = episodes.iter().filter(|e| e.fault != HARMLESS).collect();
    faults.sort_by_key(|fault| fault.begin.time);
    faults
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

    fn check(&self, history: &History, _budget: &Budget) -> Analysis {
        let episodes = episodes(history);
        let (faults, keys) = (faults(&episodes), collect(history));
        let (mut anomalies, mut count, mut refused) = (Vec::new(), 0u64, false);
        let (mut leases, mut ended, mut outlived) = (0u64, 0u64, Vec::new());
        for (name, key) in &keys {
            // Whoever put it again, or may have, gave it another lease.
            let Some(lease) = key.lease.filter(|_| key.puts == 1) else { continue };
            leases += 1;
            let early = key.reads.iter().find(|read| lost(&lease, read));
            let due = lease.due_ns(self.late_max_ns, &faults);
            let after = |read: &&Read| due.is_some_and(|due| read.begin_ns > due);
            ended += u64::from(key.reads.iter().any(|read| after(&read)));
            let last = key.reads.iter().filter(after).rfind(|read| read.there);
            if let (Some(last), Some(due)) = (last, due) {
                outlived.push(i64::try_from(last.begin_ns - due).unwrap_or(i64::MAX));
            }
            let late = last.filter(|read| {
                due.is_some_and(|due| read.begin_ns > due.saturating_add(self.late_max_ns))
            });
            let found = early.map(|read| cut_short(history, *name, &lease, read)).into_iter();
            let found = found.chain(
                late.zip(due).map(|(read, due)| outlives(history, *name, &lease, read, due)),
            );
            for anomaly in found {
                if !confirmed(history, *name, &anomaly) {
                    refused = true;
                    continue;
                }
                count += 1;
                if anomalies.len() < LISTED_MAX {
                    anomalies.push(anomaly);
                }
            }
        }
        let mut undecided = Vec::new();
        if ended == 0 && anomalies.is_empty() {
            undecided.push(vacuous(history, "no key was looked at after the end of its lease"));
        }
        if refused {
            let reason = "what was found did not stand up to its verification: this is a fault of \
                          this checker";
            undecided.push(Undecided {
                key: None,
                window: whole(history),
                reason: reason.into(),
                known: None,
            });
        }
        let summary = format!("{leases} leases, {ended} of them looked at after their end");
        let details = serde_json::json!({
            "leases": leases,
            "looked_at_after_their_end": ended,
            "measures": { "lease_outlived": distribution(&outlived) },
        });
        Analysis {
            details,
            anomaly_count: count,
            ..Analysis::from_findings(self.name(), summary, anomalies, undecided)
        }
    }
}

/// Whether a read saw a key gone before its lease could be over.
fn lost(lease: &Lease, read: &Read) -> bool {
    !read.there && read.begin_ns >= lease.there_ns && read.end_ns < lease.earliest_ns
}

/// Every key with its lease and what was read of it, in the order of their first calls.
fn collect(history: &History) -> Vec<(ValueRef<'_>, Key)> {
    let (mut is_put, mut is_read) = (is_f(history, "put-leased"), is_f(history, "read"));
    let mut place: FxHashMap<ValueRef<'_>, usize> = FxHashMap::default();
    let mut keys: Vec<(ValueRef<'_>, Key)> = Vec::new();
    for call in history.calls() {
        let (put, read) = (is_put(call.invoke), is_read(call.invoke));
        let Some((name, _)) = history.op(call.invoke).pair().filter(|_| put || read) else {
            continue;
        };
        let at = *place.entry(name).or_insert_with(|| {
            keys.push((name, Key::default()));
            keys.len() - 1
        });
        let key = &mut keys[at].1;
        if put && call.outcome != Outcome::Fail {
            key.puts += 1;
        }
        let (Outcome::Ok, Some(complete)) = (call.outcome, call.complete) else { continue };
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
    keys
}

/// Looks at the calls of a witness once more, without anything that was made of them: a lease of this key
/// and no other, and a read of it that saw what it is said to have seen, far enough from the put for
/// the lease to be over, or near enough for it not to be.
fn confirmed(history: &History, key: ValueRef<'_>, anomaly: &Anomaly) -> bool {
    let [put, read] = anomaly.witness[..] else { return false };
    let of_key = |call: &&Call| history.op(call.invoke).pair().is_some_and(|pair| pair.0 == key);
    let found = |at: u32| history.calls().iter().filter(of_key).find(|call| call.invoke == at);
    let (Some(put), Some(read)) = (found(put), found(read)) else { return false };
    let puts = history.calls().iter().filter(of_key);
    let puts = puts.filter(|call| history.op(call.invoke).f() == "put-leased");
    let alone = puts.filter(|call| call.outcome != Outcome::Fail).count() == 1;
    let both = [put, read].into_iter().all(|call| call.outcome == Outcome::Ok);
    let (Some(given), Some(told)) = (put.complete, read.complete) else { return false };
    let (Some((_, lease)), Some((_, seen))) = (history.op(given).pair(), history.op(told).pair())
    else {
        return false;
    };
    let lease_ms = lease.as_map().and_then(|lease| lease.get("lease_ms")?.as_int()).unwrap_or(0);
    let lease_ns = lease_ms.unsigned_abs().saturating_mul(1_000_000);
    let time = |position: u32| history.op(position).time();
    let there = seen.to_value() != Value::Nil;
    let apart = match there {
        true => time(read.invoke).saturating_sub(time(given)) > lease_ns,
        false => time(told).saturating_sub(time(put.invoke)) < lease_ns,
    };
    let named = if there { "lease-outlived" } else { "lease-cut-short" };
    alone && both && apart && anomaly.name == named && history.op(read.invoke).f() == "read"
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
    let late = seconds(read.begin_ns - due_ns);
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
    let left = seconds(lease.earliest_ns - read.end_ns);
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

#[cfg(test)]
mod tests {
    use deposed_history::{Effect, FaultAction, FaultEvent, Header, Op, OpType, Process, Sighting};

    use super::*;
    use crate::Verdict;

    const MS: u64 = 1_000_000;
    const LATE_MAX: LeaseExpiry = LeaseExpiry { late_max_ns: 500 * MS };

    /// A call: from, to, function, key, what was answered.
    fn call(from: u64, to: u64, f: &str, key: &str, kind: OpType, answer: Value) -> [Op; 2] {
        let op = |ms: u64, kind, payload| Op {
            time: ms * MS,
            ..Op::new(kind, Process::Client(0), f, Value::pair(key, payload))
        };
        [op(from, OpType::Invoke, Value::Nil), op(to, kind, answer)]
    }

    fn put(from: u64, to: u64, key: &str, lease_ms: i64) -> [Op; 2] {
        let granted = Value::Map(vec![("lease_ms".into(), Value::Int(lease_ms))]);
        call(from, to, "put-leased", key, OpType::Ok, granted)
    }

    fn read(from: u64, to: u64, key: &str, there: bool) -> [Op; 2] {
        let seen = if there { Value::Int(1) } else { Value::Nil };
        call(from, to, "read", key, OpType::Ok, seen)
    }

    fn fault(name: &str, from: u64, to: u64) -> Vec<Op> {
        let seen = |effect| Sighting { effect, summary: String::new(), figures: Value::Nil };
        let event = |ms: u64, action, seen| {
            let event = FaultEvent {
                fault: name.into(),
                id: from + 1,
                lane: name.into(),
                action,
                choice: Value::Nil,
                nodes: vec![],
                seen,
            };
            Op { time: ms * MS, ..event.to_op() }
        };
        vec![
            event(from, FaultAction::Inject, None),
            event(from, FaultAction::Inject, Some(seen(Effect::Proven))),
            event(to, FaultAction::Heal, None),
            event(to, FaultAction::Heal, Some(seen(Effect::Proven))),
        ]
    }

    /// Judges calls one after the other: each by a process of its own, as they may overlap.
    fn judge(calls: Vec<Vec<Op>>) -> Analysis {
        let mut ops: Vec<Op> = Vec::new();
        for (process, call) in calls.into_iter().enumerate() {
            ops.extend(call.into_iter().map(|op| match op.process {
                Process::Client(_) => Op { process: Process::Client(process as u32), ..op },
                _ => op,
            }));
        }
        ops.sort_by_key(|op| op.time);
        let header = Header { keyed: true, ..Header::default() };
        LATE_MAX.check(&History::from_ops(header, &ops), &Budget::unlimited())
    }

    fn names(analysis: &Analysis) -> Vec<&str> {
        analysis.anomalies.iter().map(|anomaly| anomaly.name.as_str()).collect()
    }

    /// A key that is there for too long, and one that is gone too early, each with its argument.
    #[test]
    fn leases_end_in_time() {
        let lease = || put(0, 100, "a", 1000).to_vec();
        let one = |from, to, there| judge(vec![lease(), read(from, to, "a", there).to_vec()]);
        // It ends between 1000 and 1100, and may be late by 500.
        assert_eq!(one(1590, 1650, true).verdict, Verdict::Valid);
        assert_eq!(one(1110, 1650, false).verdict, Verdict::Valid);
        assert_eq!(one(900, 995, false).verdict, Verdict::Unknown, "nobody looked afterwards");
        let late = one(1610, 1650, true);
        assert_eq!(names(&late), ["lease-outlived"]);
        let told = &late.anomalies[0];
        assert!(told.summary.contains("found it 0.5 s after the end"), "{}", told.summary);
        assert_eq!(told.witness.len(), 2);
        assert!(told.sentences[1].contains("over by 1.1 s"), "{:?}", told.sentences);
        let early = one(500, 980, false);
        assert_eq!(names(&early), ["lease-cut-short"]);
        assert!(early.anomalies[0].summary.contains("before the end of the lease of 1.0 s"));
        // Whoever asked before it was known to be there may have come too early.
        assert_eq!(one(50, 110, false).verdict, Verdict::Unknown);
    }

    /// What may have made another node lead gives a lease its whole length again, once it is over; a wrong
    /// clock does not, nor does what came later.
    #[test]
    fn faults_may_extend_leases() {
        let with = |fault: Vec<Op>, at| {
            let read = read(at, at + 10, "a", true).to_vec();
            names(&judge(vec![put(0, 100, "a", 1000).to_vec(), fault, read])).len()
        };
        assert_eq!(with(fault("partition", 200, 3000), 4400), 0);
        assert_eq!(with(fault("partition", 200, 3000), 4600), 1);
        assert_eq!(with(fault("clock", 200, 3000), 1700), 1);
        assert_eq!(with(fault("partition", 1800, 3000), 3100), 1, "it was too late already");
        assert_eq!(with(fault("partition", 0, 50), 1700), 1, "it was over before");
        let unhealed: Vec<Op> = fault("kill", 200, 3000).into_iter().take(2).collect();
        assert_eq!(with(unhealed, 90_000), 0);
    }

    /// Whoever may have put a key twice, or not have been given a lease, is not judged.
    #[test]
    fn leases_that_are_not_known_are_not_judged() {
        let late = || read(5000, 5010, "a", true).to_vec();
        let again = call(300, 400, "put-leased", "a", OpType::Info, Value::Nil).to_vec();
        let twice = judge(vec![put(0, 100, "a", 1000).to_vec(), again, late()]);
        assert_eq!(twice.verdict, Verdict::Unknown);
        let unknown = call(0, 100, "put-leased", "a", OpType::Info, Value::Nil).to_vec();
        assert_eq!(judge(vec![unknown, late()]).verdict, Verdict::Unknown);
        let failed = call(300, 400, "put-leased", "a", OpType::Fail, Value::Nil).to_vec();
        let once = judge(vec![put(0, 100, "a", 1000).to_vec(), failed, late()]);
        assert_eq!(names(&once), ["lease-outlived"]);
        assert!(judge(vec![]).undecided[0].reason.starts_with("vacuous"));
    }

    /// Random histories of a few keys, with an oracle that tries every moment at which a lease may have
    /// begun: one is violated if no such moment explains all that was read of it.
    #[test]
    fn the_definition_agrees() {
        let mut state = 7u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut violated, mut fine) = (0, 0);
        for _ in 0..3000 {
            let (from, lasts) = (draw(50) * 10, (1 + draw(3)) * 100);
            let to = from + 10 + draw(5) * 10;
            let mut calls = vec![put(from, to, "a", lasts as i64).to_vec()];
            let mut reads = Vec::new();
            for _ in 0..draw(4) {
                let begin = to + 10 * draw(120);
                let (end, there) = (begin + 10 + draw(3) * 10, draw(2) == 0);
                // Nothing at a boundary, which clocks do not tell apart.
                reads.push((begin + 3, end + 3, there));
                calls.push(read(begin + 3, end + 3, "a", there).to_vec());
            }
            let ends = |begun: u64| (begun + lasts, begun + lasts + LATE_MAX.late_max_ns / MS);
            let explained = |&(begin, end, there): &(u64, u64, bool)| {
                (from..=to).map(ends).any(|(earliest, latest)| match there {
                    true => begin <= latest,
                    false => end >= earliest - lasts / 100,
                })
            };
            let legal = reads.iter().all(explained);
            let analysis = judge(calls);
            assert_eq!(
                analysis.verdict == Verdict::Invalid,
                !legal,
                "{from} {to} {lasts} {reads:?}"
            );
            if legal { fine += 1 } else { violated += 1 }
        }
        assert!(violated > 300 && fine > 300, "{violated} {fine}");
    }
}
