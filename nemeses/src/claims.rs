//! Which nodes have their store killed or paused just now, so that two faults of processes never
//! hold the same node and each can prove what it did.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The nodes in hand, shared by the lanes of a run.
#[derive(Debug, Clone, Default)]
pub struct Claims(Arc<Mutex<BTreeSet<String>>>);

impl Claims {
    /// Lets `pick` choose among the nodes that are free, and claims what it chose.
    pub(crate) fn take(
        &self,
        nodes: &[String],
        pick: impl FnOnce(&[String]) -> Vec<String>,
    ) -> Vec<String> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let free: Vec<String> =
            nodes.iter().filter(|node| !held.contains(*node)).cloned().collect();
        let picked = pick(&free);
        held.extend(picked.iter().cloned());
        picked
    }

    /// Gives nodes back.
    pub(crate) fn release<'a>(&self, nodes: impl IntoIterator<Item = &'a String>) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for node in nodes {
            held.remove(node);
        }
    }
}
