//! The process that supervises a store is killed or stopped, alone: what it supervises is not touched.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::tool::run_script;
use crate::{Failure, Home, Look, Primitive, Process, Result, Sight};

/// How long it may take to stop or to end, and how often that is looked at.
const SETTLED_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What is done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Blow {
    /// SIGKILL.
    Kill,
    /// SIGSTOP.
    Stop,
}

/// Hits a supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supervisor {
    /// Whom.
    pub process: Process,
    /// What it supervises.
    pub others: Vec<Process>,
    /// How.
    pub blow: Blow,
    /// An idempotent script for `/bin/sh` that kills the store, its supervisor too, and returns when they
    /// are gone.
    pub stop: String,
    /// One that starts them and does not wait for them.
    pub start: String,
}

/// Whom to let go on, or to start anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsupervised {
    process: Process,
    stop: String,
    start: String,
}

/// Sends a signal to one process, not to its group; none to one that has ended.
fn signal(process: Process, signal: Signal) -> Result<()> {
    if !process.lives() {
        return Ok(());
    }
    match kill(Pid::from_raw(process.pid.cast_signed()), signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(Failure::new(format!("send {signal} to pid {}", process.pid), errno)),
    }
}

impl Primitive for Supervisor {
    type Undo = Unsupervised;

    fn plan(&self, _home: &Home) -> Result<Unsupervised> {
        if !self.process.lives() {
            return Err(Failure::new("hit the supervisor", "it is gone already"));
        }
        let (stop, start) = (self.stop.clone(), self.start.clone());
        Ok(Unsupervised { process: self.process, stop, start })
    }

    fn apply(&self, undo: &Unsupervised) -> Result<()> {
        let blow = if self.blow == Blow::Kill { Signal::SIGKILL } else { Signal::SIGSTOP };
        signal(undo.process, blow)?;
        let end = Instant::now() + SETTLED_WITHIN;
        while undo.process.look() == Look::Running && Instant::now() < end {
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn prove(&self, undo: &Unsupervised) -> Result<Sight> {
        let look = undo.process.look();
        let hit = match self.blow {
            Blow::Kill => look == Look::Gone,
            Blow::Stop => matches!(look, Look::Stopped { .. }),
        };
        let run = self.others.iter().filter(|other| other.look() == Look::Running).count();
        let word = match look {
            Look::Gone => "is gone",
            Look::Stopped { .. } => "is stopped",
            Look::Running => "runs",
        };
        let others = self.others.len();
        Ok(Sight {
            holds: hit,
            summary: format!("the supervisor {word}, {run} of {others} it supervises run"),
            figures: json!({ "supervisor": undo.process, "others": others, "run": run }),
        })
    }

    fn undo(undo: &Unsupervised) -> Result<()> {
        signal(undo.process, Signal::SIGCONT)?;
        if !undo.process.lives() {
            // What it supervised has nobody: it is started anew with another, as an init does.
            run_script(&undo.stop)?;
        }
        run_script(&undo.start)
    }

    fn prove_undone(undo: &Unsupervised) -> Result<Sight> {
        let stopped = matches!(undo.process.look(), Look::Stopped { .. });
        Ok(Sight {
            holds: !stopped,
            summary: if stopped { "it is still stopped" } else { "it runs again" }.into(),
            figures: json!({}),
        })
    }
}
