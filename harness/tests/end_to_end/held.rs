//! Nodes that are frozen or off.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::bench::Bench;
use crate::controllers::{CLAIMED_FOR, HEALED_WITHIN};
use crate::lab::LabUp;
use crate::processes::family;
use crate::waiting::within;

/// etcd keeps what it acknowledged when whole nodes freeze and lose their power.
#[test]
fn whole_nodes_freeze_and_lose_their_power() {
    let bench = Bench::new();
    bench
        .run("run etcd --lab-nodes 3 --time 15s --faults node-freeze:one,power-off:one")
        .ends_with(0)
        .says(&["valid", " stand still", "unsynced bytes gone", "no answer over SSH"]);
    bench.healed(&["node-freeze", "power-off"]);
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
    bench.healed(&["node-freeze", "power-off"]);
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
