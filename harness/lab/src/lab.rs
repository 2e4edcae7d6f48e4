//! A running lab, from up to down.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::address::{
    CONTROLLER_V4, CONTROLLER_V6, PREFIX_V4, PREFIX_V6, node_name, node_v4, node_v6,
};
use crate::cable::{BRIDGE, LINK_GROUP};
use crate::disks::Disks;
use crate::error::LabError;
use crate::hub::Hub;
use crate::init::Boot;
use crate::inventory::{Inventory, InventoryNode, known_host};
use crate::keys::{self, KeyPair};
use crate::machine::Machine;
use crate::node::{BOOT_LIMIT, Node};
use crate::packages::{lab_requirements, missing};
use crate::spec::LabSpec;
use crate::sweeper::Sweeper;
use crate::warden::{SOCKET, Warden};
use crate::{ip, sshd};

/// A running lab. It ends when this value is dropped, and with the process at the latest.
#[derive(Debug)]
pub struct Lab {
    warden: Warden,
    directory: PathBuf,
    boots: Mutex<Receiver<()>>,
}

/// A node of a lab, as it is just now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabNode {
    index: u8,
    pid: i32,
}

impl LabNode {
    /// Its name, `n1` to `n9`; also that of its port on the bridge.
    pub fn name(&self) -> String {
        node_name(self.index)
    }

    /// Its address.
    pub const fn v4(&self) -> Ipv4Addr {
        node_v4(self.index)
    }

    /// Its IPv6 address, if the kernel has IPv6.
    pub const fn v6(&self) -> Ipv6Addr {
        node_v6(self.index)
    }

    /// Process number of its init on this host; 0 while it has no power.
    pub const fn pid(&self) -> i32 {
        self.pid
    }
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
        let sweeper = Arc::new(Sweeper::start(&spec.program)?);

        let disks = make_disks(spec)?;
        let machines = (1..).zip(&hosts).zip(disks).map(|((index, host), disks)| {
            // A log may be there from another lab in this directory.
            let _ = fs::remove_file(directory.join(format!("{}.log", node_name(index))));
            let boot = Boot {
                index,
                nodes: spec.nodes,
                v6,
                base: directory.clone(),
                root_device: PathBuf::new(),
                data_device: PathBuf::new(),
                hidden: spec.hidden.clone(),
                host_key: host.private.clone(),
                authorized_key: client.public.clone(),
                sshd_config: sshd_config.clone(),
                logins: spec.logins.clone(),
                start: None,
            };
            Machine::new(&spec.program, &directory, boot, disks, Arc::clone(&sweeper))
        });
        let (booted, boots) = channel();
        let warden = Warden::start(machines.collect(), &directory, booted)?;
        let lab = Lab { warden, directory, boots: Mutex::new(boots) };
        lab.write_inventory(&hosts)?;
        lab.boot(v6, deadline)?;
        Ok(lab)
    }

    /// Boots every machine, all at once.
    fn boot(&self, v6: bool, deadline: Instant) -> Result<(), LabError> {
        let mut machines: Vec<_> = self.warden.machines().collect();
        for machine in &mut machines {
            machine.start()?;
        }
        ip::batch(&bridge(v6))?;
        let mut cables = Vec::new();
        for machine in &mut machines {
            cables.extend(machine.wait_isolated(deadline)?);
        }
        let mut nodes: Vec<&mut Node> =
            machines.iter_mut().filter_map(|machine| machine.node.as_mut()).collect();
        let plugged =
            ip::batch(&cables).and_then(|()| nodes.iter_mut().try_for_each(|node| node.plugged()));
        // A node that is gone cannot be plugged in: what it said before tells more than that.
        plugged.map_err(|error| {
            nodes.iter_mut().find_map(|node| node.last_words()).unwrap_or(error)
        })?;
        nodes.iter_mut().try_for_each(|node| node.wait_answers(deadline))
    }

    /// The nodes, in order.
    pub fn nodes(&self) -> Vec<LabNode> {
        let machines = self.warden.machines();
        machines.map(|machine| LabNode { index: machine.index(), pid: machine.pid() }).collect()
    }

    /// Waits until a node has booted again after it had lost its power. Returns at once if one has since this
    /// was last asked.
    pub fn wait_for_boot(&self) {
        let boots = self.boots.lock().unwrap_or_else(PoisonError::into_inner);
        // Who sends lives as long as this lab.
        let _ = boots.recv();
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
        let nodes = self
            .nodes()
            .into_iter()
            .map(|node| InventoryNode { name: node.name(), addr: node.v4() });
        let inventory = Inventory {
            user: "root".into(),
            port: 22,
            key: self.key(),
            known_hosts: self.known_hosts(),
            warden: self.directory.join(SOCKET),
            nodes: nodes.collect(),
        };
        inventory.write(&self.nodes_file())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let mut machines: Vec<_> = self.warden.machines().collect();
        for node in machines.iter_mut().filter_map(|machine| machine.node.as_mut()) {
            node.kill();
        }
        machines.iter_mut().for_each(|machine| machine.end());
        drop(machines);
        // Cables go with the nodes' namespaces, but only some time later: a next lab wants the names now.
        // A failure leaves them to that, or to the end of the hub.
        let _ = ip::batch(&[format!("link del group {LINK_GROUP}")]);
    }
}

/// Disks for every node, made all at once.
fn make_disks(spec: &LabSpec) -> Result<Vec<Disks>, LabError> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..spec.nodes).map(|_| scope.spawn(|| Disks::make(spec))).collect();
        threads.into_iter().map(joined).collect()
    })
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
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
        threads.into_iter().map(joined).collect()
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
