//! A system under test and its automation.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use deposed_history::Op;
use deposed_history::fencing::Stamp;

use crate::{ClientFactory, Cluster, Node, Remote, RemoteError};

/// The operations a system supports or a workload requires: words of the op language.
pub type OpSet = BTreeSet<String>;

/// A replicated store: how to run it and how to talk to it.
#[async_trait]
pub trait System: Send + Sync {
    /// Its name in plans and reports.
    fn name(&self) -> &str;

    /// Which operations its clients perform.
    fn supports(&self) -> &OpSet;

    /// What must be on every node: names of programs, and the Debian packages that bring them.
    fn packages(&self) -> &BTreeMap<String, String>;

    /// Its automation.
    fn db(&self) -> &dyn Db;

    /// Its clients, which run where the controller does.
    fn clients(&self) -> &dyn ClientFactory;

    /// Its clients on the nodes they speak to, once what they need has been put there.
    async fn clients_on_nodes(
        &self,
        _cluster: &Cluster,
    ) -> Result<Box<dyn ClientFactory>, SystemError> {
        Err(SystemError::Unfit {
            system: self.name().to_owned(),
            node: "any node".into(),
            reason: "its clients run where the controller does only".into(),
        })
    }

    /// Enables a second history: what was written down where no client sees it.
    fn records(&self) -> Option<&dyn Records> {
        None
    }
}

/// Understands the records that a store, or a resource it writes to, keeps of what truly happened.
pub trait Records: Send + Sync {
    /// The events of a collected log file, all of [`deposed_history::Process::Log`]; none if the
    /// file is no record. Errs with the place of what cannot be understood.
    fn read(&self, file_name: &str, text: &str, clock: &NodeClock) -> Result<Vec<Op>, String>;
}

/// The wall clock of a node, laid beside the clock of the run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeClock {
    /// What it showed when the run began, in nanoseconds since 1970.
    pub zero_ns: i64,
    /// How far off that may be, either way.
    pub error_ns: u64,
    /// When it may have been set wrong besides.
    pub wrong: Vec<WrongTime>,
}

/// A part of a run in which the wall clock of a node may have been wrong, all the time or now and
/// then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongTime {
    /// From when, nanoseconds since the start of the run.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
    /// How far ahead it was at least: behind, if negative.
    pub ahead_min_ns: i64,
    /// How far ahead it was at most.
    pub ahead_max_ns: i64,
}

impl NodeClock {
    /// A reading of it as a moment of the run, as exactly as can be told; none if that was before
    /// the run.
    pub fn stamp(&self, wall_ns: i64) -> Option<Stamp> {
        let shown = i128::from(wall_ns) - i128::from(self.zero_ns);
        // Where it was right, and where it was wrong: whatever fits.
        let mut fits = (shown, shown);
        for wrong in &self.wrong {
            let from = (shown - i128::from(wrong.ahead_max_ns)).max(wrong.from_ns.into());
            let to = (shown - i128::from(wrong.ahead_min_ns)).min(wrong.to_ns.into());
            if from <= to {
                fits = (fits.0.min(from), fits.1.max(to));
            }
        }
        let latest = u64::try_from(fits.1).ok()?;
        let earliest = u64::try_from(fits.0).unwrap_or(0);
        let half = (latest - earliest).div_ceil(2);
        Some(Stamp { at_ns: earliest + half, error_ns: self.error_ns.saturating_add(half) })
    }
}

/// Why a system could not be brought where it should be.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SystemError {
    /// A command on a node failed.
    #[error("{system}: {action}: {source}")]
    Remote {
        /// The system.
        system: String,
        /// What was attempted: `install`, `start`, `stop`, ...
        action: &'static str,
        /// What happened.
        #[source]
        source: RemoteError,
    },
    /// It did not become ready in time.
    #[error("{system} on {node} was not ready within {within:?}: {last}")]
    NotReady {
        /// The system.
        system: String,
        /// The node.
        node: String,
        /// The limit.
        within: std::time::Duration,
        /// What the last try said.
        last: String,
    },
    /// Anything else that makes this system impossible on this cluster: a port already taken, a
    /// package missing. Says how to mend it.
    #[error("{system} on {node}: {reason}")]
    Unfit {
        /// The system.
        system: String,
        /// The node.
        node: String,
        /// What is wrong and what to do.
        reason: String,
    },
}

/// A log file to collect from a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// Its path on the node.
    pub path: String,
    /// Its name in the run folder, below `nodes/<node>/`.
    pub name: String,
}

