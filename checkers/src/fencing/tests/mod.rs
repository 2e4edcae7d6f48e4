//! The fencing checker: small cases with known answers, its definitions evaluated by brute force on
//! random histories, its verifier against all witnesses there can be, and a simulated system with
//! planted mistakes.

use deposed_history::History;

mod brute_force;
mod cases;
mod random;
mod script;
mod simulated;
mod systems;
mod tampered;
mod witnesses;

/// A history as it is written down.
fn text(history: &History) -> String {
    let mut bytes = Vec::new();
    deposed_history::jsonl::write(&mut bytes, history).unwrap();
    String::from_utf8(bytes).unwrap()
}
