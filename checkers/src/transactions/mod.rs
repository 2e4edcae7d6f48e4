//! Transactions: which consistency level a history has, and what rules the others out.
//!
//! - [`ListAppend`]: appends to lists and reads of them. The version orders can be read off.
//!
//! Both build Adya's graph of dependencies (ww, wr, rw) with the order of processes or of time as
//! the level demands, and look for cycles in it; anomalies and levels are named as Elle names them.
//! Each anomaly that is reported was verified against the raw history by code that knows nothing of
//! the search.

mod certificate;
mod cycles;
mod explain;
mod graph;
mod interner;
mod level;
mod list_append;
mod order;
mod reach;
mod report;
mod txns;
mod verify;

pub use level::{Boundary, Consistency, UnknownLevel, boundary};
pub use list_append::ListAppend;
