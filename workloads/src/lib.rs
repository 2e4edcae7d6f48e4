//! What to do and which checkers judge it: workloads, store clients and bundled systems.
//!
//! A store is described by a `system.toml` ([`load_system`]) and spoken to by a client built in
//! here or by a program of the user's. Nothing outside this crate knows a store's name.

mod blueprint;
mod daemon;
mod db;
mod endpoint;
mod etcd;
mod failover_log;
mod fenced_register;
mod grpc;
mod guarantees;
mod install;
mod json;
mod last_reads;
mod lease_expiry;
mod load;
mod lock;
mod mistakes;
mod on_nodes;
mod program;
mod protections;
mod redis;
mod register;
mod registry;
mod standby;
mod stdio;
mod system;
mod system_file;
mod template;
mod workload;

pub use failover_log::FailoverLog;
pub use fenced_register::FencedRegister;
pub use lease_expiry::LeaseExpiries;
pub use load::{LoadError, SystemOptions, describe_system, load_system};
pub use lock::Lock;
pub use on_nodes::serve_client;
pub use protections::{Expected, Protection, protections};
pub use register::Register;
pub use registry::{systems, workload, workloads};
pub use system::{DescribedSystem, SystemOption, SystemSummary};
pub use workload::{Generators, Workload, WorkloadOptions};
