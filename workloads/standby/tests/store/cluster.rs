//! A cluster of the store on the loopback device, one process for each part.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use deposed_standby::{Link, Reply, Request};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// How long a client waits for an answer.
pub(crate) const LIMIT: Duration = Duration::from_secs(3);
/// How long anything may take to come about.
const PATIENCE: Duration = Duration::from_secs(10);

/// n1 to n3 are nodes, n4 is the observer, n5 the volume and the external service.
pub(crate) struct Cluster {
    dir: TempDir,
    addrs: Vec<SocketAddr>,
    power: u16,
    flags: Vec<String>,
    processes: Vec<Option<Child>>,
}

impl Cluster {
    /// Starts a cluster with these flags; the term is half a second unless they say otherwise.
    pub(crate) fn start(flags: &str) -> Self {
        let (mut cluster, held) = Self::new(flags);
        drop(held);
        cluster.processes = (0..5).map(|i| Some(cluster.spawn(i, cluster.role(i)))).collect();
        cluster
    }

    /// Starts the first node alone: the test is its observer, and listens where one would be.
    pub(crate) fn start_one(flags: &str) -> (Self, TcpListener) {
        let (mut cluster, mut held) = Self::new(flags);
        let observer = held.swap_remove(3);
        drop(held);
        cluster.processes = vec![Some(cluster.spawn(0, "node"))];
        (cluster, observer)
    }

    /// A cluster of which nothing runs yet, and what holds its addresses.
    fn new(flags: &str) -> (Self, Vec<TcpListener>) {
        // The switches have one port, so each part has an address of its own, as nodes have.
        let hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.1"];
        let held = hosts.map(|host| TcpListener::bind((host, 0)).unwrap());
        let mut addrs: Vec<_> = held.iter().map(|held| held.local_addr().unwrap()).collect();
        let power = addrs.pop().unwrap().port();
        let term = if flags.contains("--term-ms") { "" } else { "--term-ms 500" };
        let flags = format!("{term} --margin-ms 100 --outage-ms 300 {flags}");
        let flags = flags.split_whitespace().map(str::to_owned).collect();
        let dir = tempfile::tempdir().unwrap();
        (Self { dir, addrs, power, flags, processes: Vec::new() }, held.into())
    }

    fn role(&self, i: usize) -> &'static str {
        let powered = self.flags.iter().any(|flag| flag == "power-off");
        match i {
            3 => "observer",
            4 => "volume,external",
            _ if powered => "supervisor,node",
            _ => "node",
        }
    }

    /// A process of node `i` with a role.
    pub(crate) fn spawn(&self, i: usize, role: &str) -> Child {
        let nodes: Vec<String> = (0..3).map(|i| format!("n{}={}", i + 1, self.addrs[i])).collect();
        let listen = match role {
            "power" => SocketAddr::new(self.addrs[i].ip(), self.power),
            _ => self.addrs[i],
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_standbyd"));
        command
            .args(["--name", &format!("n{}", i + 1), "--listen", &listen.to_string()])
            .args(["--data", self.dir.path().join(format!("n{}", i + 1)).to_str().unwrap()])
            .args(["--role", role, "--nodes", &nodes.join(",")])
            .args(["--observer", &self.addrs[3].to_string()])
            .args(["--volume", &self.addrs[4].to_string()])
            .args(["--external-at", &self.addrs[4].to_string()])
            .args(["--power-port", &self.power.to_string()])
            .args(&self.flags)
            .stdin(Stdio::null());
        command.spawn().unwrap()
    }

    pub(crate) fn signal(&self, i: usize, signal: Signal) {
        let pid = self.processes[i].as_ref().unwrap().id();
        kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
        if let Some(store) = self.supervised(i) {
            // It may be gone: that is what its switch is for.
            let _ = kill(store, signal);
        }
    }

    /// The store below a supervisor.
    fn supervised(&self, i: usize) -> Option<Pid> {
        let file = self.dir.path().join(format!("n{}/store.pid", i + 1));
        let text = std::fs::read_to_string(file).ok()?;
        let pid = text.split(' ').next()?;
        // By now the number may be somebody else's.
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        let ours = line.contains(self.dir.path().to_str()?);
        pid.parse().ok().map(Pid::from_raw).filter(|_| ours)
    }

    /// Kills a process that this cluster started.
    pub(crate) fn kill(&mut self, i: usize) {
        let mut child = self.processes[i].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn restart(&mut self, i: usize) {
        self.processes[i] = Some(self.spawn(i, self.role(i)));
    }

    /// A client of one node.
    pub(crate) fn client(&self, i: usize) -> Link {
        Link::new(self.addrs[i], "client")
    }

    pub(crate) async fn ask(&self, i: usize, request: Request) -> Reply {
        let reply = self.client(i).call(&request, LIMIT).await;
        reply.unwrap_or_else(|error| Reply::Info { error: error.to_string() })
    }

    /// The node that leads, other than `not`, by its own account and able to prove it.
    pub(crate) async fn leader(&self, not: Option<usize>) -> usize {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            for i in (0..3).filter(|i| Some(*i) != not && self.processes[*i].is_some()) {
                let limit = Duration::from_millis(100);
                let status = self.client(i).call(&Request::Status, limit).await;
                if matches!(status, Ok(Reply::Status { leads: true, .. })) {
                    return i;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("nobody leads");
    }

    /// Asks the leader until it is done, and says by which token.
    pub(crate) async fn done(&self, request: Request) -> (Value, u64) {
        let start = Instant::now();
        let mut last = None;
        while start.elapsed() < PATIENCE {
            let leader = self.leader(None).await;
            match self.ask(leader, request.clone()).await {
                Reply::Ok { value, token, .. } => return (value, token),
                reply => last = Some(reply),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{request:?}: {last:?}");
    }

    /// What a part wrote to one of its records.
    pub(crate) fn record(&self, i: usize, name: &str) -> Vec<Value> {
        let path = self.dir.path().join(format!("n{}", i + 1)).join(name);
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Tokens of the accepted attempts to write to the volume, in its order.
    pub(crate) fn accepted(&self) -> Vec<u64> {
        let attempts = self.record(4, "volume.jsonl");
        let accepted = attempts.iter().filter(|attempt| attempt["accepted"] == true);
        accepted.map(|attempt| attempt["token"].as_u64().unwrap()).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for mut child in self.processes.iter_mut().filter_map(Option::take) {
            let _ = child.kill();
            let _ = child.wait();
        }
        for store in (0..3).filter_map(|i| self.supervised(i)) {
            let _ = kill(store, Signal::SIGKILL);
        }
    }
}

pub(crate) async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

pub(crate) fn append(value: i64) -> Request {
    Request::Append { list: "log".into(), value: value.into() }
}

pub(crate) fn list() -> Request {
    Request::List { list: "log".into() }
}

pub(crate) fn put(id: u64) -> Request {
    Request::Put { id: id.to_string(), value: id.into() }
}

pub(crate) fn acquire(owner: &str, ttl_ms: u64) -> Request {
    Request::Acquire { lock: "a".into(), owner: owner.into(), ttl_ms }
}
