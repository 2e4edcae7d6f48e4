//! Is there one order of all operations, respecting real time, that a single copy could have
//! executed? Judged for each object on its own.
//!
//! Semantics, the same everywhere: a `fail` did not happen; an `info` or a call without completion
//! took effect at most once, at any time after its invocation; a cas that failed with
//! [`PRECONDITION`](deposed_history::PRECONDITION) observed that the value was not the expected one;
//! where a completion carries no value, the invocation's counts; the initial value is nil, or empty.
//!
//! An object goes through the cheapest method that decides it: the zone algorithm where values are
//! unique (`register`), else a search ([`dfs`]). A violation becomes a [`case`], is
//! [minimised](minimise), [verified](verify) against the raw history, and explained ([`witness`]).

mod aspects;
mod automaton;
mod case;
mod checker;
mod dfs;
mod judge;
mod mask;
mod memory;
mod minimise;
mod model;
pub mod models;
mod naming;
mod object;
mod planted;
mod portfolio;
mod register;
mod table;
#[cfg(test)]
mod tests;
mod timeline;
mod verify;
mod visited;
mod witness;

pub(crate) use checker::vacuous;
pub(crate) use dfs::GaveUp;
pub(crate) use judge::Effort;
pub(crate) use memory::Reservation;
pub(crate) use object::{Object, Objects, split};
pub(crate) use register::{Between, Lagging, Least};

pub use checker::{Linearizable, ModelKind};
pub use model::{CallView, Leads, Malformed, Model};

/// A time that never comes: the return of a call that may or may not have happened.
const NEVER: u32 = u32::MAX;
