//! A correct store under faults: it passes, each fault is proven, and nothing is left of it.

use crate::bench::Bench;

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
    bench.healed(&faults);
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
    bench.healed(&["disk-full", "disk-error", "slow-disk"]);
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
    bench.healed(&["corrupt"]);
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
