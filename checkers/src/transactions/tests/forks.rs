//! Long forks against their definition: every order of writes is tried, on random histories, with every
//! rule broken on purpose.

use std::collections::BTreeSet;

use deposed_history::{Header, History, Op, OpType, Process, Value};

use super::fuzz;
use super::oracle::permutations;
use super::simulator::Random;
use crate::transactions::long_fork::{LongFork, is_fork};
use crate::transactions::planted::{Bug, plant};
use crate::{Anomaly, Budget, Checker, Verdict};

/// Keys there are.
const KEYS: usize = 5;

#[derive(Debug, Clone)]
enum What {
    Write(usize),
    /// Keys in the order they are read, and the value that was seen, 0 for none.
    Read(Vec<(usize, i64)>),
    /// Neither.
    Odd,
}

/// What calls do, and how they end. All overlap.
type Calls = Vec<(What, OpType)>;

fn history(calls: &Calls) -> History {
    let mop = |f: &str, key: usize, value| Value::List(vec![f.into(), (key as i64).into(), value]);
    let value = |what: &What, known: bool| {
        let read = |&(key, saw): &(usize, i64)| {
            mop("r", key, if saw > 0 && known { Value::Int(saw) } else { Value::Nil })
        };
        Value::List(match what {
            What::Write(key) => vec![mop("w", *key, Value::Int(1))],
            What::Read(saw) => saw.iter().map(read).collect(),
            What::Odd => vec![mop("w", 0, Value::Int(1)), mop("r", 1, Value::Nil)],
        })
    };
    let op = |at: usize, kind, value| Op::new(kind, Process::Client(at as u32), "txn", value);
    let each = || calls.iter().enumerate();
    let invoked = each().map(|(at, (what, _))| op(at, OpType::Invoke, value(what, false)));
    let ended = each().map(|(at, (what, kind))| op(at, *kind, value(what, *kind == OpType::Ok)));
    History::from_ops(Header::default(), &invoked.chain(ended).collect::<Vec<Op>>())
}

/// What was read and is known.
fn reads(calls: &Calls) -> impl Iterator<Item = &[(usize, i64)]> {
    calls.iter().filter_map(|(what, kind)| match what {
        What::Read(saw) if *kind == OpType::Ok => Some(&saw[..]),
        _ => None,
    })
}

/// Whether the keys can have been written in some order, so that each read saw those of its keys that were
/// written before some moment.
fn is_explained(calls: &Calls) -> bool {
    let mut explained = false;
    permutations(KEYS, &mut Vec::new(), &mut |order| {
        let fits = |read: &[(usize, i64)], moment: usize| {
            read.iter().all(|&(key, saw)| order[..moment].contains(&key) == (saw > 0))
        };
        let has_moment = |read| (0..=KEYS).any(|moment| fits(read, moment));
        explained = explained || reads(calls).all(has_moment);
    });
    explained
}

/// Whether it is a history of this workload, in which something was read.
fn is_proper(calls: &Calls) -> bool {
    let writes = |key: usize| {
        let of_key = |(what, kind): &&(What, OpType)| {
            *kind != OpType::Fail && matches!(what, What::Write(written) if *written == key)
        };
        calls.iter().filter(of_key).count()
    };
    let has_one_value = |key: usize| {
        let seen = reads(calls).flatten().filter(|(of, saw)| *of == key && *saw > 0);
        let written = (writes(key) > 0).then_some(1);
        seen.map(|(_, saw)| *saw).chain(written).collect::<BTreeSet<i64>>().len() < 2
    };
    calls.iter().all(|(what, _)| !matches!(what, What::Odd))
        && (0..KEYS).all(|key| writes(key) < 2 && has_one_value(key))
        && reads(calls).next().is_some()
}

