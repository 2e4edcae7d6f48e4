//! The fencing checker: small cases with known answers, its definitions evaluated by brute force on
//! random histories, and a simulated system with planted mistakes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it stands")]

mod brute_force;
mod cases;
mod random;
mod script;
mod simulated;
mod systems;
mod tampered;
