//! From what was found to what is said: the verdict for a level, and everything else as details.

use std::collections::BTreeMap;

use deposed_history::{History, Outcome};
use serde_json::json;

use super::certificate::{Certificate, Found};
use super::explain;
use super::graph::Stop;
use super::level::{self, Consistency};
use super::txns::{Ambiguous, Txns};
use super::verify::{Workload, verify};
use crate::{Analysis, Anomaly, Undecided};

/// Something that was not decided.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) reason: String,
    /// The position from which on the history is not decided.
    pub(crate) since: u32,
    /// What is known of it nevertheless.
    pub(crate) known: Option<String>,
}

impl Open {
    /// Nothing of a history is decided.
    pub(crate) const fn all(reason: String) -> Self {
        Self { reason, since: 0, known: None }
    }
}

/// Collects what a checker has to say.
pub(crate) struct Report {
    checker: String,
    consistency: Consistency,
    workload: Workload,
    edges: usize,
    undecided: Vec<Open>,
}

impl Report {
    pub(crate) fn new(checker: &str, consistency: Consistency, workload: Workload) -> Self {
        Self { checker: checker.into(), consistency, workload, edges: 0, undecided: Vec::new() }
    }

    /// Notes the size of the graph.
    pub(crate) fn graph(&mut self, edges: usize) {
        self.edges = edges;
    }

    /// Notes something that was not decided.
    pub(crate) fn undecided(&mut self, open: Open) {
        self.undecided.push(open);
    }

    /// Notes that nothing was decided from the event at a position on.
    fn open_since(&mut self, since: u32, reason: String) {
        self.undecided(Open { reason, since, known: None });
    }

    /// What is said of a history that was not even read to its end.
    pub(crate) fn unread(self, history: &History, stop: Stop) -> Analysis {
        let reason = format!("{stop} while its transactions were read");
        let summary = format!("{} calls, {} not decided", history.calls().len(), self.consistency);
        let undecided = undecided(history, Open::all(reason));
        Analysis::from_findings(&self.checker, summary, vec![], vec![undecided])
    }

    /// Judges. An anomaly is shown only if its certificate was verified against the raw history.
    pub(crate) fn conclude(mut self, txns: &Txns<'_>, found: Found<'_>) -> Analysis {
        let history = txns.history;
        self.note_oddities(txns);
        let Found { mut shown, mut counts } = found;
        if txns.oddity_count > 0
            && let Some(reads) = counts.remove("garbage-read")
        {
            shown.remove("garbage-read");
            let first = txns.oddities.iter().map(|oddity| oddity.position).min();
            self.open_since(first.unwrap_or_default(), format!(
                "{reads} reads saw what no transaction wrote, but ops that are no transactions may have"
            ));
        }
        let mut certificates: Vec<Certificate<'_>> = shown.into_values().flatten().collect();
        certificates.sort_by_key(|certificate| level::severity(certificate.name));
        let dirty_reads = self.consistency.allows_dirty_reads();
        let verified = verify(history, self.workload, dirty_reads, &certificates);
        let mut proven: BTreeMap<&'static str, Vec<Anomaly>> = BTreeMap::new();
        for (certificate, verified) in certificates.iter().zip(verified) {
            match verified {
                Ok(()) => {
                    let anomaly = explain::anomaly(history, certificate);
                    proven.entry(certificate.name).or_default().push(anomaly);
                }
                Err(refused) => {
                    // Without the last of its transactions it would not be one.
                    let last = certificate.proof.txns().into_iter().max().unwrap_or_default();
                    self.open_since(last, format!(
                        "a {} that was found did not stand up to its verification ({refused}): this \
                         is a fault of the checker, please report it with the history",
                        certificate.name
                    ));
                }
            }
        }
        let counts: BTreeMap<&str, u64> =
            counts.into_iter().filter(|(name, _)| proven.contains_key(name)).collect();
        self.say(txns, &counts, proven)
    }

    fn note_oddities(&mut self, txns: &Txns<'_>) {
        for oddity in &txns.oddities {
            let index = txns.history.op(oddity.position).index();
            let reason = format!("op {index} is no transaction of this workload: {}", oddity.what);
            self.open_since(oddity.position, reason);
        }
        if txns.oddity_count > txns.oddities.len() as u64 {
            let last = txns.oddities.last().map_or(0, |oddity| oddity.position);
            self.open_since(last, format!("{} such ops in all", txns.oddity_count));
        }
        if let Some(&Ambiguous { key, value, writers: (one, other) }) = txns.ambiguous.first() {
            let index = |txn| txns.history.op(txns.invoke(txn)).index();
            self.open_since(txns.invoke(other), format!(
                "ops {} and {} both write {} to {}, so its reads tell nothing ({} such values): write \
                 each value once per key",
                index(one),
                index(other),
                txns.value_text(value),
                txns.key_text(key),
                txns.ambiguous.len(),
            ));
        }
    }

    fn say(
        self,
        txns: &Txns<'_>,
        counts: &BTreeMap<&str, u64>,
        proven: BTreeMap<&'static str, Vec<Anomaly>>,
    ) -> Analysis {
        let boundary = level::boundary(counts.keys().copied());
        let is_ruled_out = |name: &&str| self.consistency.is_ruled_out_by(name);
        let mut ruling: Vec<&str> = counts.keys().copied().filter(is_ruled_out).collect();
        ruling.sort_by_key(|name| level::severity(name));
        let count: u64 = ruling.iter().map(|name| counts[name]).sum();
        let mut anomalies = Vec::new();
        let mut others = Vec::new();
        let mut proven: Vec<(&str, Vec<Anomaly>)> = proven.into_iter().collect();
        proven.sort_by_key(|(name, _)| level::severity(name));
        for (name, of_name) in proven {
            if ruling.contains(&name) { anomalies.extend(of_name) } else { others.extend(of_name) }
        }
        let history = txns.history;
        let mut undecided: Vec<Undecided> =
            self.undecided.into_iter().map(|open| undecided(history, open)).collect();
        let succeeded = (0..txns.len() as u32).filter(|&txn| txns.is_acknowledged(txn)).count();
        if succeeded == 0 && anomalies.is_empty() && undecided.is_empty() {
            let succeeded = history.calls().iter().any(|call| call.outcome() == Outcome::Ok);
            if !succeeded || txns.len() == 0 {
                let vacuous = Open::all("vacuous: no transaction succeeded".into());
                undecided.push(self::undecided(history, vacuous));
            }
        }
        let committed = (0..txns.len() as u32).filter(|&txn| txns.is_committed(txn)).count();
        let summary = if ruling.is_empty() {
            format!("{committed} transactions on {} keys, {}", txns.key_count(), self.consistency)
        } else {
            format!(
                "{committed} transactions on {} keys, not {}: {}",
                txns.key_count(),
                self.consistency,
                ruling.join(", ")
            )
        };
        let details = json!({
            "also-not": boundary.also_not,
            "anomaly-counts": counts,
            "anomaly-types": counts.keys().collect::<Vec<_>>(),
            "consistency": self.consistency.as_str(),
            "edges": self.edges,
            "keys": txns.key_count(),
            "not": boundary.not,
            "other-anomalies": others,
            "transactions": committed,
        });
        Analysis {
            details,
            anomaly_count: count,
            ..Analysis::from_findings(&self.checker, summary, anomalies, undecided)
        }
    }
}

fn undecided(history: &History, open: Open) -> Undecided {
    let Open { reason, since, known } = open;
    Undecided { known, ..Undecided::since(history, since, reason) }
}
