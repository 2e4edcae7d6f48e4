//! Long forks: two reads of a group of registers that saw two writes in opposite orders.
//!
//! Each key is written once, so a read of a group is the set of those of its keys that it saw
//! written, and reads of one group must form a chain under inclusion: sorted by how many they saw,
//! each must include the one before. Parallel snapshot isolation allows a fork, snapshot isolation
//! does not.

use std::collections::BTreeMap;

use deposed_history::{History, Outcome, ValueRef};
use rustc_hash::FxHashMap;
use serde_json::json;

use super::planted::{Bug, planted};
use crate::{Analysis, Anomaly, Budget, Checker, Undecided};

/// Forks that are shown; one a neighbouring pair of reads is counted.
const SHOWN_MAX: usize = 8;

/// Judges transactions that write one key, `[["w", key, value]]`, or read a group of keys,
/// `[["r", key, value], ...]`, as Jepsen's `long-fork` does.
#[derive(Debug, Clone, Copy, Default)]
pub struct LongFork;

/// A read of a group: which of its keys, in the group's order, it saw written.
struct Read {
    invoke: u32,
    saw: Vec<bool>,
}

/// Reads by the keys they read, as text, so that the order is that of the text.
type Groups<'h> = BTreeMap<Vec<String>, (Vec<ValueRef<'h>>, Vec<Read>)>;

#[derive(Default)]
struct Collected<'h> {
    groups: Groups<'h>,
    reads: u64,
    writers: FxHashMap<ValueRef<'h>, u32>,
    undecided: Vec<Undecided>,
}

impl Checker for LongFork {
    fn name(&self) -> &str {
        "long-fork"
    }

    fn check(&self, history: &History, _budget: &Budget) -> Analysis {
        let Collected { mut groups, reads, writers, mut undecided } = collect(history);
        let (mut forks, mut anomalies) = (0u64, Vec::new());
        for (keys, reads) in groups.values_mut() {
            if !planted(Bug::ForkUnsorted) {
                reads.sort_by_key(|read| read.saw.iter().filter(|saw| **saw).count());
            }
            for pair in reads.windows(2) {
                let missed =
                    |a: &Read, b: &Read| (0..keys.len()).find(|&at| a.saw[at] && !b.saw[at]);
                let found = (missed(&pair[0], &pair[1]), missed(&pair[1], &pair[0]));
                let found = match found {
                    (None, y) if planted(Bug::ForkOneSided) => (y, y),
                    found => found,
                };
                let (Some(x), Some(y)) = found else {
                    continue;
                };
                forks += 1;
                if anomalies.len() < SHOWN_MAX {
                    anomalies.push(fork(
                        history,
                        &writers,
                        [keys[x], keys[y]],
                        [&pair[0], &pair[1]],
                    ));
                }
            }
        }
        if reads == 0 && undecided.is_empty() {
            undecided.push(whole(history, "vacuous: no read of a group succeeded".into()));
        }
        let summary = format!("{reads} reads of {} groups, {forks} forks", groups.len());
        Analysis {
            details: json!({ "forks": forks, "groups": groups.len(), "reads": reads }),
            anomaly_count: forks,
            ..Analysis::from_findings(self.name(), summary, anomalies, undecided)
        }
    }
}

fn whole(history: &History, reason: String) -> Undecided {
    let window = (0, (history.len() as u32).saturating_sub(1));
    Undecided { key: None, window, reason, known: None }
}

fn collect(history: &History) -> Collected<'_> {
    let mut collected = Collected::default();
    for call in history.calls() {
        let invoked = history.op(call.invoke).value();
        let completed = call.complete.map(|at| history.op(at).value()).filter(|v| !v.is_nil());
        let value =
            if call.outcome == Outcome::Ok { completed.unwrap_or(invoked) } else { invoked };
        let Some(mops) = value.as_list().filter(|mops| !mops.is_empty()) else { continue };
        let is = |mop: ValueRef<'_>, f| mop.as_list().and_then(|p| p.get(0)?.as_str()) == Some(f);
        if mops.iter().all(|mop| is(mop, "r")) {
            if call.outcome == Outcome::Ok || planted(Bug::UnfinishedReadsJudged) {
                collected.reads += 1;
                add_read(&mut collected.groups, call.invoke, mops.iter());
            }
        } else if mops.len() == 1 && mops.iter().all(|mop| is(mop, "w")) {
            let key = mops.get(0).and_then(|mop| mop.as_list()?.get(1)).unwrap_or(ValueRef::Nil);
            if call.outcome == Outcome::Fail && !planted(Bug::ForkFailedWrites) {
                continue;
            }
            if let Some(before) = collected.writers.insert(key, call.invoke)
                && !planted(Bug::ForkTwiceIgnored)
            {
                collected.undecided.push(whole(
                    history,
                    format!(
                        "ops {} and {} both write key {key}: each key must be written once",
                        history.op(before).index(),
                        history.op(call.invoke).index()
                    ),
                ));
            }
        } else if !planted(Bug::ForkOddIgnored) {
            let index = history.op(call.invoke).index();
            let reason = format!("op {index} neither writes one key nor reads a group: {value}");
            collected.undecided.push(whole(history, reason));
        }
    }
    collected.undecided.truncate(SHOWN_MAX);
    collected
}

fn add_read<'h>(groups: &mut Groups<'h>, invoke: u32, mops: impl Iterator<Item = ValueRef<'h>>) {
    let mut pairs: Vec<(String, ValueRef<'h>, bool)> = mops
        .filter_map(|mop| {
            let parts = mop.as_list()?;
            let (key, value) = (parts.get(1)?, parts.get(2).unwrap_or(ValueRef::Nil));
            Some((key.to_string(), key, !value.is_nil()))
        })
        .collect();
    if !planted(Bug::ForkInOrderOfKeys) {
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
    }
    pairs.dedup_by(|a, b| a.0 == b.0);
    let names = pairs.iter().map(|pair| pair.0.clone()).collect();
    let keys = || pairs.iter().map(|pair| pair.1).collect();
    let group = groups.entry(names).or_insert_with(|| (keys(), Vec::new()));
    group.1.push(Read { invoke, saw: pairs.iter().map(|pair| pair.2).collect() });
}

fn fork(
    history: &History,
    writers: &FxHashMap<ValueRef<'_>, u32>,
    [x, y]: [ValueRef<'_>; 2],
    [one, other]: [&Read; 2],
) -> Anomaly {
    let name = |read: &Read| {
        let op = history.op(read.invoke);
        format!("process {} (op {})", op.process(), op.index())
    };
    let (a, b) = (name(one), name(other));
    let mut witness = vec![one.invoke, other.invoke];
    witness.extend([x, y].iter().filter_map(|key| writers.get(key)));
    witness.sort_unstable();
    Anomaly {
        name: "long-fork".into(),
        key: None,
        summary: format!("{a} and {b} saw the writes of {x} and {y} in opposite orders"),
        sentences: vec![
            format!("{a} saw the write of {x} and not that of {y}, so {x} was written first."),
            format!(
                "However {b} saw the write of {y} and not that of {x}, so {y} was written first: a \
                 contradiction!"
            ),
        ],
        witness,
        edges: Vec::new(),
    }
}
