//! Who has which address. The plan is the same in every lab: each has a network of its own.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Most nodes a lab may have; names are `n1` to `n9`.
pub const MAX_NODES: u8 = 9;

/// The controller's address on the bridge.
pub const CONTROLLER_V4: Ipv4Addr = Ipv4Addr::new(10, 73, 0, 254);

/// The controller's IPv6 address on the bridge.
pub const CONTROLLER_V6: Ipv6Addr = v6(0xfe);

/// Prefix length of the IPv4 network.
pub(crate) const PREFIX_V4: u8 = 24;

/// Prefix length of the IPv6 network.
pub(crate) const PREFIX_V6: u8 = 64;

/// Address of node `index` (1-based).
pub const fn node_v4(index: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 73, 0, index)
}

/// IPv6 address of node `index` (1-based).
pub const fn node_v6(index: u8) -> Ipv6Addr {
    v6(index as u16)
}

/// Name of node `index` (1-based); also its host name and the name of its port on the bridge.
pub(crate) fn node_name(index: u8) -> String {
    format!("n{index}")
}

const fn v6(host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd73, 0, 0, 0, 0, 0, 0, host)
}
