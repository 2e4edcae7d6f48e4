//! What to do and which checkers judge it: workloads, store clients and bundled systems.

mod workload;

pub use workload::{Generators, Workload, WorkloadOptions};
