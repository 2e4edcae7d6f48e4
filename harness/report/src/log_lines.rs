//! Lines of node logs, side by side: one list in order of the nodes' own clocks.

use crate::{Interest, Report, phrase};

/// Longest line shown, in characters.
const LINE_CHARS_MAX: usize = 240;

/// A selection of lines.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogLines {
    /// Crash marks first, then the rest by time.
    pub(crate) lines: Vec<ShownLine>,
    /// Lines left out here or by those who made the excerpts.
    pub(crate) omitted: u64,
}

/// One line, made harmless.
#[derive(Debug, Clone)]
pub(crate) struct ShownLine {
    pub(crate) node: String,
    /// The file and the line in it.
    pub(crate) place: String,
    pub(crate) wall_ns: Option<i64>,
    pub(crate) text: String,
    /// Whether it marks a crash.
    pub(crate) crash: bool,
}

impl Report<'_> {
    /// At most `max` lines; those that mark a crash come before others are chosen.
    pub(crate) fn log_lines(&self, max: usize) -> LogLines {
        let mut all: Vec<ShownLine> = Vec::new();
        let mut omitted = 0;
        for excerpt in self.run.logs {
            omitted += excerpt.omitted;
            let crash = matches!(excerpt.interest, Interest::Crash { .. });
            all.extend(excerpt.lines.iter().map(|line| ShownLine {
                node: phrase::clean(&excerpt.node),
                place: format!("{}:{}", phrase::clean(&excerpt.file), line.number),
                wall_ns: line.wall_ns,
                text: phrase::cut(&phrase::clean(&line.text), LINE_CHARS_MAX),
                crash,
            }));
        }
        all.sort_by_key(|line| !line.crash);
        omitted += all.len().saturating_sub(max) as u64;
        all.truncate(max);
        all.sort_by_key(|line| line.wall_ns.unwrap_or(i64::MIN));
        LogLines { lines: all, omitted }
    }
}
