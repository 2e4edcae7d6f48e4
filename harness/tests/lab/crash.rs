//! A controller that is killed leaves nothing.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};

use crate::support::{PROGRAM, eventually, kill_9, runs, succeeded};

/// Children of a process, of all its threads.
fn children(pid: u32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let lists =
        threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("children")).unwrap());
    lists
        .flat_map(|list| {
            list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<i32>>()
        })
        .collect()
}

/// Loop devices that a process sees mounted, with the sequence number of what is attached to each: a device
/// used again by someone else has another.
fn loop_devices(pid: i32) -> BTreeMap<String, String> {
    let mounts = fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap();
    let devices =
        mounts.lines().filter_map(|line| line.split(' ').next()?.strip_prefix("/dev/loop"));
    devices.map(|number| (number.to_string(), sequence(number))).collect()
}

fn sequence(number: &str) -> String {
    fs::read_to_string(format!("/sys/block/loop{number}/diskseq")).unwrap()
}

fn attached(number: &str) -> bool {
    fs::exists(format!("/sys/block/loop{number}/loop/backing_file")).unwrap()
}

fn links_here() -> String {
    succeeded(Command::new("ip").args(["-br", "link"]).output().unwrap())
}

/// Processes, links, mounts and loop devices of an ephemeral lab are gone a second after its controller was
/// killed with SIGKILL.
#[test]
fn nothing_survives_the_controller() {
    // The command within ends when its input does, and holds the lab's network until then.
    let mut controller = Command::new(PROGRAM)
        .args(["lab", "with", "--nodes", "3", "--", "sh", "-c", "echo up; cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let start = Instant::now();
    BufReader::new(controller.stdout.take().unwrap()).read_line(&mut line).unwrap();
    println!("3 nodes up in {:?}", start.elapsed());
    assert_eq!(line, "up\n");

    let named = |name: &str| {
        let is =
            |pid: &i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap().contains(name);
        children(controller.id()).into_iter().filter(is).collect::<Vec<i32>>()
    };
    let inits = named("lab-init");
    assert_eq!(inits.len(), 3);
    let listeners: Vec<i32> = inits.iter().flat_map(|pid| children(*pid as u32)).collect();
    assert_eq!(listeners.len(), 3, "one sshd each");
    let disks: BTreeMap<String, String> = inits.iter().flat_map(|pid| loop_devices(*pid)).collect();
    assert_eq!(disks.len(), 6, "two disks each");

    // Look on from inside the lab's network: cables vanish from it when the nodes' ends do.
    setns(
        File::open(format!("/proc/{}/ns/net", controller.id())).unwrap(),
        CloneFlags::CLONE_NEWNET,
    )
    .unwrap();
    assert!(links_here().contains("n3@"));
    assert!(!fs::exists("/run/deposed/private/id").unwrap(), "keys are the controller's alone");

    let killed = Instant::now();
    kill_9(controller.id() as i32);
    eventually("processes are gone", || !inits.iter().chain(&listeners).any(|pid| runs(*pid)));
    eventually("cables are gone", || !links_here().contains('@'));
    eventually("disks are detached", || {
        disks.iter().all(|(number, before)| !attached(number) || sequence(number) != *before)
    });
    println!("all gone {:?} after SIGKILL", killed.elapsed());
    assert!(killed.elapsed() < Duration::from_secs(5), "promised: 1 s on an idle machine");
    controller.wait().unwrap();
}
