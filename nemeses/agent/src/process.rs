//! Processes of the node. A pid alone names nothing: between a look and a signal it may have passed
//! to another process, so each is known by its start time as well.

use std::fs;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::{Failure, Result};

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Process {
    /// Its pid as the agent sees it.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`: clock ticks since boot.
    pub start_ticks: u64,
}

/// How a process looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Look {
    /// It has ended, or another process has its pid.
    Gone,
    /// Every thread is stopped. `switches`: how often they were ever switched off a processor; it
    /// grows whenever one of them runs again, however briefly.
    Stopped {
        /// Voluntary and involuntary, of all threads.
        switches: u64,
    },
    /// At least one thread is not stopped.
    Running,
}

/// The fields of a `stat` file from the state on, so that the start time is number 19. The name before
/// them may hold blanks and parentheses.
fn fields(path: &str) -> Option<Vec<String>> {
    let text = fs::read_to_string(path).ok()?;
    let rest = &text[text.rfind(')')? + 2..];
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

impl Process {
    /// The process that has this pid now, if there is one that has not ended.
    pub fn of(pid: u32) -> Option<Self> {
        let fields = fields(&format!("/proc/{pid}/stat"))?;
        let start_ticks = fields.get(19)?.parse().ok()?;
        (!matches!(fields[0].as_str(), "Z" | "X")).then_some(Self { pid, start_ticks })
    }

    /// Whether it still is the process it was.
    pub fn lives(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Its process group, if it lives.
    pub fn group(self) -> Option<u32> {
        self.lives().then(|| fields(&format!("/proc/{}/stat", self.pid)))??.get(2)?.parse().ok()
    }

    /// Sends it a signal if it still is who it was; to its whole group if it leads one. What has
    /// ended needs none.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn signal(self, signal: Signal) -> Result<()> {
        let Some(group) = self.group() else { return Ok(()) };
        let pid = Pid::from_raw(self.pid.cast_signed());
        let sent = if group == self.pid { killpg(pid, signal) } else { kill(pid, signal) };
        match sent {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(errno) => Err(Failure::new(format!("send {signal} to pid {}", self.pid), errno)),
        }
    }

    /// How it looks.
    pub fn look(self) -> Look {
        if !self.lives() {
            return Look::Gone;
        }
        let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", self.pid)) else { return Look::Gone };
        let mut switches = 0;
        for task in tasks.flatten() {
            let folder = task.path();
            // A thread that ended meanwhile does not run.
            let Some(fields) = fields(&format!("{}/stat", folder.display())) else { continue };
            if !matches!(fields[0].as_str(), "T" | "t") {
                return Look::Running;
            }
            let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
            let counts = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
            switches += counts.filter_map(|(_, n)| n.trim().parse::<u64>().ok()).sum::<u64>();
        }
        Look::Stopped { switches }
    }
}
