//! Who holds the machine of a node from outside of it.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// In what a whole machine can be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// Nothing in it runs. Its kernel still answers pings.
    Frozen,
    /// It has no power: no process is left, and what its disk was not told to sync is gone.
    Off,
}

/// A machine, seen from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// In what it is held, if it is.
    pub held: Option<Hold>,
    /// Its processes, by their pids outside: how often the threads of each were ever switched off a
    /// processor. That grows whenever one of them runs, however briefly.
    pub processes: BTreeMap<u32, u64>,
    /// What the last loss of power took from its disk.
    pub loss: Option<Loss>,
}

/// What a loss of power took from a disk: of two files that were written just before, one was synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Whether the synced one is whole.
    pub synced: bool,
    /// Bytes that were written and not synced.
    pub unsynced: u64,
    /// How many of them are gone.
    pub lost: u64,
}

/// A warden could not do what was asked of it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{action} the machine of {node}: {reason}")]
pub struct WardenError {
    /// The node.
    pub node: String,
    /// What was attempted: `freeze`, `look at`, ...
    pub action: &'static str,
    /// What is in the way, and how to mend it.
    pub reason: String,
}

/// Holds the machine of one node: a node that is frozen or off can undo nothing by itself, so that whoever
/// holds it stands outside of it, and outlives the controller or takes the machine along.
#[async_trait]
pub trait Warden: Send + Sync {
    /// Errs where the machine cannot be held so. Touches nothing.
    async fn check(&self, how: Hold) -> Result<(), WardenError>;

    /// Holds the machine, until it is released or for so long without another word. Returns when that
    /// is so. A machine that was off runs `start` (for `/bin/sh`, as root) at the end of its boot.
    async fn hold(
        &self,
        how: Hold,
        ttl: Duration,
        start: Option<String>,
    ) -> Result<(), WardenError>;

    /// Holds it for another while, from now on. Errs if it is not held any more.
    async fn renew(&self, ttl: Duration) -> Result<(), WardenError>;

    /// What can be seen of the machine now.
    async fn look(&self) -> Result<Machine, WardenError>;

    /// Lets the machine go on, or boots it, and returns when its SSH server answers. Idempotent.
    async fn release(&self) -> Result<(), WardenError>;
}
