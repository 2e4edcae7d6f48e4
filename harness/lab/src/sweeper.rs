//! A process that outlives its lab, however that ends, and removes what the kernel does not: control groups.
//!
//! Processes, links, mounts and disks go with whoever used them last. A control group stays, empty, and for
//! every process of the host to see: that of a node, and those that faults have made in it, which bear the
//! number of its process namespace. The sweeper knows both, and touches no other.

use std::fs;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::unistd::setsid;
use serde::{Deserialize, Serialize};

use crate::control_group;
use crate::error::LabError;
use crate::process::Process;
use crate::process_space::ProcessSpace;
use crate::role;

/// How long processes of a lab that has ended may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// How often to look whether they are.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What the sweeper is to know.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Note {
    /// A control group of the lab's own.
    Group(PathBuf),
    /// The init of a node that has booted.
    Init(i32),
}

/// The lab's end of it. It begins to sweep when this is dropped, or when the process ends that holds it.
#[derive(Debug)]
pub(crate) struct Sweeper {
    process: Child,
    notes: Mutex<Option<ChildStdin>>,
}

impl Sweeper {
    /// Starts it.
    pub(crate) fn start(program: &Path) -> Result<Sweeper, LabError> {
        let mut process = Command::new(program)
            .arg(role::SWEEPER)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| LabError::path("start the sweeper, which is", program, error))?;
        let notes = Mutex::new(process.stdin.take());
        Ok(Sweeper { process, notes })
    }

    /// What no other lab on this host is called, as long as this one lives.
    pub(crate) fn name(&self) -> String {
        let pid = self.process.id();
        let start = Process::of(pid as i32).map_or(0, |process| process.start);
        format!("{pid}-{start}")
    }

    /// Lets it know.
    pub(crate) fn note(&self, note: &Note) {
        let line = serde_json::to_string(note).unwrap_or_default() + "\n";
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notes) = notes.as_mut() {
            // A sweeper that somebody has killed leaves an empty group behind: no reason to be without a lab.
            let _ = notes.write_all(line.as_bytes());
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        *self.notes.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // It has a limit of its own.
        let _ = self.process.wait();
    }
}

/// Plays the sweeper.
pub(crate) fn play() -> ! {
    // Out of reach of the terminal, whose Ctrl-C or end may be that of the lab.
    let _ = setsid();
    let (mut groups, mut spaces) = (Vec::new(), Vec::new());
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(Note::Group(folder)) => groups.push(folder),
            // One that is gone again has had no time for faults.
            Ok(Note::Init(pid)) => spaces.extend(ProcessSpace::of(pid).ok()),
            Err(_) => {}
        }
    }
    let end = Instant::now() + GONE_WITHIN;
    while Instant::now() < end {
        // In this order: who is gone makes no group any more.
        let gone = spaces.iter().all(|space| space.processes().is_empty());
        if sweep(&groups, &spaces) && gone {
            std::process::exit(0);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    std::process::exit(1)
}

/// Removes what can be removed. Whether nothing is left.
fn sweep(groups: &[PathBuf], spaces: &[ProcessSpace]) -> bool {
    let names: Vec<String> =
        spaces.iter().map(|space| format!("deposed-{}-", space.number())).collect();
    let is_ours = |folder: &PathBuf| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        names.iter().any(|prefix| name.starts_with(prefix))
    };
    let hierarchies = control_group::mounted().into_iter();
    let all =
        hierarchies.flat_map(|(place, _)| fs::read_dir(place).into_iter().flatten().flatten());
    let made = all.map(|entry| entry.path()).filter(is_ours);
    let left = made.chain(groups.iter().cloned()).filter(|folder| {
        // The kernel removes no group with a process in it.
        fs::remove_dir(folder).is_err() && folder.exists()
    });
    left.count() == 0
}
