//! The process namespace of a node, by which its processes are known from outside.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

use crate::error::LabError;

/// The processes of one boot of a node. While this value lives, no other namespace gets the number of this one.
#[derive(Debug)]
pub(crate) struct ProcessSpace {
    _namespace: File,
    number: u64,
}

impl ProcessSpace {
    /// That of a running process.
    pub(crate) fn of(pid: i32) -> Result<ProcessSpace, LabError> {
        let path = format!("/proc/{pid}/ns/pid");
        let failed = |error| LabError::path("open", &path, error);
        let namespace = File::open(&path).map_err(failed)?;
        let number = namespace.metadata().map_err(failed)?.ino();
        Ok(ProcessSpace { _namespace: namespace, number })
    }

    /// Its number, as processes in it read it from `/proc/self/ns/pid`.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// What runs in it, by process number here: how often the threads of each were switched off a processor.
    pub(crate) fn processes(&self) -> BTreeMap<u32, u64> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let within = pids.filter(|pid| {
            fs::metadata(format!("/proc/{pid}/ns/pid")).is_ok_and(|ns| ns.ino() == self.number)
        });
        within.filter_map(|pid| Some((pid, switches(pid)?))).collect()
    }
}

/// Of all threads of a process; none if it only waits to be reaped.
fn switches(pid: u32) -> Option<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let told: Vec<String> =
        tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok()).collect();
    let lives = |status: &String| !status.lines().any(|line| line.starts_with("State:\tZ"));
    told.iter().any(lives).then(|| {
        let lines = told.iter().flat_map(|status| status.lines());
        let counts = lines.filter(|line| line.contains("ctxt_switches:"));
        counts.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
    })
}
