//! How much of the load was answered.

use deposed_history::{History, Outcome};

use super::planted::{Bug, planted};
use crate::{Analysis, Budget, Checker, Undecided};

/// Measures the share of calls that succeeded, overall and in each window of time. A share below the
/// goal leaves the verdict `unknown`: a store that refuses is not wrong, but it was not tested as
/// hard as was asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Availability {
    /// The share of calls that must succeed, 0 to 1; 0 only measures.
    pub goal: f64,
}

/// Windows the run is cut into.
const WINDOWS: u64 = 20;

impl Checker for Availability {
    fn name(&self) -> &str {
        "availability"
    }

    fn check(&self, history: &History, _budget: &Budget) -> Analysis {
        let end = history.ops().map(|op| op.time()).max().unwrap_or(0);
        let width = (end / WINDOWS + 1).max(1);
        let mut windows = vec![(0u64, 0u64); WINDOWS as usize];
        for call in history.calls() {
            let ended = call.complete().filter(|_| planted(Bug::WindowsByAnswer));
            let at = history.op(ended.unwrap_or(call.invoke)).time() / width;
            let window = &mut windows[at as usize];
            window.0 += u64::from(call.outcome() == Outcome::Ok);
            window.1 += u64::from(call.complete().is_some() || !planted(Bug::OnlyAnswersCount));
        }
        let (ok, all) = windows.iter().fold((0, 0), |sum, w| (sum.0 + w.0, sum.1 + w.1));
        if all == 0 && !planted(Bug::NothingIsAvailable) {
            let nothing = vec![Undecided::whole(history, "vacuous: no operation was invoked")];
            return Analysis::from_findings(self.name(), "no calls", Vec::new(), nothing);
        }
        let share = ok as f64 / all as f64;
        let counts = |w: &&(u64, u64)| w.1 > 0 || planted(Bug::IdleWindowsCount);
        let shares = windows.iter().filter(counts).map(|w| w.0 as f64 / w.1.max(1) as f64);
        let worst = shares.fold(1.0, f64::min);
        let mut undecided = Vec::new();
        let missed = share < self.goal || planted(Bug::GoalIsNotEnough) && share == self.goal;
        if missed && !planted(Bug::GoalIgnored) {
            let reason = format!(
                "{:.1} % of the calls succeeded, less than the {:.1} % asked for",
                share * 100.0,
                self.goal * 100.0
            );
            undecided.push(Undecided::whole(history, reason));
        }
        let summary = format!(
            "{:.1} % of {all} calls succeeded, {:.1} % in the worst twentieth of the run",
            share * 100.0,
            worst * 100.0
        );
        let details = serde_json::json!({
            "share": share,
            "worst_window": worst,
            "window_ns": width,
            "windows": windows.iter().map(|&(ok, all)| [ok, all]).collect::<Vec<_>>(),
        });
        Analysis { details, ..Analysis::from_findings(self.name(), summary, Vec::new(), undecided) }
    }
}
