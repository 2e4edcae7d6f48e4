//! Nothing crashed: lines of node logs that match a pattern of the system's.

use std::collections::BTreeSet;

use deposed_history::History;

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

/// Judges what was found in the logs; the history has no say.
#[derive(Debug, Clone, Default)]
pub struct LogPatterns {
    /// The patterns that were looked for.
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
        self.matches.retain(|found| !nodes.contains(&found.node));
        self.forgiven += (before - self.matches.len()) as u64;
    }
}

impl Checker for LogPatterns {
    fn name(&self) -> &str {
        "log-patterns"
    }

    fn check(&self, _history: &History, _budget: &Budget) -> Analysis {
        let anomalies = self.matches.iter().take(LISTED_MAX).map(|found| Anomaly {
            name: "crash".into(),
            key: None,
            summary: format!("{} logged: {}", found.node, found.line.trim()),
            sentences: vec![format!(
                "Line {} of {} on {} matches {:?}, which marks a crash.",
                found.number, found.file, found.node, found.pattern
            )],
            witness: Vec::new(),
            edges: Vec::new(),
        });
        let count = self.matches.len() as u64;
        let (patterns, files) = (self.patterns.len(), self.files);
        let mut summary = format!("{count} matches of {patterns} patterns in {files} files");
        if self.forgiven > 0 {
            summary += &format!("; {} more where data was made to fail", self.forgiven);
        }
        Analysis {
            anomaly_count: count,
            ..Analysis::from_findings(self.name(), summary, anomalies.collect(), Vec::new())
        }
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
}
