//! Machines that are frozen or without power, seen from outside of their nodes.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use deposed_lab::warden::Line;
use deposed_lab::{DATA_DIR, Hold, Hub, Lab, LabNode, LabSpec};

use crate::support::{PROGRAM, eventually, kill_9, runs};

const LONG: Duration = Duration::from_secs(300);

fn lab(hub: &Hub, nodes: u8) -> Lab {
    Lab::up(hub, &LabSpec { nodes, program: PROGRAM.into(), ..LabSpec::default() }).unwrap()
}

fn line(lab: &Lab, node: &str) -> Line {
    Line::new(lab.directory().join("warden"), node)
}

/// Whether its kernel answers.
fn pings(node: LabNode) -> bool {
    let mut ping = Command::new("ping");
    ping.args(["-c", "1", "-W", "1", &node.v4().to_string()]).stdout(Stdio::null());
    ping.status().unwrap().success()
}

/// Whether its sshd says hello within a second.
fn greets(node: LabNode) -> bool {
    let address = SocketAddr::from((node.v4(), 22));
    let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else {
        return false;
    };
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    matches!(stream.read(&mut [0]), Ok(1))
}

/// A place on a node, as its own processes see it.
fn on(node: LabNode, path: &str) -> PathBuf {
    format!("/proc/{}/root{path}", node.pid()).into()
}

/// Nothing of a frozen node runs, only its kernel answers; then all of it goes on as if nothing had been.
#[test]
fn a_frozen_node_stands_still_and_goes_on() {
    let hub = Hub::enter().unwrap();
    let lab = lab(&hub, 2);
    let [one, two] = lab.nodes()[..] else { panic!("two nodes") };
    let held = line(&lab, "n1");
    let before = held.look().unwrap();
    assert!(before.held.is_none() && before.processes.len() >= 2, "{before:?}");
    held.check(Hold::Frozen).unwrap();
    held.hold(Hold::Frozen, LONG, None).unwrap();
    let first = held.look().unwrap();
    assert_eq!(first.held, Some(Hold::Frozen));
    assert!(pings(one) && !greets(one));
    assert!(pings(two) && greets(two));
    assert_eq!(held.look().unwrap(), first, "something ran");
    let error = held.hold(Hold::Off, LONG, None).unwrap_err().to_string();
    assert!(error.contains("n1 is held already"), "{error}");

    held.release().unwrap();
    assert!(greets(one));
    let after = held.look().unwrap();
    assert_eq!(after.held, None);
    for (pid, switches) in &first.processes {
        assert!(after.processes[pid] > *switches, "pid {pid} has not run");
    }
    assert_eq!(lab.nodes(), [one, two], "nobody was booted");
    held.release().unwrap();
}

/// Without power no process is left and nothing answers; of the data disk what was synced stays. The node boots
/// with its disks, its keys and its address, and runs what it was told to.
#[test]
fn a_node_that_was_off_boots_with_what_was_synced() {
    let hub = Hub::enter().unwrap();
    let lab = lab(&hub, 2);
    let [one, two] = lab.nodes()[..] else { panic!("two nodes") };
    let data = |name: &str| format!("{DATA_DIR}/{name}");
    fs::write(on(one, &data("synced")), "s").unwrap();
    let synced = fs::File::open(on(one, &data("synced"))).unwrap();
    synced.sync_all().unwrap();
    drop(synced);
    fs::File::open(on(one, DATA_DIR)).unwrap().sync_all().unwrap();
    fs::write(on(one, &data("unsynced")), vec![1; 100_000]).unwrap();
    fs::write(on(one, "/opt/settings"), "kept").unwrap();
    fs::write(on(one, "/run/state"), "in memory").unwrap();
    let key = fs::read(on(one, "/etc/ssh/ssh_host_ed25519_key")).unwrap();

    let held = line(&lab, "n1");
    let start = "echo started by $(id -un) on $(hostname) >/run/started".to_owned();
    held.hold(Hold::Off, LONG, Some(start)).unwrap();
    let view = held.look().unwrap();
    assert_eq!(view.held, Some(Hold::Off));
    assert!(view.processes.is_empty(), "{view:?}");
    let loss = view.loss.unwrap();
    assert!(loss.synced && loss.lost > 0, "{loss:?}");
    assert!(!runs(one.pid()) && !pings(one) && !greets(one));
    assert!(greets(two));
    assert_eq!(lab.nodes()[0].pid(), 0);

    held.release().unwrap();
    let again = lab.nodes()[0];
    assert!(greets(again) && pings(again) && again.pid() != one.pid());
    eventually("what it was told to run has run", || {
        fs::read_to_string(on(again, "/run/started"))
            .is_ok_and(|said| said == "started by root on n1\n")
    });
    let mut left: Vec<String> = fs::read_dir(on(again, DATA_DIR))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "lost+found")
        .collect();
    left.sort();
    assert!(left == ["synced"] || left == ["synced", "unsynced"], "{left:?}");
    let unsynced = fs::metadata(on(again, &data("unsynced"))).map_or(0, |found| found.len());
    assert!(unsynced < 100_000, "{unsynced}");
    assert_eq!(fs::read_to_string(on(again, "/opt/settings")).unwrap(), "kept");
    assert!(!on(again, "/run/state").exists());
    assert_eq!(fs::read(on(again, "/etc/ssh/ssh_host_ed25519_key")).unwrap(), key);
    // Once more, for a machine that has lost its power once is like any other.
    held.hold(Hold::Off, LONG, None).unwrap();
    held.release().unwrap();
    assert!(greets(lab.nodes()[0]));
}

/// A hold that nobody says any more is wanted ends by itself; until then it lasts.
#[test]
fn a_hold_ends_with_its_time() {
    let hub = Hub::enter().unwrap();
    let lab = lab(&hub, 2);
    let short = Duration::from_secs(2);
    let (one, two) = (line(&lab, "n1"), line(&lab, "n2"));
    one.hold(Hold::Frozen, short, None).unwrap();
    two.hold(Hold::Off, short, None).unwrap();
    for held in [&one, &two] {
        eventually("it ends by itself", || held.look().unwrap().held.is_none());
    }
    assert!(lab.nodes().into_iter().all(greets));
    let error = one.renew(short).unwrap_err().to_string();
    assert!(error.contains("n1 is not held any more"), "{error}");
    one.hold(Hold::Frozen, short, None).unwrap();
    one.renew(LONG).unwrap();
    std::thread::sleep(2 * short);
    assert_eq!(one.look().unwrap().held, Some(Hold::Frozen));
    let error = line(&lab, "n7").look().unwrap_err().to_string();
    assert!(error.contains("no node \"n7\""), "{error}");
}

/// A node whose init was killed by somebody is booted again when it is released.
#[test]
fn a_dead_node_is_booted_on_request() {
    let hub = Hub::enter().unwrap();
    let lab = lab(&hub, 1);
    let node = lab.nodes()[0];
    kill_9(node.pid());
    let held = line(&lab, "n1");
    eventually("it is gone", || held.look().unwrap().processes.is_empty());
    let error = held.hold(Hold::Frozen, LONG, None).unwrap_err().to_string();
    assert!(error.contains("n1 does not run"), "{error}");
    held.release().unwrap();
    assert!(greets(node));
}
