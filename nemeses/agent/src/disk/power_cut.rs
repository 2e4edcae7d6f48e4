//! The power of a disk is cut: what was written and not synced is gone.
//!
//! The file system of the store's data is shut down, the store is killed, and the file system is
//! mounted again, which recovers it as after a power cut; all of that within a second, so that the
//! disk never depends on anybody who could die. The store stays down until the fault is undone.
//!
//! Two files tell whether it worked: one that was synced must be there after it, and one that was
//! only written must not.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::filesystem::FileSystem;
use crate::clock::scope;
use crate::stop::stop;
use crate::tool::run_script;
use crate::{Failure, Home, Look, Primitive, Process, Result, Sight};

/// Length of the file that is written and not synced.
const UNSYNCED: usize = 256 << 10;

/// How long killed processes may take to let go of their files.
const LET_GO_WITHIN: Duration = Duration::from_secs(8);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long the device is held open while its file system is not mounted, in seconds: some devices
/// (loop devices) vanish when nobody has them open.
const GUARD_S: &str = "60";

/// Cuts the power of the disk that holds a store's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerCut {
    /// All processes of the store.
    pub processes: Vec<Process>,
    /// Where its data is.
    pub data: PathBuf,
    /// An idempotent script for `/bin/sh` that starts it again and does not wait for it.
    pub start: Option<String>,
}

/// What is to be mounted and started again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    file_system: FileSystem,
    processes: Vec<Process>,
    start: Option<String>,
}

impl Cut {
    fn synced(&self) -> PathBuf {
        self.file_system.point.join(".deposed-synced")
    }

    fn unsynced(&self) -> PathBuf {
        self.file_system.point.join(".deposed-unsynced")
    }

    fn failed<E: std::fmt::Display>(&self, what: &str) -> impl Fn(E) -> Failure + use<E> {
        let attempted = format!("{what} {}", self.file_system.point.display());
        move |error| Failure::new(&attempted, error)
    }

    /// Kills the store, and unmounts once nobody uses the disk any more.
    fn take_away(&self) -> Result<()> {
        let deadline = Instant::now() + LET_GO_WITHIN;
        loop {
            self.processes.iter().try_for_each(|process| process.signal(Signal::SIGKILL))?;
            let alive = self.processes.iter().any(|process| process.look() != Look::Gone);
            match if alive { Err(Errno::EBUSY) } else { self.file_system.unmount() } {
                Err(Errno::EBUSY) if Instant::now() < deadline => std::thread::sleep(LOOK_EVERY),
                result => return result.map_err(self.failed("unmount")),
            }
        }
    }

    /// Unmounts, if need be, and mounts again, with somebody who has the device open meanwhile.
    fn remount(&self) -> Result<()> {
        let device =
            File::open(&self.file_system.device).map_err(self.failed("hold the disk of"))?;
        let guard = Command::new("sleep")
            .arg(GUARD_S)
            .stdin(device)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn();
        let mut guard = guard.map_err(self.failed("hold the disk of"))?;
        let mounted = (|| {
            if self.file_system.is_mounted() {
                self.take_away()?;
            }
            self.file_system.mount().map_err(self.failed("mount"))
        })();
        if mounted.is_ok() {
            let _ = guard.kill();
            let _ = guard.wait();
        }
        mounted
    }
}

/// Writes a file anew, and syncs it with its name if it is to last.
fn write(path: &Path, bytes: &[u8], lasting: bool) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    if lasting {
        file.sync_all()?;
        if let Some(folder) = path.parent() {
            File::open(folder)?.sync_all()?;
        }
    }
    Ok(())
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

impl Primitive for PowerCut {
    type Undo = Cut;

    fn plan(&self, home: &Home) -> Result<Cut> {
        let refused = |reason: String| {
            Failure::new(format!("cut the power of {}", self.data.display()), reason)
        };
        let file_system = FileSystem::of(&self.data).map_err(refused)?;
        let point = &file_system.point;
        let own = [
            std::env::current_exe().unwrap_or_default(),
            home.volatile().into(),
            home.lasting().into(),
        ];
        if let Some(path) = own.iter().find(|path| path.starts_with(point)) {
            return Err(refused(format!("{} is on the same disk", path.display())));
        }
        // The store may have begun others since somebody looked.
        let sessions = self.processes.iter().filter_map(|process| scope::session_of(*process));
        let sessions = sessions.collect();
        let known = |pid| {
            let is_member = |member: &scope::Member| member.process.pid == pid;
            // What ended before the members were looked at is not among them, so it is asked last.
            scope::members(&sessions).iter().any(is_member) || Process::of(pid).is_none()
        };
        if let Some(pid) = file_system.stranger(known) {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            return Err(refused(format!("{} (pid {pid}) uses the same disk", name.trim())));
        }
        Ok(Cut { file_system, processes: self.processes.clone(), start: self.start.clone() })
    }

    fn apply(&self, undo: &Cut) -> Result<()> {
        write(&undo.synced(), b"synced", true).map_err(undo.failed("write to"))?;
        write(&undo.unsynced(), &vec![0x55; UNSYNCED], false).map_err(undo.failed("write to"))?;
        // With the power everything ends at once. A store that ran on would see its disk fail first.
        stop(&self.processes)?;
        undo.file_system.shut_down().map_err(undo.failed("shut down"))?;
        undo.remount()
    }

    fn prove(&self, undo: &Cut) -> Result<Sight> {
        let alive: Vec<u32> = self
            .processes
            .iter()
            .filter(|process| process.look() != Look::Gone)
            .map(|process| process.pid)
            .collect();
        let synced = length(&undo.synced()) == b"synced".len() as u64;
        let left = length(&undo.unsynced());
        let mounted = undo.file_system.is_mounted();
        let doubt = if !alive.is_empty() {
            Some(format!("still there: {alive:?}"))
        } else if !mounted {
            Some("the disk is not mounted".into())
        } else if !synced {
            Some("a file that was synced is gone, too".into())
        } else if left == UNSYNCED as u64 {
            Some("a file that was not synced is still there".into())
        } else {
            None
        };
        let lost = UNSYNCED as u64 - left;
        Ok(Sight {
            holds: doubt.is_none(),
            summary: doubt.unwrap_or_else(|| {
                format!("{lost} of {UNSYNCED} unsynced bytes gone, what was synced is there")
            }),
            figures: json!({ "unsynced": UNSYNCED, "lost": lost, "processes": self.processes }),
        })
    }

    fn undo(undo: &Cut) -> Result<()> {
        if !undo.file_system.is_mounted() || !undo.file_system.works() {
            undo.remount()?;
        }
        for file in [undo.synced(), undo.unsynced()] {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Failure::new(format!("remove {}", file.display()), error));
                }
                _ => {}
            }
        }
        // It stands still where the cut failed half-way.
        undo.processes.iter().try_for_each(|process| process.signal(Signal::SIGCONT))?;
        undo.start.as_deref().map_or(Ok(()), run_script)
    }

    fn prove_undone(undo: &Cut) -> Result<Sight> {
        let works = undo.file_system.is_mounted() && undo.file_system.works();
        Ok(Sight {
            holds: works,
            summary: match works {
                true => "the disk is mounted and takes writes".into(),
                false => "the disk takes no writes".into(),
            },
            figures: json!({}),
        })
    }
}
