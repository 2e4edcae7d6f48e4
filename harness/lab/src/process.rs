//! A process that can be told from a later one with the same number.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// How long a killed process may take to end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// How often to look whether it has.
const END_POLL: Duration = Duration::from_millis(2);

/// A process, named by number, start time and boot: numbers are used again, the three together are not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// Clock ticks since boot.
    pub(crate) start: u64,
    boot: String,
}

impl Process {
    /// The process that has this number now; `None` if there is none.
    pub(crate) fn of(pid: i32) -> Option<Process> {
        let (_, start) = stat(pid)?;
        Some(Process { pid, start, boot: boot_id() })
    }

    /// Whether it still runs. A zombie does not.
    pub(crate) fn alive(&self) -> bool {
        self.boot == boot_id()
            && stat(self.pid)
                .is_some_and(|(state, start)| start == self.start && !matches!(state, 'Z' | 'X'))
    }

    /// Sends SIGKILL, if it is still this process.
    pub(crate) fn kill(&self) {
        if self.alive() {
            let _: Result<(), Errno> = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
        }
    }

    /// Waits until it has ended; false if it has not in time.
    pub(crate) fn ended(&self) -> bool {
        let start = Instant::now();
        while self.alive() {
            if start.elapsed() > END_LIMIT {
                return false;
            }
            std::thread::sleep(END_POLL);
        }
        true
    }
}

/// State letter and start time of a process.
fn stat(pid: i32) -> Option<(char, u64)> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name comes second, in parentheses, and may hold anything: count from its end.
    let mut fields = line.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let start = fields.nth(18)?.parse().ok()?;
    Some((state, start))
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().into()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A process is itself, and is over once it has been killed.
    #[test]
    fn a_killed_process_is_over() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::of(child.id() as i32).unwrap();
        assert!(process.alive());
        process.kill();
        assert!(process.ended(), "a zombie counts as ended");
        child.wait().unwrap();
        assert!(Process::of(process.pid).is_none());
    }

    /// A later process with the same number is another process.
    #[test]
    fn a_number_used_again_is_another_process() {
        let here = Process::of(std::process::id() as i32).unwrap();
        let earlier = Process { start: here.start - 1, ..here.clone() };
        let before_reboot = Process { boot: "another".into(), ..here.clone() };
        assert!(here.alive());
        assert!(!earlier.alive() && !before_reboot.alive());
    }
}
