//! What is bundled. Adding a system, a client or a workload is a new file and one line here.

use crate::endpoint::ClientKind;
use crate::{
    FailoverLog, FencedRegister, LeaseExpiries, Lock, SystemSummary, Workload, describe_system,
    etcd, redis, register, standby,
};

/// Bundled systems: name and `system.toml`.
pub(crate) static BUNDLED: &[(&str, &str)] = &[
    ("etcd", include_str!("../systems/etcd.toml")),
    ("redis-sentinel", include_str!("../systems/redis-sentinel.toml")),
    ("standby", include_str!("../systems/standby.toml")),
];

/// Clients built in.
pub(crate) static CLIENT_KINDS: &[ClientKind] = &[etcd::KIND, redis::KIND, standby::KIND];

/// Every bundled system.
pub fn systems() -> Vec<SystemSummary> {
    let describe = |name| describe_system(name).expect("bundled systems are tested to load");
    BUNDLED.iter().map(|(name, _)| describe(name)).collect()
}

/// Every workload.
pub fn workloads() -> Vec<Box<dyn Workload>> {
    vec![
        Box::new(register::Register),
        Box::new(FencedRegister::VOLUME),
        Box::new(FencedRegister::EXTERNAL),
        Box::new(FailoverLog::DURABILITY),
        Box::new(FailoverLog::READS),
        Box::new(Lock),
        Box::new(LeaseExpiries),
    ]
}

/// The workload of a name.
pub fn workload(name: &str) -> Option<Box<dyn Workload>> {
    workloads().into_iter().find(|workload| workload.name() == name)
}
