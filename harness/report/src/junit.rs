//! `junit.xml`: the verdict for continuous integration. A suite for the system, a case for each
//! checker.

use std::time::Duration;

use deposed_checkers::{Analysis, Verdict};
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use crate::{Check, Ending, Report, phrase};

/// Anomalies told in full in one case; big files are dropped by those who show them.
const ANOMALIES_MAX: usize = 5;

impl Report<'_> {
    /// The bytes of `junit.xml`. `report` is the path or address under which the HTML report can
    /// be found, written into the properties.
    pub fn junit(&self, report: &str) -> String {
        let plan = self.run.plan;
        let mut suite = TestSuite::new(plan.system.name.clone());
        suite.set_timestamp(plan.created);
        suite.set_time(Duration::from_nanos(self.counts.span_ns));
        for (name, value) in [
            ("id", plan.id.clone()),
            ("seed", plan.seed.to_string()),
            ("version", plan.system_version().unwrap_or("unknown").to_owned()),
            ("verdict", self.verdict.to_string()),
            ("report", report.to_owned()),
        ] {
            suite.add_property((name, value.as_str()));
        }
        let class = format!("{}.{}", plan.system.name, plan.cell());
        for check in self.run.checks {
            suite.add_test_case(case(check, &class));
        }
        if let Some(case) = self.ending_case(&class) {
            suite.add_test_case(case);
        }
        let mut junit = quick_junit::Report::new(format!("deposed {}", plan.cell()));
        junit.set_timestamp(plan.created);
        junit.add_test_suite(suite);
        let mut text = junit.to_string().expect("quick-junit writes to memory");
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    /// A case for a run that did not end as planned.
    fn ending_case(&self, class: &str) -> Option<TestCase> {
        let (kind, message) = match self.run.ending {
            Ending::Normal | Ending::Untold => return None,
            Ending::Interrupted { by } => (None, format!("interrupted by {by}")),
            Ending::Infrastructure { reason } => (Some("infrastructure"), reason.clone()),
            Ending::Bug { reason } => (Some("bug"), reason.clone()),
        };
        let mut status = match kind {
            None => TestCaseStatus::skipped(),
            Some(_) => TestCaseStatus::non_success(NonSuccessKind::Error),
        };
        status.set_message(message);
        if let Some(kind) = kind {
            status.set_type(kind);
        }
        let mut case = TestCase::new("run", status);
        case.set_classname(class);
        Some(case)
    }
}

fn case(check: &Check, class: &str) -> TestCase {
    let analysis = &check.analysis;
    let mut status = match analysis.verdict {
        Verdict::Valid => TestCaseStatus::success(),
        Verdict::Unknown => TestCaseStatus::skipped(),
        Verdict::Invalid => TestCaseStatus::non_success(NonSuccessKind::Failure),
    };
    match analysis.verdict {
        Verdict::Valid => {}
        Verdict::Unknown => {
            status.set_message(doubts(analysis));
        }
        Verdict::Invalid => {
            if let Some(first) = analysis.anomalies.first() {
                status.set_message(first.summary.as_str()).set_type(first.name.as_str());
            }
            status.set_description(story(analysis));
        }
    }
    let mut case = TestCase::new(analysis.checker.as_str(), status);
    case.set_classname(class).set_time(Duration::from_millis(check.elapsed_ms));
    case.set_system_out(analysis.summary.as_str());
    case
}

fn doubts(analysis: &Analysis) -> String {
    match analysis.undecided.first() {
        None => analysis.summary.clone(),
        Some(undecided) => undecided.reason.clone(),
    }
}

/// The sentences of the first anomalies.
fn story(analysis: &Analysis) -> String {
    let mut text = String::new();
    for anomaly in analysis.anomalies.iter().take(ANOMALIES_MAX) {
        text.push_str(&format!("{}: {}\n", anomaly.name, anomaly.summary));
        for sentence in &anomaly.sentences {
            text.push_str(&format!("  {sentence}\n"));
        }
    }
    let told = analysis.anomalies.len().min(ANOMALIES_MAX) as u64;
    let all = analysis.anomaly_count.max(analysis.anomalies.len() as u64);
    if all > told {
        text.push_str(&format!("and {} more\n", phrase::count(all - told)));
    }
    text
}
