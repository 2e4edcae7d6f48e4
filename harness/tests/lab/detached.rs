//! Labs that outlive the command that made them.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::support::{BOUND, TestLab, eventually, failed, kill_9, program, runs, succeeded};

/// Process number of a lab's hub.
fn hub(lab: &TestLab) -> i32 {
    let text = fs::read_to_string(format!("/run/deposed/labs/{}/lab.json", lab.name)).unwrap();
    let state: serde_json::Value = serde_json::from_str(&text).unwrap();
    state["hub"]["pid"].as_i64().unwrap() as i32
}

/// Process numbers of a lab's inits.
fn inits(lab: &TestLab) -> Vec<i32> {
    let status = lab.status();
    let pids = status.lines().filter_map(|line| line.split("pid ").nth(1));
    pids.map(|pid| pid.parse().unwrap()).collect()
}

/// Its creator is long gone when a lab is used, found, and taken down completely.
#[test]
fn a_lab_outlives_its_creator() {
    let lab = TestLab::up("outlives", 3);
    assert!(lab.status().contains("  up  "), "{}", lab.status());
    assert_eq!(succeeded(lab.ssh("n3", "hostname")), "n3\n");
    let pids = inits(&lab);
    assert_eq!(pids.len(), 3);

    let start = Instant::now();
    succeeded(program(&["down", "--name", &lab.name]));
    println!("3 nodes down in {:?}", start.elapsed());
    assert!(start.elapsed() < BOUND);
    assert!(!pids.iter().any(|pid| runs(*pid)));
    assert!(!Path::new("/run/deposed/labs").join(&lab.name).exists());
    assert!(lab.status().is_empty());
    let said = succeeded(program(&["down", "--name", &lab.name]));
    assert!(said.contains(&lab.name) && said.contains("is up"), "{said}");
    let error = failed(lab.exec(&["true"]), 64);
    assert!(error.contains(&lab.name) && error.contains("`lab up` makes one"), "{error}");
}

/// After its hub was killed a lab has no nodes left; it says so, and `down` or a new `up` clears the rest.
#[test]
fn a_crashed_lab_is_cleared() {
    let lab = TestLab::up("crashed", 2);
    for attempt in 0..2 {
        let pids = inits(&lab);
        kill_9(hub(&lab));
        let took = eventually("nodes die with their hub", || !pids.iter().any(|pid| runs(*pid)));
        println!("nodes died {took:?} after their hub");
        assert!(lab.status().contains("  crashed: "), "{}", lab.status());
        let error = failed(lab.exec(&["true"]), 3);
        assert!(error.contains("has crashed: `lab down`"), "{error}");
        if attempt == 0 {
            succeeded(program(&["up", "--name", &lab.name, "--nodes", "2"]));
            assert!(lab.status().contains("  up  "), "{}", lab.status());
        }
    }
    let said = succeeded(program(&["down", "--name", &lab.name]));
    assert!(said.contains("had crashed"), "{said}");
    assert!(!Path::new("/run/deposed/labs").join(&lab.name).exists());
}

/// Two labs use the same addresses at the same time, and are strangers.
#[test]
fn labs_do_not_clash() {
    let one = TestLab::up("one", 2);
    let two = TestLab::up("two", 2);
    succeeded(one.ssh("n1", "touch /etc/this-is-one"));
    assert!(!two.ssh("n1", "test -e /etc/this-is-one").status.success());
    let known = |lab: &TestLab| {
        fs::read_to_string(format!("/run/deposed/labs/{}/known_hosts", lab.name)).unwrap()
    };
    assert_ne!(known(&one), known(&two));
    let error = failed(program(&["up", "--name", &one.name]), 64);
    assert!(error.contains("already up"), "{error}");
    succeeded(program(&["down", "--name", &one.name]));
    assert_eq!(
        succeeded(two.ssh("n1", "hostname")),
        "n1\n",
        "the end of one is nothing to the other"
    );
}

/// The inventory is all that is needed to log in from within the lab's network, with plain ssh.
#[test]
fn the_inventory_suffices() {
    let lab = TestLab::up("inventory", 1);
    let path = succeeded(lab.exec(&["sh", "-c", "echo $DEPOSED_CLUSTER"]));
    let inventory: toml::Table = fs::read_to_string(path.trim()).unwrap().parse().unwrap();
    let text = |key: &str| inventory[key].as_str().unwrap().to_string();
    let node = &inventory["nodes"][0];
    assert_eq!((node["name"].as_str(), inventory["port"].as_integer()), (Some("n1"), Some(22)));
    let (user, hosts) = (text("user"), format!("UserKnownHostsFile={}", text("known_hosts")));
    let address = node["addr"].as_str().unwrap();
    let login = [
        "ssh",
        "-F",
        "none",
        "-o",
        "BatchMode=yes",
        "-o",
        "StrictHostKeyChecking=yes",
        "-o",
        &hosts,
    ];
    for name in [address, "fd73::1"] {
        let target = ["-i", &text("key"), "-l", &user, name, "id -u"];
        assert_eq!(succeeded(lab.exec(&[&login[..], &target].concat())), "0\n");
    }
}

/// A node that is not there, a name that cannot be, a number of nodes out of range: each is named.
#[test]
fn mistakes_are_named() {
    let lab = TestLab::up("mistakes", 1);
    let error = failed(lab.ssh("n7", "true"), 64);
    assert!(error.contains("has no node \"n7\": it has n1"), "{error}");
    let error = failed(program(&["up", "--name", "../x"]), 64);
    assert!(error.contains("cannot be a lab's name"), "{error}");
    let error = failed(program(&["up", "--nodes", "10"]), 64);
    assert!(error.contains("1..=9"), "{error}");
}
