//! `results.json`: the verdict and everything behind it, for machines.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use deposed_checkers::Verdict;
use deposed_history::Coverage;
use serde::{Deserialize, Serialize};

use crate::counts::Counts;
use crate::strength::Strength;
use crate::{Check, Ending, LogExcerpt, Report};

/// The schema of `results.json` that this build writes.
pub const RESULTS_SCHEMA: u32 = 1;

/// The content of `results.json`. With the plan and the history it is all that a report needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The schema of this file.
    pub schema: u32,
    /// Which run.
    pub run: RunName,
    /// The worst of the checkers' answers.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// How the run ended.
    pub ending: Ending,
    /// What the history amounts to.
    pub counts: Counts,
    /// How much of each fault was seen.
    pub faults: BTreeMap<String, Coverage>,
    /// How much finding nothing is worth.
    pub strength: Strength,
    /// Each checker's answer, in the order of the plan.
    pub checks: Vec<Check>,
    /// Lines of node logs worth showing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<LogExcerpt>,
}

/// Enough of the plan to know the run by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunName {
    /// Its id.
    pub id: String,
    /// When it was planned.
    pub created: DateTime<Utc>,
    /// Its seed.
    pub seed: u64,
    /// The store.
    pub system: String,
    /// The version of the store, if known.
    pub version: Option<String>,
    /// Workload and faults.
    pub cell: String,
}

impl Report<'_> {
    /// The results as values.
    pub fn results(&self) -> Results {
        let plan = self.run.plan;
        Results {
            schema: RESULTS_SCHEMA,
            run: RunName {
                id: plan.id.clone(),
                created: plan.created,
                seed: plan.seed,
                system: plan.system.name.clone(),
                version: plan.system_version().map(str::to_owned),
                cell: plan.cell(),
            },
            verdict: self.verdict,
            reason: self.headline.clone(),
            ending: self.run.ending.clone(),
            counts: self.counts.clone(),
            faults: self.coverage.clone(),
            strength: self.strength.clone(),
            checks: self.run.checks.to_vec(),
            logs: self.run.logs.to_vec(),
        }
    }

    /// The bytes of `results.json`: keys sorted, indented, one newline at the end.
    pub fn results_json(&self) -> String {
        let mut value = serde_json::to_value(self.results()).expect("results have text keys");
        value.sort_all_objects();
        let mut text = serde_json::to_string_pretty(&value).expect("a value is JSON");
        text.push('\n');
        text
    }
}