/// The life of a store on a node. Every method may be called on all nodes in parallel.
#[async_trait]
pub trait Db: Send + Sync {
    /// Makes sure the software is on the node: packages, uploads. Names the packages that were not
    /// there before: they stay.
    async fn install(
        &self,
        cluster: &Cluster,
        remote: &dyn Remote,
    ) -> Result<Vec<String>, SystemError>;

    /// Configures and starts it with empty data. [`Db::teardown`] has run before.
    async fn setup(&self, cluster: &Cluster, remote: &dyn Remote) -> Result<(), SystemError>;

    /// Waits until it serves, within its own limit.
    async fn ready(&self, cluster: &Cluster, remote: &dyn Remote) -> Result<(), SystemError>;

    /// Stops it and removes its data. Idempotent: it also runs first, on a node of unknown state.
    async fn teardown(&self, cluster: &Cluster, remote: &dyn Remote) -> Result<(), SystemError>;

    /// Its log files as they are on the node now.
    async fn log_files(&self, remote: &dyn Remote) -> Result<Vec<LogFile>, SystemError>;

    /// Regular expressions that mark a crash in its logs.
    fn crash_patterns(&self) -> Vec<String>;

    /// Enables kill and pause.
    fn processes(&self) -> Option<&dyn ProcessControl> {
        None
    }

    /// Enables `primaries` as a target.
    fn primaries(&self) -> Option<&dyn Primaries> {
        None
    }
}

/// A process on a node: a pid means nothing without its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Process {
    /// Its pid in the node's own pid namespace.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`: clock ticks since boot.
    pub start_ticks: u64,
}

/// Finds the processes of the store on a node and starts it again.
#[async_trait]
pub trait ProcessControl: Send + Sync {
    /// The running processes of the store, leaders of process groups first.
    async fn processes(&self, remote: &dyn Remote) -> Result<Vec<Process>, SystemError>;

    /// Starts the store again on the data it has, after a kill. Does nothing if it runs.
    async fn start(&self, cluster: &Cluster, remote: &dyn Remote) -> Result<(), SystemError>;

    /// What [`ProcessControl::start`] does, as one idempotent shell script that needs nobody: a
    /// node whose controller is gone starts its store again with it.
    fn start_script(&self, _cluster: &Cluster, _node: &Node) -> Option<String> {
        None
    }

    /// Whether the first of its processes on a node only supervises the others: enables faults of that
    /// process alone.
    fn is_supervised(&self) -> bool {
        false
    }

    /// Kills every process of the store on a node and returns when they are gone, as one idempotent
    /// shell script that needs nobody: enables faults for which the store has to be down.
    fn stop_script(&self, _node: &Node) -> Option<String> {
        None
    }

    /// Succeeds if the store runs on a node, as one shell script that needs nobody.
    fn runs_script(&self, _node: &Node) -> Option<String> {
        None
    }

    /// The directory of a node that holds the store's data: enables faults of its disk.
    fn data(&self, _node: &Node) -> Option<String> {
        None
    }
}

/// Knows who leads.
#[async_trait]
pub trait Primaries: Send + Sync {
    /// The nodes that claim to lead, as far as they can be asked within a second or two.
    async fn primaries(&self, cluster: &Cluster) -> Result<Vec<Node>, SystemError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading that a clock can have shown at two times is of both, with all between them; others
    /// are as exact as ever.
    #[test]
    fn readings_of_a_wrong_clock() {
        let wrong = WrongTime { from_ns: 100, to_ns: 200, ahead_min_ns: 0, ahead_max_ns: 50 };
        let clock = NodeClock { zero_ns: 1_000, error_ns: 7, wrong: vec![wrong] };
        let bounds = |wall_ns| {
            let stamp = clock.stamp(wall_ns).unwrap();
            (stamp.earliest_ns() + 7, stamp.latest_ns() - 7)
        };
        assert_eq!(bounds(1_090), (90, 90), "before it was set");
        assert_eq!(bounds(1_120), (100, 120), "just after, or 20 before");
        assert_eq!(bounds(1_180), (130, 180));
        assert_eq!(bounds(1_230), (180, 230), "just before it was put right, or after that");
        assert_eq!(bounds(1_260), (260, 260));

        let back = WrongTime { ahead_min_ns: -500, ahead_max_ns: -500, ..wrong };
        let clock = NodeClock { wrong: vec![back], ..clock };
        let stamp = clock.stamp(650).unwrap();
        assert_eq!((stamp.at_ns, stamp.error_ns), (75, 82), "what seems to be before the run");
        assert_eq!(clock.stamp(400), None);
    }
}
