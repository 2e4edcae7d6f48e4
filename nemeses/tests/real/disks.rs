//! What happens to the data of the store, seen from outside.

use std::time::{Duration, Instant};

use crate::namespaces::Namespaces;
use crate::store::DATA;
use crate::{NAME, agents, assert_proven, hurt, nemesis, nemesis_with, store};

/// What must not be left: a mount of ours, files of ours, a store that is down.
const LEFT: &str = "grep fuse.deposed /proc/mounts; ls -A /var/lib/store | grep deposed; \
    find /run/deposed/faults /var/lib/deposed-agent/faults /run/deposed/layers -mindepth 1; \
    ls -A /var/lib | grep aside; kill -0 $(cat /run/store.pid) || echo down";

/// What fails is what was asked for, on the node that was chosen; and everything works again, for the
/// store too.
#[tokio::test]
async fn disk_errors_are_met_and_pass() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    let mut errors = nemesis("disk-error:write+fsync:n1", &cx).await;
    let (choice, seen) = hurt(&mut *errors, &cx, NAME).await;
    assert_proven(&seen);
    assert!(seen.summary.contains("input/output errors"), "{}", seen.summary);
    let write = format!("(echo x | dd of={DATA}/mine conv=fsync) 2>&1; rm -f {DATA}/mine");
    let read = format!("tail -n 1 {DATA}/beats");
    let said = net.everywhere(&write);
    assert!(said[0].contains("Input/output error") && !said[1].contains("error"), "{said:?}");
    assert_eq!(net.everywhere(&read), ["beat", "beat"]);
    // The store writes all the time.
    let patience = Instant::now() + Duration::from_secs(30);
    loop {
        let seen = errors.evidence(&cx, &choice, NAME).await.unwrap();
        assert_proven(&seen);
        if seen.figures["n1"]["hurt"].as_u64().unwrap() > 1 {
            break;
        }
        assert!(Instant::now() < patience, "{}", seen.summary);
    }
    assert_proven(&errors.heal(&cx, &choice, NAME).await.unwrap());
    assert!(!net.node(1).sh(&write).contains("error"));
    assert_eq!(net.everywhere(LEFT), ["", ""]);
}

/// Syncs take as long as was asked for, and then no longer; nobody heals but the node itself.
#[tokio::test]
async fn slow_disks_are_slow_until_the_lease_runs_out() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    let agents = agents(3);
    let mut slow = nemesis_with("slow-disk:700ms:n2", &cx, &agents).await;
    let (_, seen) = hurt(&mut *slow, &cx, NAME).await;
    assert_proven(&seen);
    let took = |number| {
        let start = Instant::now();
        net.node(number).sh(&format!("sync {DATA}/beats"));
        start.elapsed()
    };
    assert!(took(2) >= Duration::from_millis(700));
    drop((slow, agents));
    let patience = Instant::now() + Duration::from_secs(40);
    while net.everywhere(LEFT) != ["", ""] {
        assert!(Instant::now() < patience, "{:?}", net.everywhere(LEFT));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A store that looks at its data gives up on what was damaged and has it back; one that finds none begins
/// anew.
#[tokio::test]
async fn data_is_damaged_and_gone() {
    let net = Namespaces::new(3);
    let cx = store::running(&net).await;
    let read = |number| net.node(number).sh(&format!("grep -avcx beat {DATA}/beats"));
    let agents = agents(3);
    let mut corrupt = nemesis_with("corrupt:flip=beats:n1", &cx, &agents).await;
    let (choice, seen) = hurt(&mut *corrupt, &cx, NAME).await;
    assert_proven(&seen);
    assert!(seen.summary.contains("/var/lib/store/beats is 0x"), "{}", seen.summary);
    assert_ne!(read(1), "0");
    let seen = corrupt.heal(&cx, &choice, NAME).await.unwrap();
    assert_proven(&seen);
    assert!(seen.summary.contains("n1: it did not run on that"), "{}", seen.summary);
    assert_eq!(read(1), "0");

    let mut wipe = nemesis_with("wipe:n2", &cx, &agents).await;
    net.node(2).sh(&format!("touch {DATA}/old"));
    let (choice, seen) = hurt(&mut *wipe, &cx, NAME).await;
    assert_proven(&seen);
    assert_eq!(net.node(2).sh(&format!("ls -A {DATA}")), "");
    let seen = wipe.heal(&cx, &choice, NAME).await.unwrap();
    assert_proven(&seen);
    assert!(seen.summary.contains("n2: it lives on what is left"), "{}", seen.summary);
    assert_eq!(net.node(2).sh(&format!("ls -A {DATA}")), "beats");

    // Nobody heals: the node itself gives the store back what it cannot do without.
    let mut cut = nemesis_with("corrupt:truncate=beats:n3", &cx, &agents).await;
    let (_, seen) = hurt(&mut *cut, &cx, NAME).await;
    assert_proven(&seen);
    drop((corrupt, wipe, cut, agents));
    let patience = Instant::now() + Duration::from_secs(60);
    while net.everywhere(LEFT) != ["", "", ""] {
        assert!(Instant::now() < patience, "{:?}", net.everywhere(LEFT));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(read(3), "0");
}
