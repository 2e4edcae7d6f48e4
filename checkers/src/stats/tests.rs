//! Counts against small cases with known answers, and against their definitions on random runs.

use std::collections::{BTreeMap, BTreeSet};

use deposed_history::{
    Effect, FaultAction, FaultEvent, Header, History, Op, OpType, Process, Sighting, Value,
};

use serde_json::json;

use super::{Bug, Stats, plant};
use crate::{Analysis, Budget, Checker, Verdict};

fn call(process: u32, f: &str, end: Option<OpType>) -> Vec<Op> {
    let op = |kind| Op::new(kind, Process::Client(process), f, Value::Nil);
    std::iter::once(op(OpType::Invoke)).chain(end.map(op)).collect()
}

fn fault(action: FaultAction, seen: Option<Effect>) -> Op {
    fault_of("kill", 1, action, seen)
}

fn fault_of(name: &str, id: u64, action: FaultAction, seen: Option<Effect>) -> Op {
    FaultEvent {
        fault: name.into(),
        id,
        lane: "kill:one".into(),
        action,
        choice: Value::Nil,
        nodes: vec!["n1".into()],
        seen: seen.map(|effect| Sighting {
            effect,
            summary: "pid gone".into(),
            figures: Value::Nil,
        }),
    }
    .to_op()
}

fn judge(ops: Vec<Vec<Op>>) -> Analysis {
    let ops: Vec<Op> = ops.into_iter().flatten().collect();
    Stats::default().check(&History::from_ops(Header::default(), &ops), &Budget::unlimited())
}

/// Calls are counted by function and outcome, a call without completion as indeterminate.
#[test]
fn counts_by_function_and_outcome() {
    let analysis = judge(vec![
        call(0, "read", Some(OpType::Ok)),
        call(1, "read", Some(OpType::Fail)),
        call(2, "read", None),
        call(3, "write", Some(OpType::Ok)),
    ]);
    assert_eq!(analysis.verdict, Verdict::Valid);
    assert_eq!(analysis.summary, "4 calls: 2 ok, 1 failed, 1 indeterminate");
    assert_eq!(analysis.details["by_f"]["read"]["info"], 1);
}

/// A fault that bit less often than was required is not enough, whether it bit or not.
#[test]
fn faults_must_bite_as_often_as_required() {
    let ops: Vec<Op> = [
        call(0, "read", Some(OpType::Ok)),
        vec![fault(FaultAction::Inject, None), fault(FaultAction::Inject, Some(Effect::Proven))],
    ]
    .concat();
    let history = History::from_ops(Header::default(), &ops);
    let judge = |required: &[(&str, u64)]| {
        let required = required.iter().map(|(fault, n)| ((*fault).to_owned(), *n)).collect();
        Stats { required }.check(&history, &Budget::unlimited())
    };
    assert_eq!(judge(&[("kill", 1)]).verdict, Verdict::Valid);
    for (required, reason) in [
        ([("kill", 2)], "the fault kill was proven 1 times, and 2 were required"),
        ([("pause", 1)], "the fault pause was proven 0 times, and 1 were required"),
    ] {
        let analysis = judge(&required);
        assert_eq!(analysis.verdict, Verdict::Unknown);
        assert_eq!(analysis.undecided[0].reason, format!("vacuous: {reason}"));
    }
}

/// An operation that never succeeded makes the run vacuous, and so does an empty history.
#[test]
fn an_operation_that_never_succeeded_is_vacuous() {
    let analysis =
        judge(vec![call(0, "read", Some(OpType::Ok)), call(1, "cas", Some(OpType::Fail))]);
    assert_eq!(analysis.verdict, Verdict::Unknown);
    assert_eq!(
        analysis.undecided[0].reason,
        "vacuous: no cas ever succeeded (1 invoked, 1 failed, 0 indeterminate)"
    );
    assert!(judge(vec![]).undecided[0].reason.starts_with("vacuous"));
}

/// A fault that was planned and never bit makes the run vacuous; one that bit once does not.
#[test]
fn a_fault_that_never_bit_is_vacuous() {
    let ok = call(0, "read", Some(OpType::Ok));
    let inject = |effect| {
        vec![
            fault(FaultAction::Plan, None),
            fault(FaultAction::Inject, None),
            fault(FaultAction::Inject, Some(effect)),
        ]
    };
    let planned = judge(vec![ok.clone(), vec![fault(FaultAction::Plan, None)]]);
    assert_eq!(planned.undecided[0].reason, "vacuous: the fault kill was never injected");
    let skipped = judge(vec![ok.clone(), inject(Effect::Skipped)]);
    assert_eq!(
        skipped.undecided[0].reason,
        "vacuous: the fault kill was never injected: there was nothing to hit (1 skipped)"
    );
    let unseen = judge(vec![ok.clone(), inject(Effect::Indeterminate)]);
    assert_eq!(
        unseen.undecided[0].reason,
        "vacuous: the fault kill was never seen to bite (1 injected)"
    );
    assert_eq!(judge(vec![ok, inject(Effect::Proven)]).verdict, Verdict::Valid);
}

