//! Runs checkers over a history, each within its own budget.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use deposed_checkers::{Analysis, Budget, Checker, Undecided};
use deposed_history::History;

/// What each checker may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time for one checker.
    pub time: Duration,
    /// Memory for one checker's own tables, in bytes.
    pub memory: u64,
    /// Threads it may use.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(60),
            memory: 4 << 30,
            threads: std::thread::available_parallelism().map_or(1, Into::into),
        }
    }
}

/// Judges a history with one checker and tells how long it took.
///
/// A checker that panics is a bug of ours, and never costs the run: its answer is `unknown`.
pub fn judge(history: &History, checker: &dyn Checker, limits: &Limits) -> (Analysis, Duration) {
    let start = Instant::now();
    let budget = Budget::new(move || start.elapsed(), limits.time, limits.memory, limits.threads);
    let analysis = catch_unwind(AssertUnwindSafe(|| checker.check(history, &budget)))
        .unwrap_or_else(|panic| {
            let said = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            let last = (history.len() as u32).saturating_sub(1);
            Analysis::from_findings(
                checker.name(),
                "the checker failed: a bug of deposed",
                Vec::new(),
                vec![Undecided {
                    key: None,
                    window: (0, last),
                    reason: format!("the checker panicked: {said}"),
                    known: None,
                }],
            )
        });
    (analysis, start.elapsed())
}

#[cfg(test)]
mod tests {
    use deposed_checkers::Verdict;

    use super::*;

    struct Broken;

    impl Checker for Broken {
        fn name(&self) -> &str {
            "broken"
        }

        fn check(&self, _: &History, _: &Budget) -> Analysis {
            panic!("index out of bounds");
        }
    }

    #[test]
    fn a_checker_that_panics_answers_unknown_and_says_so() {
        let (analysis, _) = judge(&History::default(), &Broken, &Limits::default());
        assert_eq!(analysis.verdict, Verdict::Unknown);
        assert!(analysis.undecided[0].reason.contains("index out of bounds"));
    }
}
