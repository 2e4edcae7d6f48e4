//! What a checker found: a verdict and the evidence for it.

use deposed_history::{History, Outcome};
use serde::{Deserialize, Serialize};

use crate::{Budget, Exhausted};

/// The three answers, ordered so that the worst of several is their maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No violation exists in what was seen.
    Valid,
    /// Not decided, or nothing was put to the test.
    Unknown,
    /// A violation, with a witness.
    Invalid,
}

impl Verdict {
    /// `valid`, `unknown`, `invalid`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Unknown => "unknown",
            Self::Invalid => "invalid",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why one op must come before another in every legal order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EdgeKind {
    /// The first completed before the second was invoked.
    RealTime,
    /// The same process did one after the other.
    Process,
    /// The second observed what the first wrote.
    WriteRead,
    /// The second overwrote what the first wrote.
    WriteWrite,
    /// The first observed a version that the second overwrote.
    ReadWrite,
    /// Fencing tokens grow: the first holds the lower one.
    TokenOrder,
    /// The resource handled the first before the second.
    ResourceOrder,
    /// The second uses the token that the first granted.
    GrantUse,
}

/// A step of a witness: `from` before `to`, and the sentence that says why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// Position of an event of the earlier call (its invocation).
    pub from: u32,
    /// Position of an event of the later call (its invocation).
    pub to: u32,
    /// The rule.
    pub kind: EdgeKind,
    /// The reason in words, e.g. `process 3 read 5, which process 1 wrote`.
    pub because: String,
}

/// One violation, with the few ops that prove it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Anomaly {
    /// Its name in the field's terms: `stale-read`, `G1c`, `lost-acked-write`, ...
    pub name: String,
    /// The object it concerns (the key), if histories are split by object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// One sentence with the numbers and names, for a headline.
    pub summary: String,
    /// The argument, sentence by sentence: `Let ...`, `then ... because ...`, `a contradiction`.
    pub sentences: Vec<String>,
    /// Positions of the invocations of the calls that prove it, smallest set known, in order of
    /// invocation. For events without calls (a resource's log), the positions of the events.
    pub witness: Vec<u32>,
    /// The impossible order among them, if it is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<Edge>,
}

/// A part of the history that was not decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Undecided {
    /// The object (the key), if histories are split by object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// First and last position of the window that was not decided.
    pub window: (u32, u32),
    /// What ran out or was missing: `time budget of 60 s`, `vacuous: no read ever succeeded`, ...
    pub reason: String,
    /// What is known nevertheless, e.g. `the 2,114 calls before it are linearizable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
}

impl Undecided {
    /// Nothing is known of a history from some event on.
    pub(crate) fn since(history: &History, from: u32, reason: impl Into<String>) -> Self {
        let last = (history.len() as u32).saturating_sub(1);
        Self { key: None, window: (from, last), reason: reason.into(), known: None }
    }

    /// Nothing of a history was decided.
    pub(crate) fn whole(history: &History, reason: impl Into<String>) -> Self {
        Self::since(history, 0, reason)
    }

    /// Nothing could be judged, for want of what is missing; if no operation succeeded at all, that is
    /// what is said.
    pub(crate) fn untested(history: &History, missing: &str) -> Self {
        let succeeded = history.calls().iter().any(|call| call.outcome() == Outcome::Ok);
        Self::whole(history, if succeeded { missing } else { "vacuous: no operation succeeded" })
    }
}

/// What one checker says of one history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// The checker.
    pub checker: String,
    /// Its answer.
    pub verdict: Verdict,
    /// One line for the terminal and the report's table, e.g. `36,412 calls on 40 keys`.
    pub summary: String,
    /// Violations, worst first. Not empty if and only if the verdict is `invalid`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anomalies: Vec<Anomaly>,
    /// How many violations there are, if more than are listed.
    #[serde(default)]
    pub anomaly_count: u64,
    /// What was not decided. Not empty if the verdict is `unknown`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<Undecided>,
    /// Figures of the checker's own, for `results.json` and the report: counts, sizes of searches,
    /// distributions. An object with sorted keys, or null.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub details: serde_json::Value,
}

