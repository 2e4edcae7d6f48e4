//! The parts that the program plays when it is re-executed.

use crate::{detached, init, sweeper};

/// Process 1 of a node.
pub(crate) const INIT: &str = "lab-init";

/// The process in the background that owns a detached lab.
pub(crate) const HUB: &str = "lab-hub";

/// The process that outlives a lab and removes what it leaves on the host.
pub(crate) const SWEEPER: &str = "lab-sweeper";

/// Plays the part that this process was started for, and then does not return. Returns at once in a process
/// that was started for none. Must come first in `main`: the parts make namespaces, which are a thread's.
pub fn play_role() {
    match std::env::args().nth(1).as_deref() {
        Some(INIT) => init::play(),
        Some(HUB) => detached::play_hub(),
        Some(SWEEPER) => sweeper::play(),
        _ => {}
    }
}
