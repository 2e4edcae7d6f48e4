//! A real etcd, described by the bundled system.toml, on loopback addresses.
//!
//! Needs root, and installs Debian's etcd-server if it is missing. Where it cannot, it fails.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod local_remote;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use deposed_core::{Client, ClientError, Cluster, Invocation, Node, System};
use deposed_history::Value;
use deposed_history::fencing::{FencedWrite, STALE_TOKEN, Token};
use deposed_workloads::{DescribedSystem, SystemOptions, load_system};
use local_remote::{cluster, free_ports, nodes};

/// A cluster of etcd with its data below a directory of the test.
struct Rig {
    system: DescribedSystem,
    nodes: Vec<Node>,
    cluster: Cluster,
    dir: tempfile::TempDir,
}

impl Rig {
    fn new(count: u8, read: &str) -> Self {
        Self::with(count, ("read", read))
    }

    /// The bundled file, but with directories for each node, as all of them share this machine.
    fn with(count: u8, option: (&str, &str)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display();
        let text = include_str!("../systems/etcd.toml")
            .replace("{{ options.data }}", &format!("{at}/{{{{ node.name }}}}/data"))
            .replace("[logs]", &format!("[logs]\ndir = \"{at}/{{{{ node.name }}}}/log\""));
        let file = dir.path().join("etcd.toml");
        std::fs::write(&file, text).unwrap();
        let nodes = nodes(count);
        let [client, peer] = free_ports();
        let set = BTreeMap::from([
            (option.0.to_owned(), option.1.to_owned()),
            ("client_port".to_owned(), client.to_string()),
            ("peer_port".to_owned(), peer.to_string()),
        ]);
        let op_limit = Duration::from_millis(1500);
        let options = SystemOptions { set, op_limit, ..SystemOptions::default() };
        let system = load_system(file.to_str().unwrap(), &nodes, &options).unwrap();
        let cluster = cluster(&nodes);
        Self { system, nodes, cluster, dir }
    }

    async fn up(&self) {
        let db = self.system.db();
        for remote in self.cluster.remotes() {
            db.install(&self.cluster, &**remote).await.unwrap();
            db.teardown(&self.cluster, &**remote).await.unwrap();
            db.setup(&self.cluster, &**remote).await.unwrap();
        }
        for remote in self.cluster.remotes() {
            db.ready(&self.cluster, &**remote).await.unwrap();
        }
    }

    async fn down(&self) {
        for remote in self.cluster.remotes() {
            self.system.db().teardown(&self.cluster, &**remote).await.unwrap();
        }
    }

    fn path(&self, node: usize, rest: &str) -> std::path::PathBuf {
        self.dir.path().join(&*self.nodes[node].name).join(rest)
    }

    async fn client(&self, node: usize) -> Box<dyn Client> {
        self.system.clients().connect(&self.nodes[node], 0).await.unwrap()
    }
}

/// Whatever the test did, nothing of it stays.
impl Drop for Rig {
    fn drop(&mut self) {
        for node in &self.nodes {
            let run = format!("/run/deposed/etcd/{}", node.name);
            if let Ok(text) = std::fs::read_to_string(format!("{run}/pid")) {
                let pid = text.split(' ').next().unwrap().to_owned();
                let _ = std::process::Command::new("kill").args(["-KILL", &pid]).status();
                let _ = std::fs::remove_dir_all(run);
            }
        }
    }
}

fn op(f: &str, argument: impl Into<Value>) -> Invocation {
    Invocation { f: f.into(), value: Value::pair("k1", argument) }
}

