//! The clocks a lease can be measured by.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Which clock of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Clock {
    /// The time of day, which jumps when it is set. Deadlines are agreed on as times of day.
    Wall,
    /// Time since boot, without the time the machine was suspended.
    Monotonic,
    /// Time since boot, suspension included.
    Boottime,
}

impl Clock {
    /// Its reading: since 1970 or since boot.
    pub fn now(self) -> Duration {
        let id = match self {
            Self::Wall => ClockId::CLOCK_REALTIME,
            Self::Monotonic => ClockId::CLOCK_MONOTONIC,
            Self::Boottime => ClockId::CLOCK_BOOTTIME,
        };
        Duration::from(clock_gettime(id).expect("Linux has this clock"))
    }
}

/// Nanoseconds since 1970, for logs that are laid beside others.
pub(crate) fn wall_ns() -> u64 {
    u64::try_from(Clock::Wall.now().as_nanos()).unwrap_or(u64::MAX)
}
