//! A kind of fault.

use std::sync::Arc;

use async_trait::async_trait;
pub use deposed_history::Effect;
use serde::{Deserialize, Serialize};

use crate::{Cluster, RemoteError, System, SystemError};

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
    /// The fault makes no sense here; says why.
    #[error("{0}")]
    Unsupported(String),
}

/// One kind of fault. It is injected, held, proven, and healed by its lane; at most one injection
/// of a lane is in force at a time.
#[async_trait]
pub trait Nemesis: Send {
    /// Its name: `partition`, `kill`, `pause`.
    fn fault(&self) -> &str;

    /// The next thing to do, chosen from the seed and the state of the cluster, as data: which
    /// nodes, which grudge. Recorded before anything is touched.
    async fn choose(
        &mut self,
        cx: &FaultContext,
        rng: &mut rand_chacha::ChaCha8Rng,
    ) -> Result<serde_json::Value, FaultError>;

    /// How to undo `choice`, as one idempotent shell script for each node it touches. Recorded
    /// before the fault is applied, so that `deposed heal` can run it without this process.
    fn undo(&self, cx: &FaultContext, choice: &serde_json::Value) -> Vec<(String, String)>;

    /// Applies it.
    async fn inject(
        &mut self,
        cx: &FaultContext,
        choice: &serde_json::Value,
    ) -> Result<(), FaultError>;

    /// Says what can be seen of it. Called just after injecting and again just before healing;
    /// the later, if proven, counts.
    async fn evidence(
        &mut self,
        cx: &FaultContext,
        choice: &serde_json::Value,
    ) -> Result<Evidence, FaultError>;

    /// Undoes it and says what can be seen of that.
    async fn heal(
        &mut self,
        cx: &FaultContext,
        choice: &serde_json::Value,
    ) -> Result<Evidence, FaultError>;
}
