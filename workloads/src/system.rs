//! A system described by a `system.toml`, ready to be run.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use deposed_checkers::Claims;
use deposed_core::{
    Client, ClientError, ClientFactory, Cluster, Db, Node, NodeClock, OpSet, Records, System,
    SystemError,
};
use deposed_history::Op;

use crate::blueprint::Blueprint;
use crate::endpoint::{Endpoint, ReadRecords};
use crate::on_nodes::{OnNode, OnNodes};

/// A choice that a system offers, for `deposed list` and the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemOption {
    /// What it decides.
    pub about: String,
    /// Its value unless the user says otherwise.
    pub default: String,
    /// The only values it may have; empty: any.
    pub values: Vec<String>,
}

/// What is known of a system without a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemSummary {
    /// Its name.
    pub name: String,
    /// What it is, in one line.
    pub about: String,
    /// The operations its clients perform.
    pub supports: OpSet,
    /// Names of programs every node needs, and the Debian packages that bring them.
    pub packages: BTreeMap<String, String>,
    /// What the vendor promises, by topic.
    pub claims: BTreeMap<String, String>,
    /// What a user may choose.
    pub options: BTreeMap<String, SystemOption>,
}

/// A [`System`] made from a file.
pub struct DescribedSystem {
    pub(crate) summary: SystemSummary,
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) crash: Vec<String>,
    pub(crate) install: bool,
    pub(crate) parts: Vec<NodePart>,
    pub(crate) records: Option<ReadRecords>,
    pub(crate) guarantees: Claims,
}

/// One node's part of a system.
pub(crate) struct NodePart {
    pub(crate) blueprint: Blueprint,
    pub(crate) endpoint: Arc<dyn Endpoint>,
    /// How its clients are made on it, if they can be.
    pub(crate) on_node: Option<OnNode>,
}

impl DescribedSystem {
    /// What it is.
    pub const fn summary(&self) -> &SystemSummary {
        &self.summary
    }

    /// The options in force, defaults included: part of the plan.
    pub const fn options(&self) -> &BTreeMap<String, String> {
        &self.options
    }

    /// What holds with these options: what breaks it is a violation.
    pub const fn guarantees(&self) -> &Claims {
        &self.guarantees
    }

    pub(crate) fn part(&self, node: &str) -> Option<&NodePart> {
        self.parts.iter().find(|part| &*part.blueprint.node.name == node)
    }
}

#[async_trait]
impl System for DescribedSystem {
    fn name(&self) -> &str {
        &self.summary.name
    }

    fn supports(&self) -> &OpSet {
        &self.summary.supports
    }

    fn packages(&self) -> &BTreeMap<String, String> {
        &self.summary.packages
    }

    fn db(&self) -> &dyn Db {
        self
    }

    fn clients(&self) -> &dyn ClientFactory {
        self
    }

    async fn clients_on_nodes(
        &self,
        cluster: &Cluster,
    ) -> Result<Box<dyn ClientFactory>, SystemError> {
        Ok(Box::new(OnNodes::install(self, cluster).await?))
    }

    fn records(&self) -> Option<&dyn Records> {
        self.records.is_some().then_some(self)
    }
}

impl Records for DescribedSystem {
    fn read(&self, file_name: &str, text: &str, clock: &NodeClock) -> Result<Vec<Op>, String> {
        self.records.map_or(Ok(Vec::new()), |read| read(file_name, text, clock))
    }
}

#[async_trait]
impl ClientFactory for DescribedSystem {
    async fn connect(&self, node: &Node, process: u32) -> Result<Box<dyn Client>, ClientError> {
        let part = self.part(&node.name).ok_or_else(|| {
            ClientError::Definite(format!("{} was not loaded for node {}", self.name(), node.name))
        })?;
        part.endpoint.connect(process).await
    }
}
