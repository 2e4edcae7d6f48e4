//! A fault-injection test harness for replicated stores: the controller.
//!
//! `ARCHITECTURE.md` beside this crate shows the life of a run on one screen.

pub mod cli;
pub mod doctor;
pub mod exit;
pub mod inventory;
pub mod judge;
pub mod life;
pub mod logs;
pub mod progress;
pub mod protections;
mod records;
pub mod remote;
pub mod rig;
pub mod run;
pub mod run_folder;
pub mod settings;
pub mod verdict;