/// A small deterministic source of randomness (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// What was done and seen in a run.
#[derive(Debug, Default)]
struct Run {
    /// Functions, and how their calls ended.
    calls: Vec<(&'static str, Option<OpType>)>,
    planned: BTreeSet<&'static str>,
    injected: Vec<(&'static str, Option<Effect>)>,
    required: BTreeMap<String, u64>,
}

const FUNCTIONS: [&str; 2] = ["read", "write"];
const FAULTS: [&str; 3] = ["kill", "pause", "clock"];

fn random(dice: &mut Dice) -> Run {
    let mut run = Run::default();
    for _ in 0..dice.roll(6) {
        let ends =
            [Some(OpType::Ok), Some(OpType::Ok), Some(OpType::Fail), Some(OpType::Info), None];
        run.calls.push((FUNCTIONS[dice.roll(2) as usize], ends[dice.roll(5) as usize]));
    }
    for fault in FAULTS {
        if dice.roll(2) == 0 {
            run.planned.insert(fault);
            for _ in 0..dice.roll(4) {
                let seen = [
                    Some(Effect::Proven),
                    Some(Effect::Skipped),
                    Some(Effect::Indeterminate),
                    None,
                ];
                run.injected.push((fault, seen[dice.roll(4) as usize]));
            }
        }
        if dice.roll(3) == 0 {
            run.required.insert(fault.into(), 1 + dice.roll(3));
        }
    }
    run
}

/// What a run leaves open, one line each, word for word.
fn open(run: &Run) -> BTreeSet<String> {
    let mut open = BTreeSet::new();
    if run.calls.is_empty() {
        open.insert("no operation was invoked".to_owned());
    }
    for f in FUNCTIONS {
        let ended = |kinds: &[Option<OpType>]| {
            run.calls.iter().filter(|call| call.0 == f && kinds.contains(&call.1)).count()
        };
        let (fail, info) = (ended(&[Some(OpType::Fail)]), ended(&[Some(OpType::Info), None]));
        if ended(&[Some(OpType::Ok)]) == 0 && fail + info > 0 {
            let invoked = fail + info;
            open.insert(format!(
                "no {f} ever succeeded ({invoked} invoked, {fail} failed, {info} indeterminate)"
            ));
        }
    }
    for fault in FAULTS {
        let seen = |effects: &[Option<Effect>]| {
            run.injected.iter().filter(|one| one.0 == fault && effects.contains(&one.1)).count()
        };
        let skipped = seen(&[Some(Effect::Skipped)]);
        let doubtful = seen(&[Some(Effect::Indeterminate), None]);
        let proven = seen(&[Some(Effect::Proven)]) as u64;
        let required = run.required.get(fault).copied();
        let told = match (run.planned.contains(fault), proven, doubtful, skipped) {
            (true, 0, 0, 0) => Some(format!("the fault {fault} was never injected")),
            (true, 0, 0, _) => Some(format!(
                "the fault {fault} was never injected: there was nothing to hit ({skipped} skipped)"
            )),
            (true, 0, ..) => {
                Some(format!("the fault {fault} was never seen to bite ({doubtful} injected)"))
            }
            (_, proven, ..) => required.filter(|&required| proven < required).map(|required| {
                format!("the fault {fault} was proven {proven} times, and {required} were required")
            }),
        };
        open.extend(told);
    }
    open.into_iter().map(|why| format!("vacuous: {why}")).collect()
}

fn differs(dice: &mut Dice) -> Option<String> {
    let run = random(dice);
    let mut ops = Vec::new();
    for fault in &run.planned {
        ops.push(fault_of(fault, 0, FaultAction::Plan, None));
    }
    for (id, &(fault, seen)) in (1..).zip(&run.injected) {
        ops.push(fault_of(fault, id, FaultAction::Inject, None));
        ops.extend(seen.map(|seen| fault_of(fault, id, FaultAction::Inject, Some(seen))));
    }
    for (process, &(f, end)) in (0..).zip(&run.calls) {
        ops.extend(call(process, f, end));
    }
    let history = History::from_ops(Header::default(), &ops);
    let stats = Stats { required: run.required.clone() };
    let analysis = stats.check(&history, &Budget::unlimited());
    let told: Vec<String> = analysis.undecided.iter().map(|why| why.reason.clone()).collect();
    let expected = open(&run);
    let counts = |of: &[&str]| {
        let ends = run.calls.iter().filter(|call| of.contains(&call.0)).map(|call| call.1);
        let ended = |kind| ends.clone().filter(|end| *end == Some(kind)).count();
        let (invoked, ok, fail) = (ends.clone().count(), ended(OpType::Ok), ended(OpType::Fail));
        json!({ "invoked": invoked, "ok": ok, "fail": fail, "info": invoked - ok - fail })
    };
    let by_f = FUNCTIONS.iter().map(|f| (*f, counts(&[*f])));
    let by_f: BTreeMap<&str, serde_json::Value> =
        by_f.filter(|(_, counts)| counts["invoked"] != 0).collect();
    let verdict = if expected.is_empty() { Verdict::Valid } else { Verdict::Unknown };
    let agrees = analysis.verdict == verdict
        && told.len() == expected.len()
        && told.iter().all(|why| expected.contains(why))
        && analysis.details["all"] == counts(&FUNCTIONS)
        && analysis.details["by_f"] == json!(by_f);
    (!agrees).then(|| format!("{told:?}, and not {expected:?}: {run:?}"))
}

#[test]
fn counts_agree_with_their_definition() {
    let mut dice = Dice(0x5eed_1234_5678_9abc);
    for _ in 0..4000 {
        assert_eq!(differs(&mut dice), None);
    }
}

#[test]
fn every_planted_bug_is_found() {
    for &bug in Bug::ALL {
        let mut dice = Dice(0xc0ff_ee00_dead_beef);
        plant(Some(bug));
        let found = (0..4000).any(|_| differs(&mut dice).is_some());
        plant(None);
        assert!(found, "{bug:?}");
    }
}
