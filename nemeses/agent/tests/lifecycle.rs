//! The program as it runs on a node: what is applied is undone, whoever dies.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use deposed_agent::{Home, Journal, Look, Process, Reply, Request, Spec, Stop};
use nix::sys::signal::Signal;
use tempfile::TempDir;

/// A node of its own: folders that only this test's agents use.
struct Node {
    folder: TempDir,
}

/// A conversation with an agent.
struct Talk {
    agent: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Node {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn home(&self) -> Home {
        Home::new(self.folder.path().join("run"), self.folder.path().join("lib"))
    }

    fn program(&self, role: &str) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_deposed-agent"));
        program.arg("--home").arg(self.home().volatile()).arg(self.home().lasting()).arg(role);
        program
    }

    fn talk(&self) -> Talk {
        let mut serve = self.program("serve");
        let mut agent = serve.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let requests = agent.stdin.take().unwrap();
        let replies = BufReader::new(agent.stdout.take().unwrap());
        Talk { agent, requests, replies }
    }

    fn records(&self) -> usize {
        Journal::lock(&self.home()).unwrap().records().unwrap().len()
    }
}

impl Talk {
    fn ask(&mut self, request: &Request) -> Reply {
        writeln!(self.requests, "{}", serde_json::to_string(request).unwrap()).unwrap();
        let mut line = String::new();
        self.replies.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn renew(&mut self, ttl: Duration) {
        let ttl_ms = ttl.as_millis() as u64;
        assert_eq!(self.ask(&Request::Renew { ttl_ms }), Reply::Done);
    }

    fn stop(&mut self, victim: &Victim) {
        let spec = Spec::Stop(Stop { processes: vec![victim.process] });
        assert_eq!(self.ask(&Request::Apply { name: "pause-1".into(), spec }), Reply::Done);
        match self.ask(&Request::Prove { name: "pause-1".into() }) {
            Reply::Seen(sight) => assert!(sight.holds, "{sight:?}"),
            other => panic!("{other:?}"),
        }
    }

    fn kill(mut self) {
        self.agent.kill().unwrap();
        self.agent.wait().unwrap();
    }
}

/// A process to hurt.
struct Victim {
    child: Child,
    process: Process,
}

impl Victim {
    fn new() -> Self {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        Self { child, process }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits, for as long as a busy machine may need.
#[track_caller]
fn until(what: &str, mut is: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(60), "never came true: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
    start.elapsed()
}

fn stopped(victim: &Victim) -> bool {
    matches!(victim.process.look(), Look::Stopped { .. })
}

/// Applied, seen, undone, seen, and nothing left to undo.
#[test]
fn a_fault_is_applied_proven_undone_and_proven_undone() {
    let (node, victim) = (Node::new(), Victim::new());
    let mut talk = node.talk();
    talk.renew(Duration::from_secs(60));
    talk.stop(&victim);
    assert!(stopped(&victim));
    assert_eq!(node.records(), 1);
    for _ in 0..2 {
        match talk.ask(&Request::Undo { name: "pause-1".into() }) {
            Reply::Seen(sight) => assert!(sight.holds, "{sight:?}"),
            other => panic!("{other:?}"),
        }
        assert_eq!((stopped(&victim), node.records()), (false, 0));
    }
    talk.renew(Duration::ZERO);
}

/// Nothing is applied without a lease: there would be nobody to undo it.
#[test]
fn nothing_is_applied_without_a_lease() {
    let (node, victim) = (Node::new(), Victim::new());
    let spec = Spec::Stop(Stop { processes: vec![victim.process] });
    match node.talk().ask(&Request::Apply { name: "pause-1".into(), spec }) {
        Reply::Failed(failure) => assert!(failure.reason.contains("lease"), "{failure}"),
        other => panic!("{other:?}"),
    }
    assert!(!stopped(&victim));
}

/// Nobody renews: the keeper undoes everything when the lease runs out, not before, whether the agent
/// lives, was killed, or its channel was closed.
#[test]
fn the_keeper_heals_when_the_lease_runs_out() {
    let ttl = Duration::from_secs(3);
    let ends: [fn(Talk); 3] = [std::mem::forget, Talk::kill, drop];
    let mut running = Vec::new();
    for end in ends {
        let (node, victim) = (Node::new(), Victim::new());
        let mut talk = node.talk();
        talk.renew(Duration::from_secs(60));
        talk.stop(&victim);
        let renewed = Instant::now();
        talk.renew(ttl);
        end(talk);
        running.push((node, victim, renewed));
    }
    for (node, victim, renewed) in running {
        until("it runs again", || !stopped(&victim));
        assert!(renewed.elapsed() >= ttl, "too early: {:?}", renewed.elapsed());
        until("it is forgotten", || node.records() == 0);
    }
}

/// A keeper that is killed is replaced when the lease is renewed next.
#[test]
fn a_killed_keeper_is_replaced() {
    let (node, victim) = (Node::new(), Victim::new());
    let mut talk = node.talk();
    talk.renew(Duration::from_secs(60));
    talk.stop(&victim);
    let home = node.home().volatile().display().to_string();
    let keeper = || {
        let mut all = std::fs::read_dir("/proc").unwrap().flatten();
        all.find_map(|entry| {
            let words = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
            let pid = entry.file_name().to_str()?.parse().ok()?;
            (words.contains(&home) && words.ends_with("keep\0")).then(|| Process::of(pid))?
        })
    };
    until("there is a keeper", || keeper().is_some());
    let first = keeper().unwrap();
    first.signal(Signal::SIGKILL).unwrap();
    until("it is dead", || !first.lives());
    talk.renew(Duration::from_secs(1));
    talk.kill();
    until("it runs again", || !stopped(&victim));
}

/// From a cold start everything in the journal is undone; and what was stopped by somebody else stays
/// stopped.
#[test]
fn a_cold_heal_undoes_what_is_ours_only() {
    let (node, victim, other) = (Node::new(), Victim::new(), Victim::new());
    other.process.signal(Signal::SIGSTOP).unwrap();
    until("it is stopped", || stopped(&other));
    let mut talk = node.talk();
    talk.renew(Duration::from_secs(60));
    let spec = Spec::Stop(Stop { processes: vec![victim.process, other.process] });
    assert_eq!(talk.ask(&Request::Apply { name: "pause-1".into(), spec }), Reply::Done);
    talk.kill();
    for _ in 0..2 {
        assert!(node.program("heal").status().unwrap().success());
        assert_eq!((stopped(&victim), stopped(&other), node.records()), (false, true, 0));
    }
    node.talk().renew(Duration::ZERO);
}

/// What cannot be understood is answered, not acted upon, and does not end the conversation.
#[test]
fn nonsense_is_answered() {
    let node = Node::new();
    let mut talk = node.talk();
    writeln!(talk.requests, "what?").unwrap();
    let mut line = String::new();
    talk.replies.read_line(&mut line).unwrap();
    assert!(line.contains("read a request"), "{line}");
    assert_eq!(talk.ask(&Request::List), Reply::Faults(vec![]));
    let spec = Spec::Stop(Stop { processes: vec![] });
    let reply = talk.ask(&Request::Apply { name: "../pause".into(), spec });
    assert!(matches!(reply, Reply::Failed(_)), "{reply:?}");
}

/// A new connection is the only one: what was sent over an earlier one, and not read until now, is never done.
#[test]
fn an_agent_takes_over_from_the_one_before() {
    let (node, held, spared) = (Node::new(), Victim::new(), Victim::new());
    let mut before = node.talk();
    before.renew(Duration::from_secs(60));
    before.stop(&held);
    // It stands still as its node would, and the request waits.
    let agent = Process::of(before.agent.id()).unwrap();
    agent.signal(Signal::SIGSTOP).unwrap();
    let spec = Spec::Stop(Stop { processes: vec![spared.process] });
    let late = Request::Apply { name: "pause-2".into(), spec };
    writeln!(before.requests, "{}", serde_json::to_string(&late).unwrap()).unwrap();

    let mut talk = node.talk();
    talk.renew(Duration::from_secs(60));
    let _ = agent.signal(Signal::SIGCONT);
    before.agent.wait().unwrap();
    assert!(!stopped(&spared), "what nobody wants any more was done");
    assert!(stopped(&held), "what was in force before is in force");
    assert_eq!(talk.ask(&Request::List), Reply::Faults(vec!["pause-1".into()]));
    talk.renew(Duration::ZERO);
    until("nothing is left to undo", || node.records() == 0);
}
