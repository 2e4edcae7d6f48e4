//! Who else sets the clock of a machine: daemons that keep it right. They stand still (SIGSTOP) while it is
//! to be wrong, and go on afterwards as if nothing had been: that works with every service manager and with
//! none, and what they had learnt of the clock is not lost.

use std::fs;

use crate::Process;
use crate::clock::scope;

/// Their names, as `/proc/PID/comm` has them: 15 bytes at most.
const NAMES: [&str; 8] = [
    "chronyd",
    "ntpd",
    "openntpd",
    "systemd-timesyn",
    "ptp4l",
    "phc2sys",
    "vmtoolsd",
    "VBoxService",
];

/// Those that run here.
pub(super) fn daemons() -> Vec<Process> {
    let pids = scope::everybody().into_iter().filter(|pid| NAMES.contains(&name(*pid).as_str()));
    pids.filter_map(Process::of).collect()
}

/// The name of a process.
pub(super) fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}
