//! How to tell it: runs and analyses as HTML, Markdown, JUnit, JSON and lines for a terminal.
//!
//! Values in, bytes out: a [`Run`] gives a [`Report`], and every format is one of its methods. The
//! same run always gives the same bytes. Nothing here reads a file, a clock or the network, and
//! nothing a store, a log or a value contains can become markup.

mod advice;
mod around;
mod call_text;
mod compressed_time;
mod counts;
mod distribution;
mod exposures;
mod fault_text;
mod glossary;
mod html;

mod junit;
mod lanes;
mod log_lines;
mod markdown;
mod offsets;
mod phrase;
mod plan;
mod plot;
mod protections;
mod report;
mod results;
mod run;
mod strength;
mod terminal;
mod witness;

pub use counts::{Counts, Tally};
pub use distribution::Distribution;
pub use plan::{
    Claim, ClusterPlan, Environment, FaultPlan, Host, Limits, Load, PLAN_SCHEMA, Plan, PlannedNode,
    SystemPlan, WorkloadPlan,
};
pub use protections::{Cell, Outcome, ProtectionTable, RunLink};
pub use report::Report;
pub use results::{RESULTS_SCHEMA, Results, RunName};
pub use run::{Check, Ending, File, Interest, LogExcerpt, LogLine, Run, window_of_interest};
pub use strength::{Grade, Measure, Strength};
pub use terminal::{Line, check_line};
