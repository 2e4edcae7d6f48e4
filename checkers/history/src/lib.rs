//! What happened in a run: operations, processes, histories, and the formats they are kept in.
//!
//! A [`History`] is an immutable, compact sequence of [`Op`]s. An op is one *event*: the invocation
//! of an operation by a process, or its completion. [`History::calls`] pairs the two.
//!
//! Nothing here knows clocks, files or sockets: readers take `impl Read`, writers `impl Write`.

mod fault;
mod header;
mod history;
pub mod jsonl;
mod op;
mod value;

pub use fault::{
    Coverage, Effect, Episode, FaultAction, FaultEvent, Moment, Sighting, coverage, episodes,
};
pub use header::{Header, SCHEMA_VERSION};
pub use history::{Call, History, HistoryBuilder, OpRef, Outcome};
pub use op::{Op, OpType, PRECONDITION, Process};
pub use value::{ListRef, MapRef, Symbol, Value, ValueRef};
