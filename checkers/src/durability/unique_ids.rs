//! No id is handed out twice.

use deposed_history::{History, Outcome, ValueRef};
use rustc_hash::FxHashMap;

use super::planted::{Bug, planted};
use super::{LISTED_MAX, is_f, vacuous, verify};
use crate::{Analysis, Anomaly, Budget, Checker};

/// Judges `generate` calls, whose completed value is the id.
#[derive(Debug, Clone, Copy, Default)]
pub struct UniqueIds;

impl Checker for UniqueIds {
    fn name(&self) -> &str {
        "unique-ids"
    }

    fn check(&self, history: &History, _budget: &Budget) -> Analysis {
        let mut generates = is_f(history, "generate");
        let mut first: FxHashMap<ValueRef<'_>, u32> = FxHashMap::default();
        let mut anomalies = Vec::new();
        let mut duplicated = 0u64;
        let mut acknowledged = 0u64;
        for call in
            history.calls().iter().filter(|c| generates(c.invoke) || planted(Bug::AllCallsGenerate))
        {
            let ended = call.outcome == Outcome::Ok || planted(Bug::OpenIdsCount);
            let Some(complete) = call.complete.filter(|_| ended) else { continue };
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
            }
        }
        let undecided = if acknowledged == 0 {
            vec![vacuous(history, "no id was ever generated")]
        } else {
            Vec::new()
        };
        let summary = format!("{acknowledged} ids, {duplicated} of them handed out before");
        Analysis {
            details: serde_json::json!({ "acknowledged": acknowledged, "duplicated": duplicated }),
            anomaly_count: duplicated,
            ..Analysis::from_findings(self.name(), summary, anomalies, undecided)
        }
        .verified(history, |anomaly| verify::duplicate_id(history, anomaly))
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
