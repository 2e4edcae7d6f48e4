//! A fault-injection test harness for replicated stores.

pub mod cli;
pub mod doctor;
pub mod exit;
pub mod inventory;
pub mod judge;
pub mod remote;
pub mod run;
pub mod run_folder;
