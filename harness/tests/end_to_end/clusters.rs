//! Nodes, who uses them, and from where.

use std::process::Stdio;
use std::time::Duration;

use crate::bench::{Bench, Ran};
use crate::lab::LabUp;
use crate::waiting::{until, within};

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