fn signal(pid: u32, signal: &str) {
    let status = std::process::Command::new("kill").args([signal, &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

async fn check_operations(client: &mut dyn Client) {
    let nothing = client.invoke(&op("read", Value::Nil)).await;
    assert_eq!(nothing, Ok(Value::pair("k1", Value::Nil)));
    let early = client.invoke(&op("cas", Value::pair(1, 2))).await;
    assert_eq!(early, Err(ClientError::Precondition));
    let write = op("write", 1);
    assert_eq!(client.invoke(&write).await, Ok(write.value.clone()));
    let cas = op("cas", Value::pair(1, 2));
    assert_eq!(client.invoke(&cas).await, Ok(cas.value.clone()));
    assert_eq!(client.invoke(&cas).await, Err(ClientError::Precondition));
    assert_eq!(client.invoke(&op("read", Value::Nil)).await, Ok(Value::pair("k1", 2)));
    let create = op("cas", Value::pair(Value::Nil, 3));
    assert_eq!(client.invoke(&create).await, Err(ClientError::Precondition));
}

/// One node: it starts on empty data, serves reads, writes and cas, survives a kill with its data,
/// and teardown removes process and data and may be repeated.
#[tokio::test(flavor = "multi_thread")]
async fn one_node_lives_and_dies() {
    let rig = Rig::new(1, "linearizable");
    rig.up().await;
    check_operations(&mut *rig.client(0).await).await;

    let (db, remote) = (rig.system.db(), &*rig.cluster.remotes()[0].clone());
    let control = db.processes().unwrap();
    let before = control.processes(remote).await.unwrap();
    assert_eq!(before.len(), 1, "{before:?}");
    control.start(&rig.cluster, remote).await.unwrap();
    assert_eq!(control.processes(remote).await.unwrap(), before, "start leaves it alone");

    signal(before[0].pid, "-KILL");
    while !control.processes(remote).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let refused = rig.system.clients().connect(&rig.nodes[0], 0).await;
    assert!(matches!(refused, Err(ClientError::Definite(_))));
    control.start(&rig.cluster, remote).await.unwrap();
    db.ready(&rig.cluster, remote).await.unwrap();
    assert_ne!(control.processes(remote).await.unwrap(), before);
    let kept = rig.client(0).await.invoke(&op("read", Value::Nil)).await;
    assert_eq!(kept, Ok(Value::pair("k1", 2)));

    let logs = db.log_files(remote).await.unwrap();
    assert_eq!(logs.len(), 1);
    assert_eq!(logs[0].name, "etcd.log");
    assert!(std::fs::read_to_string(&logs[0].path).unwrap().contains("etcd"));

    rig.down().await;
    assert!(control.processes(remote).await.unwrap().is_empty());
    assert!(rig.path(0, "data").read_dir().unwrap().next().is_none(), "the data is gone");
    assert!(!Path::new(&format!("/run/deposed/etcd/{}", rig.nodes[0].name)).exists());
    rig.down().await;
}

/// Three nodes: each serves what another wrote, one of them leads, and when it is paused another
/// comes to lead while it cannot be asked; a second controller finds and removes what the first
/// left running.
#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_have_a_leader() {
    let rig = Rig::new(3, "linearizable");
    rig.up().await;
    check_operations(&mut *rig.client(0).await).await;
    for node in 1..3 {
        let read = rig.client(node).await.invoke(&op("read", Value::Nil)).await;
        assert_eq!(read, Ok(Value::pair("k1", 2)));
    }

    let db = rig.system.db();
    let leaders = db.primaries().unwrap().primaries(&rig.cluster).await.unwrap();
    assert_eq!(leaders.len(), 1, "{leaders:?}");
    let remote = rig.cluster.remote(&leaders[0].name).unwrap().clone();
    let pid = db.processes().unwrap().processes(&*remote).await.unwrap()[0].pid;
    signal(pid, "-STOP");
    let mut next = Vec::new();
    for _ in 0..50 {
        next = db.primaries().unwrap().primaries(&rig.cluster).await.unwrap();
        if !next.is_empty() {
            break;
        }
    }
    assert_eq!(next.len(), 1, "{next:?}");
    assert_ne!(next[0].name, leaders[0].name);

    let options = SystemOptions { install: false, ..SystemOptions::default() };
    let file = rig.dir.path().join("etcd.toml");
    let second = load_system(file.to_str().unwrap(), &rig.nodes, &options).unwrap();
    for remote in rig.cluster.remotes() {
        second.db().teardown(&rig.cluster, &**remote).await.unwrap();
        assert!(db.processes().unwrap().processes(&**remote).await.unwrap().is_empty());
    }
}

/// Cut from its quorum, a node answers serializable reads and fails linearizable ones, and a write
/// without an answer is indeterminate.
#[tokio::test(flavor = "multi_thread")]
async fn without_quorum() {
    for (read, served) in [("serializable", true), ("linearizable", false)] {
        let rig = Rig::new(3, read);
        rig.up().await;
        let mut client = rig.client(0).await;
        client.invoke(&op("write", 1)).await.unwrap();
        for remote in &rig.cluster.remotes()[1..] {
            let db = rig.system.db();
            let processes = db.processes().unwrap().processes(&**remote).await.unwrap();
            signal(processes[0].pid, "-STOP");
        }
        let answer = client.invoke(&op("read", Value::Nil)).await;
        if served {
            assert_eq!(answer, Ok(Value::pair("k1", 1)));
        } else {
            assert!(matches!(answer, Err(ClientError::Definite(_))), "{answer:?}");
        }
        let write = client.invoke(&op("write", 2)).await;
        assert!(matches!(write, Err(ClientError::Indefinite(_))), "{write:?}");
        rig.down().await;
    }
}

fn guarded(token: i64, id: &str) -> Invocation {
    let write = FencedWrite { token: Some(token), id, value: Value::Int(1), believed_valid: false };
    op("fenced-write", write.to_value())
}

/// Takes the lock, however often that has to be tried, and says under which token.
async fn take_lock(client: &mut dyn Client) -> i64 {
    for _ in 0..20 {
        if let Ok(Value::List(granted)) = client.invoke(&op("acquire", Value::Nil)).await {
            return granted[1].get("token").and_then(Value::as_int).unwrap();
        }
    }
    panic!("the lock never came free");
}

/// A lock goes with its lease, to a holder with a greater token. What it guards refuses the first
/// holder then, if it compares tokens, and otherwise takes its write as if nothing had happened.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_sleeps_too_long() {
    for (token, refuses) in [("revision", true), ("none", false)] {
        let rig = Rig::with(1, ("token", token));
        rig.up().await;
        let (mut first, mut second) = (rig.client(0).await, rig.client(0).await);
        let old = take_lock(&mut *first).await;
        assert!(first.invoke(&op("renew", Token(old).to_value())).await.is_ok());
        assert!(first.invoke(&guarded(old, "a")).await.is_ok());
        // Nobody renews it from here on.
        let new = take_lock(&mut *second).await;
        assert!(new > old, "{new} after {old}");
        assert!(second.invoke(&guarded(new, "b")).await.is_ok());
        let late = first.invoke(&guarded(old, "c")).await;
        if refuses {
            assert_eq!(late, Err(ClientError::Definite(STALE_TOKEN.into())));
        } else {
            assert!(late.is_ok(), "{late:?}");
        }
        let renewed = first.invoke(&op("renew", Token(old).to_value())).await;
        assert!(matches!(renewed, Err(ClientError::Definite(_))), "{renewed:?}");
        assert!(second.invoke(&op("release", Token(new).to_value())).await.is_ok());
        assert!(take_lock(&mut *first).await > new);
        rig.down().await;
    }
}
