//! What is in hand just now, so that each fault can prove what it did: two faults of processes never hold the
//! store of the same node, and two faults of links never hold the network.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use deposed_core::FaultError;

/// What stands for the links between nodes: no node has such a name.
const LINKS: &str = "the links";

/// What is in hand, shared by the lanes of a run.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    held: Arc<Mutex<BTreeSet<String>>>,
    /// Nodes whose data was damaged in this run.
    damaged: Arc<Mutex<BTreeSet<String>>>,
    /// Nodes that cannot be reached because their machine is held.
    lost: Arc<Mutex<BTreeSet<String>>>,
}

impl Claims {
    /// Lets `pick` choose among the nodes that are free, and claims what it chose.
    pub(crate) fn take(
        &self,
        nodes: &[String],
        pick: impl FnOnce(&[String]) -> Vec<String>,
    ) -> Vec<String> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let free: Vec<String> =
            nodes.iter().filter(|node| !held.contains(*node)).cloned().collect();
        let picked = pick(&free);
        held.extend(picked.iter().cloned());
        picked
    }

    /// Claims the links between nodes; says whether they were free.
    pub(crate) fn take_links(&self) -> bool {
        !self.take(&[LINKS.to_owned()], <[String]>::to_vec).is_empty()
    }

    /// Gives the links back.
    pub(crate) fn release_links(&self) {
        self.release([&LINKS.to_owned()]);
    }

    /// Gives nodes back.
    pub(crate) fn release<'a>(&self, nodes: impl IntoIterator<Item = &'a String>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        for node in nodes {
            held.remove(node);
            lost.remove(node);
        }
    }

    /// Notes that nodes, which are claimed, cannot be reached until they are given back.
    pub(crate) fn lose(&self, nodes: &[String]) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).extend(nodes.iter().cloned());
    }

    /// Refuses nodes of which some cannot be reached. For faults that claim no nodes.
    ///
    /// # Errors
    /// With those.
    pub(crate) fn reach(&self, nodes: &[String]) -> Result<(), FaultError> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let lost: Vec<&str> =
            nodes.iter().filter(|node| lost.contains(*node)).map(String::as_str).collect();
        match lost.is_empty() {
            true => Ok(()),
            false => Err(FaultError::Nothing(format!("frozen or off: {}", lost.join(" ")))),
        }
    }

    /// The nodes whose data was damaged in this run.
    pub(crate) fn damaged(&self) -> BTreeSet<String> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds nodes to those, unless there would be more than `most`; says whether they are among them.
    pub(crate) fn damage(&self, nodes: &[String], most: usize) -> bool {
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        let more: BTreeSet<String> = damaged.iter().chain(nodes).cloned().collect();
        let fits = more.len() <= most;
        if fits {
            *damaged = more;
        }
        fits
    }
}
