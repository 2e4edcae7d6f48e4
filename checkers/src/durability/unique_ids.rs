//! No id is handed out twice.

use deposed_history::{History, Outcome, ValueRef};
use rustc_hash::FxHashMap;

use super::planted::{Bug, planted};
use super::{LISTED_MAX, is_f, vacuous, verify};
use crate::linearizable::Reservation;
use crate::{Analysis, Anomaly, Budget, Checker, Exhausted};

/// Judges `generate` calls, whose completed value is the id.
#[derive(Debug, Clone, Copy, Default)]
pub struct UniqueIds;

impl Checker for UniqueIds {
    fn name(&self) -> &str {
        "unique-ids"
    }

    fn check(&self, history: &History, budget: &Budget) -> Analysis {
        self.judge(history, budget)
            .unwrap_or_else(|why| Analysis::exhausted(self.name(), history, why))
    }
}

/// Bytes an id takes, in a table that may just be growing.
const BYTES_PER_ID: u64 = 3 * (size_of::<(ValueRef<'_>, u32)>() as u64 + 1);

impl UniqueIds {
    fn judge(&self, history: &History, budget: &Budget) -> Result<Analysis, Exhausted> {
        let mut memory = Reservation::new(budget);
        let mut generates = is_f(history, "generate");
        let mut first: FxHashMap<ValueRef<'_>, u32> = FxHashMap::default();
        let mut anomalies = Vec::new();
        let mut duplicated = 0u64;
        let mut acknowledged = 0u64;
        for call in budget.pace(history.calls()) {
            let call = call?;
            if !generates(call.invoke) && !planted(Bug::AllCallsGenerate) {
                continue;
            }
            let ended = call.outcome() == Outcome::Ok || planted(Bug::OpenIdsCount);
            let Some(complete) = call.complete().filter(|_| ended) else { continue };
            acknowledged += 1;
            let id = history.op(complete).value();
            if let Some(&earlier) = first.get(&id)
                && !planted(Bug::SecondIdIgnored)
            {
                duplicated += 1;
                if anomalies.len() < LISTED_MAX {
                    anomalies.push(duplicate(history, id, earlier, call.invoke));
                }
            } else {
                first.insert(id, call.invoke);
                memory.hold(first.len() as u64 * BYTES_PER_ID)?;
            }
        }
        let undecided = vacuous(history, &["generate"]).into_iter().collect();
        let summary = format!("{acknowledged} ids, {duplicated} of them handed out before");
        let analysis = Analysis {
            details: serde_json::json!({ "acknowledged": acknowledged, "duplicated": duplicated }),
            anomaly_count: duplicated,
            ..Analysis::from_findings(self.name(), summary, anomalies, undecided)
        };
        Ok(analysis.verified(history, budget, |anomaly| verify::duplicate_id(history, anomaly)))
    }
}

fn duplicate(history: &History, id: ValueRef<'_>, earlier: u32, later: u32) -> Anomaly {
    let (a, b) = (history.op(earlier).process(), history.op(later).process());
    Anomaly {
        name: "duplicate-id".into(),
        key: None,
        summary: format!("the id {id} was handed out to process {a} and again to process {b}"),
        sentences: vec![
            format!("Process {a} was given the id {id}."),
            format!("Process {b} was given the id {id} too: it is not unique."),
        ],
        witness: vec![earlier, later],
        edges: Vec::new(),
    }
}
