//! The story of one run, worked out once and told in every format.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use deposed_checkers::{Analysis, Anomaly, Verdict};
use deposed_history::{Coverage, Effect, Episode, History, coverage, episodes};

use crate::counts::Counts;
use crate::fault_text::fault_name;
use crate::strength::{Grade, Strength};
use crate::witness::Witness;
use crate::{Check, Ending, Run, phrase};

/// A run, understood. Every format is a method: the same run gives the same bytes.
#[derive(Debug)]
pub struct Report<'a> {
    pub(crate) run: Run<'a>,
    pub(crate) verdict: Verdict,
    pub(crate) headline: String,
    /// In the order they are told.
    pub(crate) anomalies: Vec<(&'a Analysis, &'a Anomaly)>,
    pub(crate) episodes: Vec<Episode>,
    pub(crate) coverage: BTreeMap<String, Coverage>,
    pub(crate) counts: Counts,
    pub(crate) strength: Strength,
}

impl<'a> Report<'a> {
    /// Works out what there is to tell.
    pub fn new(run: Run<'a>) -> Self {
        let episodes = episodes(run.history);
        let coverage = coverage(run.history);
        let counts = Counts::of(run.history, &episodes);
        let strength = Strength::of(run.plan, &counts, &coverage);
        let mut report = Self {
            run,
            verdict: verdict(&run),
            headline: String::new(),
            anomalies: anomalies(run.history, run.checks),
            episodes,
            coverage,
            counts,
            strength,
        };
        report.headline = report.headline_sentence();
        report
    }

    /// The worst verdict of the checkers; a `valid` of a run that failed is `unknown`.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// The verdict's reason in one sentence, with numbers and names.
    pub fn headline(&self) -> &str {
        &self.headline
    }

    /// The violation to be told first.
    pub(crate) fn first_anomaly(&self) -> Option<(&'a Analysis, &'a Anomaly)> {
        self.anomalies.first().copied()
    }

    /// How many violations there are over all checkers.
    pub(crate) fn anomaly_count(&self) -> u64 {
        let listed = |a: &Analysis| a.anomaly_count.max(a.anomalies.len() as u64);
        self.run.checks.iter().map(|check| listed(&check.analysis)).sum()
    }

    /// Injections seen to bite.
    pub(crate) fn proven_faults(&self) -> u64 {
        self.episodes.iter().filter(|e| e.effect() == Effect::Proven).count() as u64
    }

    /// The proof of the first violation, if it has calls.
    pub(crate) fn witness(&self) -> Option<Witness> {
        let (_, anomaly) = self.first_anomaly()?;
        Witness::of(self.run.history, anomaly, &self.episodes)
    }

    /// Which faults stood over a witness: `during partition n1 | n2 n3`, or the last one before
    /// it. `None` if there was none.
    pub(crate) fn weather(&self, witness: &Witness) -> Option<String> {
        if !witness.faults.is_empty() {
            let names: Vec<String> = witness.faults.iter().map(|f| f.name.clone()).collect();
            return Some(format!("during {}", phrase::list(&names)));
        }
        let (start, _) = witness.span();
        let over = self.episodes.iter().filter(|e| e.effect() != Effect::Skipped);
        let (ended, episode) = over
            .filter_map(|e| Some((e.healed?.time, e)))
            .filter(|(t, _)| *t < start)
            .max_by_key(|(t, _)| *t)?;
        Some(format!("{} after {}", phrase::duration(start - ended), fault_name(episode)))
    }

    fn headline_sentence(&self) -> String {
        match self.verdict {
            Verdict::Invalid => self.first_anomaly().map_or_else(
                || "A violation was found, of which nothing more is known.".to_owned(),
                |(_, anomaly)| sentence(&anomaly.summary),
            ),
            Verdict::Unknown => sentence(&self.doubt()),
            Verdict::Valid => self.valid_sentence(),
        }
    }

    /// Why the verdict is `unknown`.
    fn doubt(&self) -> String {
        match self.run.ending {
            Ending::Infrastructure { reason } => {
                return format!("the run failed, not the store: {reason}");
            }
            Ending::Bug { reason } => return format!("a bug of deposed ended the run: {reason}"),
            _ => {}
        }
        let silent = self.run.checks.iter().find(|c| c.analysis.verdict == Verdict::Unknown);
        let Some(check) = silent else { return "no checker judged this history".into() };
        let analysis = &check.analysis;
        match analysis.undecided.first() {
            None => format!("not decided by {}: {}", analysis.checker, analysis.summary),
            Some(undecided) if undecided.reason.starts_with("vacuous") => undecided.reason.clone(),
            Some(undecided) => {
                let key = undecided.key.as_ref().map_or(String::new(), |k| format!(" on key {k}"));
                format!("not decided by {}{key}: {}", analysis.checker, undecided.reason)
            }
        }
    }

    fn valid_sentence(&self) -> String {
        let calls = phrase::counted(self.counts.calls.ok, "successful call");
        let faults = match self.proven_faults() {
            0 if self.run.plan.faults.lanes.is_empty() => {
                "without faults: none was asked for".to_owned()
            }
            0 => "with no fault proven".to_owned(),
            n => format!("under {}", phrase::counted(n, "proven fault")),
        };
        let weak = match self.strength.grade {
            Grade::Weak => " The evidence is weak.",
            _ => "",
        };
        let exposed = self.exposed_sentence();
        format!("No violation found in {calls} {faults}.{weak}{exposed}")
    }
}

/// The worst of the checkers' answers.
fn verdict(run: &Run<'_>) -> Verdict {
    let worst = run.checks.iter().map(|check| check.analysis.verdict).max();
    let failed = matches!(run.ending, Ending::Infrastructure { .. } | Ending::Bug { .. });
    match worst {
        None => Verdict::Unknown,
        Some(Verdict::Valid) if failed => Verdict::Unknown,
        Some(verdict) => verdict,
    }
}

/// The violations in the order they are told: those with calls to show come before those that only
/// state something; then checker by checker, those first that time forbids by most.
pub(crate) fn anomalies<'a>(
    history: &History,
    checks: &'a [Check],
) -> Vec<(&'a Analysis, &'a Anomaly)> {
    let listed = |check: &'a Check| check.analysis.anomalies.iter().map(|a| (&check.analysis, a));
    let mut anomalies: Vec<(&Analysis, &Anomaly)> = checks.iter().flat_map(listed).collect();
    let late_by_ns = |anomaly: &Anomaly| {
        Witness::of(history, anomaly, &[]).and_then(|w| w.late_by_ns()).unwrap_or(0)
    };
    let checker = |analysis: &Analysis| {
        checks.iter().position(|check| std::ptr::eq(&check.analysis, analysis))
    };
    anomalies.sort_by_cached_key(|&(analysis, anomaly)| {
        (anomaly.witness.is_empty(), checker(analysis), Reverse(late_by_ns(anomaly)))
    });
    anomalies
}

/// Text of one line as a sentence: a capital, unless its first word is a name such as `n1`, and a
/// full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut text = clause(text);
    let word = text.split([' ', ':']).next().unwrap_or("");
    if word.len() > 1 && word.chars().all(|c| c.is_ascii_lowercase()) {
        text[..1].make_ascii_uppercase();
    }
    text
}

/// Text of one line with a full stop, to stand after a colon.
pub(crate) fn clause(text: &str) -> String {
    let text = phrase::clean(text.trim());
    let ends = text.ends_with(['.', '!', '?', '…']);
    format!("{text}{}", if ends { "" } else { "." })
}
