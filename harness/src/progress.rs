//! What a whole run tells whoever watches it, from the plan to the verdict.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deposed_report::{Check, Plan};
use serde::Serialize;

use crate::run::RunEvent;

/// A stretch of a run's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Logging in to every node.
    Connect,
    /// Installing and starting the system.
    Setup,
    /// Undoing every fault once more, from outside of the lanes.
    Heal,
    /// Copying logs from the nodes.
    Collect,
    /// Removing the system.
    Teardown,
    /// Compressing the history.
    Seal,
}

/// One thing to tell.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Told {
    /// The plan was written.
    Planned {
        /// The plan.
        plan: Box<Plan>,
        /// The run's folder.
        folder: String,
    },
    /// A step begins.
    Begun {
        /// Which.
        step: Step,
    },
    /// A step ended well.
    Done {
        /// Which.
        step: Step,
        /// What there is to say of it.
        detail: String,
        /// How long it took, in milliseconds.
        took_ms: u64,
    },
    /// From within the run loop.
    Run {
        /// What.
        run: RunEvent,
    },
    /// A checker has judged.
    Checked {
        /// Its answer.
        check: Box<Check>,
    },
    /// Something that does not end the run, but should be known.
    Warned {
        /// What, where, and how to mend it.
        warning: String,
    },
}

/// Where it is told. Cheap to clone; one at a time speaks.
#[derive(Clone)]
pub struct Progress(Arc<Mutex<dyn FnMut(Told) + Send>>);

impl Progress {
    /// Tells a function.
    pub fn new(watcher: impl FnMut(Told) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(watcher)))
    }

    /// Tells it.
    pub fn tell(&self, told: Told) {
        let mut watcher = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watcher(told);
    }

    /// Tells that a step begins.
    pub fn begun(&self, step: Step) {
        self.tell(Told::Begun { step });
    }

    /// Tells that a step ended.
    pub fn done(&self, step: Step, detail: impl Into<String>, took: Duration) {
        self.tell(Told::Done { step, detail: detail.into(), took_ms: took.as_millis() as u64 });
    }

    /// Warns.
    pub fn warn(&self, warning: impl Into<String>) {
        let warning = warning.into();
        tracing::warn!(%warning);
        self.tell(Told::Warned { warning });
    }
}
