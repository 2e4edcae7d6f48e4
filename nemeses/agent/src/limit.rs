//! Processes get little memory, or little processor time, by a limit of a control group. The limit is
//! theirs alone: the machine has as much as before.

use std::fs;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cgroup::{Controller, Group, Version};
use crate::tool::run_script;
use crate::{Home, Primitive, Process, Result, Sight};

/// The period of which a quota of processor time is a part, in microseconds.
const PERIOD_US: u64 = 100_000;

/// The least memory that is left, in bytes: with less, not even a shell starts.
const MEMORY_MIN: u64 = 4 << 20;

/// How long processes may take to run into a limit.
const HIT_WITHIN: Duration = Duration::from_secs(4);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quota {
    /// Memory, in bytes; `None`: half of what the processes had for themselves. They are started anew,
    /// as what a process has got already does not count.
    Memory {
        /// How much.
        bytes: Option<u64>,
    },
    /// Processor time, as a share of one processor.
    Cpu {
        /// In percent.
        percent: u64,
    },
}

/// Limits processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// All processes of the store.
    pub processes: Vec<Process>,
    /// What of, and how much is left.
    pub quota: Quota,
    /// An idempotent script for `/bin/sh` that kills the store and returns when it is gone.
    pub stop: String,
    /// One that starts it and does not wait for it.
    pub start: String,
}

/// What was limited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limited {
    group: Group,
    /// The limit: bytes, or microseconds of each period.
    limit: u64,
    start: String,
}

/// Memory that a process shares with nobody, in bytes.
fn anonymous(process: Process) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap_or_default();
    let kib = text.lines().find_map(|line| {
        line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    });
    kib.unwrap_or(0) << 10
}

impl Limit {
    const fn controller(&self) -> Controller {
        match self.quota {
            Quota::Memory { .. } => Controller::Memory,
            Quota::Cpu { .. } => Controller::Cpu,
        }
    }

    /// How often the limit was met, and how many processes were killed for it.
    fn hits(&self, group: &Group) -> (u64, u64) {
        match (self.quota, group.version) {
            (Quota::Cpu { .. }, _) => (group.count("cpu.stat", "nr_throttled "), 0),
            (Quota::Memory { .. }, Version::V1) => (
                group.read("memory.failcnt").trim().parse().unwrap_or(0),
                group.count("memory.oom_control", "oom_kill "),
            ),
            (Quota::Memory { .. }, Version::V2) => {
                (group.count("memory.events", "max "), group.count("memory.events", "oom_kill "))
            }
        }
    }
}

impl Primitive for Limit {
    type Undo = Limited;

    fn plan(&self, home: &Home) -> Result<Limited> {
        let group = Group::plan(self.controller(), &self.processes, home)?;
        let limit = match self.quota {
            Quota::Cpu { percent } => PERIOD_US * percent / 100,
            Quota::Memory { bytes } => bytes
                .unwrap_or_else(|| group.processes().map(anonymous).sum::<u64>() / 2)
                .max(MEMORY_MIN),
        };
        Ok(Limited { group, limit, start: self.start.clone() })
    }

    fn apply(&self, undo: &Limited) -> Result<()> {
        let (group, limit) = (&undo.group, undo.limit);
        group.make()?;
        match (self.quota, group.version) {
            (Quota::Cpu { .. }, Version::V1) => {
                group.write("cpu.cfs_period_us", &PERIOD_US.to_string())?;
                group.write("cpu.cfs_quota_us", &limit.to_string())?;
            }
            (Quota::Cpu { .. }, Version::V2) => {
                group.write("cpu.max", &format!("{limit} {PERIOD_US}"))?;
            }
            (Quota::Memory { .. }, Version::V1) => {
                group.write("memory.limit_in_bytes", &limit.to_string())?;
            }
            (Quota::Memory { .. }, Version::V2) => {
                group.write("memory.max", &limit.to_string())?;
            }
        }
        if let Quota::Cpu { .. } = self.quota {
            return group.take_in();
        }
        run_script(&self.stop)?;
        let procs = group.folder().join("cgroup.procs");
        run_script(&format!("echo $$ >'{}' || exit 1\n{}", procs.display(), self.start))
    }

    fn prove(&self, undo: &Limited) -> Result<Sight> {
        let end = Instant::now() + HIT_WITHIN;
        let (mut hits, mut killed) = self.hits(&undo.group);
        while hits == 0 && Instant::now() < end {
            std::thread::sleep(LOOK_EVERY);
            (hits, killed) = self.hits(&undo.group);
        }
        let (members, outside) = undo.group.inside_and_outside();
        let summary = match self.quota {
            _ if !outside.is_empty() => format!("not limited: {outside:?}"),
            Quota::Memory { .. } => format!(
                "{:.1} MiB of memory: the limit was met {hits} times, {killed} killed for it",
                undo.limit as f64 / f64::from(1 << 20)
            ),
            Quota::Cpu { percent } => {
                format!("{percent} % of a processor: used up in {hits} periods of 100 ms")
            }
        };
        Ok(Sight {
            holds: hits > 0 && outside.is_empty(),
            summary,
            figures: json!({ "limit": undo.limit, "hits": hits, "killed": killed, "pids": members }),
        })
    }

    fn undo(undo: &Limited) -> Result<()> {
        undo.group.dissolve()?;
        // Who was killed for it is started again.
        run_script(&undo.start)
    }

    fn prove_undone(undo: &Limited) -> Result<Sight> {
        let gone = !undo.group.exists();
        Ok(Sight {
            holds: gone,
            summary: if gone { "no limit any more" } else { "the group is still there" }.into(),
            figures: json!({}),
        })
    }
}
