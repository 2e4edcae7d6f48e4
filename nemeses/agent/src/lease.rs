//! Until when faults may be in force on this node without another word from the controller.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::{Failure, Home, Result};

/// A moment by the boot-time clock, in a file. That clock is never set, and goes on while a laptop sleeps.
#[derive(Debug, Clone)]
pub struct Lease {
    path: PathBuf,
}

impl Lease {
    /// The lease of a node.
    pub fn new(home: &Home) -> Self {
        Self { path: home.volatile().join("lease") }
    }

    /// Lets faults be in force for another while, from now on.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn renew(&self, ttl: Duration) -> Result<()> {
        let until = (uptime()? + ttl).as_millis().to_string();
        let part = self.path.with_extension("part");
        let write = fs::write(&part, until).and_then(|()| fs::rename(&part, &self.path));
        write.map_err(|error| Failure::new(format!("write {}", self.path.display()), error))
    }

    /// Lets it run out now.
    ///
    /// # Errors
    /// If its file cannot be removed.
    pub fn end(&self) -> Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::new(format!("remove {}", self.path.display()), error))
            }
            _ => Ok(()),
        }
    }

    /// How long it still lasts; zero if it ran out or was never taken.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn left(&self) -> Result<Duration> {
        let failed = |reason: &dyn std::fmt::Display| {
            Failure::new(format!("read {}", self.path.display()), reason)
        };
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Duration::ZERO),
            Err(error) => return Err(failed(&error)),
        };
        let until = text.trim().parse().map_err(|error| failed(&error))?;
        Ok(Duration::from_millis(until).saturating_sub(uptime()?))
    }
}

/// The boot-time clock.
pub(crate) fn uptime() -> Result<Duration> {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map_err(|errno| Failure::new("read the boot-time clock", errno))?;
    Ok(Duration::from(now))
}
