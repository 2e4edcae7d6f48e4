//! Long forks against their definition: every order of writes is tried, on random histories, with every
//! rule broken on purpose.

use deposed_history::{Header, History, Op, OpType, Process, Value};

use super::fuzz;
use super::oracle::permutations;
use super::simulator::Random;
use crate::transactions::long_fork::LongFork;
use crate::transactions::planted::{Bug, plant};
use crate::{Budget, Checker, Verdict};

/// Keys `GROUP * n` to `GROUP * n + 2` are read together.
const GROUP: usize = 3;

#[derive(Debug, Clone)]
enum What {
    Write(usize),
    /// Keys in the order they are read, and whether each was seen written.
    Read(Vec<(usize, bool)>),
    /// Neither.
    Odd,
}

/// What calls do, and how they end. All overlap.
type Calls = Vec<(What, OpType)>;

fn history(calls: &Calls) -> History {
    let mop = |f: &str, key: usize, value| Value::List(vec![f.into(), (key as i64).into(), value]);
    let value = |what: &What, known: bool| {
        let read = |&(key, saw): &(usize, bool)| {
            mop("r", key, if saw && known { Value::Int(1) } else { Value::Nil })
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

/// Whether the keys of each group can have been written in some order, so that each read saw those that
/// were written before some moment.
fn is_explained(calls: &Calls) -> bool {
    (0..2).all(|group| {
        let reads: Vec<Vec<usize>> = calls
            .iter()
            .filter_map(|(what, kind)| match what {
                What::Read(saw) if *kind == OpType::Ok && saw[0].0 / GROUP == group => {
                    Some(saw.iter().filter(|(_, saw)| *saw).map(|(key, _)| *key).collect())
                }
                _ => None,
            })
            .collect();
        let mut explained = false;
        permutations(GROUP, &mut Vec::new(), &mut |order| {
            let saw_the_first = |read: &Vec<usize>| {
                order[..read.len()].iter().all(|at| read.contains(&(group * GROUP + at)))
            };
            explained = explained || reads.iter().all(saw_the_first);
        });
        explained
    })
}

/// Whether it is a history of this workload, in which something was read.
fn is_proper(calls: &Calls) -> bool {
    let writes = |key: usize| {
        let of_key = |(what, kind): &&(What, OpType)| {
            *kind != OpType::Fail && matches!(what, What::Write(written) if *written == key)
        };
        calls.iter().filter(of_key).count()
    };
    calls.iter().all(|(what, _)| !matches!(what, What::Odd))
        && (0..2 * GROUP).all(|key| writes(key) < 2)
        && calls.iter().any(|(what, kind)| matches!(what, What::Read(_)) && *kind == OpType::Ok)
}

fn random(random: &mut Random) -> Calls {
    // The order in which a store that does not fork writes.
    let mut order: Vec<usize> = (0..2 * GROUP).collect();
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
        let group = random.below(2) as usize;
        let moment = random.below(order.len() as u64 + 1) as usize;
        let mut saw: Vec<(usize, bool)> = (0..GROUP)
            .map(|at| {
                let key = group * GROUP + at;
                let written = order[..moment].contains(&key);
                (key, if forks && random.percent(30) { !written } else { written })
            })
            .collect();
        if random.percent(30) {
            saw.reverse();
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
    (analysis.verdict != expected).then(|| format!("{expected}: {calls:#?}\n{analysis:#?}"))
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
    assert!(verdicts.iter().all(|&count| count > fuzz() / 10), "{verdicts:?}");
}

#[test]
fn bugs_planted_in_long_fork_are_found() {
    use Bug::*;
    for bug in [
        ForkOneSided,
        ForkUnsorted,
        ForkInOrderOfKeys,
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
