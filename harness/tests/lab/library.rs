//! The lab from within a program, in whose network it is.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use deposed_lab::packages::{self, Install};
use deposed_lab::{Hub, Lab, LabNode, LabSpec, chain};

use crate::support::{PROGRAM, eventually, runs, succeeded};

fn spec(nodes: u8) -> LabSpec {
    let spec = LabSpec { nodes, program: PROGRAM.into(), ..LabSpec::default() };
    packages::ensure(&packages::lab_requirements(&spec), Install::Yes, None, &mut |line| {
        println!("{line}")
    })
    .unwrap();
    spec
}

fn links_here() -> String {
    succeeded(Command::new("ip").args(["-br", "link"]).output().unwrap())
}

/// A lab ends when it is dropped, and the next can be brought up in its place at once.
#[test]
fn one_lab_after_another() {
    let spec = spec(5);
    let hub = Hub::enter().unwrap();
    for _ in 0..2 {
        let start = Instant::now();
        let lab = Lab::up(&hub, &spec).unwrap();
        println!("5 nodes up in {:?}", start.elapsed());
        let pids: Vec<i32> = lab.nodes().iter().map(LabNode::pid).collect();
        assert_eq!(lab.nodes()[4].v4().to_string(), "10.73.0.5");
        assert!(lab.key().exists() && lab.known_hosts().exists() && lab.nodes_file().exists());
        let start = Instant::now();
        drop(lab);
        println!("5 nodes down in {:?}", start.elapsed());
        assert!(!pids.iter().any(|pid| runs(*pid)));
        assert!(!links_here().contains("br0"), "{}", links_here());
    }
}

/// A lab that cannot be brought up says why and leaves nothing: no process, no link.
#[test]
fn a_lab_that_fails_half_way_cleans_up() {
    let mut spec = spec(2);
    let hub = Hub::enter().unwrap();
    let children = || fs::read_to_string("/proc/thread-self/children").unwrap();
    for (broken, expected) in [
        (
            LabSpec { image_directory: "/nowhere".into(), ..spec.clone() },
            "make a disk image in /nowhere",
        ),
        (LabSpec { program: "/bin/false".into(), ..spec.clone() }, "did not boot: its init ended"),
        (LabSpec { root_mib: 1, ..spec.clone() }, "No space left on device"),
        (LabSpec { nodes: 0, ..spec.clone() }, "1 to 9 nodes"),
    ] {
        let error = chain(&Lab::up(&hub, &broken).map(drop).unwrap_err());
        assert!(error.contains(expected), "{error}");
        assert!(!links_here().contains("br0"), "{}", links_here());
        assert_eq!(children(), "");
    }
    spec.nodes = 1;
    Lab::up(&hub, &spec).unwrap();
}

/// A directory of the operating system can be hidden on request.
#[test]
fn more_can_be_hidden() {
    let spec = LabSpec { hidden: vec!["/usr/share/doc".into(), "/no/such".into()], ..spec(1) };
    let hub = Hub::enter().unwrap();
    let lab = Lab::up(&hub, &spec).unwrap();
    let seen = |path: &str| {
        // Through /proc the host sees a process's own root.
        let path = format!("/proc/{}/root{path}", lab.nodes()[0].pid());
        fs::read_dir(path).unwrap().count()
    };
    assert_eq!(seen("/usr/share/doc"), 0);
    assert_ne!(seen("/usr/share"), 0);
}

/// To kill a node's init is to cut its power: its processes go, the other nodes stay.
#[test]
fn a_node_can_lose_its_power() {
    let hub = Hub::enter().unwrap();
    let lab = Lab::up(&hub, &spec(2)).unwrap();
    let [one, two] = lab.nodes()[..] else { panic!("two nodes") };
    crate::support::kill_9(one.pid());
    eventually("its port goes", || !links_here().contains("n1@"));
    assert!(runs(two.pid()) && links_here().contains("n2@"));
}

/// A process in a hub can still do what needs the host's network.
#[test]
fn the_host_network_stays_in_reach() {
    let namespace = || fs::read_link("/proc/thread-self/ns/net").unwrap();
    let before = namespace();
    let hub = Hub::enter().unwrap();
    assert_ne!(namespace(), before);
    assert_eq!(hub.on_host(namespace).unwrap(), before);
    assert_ne!(namespace(), before);
}

/// Without root the lab is refused in one sentence.
#[test]
fn root_is_required() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    // Built programs may lie where others than root cannot go.
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("deposed");
    fs::copy(PROGRAM, &copy).unwrap();
    for path in [directory.path(), Path::new(&copy)] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for arguments in [&["up"][..], &["down"], &["with", "--", "true"]] {
        let output =
            Command::new(&copy).arg("lab").args(arguments).uid(65534).gid(65534).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3));
        assert!(error.contains("needs root"), "{arguments:?}: {error}");
    }
}
