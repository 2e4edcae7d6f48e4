//! Processes stand still: SIGSTOP, undone by SIGCONT.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Home, Look, Primitive, Process, Result, Sight};

/// How long a process that was told to go on may still be seen to stand.
const AWAKE_WITHIN: Duration = Duration::from_secs(1);

/// How long threads may take to stop, and how often that is looked at.
const SETTLE_MAX: Duration = Duration::from_millis(500);
const SETTLE_EVERY: Duration = Duration::from_millis(1);

/// How often who has not stopped is tried again.
const TRIES: usize = 5;

/// Stops these processes, and with a leader its whole group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Whom.
    pub processes: Vec<Process>,
}

/// Whom to let go on: those that were not stopped already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    processes: Vec<Process>,
}

/// Stops processes, and waits until they stand still.
pub(crate) fn stop(processes: &[Process]) -> Result<()> {
    let signal = |signal| processes.iter().try_for_each(|process| process.signal(signal));
    let runs = |process: &Process| process.look() == Look::Running;
    for attempt in 1..=TRIES {
        signal(Signal::SIGSTOP)?;
        // A thread in the kernel stops only when it leaves it. Who does not in time is seen to run.
        let patience = Instant::now() + SETTLE_MAX;
        while processes.iter().any(runs) && Instant::now() < patience {
            std::thread::sleep(SETTLE_EVERY);
        }
        if attempt == TRIES || !processes.iter().any(runs) {
            break;
        }
        // A parent stays in vfork(2) for as long as its child, stopped before it became another
        // program, does: both have to go on for a moment.
        signal(Signal::SIGCONT)?;
        std::thread::sleep(SETTLE_EVERY);
    }
    Ok(())
}

impl Primitive for Stop {
    type Undo = Stopped;

    fn plan(&self, _home: &Home) -> Result<Stopped> {
        let running = |process: &Process| process.look() == Look::Running;
        Ok(Stopped { processes: self.processes.iter().copied().filter(running).collect() })
    }

    fn apply(&self, undo: &Stopped) -> Result<()> {
        stop(&undo.processes)
    }

    fn prove(&self, _undo: &Stopped) -> Result<Sight> {
        let looks: Vec<_> =
            self.processes.iter().map(|process| (process, process.look())).collect();
        let stopped = looks.iter().filter(|(_, look)| matches!(look, Look::Stopped { .. })).count();
        let running = looks.iter().filter(|(_, look)| *look == Look::Running).count();
        // One that was killed stood still for as long as it was there. Whether there was any is for the
        // controller to see, which looks for itself.
        Ok(Sight {
            holds: running == 0,
            summary: format!("{stopped} of {} in state T", looks.len()),
            figures: json!({ "processes": looks }),
        })
    }

    fn undo(undo: &Stopped) -> Result<()> {
        undo.processes.iter().try_for_each(|process| process.signal(Signal::SIGCONT))
    }

    fn prove_undone(undo: &Stopped) -> Result<Sight> {
        let end = Instant::now() + AWAKE_WITHIN;
        let (looks, stopped) = loop {
            let looks: Vec<_> =
                undo.processes.iter().map(|process| (process, process.look())).collect();
            let still = looks.iter().filter(|(_, look)| matches!(look, Look::Stopped { .. }));
            let stopped = still.count();
            if stopped == 0 || Instant::now() > end {
                break (looks, stopped);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Ok(Sight {
            holds: stopped == 0,
            summary: format!("{stopped} of {} in state T", looks.len()),
            figures: json!({ "processes": looks }),
        })
    }
}
