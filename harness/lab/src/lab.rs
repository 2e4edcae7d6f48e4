//! A running lab, from up to down.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use crate::address::{
    CONTROLLER_V4, CONTROLLER_V6, PREFIX_V4, PREFIX_V6, node_name, node_v4, node_v6,
};
use crate::error::LabError;
use crate::hub::Hub;
use crate::init::Boot;
use crate::inventory::{Inventory, InventoryNode, known_host};
use crate::keys::{self, KeyPair};
use crate::node::{BOOT_LIMIT, Node};
use crate::packages::{lab_requirements, missing};
use crate::spec::LabSpec;
use crate::{ip, sshd};

/// The bridge that the nodes hang on, in the hub.
const BRIDGE: &str = "br0";

/// Marks the lab's links in the hub, so that they can be deleted together.
const LINK_GROUP: u32 = 73;

/// A running lab. It ends when this value is dropped, and with the process at the latest.
#[derive(Debug)]
pub struct Lab {
    nodes: Vec<Node>,
    directory: PathBuf,
}

impl Lab {
    /// Brings a lab up in `hub` and returns when every node answers SSH. One that cannot be brought up
    /// completely is taken down again.
    pub fn up(hub: &Hub, spec: &LabSpec) -> Result<Lab, LabError> {
        spec.check()?;
        let missing = missing(&lab_requirements(spec));
        if !missing.is_empty() {
            return Err(LabError::MissingTools { missing });
        }
        let deadline = Instant::now() + BOOT_LIMIT;
        let directory = spec.directory.clone().unwrap_or_else(|| hub.private_directory());
        let sshd_config = sshd::config(spec.logins.iter().any(|login| login.password.is_some()))?;
        let v6 = ip::has_v6();
        let (client, hosts) = make_keys(spec, &directory)?;

        let mut lab = Lab { nodes: Vec::new(), directory };
        for (index, host) in (1..).zip(&hosts) {
            let boot = Boot {
                index,
                nodes: spec.nodes,
                v6,
                base: lab.directory.clone(),
                root_device: PathBuf::new(),
                data_device: PathBuf::new(),
                hidden: spec.hidden.clone(),
                host_key: host.private.clone(),
                authorized_key: client.public.clone(),
                sshd_config: sshd_config.clone(),
                logins: spec.logins.clone(),
            };
            lab.nodes.push(Node::start(spec, index, boot, &lab.directory)?);
        }
        lab.write_inventory(&hosts)?;
        ip::batch(&bridge(v6))?;
        for node in &mut lab.nodes {
            node.wait_isolated(deadline)?;
        }
        let cables: Vec<String> = lab.nodes.iter().flat_map(cable).collect();
        let plugged =
            ip::batch(&cables).and_then(|()| lab.nodes.iter_mut().try_for_each(Node::plugged));
        // A node that is gone cannot be plugged in: what it said before tells more than that.
        plugged
            .map_err(|error| lab.nodes.iter_mut().find_map(Node::last_words).unwrap_or(error))?;
        for node in &mut lab.nodes {
            node.wait_answers(deadline)?;
        }
        Ok(lab)
    }

    /// The nodes, in order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The directory of keys, inventory and node logs.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The inventory: what `--nodes-file` takes.
    pub fn nodes_file(&self) -> PathBuf {
        self.directory.join("cluster.toml")
    }

    /// The private key that root of every node accepts.
    pub fn key(&self) -> PathBuf {
        self.directory.join("id")
    }

    /// The host keys of all nodes, under names and addresses.
    pub fn known_hosts(&self) -> PathBuf {
        self.directory.join("known_hosts")
    }

    fn write_inventory(&self, hosts: &[KeyPair]) -> Result<(), LabError> {
        let lines = (1..).zip(hosts).map(|(index, host)| {
            known_host(&node_name(index), node_v4(index), node_v6(index), &host.public)
        });
        let path = self.known_hosts();
        fs::write(&path, lines.collect::<String>())
            .map_err(|error| LabError::path("write", &path, error))?;
        let nodes =
            self.nodes.iter().map(|node| InventoryNode { name: node.name(), addr: node.v4() });
        let inventory = Inventory {
            user: "root".into(),
            port: 22,
            key: self.key(),
            known_hosts: self.known_hosts(),
            nodes: nodes.collect(),
        };
        inventory.write(&self.nodes_file())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.kill();
        }
        self.nodes.clear();
        // Cables go with the nodes' namespaces, but only some time later: a next lab wants the names now.
        // A failure leaves them to that, or to the end of the hub.
        let _ = ip::batch(&[format!("link del group {LINK_GROUP}")]);
    }
}

/// One key for the controller, one for each node; `known_hosts` and the inventory name the former.
fn make_keys(spec: &LabSpec, directory: &Path) -> Result<(KeyPair, Vec<KeyPair>), LabError> {
    let at = |name: &str| directory.join(name);
    let names =
        (1..=spec.nodes).map(|index| (at(&format!("host-{}", node_name(index))), node_name(index)));
    let all: Vec<(PathBuf, String)> =
        [(at("id"), "deposed".into())].into_iter().chain(names).collect();
    for (path, _) in &all {
        // ssh-keygen asks before it replaces one; this lab's directory may have seen another before.
        let _ = fs::remove_file(path);
    }
    let made: Result<Vec<KeyPair>, LabError> = thread::scope(|scope| {
        let threads: Vec<_> =
            all.iter().map(|(path, comment)| scope.spawn(|| keys::make(path, comment))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<KeyPair, LabError>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    let mut made = made?;
    let client = made.remove(0);
    Ok((client, made))
}

fn bridge(v6: bool) -> Vec<String> {
    let mut lines = vec![
        "link set lo up".into(),
        // Snooping would hold multicast back until it has seen who listens.
        format!("link add {BRIDGE} group {LINK_GROUP} type bridge mcast_snooping 0"),
        format!("addr add {CONTROLLER_V4}/{PREFIX_V4} dev {BRIDGE}"),
        format!("link set {BRIDGE} up"),
    ];
    if v6 {
        lines.push(format!("addr add {CONTROLLER_V6}/{PREFIX_V6} dev {BRIDGE} nodad"));
    }
    lines
}

fn cable(node: &Node) -> Vec<String> {
    let (name, pid) = (node.name(), node.pid());
    vec![
        format!("link add {name} group {LINK_GROUP} type veth peer name eth0 netns {pid}"),
        format!("link set {name} master {BRIDGE} up"),
    ]
}
