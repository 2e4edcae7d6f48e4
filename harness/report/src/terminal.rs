//! The lines a run closes with on a terminal, as text: who prints them adds colour.

use std::fmt;

use deposed_checkers::Verdict;

use crate::report::clause;
use crate::{Check, Report, phrase};

/// Anomalies named in the closing lines.
const ANOMALIES_MAX: usize = 3;

/// One line: a word in the left column and the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The word: `check`, `INVALID`, `report`. Empty if the line goes on from the one before.
    pub label: String,
    /// The rest.
    pub text: String,
    /// The verdict it is about, to choose a colour by.
    pub verdict: Option<Verdict>,
}

impl Line {
    /// A line: see the fields.
    pub fn new(label: &str, text: impl Into<String>, verdict: Option<Verdict>) -> Self {
        Self { label: label.into(), text: text.into(), verdict }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {:<9} {}", self.label, self.text)
    }
}

/// The line for one checker: name, verdict, summary, time.
pub fn check_line(check: &Check) -> Line {
    let analysis = &check.analysis;
    let text = format!(
        "{:<14} {:<8} {:<38} {:>7}",
        phrase::clean(&analysis.checker),
        loud(analysis.verdict),
        phrase::clean(&analysis.summary),
        phrase::duration_ms(check.elapsed_ms),
    );
    Line::new("check", text, Some(analysis.verdict))
}

impl Report<'_> {
    /// The last lines of a run: the verdict with its reason, where the report is, how to see it
    /// again. `report` is the path of the HTML report, `run` what commands find the run by.
    pub fn closing(&self, report: &str, run: &str) -> Vec<Line> {
        let run = phrase::clean(run);
        let mut lines = self.verdict_lines();
        lines.push(Line::new("report", report, None));
        let again = format!("deposed check {run}      reproduce: deposed run --plan {run}");
        lines.push(Line::new("again", again, None));
        lines
    }

    fn verdict_lines(&self) -> Vec<Line> {
        let label = loud(self.verdict);
        if self.verdict != Verdict::Invalid {
            return vec![Line::new(label, self.headline.clone(), Some(self.verdict))];
        }
        let anomalies = &self.anomalies;
        let mut lines: Vec<Line> = anomalies
            .iter()
            .take(ANOMALIES_MAX)
            .map(|(analysis, anomaly)| {
                let checker = phrase::clean(&analysis.checker);
                let text = format!("{checker}: {}", clause(&anomaly.summary));
                Line::new(label, text, Some(Verdict::Invalid))
            })
            .collect();
        if let Some(witness) = self.witness() {
            let more = witness.lateness().into_iter().chain(self.weather(&witness));
            let place = 1.min(lines.len());
            lines.splice(place..place, more.map(|text| Line::new("", text, None)));
        }
        let more = self.anomaly_count().saturating_sub(anomalies.len().min(ANOMALIES_MAX) as u64);
        if more > 0 {
            lines.push(Line::new("", format!("and {} more", phrase::count(more)), None));
        }
        lines
    }
}

/// A violation is the one verdict that shouts.
const fn loud(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Invalid => "INVALID",
        other => other.as_str(),
    }
}
