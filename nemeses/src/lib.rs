//! How to hurt: faults, targets, schedules, evidence and healing.

mod agents;
mod claims;
mod clock;
mod fanout;
mod firewall;
mod grudge;
mod heal;
mod injections;
mod journal;
mod kill;
mod lane;
mod mistake;
mod packets;
mod partition;
mod pause;
mod power_cut;
mod preset;
mod processes;
mod program;
mod restart;
mod schedule;
mod slow;
mod spec;
mod target;

pub use agents::Agents;
pub use claims::Claims;
pub use grudge::{Grudge, Partition, Shape};
pub use heal::{heal_all, heal_run};
pub use injections::{Injection, Injections};
pub use journal::{Entry, Journal, Undo, pending};
pub use lane::{LaneOptions, lanes};
pub use mistake::Mistake;
pub use preset::Preset;
pub use schedule::Timing;
pub use spec::{KINDS, Kind, LaneSpec, parse};
pub use target::Target;
