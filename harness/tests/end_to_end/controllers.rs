//! A controller that ends before its run is over.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::bench::{Bench, Ran};
use crate::lab::LabUp;
use crate::processes::{family, runs, signal};
use crate::waiting::until;

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
pub(crate) const HEALED_WITHIN: Duration = Duration::from_secs(15 + 5);

/// How long a run that was killed has its nodes for itself.
pub(crate) const CLAIMED_FOR: Duration = Duration::from_secs(21);

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
