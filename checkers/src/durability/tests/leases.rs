//! Leases: small cases with known answers, and the definition evaluated by brute force on random histories.

use std::collections::BTreeSet;

use deposed_history::{
    Effect, FaultAction, FaultEvent, Header, History, Op, OpType, Process, Sighting, Value,
    episodes,
};

use super::{Dice, fuzz, names};
use crate::durability::planted::{Bug, plant};
use crate::{Analysis, Anomaly, Budget, Checker, LeaseExpiry, Verdict};

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

/// A fault, what was seen of it, and when and how it was seen to be healed, if it was.
fn injection(name: &str, from: u64, bite: Effect, healed: Option<(u64, Effect)>) -> Vec<Op> {
    let event = |ms: u64, action, seen: Option<Effect>| {
        let seen =
            seen.map(|effect| Sighting { effect, summary: String::new(), figures: Value::Nil });
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
    let begin = [None, Some(bite)].map(|seen| event(from, FaultAction::Inject, seen));
    let end = healed
        .map(|(to, effect)| [None, Some(effect)].map(|seen| event(to, FaultAction::Heal, seen)));
    begin.into_iter().chain(end.into_iter().flatten()).collect()
}

fn fault(name: &str, from: u64, to: u64) -> Vec<Op> {
    injection(name, from, Effect::Proven, Some((to, Effect::Proven)))
}

/// Calls one after the other: each by a process of its own, as they may overlap.
fn history(calls: Vec<Vec<Op>>) -> History {
    let mut ops: Vec<Op> = Vec::new();
    for (process, call) in calls.into_iter().enumerate() {
        ops.extend(call.into_iter().map(|op| match op.process {
            Process::Client(_) => Op { process: Process::Client(process as u32), ..op },
            _ => op,
        }));
    }
    ops.sort_by_key(|op| op.time);
    let header = Header { keyed: true, ..Header::default() };
    History::from_ops(header, &ops)
}

fn judge(calls: Vec<Vec<Op>>) -> Analysis {
    LATE_MAX.check(&history(calls), &Budget::unlimited())
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
    assert_eq!(with(injection("kill", 200, Effect::Proven, None), 90_000), 0);
    let in_doubt = Some((300, Effect::Indeterminate));
    assert_eq!(with(injection("kill", 200, Effect::Proven, in_doubt), 90_000), 0);
    assert_eq!(with(injection("kill", 200, Effect::Skipped, None), 1700), 1, "nothing was done");
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

/// A put or a read of a key, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Call {
    key: &'static str,
    from: u64,
    to: u64,
    kind: OpType,
    /// For a put, what was asked for and what was given; for a read, whether the key was there.
    lease: Option<(u64, u64)>,
    there: bool,
}

/// A fault, in milliseconds: when it began, and when it was certainly over.
#[derive(Debug, Clone, Copy)]
struct Fault {
    harmless: bool,
    from: u64,
    to: Option<u64>,
}

/// What is wrong by the definition, by key, and how many keys were looked at after their lease: every moment
/// at which a lease may have begun is tried, and every way in which faults may have let it begin anew.
fn definition(calls: &[Call], faults: &[Fault]) -> (BTreeSet<(String, &'static str)>, u64) {
    let late_max = LATE_MAX.late_max_ns / MS;
    let (mut wrong, mut looked_at) = (BTreeSet::new(), 0);
    for key in KEYS {
        let of_key = || calls.iter().filter(|call| call.key == key);
        let puts: Vec<&Call> =
            of_key().filter(|call| call.lease.is_some() && call.kind != OpType::Fail).collect();
        let [put] = puts[..] else { continue };
        let Some((_, length)) = put.lease.filter(|_| put.kind == OpType::Ok) else { continue };
        // When it may have been over, for ever if it may never be.
        let mut ends: BTreeSet<Option<u64>> =
            (put.from..=put.to).map(|at| Some(at + length)).collect();
        loop {
            let again = |fault: &&Fault| {
                let reaches =
                    |end: &Option<u64>| end.is_none_or(|end| fault.from <= end + late_max);
                !fault.harmless
                    && fault.to.is_none_or(|to| to >= put.to)
                    && ends.iter().any(reaches)
            };
            let more: Vec<Option<u64>> =
                faults.iter().filter(again).map(|fault| Some(fault.to? + length)).collect();
            let before = ends.len();
            ends.extend(more);
            if ends.len() == before {
                break;
            }
        }
        let ends = || ends.iter().copied();
        for read in of_key().filter(|call| call.lease.is_none() && call.kind == OpType::Ok) {
            looked_at += u64::from(ends().all(|end| end.is_some_and(|end| read.from > end)));
        }
        let explains = |read: &&Call, end: Option<u64>| match read.there {
            true => end.is_none_or(|end| read.from <= end + late_max),
            false => read.from < put.to || end.is_some_and(|end| read.to >= end - length / 100),
        };
        for read in of_key().filter(|call| call.lease.is_none() && call.kind == OpType::Ok) {
            if !ends().any(|end| explains(&read, end)) {
                let name = if read.there { "lease-outlived" } else { "lease-cut-short" };
                wrong.insert((format!("{key:?}"), name));
            }
        }
    }
    (wrong, looked_at)
}

const KEYS: [&str; 2] = ["a", "b"];

/// A witness that is confirmed although nothing of that name is wrong with its key: all there can be are tried.
fn confirmed_lie(history: &History, wrong: &BTreeSet<(String, &'static str)>) -> Option<Anomaly> {
    let episodes = episodes(history);
    let calls = || history.calls().iter().map(|call| call.invoke);
    let pairs = calls().flat_map(|a| calls().map(move |b| [a, b]));
    let all = pairs.flat_map(|pair| ["lease-outlived", "lease-cut-short"].map(|name| (pair, name)));
    let mut lies = all.filter_map(|(witness, name)| {
        let (key, _) = history.op(witness[0]).pair()?;
        let anomaly = Anomaly {
            name: name.into(),
            key: Some(key.to_string()),
            summary: String::new(),
            sentences: Vec::new(),
            witness: witness.to_vec(),
            edges: Vec::new(),
        };
        let lie = !wrong.contains(&(key.to_string(), name))
            && LATE_MAX.confirmed(history, &episodes, key, &anomaly);
        lie.then_some(anomaly)
    });
    lies.next()
}

/// What the checker and the definition do not agree on in a random history, if anything; else how many
/// anomalies there are.
fn differs(dice: &mut Dice) -> Result<usize, String> {
    let (mut calls, mut faults, mut ops) = (Vec::new(), Vec::new(), Vec::new());
    for key in KEYS {
        let from = dice.roll(50) * 10;
        for number in 0..1 + dice.roll(4) / 3 {
            let kind = [OpType::Ok, OpType::Ok, OpType::Ok, OpType::Fail, OpType::Info]
                [dice.roll(if number == 0 { 4 } else { 5 }) as usize];
            let (from, asked) = (from + number * 200, (1 + dice.roll(3)) * 100);
            let to = from + 10 + dice.roll(5) * 10;
            let given = if dice.roll(3) == 0 { (1 + dice.roll(3)) * 100 } else { asked };
            calls.push(Call { key, from, to, kind, lease: Some((asked, given)), there: false });
        }
        for _ in 0..dice.roll(5) {
            let begin = from + dice.roll(30) * 5 + dice.roll(2) * dice.roll(150) * 10;
            let (end, there) = (begin + 1 + dice.roll(30), dice.roll(2) == 0);
            let kind = [OpType::Ok, OpType::Ok, OpType::Ok, OpType::Info][dice.roll(4) as usize];
            calls.push(Call { key, from: begin, to: end, kind, lease: None, there });
        }
    }
    for number in 0..dice.roll(3) {
        // Never two at one moment: that is what tells them apart.
        let from = dice.roll(150) * 10 + 1 + number;
        let to = from + dice.roll(60) * 10;
        let bite = [Effect::Proven, Effect::Indeterminate, Effect::Skipped][dice.roll(3) as usize];
        let healing = match dice.roll(6) {
            0 => None,
            1 => Some((to, Effect::Indeterminate)),
            _ => Some((to, Effect::Proven)),
        };
        let name = if dice.roll(4) == 0 { "clock" } else { "kill" };
        let harmless = name == "clock" || bite == Effect::Skipped;
        let to = healing.filter(|healing| healing.1 == Effect::Proven).map(|(to, _)| to);
        faults.push(Fault { harmless, from, to });
        ops.push(injection(name, from, bite, healing));
    }
    for Call { key, from, to, kind, lease, there } in calls.iter().copied() {
        let of = |ms: u64| Value::Map(vec![("lease_ms".into(), Value::Int(ms as i64))]);
        let (f, asked, answer) = match lease {
            Some((asked, given)) => ("put-leased", of(asked), of(given)),
            None if there => ("read", Value::Nil, Value::Int(1)),
            None => ("read", Value::Nil, Value::Nil),
        };
        let [begin, end] = call(from, to, f, key, kind, answer);
        ops.push(vec![Op { value: Value::pair(key, asked), ..begin }, end]);
    }
    let history = history(ops);
    let analysis = LATE_MAX.check(&history, &Budget::unlimited());
    let (wrong, looked_at) = definition(&calls, &faults);
    let found: BTreeSet<(String, &str)> = analysis
        .anomalies
        .iter()
        .map(|found| (found.key.clone().unwrap_or_default(), found.name.as_str()))
        .collect();
    let vacuous = looked_at == 0 && wrong.is_empty();
    let verdict = match (wrong.is_empty(), vacuous) {
        (false, _) => Verdict::Invalid,
        (true, true) => Verdict::Unknown,
        (true, false) => Verdict::Valid,
    };
    if let Some(lie) = confirmed_lie(&history, &wrong) {
        return Err(format!("{lie:?} is confirmed: {calls:?} {faults:?}"));
    }
    if found == wrong && analysis.verdict == verdict {
        return Ok(wrong.len());
    }
    Err(format!("{found:?}, {:?}; not {wrong:?}: {calls:?} {faults:?}", analysis.verdict))
}

/// Random histories of two keys, with puts and faults of every outcome.
#[test]
fn leases_agree_with_their_definition() {
    let mut dice = Dice(0x5eed_1234_5678_9abc);
    let (mut violated, mut fine) = (0, 0);
    for round in 0..fuzz() {
        match differs(&mut dice) {
            Ok(0) => fine += 1,
            Ok(_) => violated += 1,
            Err(differs) => panic!("round {round}: {differs}"),
        }
    }
    assert!(violated > 300 && fine > 300, "{violated} {fine}");
}

#[test]
fn every_planted_bug_of_leases_is_found() {
    use Bug::*;
    let bugs = [
        LeasesAsAsked,
        LeasesAreExact,
        LeasesBeginWhenGiven,
        LeasesBeginWhenAsked,
        EndsAreExact,
        AnswersAreLate,
        FirstReadTells,
        EarlyReadsLose,
        ReadsUnderWayLose,
        LastPutCounts,
        OpenPutsIgnored,
        FailedPutsCount,
        ClockFaultsExtend,
        SkippedFaultsExtend,
        LateFaultsExtend,
        FaultsExtendAlone,
        OpenFaultsEnd,
        HealingNeedsNoProof,
    ];
    let missed = bugs.into_iter().filter(|&bug| {
        let mut dice = Dice(0xc0ff_ee00_dead_beef);
        plant(Some(bug));
        let found = (0..4000).any(|_| differs(&mut dice).is_err());
        plant(None);
        !found
    });
    assert_eq!(missed.collect::<Vec<_>>(), []);
}
