//! A controller that is killed leaves nothing.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use deposed_lab::Hold;
use deposed_lab::warden::Line;
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

/// A controller with an ephemeral lab. The command within ends when its input does, and holds the lab's network
/// until then.
fn controller(nodes: u8) -> Child {
    let mut controller = Command::new(PROGRAM)
        .args(["lab", "with", "--nodes", &nodes.to_string(), "--", "sh", "-c", "echo up; cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let start = Instant::now();
    BufReader::new(controller.stdout.take().unwrap()).read_line(&mut line).unwrap();
    println!("{nodes} nodes up in {:?}", start.elapsed());
    assert_eq!(line, "up\n");
    controller
}

fn inits(controller: &Child) -> Vec<i32> {
    let is_init = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap().contains("lab-init")
    };
    children(controller.id()).into_iter().filter(is_init).collect()
}

/// Processes, links, mounts and loop devices of an ephemeral lab are gone a second after its controller was
/// killed with SIGKILL.
#[test]
fn nothing_survives_the_controller() {
    let mut controller = controller(3);
    let inits = inits(&controller);
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

/// Where hierarchies of control groups are mounted on this host, in which faults make groups.
fn hierarchies() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let hierarchy = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let mut options = words[3].split(',');
        let of_faults = options.any(|option| ["freezer", "memory", "cpu"].contains(&option));
        (words[2] == "cgroup2" || words[2] == "cgroup" && of_faults).then(|| words[1].into())
    };
    mounts.lines().filter_map(hierarchy).collect()
}

/// The control group of version 2 that a process is in.
fn own_group(pid: i32) -> Option<String> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    groups.lines().find_map(|line| line.strip_prefix("0::/")).map(str::to_owned)
}

/// A lab that dies while its machines are held and faults have made control groups leaves none, frozen or not,
/// and no disk; the groups of others stay.
#[test]
fn held_machines_and_control_groups_die_with_their_controller() {
    let mut controller = controller(2);
    let inits = inits(&controller);
    let disks: BTreeMap<String, String> = inits.iter().flat_map(|pid| loop_devices(*pid)).collect();
    let number = fs::metadata(format!("/proc/{}/ns/pid", inits[0])).unwrap().ino();
    let sshd = children(inits[0] as u32)[0];
    let own: Vec<String> = inits.iter().filter_map(|pid| own_group(*pid)).collect();
    assert_eq!(own.len(), 2);
    let hierarchies = hierarchies();
    assert!(!hierarchies.is_empty(), "this test needs control groups");
    let made: Vec<PathBuf> =
        hierarchies.iter().map(|place| place.join(format!("deposed-{number}-7-7"))).collect();
    // Of a namespace that is nobody's: numbers of those begin far higher.
    let stranger = format!("deposed-1-{}-7", std::process::id());
    let strangers: Vec<PathBuf> = hierarchies.iter().map(|place| place.join(&stranger)).collect();
    for folder in made.iter().chain(&strangers) {
        fs::create_dir(folder).unwrap();
    }
    for folder in &made {
        fs::write(folder.join("cgroup.procs"), sshd.to_string()).unwrap();
    }
    // The socket lies where only the controller and its children see it.
    let socket = format!("/proc/{}/root/run/deposed/private/warden", controller.id());
    let line = |node: &str| Line::new(&socket, node);
    line("n1").hold(Hold::Frozen, Duration::from_secs(300), None).unwrap();
    line("n2").hold(Hold::Off, Duration::from_secs(300), None).unwrap();
    let processes = line("n1").look().unwrap().processes;
    assert!(processes.contains_key(&(inits[0] as u32)), "{processes:?}");

    let killed = Instant::now();
    kill_9(controller.id() as i32);
    eventually("processes are gone", || !processes.keys().any(|pid| runs(*pid as i32)));
    eventually("control groups are gone", || !made.iter().any(|folder| folder.exists()));
    eventually("the nodes' own groups are gone", || {
        !own.iter().any(|group| hierarchies.iter().any(|place| place.join(group).exists()))
    });
    eventually("disks are detached", || {
        disks.iter().all(|(number, before)| !attached(number) || sequence(number) != *before)
    });
    println!("all gone {:?} after SIGKILL", killed.elapsed());
    for folder in strangers {
        fs::remove_dir(folder).unwrap();
    }
    controller.wait().unwrap();
}
