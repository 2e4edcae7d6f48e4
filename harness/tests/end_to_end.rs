//! The product as its users run it: the real binary, real labs, a real store, real faults.
//!
//! These tests need root and a Debian machine; where that is missing they fail, they do not pass.
//! Two go on at a time, however many cores there are: they mostly wait, but more on one machine would
//! measure each other.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it stands")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

static TURNS: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A place for results, and the right to use the machine.
struct Bench {
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Bench {
    fn new() -> Self {
        let turn = &TURNS[NEXT.fetch_add(1, Ordering::Relaxed) % TURNS.len()];
        let turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        Self { folder: tempfile::tempdir().unwrap(), _turn: turn }
    }

    fn results(&self) -> PathBuf {
        self.folder.path().join("results")
    }

    /// The binary with results here, words split at spaces.
    fn deposed(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_deposed"));
        command
            .args(words.split_whitespace())
            .env("DEPOSED_RESULTS", self.results())
            .env_remove("DEPOSED_CLUSTER")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, words: &str) -> Ran {
        Ran::of(self.deposed(words).output().unwrap())
    }

    fn latest(&self) -> PathBuf {
        self.results().join("latest").canonicalize().unwrap()
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.latest().join(name)).unwrap()).unwrap()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

struct Ran {
    code: Option<i32>,
    text: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        let text = [output.stdout, output.stderr].concat();
        Self { code: output.status.code(), text: String::from_utf8_lossy(&text).into_owned() }
    }

    #[track_caller]
    fn ends_with(self, code: u8) -> Self {
        assert_eq!(self.code, Some(i32::from(code)), "{}", self.text);
        self
    }

    #[track_caller]
    fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.text.contains(word), "{word:?} is not said in:\n{}", self.text);
        }
        self
    }
}

/// A lab in the background with what etcd needs; it is gone with this, also where a test fails.
struct LabUp<'a> {
    bench: &'a Bench,
    name: String,
}

impl<'a> LabUp<'a> {
    /// One whose name begins with a word.
    fn new(bench: &'a Bench, word: &str, nodes: u8) -> Self {
        let lab = Self { bench, name: format!("{word}{}", std::process::id()) };
        bench.run(&format!("lab up --nodes {nodes} --for etcd --name {}", lab.name)).ends_with(0);
        lab
    }

    /// The binary in the lab's network.
    fn deposed(&self, words: &str) -> Command {
        let (name, binary) = (&self.name, env!("CARGO_BIN_EXE_deposed"));
        self.bench.deposed(&format!("lab exec --name {name} -- {binary} {words}"))
    }

    fn run(&self, words: &str) -> Ran {
        Ran::of(self.deposed(words).output().unwrap())
    }

    /// A script on a node.
    fn ssh(&self, node: &str, script: &str) -> Command {
        let mut ssh = self.bench.deposed(&format!("lab ssh --name {} {node}", self.name));
        ssh.arg(script);
        ssh
    }

    fn on(&self, node: &str, script: &str) -> Ran {
        Ran::of(self.ssh(node, script).output().unwrap())
    }
}

impl Drop for LabUp<'_> {
    fn drop(&mut self) {
        let down = self.bench.run(&format!("lab down --name {}", self.name));
        if !std::thread::panicking() {
            down.ends_with(0);
        }
    }
}

