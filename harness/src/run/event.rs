//! What a run tells whoever watches it.

use deposed_history::{Op, jsonl};
use serde::{Serialize, Serializer};

use super::{LaneEnd, Outcome, Progress};

/// The part of a run that is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Operations and faults.
    Main,
    /// No new operations; faults are healed.
    Heal,
    /// Final operations on the healed system.
    Final,
}

/// One event. The only interface between running and showing; operations are told of in sums.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum RunEvent {
    /// A phase begins.
    Phase {
        /// Nanoseconds since the start of the run.
        time: u64,
        /// Which.
        phase: Phase,
    },
    /// How it goes, twice a second.
    Progress(Progress),
    /// A fault event was recorded.
    Fault {
        /// As it stands in the history.
        #[serde(serialize_with = "as_in_the_history")]
        op: Op,
    },
    /// A lane of faults ended.
    LaneEnded {
        /// Nanoseconds since the start of the run.
        time: u64,
        /// Its name.
        lane: String,
        /// How.
        end: LaneEnd,
    },
    /// The run is over.
    Ended(Outcome),
}

/// Takes events on the run loop's own thread, so it must not block.
pub type EventSink = Box<dyn FnMut(RunEvent) + Send>;

fn as_in_the_history<S: Serializer>(op: &Op, serializer: S) -> Result<S::Ok, S::Error> {
    let mut line = Vec::new();
    jsonl::write_op(&mut line, op);
    let value: serde_json::Value =
        serde_json::from_slice(&line).expect("an op is written as a line of JSON");
    value.serialize(serializer)
}