fn random(random: &mut Random) -> Calls {
    // The order in which a store that does not fork writes.
    let mut order: Vec<usize> = (0..KEYS).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    let forks = random.percent(40);
    let mut calls: Calls = order.iter().map(|&key| (What::Write(key), OpType::Ok)).collect();
    if random.percent(5) {
        calls.push((What::Odd, OpType::Ok));
    }
    if random.percent(10) {
        calls.push((What::Write(order[0]), OpType::Ok));
    }
    for _ in 0..random.below(6) {
        let moment = random.below(order.len() as u64 + 1) as usize;
        let mut saw = Vec::new();
        // Groups overlap, and now and then a read has a key twice.
        for _ in 0..2 + random.below(3) {
            let key = random.below(KEYS as u64) as usize;
            if saw.iter().all(|(of, _)| *of != key) || random.percent(10) {
                let written = order[..moment].contains(&key);
                let is_seen = written != (forks && random.percent(30));
                let value = if random.percent(1) { 2 } else { 1 };
                saw.push((key, if is_seen { value } else { 0 }));
            }
        }
        calls.push((What::Read(saw), OpType::Ok));
    }
    for (_, kind) in &mut calls {
        *kind = match random.below(20) {
            0 => OpType::Fail,
            1 | 2 => OpType::Info,
            _ => OpType::Ok,
        };
    }
    for at in (1..calls.len()).rev() {
        calls.swap(at, random.below(at as u64 + 1) as usize);
    }
    calls
}

fn difference(calls: &Calls) -> Option<String> {
    let analysis = LongFork.check(&history(calls), &Budget::unlimited());
    let expected = match (is_explained(calls), is_proper(calls)) {
        (false, _) => Verdict::Invalid,
        (true, true) => Verdict::Valid,
        (true, false) => Verdict::Unknown,
    };
    // All calls together are a witness if any are.
    let history = history(calls);
    let (summary, sentences, edges) = (String::new(), Vec::new(), Vec::new());
    let witness = history.calls().iter().map(|call| call.invoke).collect();
    let all = Anomaly { name: "long-fork".into(), key: None, summary, sentences, witness, edges };
    let agrees = analysis.verdict == expected && is_fork(&history, &all) != is_explained(calls);
    (!agrees).then(|| format!("{expected}: {calls:#?}\n{analysis:#?}"))
}

#[test]
fn forks_are_found_as_by_brute_force() {
    let mut source = Random(43);
    let mut verdicts = [0u64; 3];
    for _ in 0..2 * fuzz() {
        let calls = random(&mut source);
        if let Some(difference) = difference(&calls) {
            panic!("{difference}");
        }
        verdicts[LongFork.check(&history(&calls), &Budget::unlimited()).verdict as usize] += 1;
    }
    assert!(verdicts.iter().all(|&count| count > fuzz() / 20), "{verdicts:?}");
}

/// A fork is told by the reads and writes that make it, two reads or more.
#[test]
fn forks_over_groups_that_overlap_are_told() {
    let write = |key| (What::Write(key), OpType::Ok);
    let read = |saw: &[(usize, i64)]| (What::Read(saw.to_vec()), OpType::Ok);
    let judge = |calls: &Calls| LongFork.check(&history(calls), &Budget::unlimited());
    let two = vec![
        write(0),
        write(1),
        write(2),
        write(3),
        read(&[(0, 1), (1, 1), (2, 0)]),
        read(&[(1, 0), (2, 1), (3, 1)]),
    ];
    let analysis = judge(&two);
    let fork = &analysis.anomalies[0];
    assert_eq!((analysis.anomaly_count, &fork.witness[..]), (1, &[1, 2, 4, 5][..]));
    assert!(fork.summary.ends_with("in opposite orders"), "{}", fork.summary);
    let mut three = vec![
        write(0),
        write(1),
        write(2),
        read(&[(0, 1), (1, 0)]),
        read(&[(1, 1), (2, 0)]),
        read(&[(2, 1), (0, 0)]),
    ];
    let analysis = judge(&three);
    let fork = &analysis.anomalies[0];
    assert_eq!((analysis.anomaly_count, &fork.witness[..]), (1, &[0, 1, 2, 3, 4, 5][..]));
    assert!(fork.sentences[2].ends_with("A contradiction!"), "{:?}", fork.sentences);
    three.pop();
    assert_eq!(judge(&three).verdict, Verdict::Valid);
}

#[test]
fn bugs_planted_in_long_fork_are_found() {
    use Bug::*;
    for bug in [
        ForkSeenIgnored,
        ForkMissedIgnored,
        ForkValuesIgnored,
        ForkTwiceIgnored,
        ForkFailedWrites,
        ForkOddIgnored,
        UnfinishedReadsJudged,
    ] {
        let mut source = Random(44);
        let found = (0..4_000).any(|_| {
            let calls = random(&mut source);
            plant(Some(bug));
            let difference = difference(&calls);
            plant(None);
            difference.is_some()
        });
        assert!(found, "{bug:?}");
    }
}
