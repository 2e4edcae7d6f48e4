//! Bad links: what happens to their packets, and, where the kernel has it, its own emulator for that
//! (`tc qdisc … netem`). Elsewhere packets go through [a queue](crate::nfqueue).

mod discipline;
mod emulator;
mod shape;

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Spare;

pub use emulator::{Netem, Outgoing, Ssh};
pub use shape::Shape;
pub(crate) use shape::{Fate, Link};

/// The link between this node and a peer, in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerLink {
    /// The addresses of the peer.
    pub peers: BTreeSet<IpAddr>,
    /// What happens to packets.
    pub shape: Shape,
    /// What is let through as it is.
    #[serde(default)]
    pub spared: BTreeSet<Spare>,
}

impl PeerLink {
    /// The peer, for people: its first address.
    pub(crate) fn name(&self) -> String {
        self.peers.first().map_or_else(String::new, IpAddr::to_string)
    }
}

/// What is wrong with some links, if anything.
pub(crate) fn mistakes(links: &[PeerLink]) -> Option<String> {
    if links.is_empty() || links.iter().any(|link| link.peers.is_empty()) {
        return Some("a link has two ends: name a peer".into());
    }
    links.iter().find_map(|link| Some(format!("{}: {}", link.name(), link.shape.mistake()?)))
}
