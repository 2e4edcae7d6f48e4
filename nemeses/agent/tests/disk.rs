//! The power of a disk is cut, in a mount namespace with a disk of its own. Needs root and loop devices.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each test uses a part of it")]
mod node;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use deposed_agent::disk::{DiskFull, PowerCut};
use deposed_agent::{Process, Spec};
use node::{Node, until};
use tempfile::TempDir;

/// A mount namespace with a disk at `data`, and a store on it that writes all the time: what it synced
/// and what it did not, a line at a time.
struct Machine {
    folder: TempDir,
    holder: Child,
}

const STORE: &str = "n=0; while :; do n=$((n+1)); echo $n >>unsynced
if [ $n = 3 ]; then echo acknowledged >synced; sync synced .; echo ok >../ready; fi; sleep 0.01; done";

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = "mount --make-rprivate /; truncate -s 64M img; mkfs.ext4 -q -F img; mkdir data
            mount -o loop,noatime img data && echo up; exec sleep 1000";
        let mut holder = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--mount", "sh", "-c", script])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n", "these tests need root, unshare, mkfs.ext4 and loop devices");
        Self { folder, holder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn enter(&self) -> [String; 4] {
        ["nsenter", "-t", &self.holder.id().to_string(), "-m"].map(str::to_owned)
    }

    fn sh(&self, script: &str) -> String {
        let [program, rest @ ..] = self.enter();
        let there = format!("cd {}; {script}", self.path().display());
        let output = Command::new(program).args(rest).args(["sh", "-c", &there]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn agent(&self) -> Node {
        let enter = self.enter();
        Node::inside(&enter.each_ref().map(String::as_str))
    }

    /// Starts the store and waits until it has synced something.
    fn store(&self) -> Process {
        let pid = self.sh(&format!(
            "cd data; setsid -f sh -c 'echo $$ >../pid; {STORE}' >/dev/null 2>&1 </dev/null; cd ..
             until [ -e ready ]; do sleep 0.01; done; cat pid"
        ));
        Process::of(pid.parse().unwrap()).unwrap()
    }

    fn cut(&self, store: Process) -> Spec {
        Spec::PowerCut(PowerCut {
            processes: vec![store],
            data: self.path().join("data"),
            start: Some(format!("echo started >>{}/log", self.path().display())),
        })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// What was synced survives, what was not is gone, the store is down; undone, the disk takes writes and
/// the store was started.
#[test]
fn what_was_not_synced_is_gone() {
    let machine = Machine::new();
    let store = machine.store();
    let mut node = machine.agent();
    let seen = node.apply(machine.cut(store));
    assert!(seen.summary.contains("unsynced bytes gone"), "{}", seen.summary);
    assert!(!store.lives());
    assert_eq!(machine.sh("cat data/synced"), "acknowledged");
    assert_eq!(machine.sh("cat data/unsynced 2>/dev/null | wc -c"), "0");
    assert_eq!(machine.sh("cat log 2>/dev/null"), "", "nobody has started it");
    node.undo();
    assert_eq!(machine.sh("cat log"), "started");
    assert_eq!(machine.sh("ls -A data | grep -v lost+found"), "synced\nunsynced");
    assert_eq!(machine.sh("echo x >data/new && sync data/new && cat data/new"), "x");
}

/// The agent dies at once, with the disk cut off and the store killed by nobody: the node recovers when
/// the lease is over.
#[test]
fn the_disk_is_back_after_the_agents_death() {
    let machine = Machine::new();
    let store = machine.store();
    let mut node = machine.agent();
    node.apply(machine.cut(store));
    node.renew(Duration::from_secs(1));
    node.kill_agent();
    until("it is undone", || node.is_clean());
    assert_eq!(machine.sh("cat log"), "started");
    assert_eq!(machine.sh("cat data/synced"), "acknowledged");
    assert_eq!(machine.sh("echo x >data/new && sync data/new && cat data/new"), "x");
}

/// A disk that others use, or that is the machine's own, is left alone.
#[test]
fn disks_of_others_are_refused() {
    let machine = Machine::new();
    let store = machine.store();
    let mut node = machine.agent();
    machine.sh("cd data; setsid -f sleep 1000 >/dev/null 2>&1 </dev/null");
    let refusal = node.try_apply(machine.cut(store)).unwrap_err();
    assert!(refusal.reason.contains("uses the same disk"), "{refusal}");
    let own = PowerCut { processes: vec![store], data: "/etc".into(), start: None };
    let refusal = node.try_apply(Spec::PowerCut(own)).unwrap_err();
    assert!(refusal.reason.contains("one of its own"), "{refusal}");
    assert!(store.lives());
    machine.sh("for p in /proc/[0-9]*; do [ \"$(readlink $p/cwd)\" = \"$PWD/data\" ] && kill -9 ${p#/proc/}; done");
}

/// A full disk takes nothing more, not even what is freed; and it has its room again.
#[test]
fn a_full_disk_takes_nothing() {
    let machine = Machine::new();
    machine.sh("dd if=/dev/zero of=data/old bs=1M count=8 conv=fsync");
    let mut node = machine.agent();
    let write = "dd if=/dev/zero of=data/new bs=64k count=4 conv=fsync 2>&1; rm -f data/new";
    let data = machine.path().join("data");
    let start = Some(format!("echo started >>{}/log", machine.path().display()));
    let seen = node.apply(Spec::DiskFull(DiskFull { data, start }));
    assert!(seen.summary.contains("MiB taken, no room"), "{}", seen.summary);
    assert!(machine.sh(write).contains("No space left"));
    machine.sh("rm data/old; sync data");
    until("what was freed is taken", || machine.sh(write).contains("No space left"));
    assert!(node.prove().holds);
    assert_eq!(machine.sh("cat log 2>/dev/null"), "");
    node.undo();
    assert!(!machine.sh(write).contains("No space left"));
    assert_eq!(machine.sh("cat log; ls -A data | grep -v lost+found"), "started");
}
