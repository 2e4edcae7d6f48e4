//! The bundled store's clients, and what its records say.
//!
//! A client asks its own node first and follows the leader from there, as clients do that were
//! given a list of nodes. It stays with a leader until that one says that it leads no more.

mod client;
mod records;
#[cfg(test)]
mod tests;

pub(crate) use client::KIND;
