//! The bank against its definition, word for word, on random histories, with every rule broken on purpose.

use std::collections::BTreeMap;

use deposed_history::{Header, History, Op, OpType, Process, Value};

use super::fuzz;
use super::simulator::Random;
use crate::transactions::bank::Bank;
use crate::transactions::planted::{Bug, plant};
use crate::{Anomaly, Budget, Checker, Verdict};

/// A call: what it is, how it ended, and with which value.
type Call = (&'static str, OpType, Value);

/// Calls that overlap: all are invoked, then all end, each in a process of its own.
fn history(calls: &[Call]) -> History {
    let op = |at: usize, kind, f, value| Op::new(kind, Process::Client(at as u32), f, value);
    let invoked =
        calls.iter().enumerate().map(|(at, (f, ..))| op(at, OpType::Invoke, f, Value::Nil));
    let ended = calls.iter().enumerate().map(|(at, (f, kind, v))| op(at, *kind, f, v.clone()));
    History::from_ops(Header::default(), &invoked.chain(ended).collect::<Vec<Op>>())
}

/// Accounts and balances of a proper read; `None` if it is no map of whole numbers. Names that look the
/// same are.
fn balances(value: &Value) -> Option<BTreeMap<String, i64>> {
    let Value::Map(pairs) = value else { return None };
    let name = |key: &Value| match key {
        Value::Str(text) | Value::Keyword(text) => text.to_string(),
        key => key.to_string(),
    };
    pairs.iter().map(|(key, balance)| Some((name(key), balance.as_int()?))).collect()
}

/// The reads that no sequence of transfers explains, by their places, and how many reads there were.
/// Transfers keep the total and the accounts: those of the first read that is proper, or what was given.
fn wrong(bank: &Bank, calls: &[Call]) -> (Vec<u32>, usize) {
    let reads = || {
        let acknowledged =
            (0..).zip(calls).filter(|(_, (f, kind, _))| *f == "read" && *kind == OpType::Ok);
        acknowledged.map(|(at, (.., value))| (at, balances(value)))
    };
    let first = reads().find_map(|(_, balances)| balances);
    let explained = |read: &BTreeMap<String, i64>| {
        let Some(first) = &first else { return false };
        let total = bank.total.unwrap_or_else(|| first.values().sum());
        read.keys().all(|account| first.contains_key(account))
            && read.values().sum::<i64>() == total
            && (bank.negative_balances || read.values().all(|&balance| balance >= 0))
    };
    let unexplained = reads().filter(|(_, read)| !read.as_ref().is_some_and(explained));
    (unexplained.map(|(at, _)| at).collect(), reads().count())
}

/// What some transfers leave, as a store that may be wrong shows it.
fn shown(random: &mut Random, state: &[i64]) -> Value {
    let mut state = state.to_vec();
    let at = random.below(state.len() as u64) as usize;
    let other = (at + 1) % state.len();
    let lie = random.below(24);
    match lie {
        0 => return [Value::Nil, Value::Int(7), "none".into()][random.below(3) as usize].clone(),
        1 => state[at] += 1,
        2 => {
            let debt = state[at] + 1 + random.below(5) as i64;
            (state[at], state[other]) = (state[at] - debt, state[other] + debt);
        }
        _ => {}
    }
    let key = |random: &mut Random, at: usize| {
        let text = at.to_string();
        [Value::Int(at as i64), Value::str(text.clone()), Value::Keyword(text.into())]
            [random.below(12).saturating_sub(9) as usize]
            .clone()
    };
    let mut pairs: Vec<(Value, Value)> =
        (0..state.len()).map(|at| (key(random, at), Value::Int(state[at]))).collect();
    match lie {
        3 => pairs[at].1 = Value::Nil,
        4 => pairs[at].1 = "much".into(),
        5 => pairs[at].0 = Value::Int(9),
        6 => pairs.push((Value::Int(9), Value::Int(0))),
        // It is there and empty, or not there at all.
        7 if state[at] == 0 => drop(pairs.remove(at)),
        _ => {}
    }
    Value::Map(pairs)
}

fn random(random: &mut Random) -> (Bank, Vec<Call>) {
    let mut state: Vec<i64> = (0..2 + random.below(2)).map(|_| random.below(5) as i64).collect();
    let total = state.iter().sum::<i64>();
    let given = [None, None, Some(total), Some(total + 1)][random.below(4) as usize];
    let bank = Bank { total: given, negative_balances: random.percent(30) };
    let calls = (0..random.below(6)).map(|_| {
        let kind = match random.below(10) {
            0 => OpType::Fail,
            1 | 2 => OpType::Info,
            _ => OpType::Ok,
        };
        if random.percent(60) {
            // What a read that did not succeed may have seen is in its completion too, and may be wrong.
            return ("read", kind, shown(random, &state));
        }
        let (from, to) = (random.below(state.len() as u64) as usize, 0);
        let amount = random.below(1 + state[from].max(0) as u64) as i64;
        if kind == OpType::Ok || kind == OpType::Info && random.percent(50) {
            state[from] -= amount;
            state[to] += amount;
        }
        (
            "transfer",
            kind,
            Value::List(vec![(from as i64).into(), (to as i64).into(), amount.into()]),
        )
    });
    let calls = calls.collect();
    (bank, calls)
}

/// What stands as an anomaly of a read with which nothing is wrong: all that there can be is tried.
fn lie(bank: &Bank, history: &History, wrong: &[u32]) -> Option<Anomaly> {
    const NAMES: [&str; 5] =
        ["not-balances", "unexpected-key", "nil-balance", "wrong-total", "negative-value"];
    let calls = || history.calls().iter().map(|call| call.invoke);
    let pairs = calls().flat_map(|one| calls().map(move |other| vec![one, other]));
    let witnesses = calls().map(|call| vec![call]).chain(pairs);
    let all = witnesses.flat_map(|witness| NAMES.map(|name| (name, witness.clone())));
    let mut anomalies = all.map(|(name, witness)| {
        let (summary, sentences, edges) = (String::new(), Vec::new(), Vec::new());
        Anomaly { name: name.into(), key: None, summary, sentences, witness, edges }
    });
    anomalies.find(|anomaly| {
        let is_wrong = anomaly.witness.last().is_some_and(|read| wrong.contains(read));
        !is_wrong && bank.stands(history, anomaly)
    })
}

/// What the checker and the definition do not agree on, if anything.
fn difference(bank: &Bank, calls: &[Call]) -> Option<String> {
    let analysis = bank.check(&history(calls), &Budget::unlimited());
    let (wrong, reads) = wrong(bank, calls);
    let verdict = match (reads, wrong.len()) {
        (0, _) => Verdict::Unknown,
        (_, 0) => Verdict::Valid,
        _ => Verdict::Invalid,
    };
    let mut named: Vec<u32> =
        analysis.anomalies.iter().filter_map(|a| a.witness.last().copied()).collect();
    named.sort_unstable();
    let agrees = (analysis.verdict, analysis.anomaly_count) == (verdict, wrong.len() as u64)
        && named == wrong;
    let agrees = agrees && lie(bank, &history(calls), &wrong).is_none();
    (!agrees).then(|| format!("{bank:?} {calls:#?}\n{wrong:?} of {reads}: {analysis:#?}"))
}

#[test]
fn a_bank_is_judged_as_by_its_definition() {
    let mut source = Random(41);
    let mut verdicts = [0u64; 3];
    for _ in 0..2 * fuzz() {
        let (bank, calls) = random(&mut source);
        if let Some(difference) = difference(&bank, &calls) {
            panic!("{difference}");
        }
        verdicts[bank.check(&history(&calls), &Budget::unlimited()).verdict as usize] += 1;
    }
    assert!(verdicts.iter().all(|&count| count > fuzz() / 10), "{verdicts:?}");
}

#[test]
fn bugs_planted_in_the_bank_are_found() {
    use Bug::*;
    for bug in [
        BalancesOfAnyKind,
        NewAccountsIgnored,
        NilBalancesIgnored,
        TotalsIgnored,
        DebtsIgnored,
        DebtsForbidden,
        TotalForgotten,
        GivenTotalIgnored,
        BrokenReadTrusted,
        AccountsByKind,
        TransfersJudged,
        UnfinishedReadsJudged,
    ] {
        let mut source = Random(42);
        let found = (0..4_000).any(|_| {
            let (bank, calls) = random(&mut source);
            plant(Some(bug));
            let difference = difference(&bank, &calls);
            plant(None);
            difference.is_some()
        });
        assert!(found, "{bug:?}");
    }
}
