//! Nothing crashed: lines of node logs that match a pattern of the system's.

use std::collections::BTreeSet;

use deposed_history::History;
use regex::Regex;

use crate::{Analysis, Anomaly, Budget, Checker};

/// A line that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMatch {
    /// The node.
    pub node: String,
    /// The log file.
    pub file: String,
    /// The line's number, from 1.
    pub number: u64,
    /// The line.
    pub line: String,
    /// The pattern.
    pub pattern: String,
}

/// At most this many matches are listed; all are counted.
const LISTED_MAX: usize = 16;

crate::plantable::plantable! {
    /// A rule that is broken.
    pub(crate) enum Bug {
        /// What was found on other nodes is let pass.
        OthersForgiven,
        /// What is let pass is let pass everywhere.
        AllForgiven,
        /// What was let pass before is forgotten.
        ForgivenOnce,
        /// What is let pass is a violation still.
        NothingForgiven,
        /// Only what is listed is counted.
        ListedCounts,
        /// What was let pass is not told.
        ForgivenUntold,
        /// Lines are not looked at again.
        LinesBelieved,
    }
}

/// Judges what was found in the logs; the history has no say.
#[derive(Debug, Clone, Default)]
pub struct LogPatterns {
    /// The patterns that were looked for: regular expressions.
    pub patterns: Vec<String>,
    /// How many files were searched.
    pub files: usize,
    /// What was found.
    pub matches: Vec<LogMatch>,
    /// How much more was found where it is no fault of the system's.
    pub forgiven: u64,
}

impl LogPatterns {
    /// Lets what was found on some nodes pass: whoever gives up because its disk fails does right.
    pub fn forgive(&mut self, nodes: &BTreeSet<String>) {
        let before = self.matches.len();
        self.matches.retain(|found| {
            let is_of_them = nodes.contains(&found.node) != planted(Bug::OthersForgiven);
            let forgiven = is_of_them || planted(Bug::AllForgiven);
            !forgiven || planted(Bug::NothingForgiven)
        });
        if planted(Bug::ForgivenOnce) {
            self.forgiven = 0;
        }
        self.forgiven += (before - self.matches.len()) as u64;
    }

    /// Whether a line that is shown is one of those that were asked for.
    fn stands(&self, anomaly: &Anomaly) -> bool {
        let shown = |found: &&LogMatch| anomaly.sentences == [sentence(found)];
        self.matches.iter().filter(shown).any(|found| {
            let asked = self.patterns.contains(&found.pattern);
            asked && Regex::new(&found.pattern).is_ok_and(|regex| regex.is_match(&found.line))
        })
    }
}

fn sentence(found: &LogMatch) -> String {
    let LogMatch { node, file, number, pattern, .. } = found;
    format!("Line {number} of {file} on {node} matches {pattern:?}, which marks a crash.")
}

impl Checker for LogPatterns {
    fn name(&self) -> &str {
        "log-patterns"
    }

