//! How much a run that found nothing is worth. A quiet run must look weak.

use std::collections::BTreeMap;

use deposed_history::Coverage;
use serde::{Deserialize, Serialize};

use crate::counts::Counts;
use crate::{Plan, phrase};

/// How convincing one figure is, or all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// A violation could easily have been missed.
    Weak,
    /// Worth something.
    Fair,
    /// As much as one run can give.
    Strong,
}

impl Grade {
    /// `weak`, `fair`, `strong`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Weak => "weak",
            Self::Fair => "fair",
            Self::Strong => "strong",
        }
    }

    fn at_least(x: f64, fair: f64, strong: f64) -> Self {
        if x >= strong {
            Self::Strong
        } else if x >= fair {
            Self::Fair
        } else {
            Self::Weak
        }
    }
}

/// One figure that says how hard the run looked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    /// What is measured.
    pub name: String,
    /// The figure.
    pub figure: String,
    /// How convincing it is.
    pub grade: Grade,
    /// Why it matters.
    pub why: String,
}

/// All figures, and the grade of the weakest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strength {
    /// No better than the weakest measure.
    pub grade: Grade,
    /// The measures.
    pub measures: Vec<Measure>,
}

/// Calls that succeeded: fair and strong from here.
const OK_CALLS: (f64, f64) = (1_000.0, 5_000.0);
/// Calls open at once, on average.
const CONCURRENCY: (f64, f64) = (1.5, 4.0);
/// Injections that were proven.
const PROVEN: (f64, f64) = (1.0, 3.0);
/// Calls that succeeded while a proven fault was in force.
const UNDER_FAULT: (f64, f64) = (100.0, 1_000.0);
/// Share of calls whose outcome is known.
const DETERMINATE: (f64, f64) = (0.80, 0.95);

impl Strength {
    pub(crate) fn of(plan: &Plan, counts: &Counts, faults: &BTreeMap<String, Coverage>) -> Self {
        let ok = counts.calls.ok;
        let total = counts.calls.total();
        let measures = vec![
            Measure {
                name: "Calls that succeeded".into(),
                figure: format!("{} of {}", phrase::count(ok), phrase::count(total)),
                grade: Grade::at_least(ok as f64, OK_CALLS.0, OK_CALLS.1),
                why: "only what succeeded can contradict itself".into(),
            },
            Measure {
                name: "Calls open at once".into(),
                figure: format!(
                    "{:.1} on average, {} at most",
                    counts.concurrency_mean, counts.concurrency_max
                ),
                grade: Grade::at_least(counts.concurrency_mean, CONCURRENCY.0, CONCURRENCY.1),
                why: "races need company".into(),
            },
            faults_measure(plan, faults),
            Measure {
                name: "Calls that succeeded under a proven fault".into(),
                figure: phrase::count(counts.ok_under_fault),
                grade: Grade::at_least(counts.ok_under_fault as f64, UNDER_FAULT.0, UNDER_FAULT.1),
                why: "what happens in fair weather proves little".into(),
            },
            Measure {
                name: "Calls of unknown outcome".into(),
                figure: phrase::percent(counts.calls.info, total),
                grade: if total == 0 {
                    Grade::Weak
                } else {
                    let known = 1.0 - counts.calls.info as f64 / total as f64;
                    Grade::at_least(known, DETERMINATE.0, DETERMINATE.1)
                },
                why: "each gets the benefit of the doubt, for ever".into(),
            },
        ];
        let grade = measures.iter().map(|m| m.grade).min().unwrap_or(Grade::Weak);
        Self { grade, measures }
    }

    /// The measures that make it weak, as a clause; empty if none does.
    pub(crate) fn weaknesses(&self) -> Vec<&Measure> {
        self.measures.iter().filter(|m| m.grade == Grade::Weak).collect()
    }
}

fn faults_measure(plan: &Plan, faults: &BTreeMap<String, Coverage>) -> Measure {
    let name = "Faults that bit".to_owned();
    let why = "a fault that did not bite tested nothing".to_owned();
    if faults.is_empty() {
        let figure = if plan.faults.lanes.is_empty() { "none asked for" } else { "none" };
        return Measure { name, figure: figure.into(), grade: Grade::Weak, why };
    }
    let figure = faults
        .iter()
        .map(|(fault, c)| format!("{fault} {} of {}", c.proven, c.injected))
        .collect::<Vec<_>>()
        .join(", ");
    let least = faults.values().map(|c| c.proven).min().unwrap_or(0);
    Measure { name, figure, grade: Grade::at_least(least as f64, PROVEN.0, PROVEN.1), why }
}
