//! The first line of a recorded history: which schema it follows and where it came from.

use serde::{Deserialize, Serialize};

/// The schema this build writes. A reader refuses a newer one.
pub const SCHEMA_VERSION: u32 = 1;

/// What a history says of itself. Foreign formats have none and get the default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The schema of the lines that follow.
    pub schema: u32,
    /// The id of the plan (and run) that recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The system under test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The workload that was run, which names the checkers that judge it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Wall clock at time 0 of the run, nanoseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_wall_ns: Option<i64>,
    /// Whether values are `[key, value]` pairs: one object for each key.
    #[serde(default)]
    pub keyed: bool,
}

impl Default for Header {
    fn default() -> Self {
        Self {
            schema: SCHEMA_VERSION,
            plan: None,
            system: None,
            workload: None,
            start_wall_ns: None,
            keyed: false,
        }
    }
}
