//! The calls of a run cut into equal stretches of time.

use std::collections::BTreeMap;

use deposed_history::{Call, History, Outcome, PRECONDITION};

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
            if let Some(end) = call.complete() {
                tallies[self.of(history.op(end).time())].add(call.outcome());
            }
        }
        tallies
    }

    /// Whether each node served, stretch by stretch.
    pub(crate) fn service_by_node(&self, history: &History) -> BTreeMap<String, Vec<Service>> {
        let mut nodes: BTreeMap<String, Vec<Service>> = BTreeMap::new();
        for call in history.calls() {
            let op = history.op(call.invoke);
            let Some(node) = op.node() else { continue };
            if !nodes.contains_key(node) {
                nodes.insert(node.to_owned(), vec![Service::default(); self.count]);
            }
            let Some(services) = nodes.get_mut(node) else { continue };
            let first = self.of(op.time());
            let last = call.complete().map_or(first, |end| self.of(history.op(end).time()));
            services[last].ended += 1;
            services[last].served += u64::from(is_served(history, call));
            for service in &mut services[first..last] {
                service.waiting += 1;
            }
        }
        nodes
    }
}

/// What a node did for clients in a stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Service {
    /// Calls that ended in it.
    pub(crate) ended: u64,
    /// Of those, the ones that were answered.
    pub(crate) served: u64,
    /// Calls that were open at its end.
    pub(crate) waiting: u64,
}

/// A comparison found false is an answer as good as any.
fn is_served(history: &History, call: &Call) -> bool {
    let error = || call.complete().and_then(|end| history.op(end).error().as_str());
    match call.outcome() {
        Outcome::Ok => true,
        Outcome::Fail => error() == Some(PRECONDITION),
        Outcome::Info => false,
    }
}

#[cfg(test)]
mod tests {
    use deposed_history::{Header, Op, OpType, Process, Value};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The finest width that gives few enough stretches is chosen, and the last moment has one.
    #[test]
    fn widths_fit_the_run() {
        let widths = [0, 30, 400, 100_000_000].map(|s| Buckets::new(s * SECOND).width_ns);
        assert_eq!(widths[..3], [SECOND / 2, SECOND / 2, 2 * SECOND]);
        for span in [0, 1, SECOND, 119 * SECOND, 120 * SECOND, u64::MAX / 2] {
            let buckets = Buckets::new(span);
            assert!(buckets.count as u64 <= BUCKETS_MAX + 1, "{span}: {}", buckets.count);
            assert!(buckets.of(span) < buckets.count);
        }
    }

    /// A node that keeps everyone waiting is not idle: it does not serve.
    #[test]
    fn waiting_is_seen() {
        let op = |kind, time, error: Value| Op {
            time,
            error,
            node: Some("n1".into()),
            ..Op::new(kind, Process::Client(0), "cas", Value::Nil)
        };
        let ops = [
            op(OpType::Invoke, 0, Value::Nil),
            op(OpType::Info, 2 * SECOND, "timeout".into()),
            op(OpType::Invoke, 2 * SECOND, Value::Nil),
            op(OpType::Fail, 2 * SECOND + 1, PRECONDITION.into()),
        ];
        let history = History::from_ops(Header::default(), &ops);
        let services = &Buckets::new(3 * SECOND).service_by_node(&history)["n1"];
        let service = |ended, served, waiting| Service { ended, served, waiting };
        assert_eq!(services[0], service(0, 0, 1));
        assert_eq!(services[4], service(2, 1, 0), "a comparison found false is an answer");
        assert_eq!(services[5], service(0, 0, 0));
    }
}
