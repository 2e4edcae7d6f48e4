//! The calls of a run cut into equal stretches of time.

use std::collections::BTreeMap;

use deposed_history::{History, Outcome, PRECONDITION};

use crate::counts::Tally;

/// Stretches, at most.
const BUCKETS_MAX: u64 = 240;
/// Lengths a person can name, in nanoseconds.
const WIDTHS: [u64; 12] = [
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    60_000_000_000,
    300_000_000_000,
    600_000_000_000,
    1_800_000_000_000,
    3_600_000_000_000,
    21_600_000_000_000,
];

/// Equal stretches of time from the start of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buckets {
    pub(crate) width_ns: u64,
    pub(crate) count: usize,
}

impl Buckets {
    /// The finest ones for a run of `span_ns`.
    pub(crate) fn new(span_ns: u64) -> Self {
        let fits = |&width: &u64| span_ns / width < BUCKETS_MAX;
        let last = span_ns / BUCKETS_MAX + 1;
        let width_ns = WIDTHS.into_iter().find(fits).unwrap_or(last);
        Self { width_ns, count: (span_ns / width_ns) as usize + 1 }
    }

    /// The stretch a moment falls into.
    pub(crate) fn of(&self, ns: u64) -> usize {
        ((ns / self.width_ns) as usize).min(self.count - 1)
    }

    /// Start of a stretch in nanoseconds; the end of the one before.
    pub(crate) const fn start_ns(&self, bucket: usize) -> u64 {
        bucket as u64 * self.width_ns
    }

    /// Calls by the stretch in which they ended; those without an end are not counted.
    pub(crate) fn tallies(&self, history: &History) -> Vec<Tally> {
        let mut tallies = vec![Tally::default(); self.count];
        for call in history.calls() {
            if let Some(end) = call.complete {
                tallies[self.of(history.op(end).time())].add(call.outcome);
            }
        }
        tallies
    }

    /// The same for each node, to tell whether it served. A comparison found false is service, so
    /// it counts as `ok`; a call without an end counts where it began: nobody answered.
    pub(crate) fn service_by_node(&self, history: &History) -> BTreeMap<String, Vec<Tally>> {
        let mut nodes: BTreeMap<String, Vec<Tally>> = BTreeMap::new();
        for call in history.calls() {
            let op = history.op(call.invoke);
            let Some(node) = op.node() else { continue };
            if !nodes.contains_key(node) {
                nodes.insert(node.to_owned(), vec![Tally::default(); self.count]);
            }
            let time = call.complete.map_or(op.time(), |end| history.op(end).time());
            let served = call.outcome == Outcome::Fail
                && call
                    .complete
                    .is_some_and(|end| history.op(end).error().as_str() == Some(PRECONDITION));
            let outcome = if served { Outcome::Ok } else { call.outcome };
            if let Some(tallies) = nodes.get_mut(node) {
                tallies[self.of(time)].add(outcome);
            }
        }
        nodes
    }
}
