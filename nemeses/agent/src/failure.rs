//! What went wrong on the node, in words for the person who reads the report.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The result of anything that is tried on the node.
pub type Result<T> = std::result::Result<T, Failure>;

/// What was attempted and why it did not work. Says how to mend it where that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What was attempted: `stop pid 71`, `write /run/deposed/faults/pause-3.json`.
    pub attempted: String,
    /// Why it failed.
    pub reason: String,
}

impl Failure {
    /// A failure in words.
    pub fn new(attempted: impl Into<String>, reason: impl fmt::Display) -> Self {
        Self { attempted: attempted.into(), reason: reason.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.attempted, self.reason)
    }
}

impl std::error::Error for Failure {}
