//! The product as its users run it: the real binary, real labs, a real store, real faults.
//!
//! These tests need root and a Debian machine; where that is missing they fail, they do not pass.
//! Two go on at a time, however many cores there are: they mostly wait, but more on one machine would
//! measure each other.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it stands")]

mod bench;
mod clusters;
mod controllers;
mod faults;
mod findings;
mod held;
mod lab;
mod mistakes;
mod processes;
mod waiting;
