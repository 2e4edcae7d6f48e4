//! The cable between a node and the bridge in the hub.

use crate::address::node_name;

/// The bridge that the nodes hang on, in the hub.
pub(crate) const BRIDGE: &str = "br0";

/// Marks the lab's links in the hub, so that they can be deleted together.
pub(crate) const LINK_GROUP: u32 = 73;

/// Lines for ip(8) that plug node `index` in, whose init has this process number. A machine keeps its hardware
/// address over a boot: peers that have noted it are not kept waiting.
pub(crate) fn plug(index: u8, pid: i32) -> Vec<String> {
    let name = node_name(index);
    let peer = format!("name eth0 address 02:de:90:5e:d0:{index:02x} netns {pid}");
    vec![
        format!("link add {name} group {LINK_GROUP} type veth peer {peer}"),
        format!("link set {name} master {BRIDGE} up"),
    ]
}

/// A line that pulls it out.
pub(crate) fn unplug(index: u8) -> String {
    format!("link del {}", node_name(index))
}
