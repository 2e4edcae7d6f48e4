//! etcd's v3 API over gRPC: reads, writes and compare-and-set on keys; locks, and what they guard.
//!
//! A client talks to the one node it was made for. It sends every operation once; what an error
//! means is in [`outcome`].

mod client;
mod lock;
mod outcome;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use client::KIND;
