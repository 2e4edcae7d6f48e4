//! What happened in a run: operations, processes, histories, and the formats they are kept in.
//!
//! A [`History`] is an immutable, compact sequence of [`Op`]s. An op is one *event*: the invocation
//! of an operation by a process, or its completion. [`History::calls`] pairs the two.
//!
//! Nothing here knows clocks, files or sockets: readers take `impl Read`, writers `impl Write`.

mod arena;
mod columns;
pub mod edn;
pub mod elle;
mod fault;
pub mod fencing;
mod few;
mod flaw;
mod header;
mod history;
pub mod jsonl;
mod narrow;
mod near;
mod op;
mod pairing;
pub mod read;
mod strings;
mod validate;
mod value;
mod view;
mod word;

pub use fault::{
    Coverage, Effect, Episode, FaultAction, FaultEvent, Moment, Sighting, coverage, episodes,
};
pub use fencing::LogEvent;
pub use flaw::{FLAWS_LISTED_MAX, Flaw, Flaws, ReadError};
pub use header::{Header, SCHEMA_VERSION};
pub use history::{History, HistoryBuilder, OpRef};
pub use op::{Op, OpType, PRECONDITION, Process};
pub use pairing::{Call, Outcome};
pub use read::{Format, Loaded, ReadOptions, read, read_header, read_str};
pub use strings::Symbol;
pub use validate::{Rules, validate};
pub use value::Value;
pub use view::{ListRef, MapRef, ValueRef};
pub use word::{Word, Words};
