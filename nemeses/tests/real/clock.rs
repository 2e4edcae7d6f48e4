//! Clocks: what a store sees, and who is believed. What each motion does to a program is tested where
//! the agent is.

use deposed_core::{FaultError, ProcessControl};
use deposed_nemeses::{Agents, Claims};

use crate::namespaces::Namespaces;
use crate::{NAME, assert_doubted, assert_proven, hurt, nemesis, store};

/// The nodes whose store has a cell mapped.
fn moved(net: &Namespaces) -> Vec<String> {
    let has = "grep -ls 'clock-.*[.]cell' /proc/[0-9]*/maps | wc -l";
    let counts = net.everywhere(has);
    let names = net.names().into_iter().zip(counts);
    names.filter(|(_, count)| count != "0").map(|(name, _)| name).collect()
}

/// Every process of the store on the target sees the time that was asked for, nobody else does, and
/// nothing of that is left.
#[tokio::test]
async fn clocks_are_moved_and_come_back() {
    let net = Namespaces::new(3);
    let cx = store::running(&net).await;
    let mut clock = nemesis("clock:jump=-600s:primaries", &cx).await;
    let (choice, seen) = hurt(&mut *clock, &cx, NAME).await;
    assert_eq!(choice.nodes, ["n1"]);
    assert_proven(&seen);
    assert!(seen.summary.starts_with("n1: jump: clock -"), "{}", seen.summary);
    assert_eq!(moved(&net), ["n1"]);
    let processes = seen.figures["n1"]["processes"].as_array().unwrap();
    assert!(processes.len() >= 2, "{processes:?}");
    for process in processes {
        let offset = process["offset_ns"].as_i64().unwrap();
        let error = process["error_ns"].as_u64().unwrap();
        assert!(offset.abs_diff(-600_000_000_000) <= error + 2, "{process}");
    }
    assert_proven(&clock.evidence(&cx, &choice, NAME).await.unwrap());
    let healed = clock.heal(&cx, &choice, NAME).await.unwrap();
    assert_proven(&healed);
    assert!(healed.summary.contains("ms ± "), "{}", healed.summary);
    assert!(moved(&net).is_empty());
}

/// A store that was started anew sees the true time: the fault is not believed any more, whatever the
/// agent knows.
#[tokio::test]
async fn a_store_that_was_started_anew_is_not_moved() {
    let net = Namespaces::new(1);
    let cx = store::running(&net).await;
    let mut clock = nemesis("clock:drift:all", &cx).await;
    let (choice, seen) = hurt(&mut *clock, &cx, NAME).await;
    assert_proven(&seen);
    net.node(1).sh("kill -s KILL -- -$(cat /run/store.pid)");
    let (store, remote) = (store::Store::default(), &net.cluster.remotes()[0]);
    // What was killed may take its time to go, and is not started while it is there.
    while !store.processes(&**remote).await.unwrap().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    while store.processes(&**remote).await.unwrap().is_empty() {
        store.start(&net.cluster, &**remote).await.unwrap();
    }
    assert_doubted(&clock.evidence(&cx, &choice, NAME).await.unwrap(), "sees the true time");
    assert_proven(&clock.heal(&cx, &choice, NAME).await.unwrap());
}

/// Where nothing of the store runs there is nothing to move, and that is said.
#[tokio::test]
async fn nothing_to_move_is_said() {
    let net = Namespaces::new(1);
    let cx = store::running(&net).await;
    net.node(1).sh("kill -s KILL -- -$(cat /run/store.pid)");
    let (store, remote) = (store::Store::default(), &net.cluster.remotes()[0]);
    while !store.processes(&**remote).await.unwrap().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let mut clock = nemesis("clock", &cx).await;
    use rand::SeedableRng;
    match clock.choose(&cx, &mut rand_chacha::ChaCha8Rng::seed_from_u64(1)).await {
        Err(FaultError::Nothing(_)) => {}
        other => panic!("{other:?}"),
    }
}

/// Nodes on the machine of the controller share its clock, whatever the user says of them: that is refused
/// before anything is done.
#[tokio::test]
async fn a_clock_that_is_not_a_nodes_own_is_refused() {
    let net = Namespaces::new(2);
    let mut cx = store::running(&net).await;
    cx.own_clocks.insert("n2".into());
    let nodes = net.names();
    let specs = deposed_nemeses::parse("clock:jump=1s:n1", &nodes).unwrap();
    let mut clock = specs[0].nemesis(&nodes, &Claims::default(), &Agents::default()).unwrap();
    match clock.prepare(&cx).await {
        Err(FaultError::Unsupported(why)) => {
            assert!(why.contains("n2: set the clock of this machine: another node"), "{why}");
            assert!(why.contains("say clock = \"shared\""), "{why}");
        }
        other => panic!("{other:?}"),
    }
}
