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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeClock {
    /// What it showed when the run began, in nanoseconds since 1970.
    pub zero_ns: i64,
    /// How far off that may be, either way.
    pub error_ns: u64,
}

impl NodeClock {
    /// A reading of it as a moment of the run; none if that was before the run.
    pub fn stamp(&self, wall_ns: i64) -> Option<Stamp> {
        let at_ns = u64::try_from(wall_ns - self.zero_ns).ok()?;
        Some(Stamp { at_ns, error_ns: self.error_ns })
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
