//! Processes are frozen by the kernel's freezer: unlike stopped ones, neither they nor their parents can
//! tell, and nobody can continue them with a signal.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cgroup::{Controller, Group, Version};
use crate::{Home, Primitive, Process, Result, Sight};

/// How long the kernel may take to freeze a group.
const SETTLED_WITHIN: Duration = Duration::from_secs(3);

/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Freezes these processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freeze {
    /// Whom.
    pub processes: Vec<Process>,
}

/// Where they are frozen and where they were before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    group: Group,
}

impl Frozen {
    fn freeze(&self, freeze: bool) -> Result<()> {
        let (file, word) = match (self.group.version, freeze) {
            (Version::V2, true) => ("cgroup.freeze", "1"),
            (Version::V2, false) => ("cgroup.freeze", "0"),
            (Version::V1, true) => ("freezer.state", "FROZEN"),
            (Version::V1, false) => ("freezer.state", "THAWED"),
        };
        self.group.write(file, word)
    }

    fn is_frozen(&self) -> bool {
        let (file, line) = match self.group.version {
            Version::V2 => ("cgroup.events", "frozen 1"),
            Version::V1 => ("freezer.state", "FROZEN"),
        };
        self.group.read(file).lines().any(|found| found == line)
    }
}

impl Primitive for Freeze {
    type Undo = Frozen;

    fn plan(&self, home: &Home) -> Result<Frozen> {
        Ok(Frozen { group: Group::plan(Controller::Freezer, &self.processes, home)? })
    }

    fn apply(&self, undo: &Frozen) -> Result<()> {
        undo.group.make()?;
        undo.group.take_in()?;
        undo.freeze(true)?;
        let end = Instant::now() + SETTLED_WITHIN;
        while !undo.is_frozen() && Instant::now() < end {
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn prove(&self, undo: &Frozen) -> Result<Sight> {
        let (members, outside) = undo.group.inside_and_outside();
        let frozen = undo.is_frozen();
        // One that was killed stood still for as long as it was there.
        Ok(Sight {
            holds: frozen && outside.is_empty(),
            summary: match (frozen, outside.is_empty()) {
                (false, _) => "the group is not frozen".into(),
                (true, false) => format!("not in the frozen group: {outside:?}"),
                (true, true) => format!("{} frozen", members.len()),
            },
            figures: json!({ "pids": members, "frozen": frozen }),
        })
    }

    fn undo(undo: &Frozen) -> Result<()> {
        if undo.group.exists() {
            undo.freeze(false)?;
        }
        undo.group.dissolve()
    }

    fn prove_undone(undo: &Frozen) -> Result<Sight> {
        let gone = !undo.group.exists();
        Ok(Sight {
            holds: gone,
            summary: if gone { "thawed" } else { "the group is still there" }.into(),
            figures: json!({}),
        })
    }
}
