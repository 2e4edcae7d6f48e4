//! The nodes of a cluster and the way in to each: from a `cluster.toml`, from flags, or both.
//!
//! Everything is resolved here, and every mistake told at once, before anything is touched. No
//! connection is made here.

mod args;
mod cluster_file;
pub(crate) mod host_pattern;
mod node_spec;
mod node_word;
mod resolve;
mod secret;
mod settings;
mod ssh_config;
mod surroundings;

pub use args::ClusterArgs;
pub use node_spec::{ClockOwner, HostKeyPolicy, NodeSpec, Sudo};
pub use secret::{NotASource, Secret, SecretSource};
pub use surroundings::{Ask, Lookup, Surroundings};

use std::path::PathBuf;

use resolve::Resolver;
use settings::{NodeEntry, Settings};
use ssh_config::SshConfig;

/// The nodes of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Inventory {
    /// In the order of the file or the flags; names and addresses are distinct.
    pub nodes: Vec<NodeSpec>,
    /// What was passed over in the user's OpenSSH configuration, a sentence each.
    pub notes: Vec<String>,
}

/// Every mistake in an inventory, each with its place and how to mend it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the cluster cannot be used:\n  {}", .mistakes.join("\n  "))]
pub struct InventoryError {
    /// A sentence each.
    pub mistakes: Vec<String>,
}

/// What the flags and files say, before it is resolved.
#[derive(Debug, Default)]
struct Sources {
    flags: Settings,
    defaults: Settings,
    nodes: Vec<NodeEntry>,
    ssh_config: Option<PathBuf>,
    mistakes: Vec<String>,
}

impl Inventory {
    fn resolve(sources: Sources, around: &Surroundings) -> Result<Self, InventoryError> {
        let Sources { flags, defaults, nodes, ssh_config, mut mistakes } = sources;
        let ssh_config = match ssh_config.map(|file| SshConfig::read(&file, &around.home)) {
            Some(Ok(config)) => config,
            Some(Err(mistake)) => {
                mistakes.push(mistake);
                SshConfig::default()
            }
            None => SshConfig::default(),
        };
        let notes = ssh_config.notes.clone();
        let secrets = Default::default();
        let mut resolver =
            Resolver { flags, defaults, ssh_config, around, mistakes, notes, secrets };
        let nodes = resolver.nodes(nodes);
        // A node that is named twice is mistaken twice in the same words.
        resolver.mistakes.dedup();
        if resolver.mistakes.is_empty() {
            Ok(Self { nodes, notes: resolver.notes })
        } else {
            Err(InventoryError { mistakes: resolver.mistakes })
        }
    }
}

#[cfg(test)]
mod tests;
