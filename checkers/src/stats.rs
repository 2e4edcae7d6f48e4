//! Counts of what happened, and whether anything was put to the test at all.
//!
//! A run in which some operation never succeeded, or in which a fault never bit, proves nothing of
//! that operation or under that fault: its verdict is `unknown`, with reasons that begin `vacuous`.

use std::collections::BTreeMap;

use deposed_history::{History, Outcome, coverage};
use serde::Serialize;

use crate::{Analysis, Budget, Checker, Undecided};

/// Counts calls by function and outcome and injections by fault and effect.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// How often each of these faults must have been proven for the run to have tested enough.
    pub required: BTreeMap<String, u64>,
}

/// How the calls of one function ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Counts {
    invoked: u64,
    ok: u64,
    fail: u64,
    /// Indeterminate, with those that have no completion.
    info: u64,
}

impl Checker for Stats {
    fn name(&self) -> &str {
        "stats"
    }

    fn check(&self, history: &History, _budget: &Budget) -> Analysis {
        let by_f = count(history);
        let faults = coverage(history);
        let window = (0, (history.len() as u32).saturating_sub(1));
        let vacuous = |reason: String| Undecided {
            key: None,
            window,
            reason: format!("vacuous: {reason}"),
            known: None,
        };
        let mut undecided = Vec::new();
        if by_f.is_empty() {
            undecided.push(vacuous("no operation was invoked".into()));
        }
        for (f, counts) in &by_f {
            if counts.ok == 0 {
                let Counts { invoked, fail, info, .. } = counts;
                undecided.push(vacuous(format!(
                    "no {f} ever succeeded ({invoked} invoked, {fail} failed, {info} indeterminate)"
                )));
            }
        }
        for (fault, seen) in faults.iter().filter(|(_, seen)| seen.proven == 0) {
            let applied = seen.injected - seen.skipped;
            let reason = match (applied, seen.skipped) {
                (0, 0) => format!("the fault {fault} was never injected"),
                (0, skipped) => format!(
                    "the fault {fault} was never injected: there was nothing to hit ({skipped} skipped)"
                ),
                (applied, _) => {
                    format!("the fault {fault} was never seen to bite ({applied} injected)")
                }
            };
            undecided.push(vacuous(reason));
        }
        for (fault, &required) in &self.required {
            let proven = faults.get(fault).map_or(0, |seen| seen.proven);
            // One that never bit was told already.
            if proven > 0 && proven < required || !faults.contains_key(fault) {
                undecided.push(vacuous(format!(
                    "the fault {fault} was proven {proven} times, and {required} were required"
                )));
            }
        }
        let sum = |field: fn(&Counts) -> u64| by_f.values().map(field).sum::<u64>();
        let (invoked, ok) = (sum(|c| c.invoked), sum(|c| c.ok));
        let (fail, info) = (sum(|c| c.fail), sum(|c| c.info));
        let summary = format!("{invoked} calls: {ok} ok, {fail} failed, {info} indeterminate");
        let details = serde_json::json!({
            "all": Counts { invoked, ok, fail, info },
            "by_f": by_f,
            "faults": faults,
        });
        Analysis { details, ..Analysis::from_findings(self.name(), summary, Vec::new(), undecided) }
    }
}

fn count(history: &History) -> BTreeMap<&str, Counts> {
    let mut by_symbol: BTreeMap<_, Counts> = BTreeMap::new();
    for call in history.calls() {
        let counts = by_symbol.entry(history.op(call.invoke).f_symbol()).or_default();
        counts.invoked += 1;
        match call.outcome {
            Outcome::Ok => counts.ok += 1,
            Outcome::Fail => counts.fail += 1,
            Outcome::Info => counts.info += 1,
        }
    }
    by_symbol.into_iter().map(|(f, counts)| (history.text(f), counts)).collect()
}

#[cfg(test)]
mod tests {
    use deposed_history::{
        Effect, FaultAction, FaultEvent, Header, Op, OpType, Process, Sighting, Value,
    };

    use super::*;
    use crate::Verdict;

    fn call(process: u32, f: &str, end: Option<OpType>) -> Vec<Op> {
        let op = |kind| Op::new(kind, Process::Client(process), f, Value::Nil);
        std::iter::once(op(OpType::Invoke)).chain(end.map(op)).collect()
    }

    fn fault(action: FaultAction, seen: Option<Effect>) -> Op {
        FaultEvent {
            fault: "kill".into(),
            id: 1,
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
            vec![
                fault(FaultAction::Inject, None),
                fault(FaultAction::Inject, Some(Effect::Proven)),
            ],
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
}