/// Every process that descends from one, itself included.
fn family(of: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
        .filter_map(|pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut family = vec![of];
    let mut next = 0;
    while next < family.len() {
        let parent = family[next];
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    family
}

/// Whether a process still runs; one that only waits to be reaped does not.
fn runs(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| Some(stat.rsplit_once(')')?.1.trim_start().chars().next()? != 'Z'))
        .unwrap_or(false)
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(status.success(), "kill -s {name}");
}

/// Waits for something, at most half a minute.
#[track_caller]
fn until(what: &str, happens: impl FnMut() -> bool) {
    within(Duration::from_secs(30), what, happens);
}

#[track_caller]
fn within(limit: Duration, what: &str, mut happens: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !happens() {
        assert!(Instant::now() < end, "{what} did not happen within {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_correct_store_passes_under_proven_faults_and_leaves_a_whole_run_folder() {
    let bench = Bench::new();
    bench.run("run etcd --time 30s --faults partition,kill,pause").ends_with(0).says(&[
        "valid",
        "partition",
        "kill",
        "pause",
        "report.html",
    ]);
    let results = bench.json("results.json");
    assert_eq!(results["verdict"], "valid");
    for fault in ["partition", "kill", "pause"] {
        let proven = results["faults"][fault]["proven"].as_u64().unwrap();
        assert!(proven >= 1, "{fault}: {}", results["faults"]);
    }
    let folder = bench.latest();
    for file in
        ["plan.json", "history.jsonl.zst", "report.html", "report.md", "junit.xml", "run.log"]
    {
        assert!(folder.join(file).metadata().unwrap().len() > 0, "{file}");
    }
    assert_eq!(std::fs::read_to_string(folder.join("status")).unwrap().trim(), "analysed");
    let logs = std::fs::read_dir(folder.join("nodes")).unwrap().count();
    assert_eq!(logs, 5, "a folder of logs for each node");
    // The same history is judged the same, and the reports are made again from what is there.
    bench.run("check latest").ends_with(0);
    let before = std::fs::read(folder.join("report.html")).unwrap();
    bench.run("report latest").ends_with(0);
    assert_eq!(std::fs::read(folder.join("report.html")).unwrap(), before);
}

/// etcd keeps what it acknowledged when clocks jump, links are bad and the power of all its disks is
/// cut; each of these is proven, and nothing is left of it.
#[test]
fn clocks_links_and_disks_fail_and_come_back() {
    let bench = Bench::new();
    let faults = ["clock", "packets", "power-cut"];
    bench
        .run("run etcd --lab-nodes 3 --time 25s --faults clock:jump=-30s,packets,power-cut:all")
        .ends_with(0)
        .says(&["valid", " ± ", "unsynced bytes gone"]);
    healed(&bench, &faults);
}

/// etcd keeps what it acknowledged when whole nodes freeze and lose their power.
#[test]
fn whole_nodes_freeze_and_lose_their_power() {
    let bench = Bench::new();
    bench
        .run("run etcd --lab-nodes 3 --time 15s --faults node-freeze:one,power-off:one")
        .ends_with(0)
        .says(&["valid", " stand still", "unsynced bytes gone", "no answer over SSH"]);
    healed(&bench, &["node-freeze", "power-off"]);
}

/// Faults that were to hit a node that is frozen or off are left out, with the reason; they end no run, and
/// nothing is left of them.
#[test]
fn faults_that_meet_a_held_node_end_no_run() {
    let bench = Bench::new();
    let ran = bench.run(
        "run etcd --lab-nodes 3 --time 20s --fault-every 6s --fault-hold 5s \
         --faults node-freeze:n1,power-off:n2,partition:n1/n2,packets,kill:n3",
    );
    // What was doubted each time makes the verdict unknown.
    assert!(matches!(ran.code, Some(0 | 2)), "{}", ran.text);
    healed(&bench, &["node-freeze", "power-off"]);
    let results = bench.json("results.json");
    for (fault, counts) in results["faults"].as_object().unwrap() {
        let number = |of: &str| counts[of].as_u64().unwrap();
        assert_eq!(number("injected") - number("skipped"), number("healed"), "{fault}: {counts}");
    }
    ran.says(&["frozen or off: "]);
}

/// Nodes that are frozen or off while their controller is killed go on, or boot and start their store, by
/// themselves; `heal` does not wait for that.
#[test]
fn held_nodes_recover_without_their_controller() {
    let bench = Bench::new();
    let lab = LabUp::new(&bench, "held", 3);
    let stores = || {
        let runs = |node: &&&str| lab.on(node, "grep -qx etcd /proc/[0-9]*/comm").code == Some(0);
        ["n1", "n2", "n3"].iter().filter(runs).count()
    };
    for healed in [false, true] {
        let mut run = lab
            .deposed(
                "run etcd --time 120s --output plain \
                 --faults node-freeze:n1,power-off:n2 --fault-every 100s --fault-hold 90s",
            )
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(run.stdout.take().unwrap()).lines().map_while(Result::ok);
        let bitten = lines.filter(|line| line.contains(" fault ")).take(2).count();
        assert_eq!(bitten, 2, "a fault did not come");
        let status = bench.run("lab status");
        assert!(status.text.contains("n2  10.73.0.2  down"), "{}", status.text);
        for pid in family(run.id()) {
            let _ = Command::new("kill").args(["-s", "KILL", &pid.to_string()]).status();
        }
        let killed = Instant::now();
        run.wait().unwrap();
        if healed {
            lab.run("heal").ends_with(0);
            let took = killed.elapsed();
            println!("healed on request within {took:?}");
        }
        within(3 * HEALED_WITHIN, "etcd on every node", || stores() == 3);
        println!("the last store was up {:?} after the controller was killed", killed.elapsed());
        let status = bench.run("lab status");
        assert!(!status.text.contains("degraded"), "{}", status.text);
        lab.run("heal").ends_with(0);
        std::thread::sleep((killed + CLAIMED_FOR).saturating_duration_since(Instant::now()));
    }
    lab.run("run etcd --time 5s --faults kill").ends_with(0);
}

/// Machines that nobody holds from outside are not frozen, nor switched off: that is refused before anything of
/// theirs is touched.
#[test]
fn nodes_without_a_warden_keep_their_power() {
    let bench = Bench::new();
    let lab = LabUp::new(&bench, "bare", 1);
    let inventory = format!("/run/deposed/labs/{}/cluster.toml", lab.name);
    let text = std::fs::read_to_string(inventory).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("warden"));
    let bare = lines.map(|line| format!("{line}\n")).collect::<String>();
    assert_ne!(bare, text);
    let file = bench.write("bare.toml", &bare);
    let run = format!("run etcd --cluster {} --time 5s --faults", file.display());
    for fault in ["node-freeze", "power-off:n1"] {
        let refusal = format!("{fault}: n1 could not undo this by itself");
        lab.run(&format!("{run} {fault}")).ends_with(3).says(&[&refusal]);
    }
    lab.on("n1", "test ! -e /var/lib/deposed/etcd").ends_with(0);
}

/// Each of these was proven in the latest run, and nothing is left of it.
#[track_caller]
fn healed(bench: &Bench, faults: &[&str]) {
    let results = bench.json("results.json");
    for fault in faults {
        let counts = &results["faults"][fault];
        assert!(counts["proven"].as_u64().unwrap() >= 1, "{fault}: {counts}");
        let number = |of: &str| counts[of].as_u64().unwrap();
        assert_eq!(number("injected") - number("skipped"), number("healed"), "{fault}: {counts}");
    }
}

/// etcd keeps what it acknowledged when its disks fill up, fail and slow down, each on a node of its own, of
/// five: two may be down at a time. That it gives up for that is no crash; and it runs again.
#[test]
fn disks_fill_up_fail_and_slow_down() {
    let bench = Bench::new();
    let faults = "disk-full:n1,disk-error:n2,slow-disk:n3";
    bench.run(&format!("run etcd --time 15s --faults {faults}")).ends_with(0).says(&[
        "valid",
        "MiB taken, no room",
        "input/output errors",
        "a sync takes",
    ]);
    healed(&bench, &["disk-full", "disk-error", "slow-disk"]);
}

/// etcd keeps what it acknowledged when the log of one node of five rots and all else is sound. (With two more
/// that fail it may lose it, and runs of it did: a node that lives on what is left of its log votes as if it
/// had never had the rest.)
#[test]
fn a_disk_rots() {
    let bench = Bench::new();
    bench
        .run("run etcd --time 12s --faults corrupt:flip=*.wal:n4")
        .ends_with(0)
        .says(&["valid", " and was "]);
    healed(&bench, &["corrupt"]);
}

/// A lease outlives a leader whose clock is set back (etcd issue 12291): clients find it, a checker says so,
/// and the report argues it and shows how far which clock was off.
#[test]
fn a_lease_outlives_a_clock_that_is_set_back() {
    let bench = Bench::new();
    let faults = "clock:jump=-600s:primaries --fault-every 6s --fault-hold 18s";
    bench
        .run(&format!(
            "run etcd --lab-nodes 3 --workload lease-expiry --time 18s --faults {faults}"
        ))
        .ends_with(1)
        .says(&["INVALID", "lease-expiry", "after the end of the lease of 3.0 s"]);
    let results = bench.json("results.json");
    let check = results["checks"].as_array().unwrap().iter();
    let check = check.map(|check| &check["analysis"]).find(|a| a["checker"] == "lease-expiry");
    let anomalies = check.unwrap()["anomalies"].as_array().unwrap();
    assert!(anomalies.iter().all(|anomaly| anomaly["name"] == "lease-outlived"), "{anomalies:?}");
    let page = std::fs::read_to_string(bench.latest().join("report.html")).unwrap();
    for told in ["the lease did not end", "How far clocks were off", "A lease did not end"] {
        assert!(page.contains(told), "{told}");
    }
}

/// Clients on nodes are there: in another network than the controller, one for each process.
#[test]
fn clients_run_on_the_nodes_they_speak_to() {
    let bench = Bench::new();
    let words = "run etcd --lab-nodes 3 --clients on-nodes --time 6s --faults partition:one";
    let mut run = bench.deposed(words).stdout(Stdio::null()).spawn().unwrap();
    let network = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let is_client = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.starts_with(b"/var/lib/deposed-agent/client\0client\0")
    };
    let mut networks = std::collections::BTreeSet::new();
    // Each node is sent a program of as much as 150 MB.
    within(Duration::from_secs(120), "a client on each node", || {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        networks.extend(pids.filter(is_client).filter_map(network));
        networks.len() == 3
    });
    assert!(!networks.contains(&network(run.id()).unwrap()));
    assert_eq!(run.wait().unwrap().code(), Some(0));
    assert_eq!(bench.json("plan.json")["load"]["on_nodes"], true);
    let done = &bench.json("results.json")["checks"];
    assert!(done.to_string().contains("a legal order exists"), "{done}");
}

#[test]
fn reads_that_may_be_old_are_found_out() {
    let bench = Bench::new();
    bench
        .run("run etcd --read serializable --faults partition --time 20s")
        .ends_with(1)
        .says(&["INVALID", "linearizable"]);
    let results = bench.json("results.json");
    assert_eq!(results["verdict"], "invalid");
    let checks = results["checks"].as_array().unwrap();
    let anomalies = checks.iter().flat_map(|check| check["analysis"]["anomalies"].as_array());
    let names: Vec<&str> = anomalies.flatten().map(|a| a["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"stale-read"), "{names:?}");
}

/// A leader that is paused has its power cut by the observer meanwhile: that it was paused is proven for
/// as long as it was there, what is left of it goes on, and nothing stays stopped.
#[test]
fn a_paused_leader_has_its_power_cut() {
    let bench = Bench::new();
    bench.run(
        "run standby --workload fenced-register --set failover=timeout --set fencing=power-off \
         --faults pause:primaries --fault-every 4s --fault-hold 3s --time 10s",
    );
    let results = bench.json("results.json");
    let counts = &results["faults"]["pause"];
    assert!(counts["proven"].as_u64().unwrap() >= 1, "{counts}");
    assert_eq!(counts["proven"], counts["healed"], "{counts}");
    assert_eq!(counts["indeterminate"], 0, "{counts}");
    let report = std::fs::read_to_string(bench.latest().join("report.md")).unwrap();
    assert!(report.contains("but gone: pid"), "nobody's power was cut:\n{report}");
}

/// Redis promises nothing of what a master acknowledges that is cut off: what is lost is an exposure,
/// counted and explained, with how long that went on. Sentinels that cannot agree whom to promote lose
/// nothing: then it is tried again.
#[test]
fn acknowledged_writes_are_lost_over_a_partition_of_a_master() {
    let bench = Bench::new();
    let lost = (1..=3).any(|seed| {
        bench.run(&format!(
            "run redis-sentinel --workload failover-log --time 9s --seed {seed} \
             --faults partition:primaries --fault-hold 6s --require partition:1 \
             --set down-after-milliseconds=500 --set failover-timeout=1000"
        ));
        let results = bench.json("results.json");
        let mut checks = results["checks"].as_array().unwrap().iter();
        let fencing = checks.find(|check| check["analysis"]["checker"] == "fencing").unwrap();
        let details = &fencing["analysis"]["details"];
        let count = details["exposures"]["lost-acked-write"]["count"].as_u64();
        let window = details["measures"]["lost_acknowledgements_window"]["max_ns"].as_u64();
        assert_eq!(count.is_some(), window.is_some(), "{details}");
        count.is_some()
    });
    assert!(lost, "three runs, and nothing was lost");
    let results = bench.json("results.json");
    assert_eq!(results["verdict"], "valid");
    let reason = results["reason"].as_str().unwrap();
    assert!(reason.contains("Legal here, and dangerous"), "{reason}");
    let report = std::fs::read_to_string(bench.latest().join("report.md")).unwrap();
    for told in ["The store said that the data is safe, and it is gone", "does not have what"] {
        assert!(report.contains(told), "{told} is not in:\n{report}");
    }
}

#[test]
fn protections_are_measured_and_compared_with_what_is_expected() {
    let bench = Bench::new();
    bench
        .run("protections --only locks-token-pause --only mistake-last-token --seconds 8")
        .ends_with(0)
        .says(&["held", "broke", "stale-token-accepted", "all as expected"]);
    let tables = bench.results().join("protections");
    let table = std::fs::read_dir(tables).unwrap().next().unwrap().unwrap().path();
    let page = std::fs::read_to_string(table.join("protections.html")).unwrap();
    let link = page.split("href=\"").find(|part| part.starts_with("locks-token-pause/")).unwrap();
    let report = table.join(link.split('"').next().unwrap());
    assert!(report.is_file(), "{}", report.display());
    bench.run("protections --only nosuchcell").ends_with(4).says(&["nosuchcell", "--list"]);
}

#[test]
fn a_lab_that_is_up_is_used_like_any_cluster_over_ssh() {
    let bench = Bench::new();
    let lab = LabUp::new(&bench, "used", 3);
    lab.run("run etcd --time 8s --faults partition,kill --output plain")
        .ends_with(0)
        .says(&["valid"]);
    // The port is taken by something that is not ours: it is named, and not killed.
    let take = "perl -MIO::Socket::INET -e 'our $s = IO::Socket::INET->new(Listen=>1,ReuseAddr=>1,LocalPort=>2379) \
                or die; sleep 60' >/dev/null 2>&1 </dev/null & sleep 0.5";
    lab.on("n2", take).ends_with(0);
    lab.run("run etcd --time 5s").ends_with(3).says(&["2379", "n2"]);
}

/// Kills a controller so many milliseconds after its start; whether it left enough of a history to be
/// judged.
fn killed_at(bench: &Bench, recording: bool, moment: u64) -> bool {
    let results = bench.folder.path().join(format!("{recording}-{moment}"));
    let history = results.join("latest").join("history.jsonl");
    let mut child = bench
        .deposed("run etcd --time 30s --faults partition,kill,pause --lab-nodes 3")
        .env("DEPOSED_RESULTS", &results)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    if recording {
        until("the first record", || history.is_file());
    }
    std::thread::sleep(Duration::from_millis(moment));
    let family = family(child.id());
    signal(&child, "KILL");
    child.wait().unwrap();
    let killed = Instant::now();
    until("the end of the lab", || !family.iter().any(|&pid| runs(pid)));
    assert!(killed.elapsed() < Duration::from_secs(3), "after {:?}", killed.elapsed());
    if std::fs::metadata(&history).is_ok_and(|history| history.len() > 10_000) {
        let ran = Ran::of(bench.deposed("check").arg(&history).output().unwrap());
        // Too little may have happened to prove anything, but never a violation or an error.
        assert!(matches!(ran.code, Some(0 | 2)), "{:?}: {}", ran.code, ran.text);
        return true;
    }
    false
}

#[test]
fn a_killed_controller_leaves_no_lab_and_a_history_that_can_be_judged() {
    let bench = &Bench::new();
    // Two at a time: they mostly wait.
    let moments = [(300, 6100), (900, 4800), (1700, 3700), (2400, 2600), (3100, 1400)];
    let judged: usize = moments
        .iter()
        .map(|&(early, late)| {
            std::thread::scope(|scope| {
                let killed = [(false, early), (true, late)]
                    .map(|(recording, at)| scope.spawn(move || killed_at(bench, recording, at)));
                killed.map(|killed| usize::from(killed.join().unwrap())).iter().sum::<usize>()
            })
        })
        .sum();
    assert!(judged >= 3, "only {judged} histories were long enough to be judged");
}

/// What a fault may leave behind on a node, and nothing if it is as before.
const LEFT: &str = "iptables -S | grep DEPOSED; ip6tables -S | grep DEPOSED; nft list tables | grep deposed; \
    iptables -t mangle -S | grep DEPOSED; ip6tables -t mangle -S | grep DEPOSED; tc qdisc show | grep ' de05:'; \
    grep -l 'clock-.*[.]cell' /proc/[0-9]*/maps; grep -q ' /var/lib/deposed ext4 rw' /proc/mounts || echo no disk; \
    find /run/deposed/faults /var/lib/deposed-agent/faults -name '*.json'; grep -l '^State:.T' /proc/[0-9]*/status; \
    grep -l :/deposed- /proc/[0-9]*/cgroup; grep deposed/cgroup /proc/mounts; grep fuse.deposed /proc/mounts; \
    ls -A /var/lib/deposed/etcd | grep deposed; \
    grep -qx etcd /proc/[0-9]*/comm || echo 'etcd does not run'";

/// Rules that a host has of its own.
const OWN_RULES: &str = "iptables -N MINE; iptables -A MINE -s 10.9.9.9 -j DROP; iptables -A INPUT -j MINE; \
    iptables -A FORWARD -s 10.9.9.8 -j ACCEPT; ip6tables -A INPUT -s fd99::9 -j DROP";

/// How long a node holds faults without its controller, and what it may take then to heal.
const HEALED_WITHIN: Duration = Duration::from_secs(15 + 5);

/// How long a run that was killed has its nodes for itself.
const CLAIMED_FOR: Duration = Duration::from_secs(21);

/// In a lab that stays up: kills controllers in the middle of faults, and each time looks at the nodes.
/// Returns how long after the last kill the slowest of them was seen to be clean.
fn orphaned(bench: &Bench, name: &str, moments: &[u64]) -> Duration {
    let nodes = ["n1", "n2", "n3"];
    let lab = LabUp::new(bench, name, 3);
    let ssh = |node: &str, script: &str| {
        let said = lab.ssh(node, script).output().unwrap();
        match said.status.success() {
            true => String::from_utf8_lossy(&said.stdout).trim().to_owned(),
            false => "no answer".to_owned(),
        }
    };
    let rules = nodes.map(|node| ssh(node, &format!("{OWN_RULES}; iptables -S; ip6tables -S")));
    assert!(rules[0].contains("10.9.9.9"), "{}", rules[0]);
    let mut slowest = Duration::ZERO;
    let mut free = Instant::now();
    for moment in moments {
        // The run that was killed has the nodes for itself a while longer.
        std::thread::sleep(free.saturating_duration_since(Instant::now()));
        // Not `power-off`: afterwards a node has no rules but those it boots with.
        let faults = "partition,reject,flap,kill,restart,pause,freeze,slow,clock,packets,power-cut,\
                      disk-full,disk-error,slow-disk,corrupt:flip=*.wal,wipe,memory,cpu,node-freeze";
        let mut run = lab
            .deposed(&format!("run etcd --time 60s --faults {faults} --output plain"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(run.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut said = Vec::new();
        let bitten = lines.inspect(|line| said.push(line.clone())).any(|l| l.contains(" fault "));
        assert!(bitten, "no fault came, {moment} ms:\n{}", said.join("\n"));
        std::thread::sleep(Duration::from_millis(*moment));
        for pid in family(run.id()) {
            let _ = Command::new("kill").args(["-s", "KILL", &pid.to_string()]).status();
        }
        let killed = Instant::now();
        free = killed + CLAIMED_FOR;
        run.wait().unwrap();
        let mut left = nodes.map(|node| ssh(node, LEFT));
        while left.iter().any(|left| !left.is_empty()) {
            // A machine that is busy with other things takes longer to heal, and to look.
            let logs = || nodes.map(|node| ssh(node, "tail -n 5 /var/log/deposed/etcd/etcd.log"));
            assert!(killed.elapsed() < 3 * HEALED_WITHIN, "{moment} ms: {left:?}\n{:#?}", logs());
            std::thread::sleep(Duration::from_millis(200));
            left = nodes.map(|node| ssh(node, LEFT));
        }
        slowest = slowest.max(killed.elapsed());
        let now = nodes.map(|node| ssh(node, "iptables -S; ip6tables -S"));
        assert_eq!(now, rules, "{name} at {moment} ms");
        lab.run("heal").ends_with(0);
    }
    slowest
}

/// Nobody heals but the nodes themselves. `DEPOSED_KILLS` says how many controllers are killed, two at a
/// time; few unless it is set.
#[test]
fn nodes_whose_controller_is_killed_heal_themselves_and_touch_nothing_else() {
    let bench = &Bench::new();
    let kills = std::env::var("DEPOSED_KILLS").ok().map_or(2, |kills| kills.parse().unwrap());
    // Spread over the time in which every lane injects, never twice the same.
    let moments: Vec<u64> = (0..kills).map(|kill| kill * 6_180 % 10_000).collect();
    let (first, second) = moments.split_at(moments.len() / 2);
    let slowest = std::thread::scope(|scope| {
        let one = |number: u32, moments| {
            scope.spawn(move || orphaned(bench, &format!("orphan{number}x"), moments))
        };
        let (first, second) = (one(1, first), one(2, second));
        first.join().unwrap().max(second.join().unwrap())
    });
    println!("{kills} controllers killed; the slowest node was clean after {slowest:?}");
}

/// Two runs at once would take each other's doing for the store's. One that lives keeps its nodes, healed by
/// hand or not; where they were lost all the same, it does not judge what it saw.
#[test]
fn a_run_has_its_nodes_for_itself_or_says_nothing() {
    let bench = Bench::new();
    let lab = LabUp::new(&bench, "claimed", 3);
    let first = lab
        .deposed("run etcd --time 15s --faults none --output plain")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the run", || {
        let history = bench.results().join("latest/history.jsonl");
        std::fs::metadata(history).is_ok_and(|m| m.len() > 20_000)
    });
    lab.run("heal").ends_with(0);
    lab.run("run etcd --time 3s --faults none")
        .ends_with(3)
        .says(&["n1: another run is using it", "if it was killed"]);
    // Even a run that is over by now.
    lab.on("n2", "echo another 0 >/run/deposed/claim").ends_with(0);
    Ran::of(first.wait_with_output().unwrap())
        .ends_with(3)
        .says(&["n2: run another took it before this one was over", "is kept"]);
    lab.run("run etcd --time 3s --faults none").ends_with(0);
}

#[test]
fn an_interrupted_run_is_healed_and_judged_and_a_second_interrupt_only_heals() {
    let bench = Bench::new();
    let start = || {
        let child = bench
            .deposed("run etcd --time 60s --faults partition --lab-nodes 3 --output plain")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut history = PathBuf::new();
        until("the run", || {
            history = bench.results().join("latest/history.jsonl");
            std::fs::metadata(&history).is_ok_and(|m| m.len() > 100_000)
        });
        child
    };
    let child = start();
    signal(&child, "INT");
    Ran::of(child.wait_with_output().unwrap()).ends_with(130).says(&[
        "interrupted",
        "linearizable",
        "heal",
    ]);
    assert_eq!(bench.json("results.json")["ending"]["by"], "SIGINT");

    std::fs::remove_dir_all(bench.results()).unwrap();
    // Two kinds, for two of a kind that come at once may be delivered as one.
    let child = start();
    signal(&child, "INT");
    signal(&child, "TERM");
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert!(matches!(ran.code, Some(130 | 143)), "{:?}: {}", ran.code, ran.text);
    ran.says(&["healing only", "kept ", "deposed check "]);
    assert!(!bench.latest().join("results.json").exists(), "nobody asked for a verdict any more");
    assert!(bench.latest().join("history.jsonl").exists(), "what was recorded is kept");
    bench.run("report").ends_with(64).says(&["was not judged", "deposed check"]);
}

#[test]
fn what_cannot_be_used_is_named_with_a_way_to_mend_it() {
    let bench = Bench::new();
    // Nobody listens there. This one is begun, for it has to be tried.
    bench
        .run("run etcd --nodes 127.0.0.1:1 --host-keys off --faults none")
        .ends_with(3)
        .says(&["127.0.0.1:1", "connect"]);
    // Two wrong faults and a wrong option, all told at once, before anything is touched.
    bench.run("run etcd --faults partitoin,kill:n9 --set nosuch=1").ends_with(64).says(&[
        "partitoin",
        "did you mean `partition`",
        "n9",
        "nosuch",
    ]);
    bench.run("run nosuchstore").ends_with(4).says(&["nosuchstore", "etcd"]);
    bench.run("run etcd --workload nosuch").ends_with(4).says(&["nosuch", "register"]);
    bench.run("run etcd --time soon").ends_with(64).says(&["--time"]);
    bench.run("check /nonexistent").ends_with(4).says(&["/nonexistent"]);
    // A file of another kind is wrong on every line; nobody wants to read them all.
    let file = bench.write("notes.txt", &"no schedule\n".repeat(1000));
    let ran = bench.run(&format!("run etcd --schedule {}", file.display()));
    let ran = ran.ends_with(64).says(&["is no schedule", "line 1", "and 997 more"]);
    assert!(ran.text.lines().count() < 10, "{}", ran.text);
    // Errors that cannot be told change nothing else: /dev/full refuses whatever is written to it.
    let mut deaf = bench.deposed("check /nonexistent");
    deaf.stderr(std::fs::File::options().write(true).open("/dev/full").unwrap());
    assert_eq!(deaf.status().unwrap().code(), Some(4));
}

#[test]
fn a_missing_package_is_named_and_not_installed_against_the_users_will() {
    let bench = Bench::new();
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/systems/etcd.toml");
    let text = std::fs::read_to_string(bundled).unwrap();
    let own = text.replace("etcd = \"etcd-server\"", "no-such-program = \"no-such-package\"");
    assert_ne!(own, text);
    let file = bench.write("own.toml", &own);
    bench.run(&format!("run {} --no-install", file.display())).ends_with(3).says(&[
        "no-such-program",
        "no-such-package",
        "apt-get install",
    ]);
}

/// Takes the store's package off a node and offers it again in a package archive on the node
/// itself, so that the installation that follows is a real one without a way to any other.
const ONLY_IN_AN_ARCHIVE: &str = r#"set -e
mkdir -p /opt/archive/tree/DEBIAN && cd /opt/archive
dpkg-query -s etcd-server | sed '/^Status:/d; /^Conffiles:/,/^[^ ]/{/^Conffiles:/d; /^ /d}' > tree/DEBIAN/control
dpkg-query -L etcd-server | while read -r file; do [ -f "$file" ] && cp --parents -a "$file" tree; done || true
dpkg-deb -Znone --build tree etcd-server.deb >/dev/null && rm -r tree
{ dpkg-deb -f etcd-server.deb; echo "Filename: ./etcd-server.deb"
  echo "Size: $(stat -c %s etcd-server.deb)"; echo "SHA256: $(sha256sum etcd-server.deb | cut -d' ' -f1)"; } > Packages
dpkg --purge etcd-server >/dev/null 2>&1
rm -rf /etc/apt/sources.list.d/* /var/lib/apt/lists/*
echo 'deb [trusted=yes] file:/opt/archive ./' > /etc/apt/sources.list
! command -v etcd"#;

#[test]
fn a_missing_package_is_installed_on_the_nodes_that_miss_it() {
    let bench = Bench::new();
    let lab = LabUp::new(&bench, "installed", 3);
    for node in ["n1", "n3"] {
        lab.on(node, ONLY_IN_AN_ARCHIVE).ends_with(0);
    }
    lab.run("run etcd --time 3s --no-install").ends_with(3).says(&[
        "n1",
        "etcd-server",
        "apt-get install",
    ]);
    lab.run("run etcd --time 5s --faults kill --output plain").ends_with(0).says(&[
        "n1",
        "n3",
        "etcd-server",
    ]);
    for node in ["n1", "n3"] {
        lab.on(node, "dpkg-query -W etcd-server").ends_with(0);
    }
}

#[test]
fn a_full_disk_ends_the_run_and_keeps_what_was_recorded() {
    let bench = Bench::new();
    let small = bench.folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    // A mount of this test's own, gone with its process.
    let binary = env!("CARGO_BIN_EXE_deposed");
    let script = format!(
        "mount -t tmpfs -o size=600k tmpfs {small} && {binary} run etcd --time 60s --faults none \
         --lab-nodes 3 --rate max --results {small}; code=$?; \
         {binary} check {small}/latest/history.jsonl; echo \"check $?\"; exit $code",
        small = small.display()
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
    let ran = Ran::of(output);
    assert!(ran.text.contains("No space left"), "{}", ran.text);
    assert!(ran.text.contains("recording stopped after"), "{}", ran.text);
    assert!(!ran.text.contains("tracing"), "{}", ran.text);
    assert!(ran.text.contains("check 0"), "what was recorded can be judged:\n{}", ran.text);
    ran.ends_with(3);
}
