//! What happens to disks, in a mount namespace with a disk of its own. Needs root and loop devices.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each test uses a part of it")]
mod node;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use deposed_agent::disk::{Damage, DiskFull, Harm, Layer, PowerCut, Trouble, Use};
use deposed_agent::{Process, Spec};
use nix::sys::signal::Signal;
use node::{Node, until};
use tempfile::TempDir;

/// A mount namespace with a disk at `data`, and a store on it that writes all the time: what it synced
/// and what it did not, a line at a time. What is run here is in a pid namespace, which ends with it: a
/// process that stayed would keep the disk.
struct Machine {
    folder: TempDir,
    holder: Child,
    /// The first process inside.
    inner: u32,
}

const STORE: &str = "n=0; while :; do n=$((n+1)); echo $n >>unsynced
if [ $n = 3 ]; then echo acknowledged >synced; sync synced .; echo ok >../ready; fi; sleep 0.01; done";

/// A shell notes its pid as it is known outside, where /proc is of.
const WHO: &str = "read -r pid rest </proc/self/stat; echo $pid >../pid";

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = "mount --make-rprivate /; truncate -s 64M img; mkfs.ext4 -q -F img; mkdir data
            mount -o loop,noatime img data && echo up; exec sleep 1000";
        let mut holder = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"])
            .args(["sh", "-c", script])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n", "these tests need root, unshare, mkfs.ext4 and loop devices");
        let children = format!("/proc/{0}/task/{0}/children", holder.id());
        let inner = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
        Self { folder, holder, inner }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn enter(&self) -> [String; 4] {
        ["nsenter", "-t", &self.inner.to_string(), "-m"].map(str::to_owned)
    }

    fn sh(&self, script: &str) -> String {
        let [program, rest @ ..] = self.enter();
        let there = format!("cd {}; {script}", self.path().display());
        let output =
            Command::new(program).args(rest).args(["-p", "sh", "-c", &there]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn agent(&self) -> Node {
        let enter = self.enter();
        Node::inside(&enter.each_ref().map(String::as_str))
    }

    /// Starts the store and waits until it has synced something.
    fn store(&self) -> Process {
        let pid = self.sh(&format!(
            "cd data; setsid -f sh -c '{WHO}; {STORE}' >/dev/null 2>&1 </dev/null
             cd ..; until [ -e ready ]; do sleep 0.01; done; cat pid"
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

/// Where the data of a machine is, how it is stopped and how it is started, as notes in its log.
fn layer(machine: &Machine) -> Spec {
    let note = |word: &str| format!("echo {word} >>{}/log", machine.path().display());
    let data = machine.path().join("data");
    Spec::DiskLayer(Layer { data, stop: note("stopped"), start: note("started") })
}

/// What programs do to files, all of it; prints what there is afterwards.
const WORK: &str = "set -e; cd data; umask 027; cp -a /usr/share/common-licenses /etc/alternatives .
mkdir -p a/b; echo one >a/b/file; echo two >>a/b/file; ln a/b/file a/hard; ln -s b/file a/soft; mv a/b/file a/moved
chmod 640 a/moved; chown 7:8 a/hard; mkfifo a/fifo; truncate -s 3 a/hard
fallocate -l 100K a/big; dd if=/dev/zero of=a/big bs=1k count=3 conv=notrunc,fsync 2>/dev/null; sync a
flock a/big true; rm -r a/b; exec 3<>a/gone; rm a/gone; echo kept >&3; grep -q kept /proc/self/fd/3 || true
mkdir -m 2775 shared; chgrp 9 shared; chmod g+s shared; touch shared/new; df . >/dev/null; mv -n a/big a/moved
setpriv --reuid 7 --regid 8 --clear-groups sh -c '! touch mine 2>/dev/null'; chmod 777 .
setpriv --reuid 7 --regid 8 --clear-groups touch mine; chmod 755 .
touch -hd @1000000001 a/soft; touch -d @1000000000 a/big; stat -c %Y a/soft a/big alternatives/README
find . -name lost+found -prune -o -printf '%P %y %m %n %U %G %l\\n' | sort; find . -type f -exec cksum {} + | sort";

/// What is done through the layer is done to what lies beneath, the same as without.
#[test]
fn a_layer_passes_everything_through() {
    let (with, without) = (Machine::new(), Machine::new());
    let mut node = with.agent();
    node.apply(layer(&with));
    assert!(with.sh("cat /proc/mounts").contains("data fuse.deposed rw"));
    assert_eq!(with.sh("cat log"), "stopped\nstarted");
    let (done, expected) = (with.sh(WORK), without.sh(WORK));
    assert!(done.lines().count() > 20, "{done}");
    assert_eq!(done, expected);
    let look = "cd data; find . -type f -exec cksum {} + | sort";
    let before = with.sh(look);
    node.undo();
    assert!(!with.sh("cat /proc/mounts").contains("fuse.deposed"));
    assert_eq!(with.sh(look), before);
    assert!(with.sh("cat log").ends_with("stopped\nstarted"), "{}", with.sh("cat log"));
}

/// What is to fail fails, nothing else does, and it counts what others met; a sync takes its time.
#[test]
fn trouble_is_what_was_asked_for() {
    let machine = Machine::new();
    let data = machine.path().join("data");
    machine.sh("echo old >data/file");
    let mut node = machine.agent();
    node.try_apply_as("layer-1", layer(&machine)).unwrap();
    let tries = [
        (Use::Read, "cat data/file"),
        (Use::Write, "echo new | dd of=data/file conv=notrunc"),
        (Use::Fsync, "sync data/file"),
    ];
    for (wrong, _) in &tries {
        machine.sh("cat data/file");
        let trouble = Trouble { data: data.clone(), fail: vec![*wrong], fsync_ms: 0 };
        let seen = node.apply(Spec::DiskTrouble(trouble));
        assert!(seen.summary.contains("the store met 0"), "{}", seen.summary);
        for (what, script) in &tries {
            let said = machine.sh(&format!("({script}) 2>&1"));
            assert_eq!(said.contains("Input/output error"), what == wrong, "{wrong:?} {said}");
        }
        until("it is counted", || !node.prove().summary.contains("met 0"));
        node.undo();
        for (_, script) in &tries {
            let said = machine.sh(&format!("({script}) 2>&1"));
            assert!(!said.contains("error"), "{said}");
        }
    }
    node.apply(Spec::DiskTrouble(Trouble { data, fail: vec![], fsync_ms: 400 }));
    let took = || {
        let (start, said) = (Instant::now(), machine.sh("sync data/file; cat data/file"));
        (start.elapsed() >= Duration::from_millis(400), said)
    };
    assert_eq!(took(), (true, "new".to_owned()));
    node.undo();
    until("a sync takes no time", || !took().0);
    // Nor does a store that waits keep anybody waiting when it is over.
    node.undo_as("layer-1");
    assert_eq!(machine.sh("ls -A data | grep -v lost+found; cat data/file"), "file\nnew");
}

/// A server that dies leaves requests that fail and none that hang, and the keeper takes its mount away;
/// also if it only stands still.
#[test]
fn a_dead_layer_hangs_nobody() {
    for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
        let machine = Machine::new();
        machine.sh("echo old >data/file");
        let mut node = machine.agent();
        node.apply(layer(&machine));
        let holder = std::fs::read(node.home().volatile().join("faults/test-1.holder")).unwrap();
        let holder: Process = serde_json::from_slice(&holder).unwrap();
        holder.signal(signal).unwrap();
        if signal == Signal::SIGKILL {
            until("it is gone", || !holder.lives());
            let said = machine.sh("cat data/file 2>&1");
            assert!(said.contains("connect"), "{said}");
            let seen = node.prove();
            assert!(seen.summary.contains("the process that holds it is gone"), "{seen:?}");
        }
        node.kill_agent();
        node.end_lease();
        until("it is undone", || node.is_clean());
        assert_eq!(machine.sh("cat data/file; grep -c fuse.deposed /proc/mounts"), "old\n0");
        assert!(machine.sh("cat log").ends_with("stopped\nstarted"));
    }
}

/// Damage of the data of a store that lives on it as long as `file` says what it should.
fn damage(machine: &Machine, harm: Harm, seed: u64) -> Spec {
    let there = |script: &str| format!("cd {}; {script}", machine.path().display());
    Spec::Damage(Damage {
        data: machine.path().join("data/store"),
        harm,
        seed,
        stop: there("rm -f runs; echo stopped >>log"),
        start: there("echo started >>log; echo >runs"),
        runs: there(
            "f=data/store/file; [ -e runs ] && { [ ! -e $f ] || [ \"$(cat $f)\" = right ]; }",
        ),
    })
}

/// A store that was started and lives on damaged data is left with it; one that does not is given back what it had.
#[test]
fn damage_stays_unless_the_store_gives_up_on_it() {
    let machine = Machine::new();
    let mut node = machine.agent();
    machine.sh("mkdir data/store; printf right >data/store/file; echo other >data/store/other");
    let start = |machine: &Machine| machine.sh("echo >runs");
    let whole = |machine: &Machine| {
        machine.sh("cd data; cat store/file; echo; cat store/other; ls -A | grep deposed")
    };
    let (mut flips, mut ends) = (Vec::new(), Vec::new());
    for seed in 0..4 {
        node.apply(damage(&machine, Harm::Flip { files: "f*".into() }, seed));
        flips.push(machine.sh("cksum <data/store/file; stat -c %s data/store/file"));
        start(&machine);
        node.undo();
        assert_eq!(whole(&machine), "right\nother", "what it gave up on");
        let seen = node.apply(damage(&machine, Harm::Truncate { files: "file".into() }, seed));
        let length = machine.sh("stat -c %s data/store/file");
        assert!(seen.summary.contains(&format!("has {length} bytes and had 5")), "{seen:?}");
        ends.push(length);
        start(&machine);
        node.undo();
    }
    assert!(flips.iter().all(|flip| flip.ends_with("\n5")), "{flips:?}");
    flips.sort();
    flips.dedup();
    assert!(flips.len() > 1, "{flips:?}");
    let seen = node.apply(damage(&machine, Harm::Flip { files: "oth*".into() }, 1));
    assert!(seen.summary.contains("/other is 0x"), "{}", seen.summary);
    start(&machine);
    node.undo();
    assert!(!whole(&machine).contains("other"), "what it does not look at");
    for nothing in ["none", "zeroes"] {
        machine.sh("truncate -s 1M data/store/zeroes");
        let refusal = node.try_apply(damage(&machine, Harm::Flip { files: nothing.into() }, 1));
        assert!(refusal.unwrap_err().reason.contains("no file"));
    }
}

/// What was allocated ahead and is not in use yet is not damaged, for that would change nothing that is read; it is
/// as long as it was when it is given back, even after the store tried to mend it.
#[test]
fn what_is_in_use_is_damaged() {
    let machine = Machine::new();
    let mut node = machine.agent();
    machine.sh("mkdir data/store; truncate -s 40M data/store/file; chown 7:8 data/store/file");
    machine.sh(
        "printf right | dd of=data/store/file conv=notrunc status=none; cp data/store/file copy",
    );
    for seed in 0..3 {
        for harm in [Harm::Flip { files: "*".into() }, Harm::Truncate { files: "*".into() }] {
            node.apply(damage(&machine, harm, seed));
            assert_ne!(machine.sh("head -c 5 data/store/file"), "right");
            machine.sh("echo >runs; truncate -s 50M data/store/file");
            node.undo();
            let seen = machine.sh("cmp copy data/store/file && stat -c '%s %u %g' data/store/file");
            assert_eq!(seen, format!("{} 7 8", 40 << 20));
            assert_eq!(machine.sh("ls -A data/store; ls -A data | grep deposed"), "file");
        }
    }
}

/// Where no controller waits any more whether the store gets ready, it is given back what it had, though it may run
/// for now; but not one that has written to the damaged file since, which would lose that.
#[test]
fn a_node_that_is_left_alone_gives_the_store_its_data_back() {
    let machine = Machine::new();
    machine.sh("mkdir data/store; echo other >data/store/other");
    for (harm, meanwhile, left) in [
        (Harm::Flip { files: "*".into() }, "true", "other"),
        (Harm::Flip { files: "*".into() }, "echo mine >data/store/other", "mine"),
        (Harm::Truncate { files: "*".into() }, "true", "other"),
        (Harm::Truncate { files: "*".into() }, "printf mine >>data/store/other", "mine"),
        (Harm::Wipe, "echo mine >data/store/other", "other"),
    ] {
        machine.sh("echo other >data/store/other");
        let mut node = machine.agent();
        node.apply(damage(&machine, harm.clone(), 0));
        machine.sh(&format!("echo >runs; {meanwhile}"));
        node.kill_agent();
        node.end_lease();
        until("it is undone", || node.is_clean());
        let now = machine.sh("cat data/store/other; ls -A data | grep deposed");
        assert!(now.ends_with(left), "{harm:?}, {meanwhile}: {now}");
        assert_eq!(machine.sh("tail -n 1 log; [ -e runs ] && echo runs"), "started\nruns");
    }
}

/// Data that is gone is gone, and a store that was not started without has it again; also if nobody but the
/// keeper undoes it.
#[test]
fn wiped_data_is_gone() {
    let machine = Machine::new();
    let mut node = machine.agent();
    machine.sh("mkdir -m 700 data/store; chown 7:8 data/store; echo wrong >data/store/file");
    node.apply(damage(&machine, Harm::Wipe, 0));
    assert_eq!(machine.sh("ls -A data/store; stat -c '%a %u %g' data/store"), "700 7 8");
    node.kill_agent();
    node.end_lease();
    until("it is undone", || node.is_clean());
    // It could live on nothing, for there is no file it could dislike; but nobody waits whether it does.
    let left = machine.sh("ls -A data | grep -v lost+found; ls -A data/store; tail -n 1 log");
    assert_eq!(left, "store\nfile\nstarted");
}

impl Machine {
    /// What a reboot leaves of an agent: its lasting folder and what is on the disk.
    fn reboot(&self, node: &mut Node) {
        node.kill_agent();
        let home = node.home().volatile().display().to_string();
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        for entry in all {
            let words = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(process) = pid.filter(|_| words.contains(&home)).and_then(Process::of) {
                process.signal(Signal::SIGKILL).unwrap();
                until("it is dead", || !process.lives());
            }
        }
        self.sh("while grep -q fuse.deposed /proc/mounts; do umount -l data/store; done; rm -f runs log");
        std::fs::remove_dir_all(node.home().volatile()).unwrap();
    }

    /// Has the node healed as `deposed heal` does, from a cold start.
    fn heal(&self, node: &Node) {
        let [program, rest @ ..] = self.enter();
        let home = node.home();
        let healed = Command::new(program)
            .args(rest)
            .arg(env!("CARGO_BIN_EXE_deposed-agent"))
            .arg("--home")
            .args([home.volatile(), home.lasting()])
            .arg("heal")
            .status();
        assert!(healed.unwrap().success());
        assert!(node.is_clean());
    }
}

/// What outlives a reboot of the node is undone from a cold start; what does not needs no undoing.
#[test]
fn a_reboot_is_healed_from_a_cold_start() {
    let machine = Machine::new();
    machine.sh("mkdir data/store; printf right >data/store/file");
    let data = machine.path().join("data/store");
    let mut node = machine.agent();
    let start = format!("echo started >>{}/log", machine.path().display());
    let lay = Layer { data: data.clone(), stop: "true".into(), start };
    node.try_apply_as("layer-1", Spec::DiskLayer(lay)).unwrap();
    node.apply(Spec::DiskTrouble(Trouble { data, fail: vec![Use::Write], fsync_ms: 0 }));
    machine.reboot(&mut node);
    assert_eq!(machine.sh("ls -A data/store"), ".deposed-probe\nfile");
    machine.heal(&node);
    assert_eq!(machine.sh("ls -A data/store; cat log"), "file");

    let mut node = machine.agent();
    node.apply(damage(&machine, Harm::Flip { files: "file".into() }, 3));
    machine.reboot(&mut node);
    assert_ne!(machine.sh("cat data/store/file"), "right");
    machine.heal(&node);
    assert_eq!(
        machine.sh("cat data/store/file; ls -A data | grep deposed; tail -n 1 log"),
        "rightstarted"
    );
}
