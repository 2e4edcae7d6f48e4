//! A fault-injection test harness for replicated stores.

pub mod cli;
pub mod exit;
pub mod judge;
pub mod run_folder;
