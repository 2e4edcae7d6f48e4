//! What hurts on a node.
//!
//! One small program is put on each node and spoken to over its SSH channel, a JSON object a line
//! ([`Request`], [`Reply`]); it opens no port. Each fault is a [`Primitive`], and each goes the same
//! way ([`Agent`]):
//!
//! 1. *plan*: look at the node, touch nothing, and say all that undoing will take;
//! 2. *record*: write that to the node's own journal, synced ([`Journal`]);
//! 3. *apply*, *prove*, hold, *undo*, *prove undone*.
//!
//! A fault lives under a lease that whoever asked for it must renew ([`Lease`]). A second process,
//! the keeper ([`keep`]), undoes everything from the journal when the lease runs out, whatever
//! became of the connection, the controller or the agent. So [`Primitive::undo`] gets nothing but
//! the record, and may be asked twice.
//!
//! # A new primitive
//! A file with a type that is its own specification and implements [`Primitive`], its module below,
//! and a line in `registry.rs`. Nothing else changes.

mod agent;
mod cgroup;
pub mod clock;
mod cut;
pub mod disk;
mod failure;
mod flap;
mod freeze;
mod home;
mod journal;
mod keeper;
mod kill;
mod lease;
mod limit;
pub mod netem;
mod netlink;
pub mod nfqueue;
mod nftables;
mod primitive;
mod process;
mod protocol;
mod registry;
mod serve;
mod slow;
mod stop;
mod supervisor;
mod tool;
pub mod vdso;
mod wall;

pub use agent::Agent;
pub use cut::{Answer, Backend, Cut, Protocol, Scope, Spare};
pub use failure::{Failure, Result};
pub use flap::Flap;
pub use freeze::Freeze;
pub use home::Home;
pub use journal::{Journal, Record};
pub use keeper::{heal, keep};
pub use kill::Kill;
pub use lease::Lease;
pub use limit::{Limit, Quota};
pub use primitive::{Primitive, Sight};
pub use process::{Look, Process};
pub use protocol::{Reply, Request};
pub use registry::{Spec, Undo};
pub use serve::serve;
pub use slow::Slow;
pub use stop::Stop;
pub use supervisor::{Blow, Supervisor};
pub use wall::Wall;
