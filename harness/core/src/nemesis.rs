//! A kind of fault.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
pub use deposed_history::Effect;
use serde::{Deserialize, Serialize};

use crate::{Cluster, RemoteError, System, SystemError, WardenError};

/// What was seen of a fault or of its healing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The conclusion.
    pub effect: Effect,
    /// For people, with figures: `1,204 packets dropped`, `state T`, `all pairs reachable`.
    pub summary: String,
    /// For machines: the figures by node.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub figures: serde_json::Value,
}

/// What a fault may use.
#[derive(Clone)]
pub struct FaultContext {
    /// The nodes.
    pub cluster: Cluster,
    /// The system under test.
    pub system: Arc<dyn System>,
    /// The nodes whose machine shares its clock with nobody, as the user says: there it may be set.
    pub own_clocks: BTreeSet<String>,
}

/// What was chosen for one injection, as data: recorded before anything is touched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The nodes it touches, by name, sorted.
    pub nodes: Vec<String>,
    /// Everything the fault needs to apply and undo it, in its own shape: a grudge, pids.
    pub what: serde_json::Value,
}

/// Why a fault could not be injected or healed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FaultError {
    /// A command on a node failed.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The system could not be asked or started.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A machine could not be held, or not be looked at.
    #[error(transparent)]
    Warden(#[from] WardenError),
    /// There is nothing to hit just now; says what was looked for.
    #[error("nothing to hit: {0}")]
    Nothing(String),
    /// The run is over and the fault was not seen to be gone.
    #[error(
        "{fault} may still be in force on {nodes}; the nodes undo it by themselves when their lease \
         runs out, and `deposed heal` does it now"
    )]
    InForce {
        /// The name of the injection.
        fault: String,
        /// Where, by name.
        nodes: String,
    },
    /// The fault makes no sense on this cluster or system; says why and what would mend it.
    #[error("{0}")]
    Unsupported(String),
}

/// One kind of fault. It is injected, held, proven, and healed by its lane; at most one injection
/// of a lane is in force at a time. After a successful [`Nemesis::choose`], [`Nemesis::heal`] is
/// always called, even if nothing was applied.
#[async_trait]
pub trait Nemesis: Send {
    /// Its name: `partition`, `kill`, `pause`.
    fn fault(&self) -> &str;

    /// Looks once, before the system is set up, at what it will need on the nodes, and refuses with
    /// [`FaultError::Unsupported`] where it cannot work.
    async fn prepare(&mut self, _cx: &FaultContext) -> Result<(), FaultError> {
        Ok(())
    }

    /// Looks once, when the system serves and before any fault is in force, at what its evidence will
    /// be compared with.
    async fn baseline(&mut self, _cx: &FaultContext) -> Result<(), FaultError> {
        Ok(())
    }

    /// The next thing to do, chosen from the seed and the state of the cluster. Touches nothing.
    async fn choose(
        &mut self,
        cx: &FaultContext,
        rng: &mut rand_chacha::ChaCha8Rng,
    ) -> Result<Choice, FaultError>;

    /// Chooses what an earlier injection chose, for a run that repeats another. The nodes are the
    /// same; what was only true then, such as process ids, is looked up anew, and what a choice takes
    /// for itself is taken.
    async fn repeat(&mut self, cx: &FaultContext, earlier: &Choice) -> Result<Choice, FaultError>;

    /// How to undo `choice`: idempotent shell scripts, by node, for what the nodes do not record by
    /// themselves before they apply it. Recorded before the fault is applied, so that it can be undone
    /// without this process.
    fn undo(&self, cx: &FaultContext, choice: &Choice) -> Vec<(String, String)>;

    /// Applies it on all its nodes in parallel, under a name that is unique among the injections of a
    /// run and safe for a file: `partition-3`. Each node undoes it by itself when it hears nothing of
    /// this process for the time of its lease.
    async fn inject(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<(), FaultError>;

    /// Says what can be seen of it. Called just after injecting and again just before healing;
    /// the later counts.
    async fn evidence(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError>;

    /// Undoes it and says what can be seen of that. Idempotent.
    async fn heal(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError>;
}
