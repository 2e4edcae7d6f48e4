//! The clock of a run.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A moment of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds of the monotonic clock since the start of the run.
    pub time: u64,
    /// Nanoseconds since the Unix epoch, to be laid beside node logs; may jump.
    pub wall: i64,
}

/// Counts from the start of a run.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    start_wall_ns: i64,
}

impl Clock {
    /// Starts counting now.
    pub fn start() -> Self {
        Self { start_wall_ns: wall(), start: Instant::now() }
    }

    /// Wall clock at time 0, nanoseconds since the Unix epoch.
    pub const fn start_wall_ns(&self) -> i64 {
        self.start_wall_ns
    }

    /// Nanoseconds since the start.
    pub fn now(&self) -> u64 {
        nanos(self.start.elapsed())
    }

    /// Now, on both clocks.
    pub fn stamp(&self) -> Stamp {
        Stamp { time: self.now(), wall: wall() }
    }
}

/// A duration as the run loop counts it.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn wall() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
    }
}
