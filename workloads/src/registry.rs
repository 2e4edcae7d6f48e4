//! What is bundled. Adding a system, a client or a workload is a new file and one line here.

use crate::endpoint::ClientKind;
use crate::{SystemSummary, Workload, describe_system, etcd, register};

/// Bundled systems: name and `system.toml`.
pub(crate) static BUNDLED: &[(&str, &str)] = &[("etcd", include_str!("../systems/etcd.toml"))];

/// Clients built in.
pub(crate) static CLIENT_KINDS: &[ClientKind] = &[etcd::KIND];

/// Every bundled system.
pub fn systems() -> Vec<SystemSummary> {
    let describe = |name| describe_system(name).expect("bundled systems are tested to load");
    BUNDLED.iter().map(|(name, _)| describe(name)).collect()
}

/// Every workload.
pub fn workloads() -> Vec<Box<dyn Workload>> {
    vec![Box::new(register::Register)]
}

/// The workload of a name.
pub fn workload(name: &str) -> Option<Box<dyn Workload>> {
    workloads().into_iter().find(|workload| workload.name() == name)
}
