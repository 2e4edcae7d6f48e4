//! What reaches the run loop, in one line.

use deposed_core::{FaultError, NemesisEvent};

use super::worker::Completion;

/// One message. The queue needs no limit of its own: a thread has one operation in flight, and a
/// lane waits for each of its events to be answered.
#[derive(Debug)]
pub(super) enum Message {
    /// A worker's operation ended.
    Completed(Completion),
    /// A lane reports.
    Nemesis(NemesisEvent),
    /// Whether the system serves again. The outer error is a panic.
    Recovered(Result<Result<(), String>, String>),
    /// A lane ended. The outer error is a panic.
    LaneEnded { lane: usize, result: Result<Result<(), FaultError>, String> },
}
