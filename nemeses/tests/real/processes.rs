//! Kill and pause: what they do to processes, and who is believed.

use std::time::{Duration, Instant};

use deposed_core::{FaultError, Process};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::namespaces::Namespaces;
use crate::{NAME, agents, assert_doubted, assert_proven, hurt, nemesis, nemesis_with, store};

/// The states of all processes of the store on a node.
const STATES: &str = r#"g=$(cat /run/store.pid)
for f in /proc/[0-9]*/stat; do
  s=$(cat $f 2>/dev/null) || continue; s=${s##*) }; set -- $s
  [ "$3" = "$g" ] && echo "$1"
done | sort | uniq | tr '\n' ' '"#;

/// A killed store is gone with its whole group, a bystander is not, and healing starts another.
#[tokio::test]
async fn kill_takes_the_group_and_nothing_else() {
    let net = Namespaces::new(3);
    let cx = store::running(&net).await;
    net.everywhere("setsid sleep 1234 >/dev/null 2>&1 &");
    let pids = net.everywhere("cat /run/store.pid");
    let mut kill = nemesis("kill:primaries", &cx).await;
    let (choice, seen) = hurt(&mut *kill, &cx, NAME).await;
    assert_eq!(choice.nodes, ["n1"]);
    assert_proven(&seen);
    assert!(matches!(net.node(1).sh(STATES).as_str(), "" | "Z"));
    let bystanders = net.everywhere(&store::count("sleep 1234"));
    assert_eq!(bystanders, ["1", "1", "1"]);
    assert_proven(&kill.heal(&cx, &choice, NAME).await.unwrap());
    let after = net.everywhere("cat /run/store.pid");
    assert_ne!(after[0], pids[0]);
    assert_eq!(after[1..], pids[1..]);
}

/// A pid that has passed to another process since it was chosen is not signalled.
#[tokio::test]
async fn a_pid_without_its_start_time_is_nobody() {
    let net = Namespaces::new(1);
    let cx = store::running(&net).await;
    for fault in ["kill:one", "pause:one"] {
        let mut nemesis = nemesis(fault, &cx).await;
        let mut choice = nemesis.choose(&cx, &mut ChaCha8Rng::seed_from_u64(1)).await.unwrap();
        let mut processes: Vec<Process> =
            serde_json::from_value(choice.what["processes"]["n1"].clone()).unwrap();
        for process in &mut processes {
            process.start_ticks += 1;
        }
        choice.what["processes"]["n1"] = serde_json::to_value(&processes).unwrap();
        nemesis.inject(&cx, &choice, NAME).await.unwrap();
        let states = net.node(1).sh(STATES);
        assert!(!states.contains('T') && !states.is_empty(), "{states}");
    }
}

/// A paused store stands still with all its processes and goes on as the same processes.
#[tokio::test]
async fn pause_stops_every_process_for_the_whole_time() {
    let net = Namespaces::new(3);
    let cx = store::running(&net).await;
    let pids = net.everywhere("cat /run/store.pid");
    let mut pause = nemesis("pause:majority", &cx).await;
    let (choice, seen) = hurt(&mut *pause, &cx, NAME).await;
    assert_eq!(choice.nodes.len(), 2);
    assert_proven(&seen);
    let stopped = net.everywhere(STATES).iter().filter(|states| *states == "T").count();
    assert_eq!(stopped, 2);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let seen = pause.evidence(&cx, &choice, NAME).await.unwrap();
    assert_proven(&seen);
    let held = seen.figures[&choice.nodes[0]]["held_ms"].as_u64().unwrap();
    assert!((300..5000).contains(&held), "{}", seen.summary);
    assert_proven(&pause.heal(&cx, &choice, NAME).await.unwrap());
    assert!(net.everywhere(STATES).iter().all(|states| !states.contains('T')));
    assert_eq!(net.everywhere("cat /run/store.pid"), pids);
}

/// A pause that somebody else lifted is not believed: neither while the store runs, nor when it was
/// stopped again before anybody looked.
#[tokio::test]
async fn a_pause_somebody_lifted_is_not_believed() {
    let net = Namespaces::new(1);
    let cx = store::running(&net).await;
    let mut pause = nemesis("pause:all", &cx).await;
    let (choice, seen) = hurt(&mut *pause, &cx, NAME).await;
    assert_proven(&seen);
    net.node(1).sh("kill -s CONT -- -$(cat /run/store.pid)");
    assert_doubted(&pause.evidence(&cx, &choice, NAME).await.unwrap(), "is not stopped");
    assert_proven(&pause.heal(&cx, &choice, NAME).await.unwrap());

    let (choice, seen) = hurt(&mut *pause, &cx, NAME).await;
    assert_proven(&seen);
    net.node(1).sh("g=$(cat /run/store.pid); kill -s CONT -- -$g; sleep 0.2; kill -s STOP -- -$g");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let seen = pause.evidence(&cx, &choice, NAME).await.unwrap();
    assert_doubted(&seen, "did not stand still all the time");
    assert_proven(&pause.heal(&cx, &choice, NAME).await.unwrap());
}

/// Nobody heals: a paused store goes on, and a killed one is started, when the lease runs out.
#[tokio::test]
async fn processes_recover_when_the_lease_runs_out() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    let agents = agents(3);
    let mut pause = nemesis_with("pause:n1", &cx, &agents).await;
    let mut kill = nemesis_with("kill:n2", &cx, &agents).await;
    assert_proven(&hurt(&mut *pause, &cx, "pause-1").await.1);
    assert_proven(&hurt(&mut *kill, &cx, "kill-2").await.1);
    // While somebody renews them, leases do not run out.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let (paused, killed) = (net.node(1).sh(STATES), net.node(2).sh(STATES));
    assert!(paused == "T" && !killed.contains('S'), "{paused:?} {killed:?}");
    drop((pause, kill, agents));
    let patience = Instant::now() + Duration::from_secs(30);
    loop {
        let states = net.everywhere(STATES);
        if states.iter().all(|s| s.contains('S') && !s.contains('T')) {
            break;
        }
        assert!(Instant::now() < patience, "{states:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Where nothing of the store runs there is nothing to hit, and that is said.
#[tokio::test]
async fn nothing_to_hit_is_said() {
    let net = Namespaces::new(1);
    let cx = store::running(&net).await;
    let mut kill = nemesis("kill:n1", &cx).await;
    assert_proven(&hurt(&mut *kill, &cx, NAME).await.1);
    let mut pause = nemesis("pause:n1", &cx).await;
    match pause.choose(&cx, &mut ChaCha8Rng::seed_from_u64(1)).await {
        Err(FaultError::Nothing(reason)) => {
            assert_eq!(reason, "nothing of the store runs on n1");
        }
        other => panic!("{other:?}"),
    }
}
