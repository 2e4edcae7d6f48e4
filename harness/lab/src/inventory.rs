//! The files by which anything that speaks SSH finds the nodes: `cluster.toml` and `known_hosts`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::LabError;

/// A cluster inventory, as `--nodes-file` reads it.
#[derive(Debug, Serialize)]
pub(crate) struct Inventory {
    /// Login.
    pub(crate) user: String,
    /// SSH port.
    pub(crate) port: u16,
    /// Private key file.
    pub(crate) key: PathBuf,
    /// Known hosts file; it lists every node under all its names.
    pub(crate) known_hosts: PathBuf,
    /// The socket of who holds the nodes' machines.
    pub(crate) warden: PathBuf,
    /// The nodes, in order.
    pub(crate) nodes: Vec<InventoryNode>,
}

/// One node of an [`Inventory`].
#[derive(Debug, Serialize)]
pub(crate) struct InventoryNode {
    /// Its name.
    pub(crate) name: String,
    /// Its address.
    pub(crate) addr: Ipv4Addr,
}

impl Inventory {
    /// Writes it as TOML.
    pub(crate) fn write(&self, path: &Path) -> Result<(), LabError> {
        let text = toml::to_string(self)
            .map_err(|error| LabError::Spec(format!("cannot write the inventory: {error}")))?;
        std::fs::write(path, text).map_err(|error| LabError::path("write", path, error))
    }
}

/// A node's line of `known_hosts`.
pub(crate) fn known_host(name: &str, v4: Ipv4Addr, v6: Ipv6Addr, public_key: &str) -> String {
    let key: Vec<&str> = public_key.split_whitespace().take(2).collect();
    format!("{name},{v4},{v6} {}\n", key.join(" "))
}
