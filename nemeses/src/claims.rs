//! What is in hand just now, so that each fault can prove what it did: two faults of processes never hold the
//! store of the same node, and two faults of links never hold the network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use deposed_core::FaultError;

/// What stands for the links between nodes: no node has such a name.
const LINKS: &str = "the links";

/// What is in hand, shared by the lanes of a run.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    /// The lane that claims here.
    lane: u32,
    /// How many lanes there are.
    lanes: Arc<AtomicU32>,
    /// What is claimed, and by which lane.
    held: Arc<Mutex<BTreeMap<String, u32>>>,
    /// Nodes whose data was damaged in this run.
    damaged: Arc<Mutex<BTreeSet<String>>>,
    /// Nodes that cannot be reached because their machine is held.
    lost: Arc<Mutex<BTreeSet<String>>>,
    /// All that ever were, in order.
    losses: Arc<Mutex<Vec<String>>>,
}

impl Claims {
    /// The same, for one more lane.
    #[must_use]
    pub fn for_another_lane(&self) -> Self {
        Self { lane: self.lanes.fetch_add(1, Ordering::Relaxed) + 1, ..self.clone() }
    }

    /// Lets `pick` choose among the nodes that are free, and claims what it chose.
    pub(crate) fn take(
        &self,
        nodes: &[String],
        pick: impl FnOnce(&[String]) -> Vec<String>,
    ) -> Vec<String> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let free: Vec<String> =
            nodes.iter().filter(|node| !held.contains_key(*node)).cloned().collect();
        let picked = pick(&free);
        held.extend(picked.iter().map(|node| (node.clone(), self.lane)));
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

    /// Those of some nodes that this lane holds.
    pub(crate) fn ours(&self, nodes: &[String]) -> Vec<String> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.iter().filter(|node| held.get(*node) == Some(&self.lane)).cloned().collect()
    }

    /// Gives nodes back. Those that another lane has claimed since stay with it.
    pub(crate) fn release<'a>(&self, nodes: impl IntoIterator<Item = &'a String>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        for node in nodes {
            if held.get(node) == Some(&self.lane) {
                held.remove(node);
                lost.remove(node);
            }
        }
    }

    /// Notes that nodes, which are claimed, cannot be reached until they are given back.
    pub(crate) fn lose(&self, nodes: &[String]) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).extend(nodes.iter().cloned());
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).extend(nodes.iter().cloned());
    }

    /// How many nodes were lost until now: for [`Self::lost_since`].
    pub(crate) fn losses(&self) -> usize {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Those of some nodes that were lost since then, even if only for a while.
    pub(crate) fn lost_since(&self, losses: usize, nodes: &[String]) -> BTreeSet<String> {
        let all = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        all[losses..].iter().filter(|node| nodes.contains(node)).cloned().collect()
    }

    /// Those nodes that can be reached. For faults that claim no nodes.
    pub(crate) fn reachable(&self, nodes: &[String]) -> Vec<String> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.iter().filter(|node| !lost.contains(*node)).cloned().collect()
    }

    /// Refuses nodes of which some cannot be reached. For faults that claim no nodes.
    ///
    /// # Errors
    /// With those.
    pub(crate) fn reach(&self, nodes: &[String]) -> Result<(), FaultError> {
        let reachable = self.reachable(nodes);
        let lost: Vec<&str> =
            nodes.iter().filter(|node| !reachable.contains(node)).map(String::as_str).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What one lane gave back and another took stays with that one, even if it is given back once more.
    #[test]
    fn a_lane_gives_back_what_it_holds() {
        let claims = Claims::default();
        let (kill, pause) = (claims.for_another_lane(), claims.for_another_lane());
        let nodes = ["n1", "n2"].map(str::to_owned);
        kill.take(&nodes, <[String]>::to_vec);
        assert!(pause.take(&nodes, <[String]>::to_vec).is_empty());
        kill.release(&nodes[..1]);
        assert_eq!(kill.ours(&nodes), nodes[1..]);
        assert_eq!(pause.take(&nodes, <[String]>::to_vec), nodes[..1]);
        kill.release(&nodes);
        assert_eq!(pause.ours(&nodes), nodes[..1]);
        assert!(kill.ours(&nodes).is_empty());
    }

    /// A node whose machine is held is left out, or refused where it was named, until it is given back.
    #[test]
    fn lost_nodes_are_not_reached() {
        let claims = Claims::default();
        let nodes = ["n1", "n2", "n3"].map(str::to_owned);
        claims.take(&nodes, |free| free[..1].to_vec());
        let before = claims.losses();
        claims.lose(&nodes[..1]);
        assert_eq!(claims.reachable(&nodes), nodes[1..]);
        let refused = claims.reach(&nodes).unwrap_err().to_string();
        assert!(refused.contains("frozen or off: n1"), "{refused}");
        assert!(claims.reach(&nodes[1..]).is_ok());
        claims.release(&nodes[..1]);
        assert_eq!(claims.reachable(&nodes), nodes);
        assert_eq!(claims.lost_since(before, &nodes), BTreeSet::from(["n1".to_owned()]));
        assert!(claims.lost_since(before, &nodes[1..]).is_empty());
        assert!(claims.lost_since(claims.losses(), &nodes).is_empty());
    }
}
