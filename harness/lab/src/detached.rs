//! Labs that outlive the command that made them.
//!
//! Such a lab is an ephemeral one, owned by a process in the background. Under [`DIRECTORY`] it has a directory of
//! its name, with its keys, `cluster.toml`, logs, and `lab.json`: who its processes are. To take it down is to
//! kill that process; nodes, links, mounts and disks follow, as they do after a crash.

mod lifecycle;
mod visit;

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, setns};
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::process::Process;

pub(crate) use lifecycle::play_hub;
pub use lifecycle::{down, up};
pub use visit::{exec, ssh};

/// Where detached labs are found.
pub const DIRECTORY: &str = "/run/deposed/labs";

/// Name of a lab for which no other was asked.
pub const DEFAULT_NAME: &str = "default";

/// Tells a command run by [`exec`] where the inventory is.
pub const CLUSTER_VARIABLE: &str = "DEPOSED_CLUSTER";

/// Longest name of a lab.
const NAME_MAX: usize = 32;

/// What is known of a detached lab.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DetachedLab {
    /// Its name.
    pub name: String,
    hub: Process,
    nodes: Vec<DetachedNode>,
}

/// A node of a [`DetachedLab`].
#[derive(Debug, Clone, Serialize, Deserialize)]
struct DetachedNode {
    name: String,
    v4: Ipv4Addr,
    /// `None` if it had no power when this was written.
    init: Option<Process>,
}

impl DetachedNode {
    fn is_up(&self) -> bool {
        self.init.as_ref().is_some_and(Process::alive)
    }
}

/// How a detached lab is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Every process is there.
    Up,
    /// It is being brought up.
    Starting,
    /// Its hub is there, but some node has died, or has no power just now.
    Degraded,
    /// Its hub is gone: `down` clears what is left.
    Crashed,
}

impl DetachedLab {
    /// How it is doing.
    pub fn health(&self) -> Health {
        if !self.hub.alive() {
            Health::Crashed
        } else if self.nodes.is_empty() {
            Health::Starting
        } else if self.nodes.iter().all(DetachedNode::is_up) {
            Health::Up
        } else {
            Health::Degraded
        }
    }

    /// Its nodes: name, address, process number of its init, and whether that lives.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, Ipv4Addr, i32, bool)> {
        self.nodes.iter().map(|node| {
            let pid = node.init.as_ref().map_or(0, |init| init.pid);
            (&*node.name, node.v4, pid, node.is_up())
        })
    }

    /// The inventory: what `--nodes-file` takes.
    pub fn nodes_file(&self) -> PathBuf {
        self.directory().join("cluster.toml")
    }

    /// The directory of keys, inventory and logs.
    pub fn directory(&self) -> PathBuf {
        Path::new(DIRECTORY).join(&self.name)
    }

    /// Moves this thread, and those that it will start, into the lab's network.
    pub fn enter(&self) -> Result<(), LabError> {
        if !self.hub.alive() {
            return Err(LabError::Crashed { name: self.name.clone() });
        }
        let path = format!("/proc/{}/ns/net", self.hub.pid);
        let network = File::open(&path).map_err(|error| LabError::path("open", &path, error))?;
        setns(network, CloneFlags::CLONE_NEWNET).map_err(|error| match error {
            nix::errno::Errno::EPERM => LabError::NotRoot,
            other => LabError::path("enter", &path, other),
        })
    }

    fn save(&self) -> Result<(), LabError> {
        let path = self.directory().join("lab.json");
        let partial = path.with_extension("partial");
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| LabError::path("write", &path, io::Error::from(error)))?;
        fs::write(&partial, text).map_err(|error| LabError::path("write", &partial, error))?;
        fs::rename(&partial, &path).map_err(|error| LabError::path("write", &path, error))
    }
}

/// Finds a lab by name, whether it is well or not.
pub fn find(name: &str) -> Result<DetachedLab, LabError> {
    check_name(name)?;
    let path = Path::new(DIRECTORY).join(name).join("lab.json");
    let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => LabError::NotUp { name: name.into() },
        _ => LabError::path("read", &path, error),
    })?;
    serde_json::from_str(&text)
        .map_err(|error| LabError::path("read", &path, io::Error::from(error)))
}

/// All labs there are, by name.
pub fn list() -> Result<Vec<DetachedLab>, LabError> {
    let entries = match fs::read_dir(DIRECTORY) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(LabError::path("list", DIRECTORY, error)),
    };
    let mut labs: Vec<DetachedLab> = entries
        .flatten()
        .filter_map(|entry| find(&entry.file_name().to_string_lossy()).ok())
        .collect();
    labs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(labs)
}

fn check_name(name: &str) -> Result<(), LabError> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(fine) {
        return Err(LabError::Spec(format!(
            "{name:?} cannot be a lab's name: at most {NAME_MAX} of a-z, 0-9 and -"
        )));
    }
    Ok(())
}
