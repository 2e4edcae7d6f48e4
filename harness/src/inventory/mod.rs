//! The nodes of a cluster and the way in to each: from a `cluster.toml`, from flags, or both.
//!
//! Everything is resolved here, and every mistake told at once, before anything is touched. No
//! connection is made here.

pub(crate) mod host_pattern;
mod node_spec;
mod secret;

pub use node_spec::{HostKeyPolicy, NodeSpec, Sudo};
pub use secret::Secret;