    fn check(&self, history: &History, budget: &Budget) -> Analysis {
        let anomalies = self.matches.iter().take(LISTED_MAX).map(|found| Anomaly {
            name: "crash".into(),
            key: None,
            summary: format!("{} logged: {}", found.node, found.line.trim()),
            sentences: vec![sentence(found)],
            witness: Vec::new(),
            edges: Vec::new(),
        });
        let listed = if planted(Bug::ListedCounts) { LISTED_MAX } else { usize::MAX };
        let count = self.matches.len().min(listed) as u64;
        let (patterns, files) = (self.patterns.len(), self.files);
        let mut summary = format!("{count} matches of {patterns} patterns in {files} files");
        if self.forgiven > 0 && !planted(Bug::ForgivenUntold) {
            summary += &format!("; {} more where data was made to fail", self.forgiven);
        }
        Analysis {
            anomaly_count: count,
            ..Analysis::from_findings(self.name(), summary, anomalies.collect(), Vec::new())
        }
        .verified(history, budget, |anomaly| self.stands(anomaly) || planted(Bug::LinesBelieved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn a_crash_in_a_log_is_a_violation_and_silence_is_not() {
        let quiet = LogPatterns { patterns: vec!["panic:".into()], files: 3, ..Default::default() };
        let history = History::default();
        assert_eq!(quiet.check(&history, &Budget::unlimited()).verdict, Verdict::Valid);
        let found = LogMatch {
            node: "n1".into(),
            file: "store.log".into(),
            number: 7,
            line: "panic: nil map".into(),
            pattern: "panic:".into(),
        };
        let loud = LogPatterns { matches: vec![found; 20], ..quiet };
        let analysis = loud.check(&history, &Budget::unlimited());
        assert_eq!(analysis.verdict, Verdict::Invalid);
        assert_eq!((analysis.anomalies.len(), analysis.anomaly_count), (16, 20));
        let mut forgiven = loud.clone();
        forgiven.forgive(&BTreeSet::from(["n2".into()]));
        assert_eq!(forgiven.matches.len(), 20);
        forgiven.forgive(&BTreeSet::from(["n1".into()]));
        let analysis = forgiven.check(&history, &Budget::unlimited());
        assert_eq!(analysis.verdict, Verdict::Valid);
        assert!(analysis.summary.contains("20 more where data"), "{}", analysis.summary);
    }

    /// What the checker and the definition do not agree on, given what was found on which node and who is
    /// let pass, one after the other.
    fn differs(found: &[usize], forgiven: [usize; 2]) -> Option<String> {
        let name = |node: usize| format!("n{node}");
        let matches = found.iter().map(|&node| LogMatch {
            node: name(node),
            file: "store.log".into(),
            number: 1,
            line: "panic:".into(),
            pattern: "^panic".into(),
        });
        let patterns = vec!["^panic".into()];
        let mut checker =
            LogPatterns { patterns, matches: matches.collect(), ..Default::default() };
        for node in forgiven {
            checker.forgive(&BTreeSet::from([name(node)]));
        }
        let left = found.iter().filter(|node| !forgiven.contains(node)).count();
        let passed = found.len() - left;
        let analysis = checker.check(&History::default(), &Budget::unlimited());
        let verdict = if left > 0 { Verdict::Invalid } else { Verdict::Valid };
        let told = passed == 0 || analysis.summary.contains(&format!("; {passed} more where data"));
        let of_left = |anomaly: &Anomaly| {
            let on = |node: &usize| anomaly.summary.starts_with(&format!("n{node} "));
            found.iter().any(|node| on(node) && !forgiven.contains(node))
        };
        let agrees = analysis.verdict == verdict
            && analysis.anomaly_count == left as u64
            && analysis.anomalies.len() == left.min(LISTED_MAX)
            && analysis.anomalies.iter().all(of_left)
            && analysis.summary.starts_with(&format!("{left} matches"))
            && told;
        (!agrees).then(|| format!("{found:?}, {forgiven:?}: {analysis:#?}"))
    }

    /// Every way in which a few matches can be on three nodes, and many on one, whoever is let pass.
    fn difference() -> Option<String> {
        let few = (0..=4u32).flat_map(|length| {
            (0..3usize.pow(length)).map(move |number| {
                (0..length).map(|at| number / 3usize.pow(at) % 3).collect::<Vec<usize>>()
            })
        });
        let all = few.chain([vec![0; LISTED_MAX + 1], vec![1; 3 * LISTED_MAX]]);
        let mut each = all.flat_map(|found| {
            (0..16).filter_map(move |number| differs(&found, [number / 4, number % 4]))
        });
        each.next().or_else(believed)
    }

    /// A line that is no match is no violation, whatever is said of it.
    fn believed() -> Option<String> {
        let lies = [("no panic:", "^panic"), ("fatal: x", "fatal")];
        lies.into_iter().find_map(|(line, pattern)| {
            let (node, file) = ("n1".into(), "store.log".into());
            let (line, pattern) = (line.into(), pattern.into());
            let matches = vec![LogMatch { node, file, number: 1, line, pattern }];
            let checker =
                LogPatterns { patterns: vec!["^panic".into()], matches, ..Default::default() };
            let analysis = checker.check(&History::default(), &Budget::unlimited());
            (analysis.verdict != Verdict::Unknown).then(|| format!("{analysis:#?}"))
        })
    }

    #[test]
    fn matches_agree_with_their_definition() {
        assert_eq!(difference(), None);
    }

    #[test]
    fn every_planted_bug_is_found() {
        for &bug in Bug::ALL {
            plant(Some(bug));
            let found = difference();
            plant(None);
            assert!(found.is_some(), "{bug:?}");
        }
    }
}
