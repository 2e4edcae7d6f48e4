//! The definitions of the counting checkers, evaluated by brute force on random histories.

use deposed_history::{History, OpType, Value};

use super::{Dice, Event, FAIL, INFO, INVOKE, OK, call, check, fuzz, history, ints};
use crate::durability::planted::{Bug, plant};
use crate::durability::verify;
use crate::{
    Analysis, Anomaly, Availability, Budget, Checker, CounterBounds, SetFull, TotalQueue,
    UniqueIds, Verdict,
};

/// What was said of a history, or the history, if it was not right or did not stand up.
fn agreed(agrees: bool, said: &Analysis, events: &[Event]) -> Result<Verdict, String> {
    let stands = said.undecided.iter().all(|open| !open.reason.contains("did not stand up"));
    (agrees && stands).then_some(said.verdict).ok_or_else(|| format!("{said:?}: {events:?}"))
}

/// Whether one or two calls, whichever, pass for the witness of an anomaly.
fn some_stand(history: &History, name: &str, verify: fn(&History, &Anomaly) -> bool) -> bool {
    let calls = || history.calls().iter().map(|call| call.invoke);
    let pairs = calls().flat_map(|one| calls().map(move |other| vec![one, other]));
    calls().map(|call| vec![call]).chain(pairs).any(|witness| {
        let (summary, sentences, edges) = (String::new(), Vec::new(), Vec::new());
        let key = None;
        verify(history, &Anomaly { name: name.into(), key, summary, sentences, witness, edges })
    })
}

