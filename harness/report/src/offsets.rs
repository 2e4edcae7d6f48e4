//! How far clocks were off, as the faults that moved them recorded it.

use std::collections::BTreeMap;

use deposed_history::{FaultEvent, History, Value};

/// The figure of a node under which a fault of clocks hands readings over: lists of how many milliseconds
/// before the event it was taken, how far the clock was ahead and how far off that may be, both in
/// nanoseconds.
const FIGURE: &str = "readings_ago_ms_ns_ns";

/// A clock that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Offset {
    /// When, in nanoseconds of the run.
    pub(crate) at_ns: u64,
    /// How far it was ahead of the true time, or behind if negative.
    pub(crate) offset_ns: i64,
    /// How far off that may be, either way.
    pub(crate) error_ns: u64,
}

/// Every reading of a history, by node, in the order of time.
pub(crate) fn offsets(history: &History) -> BTreeMap<String, Vec<Offset>> {
    let mut nodes: BTreeMap<String, Vec<Offset>> = BTreeMap::new();
    for op in history.ops() {
        let Some(seen) = FaultEvent::parse(op).and_then(|event| event.seen) else { continue };
        let Value::Map(figures) = &seen.figures else { continue };
        for (node, figures) in figures {
            let Some(node) = node.as_str() else { continue };
            let readings = figures.get(FIGURE).and_then(Value::as_list).unwrap_or_default();
            let read = readings.iter().filter_map(|reading| {
                let [ago_ms, offset_ns, error_ns] = reading.as_list()? else { return None };
                let ago_ns = u64::try_from(ago_ms.as_int()?).ok()?.checked_mul(1_000_000)?;
                Some(Offset {
                    at_ns: op.time().saturating_sub(ago_ns),
                    offset_ns: offset_ns.as_int()?,
                    error_ns: u64::try_from(error_ns.as_int()?).ok()?,
                })
            });
            nodes.entry(node.to_owned()).or_default().extend(read);
        }
    }
    nodes.retain(|_, readings| !readings.is_empty());
    nodes.values_mut().for_each(|readings| readings.sort_unstable());
    nodes
}

#[cfg(test)]
mod tests {
    use deposed_history::{Effect, FaultAction, Header, Op, Sighting};

    use super::*;

    fn history(figures: Value) -> History {
        let event = FaultEvent {
            fault: "clock".into(),
            id: 1,
            lane: "clock".into(),
            action: FaultAction::Hold,
            choice: Value::Nil,
            nodes: vec!["n1".into()],
            seen: Some(Sighting { effect: Effect::Proven, summary: String::new(), figures }),
        };
        History::from_ops(Header::default(), &[Op { time: 2_000_000_000, ..event.to_op() }])
    }

    /// Readings have the times at which they were taken; what is in another shape is passed over.
    #[test]
    fn readings_are_found_in_evidence() {
        let reading = |ago: i64, offset: i64, error: i64| {
            Value::List([ago, offset, error].map(Value::Int).to_vec())
        };
        let readings =
            vec![reading(0, 7, 1), reading(500, -600, 20), reading(-1, 0, 0), Value::Nil];
        let of_node = |value| Value::Map(vec![(FIGURE.into(), value)]);
        let figures = Value::Map(vec![
            ("n1".into(), of_node(Value::List(readings))),
            ("n2".into(), of_node(Value::Nil)),
            ("n3".into(), Value::Int(3)),
        ]);
        let found = offsets(&history(figures));
        let first = Offset { at_ns: 1_500_000_000, offset_ns: -600, error_ns: 20 };
        let then = Offset { at_ns: 2_000_000_000, offset_ns: 7, error_ns: 1 };
        assert_eq!(found, BTreeMap::from([("n1".to_owned(), vec![first, then])]));
        assert!(offsets(&history(Value::Nil)).is_empty());
    }
}
