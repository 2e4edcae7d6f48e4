//! Transactions: which consistency level a history has, and what rules the others out.
//!
//! - [`ListAppend`]: appends to lists and reads of them. The version orders can be read off.
//! - [`RwRegister`]: writes of registers and reads of them. Where the version orders are not known,
//!   they are searched for.
//! - [`Bank`]: transfers between accounts keep the total.
//! - [`LongFork`]: reads saw single writes in one order.
//!
//! The first two build Adya's graph of dependencies (ww, wr, rw) with the order of processes or of time as
//! the level demands, and look for cycles in it; anomalies and levels are named as Elle names them.
//! Each anomaly that is reported was verified against the raw history by code that knows nothing of
//! the search.

mod bank;
mod certificate;
mod completeness;
mod components;
mod cycles;
mod decode;
mod events;
mod explain;
mod facts;
mod fan;
mod graph;
mod interner;
mod isolation;
mod level;
mod list_append;
mod long_fork;
mod order;
mod planted;
mod reach;
mod replay;
mod report;
mod rw_register;
mod sequence;
#[cfg(test)]
mod tests;
mod txns;
mod verify;

pub use bank::Bank;
pub use level::{Boundary, Consistency, UnknownLevel, boundary};
pub use list_append::ListAppend;
pub use long_fork::LongFork;
pub use rw_register::RwRegister;
