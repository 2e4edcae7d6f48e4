//! `standby`: a small replicated store whose protections against a deposed leader are switches.
//!
//! Nodes keep a log of writes, one of them leads. Who leads is decided by an observer or by a vote
//! ([`Failover`]). The leader also writes to two things that are not replicated: a volume, which
//! may check tokens or shut a node out ([`Fencing`]), and an external service, which knows nothing
//! of leadership. Each mechanism of failover is one switch of [`Config`], and each mistake people
//! make with it is one [`Mistake`]: a visible branch, so that a checker can be shown to find it.
//!
//! It is a store to be tested, not to be used: it keeps its whole log in memory, and what it writes
//! survives the kill of its process, not of its machine.
//!
//! | part | file | what it does |
//! |---|---|---|
//! | node | `node/` | replicates the log, serves clients, passes writes on to volume and service |
//! | observer | `observer.rs` | renews the leader's grant; promotes another when it has run out |
//! | volume | `volume.rs` | a register and its log of attempts; checks tokens, refuses nodes |
//! | external | `external.rs` | performs calls, once for each request or once for each id |
//! | power | `power.rs` | kills the store of a node when told, as a power switch would |

mod clock;
mod config;
mod daemon;
mod external;
mod journal;
mod lease;
mod node;
mod observer;
mod power;
mod state;
mod volume;
mod wire;

pub use clock::Clock;
pub use config::{Acks, Config, External, Failover, Fencing, Mistake, OnStale, Peer, Reads, Role};
pub use daemon::{main, run};
pub use wire::{CallError, Link, Reply, Request};
