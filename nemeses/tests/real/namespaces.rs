//! Nodes for tests: namespaces of this machine on one bridge, dual-stack, reached by `nsenter`.
//!
//! Every process dies with the test; with the processes go namespaces, links, mounts and rules.

use std::io::BufRead as _;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command as Std, Stdio};
use std::sync::{Arc, Mutex, Once, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use deposed_core::{Cluster, Command, Conversation, Node, Output, Remote, RemoteError, Warden};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};

/// A few nodes `n1`, `n2`, … at 10.99.0.1/fd99::1, 10.99.0.2/fd99::2, …
pub(crate) struct Namespaces {
    /// Remotes of all of them.
    pub(crate) cluster: Cluster,
    nodes: Vec<Arc<Namespace>>,
    _hub: Holder,
}

/// A process that holds namespaces, killed when dropped.
struct Holder(Child, u32);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One node.
pub(crate) struct Namespace {
    node: Node,
    holder: Holder,
    /// `SSH_CONNECTION` as commands see it.
    ssh: Mutex<Option<String>>,
    /// Whether commands fail as over a cut line.
    cut: Arc<Mutex<bool>>,
    /// Who is said to hold its machine.
    warden: OnceLock<Box<dyn Warden>>,
}

impl Holder {
    /// `unshare`s, runs `setup` inside and waits until it has.
    fn new(namespaces: &[&str], setup: &str) -> Self {
        let script = format!("set -e\n{setup}\necho up\nwhile :; do sleep 1000; done");
        let mut child = Std::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare"])
            .args(namespaces)
            .args(["--fork", "--kill-child", "sh", "-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("these tests need root, setpriv, unshare, iproute2, iptables, nftables, ping");
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n", "a namespace could not be set up: are you root?");
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let inner = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
        Self(child, inner)
    }
}

static INSTALLED: Once = Once::new();

/// Installs what of these tests' tools is missing.
fn install() {
    let script = "for tool in ip iptables nft ping; do command -v $tool || missing=yes; done
        [ $missing ] || exit 0
        get() { DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \"$@\"; }
        tools='iproute2 iptables nftables iputils-ping'
        get install --no-install-recommends $tools || {
            get update && get install --no-install-recommends $tools
        }";
    let done = Std::new("sh")
        .args(["-c", script])
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn must(program: &str, args: &str) {
    let done = Std::new(program).args(args.split_whitespace()).output().unwrap();
    assert!(done.status.success(), "{program} {args}: {}", String::from_utf8_lossy(&done.stderr));
}

impl Namespaces {
    /// So many nodes.
    pub(crate) fn new(count: usize) -> Self {
        INSTALLED.call_once(install);
        let hub =
            Holder::new(&["--net", "--pid"], "ip link add br0 type bridge; ip link set br0 up");
        let nodes: Vec<Arc<Namespace>> =
            (1..=count).map(|i| Arc::new(Namespace::new(i, hub.1))).collect();
        let remotes = nodes.iter().map(|node| Arc::clone(node) as Arc<dyn Remote>).collect();
        Self { cluster: Cluster::new(remotes), nodes, _hub: hub }
    }

    /// The names of the nodes.
    pub(crate) fn names(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.node.name.to_string()).collect()
    }

    /// A node, from 1.
    pub(crate) fn node(&self, number: usize) -> &Namespace {
        &self.nodes[number - 1]
    }

    /// Which of some addresses answer a ping, each from a node by number; all tried at once.
    pub(crate) fn reached<'a>(&self, tries: &[(usize, &'a str)]) -> Vec<(usize, &'a str)> {
        let ping = |(from, to): &(usize, &str)| {
            let script = format!("exec ping -c 1 -W 1 {to} >/dev/null 2>&1");
            self.node(*from).enter(&script).spawn().unwrap()
        };
        let pings: Vec<Child> = tries.iter().map(ping).collect();
        let answered = tries.iter().zip(pings);
        answered
            .filter_map(|(to, mut ping)| ping.wait().unwrap().success().then_some(*to))
            .collect()
    }

    /// What all nodes print.
    pub(crate) fn everywhere(&self, script: &str) -> Vec<String> {
        self.nodes.iter().map(|node| node.sh(script)).collect()
    }
}

impl Namespace {
    fn new(i: usize, hub: u32) -> Self {
        let holder = Holder::new(
            &["--net", "--mount", "--pid"],
            "mount --make-rprivate /; mount -t proc proc /proc; mount -t tmpfs tmpfs /run
             mount -t tmpfs tmpfs /var/lib
             ip link set lo up",
        );
        let pid = holder.1;
        must(
            "nsenter",
            &format!("-t {hub} -n ip link add p{i} type veth peer name eth0 netns {pid}"),
        );
        must("nsenter", &format!("-t {hub} -n ip link set p{i} master br0 up"));
        must("nsenter", &format!("-t {pid} -n ip addr add 10.99.0.{i}/24 dev eth0"));
        must("nsenter", &format!("-t {pid} -n ip addr add fd99::{i}/64 dev eth0 nodad"));
        // Every node has this one, as with bridges of containers: it must not be taken for a peer's.
        must("nsenter", &format!("-t {pid} -n ip addr add 172.17.0.1/16 dev lo"));
        must("nsenter", &format!("-t {pid} -n ip link set eth0 up"));
        let addr: IpAddr = format!("10.99.0.{i}").parse().unwrap();
        let node = Node { name: format!("n{i}").into(), addr };
        let warden = OnceLock::new();
        Self { node, holder, ssh: Mutex::new(None), cut: Arc::new(Mutex::new(false)), warden }
    }

