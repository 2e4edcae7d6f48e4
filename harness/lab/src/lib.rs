//! A cluster on one Linux machine: namespaces, a bridge, and an sshd for each node.
//!
//! A [`Lab`] is 1 to 9 nodes. Each has its own network, host name, IPC, mounts and process tree, a root file
//! system of its own laid over the host's, a second disk for store data at [`DATA_DIR`], and a real sshd on
//! port 22. The nodes hang on one bridge, the *hub*, in a network namespace that is not the host's: nothing
//! appears among the host's links, two labs may use the same addresses, and no packet leaves.
//!
//! ```text
//!  controller process (network namespace = the hub)
//!    br0 10.73.0.254 ── n1 ═ eth0 10.73.0.1   init ── sshd     one set of namespaces per node
//!                    ├─ n2 ═ eth0 10.73.0.2   init ── sshd
//!                    └─ …
//! ```
//!
//! A node runs on a *machine*, which stays when the node does not: its disks are the machine's, and a [`warden`]
//! can freeze the whole node, or cut the machine's power and boot it again.
//!
//! An *ephemeral* lab belongs to the process that made it and is gone within a second of that process, however
//! it ends: every node's init dies with its parent (parent-death signal, and end-of-file on a pipe as a second
//! guard), and links, mounts, loop devices and unlinked images go with the last process that held them. What the
//! kernel does not take away by itself, control groups, is left to a process that outlives the lab. A
//! [detached] lab is the same thing owned by a process in the background, plus a state file by which it is found.
//!
//! The program that uses this crate re-executes itself for its parts: call [`play_role`] first thing in `main`.
//!
//! What it refuses to do: run without root, change the host's network, clock, services or files, or give a
//! node the rights to do so ([`capabilities`]). It is a guard against accidents, not against hostile code:
//! nodes run as root and share the host's kernel.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the lab is made of Linux namespaces; point deposed at a cluster over SSH from elsewhere"
);

mod address;
mod cable;
pub mod capabilities;
mod control_group;
pub mod detached;
mod disks;
mod error;
mod hub;
mod image;
mod init;
mod inventory;
mod ip;
mod keys;
mod lab;
mod loop_device;
mod machine;
mod node;
pub mod packages;
mod power_loss;
mod process;
mod process_space;
mod role;
mod root;
mod spec;
mod sshd;
mod sweeper;
pub mod warden;

pub use address::{CONTROLLER_V4, CONTROLLER_V6, MAX_NODES, node_v4, node_v6};
pub use error::{LabError, chain};
pub use hub::Hub;
pub use lab::{Lab, LabNode};
pub use machine::{Hold, View};
pub use power_loss::Loss;
pub use role::play_role;
pub use spec::{DATA_DEVICE, DATA_DIR, LabSpec, Login, Sudo};
