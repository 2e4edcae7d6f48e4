//! Linearizability: every model against brute force, and what is said of violations.

mod models;
mod oracle;
mod register;
mod witness;
