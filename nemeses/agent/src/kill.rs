//! Processes are killed (SIGKILL), and later started again by the store's own script.

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::tool::run_script;
use crate::{Home, Look, Primitive, Process, Result, Sight};

/// Kills these processes, and with the leader of a group all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kill {
    /// Whom.
    pub processes: Vec<Process>,
    /// An idempotent script for `/bin/sh` that starts them again and does not wait for them.
    pub start: Option<String>,
}

/// What starts them again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Killed {
    start: Option<String>,
}

impl Primitive for Kill {
    type Undo = Killed;

    fn plan(&self, _home: &Home) -> Result<Killed> {
        Ok(Killed { start: self.start.clone() })
    }

    fn apply(&self, _undo: &Killed) -> Result<()> {
        self.processes.iter().try_for_each(|process| process.signal(Signal::SIGKILL))
    }

    fn prove(&self, _undo: &Killed) -> Result<Sight> {
        let left: Vec<u32> = self
            .processes
            .iter()
            .filter(|process| process.look() != Look::Gone)
            .map(|process| process.pid)
            .collect();
        Ok(Sight {
            holds: left.is_empty(),
            summary: match left.is_empty() {
                true => "all pids gone".into(),
                false => format!("still there: {left:?}"),
            },
            figures: json!({ "processes": self.processes, "left": left }),
        })
    }

    fn undo(undo: &Killed) -> Result<()> {
        undo.start.as_deref().map_or(Ok(()), run_script)
    }

    fn prove_undone(_undo: &Killed) -> Result<Sight> {
        Ok(Sight { holds: true, summary: "started again".into(), figures: json!({}) })
    }
}
