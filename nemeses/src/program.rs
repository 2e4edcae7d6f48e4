//! The agent's program as it is carried to nodes, and where it lies there.

/// A static program: it needs nothing on the node.
pub(crate) static BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/deposed-agent"));

/// The machine it is for, as `uname -m` names it.
pub(crate) const ARCH: &str = env!("AGENT_ARCH");

/// Its place on a node, named after its contents. Not below `/run`: programs there may not run.
pub(crate) const PATH: &str = concat!("/var/lib/deposed-agent/agent-", env!("AGENT_HASH"));
