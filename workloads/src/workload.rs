//! A workload: what clients do, and which checkers judge it.

use deposed_checkers::{Checker, Claims};
use deposed_core::{Generator, OpSet};
use serde::{Deserialize, Serialize};

/// What a user may choose of a workload. Part of the plan, so that a run can be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadOptions {
    /// How many worker threads perform operations.
    pub concurrency: usize,
    /// Threads that share one key at a time.
    pub threads_per_key: usize,
    /// Operations on a key before it is retired for a fresh one.
    pub ops_per_key: usize,
    /// Written values are drawn from `0..values`; `None`: every written value is unique.
    pub values: Option<u32>,
}

/// The operations of one run. The two parts may share what they know of each other.
pub struct Generators {
    /// The main phase, endless: the run loop ends it.
    pub main: Box<dyn Generator>,
    /// After everything was healed: final reads.
    pub last: Option<Box<dyn Generator>>,
}

/// What clients do and how it is judged.
pub trait Workload: Send + Sync {
    /// Its name on the command line and in plans.
    fn name(&self) -> &'static str;

    /// One line for `deposed list`.
    fn about(&self) -> &'static str;

    /// The operations a system must support.
    fn requires(&self) -> OpSet;

    /// Whether values are `[key, value]` pairs, one object for each key.
    fn keyed(&self) -> bool;

    /// The operations of one run.
    fn generators(&self, options: &WorkloadOptions) -> Generators;

    /// The checkers that judge its histories, besides those that judge every run. What the system
    /// claims decides what they call broken and what merely dangerous.
    fn checkers(&self, claims: &Claims) -> Vec<Box<dyn Checker>>;
}
