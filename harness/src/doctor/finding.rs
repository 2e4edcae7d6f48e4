//! What was found on a node, and how it is shown.

use std::fmt::Write;
use std::sync::Arc;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// A run is possible, but weaker or harder to read.
    Warn,
    /// A run would fail or mislead.
    Fail,
}

/// One point that was checked on one node.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The node.
    pub node: Arc<str>,
    /// What was checked: `reach`, `facts` (only if it failed), `root`, `tools`, `firewall`, `ipv6`, `time-sync`, `clock`, `disk`,
    /// `leftovers`.
    pub check: &'static str,
    /// How bad it is.
    pub state: State,
    /// What was seen.
    pub said: String,
    /// What to do about it. Empty if there is nothing to do, or `said` says so.
    pub mend: String,
}

impl Finding {
    pub(super) fn ok(node: &Arc<str>, check: &'static str, said: impl Into<String>) -> Self {
        Self::new(node, check, State::Ok, said, "")
    }

    pub(super) fn warn(
        node: &Arc<str>,
        check: &'static str,
        said: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self::new(node, check, State::Warn, said, mend)
    }

    pub(super) fn fail(
        node: &Arc<str>,
        check: &'static str,
        said: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self::new(node, check, State::Fail, said, mend)
    }

    fn new(
        node: &Arc<str>,
        check: &'static str,
        state: State,
        said: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self { node: Arc::clone(node), check, state, said: said.into(), mend: mend.into() }
    }
}

/// Findings as aligned lines, what to do beneath each, and a count at the end.
pub fn render(findings: &[Finding]) -> String {
    let width = |length: fn(&Finding) -> usize| findings.iter().map(length).max().unwrap_or(0);
    let (node_width, check_width) = (width(|f| f.node.chars().count()), width(|f| f.check.len()));
    let mut text = String::new();
    let mut counts = [0; 3];
    for Finding { node, check, state, said, mend } in findings {
        counts[*state as usize] += 1;
        let word = match state {
            State::Ok => "ok",
            State::Warn => "warn",
            State::Fail => "FAIL",
        };
        let head = format!("{node:node_width$}  {word:4}  {check:check_width$}  ");
        let _ = writeln!(text, "{head}{said}");
        if !mend.is_empty() {
            let _ = writeln!(text, "{:indent$}-> {mend}", "", indent = head.chars().count());
        }
    }
    let [ok, warn, fail] = counts;
    let _ = writeln!(text, "{ok} ok, {warn} to look at, {fail} to mend");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_line_up_and_are_counted() {
        let (a, b): (Arc<str>, Arc<str>) = ("n1".into(), "node10".into());
        let findings = [
            Finding::ok(&a, "reach", "root@[::1]:22"),
            Finding::warn(&a, "time-sync", "none runs", "install chrony"),
            Finding::fail(&b, "reach", "connection refused", ""),
        ];
        assert_eq!(
            render(&findings),
            "n1      ok    reach      root@[::1]:22\n\
             n1      warn  time-sync  none runs\n                         -> install chrony\n\
             node10  FAIL  reach      connection refused\n\
             1 ok, 1 to look at, 1 to mend\n"
        );
    }
}
