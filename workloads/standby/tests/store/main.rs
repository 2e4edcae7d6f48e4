//! The store as it runs: several processes, real TCP, real signals.

mod cluster;
mod failover;
mod mistakes;
mod service;