/// Random interleaved calls of three processes; `argument` and `result` make the values.
fn random(
    dice: &mut Dice,
    length: usize,
    mut make: impl FnMut(&mut Dice) -> (&'static str, Value),
    mut result: impl FnMut(&mut Dice, &'static str, &Value) -> Value,
) -> Vec<Event> {
    let mut open: Vec<Option<(&'static str, Value)>> = vec![None; 3];
    let mut names: Vec<u32> = vec![0, 1, 2];
    let mut events = Vec::new();
    for _ in 0..length {
        let at = dice.roll(3) as usize;
        match open[at].take() {
            None => {
                let (f, value) = make(dice);
                events.push((names[at], INVOKE, f, value.clone()));
                open[at] = Some((f, value));
            }
            Some((f, value)) => {
                let kind = [OK, OK, OK, FAIL, INFO][dice.roll(5) as usize];
                let value = if kind == OK { result(dice, f, &value) } else { value };
                events.push((names[at], kind, f, value));
                if kind == INFO {
                    names[at] += 3;
                }
            }
        }
    }
    events
}

/// The definition of a lost or stale element, word for word, quadratic.
fn set_oracle(history: &History) -> (u64, u64) {
    let calls = history.calls();
    let value_of = |at: u32| history.op(at).value().to_value();
    let is = |at: u32, f: &str| history.op(at).f() == f;
    let reads: Vec<(u32, u32, Vec<Value>)> = calls
        .iter()
        .filter(|c| is(c.invoke, "read") && c.outcome() == deposed_history::Outcome::Ok)
        .map(|c| {
            let seen =
                value_of(c.complete().expect("it ended")).as_list().expect("a list").to_vec();
            (c.invoke, c.complete().expect("it ended"), seen)
        })
        .collect();
    let mut elements: Vec<Value> = Vec::new();
    for call in calls {
        if is(call.invoke, "add") && call.outcome() != deposed_history::Outcome::Fail {
            let value = value_of(call.invoke);
            if !elements.contains(&value) {
                elements.push(value);
            }
        }
    }
    let (mut lost, mut stale) = (0, 0);
    for element in elements {
        let acknowledged = calls
            .iter()
            .filter(|c| {
                is(c.invoke, "add")
                    && c.outcome() == deposed_history::Outcome::Ok
                    && value_of(c.invoke) == element
            })
            .map(|c| c.complete().expect("it ended"));
        let seen = reads.iter().filter(|r| r.2.contains(&element)).map(|r| r.1);
        let Some(known) = acknowledged.chain(seen).min() else { continue };
        let missed = reads.iter().filter(|r| r.0 > known && !r.2.contains(&element)).map(|r| r.0);
        let Some(last_missed) = missed.max() else { continue };
        if reads.iter().any(|r| r.0 > last_missed && r.2.contains(&element)) {
            stale += 1;
        } else {
            lost += 1;
        }
    }
    (lost, stale)
}

/// What the set checker and the definition do not agree on, if anything, in a random history; and what it said.
fn set_differs(dice: &mut Dice) -> Result<Verdict, String> {
    let length = 4 + dice.roll(16) as usize;
    let events = random(
        dice,
        length,
        |dice| {
            if dice.roll(2) == 0 {
                ("add", Value::Int(dice.roll(4) as i64))
            } else {
                ("read", Value::Nil)
            }
        },
        |dice, f, value| {
            if f == "add" {
                return value.clone();
            }
            let bits = dice.roll(16);
            Value::List((0..4).filter(|b| bits >> b & 1 == 1).map(Value::Int).collect())
        },
    );
    let history = history(&events);
    let analysis = SetFull::default().check(&history, &Budget::unlimited());
    let (lost, stale) = set_oracle(&history);
    let said = (&analysis.details["lost"], &analysis.details["stale"]);
    let added = |value: i64| {
        events.iter().enumerate().any(|(at, (process, kind, f, v))| {
            let end = events[at + 1..].iter().find(|(other, ..)| other == process);
            let may_have = end.is_none_or(|event| event.1 != FAIL);
            *kind == INVOKE && *f == "add" && v.as_int() == Some(value) && may_have
        })
    };
    let seen = |value: i64| {
        events.iter().any(|(_, kind, f, v)| {
            let shows = v.as_list().is_some_and(|list| list.contains(&Value::Int(value)));
            *kind == OK && *f == "read" && shows
        })
    };
    let unexpected = (0..4).filter(|&v| seen(v) && !added(v)).count();
    let unexpected = &serde_json::json!(unexpected);
    let details = &analysis.details;
    let agrees = said == (&lost.into(), &stale.into()) && details["unexpected"] == *unexpected;
    let wrong = lost > 0 || *unexpected != 0;
    let agrees = agrees && (analysis.verdict == Verdict::Invalid) == wrong;
    let stand = |name| some_stand(&history, name, verify::set);
    let agrees = agrees
        && stand("lost-element") == (lost > 0)
        && stand("stale-element") == (lost + stale > 0)
        && stand("unexpected-element") == (*unexpected != 0)
        && !stand("duplicate-elements");
    agreed(agrees, &analysis, &events)
}

/// Every value a read may return, by trying every choice of the optional adds.
fn counter_oracle(history: &History) -> bool {
    use deposed_history::Outcome;
    let calls = history.calls();
    calls.iter().filter(|c| history.op(c.invoke).f() == "read" && c.outcome() == Outcome::Ok).all(
        |read| {
            let (mut certain, mut optional) = (0i64, Vec::new());
            for add in calls.iter().filter(|c| history.op(c.invoke).f() == "add") {
                let amount = history.op(add.invoke).value().as_int().expect("a number");
                let complete = read.complete().expect("it ended");
                if add.outcome() == Outcome::Fail || add.invoke > complete {
                    continue;
                }
                if add.outcome() == Outcome::Ok && add.complete().expect("it ended") < read.invoke {
                    certain += amount;
                } else {
                    optional.push(amount);
                }
            }
            let sums = (0..1u32 << optional.len()).map(|choice| {
                certain
                    + optional
                        .iter()
                        .enumerate()
                        .filter(|(i, _)| choice >> i & 1 == 1)
                        .map(|(_, n)| n)
                        .sum::<i64>()
            });
            let (lower, upper) =
                sums.fold((i64::MAX, i64::MIN), |(l, u), sum| (l.min(sum), u.max(sum)));
            let seen =
                history.op(read.complete().expect("it ended")).value().as_int().expect("a number");
            (lower..=upper).contains(&seen)
        },
    )
}

/// The same of the counter.
fn counter_differs(dice: &mut Dice) -> Result<Verdict, String> {
    let length = 4 + dice.roll(14) as usize;
    let events = random(
        dice,
        length,
        |dice| {
            if dice.roll(3) > 0 {
                ("add", Value::Int(dice.roll(7) as i64 - 3))
            } else {
                ("read", Value::Nil)
            }
        },
        |dice, f, value| {
            if f == "add" { value.clone() } else { Value::Int(dice.roll(9) as i64 - 4) }
        },
    );
    let history = history(&events);
    let analysis = CounterBounds.check(&history, &Budget::unlimited());
    let expected = counter_oracle(&history);
    let agrees = (analysis.verdict != Verdict::Invalid) == expected
        && some_stand(&history, "counter-out-of-bounds", verify::counter) != expected;
    agreed(agrees, &analysis, &events)
}

/// Whether crashed calls can have taken all elements that never came out: every way to give them out is
/// tried. A dequeue takes one, a drain any number.
fn taken(missing: &[i64], dequeues: usize, drains: usize) -> bool {
    let Some((_, rest)) = missing.split_first() else { return true };
    let by_a_dequeue = (0..dequeues).any(|_| taken(rest, dequeues - 1, drains));
    by_a_dequeue || (0..drains).any(|_| taken(rest, dequeues, drains))
}

/// The verdict on a queue, word for word: what was acknowledged comes out as often as it was put in, and
/// nothing comes out that was not put in.
fn queue_oracle(events: &[Event]) -> Verdict {
    let ended = |name: &str, kinds: &[OpType]| -> Vec<(OpType, Value)> {
        let of = events.iter().filter(|(_, kind, f, _)| *f == name && kinds.contains(kind));
        of.map(|(_, kind, _, value)| (*kind, value.clone())).collect()
    };
    let ints = |value: &Value| -> Vec<i64> {
        let one = value.as_int().into_iter();
        one.chain(value.as_list().into_iter().flatten().filter_map(Value::as_int)).collect()
    };
    let open = || {
        events.iter().enumerate().filter(|(at, (process, kind, ..))| {
            *kind == INVOKE && !events[at + 1..].iter().any(|(other, ..)| other == process)
        })
    };
    let crashed = |name: &str| {
        let open = open().filter(|(_, (_, _, f, _))| *f == name).count();
        ended(name, &[INFO]).len() + open
    };
    let put: Vec<i64> = ended("enqueue", &[OK]).iter().flat_map(|(_, v)| ints(v)).collect();
    let mut may: Vec<i64> =
        ended("enqueue", &[OK, INFO]).iter().flat_map(|(_, v)| ints(v)).collect();
    may.extend(open().filter(|(_, e)| e.2 == "enqueue").flat_map(|(_, e)| ints(&e.3)));
    let came: Vec<i64> = ended("dequeue", &[OK])
        .iter()
        .chain(&ended("drain", &[OK, INFO]))
        .flat_map(|(_, value)| ints(value))
        .collect();
    let mut missing = put.clone();
    for out in &came {
        if let Some(at) = missing.iter().position(|element| element == out) {
            missing.remove(at);
        }
    }
    if came.iter().any(|out| !may.contains(out))
        || !taken(&missing, crashed("dequeue"), crashed("drain"))
    {
        Verdict::Invalid
    } else if !missing.is_empty() || !events.iter().any(|(_, kind, ..)| *kind == OK) {
        Verdict::Unknown
    } else {
        Verdict::Valid
    }
}

/// The same of the queue.
fn queue_differs(dice: &mut Dice) -> Result<Verdict, String> {
    let length = 4 + dice.roll(14) as usize;
    let careful = dice.roll(2) == 0;
    let mut events = random(
        dice,
        length,
        |dice| match dice.roll(8) {
            0..4 => ("enqueue", Value::Int(dice.roll(3) as i64)),
            4..7 => ("dequeue", Value::Nil),
            _ => ("drain", Value::Nil),
        },
        |dice, f, value| match f {
            "enqueue" => value.clone(),
            "dequeue" if dice.roll(4) == 0 => Value::Nil,
            "dequeue" => Value::Int(dice.roll(3) as i64),
            _ => {
                let bits = dice.roll(8);
                Value::List((0..3).filter(|b| bits >> b & 1 == 1).map(Value::Int).collect())
            }
        },
    );
    // Some drains that crashed tell what they had taken so far.
    for (_, kind, f, value) in &mut events {
        if *f == "drain" && *kind == INFO && dice.roll(2) == 0 {
            *value = ints(&[dice.roll(3) as i64]);
        }
    }
    if careful {
        events.extend(call(90, "drain", OK, Value::Nil, ints(&[0, 0, 1, 1, 2, 2])));
    }
    let expected = queue_oracle(&events);
    let analysis = check(&TotalQueue, &events);
    let stand = |name| some_stand(&history(&events), name, verify::queue);
    let some = stand("lost-element") || stand("unexpected-element");
    let agrees = analysis.verdict == expected && some == (expected == Verdict::Invalid);
    agreed(agrees, &analysis, &events)
}

/// The same of ids.
fn ids_differ(dice: &mut Dice) -> Result<Verdict, String> {
    let length = 2 + dice.roll(12) as usize;
    let events = random(
        dice,
        length,
        |dice| ([("generate", Value::Nil), ("look", Value::Nil)][dice.roll(2) as usize]).clone(),
        |dice, _, _| match dice.roll(12) {
            at @ 0..9 => Value::Int(at as i64),
            // Not the same as a number.
            at => (at - 9).to_string().as_str().into(),
        },
    );
    let ids: Vec<&Value> = events
        .iter()
        .filter(|(_, kind, f, _)| *kind == OK && *f == "generate")
        .map(|(.., value)| value)
        .collect();
    let twice = (0..ids.len()).any(|at| ids[..at].contains(&ids[at]));
    let expected = match (ids.is_empty(), twice) {
        (true, _) => Verdict::Unknown,
        (false, true) => Verdict::Invalid,
        (false, false) => Verdict::Valid,
    };
    let analysis = check(&UniqueIds, &events);
    let some = some_stand(&history(&events), "duplicate-id", verify::duplicate_id);
    agreed(analysis.verdict == expected && some == twice, &analysis, &events)
}

/// The same of the share of calls that succeeded.
fn availability_differs(dice: &mut Dice) -> Result<Verdict, String> {
    let length = dice.roll(60) as usize;
    let events = random(dice, length, |_| ("read", Value::Nil), |_, _, _| Value::Int(1));
    let tenths = dice.roll(11);
    let history = history(&events);
    // The smallest width with which twenty windows cover the run.
    let width = (10 * events.len() as u64).saturating_sub(9).div_ceil(20).max(1);
    let succeeded_in = |window: Option<u64>| -> Vec<bool> {
        let begun = |at: u32| window.is_none_or(|window| history.op(at).time() / width == window);
        let calls = history.calls().iter().filter(|call| begun(call.invoke));
        calls.map(|call| call.outcome() == deposed_history::Outcome::Ok).collect()
    };
    let count = |of: &[bool]| (of.iter().filter(|ok| **ok).count() as u64, of.len() as u64);
    let (ok, calls) = count(&succeeded_in(None));
    let expected =
        if calls > 0 && 10 * ok >= tenths * calls { Verdict::Valid } else { Verdict::Unknown };
    let shares = (0..20).map(|window| count(&succeeded_in(Some(window)))).filter(|of| of.1 > 0);
    let worst = shares.map(|(ok, calls)| ok as f64 / calls as f64).reduce(f64::min);
    let checker = Availability { goal: tenths as f64 / 10.0 };
    let analysis = checker.check(&history, &Budget::unlimited());
    let told = analysis.details["worst_window"].as_f64();
    agreed(analysis.verdict == expected && told == worst, &analysis, &events)
}

/// Compares a checker with its definition on one random history.
type Differs = fn(&mut Dice) -> Result<Verdict, String>;

#[test]
fn every_checker_agrees_with_its_definition() {
    use Verdict::{Invalid, Unknown, Valid};
    let all: [(Differs, &[Verdict]); 5] = [
        (set_differs, &[Valid, Invalid, Unknown]),
        (counter_differs, &[Valid, Invalid]),
        (queue_differs, &[Valid, Invalid, Unknown]),
        (ids_differ, &[Valid, Invalid, Unknown]),
        (availability_differs, &[Valid, Unknown]),
    ];
    for (number, (differs, expected)) in all.into_iter().enumerate() {
        let mut dice = Dice(0x5eed_1234_5678_9abc);
        let mut verdicts = [0; 3];
        for round in 0..fuzz() {
            match differs(&mut dice) {
                Ok(verdict) => verdicts[verdict as usize] += 1,
                Err(history) => panic!("checker {number}, round {round}: {history}"),
            }
        }
        // Nothing of that was said of too few histories to mean anything.
        let said = |verdict: &Verdict| verdicts[*verdict as usize];
        assert!(expected.iter().all(|verdict| said(verdict) > 50), "{number}: {verdicts:?}");
    }
}

#[test]
fn every_planted_bug_is_found() {
    use Bug::*;
    let bugs: [(Differs, &[Bug]); 5] = [
        (
            set_differs,
            &[
                AddsCountAtOnce,
                SeenIsNotKnown,
                FailedAddsCount,
                StaleIsLost,
                EarlyReadsCount,
                UnexpectedIgnored,
            ],
        ),
        (
            counter_differs,
            &[
                AddsUnderWayIgnored,
                CertainAddsIgnored,
                OpenAddsEnd,
                FailedIncrementsCount,
                SignsIgnored,
            ],
        ),
        (
            queue_differs,
            &[
                UnexpectedIgnored,
                CrashedDequeuesIgnored,
                CrashedDrainsIgnored,
                ToldIgnored,
                CopiesIgnored,
                DrainsIgnored,
                DequeuesTakeAll,
            ],
        ),
        (ids_differ, &[SecondIdIgnored, OpenIdsCount, AllCallsGenerate]),
        (
            availability_differs,
            &[
                OnlyAnswersCount,
                GoalIgnored,
                GoalIsNotEnough,
                NothingIsAvailable,
                WindowsByAnswer,
                IdleWindowsCount,
            ],
        ),
    ];
    for (differs, bugs) in bugs {
        for &bug in bugs {
            let mut dice = Dice(0xc0ff_ee00_dead_beef);
            plant(Some(bug));
            let found = (0..4000).any(|_| differs(&mut dice).is_err());
            plant(None);
            assert!(found, "{bug:?}");
        }
    }
}
