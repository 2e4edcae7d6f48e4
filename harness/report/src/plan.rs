//! What a run set out to do: the content of `plan.json`, written before anything is touched.
//!
//! A plan is complete: with it and the same cluster the run can be repeated. What only the nodes
//! can tell ([`Environment`]) is added once they have been asked, and ignored on a repeat.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use deposed_checkers::Claims;
use serde::{Deserialize, Serialize};

/// The schema of `plan.json` that this build writes.
pub const PLAN_SCHEMA: u32 = 1;

/// Everything that was decided before the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The schema of this file.
    pub schema: u32,
    /// The run's id, short hex: the end of its folder's name.
    pub id: String,
    /// When it was planned; the run starts a moment later.
    pub created: DateTime<Utc>,
    /// The version of deposed that planned it.
    pub deposed: String,
    /// The command line, program name first.
    pub argv: Vec<String>,
    /// Steers every choice of generators and faults. It does not steer interleavings.
    pub seed: u64,
    /// The store under test.
    pub system: SystemPlan,
    /// What clients do.
    pub workload: WorkloadPlan,
    /// How the cluster is hurt.
    pub faults: FaultPlan,
    /// The cluster.
    pub cluster: ClusterPlan,
    /// How hard clients push.
    pub load: Load,
    /// What may not be exceeded.
    pub limits: Limits,
    /// The checkers that judge the history, in order.
    pub checkers: Vec<String>,
    /// What the machines said of themselves; absent until they were asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
}

/// The store under test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SystemPlan {
    /// Its name: `etcd`.
    pub name: String,
    /// The version asked for, if one was; the one found is in [`Environment::system_version`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Options of the system and its client: `read = serializable`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// What its vendor promises, quoted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
    /// What holds with these options, as checkers of failover take it; absent: everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantees: Option<Claims>,
}

/// A promise of a vendor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The checker whose property is promised; absent if it is about the store in general.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checker: Option<String>,
    /// The words, as published.
    pub quote: String,
    /// Where they were published.
    pub source: String,
}

/// What clients do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadPlan {
    /// Its name: `register`.
    pub name: String,
    /// Its options: `keys = 40`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// How the cluster is hurt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FaultPlan {
    /// One entry for each lane, as the user wrote it: `partition`, `kill:primaries`.
    pub lanes: Vec<String>,
    /// Mean time from the start of one injection of a lane to the next.
    pub interval_ms: u64,
    /// Other options of the schedule and of the faults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// The schedule of an earlier run that is repeated, instead of drawing one from the seed: a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// How often each fault must be proven for the run to count as a test.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub required: BTreeMap<String, u64>,
}

/// The cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterPlan {
    /// What it is: `embedded lab`, or the inventory it was read from.
    pub origin: String,
    /// Its nodes, in the order of the inventory.
    pub nodes: Vec<PlannedNode>,
}

/// One node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedNode {
    /// Its name: `n1`.
    pub name: String,
    /// Its address, as others reach it.
    pub addr: String,
}

/// How hard clients push.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Logical clients at any one time.
    pub concurrency: u32,
    /// Whether they run on the nodes they speak to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_nodes: bool,
    /// Operations per second over all clients; absent: as fast as they are answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

/// What may not be exceeded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// How long clients and faults are active.
    pub time_ms: u64,
    /// How long one operation may take before it is indeterminate.
    pub op_ms: u64,
    /// Time budget of each checker.
    pub check_ms: u64,
    /// Memory budget of each checker, in bytes.
    pub check_memory_bytes: u64,
}

/// What the machines said of themselves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The version of the store that was found running, e.g. `3.4.23`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_version: Option<String>,
    /// The controller.
    pub controller: Host,
    /// Each node, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, Host>,
}

/// A machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// `uname -sr`.
    pub kernel: String,
    /// The distribution and its release.
    pub os: String,
    /// Packages that matter to the run and their versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
}

impl Plan {
    /// The version of the store: the one found running, else the one asked for.
    pub fn system_version(&self) -> Option<&str> {
        let found = self.environment.as_ref().and_then(|e| e.system_version.as_deref());
        found.or(self.system.version.as_deref())
    }

    /// What the vendor promises of a checker's property, or in general.
    pub(crate) fn claims<'p>(&'p self, checker: &'p str) -> impl Iterator<Item = &'p Claim> {
        self.system
            .claims
            .iter()
            .filter(move |claim| claim.checker.as_deref().is_none_or(|about| about == checker))
    }

    /// The workload and its faults, as in the run folder's path: `register+partition+kill`.
    pub fn cell(&self) -> String {
        let mut cell = self.workload.name.clone();
        for lane in &self.faults.lanes {
            cell.push('+');
            cell.push_str(lane);
        }
        cell
    }
}
