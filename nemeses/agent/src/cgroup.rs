//! Control groups of the kernel: some processes of the store are moved into one of ours, and back.
//!
//! Version 2 is taken where the controller is part of it, else version 1; a hierarchy that is not
//! mounted where it can be written to is mounted in a folder of our own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::clock::scope::{members, session_of};
use crate::tool::Tool;
use crate::{Failure, Home, Process, Result};

/// How long the kernel may take to let go of a group.
const GONE_WITHIN: Duration = Duration::from_secs(3);

/// How long a process may be on its way out.
const LEAVE_WITHIN: Duration = Duration::from_millis(100);

/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What a group controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Controller {
    /// Whether its processes run at all.
    Freezer,
    /// How much memory they may use.
    Memory,
    /// How much processor time they get.
    Cpu,
}

impl Controller {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Freezer => "freezer",
            Self::Memory => "memory",
            Self::Cpu => "cpu",
        }
    }
}

/// Which interface the kernel offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Version {
    V1,
    V2,
}

/// A group of ours, and where its processes were before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Group {
    controller: Controller,
    pub(crate) version: Version,
    /// Where the hierarchy is mounted.
    mount: PathBuf,
    /// Whether it is mounted by us.
    ours: bool,
    /// Its name below that.
    name: String,
    /// The group of each process before.
    homes: Vec<(Process, String)>,
}

/// Where a hierarchy is mounted already and can be written to.
fn mounted(version: Version, controller: Controller) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, place, kind, options, ..] = words[..] else { return None };
        let options: Vec<&str> = options.split(',').collect();
        let fits = match version {
            Version::V2 => kind == "cgroup2",
            Version::V1 => kind == "cgroup" && options.contains(&controller.as_str()),
        };
        (fits && options.contains(&"rw")).then(|| PathBuf::from(place))
    })
}

/// The interface by which a controller works on this kernel.
fn version_of(controller: Controller) -> Option<Version> {
    // Version 2 freezes any group, and every kernel with it has it.
    if controller == Controller::Freezer {
        let v1_only = mounted(Version::V2, controller).is_none()
            && mounted(Version::V1, controller).is_some();
        return Some(if v1_only { Version::V1 } else { Version::V2 });
    }
    let controllers = fs::read_to_string("/proc/cgroups").ok()?;
    controllers.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(controller.as_str())).then_some(())?;
        // The number of its hierarchy: version 2 has none.
        Some(if words.next()? == "0" { Version::V2 } else { Version::V1 })
    })
}

/// The group a process is in.
fn home_of(process: Process, version: Version, controller: Controller) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{}/cgroup", process.pid)).ok()?;
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let fits = match version {
            Version::V2 => controllers.is_empty(),
            Version::V1 => controllers.split(',').any(|name| name == controller.as_str()),
        };
        fits.then(|| path.to_owned())
    })
}

/// The number of this node's process namespace. Nodes that share a kernel share the hierarchy, too, and a pid of
/// one is nobody, or somebody else, in another; and whoever made the node can tell its groups by that.
fn process_space() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

fn write(file: &Path, word: &str) -> Result<()> {
    fs::write(file, word)
        .map_err(|e| Failure::new(format!("write {word} to {}", file.display()), e))
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|e| Failure::new(format!("make {}", folder.display()), e))
}

/// Moves a process. One that has ended needs no group.
fn join(folder: &Path, pid: u32) -> Result<()> {
    match write(&folder.join("cgroup.procs"), &pid.to_string()) {
        Err(_) if Process::of(pid).is_none() => Ok(()),
        joined => joined,
    }
}

impl Group {
    /// A group for some processes, of which at least one lives. Touches nothing.
    pub(crate) fn plan(controller: Controller, processes: &[Process], home: &Home) -> Result<Self> {
        let attempted = || format!("control the {} of processes", controller.as_str());
        let living: Vec<Process> = processes.iter().copied().filter(|p| p.lives()).collect();
        let first =
            living.first().ok_or_else(|| Failure::new(attempted(), "none of them is left"))?;
        let version = version_of(controller)
            .ok_or_else(|| Failure::new(attempted(), "this kernel has no controller for that"))?;
        let (mount, ours) = match mounted(version, controller) {
            Some(place) => (place, false),
            None => (home.volatile().join(format!("cgroup-{}", controller.as_str())), true),
        };
        Ok(Self {
            controller,
            version,
            mount,
            ours,
            name: format!("deposed-{}-{}-{}", process_space(), first.pid, first.start_ticks),
            homes: living
                .iter()
                .map(|process| {
                    (*process, home_of(*process, version, controller).unwrap_or("/".into()))
                })
                .collect(),
        })
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.mount.join(&self.name)
    }

