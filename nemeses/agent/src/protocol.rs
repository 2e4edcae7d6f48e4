//! What is said over the channel: a JSON object a line, a reply for each request, in order.

use serde::{Deserialize, Serialize};

use crate::{Failure, Sight, Spec};

/// What the controller asks for. Every request may be sent again when its reply was lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// Let faults be in force for so long from now on.
    Renew {
        /// In milliseconds.
        ttl_ms: u64,
    },
    /// Say whether a fault could be applied; touches nothing.
    Check {
        /// What would be done.
        spec: Spec,
    },
    /// Plan, record and apply a fault. If one of that name is in force, it is undone first.
    Apply {
        /// Unique among the injections of a run, safe as a file name: `pause-3`.
        name: String,
        /// What to do.
        spec: Spec,
    },
    /// Say what can be seen of a fault in force.
    Prove {
        /// Its name.
        name: String,
    },
    /// Undo a fault and say what can be seen of that.
    Undo {
        /// Its name.
        name: String,
    },
    /// Undo every fault there is.
    UndoAll,
    /// Name the faults that are in force.
    List,
}

/// What the agent answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// It is done.
    Done,
    /// What was seen.
    Seen(Sight),
    /// The faults that are in force.
    Faults(Vec<String>),
    /// It was not done, or not all of it.
    Failed(Failure),
}
