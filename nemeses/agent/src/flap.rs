//! A cut that comes and goes: links that flap.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cut::Cutting;
use crate::{Cut, Failure, Home, Primitive, Result, Sight};

/// Cuts, lets pass, cuts again, until it is killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flap {
    /// What is cut. Its chain stays all the time, and so do its counters; only the way into it comes
    /// and goes.
    pub cut: Cut,
    /// How long each cut lasts, in milliseconds.
    pub cut_ms: u64,
    /// How long packets pass in between, in milliseconds.
    pub pass_ms: u64,
}

impl Primitive for Flap {
    type Undo = Cutting;

    const HELD: bool = true;

    fn plan(&self, home: &Home) -> Result<Cutting> {
        self.cut.plan(home)
    }

    fn apply(&self, undo: &Cutting) -> Result<()> {
        self.cut.apply(undo)
    }

    fn hold(&self, undo: &Cutting, ready: &Path) -> Result<()> {
        let path = ready.display();
        fs::write(ready, "").map_err(|e| Failure::new(format!("write {path}"), e))?;
        loop {
            std::thread::sleep(Duration::from_millis(self.cut_ms));
            undo.open()?;
            std::thread::sleep(Duration::from_millis(self.pass_ms));
            undo.close()?;
        }
    }

    fn prove(&self, undo: &Cutting) -> Result<Sight> {
        self.cut.prove(undo)
    }

    fn undo(undo: &Cutting) -> Result<()> {
        Cut::undo(undo)
    }

    fn prove_undone(undo: &Cutting) -> Result<Sight> {
        Cut::prove_undone(undo)
    }
}
