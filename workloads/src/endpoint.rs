//! The clients' side of a store on one node.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deposed_core::{Client, ClientError, NodeClock};
use deposed_history::Op;

/// Makes clients that talk to exactly one node.
#[async_trait]
pub(crate) trait Endpoint: Send + Sync {
    /// Connects a client for a process.
    async fn connect(&self, process: u32) -> Result<Box<dyn Client>, ClientError>;

    /// Enables `ready = { client = true }` and `primaries = { client = true }`.
    fn probe(&self) -> Option<&dyn Probe> {
        None
    }
}

/// What a built-in client can tell of its node besides performing operations.
#[async_trait]
pub(crate) trait Probe: Send + Sync {
    /// Errs with the reason why it does not serve yet.
    async fn serves(&self) -> Result<(), String>;

    /// Whether the node claims to lead, or why it could not be asked.
    async fn leads(&self) -> Result<bool, String>;
}

/// What a built-in client is made from.
#[derive(Debug, Clone)]
pub(crate) struct EndpointPlan {
    /// Where it connects.
    pub(crate) addr: SocketAddr,
    /// The `[client.settings]`, rendered.
    pub(crate) settings: BTreeMap<String, String>,
    /// How long an operation may take before the client answers for itself.
    pub(crate) op_limit: Duration,
}

impl EndpointPlan {
    /// The value of a setting that must be one of a few words.
    pub(crate) fn choice<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<T, String> {
        let all = || words.iter().map(|w| w.0).collect::<Vec<_>>().join(" or ");
        let value = self
            .settings
            .get(name)
            .ok_or_else(|| format!("needs the setting `{name}`: {}", all()))?;
        words
            .iter()
            .find(|(word, _)| word == value)
            .map(|(_, choice)| *choice)
            .ok_or_else(|| format!("setting `{name}` is `{value}`, but must be {}", all()))
    }
}

/// The events of a collected file: name, text, clock of its node.
pub(crate) type ReadRecords = fn(&str, &str, &NodeClock) -> Result<Vec<Op>, String>;

/// A client built into deposed, as `client.kind` names it.
pub(crate) struct ClientKind {
    /// Its name.
    pub(crate) name: &'static str,
    /// The operations it performs.
    pub(crate) supports: &'static [&'static str],
    /// The settings it knows.
    pub(crate) settings: &'static [&'static str],
    /// Makes the endpoint of one node, without connecting, or says which setting is wrong.
    pub(crate) endpoint: fn(EndpointPlan) -> Result<Arc<dyn Endpoint>, String>,
    /// Understands what its store writes down, as [`deposed_core::Records`] does.
    pub(crate) records: Option<ReadRecords>,
}
