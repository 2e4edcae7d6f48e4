//! Where the agent keeps what it knows, on the node.

use std::path::{Path, PathBuf};

/// Two folders: one that a reboot empties, and one that it does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    volatile: PathBuf,
    lasting: PathBuf,
}

impl Default for Home {
    fn default() -> Self {
        Self { volatile: "/run/deposed".into(), lasting: "/var/lib/deposed-agent".into() }
    }
}

impl Home {
    /// Other folders than usual: for tests.
    pub fn new(volatile: impl Into<PathBuf>, lasting: impl Into<PathBuf>) -> Self {
        Self { volatile: volatile.into(), lasting: lasting.into() }
    }

    /// What a reboot empties, in memory where `/run` is. Locks, the lease, records of faults that
    /// vanish with the machine's memory.
    pub fn volatile(&self) -> &Path {
        &self.volatile
    }

    /// What survives a reboot: the program itself, records of faults that survive one too.
    pub fn lasting(&self) -> &Path {
        &self.lasting
    }
}
