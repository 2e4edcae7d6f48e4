//! The nodes of a cluster and the way to reach each.

use std::net::IpAddr;
use std::sync::Arc;

use crate::Remote;

/// One machine of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Node {
    /// Its name in plans, histories and reports: `n1`.
    pub name: Arc<str>,
    /// The address other nodes and clients reach it by. IPv4 or IPv6.
    pub addr: IpAddr,
}

/// Every node with its remote, in the order of the inventory.
#[derive(Clone)]
pub struct Cluster {
    remotes: Arc<[Arc<dyn Remote>]>,
}

impl Cluster {
    /// A cluster of connected nodes.
    pub fn new(remotes: Vec<Arc<dyn Remote>>) -> Self {
        Self { remotes: remotes.into() }
    }

    /// The remotes, in order.
    pub fn remotes(&self) -> &[Arc<dyn Remote>] {
        &self.remotes
    }

    /// The nodes, in order.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Node> {
        self.remotes.iter().map(|remote| remote.node())
    }

    /// The remote of a node, by name.
    pub fn remote(&self, name: &str) -> Option<&Arc<dyn Remote>> {
        self.remotes.iter().find(|remote| &*remote.node().name == name)
    }
}
