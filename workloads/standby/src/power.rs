//! The power of a node: a switch that works whatever state the store is in, and what turns it on
//! again.
//!
//! A machine room has a switch for each machine. Here the switch is a process beside the store, in
//! a session of its own, so that what pauses or kills the store leaves it alone; power is cut by
//! SIGKILL. What a real power cut does besides (it loses what was not synced to the disk) it does
//! not do. It obeys whoever reaches its port: the network of a test is private.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::{Config, Reply, Request};

/// How long a killed process may take to be gone.
const KILL_LIMIT: Duration = Duration::from_millis(400);
/// How often the switch looks whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs the store below this process, and starts it again, after an outage, when it was killed.
/// Returns when it ended by itself.
pub(crate) async fn supervise(config: &Config) -> io::Result<ExitStatus> {
    loop {
        let mut store = Command::new(std::env::current_exe()?)
            .args(without_supervisor(std::env::args_os().skip(1)))
            .kill_on_drop(true)
            .spawn()?;
        let pid = store.id().ok_or_else(|| io::Error::other("it ended at once"))?;
        std::fs::write(pid_file(config), format!("{pid} {}", start_ticks(pid).unwrap_or(0)))?;
        let status = store.wait().await?;
        if status.code().is_some() {
            return Ok(status);
        }
        sleep(Duration::from_millis(config.outage_ms)).await;
    }
}

/// The same command line for the process below.
fn without_supervisor(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    args.map(|arg| match arg.to_str() {
        Some(roles) if roles.split(',').any(|role| role == "supervisor") => {
            let kept: Vec<&str> = roles.split(',').filter(|role| *role != "supervisor").collect();
            kept.join(",").into()
        }
        _ => arg,
    })
    .collect()
}

fn pid_file(config: &Config) -> PathBuf {
    config.data.join("store.pid")
}

/// Returns when the directory of the data was emptied: nobody needs the switch any more.
pub(crate) async fn unwanted(config: &Config) -> io::Result<()> {
    let mark = config.data.join("power.mark");
    std::fs::write(&mark, "")?;
    while mark.exists() {
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// Answers the observer.
pub(crate) async fn answer(config: &Config, request: Request) -> io::Result<Reply> {
    if !matches!(request, Request::PowerOff) {
        return Ok(Reply::fail("not a request to a power switch"));
    }
    let Some(pid) = running(&pid_file(config))? else { return Ok(off(config)) };
    let raw = i32::try_from(pid).map_err(io::Error::other)?;
    kill(Pid::from_raw(raw), Signal::SIGKILL)?;
    let deadline = Instant::now() + KILL_LIMIT;
    while running(&pid_file(config))? == Some(pid) {
        if Instant::now() > deadline {
            return Ok(Reply::fail(format!("process {pid} is still there")));
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(off(config))
}

fn off(config: &Config) -> Reply {
    Reply::Ok { value: serde_json::Value::Null, node: config.name.clone(), token: 0 }
}

/// The store's process, if it is the one that was recorded and can still do something.
fn running(pid_file: &Path) -> io::Result<Option<u32>> {
    let text = std::fs::read_to_string(pid_file)?;
    let recorded = text
        .split_once(' ')
        .and_then(|(pid, ticks)| Some((pid.parse::<u32>().ok()?, ticks.parse::<u64>().ok()?)));
    let (pid, ticks) = recorded.ok_or_else(|| io::Error::other("no pid was recorded"))?;
    Ok((start_ticks(pid) == Some(ticks)).then_some(pid))
}

/// When a living process was started, in ticks since boot.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = after_name.split(' ').collect();
    let alive = !matches!(*fields.first()?, "Z" | "X" | "x");
    fields.get(19)?.parse().ok().filter(|_| alive)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The process below is given the same words but for its role.
    #[test]
    fn the_same_command_line() {
        let args = ["--role", "supervisor,node", "--name", "n1"].map(OsString::from);
        assert_eq!(without_supervisor(args.into_iter()), ["--role", "node", "--name", "n1"]);
    }
}
