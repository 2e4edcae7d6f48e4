//! Processes are frozen by the kernel's freezer: unlike stopped ones, neither they nor their parents can
//! tell, and nobody can continue them with a signal.
//!
//! They are moved into a control group of ours, which is frozen; undoing thaws it and moves them back.
//! Version 2 of control groups is taken where it is mounted, else version 1, else version 2 is mounted
//! in a folder of our own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::clock::scope::{members, session_of};
use crate::tool::Tool;
use crate::{Failure, Home, Primitive, Process, Result, Sight};

/// How long the kernel may take to freeze or to let go of a group.
const SETTLED_WITHIN: Duration = Duration::from_secs(3);

/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Freezes these processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freeze {
    /// Whom.
    pub processes: Vec<Process>,
}

/// Which interface the kernel offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Version {
    V1,
    V2,
}

/// Where they are frozen and where they were before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    version: Version,
    /// Where the hierarchy is mounted.
    mount: PathBuf,
    /// Whether it is mounted by us.
    ours: bool,
    /// The name of our group below it.
    group: String,
    /// The group of each process before.
    homes: Vec<(Process, String)>,
}

impl Frozen {
    fn folder(&self) -> PathBuf {
        self.mount.join(&self.group)
    }

    fn freeze(&self, freeze: bool) -> Result<()> {
        let (file, word) = match (self.version, freeze) {
            (Version::V2, true) => ("cgroup.freeze", "1"),
            (Version::V2, false) => ("cgroup.freeze", "0"),
            (Version::V1, true) => ("freezer.state", "FROZEN"),
            (Version::V1, false) => ("freezer.state", "THAWED"),
        };
        write(&self.folder().join(file), word)
    }

    fn is_frozen(&self) -> bool {
        let (file, line) = match self.version {
            Version::V2 => ("cgroup.events", "frozen 1"),
            Version::V1 => ("freezer.state", "FROZEN"),
        };
        let text = fs::read_to_string(self.folder().join(file)).unwrap_or_default();
        text.lines().any(|found| found == line)
    }

    fn members(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.folder().join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

/// Where a hierarchy with a freezer is mounted already.
fn mounted() -> Option<(Version, PathBuf)> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let find = |version: Version| {
        mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, place, kind, options, ..] = words[..] else { return None };
            let options: Vec<&str> = options.split(',').collect();
            let fits = match version {
                Version::V2 => kind == "cgroup2",
                Version::V1 => kind == "cgroup" && options.contains(&"freezer"),
            };
            (fits && options.contains(&"rw")).then(|| (version, PathBuf::from(place)))
        })
    };
    find(Version::V2).or_else(|| find(Version::V1))
}

/// The group a process is in.
fn home_of(process: Process, version: Version) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{}/cgroup", process.pid)).ok()?;
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let fits = match version {
            Version::V2 => controllers.is_empty(),
            Version::V1 => controllers.split(',').any(|controller| controller == "freezer"),
        };
        fits.then(|| path.to_owned())
    })
}

fn write(file: &Path, word: &str) -> Result<()> {
    fs::write(file, word)
        .map_err(|e| Failure::new(format!("write {word} to {}", file.display()), e))
}

/// Moves a process. One that has ended needs no group.
fn join(folder: &Path, pid: u32) -> Result<()> {
    match write(&folder.join("cgroup.procs"), &pid.to_string()) {
        Err(_) if Process::of(pid).is_none() => Ok(()),
        joined => joined,
    }
}

impl Primitive for Freeze {
    type Undo = Frozen;

    fn plan(&self, home: &Home) -> Result<Frozen> {
        let living: Vec<Process> = self.processes.iter().copied().filter(|p| p.lives()).collect();
        let Some(first) = living.first() else {
            return Err(Failure::new("freeze processes", "none of them is left"));
        };
        let (version, mount, ours) = match mounted() {
            Some((version, place)) => (version, place, false),
            None => (Version::V2, home.volatile().join("cgroup"), true),
        };
        Ok(Frozen {
            version,
            mount,
            ours,
            // Nodes that share a kernel share the hierarchy, too.
            group: format!("deposed-{}-{}", first.pid, first.start_ticks),
            homes: living
                .iter()
                .map(|process| (*process, home_of(*process, version).unwrap_or("/".into())))
                .collect(),
        })
    }

    fn apply(&self, undo: &Frozen) -> Result<()> {
        if undo.ours {
            make(&undo.mount)?;
            let place = undo.mount.display().to_string();
            Tool::new("mount").args(["-t", "cgroup2", "none", &place]).run()?;
        }
        make(&undo.folder())?;
        for (process, _) in undo.homes.iter().filter(|(process, _)| process.lives()) {
            join(&undo.folder(), process.pid)?;
        }
        // What was begun since somebody looked, until nothing was: what a member begins is one.
        let sessions = undo.homes.iter().filter_map(|(process, _)| session_of(*process)).collect();
        loop {
            let inside = undo.members();
            let mut late = members(&sessions);
            late.retain(|member| !inside.contains(&member.process.pid));
            if late.is_empty() {
                break;
            }
            for member in late {
                join(&undo.folder(), member.process.pid)?;
            }
        }
        undo.freeze(true)?;
        let end = Instant::now() + SETTLED_WITHIN;
        while !undo.is_frozen() && Instant::now() < end {
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn prove(&self, undo: &Frozen) -> Result<Sight> {
        let members = undo.members();
        let outside: Vec<u32> = (undo.homes.iter())
            .filter(|(process, _)| process.lives() && !members.contains(&process.pid))
            .map(|(process, _)| process.pid)
            .collect();
        let frozen = undo.is_frozen();
        Ok(Sight {
            holds: frozen && outside.is_empty() && !members.is_empty(),
            summary: match (frozen, outside.is_empty()) {
                (false, _) => "the group is not frozen".into(),
                (true, false) => format!("not in the frozen group: {outside:?}"),
                (true, true) => format!("{} frozen", members.len()),
            },
            figures: json!({ "pids": members, "frozen": frozen }),
        })
    }

    fn undo(undo: &Frozen) -> Result<()> {
        let folder = undo.folder();
        if folder.exists() {
            undo.freeze(false)?;
            for pid in undo.members() {
                // What was forked since belongs where the first of them does.
                let known = undo.homes.iter().find(|(process, _)| process.pid == pid);
                let home = known.or(undo.homes.first()).map_or("/", |(_, home)| home);
                join(&undo.mount.join(home.trim_start_matches('/')), pid)?;
            }
            let end = Instant::now() + SETTLED_WITHIN;
            while let Err(error) = fs::remove_dir(&folder) {
                if Instant::now() > end {
                    return Err(Failure::new(format!("remove {}", folder.display()), error));
                }
                std::thread::sleep(LOOK_EVERY);
            }
        }
        let place = undo.mount.display().to_string();
        if undo.ours && Tool::new("mountpoint").args(["-q", &place]).succeeds() {
            Tool::new("umount").args(["-l", &place]).run()?;
        }
        Ok(())
    }

    fn prove_undone(undo: &Frozen) -> Result<Sight> {
        let gone = !undo.folder().exists();
        Ok(Sight {
            holds: gone,
            summary: if gone { "thawed" } else { "the group is still there" }.into(),
            figures: json!({}),
        })
    }
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|e| Failure::new(format!("make {}", folder.display()), e))
}
