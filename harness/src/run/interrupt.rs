//! How a person cuts a run short.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

/// How urgently a run has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// In its own time.
    None,
    /// No further operations; those in flight are waited for, within their deadlines; faults are
    /// healed; final reads are left out.
    Stop,
    /// Operations in flight are abandoned too; faults are healed.
    HealOnly,
}

/// A switch that a signal handler throws and the run loop looks at.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<Switch>);

#[derive(Debug, Default)]
struct Switch {
    urgency: AtomicU8,
    by: OnceLock<String>,
}

impl Interrupt {
    /// A switch that was not thrown.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes it one step more urgent: first [`Urgency::Stop`], then [`Urgency::HealOnly`].
    /// The first to throw it says by what: `SIGINT`.
    pub fn raise(&self, by: &str) -> Urgency {
        self.0.by.get_or_init(|| by.to_owned());
        self.0
            .urgency
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some((n + 1).min(2)))
            .ok();
        self.urgency()
    }

    /// What threw it first, if anything did.
    pub fn by(&self) -> Option<&str> {
        self.0.by.get().map(String::as_str)
    }

    /// How urgent it is now.
    pub fn urgency(&self) -> Urgency {
        match self.0.urgency.load(Ordering::Relaxed) {
            0 => Urgency::None,
            1 => Urgency::Stop,
            _ => Urgency::HealOnly,
        }
    }
}