    /// Makes commands look as if they came over SSH: `FROM PORT TO PORT`.
    pub(crate) fn set_ssh(&self, connection: &str) {
        *self.ssh.lock().unwrap() = Some(connection.to_owned());
    }

    /// Makes commands fail from now on, or work again.
    pub(crate) fn set_cut(&self, cut: bool) {
        *self.cut.lock().unwrap() = cut;
    }

    /// What [`Namespace::set_cut`] sets.
    pub(crate) fn line(&self) -> Arc<Mutex<bool>> {
        Arc::clone(&self.cut)
    }

    /// Says, once, who holds its machine.
    pub(crate) fn set_warden(&self, warden: impl Warden + 'static) {
        assert!(self.warden.set(Box::new(warden)).is_ok(), "it has a warden");
    }

    fn enter(&self, script: &str) -> Std {
        let mut command = Std::new("nsenter");
        command.args(["-t", &self.holder.1.to_string(), "-n", "-m", "-p", "sh", "-c", script]);
        command
    }

    /// Runs a script in the node, whatever the line to it, and returns its trimmed output.
    pub(crate) fn sh(&self, script: &str) -> String {
        let done = self.enter(script).output().unwrap();
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }

    fn lost(&self, command: &str) -> RemoteError {
        RemoteError::Lost {
            node: self.node.name.to_string(),
            command: command.chars().take(20).collect(),
            reason: "cut by the test".into(),
        }
    }
}

#[async_trait]
impl Remote for Namespace {
    fn node(&self) -> &Node {
        &self.node
    }

    fn warden(&self) -> Option<&dyn Warden> {
        self.warden.get().map(Box::as_ref)
    }

    async fn exec(&self, command: Command) -> Result<Output, RemoteError> {
        if *self.cut.lock().unwrap() {
            return Err(self.lost(&command.script));
        }
        let pid = self.holder.1.to_string();
        let mut child = tokio::process::Command::new("nsenter");
        child.args(["-t", &pid, "-n", "-m", "-p", "sh", "-c", &command.script]);
        child.env_remove("SSH_CONNECTION");
        if let Some(ssh) = &*self.ssh.lock().unwrap() {
            child.env("SSH_CONNECTION", ssh);
        }
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.kill_on_drop(true).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&command.stdin).await.unwrap();
        match tokio::time::timeout(command.deadline, child.wait_with_output()).await {
            Ok(done) => {
                let done = done.unwrap();
                let status = done.status.code().unwrap_or(128);
                Ok(Output { status, stdout: done.stdout, stderr: done.stderr })
            }
            Err(_) => Err(RemoteError::Deadline {
                node: self.node.name.to_string(),
                command: command.script,
                deadline: command.deadline,
            }),
        }
    }

    async fn upload(&self, bytes: &[u8], to: &str, mode: u32) -> Result<(), RemoteError> {
        let script = format!("mkdir -p \"$(dirname {to})\" && cat >{to} && chmod {mode:o} {to}");
        self.run(Command::new(script).stdin(bytes)).await.map(drop)
    }

    async fn download(&self, from: &str, _to: &Path) -> Result<(), RemoteError> {
        Err(self.lost(from))
    }

    async fn converse(&self, script: &str) -> Result<Box<dyn Conversation>, RemoteError> {
        if *self.cut.lock().unwrap() {
            return Err(self.lost(script));
        }
        let mut child = tokio::process::Command::from(self.enter(script));
        child.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let talk = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let cut = Arc::clone(&self.cut);
        Ok(Box::new(Pipes { node: self.node.clone(), talk: talk.into(), cut }))
    }
}

/// A program in a node that answers lines.
struct Pipes {
    node: Node,
    talk: tokio::sync::Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    cut: Arc<Mutex<bool>>,
}

#[async_trait]
impl Conversation for Pipes {
    async fn ask(&self, line: &str, deadline: Duration) -> Result<String, RemoteError> {
        let lost = |reason: &str| RemoteError::Lost {
            node: self.node.name.to_string(),
            command: line.chars().take(40).collect(),
            reason: reason.into(),
        };
        if *self.cut.lock().unwrap() {
            return Err(lost("cut by the test"));
        }
        let mut talk = self.talk.lock().await;
        let mut answer = String::new();
        let exchange = async {
            talk.0.write_all(format!("{line}\n").as_bytes()).await?;
            talk.1.read_line(&mut answer).await
        };
        match tokio::time::timeout(deadline, exchange).await {
            Ok(Ok(length)) if length > 0 => Ok(answer),
            _ => Err(lost("no answer")),
        }
    }
}
