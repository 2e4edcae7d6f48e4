//! Was it right: pure checkers over histories.
//!
//! A [`Checker`] takes an immutable history and a [`Budget`] and returns an [`Analysis`]: a
//! [`Verdict`] and, for anything but `valid`, the [`Anomaly`]s or the [`Undecided`] windows behind it.
//! Nothing here knows tokio, clocks, files or the network; time comes in through the budget.

mod analysis;
mod budget;
mod distribution;
mod drawing;
mod durability;
pub mod fencing;
pub mod linearizable;
mod log_patterns;
mod parallel;
mod plantable;
mod registry;
mod staleness;
mod stats;
pub mod transactions;

pub use analysis::{Analysis, Anomaly, Edge, EdgeKind, Undecided, Verdict};
pub use budget::{Budget, Exhausted};
pub use durability::{Availability, CounterBounds, LeaseExpiry, SetFull, TotalQueue, UniqueIds};
pub use fencing::{Claims, FENCING_NAMES, Fencing, LeaseClaim};
pub use linearizable::{Linearizable, ModelKind};
pub use log_patterns::{LogMatch, LogPatterns};
pub use registry::{MODELS, ModelOptions, NamedModel, checker};
pub use staleness::Staleness;
pub use stats::Stats;
pub use transactions::{Bank, Consistency, ListAppend, LongFork, RwRegister};

use deposed_history::History;

/// Decides one property of a history.
pub trait Checker: Send + Sync {
    /// Its name, as in `results.json` and on the command line: `linearizable`, `stats`, ...
    fn name(&self) -> &str;

    /// Judges a history. Never panics on any history, however malformed; never blocks for longer
    /// than the budget.
    fn check(&self, history: &History, budget: &Budget) -> Analysis;
}
