//! The conversation: a request a line in, a reply a line out, until the line ends.

use std::fs;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Agent, Failure, Home, Journal, Process, Reply, Request, Result};

/// How long an agent that was killed may take to be gone, and how often that is looked at.
const GONE_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Answers until the channel is closed. What is in force then stays in force, under its lease.
///
/// # Errors
/// If the channel breaks.
pub fn serve(home: &Home, requests: impl BufRead, mut replies: impl Write) -> std::io::Result<()> {
    take_over(home).map_err(std::io::Error::other)?;
    let agent = Agent::new(home.clone());
    for line in requests.lines() {
        let reply = match serde_json::from_str::<Request>(&line?) {
            Ok(request) => agent.answer(&request),
            Err(error) => Reply::Failed(Failure::new("read a request", error)),
        };
        let mut line = serde_json::to_vec(&reply)?;
        line.push(b'\n');
        replies.write_all(&line)?;
        replies.flush()?;
    }
    Ok(())
}

/// Ends whoever served this node before. Its connection is given up, or there would be no other; but what was sent
/// over it may still be on its way: a node that stood still reads that only now, when nobody wants it any more.
fn take_over(home: &Home) -> Result<()> {
    // Not in the middle of a request.
    let _journal = Journal::lock(home)?;
    let file = home.volatile().join("server");
    if let Some(before) = registered(&file) {
        // It alone: the processes that hold its faults may be in its group.
        let _ = kill(Pid::from_raw(before.pid as i32), Signal::SIGKILL);
        let end = Instant::now() + GONE_WITHIN;
        while before.lives() {
            if Instant::now() > end {
                let reason = format!("it is still there after {GONE_WITHIN:?}");
                return Err(Failure::new(format!("end an agent, pid {}", before.pid), reason));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
    let failed = |error: std::io::Error| Failure::new(format!("write {}", file.display()), error);
    let own = serde_json::to_vec(&Process::of(std::process::id()));
    let part = file.with_extension("part");
    fs::write(&part, own.unwrap_or_default()).map_err(failed)?;
    fs::rename(&part, &file).map_err(failed)
}

/// Who has registered there, if it still lives.
fn registered(file: &Path) -> Option<Process> {
    let process: Process = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    process.lives().then_some(process)
}
