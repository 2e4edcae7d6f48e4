//! Redis, with Sentinels that say who the master is and make another one.
//!
//! A client asks the Sentinel of its own node, and others only if that one is silent, as clients do
//! that were given a list of Sentinels. What an error of Redis means is in [`outcome`].

mod client;
mod outcome;
mod resp;
mod sentinel;
#[cfg(test)]
mod tests;

pub(crate) use client::KIND;
