//! What happened around a witness: calls on the same key and faults, on one time axis.

use std::collections::BTreeSet;

use deposed_checkers::Anomaly;
use deposed_history::{Call, History, Outcome};

use crate::call_text::{call_text, error_text, key_value, process_name};
use crate::fault_text::{bite_text, fault_name, healing_text};
use crate::witness::name_in;
use crate::{Report, phrase};

/// How far to look before the first and after the last moment of the witness.
const MARGIN_NS: u64 = 5_000_000_000;
/// Calls shown.
const CALLS_MAX: usize = 40;
/// Fault events shown.
const FAULTS_MAX: usize = 30;

/// A stretch of the run around a witness.
#[derive(Debug, Clone, Default)]
pub(crate) struct Around {
    /// In order of time.
    pub(crate) rows: Vec<AroundRow>,
}

/// One thing that happened.
#[derive(Debug, Clone)]
pub(crate) enum AroundRow {
    /// A client's call.
    Call(CallRow),
    /// Calls that are not shown.
    Gap { time_ns: u64, calls: u64 },
    /// A fault came or went.
    Fault { time_ns: u64, text: String },
}

/// A call in a table.
#[derive(Debug, Clone)]
pub(crate) struct CallRow {
    pub(crate) position: u32,
    pub(crate) time_ns: u64,
    pub(crate) index: u64,
    pub(crate) process: String,
    pub(crate) node: Option<String>,
    pub(crate) text: String,
    pub(crate) outcome: Outcome,
    pub(crate) error: Option<String>,
    /// From invocation to completion, if it has one.
    pub(crate) took_ns: Option<u64>,
    /// Its name, if it is part of the proof: `T1`.
    pub(crate) witness: Option<String>,
}

impl AroundRow {
    const fn time_ns(&self) -> u64 {
        match self {
            Self::Call(row) => row.time_ns,
            Self::Gap { time_ns, .. } | Self::Fault { time_ns, .. } => *time_ns,
        }
    }
}

impl Around {
    /// Collects what happened around an anomaly of the report's run.
    pub(crate) fn of(report: &Report<'_>, anomaly: &Anomaly) -> Self {
        let history = report.run.history;
        let witness: BTreeSet<u32> =
            anomaly.witness.iter().copied().filter(|&p| (p as usize) < history.len()).collect();
        let Some(&first) = witness.first() else { return Self::default() };
        let times: Vec<u64> = witness.iter().map(|&p| history.op(p).time()).collect();
        let from = times.iter().min().map_or(0, |t| t.saturating_sub(MARGIN_NS));
        let to = times.iter().max().map_or(0, |t| t.saturating_add(MARGIN_NS));

        let key = anomaly.key.as_ref().and_then(|_| key_value(history, history.op(first)));
        let same_key =
            |call: &Call| key.is_none() || key_value(history, history.op(call.invoke)) == key;
        let distance = |call: &Call| {
            let at = history.op(call.invoke).time();
            let nearest = times.iter().map(|t| t.abs_diff(at)).min().unwrap_or(0);
            (!witness.contains(&call.invoke), nearest)
        };
        let calls: Vec<Call> = history
            .calls()
            .iter()
            .filter(|call| (from..=to).contains(&history.op(call.invoke).time()) && same_key(call))
            .copied()
            .collect();
        let mut nearest: Vec<usize> = (0..calls.len()).collect();
        nearest.sort_by_key(|&at| (distance(&calls[at]), at));
        nearest.truncate(CALLS_MAX);
        nearest.sort_unstable();

        let mut rows: Vec<AroundRow> = Vec::new();
        let mut next = 0;
        for &at in &nearest {
            let call = &calls[at];
            if at > next {
                let time_ns = history.op(calls[next].invoke).time();
                rows.push(AroundRow::Gap { time_ns, calls: (at - next) as u64 });
            }
            next = at + 1;
            let name = name_in(anomaly, call.invoke);
            rows.push(AroundRow::Call(call_row(history, call, key.is_some(), name)));
        }
        if let Some(call) = calls.get(next) {
            let time_ns = history.op(call.invoke).time();
            rows.push(AroundRow::Gap { time_ns, calls: (calls.len() - next) as u64 });
        }
        rows.extend(fault_rows(report, from, to));
        rows.sort_by_key(AroundRow::time_ns);
        Self { rows }
    }
}

fn call_row(
    history: &History,
    call: &Call,
    key_is_known: bool,
    witness: Option<String>,
) -> CallRow {
    let op = history.op(call.invoke);
    CallRow {
        position: call.invoke,
        time_ns: op.time(),
        index: op.index(),
        process: process_name(op.process()),
        node: op.node().map(phrase::clean),
        text: call_text(history, call, key_is_known).line(),
        outcome: call.outcome(),
        error: error_text(history, call),
        took_ns: call.complete().map(|end| history.op(end).time().saturating_sub(op.time())),
        witness,
    }
}

/// Injections and healings within a stretch of time.
fn fault_rows(report: &Report<'_>, from: u64, to: u64) -> Vec<AroundRow> {
    let mut rows = Vec::new();
    for episode in &report.episodes {
        let name = fault_name(episode);
        // Proof comes some time after the attempt; pictures shade from the attempt on.
        rows.push((episode.begin.time, format!("{name} begins")));
        if let Some(applied) = episode.applied {
            rows.push((applied.time, format!("{name} is seen ({})", bite_text(episode))));
        }
        if let Some(healed) = episode.healed {
            rows.push((healed.time, format!("{name} healed ({})", healing_text(episode))));
        }
    }
    rows.into_iter()
        .filter(|(time_ns, _)| (from..=to).contains(time_ns))
        .take(FAULTS_MAX)
        .map(|(time_ns, text)| AroundRow::Fault { time_ns, text })
        .collect()
}
