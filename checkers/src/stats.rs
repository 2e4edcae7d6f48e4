//! Counts of what happened, and whether anything was put to the test at all.
//!
//! A run in which some operation never succeeded, or in which a fault never bit, proves nothing of
//! that operation or under that fault: its verdict is `unknown`, with reasons that begin `vacuous`.

use std::collections::BTreeMap;

use deposed_history::{Call, Coverage, History, Outcome, coverage};
use serde::Serialize;

use crate::{Analysis, Budget, Checker, Undecided};

#[cfg(test)]
mod tests;

crate::plantable::plantable! {
    /// A rule that is broken.
    pub(crate) enum Bug {
        /// A call without a completion is none.
        OpenCallsIgnored,
        /// What is not certain succeeded.
        InfoSucceeds,
        /// What failed is not certain.
        FailuresAreOpen,
        /// It is enough that any function succeeds.
        OneFunctionIsEnough,
        /// A run in which nothing was invoked proves something.
        NothingIsEnough,
        /// What was skipped was applied.
        SkippedIsApplied,
        /// What was injected bit.
        InjectedBites,
        /// A fault must bite more often than is required.
        RequiredIsNotEnough,
        /// That a fault never bit is told once more if it was required.
        NeverIsToldTwice,
        /// A fault that was required need not have been planned.
        UnplannedIsEnough,
    }
}

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
        let vacuous = |reason: String| Undecided::whole(history, format!("vacuous: {reason}"));
        let mut undecided = Vec::new();
        if by_f.is_empty() && !planted(Bug::NothingIsEnough) {
            undecided.push(vacuous("no operation was invoked".into()));
        }
        for (f, counts) in &by_f {
            let any = planted(Bug::OneFunctionIsEnough) && by_f.values().any(|of| of.ok > 0);
            if counts.ok == 0 && !any {
                let Counts { invoked, fail, info, .. } = counts;
                undecided.push(vacuous(format!(
                    "no {f} ever succeeded ({invoked} invoked, {fail} failed, {info} indeterminate)"
                )));
            }
        }
        let bit = |seen: &Coverage| {
            let bites = if planted(Bug::InjectedBites) { seen.injected } else { seen.proven };
            bites > 0
        };
        for (fault, seen) in faults.iter().filter(|(_, seen)| !bit(seen)) {
            let skipped = if planted(Bug::SkippedIsApplied) { 0 } else { seen.skipped };
            let applied = seen.injected - skipped;
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
            let told = proven == 0 && !planted(Bug::NeverIsToldTwice);
            let enough = proven >= required + u64::from(planted(Bug::RequiredIsNotEnough));
            let unplanned = !faults.contains_key(fault) && !planted(Bug::UnplannedIsEnough);
            if !told && !enough || unplanned {
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
    let counts = |call: &&Call| call.complete().is_some() || !planted(Bug::OpenCallsIgnored);
    for call in history.calls().iter().filter(counts) {
        let counts = by_symbol.entry(history.op(call.invoke).f_symbol()).or_default();
        counts.invoked += 1;
        match call.outcome() {
            Outcome::Info if planted(Bug::InfoSucceeds) => counts.ok += 1,
            Outcome::Fail if planted(Bug::FailuresAreOpen) => counts.info += 1,
            Outcome::Ok => counts.ok += 1,
            Outcome::Fail => counts.fail += 1,
            Outcome::Info => counts.info += 1,
        }
    }
    by_symbol.into_iter().map(|(f, counts)| (history.text(f), counts)).collect()
}
