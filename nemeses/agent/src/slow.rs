//! Processes run a part of the time only, as on a machine that is too busy: stopped and continued in turn,
//! many times a second, the way a CPU quota throttles. Needs no control group and no privilege beyond a
//! signal, so it is the same on every kernel.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Failure, Home, Look, Primitive, Process, Result, Sight};

/// Lets these processes run for a part of each period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slow {
    /// Whom.
    pub processes: Vec<Process>,
    /// How long they run, in each period, in milliseconds.
    pub run_ms: u64,
    /// How long they stand still, in each period, in milliseconds.
    pub still_ms: u64,
}

/// Whom to let go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slowed {
    processes: Vec<Process>,
}

impl Primitive for Slow {
    type Undo = Slowed;

    const HELD: bool = true;

    fn plan(&self, _home: &Home) -> Result<Slowed> {
        let running = |process: &Process| process.look() == Look::Running;
        Ok(Slowed { processes: self.processes.iter().copied().filter(running).collect() })
    }

    fn apply(&self, _undo: &Slowed) -> Result<()> {
        Ok(())
    }

    fn hold(&self, undo: &Slowed, ready: &Path) -> Result<()> {
        let all = |signal| undo.processes.iter().try_for_each(|process| process.signal(signal));
        let mut said = false;
        loop {
            all(Signal::SIGSTOP)?;
            std::thread::sleep(Duration::from_millis(self.still_ms));
            all(Signal::SIGCONT)?;
            if !said {
                let path = ready.display();
                fs::write(ready, "").map_err(|e| Failure::new(format!("write {path}"), e))?;
                said = true;
            }
            std::thread::sleep(Duration::from_millis(self.run_ms));
        }
    }

    fn prove(&self, undo: &Slowed) -> Result<Sight> {
        let left = undo.processes.iter().filter(|process| process.lives()).count();
        Ok(Sight {
            holds: left > 0,
            summary: format!("{left} processes run {} ms, stand {} ms", self.run_ms, self.still_ms),
            figures: json!({ "run_ms": self.run_ms, "still_ms": self.still_ms }),
        })
    }

    fn undo(undo: &Slowed) -> Result<()> {
        undo.processes.iter().try_for_each(|process| process.signal(Signal::SIGCONT))
    }

    fn prove_undone(undo: &Slowed) -> Result<Sight> {
        let is_stopped = |p: &&Process| matches!(p.look(), Look::Stopped { .. });
        let stopped = undo.processes.iter().filter(is_stopped).count();
        Ok(Sight {
            holds: stopped == 0,
            summary: format!("{stopped} of {} in state T", undo.processes.len()),
            figures: json!({}),
        })
    }
}
