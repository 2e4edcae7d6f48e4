//! The words of a test: nodes, remotes, systems, clients, generators, workloads and faults.
//!
//! Traits are small. What only some systems can do is a trait of its own, reached through an
//! `Option<&dyn …>`, so that a fault that needs it is simply not offered where it is absent.

mod client;
mod cluster;
pub mod generator;
mod lane;
mod nemesis;
mod remote;
mod system;
mod warden;

pub use client::{Client, ClientError, ClientFactory, Invocation};
pub use cluster::{Cluster, Node};
pub use generator::{Context, Generator, Next, Thread};
pub use lane::{EventSender, Lane, NemesisEvent, NotRecorded, Stop, StopSender};
pub use nemesis::{Choice, Effect, Evidence, FaultContext, FaultError, Nemesis};
pub use remote::{Command, Conversation, Output, Remote, RemoteError};
pub use system::{
    Db, LogFile, NodeClock, OpSet, Primaries, Process, ProcessControl, Records, System,
    SystemError, WrongTime,
};
pub use warden::{Hold, Loss, Machine, Warden, WardenError};
