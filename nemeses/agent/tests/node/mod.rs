//! An agent as it runs on a node, in folders that only one test uses.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use deposed_agent::{Failure, Home, Journal, Lease, Reply, Request, Sight, Spec};
use tempfile::TempDir;

/// A conversation with an agent, which has been given a lease.
pub(crate) struct Node {
    folder: TempDir,
    agent: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Node {
    pub(crate) fn new() -> Self {
        Self::inside(&[])
    }

    /// An agent that a command brings to where it is to act: `nsenter` and its arguments.
    pub(crate) fn inside(enter: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (volatile, lasting) = (folder.path().join("run"), folder.path().join("lib"));
        let program = env!("CARGO_BIN_EXE_deposed-agent");
        let mut words = enter.iter().copied().chain([program]);
        let mut command = Command::new(words.next().unwrap_or(program));
        command.args(words).arg("--home").args([volatile, lasting]).arg("serve");
        let mut node = Self::behind(folder, &mut command);
        node.renew(Duration::from_secs(120));
        node
    }

    /// An agent that is spoken to through a command. It has no lease yet.
    pub(crate) fn behind(folder: TempDir, command: &mut Command) -> Self {
        let mut agent = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let requests = agent.stdin.take().unwrap();
        let replies = BufReader::new(agent.stdout.take().unwrap());
        Self { folder, agent, requests, replies }
    }

    pub(crate) fn home(&self) -> Home {
        Home::new(self.folder.path().join("run"), self.folder.path().join("lib"))
    }

    pub(crate) fn ask(&mut self, request: &Request) -> Reply {
        writeln!(self.requests, "{}", serde_json::to_string(request).unwrap()).unwrap();
        let mut line = String::new();
        self.replies.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) fn renew(&mut self, ttl: Duration) {
        let ttl_ms = ttl.as_millis() as u64;
        assert_eq!(self.ask(&Request::Renew { ttl_ms }), Reply::Done);
    }

    pub(crate) fn try_apply(&mut self, spec: Spec) -> Result<(), Failure> {
        self.try_apply_as("test-1", spec)
    }

    /// The same, under another name than usual.
    pub(crate) fn try_apply_as(&mut self, name: &str, spec: Spec) -> Result<(), Failure> {
        match self.ask(&Request::Apply { name: name.into(), spec }) {
            Reply::Done => Ok(()),
            Reply::Failed(failure) => Err(failure),
            other => panic!("{other:?}"),
        }
    }

    /// Applies a fault and has it seen.
    pub(crate) fn apply(&mut self, spec: Spec) -> Sight {
        self.try_apply(spec).unwrap();
        let sight = self.prove();
        assert!(sight.holds, "{sight:?}");
        sight
    }

    pub(crate) fn prove(&mut self) -> Sight {
        self.seen(&Request::Prove { name: "test-1".into() })
    }

    /// What there is to see, or why there is nothing.
    pub(crate) fn try_prove(&mut self) -> Result<Sight, Failure> {
        match self.ask(&Request::Prove { name: "test-1".into() }) {
            Reply::Seen(sight) => Ok(sight),
            Reply::Failed(failure) => Err(failure),
            other => panic!("{other:?}"),
        }
    }

    /// Undoes it and has that seen.
    pub(crate) fn undo(&mut self) -> Sight {
        self.undo_as("test-1")
    }

    /// The same, under another name than usual.
    pub(crate) fn undo_as(&mut self, name: &str) -> Sight {
        let sight = self.seen(&Request::Undo { name: name.into() });
        assert!(sight.holds, "{sight:?}");
        sight
    }

    fn seen(&mut self, request: &Request) -> Sight {
        match self.ask(request) {
            Reply::Seen(sight) => sight,
            other => panic!("{other:?}"),
        }
    }

    /// Kills the agent, which healing must survive.
    pub(crate) fn kill_agent(&mut self) {
        self.agent.kill().unwrap();
        self.agent.wait().unwrap();
    }

    /// Lets the lease run out now.
    pub(crate) fn end_lease(&self) {
        Lease::new(&self.home()).end().unwrap();
    }

    /// Whether nothing is left to be undone.
    pub(crate) fn is_clean(&self) -> bool {
        Journal::lock(&self.home()).unwrap().records().unwrap().is_empty()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A keeper that outlived the folder would look for it until its lease is over.
        if self.agent.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.ask(&Request::UndoAll);
            let _ = self.ask(&Request::Renew { ttl_ms: 0 });
            let _ = self.agent.kill();
        }
        let _ = self.agent.wait();
    }
}

/// A network namespace, for as long as a process in it lives.
pub(crate) struct Place {
    holder: Child,
    pub(crate) pid: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--net", "sh", "-c"])
            .arg("ip link set lo up; echo up; exec sleep 1000")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n", "these tests need root, setpriv, unshare and iproute2");
        let pid = child.id().to_string();
        Self { holder: child, pid }
    }

    pub(crate) fn enter(&self) -> [&str; 4] {
        ["nsenter", "-t", &self.pid, "-n"]
    }

    pub(crate) fn sh(&self, script: &str) -> String {
        let [program, rest @ ..] = self.enter();
        let output = Command::new(program).args(rest).args(["sh", "-c", script]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Waits, for as long as a busy machine may need.
#[track_caller]
pub(crate) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(60), "never came true: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
