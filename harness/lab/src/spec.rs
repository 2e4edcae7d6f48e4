//! What a lab should be.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::address::MAX_NODES;
use crate::error::LabError;

/// Where a node's second disk is mounted: for store data. It can be filled, cut off and wiped by itself.
pub const DATA_DIR: &str = "/var/lib/deposed";

/// The block device of that disk, inside the node. An open handle keeps it while it is unmounted.
pub const DATA_DEVICE: &str = "/dev/deposed-data";

/// What a lab should be. [`Default`] is five nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabSpec {
    /// How many nodes, 1 to [`MAX_NODES`].
    pub nodes: u8,
    /// Where keys, inventory and node logs go. `None`: a directory that only this process sees and that ends
    /// with it.
    pub directory: Option<PathBuf>,
    /// Where disk images are made. They are sparse and unlinked at once, so they too end with the lab.
    pub image_directory: PathBuf,
    /// Size of a node's root disk (what it may write outside [`DATA_DIR`]), in MiB.
    pub root_mib: u64,
    /// Size of a node's data disk, in MiB.
    pub data_mib: u64,
    /// Directories of the host to hide from nodes, beyond everything at the top level that is not part of the
    /// operating system (home directories, `/srv`, `/mnt`, a project's own tree …), which always is.
    pub hidden: Vec<PathBuf>,
    /// Logins beside root's, for tests of how a controller becomes root.
    pub logins: Vec<Login>,
    /// The program that plays the parts of the lab; it must call [`crate::play_role`].
    pub program: PathBuf,
}

/// A login beside root's, by the lab's key and, if it has one, by password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// Its name.
    pub name: String,
    /// Its password, for SSH and sudo.
    pub password: Option<String>,
    /// What it may do through sudo.
    pub sudo: Sudo,
}

/// What a login may do through sudo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sudo {
    /// Nothing.
    No,
    /// Everything, without a password.
    Free,
    /// Everything, with its password.
    Password,
}

impl Default for LabSpec {
    fn default() -> LabSpec {
        LabSpec {
            nodes: 5,
            directory: None,
            image_directory: PathBuf::from("/var/tmp"),
            root_mib: 4096,
            data_mib: 1024,
            hidden: Vec::new(),
            logins: Vec::new(),
            program: Path::new("/proc/self/exe").into(),
        }
    }
}

impl LabSpec {
    /// Refuses what cannot be.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        if self.nodes == 0 || self.nodes > MAX_NODES {
            return Err(LabError::Spec(format!(
                "a lab has 1 to {MAX_NODES} nodes, not {}",
                self.nodes
            )));
        }
        for login in &self.logins {
            let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            if login.name.is_empty() || !login.name.chars().all(fine) || login.name == "root" {
                return Err(LabError::Spec(format!(
                    "{:?} cannot be a login of the lab: lower-case letters and digits, not root",
                    login.name
                )));
            }
            if login.sudo == Sudo::Password && login.password.is_none() {
                return Err(LabError::Spec(format!(
                    "login {} is to sudo with a password but has none",
                    login.name
                )));
            }
        }
        Ok(())
    }
}