impl Analysis {
    /// A `valid` one.
    pub fn valid(checker: &str, summary: impl Into<String>) -> Self {
        Self {
            checker: checker.into(),
            verdict: Verdict::Valid,
            summary: summary.into(),
            anomalies: Vec::new(),
            anomaly_count: 0,
            undecided: Vec::new(),
            details: serde_json::Value::Null,
        }
    }

    /// The verdict follows from what was found: `invalid` if there are anomalies, else `unknown` if
    /// something was not decided, else `valid`.
    pub fn from_findings(
        checker: &str,
        summary: impl Into<String>,
        anomalies: Vec<Anomaly>,
        undecided: Vec<Undecided>,
    ) -> Self {
        let verdict = if !anomalies.is_empty() {
            Verdict::Invalid
        } else if !undecided.is_empty() {
            Verdict::Unknown
        } else {
            Verdict::Valid
        };
        let anomaly_count = anomalies.len() as u64;
        Self { verdict, anomalies, anomaly_count, undecided, ..Self::valid(checker, summary) }
    }

    /// The budget ran out before anything was known.
    pub(crate) fn exhausted(checker: &str, history: &History, why: Exhausted) -> Self {
        let undecided = vec![Undecided::whole(history, why.to_string())];
        Self::from_findings(checker, "not decided", Vec::new(), undecided)
    }

    /// Looks at the witness of every anomaly once more in the raw history, for as long as there is time.
    /// Only those that stand are listed. One that does not is a fault of the checker, and leaves the
    /// verdict open unless others stand; so does it if there is no time for any.
    pub(crate) fn verified(
        mut self,
        history: &History,
        budget: &Budget,
        stands: impl Fn(&Anomaly) -> bool,
    ) -> Self {
        let (mut standing, mut refused) = (Vec::new(), 0u64);
        let mut reasons = Vec::new();
        for anomaly in std::mem::take(&mut self.anomalies) {
            if let Err(exhausted) = budget.check() {
                reasons.extend(standing.is_empty().then(|| {
                    format!("{exhausted} before any of the anomalies that were found was verified")
                }));
                break;
            }
            match stands(&anomaly) {
                true => standing.push(anomaly),
                false => refused += 1,
            }
        }
        if refused > 0 {
            reasons.push(format!(
                "{refused} of the anomalies that were found did not stand up to their verification: \
                 this is a fault of this checker"
            ));
        }
        if reasons.is_empty() {
            return Self { anomalies: standing, ..self };
        }
        self.anomalies = standing;
        self.undecided.extend(reasons.into_iter().map(|why| Undecided::whole(history, why)));
        let Self { checker, summary, anomalies, undecided, details, .. } = self;
        Self { details, ..Self::from_findings(&checker, summary, anomalies, undecided) }
    }
}

/// Judges a history, and adds what is known if it is undecided only from some event on: whether what
/// came before, judged by itself, is valid. What that means is said by `fine`, e.g. `keep to PL-2`.
pub(crate) fn with_beginning(
    history: &History,
    fine: impl std::fmt::Display,
    judge: impl Fn(&History) -> Analysis,
) -> Analysis {
    let mut analysis = judge(history);
    let bare = analysis.undecided.iter().filter(|open| open.known.is_none());
    let since = bare.map(|open| open.window.0).min().unwrap_or_default();
    if analysis.verdict == Verdict::Unknown && since > 0 {
        let beginning = history.beginning(since);
        if judge(&beginning).verdict == Verdict::Valid {
            let succeeded = beginning.calls().iter().filter(|call| call.outcome() == Outcome::Ok);
            let known = format!(
                "the {} calls that succeeded before op {}, taken alone, {fine}",
                succeeded.count(),
                history.op(since).index(),
            );
            for open in &mut analysis.undecided {
                open.known.get_or_insert_with(|| known.clone());
            }
        }
    }
    analysis
}
