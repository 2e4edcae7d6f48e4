//! What a report is made from: the plan, the history, the analyses, and how the run went.

use deposed_checkers::Analysis;
use deposed_history::History;
use serde::{Deserialize, Serialize};

use crate::Plan;
use crate::report::anomalies;

/// Everything there is to tell about one run.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// What it set out to do.
    pub plan: &'a Plan,
    /// How it ended.
    pub ending: &'a Ending,
    /// What clients saw and the nemesis did.
    pub history: &'a History,
    /// What each checker said.
    pub checks: &'a [Check],
    /// Lines of node logs worth showing.
    pub logs: &'a [LogExcerpt],
    /// Other files of the run folder, to be listed.
    pub files: &'a [File],
}

/// How a run ended. It never changes what a checker found; only a run that ended normally can be
/// `valid` without reservation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "kebab-case")]
pub enum Ending {
    /// It did what was planned.
    #[default]
    Normal,
    /// Someone stopped it; what was recorded was healed, kept and judged.
    Interrupted {
        /// By what: `SIGINT`, `SIGTERM`.
        by: String,
    },
    /// The lab, a node or a package failed; trying again makes sense.
    Infrastructure {
        /// What failed, on which node, and how to mend it.
        reason: String,
    },
    /// A bug of deposed.
    Bug {
        /// What is known of it.
        reason: String,
    },
    /// The history was judged with no word of how its run ended: the controller was killed, or
    /// the history comes from elsewhere.
    Untold,
}

/// One checker's answer and its cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The answer.
    pub analysis: Analysis,
    /// How long it took.
    pub elapsed_ms: u64,
}

/// Why lines of a log are shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "because", rename_all = "kebab-case")]
pub enum Interest {
    /// They were written around the time of the witness.
    Near,
    /// They match a pattern that marks a crash.
    Crash {
        /// The pattern.
        pattern: String,
    },
}

/// A few lines of a node's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogExcerpt {
    /// The node.
    pub node: String,
    /// The file, relative to the run folder.
    pub file: String,
    /// Why it is shown.
    pub interest: Interest,
    /// The lines, in order.
    pub lines: Vec<LogLine>,
    /// How many further lines were left out.
    #[serde(default)]
    pub omitted: u64,
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Its number in the file, from 1.
    pub number: u64,
    /// Its time by the node's own clock, nanoseconds since the Unix epoch, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ns: Option<i64>,
    /// The line.
    pub text: String,
}

/// A file of the run folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Relative to the run folder.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// The window of the history, in wall time, whose log lines are worth excerpting: where the
/// violation that a report tells first is. Nanoseconds since the Unix epoch; `None` if there is no anomaly or no wall clock.
pub fn window_of_interest(history: &History, checks: &[Check]) -> Option<(i64, i64)> {
    let (_, anomaly) = anomalies(history, checks).into_iter().next()?;
    let walls = anomaly
        .witness
        .iter()
        .filter(|&&position| (position as usize) < history.len())
        .filter_map(|&position| history.op(position).wall());
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    for wall in walls {
        first = first.min(wall);
        last = last.max(wall);
    }
    (first <= last).then_some((first, last))
}