    /// The processes it was planned for.
    pub(crate) fn processes(&self) -> impl Iterator<Item = Process> {
        self.homes.iter().map(|(process, _)| *process)
    }

    /// Makes it, empty.
    pub(crate) fn make(&self) -> Result<()> {
        if self.ours {
            make(&self.mount)?;
            let place = self.mount.display().to_string();
            let mount = match self.version {
                Version::V2 => vec!["-t", "cgroup2", "none", &place],
                Version::V1 => vec!["-t", "cgroup", "-o", self.controller.as_str(), "none", &place],
            };
            Tool::new("mount").args(mount).run()?;
        }
        if self.version == Version::V2 && self.controller != Controller::Freezer {
            let (file, word) =
                (self.mount.join("cgroup.subtree_control"), self.controller.as_str());
            let has = fs::read_to_string(&file).unwrap_or_default();
            if !has.split_whitespace().any(|found| found == word) {
                write(&file, &format!("+{word}"))?;
            }
        }
        make(&self.folder())
    }

    /// Moves in whom it was planned for, and what they have begun since.
    pub(crate) fn take_in(&self) -> Result<()> {
        for process in self.processes().filter(|process| process.lives()) {
            join(&self.folder(), process.pid)?;
        }
        // Until nothing is left outside: what a member begins is a member.
        let sessions = self.processes().filter_map(session_of).collect();
        loop {
            let inside = self.members();
            let mut late = members(&sessions);
            late.retain(|member| !inside.contains(&member.process.pid));
            if late.is_empty() {
                return Ok(());
            }
            for member in late {
                join(&self.folder(), member.process.pid)?;
            }
        }
    }

    pub(crate) fn members(&self) -> Vec<u32> {
        let text = self.read("cgroup.procs");
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Who is in it, and who of those it was planned for is not. One that is about to end is in no group any
    /// more, so whoever is found outside is looked at again.
    pub(crate) fn inside_and_outside(&self) -> (Vec<u32>, Vec<u32>) {
        let look = || {
            let members = self.members();
            let living = self.processes().filter(|process| process.lives());
            let outside = living.map(|process| process.pid).filter(|pid| !members.contains(pid));
            let outside: Vec<u32> = outside.collect();
            (members, outside)
        };
        let first = look();
        if first.1.is_empty() {
            return first;
        }
        std::thread::sleep(LEAVE_WITHIN);
        look()
    }

    pub(crate) fn exists(&self) -> bool {
        self.folder().exists()
    }

    /// Writes to one of its files.
    pub(crate) fn write(&self, file: &str, word: &str) -> Result<()> {
        write(&self.folder().join(file), word)
    }

    /// Reads one of its files; nothing if it is not there.
    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder().join(file)).unwrap_or_default()
    }

    /// The number after a word in one of its files.
    pub(crate) fn count(&self, file: &str, word: &str) -> u64 {
        let text = self.read(file);
        let found = text.lines().find_map(|line| line.strip_prefix(word)?.trim().parse().ok());
        found.unwrap_or(0)
    }

    /// Moves everybody back and removes it.
    pub(crate) fn dissolve(&self) -> Result<()> {
        let folder = self.folder();
        let end = Instant::now() + GONE_WITHIN;
        while folder.exists() {
            for pid in self.members() {
                // What was begun since belongs where the first of them does.
                let known = self.homes.iter().find(|(process, _)| process.pid == pid);
                let home = known.or(self.homes.first()).map_or("/", |(_, home)| home);
                join(&self.mount.join(home.trim_start_matches('/')), pid)?;
            }
            match fs::remove_dir(&folder) {
                Err(error) if folder.exists() && Instant::now() > end => {
                    return Err(Failure::new(format!("remove {}", folder.display()), error));
                }
                _ => std::thread::sleep(LOOK_EVERY),
            }
        }
        let place = self.mount.display().to_string();
        if self.ours && Tool::new("mountpoint").args(["-q", &place]).succeeds() {
            Tool::new("umount").args(["-l", &place]).run()?;
        }
        Ok(())
    }
}
