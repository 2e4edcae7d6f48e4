//! Agents that die, and agents that lie.

use std::time::{Duration, Instant};

use deposed_core::{Effect, FaultContext};

use crate::namespaces::{Namespace, Namespaces};
use crate::{NAME, agents, assert_proven, hurt, nemesis_with, store};

/// Kills every agent that serves, and none of their keepers.
const KILL_AGENTS: &str = r#"for c in /proc/[0-9]*/cmdline; do
  case $(tr '\0' ' ' <$c) in /var/lib/deposed-agent/agent-*serve*) p=${c#/proc/}; kill -9 ${p%/cmdline};; esac
done 2>/dev/null"#;

/// Puts a program in the place of the agent that says what is wanted of it and does nothing.
const LIE: &str = r#"cat >/run/liar <<'END'
#!/bin/sh
while read -r line; do case $line in
  *'"do":"prove"'*|*'"do":"undo"'*) echo '{"seen":{"holds":true,"summary":"all is well","figures":{}}}';;
  *) echo '"done"';;
esac; done
END
chmod +x /run/liar
for a in /var/lib/deposed-agent/agent-*; do mount --bind /run/liar $a; done"#;

/// Prints, for each process of an agent on a node, what it has in memory, in KiB, and the processor time it
/// has used, with children it has waited for, in ticks of 10 ms.
const COSTS: &str = r#"for d in /proc/[0-9]*; do
  case $(tr '\0' ' ' <$d/cmdline) in /var/lib/deposed-agent/agent-*) ;; *) continue;; esac
  kib=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' $d/status); s=$(cat $d/stat); set -- ${s##*) }
  echo $kib $((${12} + ${13} + ${14} + ${15}))
done 2>/dev/null"#;

/// How many processes of an agent a node has, their memory together in KiB, and their processor time.
fn costs(node: &Namespace) -> (usize, u64, Duration) {
    let said = node.sh(COSTS);
    let numbers = |line: &str| {
        let (kib, ticks) = line.split_once(' ').unwrap();
        (kib.parse::<u64>().unwrap(), ticks.parse::<u64>().unwrap())
    };
    let all: Vec<(u64, u64)> = said.lines().map(numbers).collect();
    let ticks: u64 = all.iter().map(|(_, ticks)| ticks).sum();
    (all.len(), all.iter().map(|(kib, _)| kib).sum(), Duration::from_millis(ticks * 10))
}

fn stopped(node: &Namespace) -> bool {
    node.sh("grep '^State' /proc/$(cat /run/store.pid)/status").contains("stopped")
}

async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < patience, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// An agent that is killed while it is wanted is replaced, and its faults stay in force; one that is
/// killed where nobody can replace it leaves a node that heals itself.
#[tokio::test]
async fn a_killed_agent_is_replaced_or_its_node_heals_itself() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    let before = net.everywhere("nft list tables");
    let agents = agents(3);
    let mut pause = nemesis_with("pause:n1", &cx, &agents).await;
    let mut partition = nemesis_with("partition:n1", &cx, &agents).await;
    let (paused, seen) = hurt(&mut *pause, &cx, "pause-1").await;
    assert_proven(&seen);
    let (cut, seen) = hurt(&mut *partition, &cx, "partition-2").await;
    assert_proven(&seen);
    net.everywhere(KILL_AGENTS);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_proven(&pause.evidence(&cx, &paused, "pause-1").await.unwrap());
    assert_proven(&partition.evidence(&cx, &cut, "partition-2").await.unwrap());
    net.node(1).set_cut(true);
    net.node(2).set_cut(true);
    net.everywhere(KILL_AGENTS);
    until("the store goes on", || !stopped(net.node(1))).await;
    until("the rules are gone", || net.everywhere("nft list tables") == before).await;
    until("nothing is left to undo", || net.everywhere("ls /run/deposed/faults") == ["", ""]).await;
}

/// An agent and its keeper that only hold a fault have less than 10 MB together, and use less than 1 % of a
/// processor while their lease is renewed. It is processor time that counts, so it is no matter how
/// busy the machine is.
#[tokio::test]
async fn an_idle_agent_costs_next_to_nothing() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    let mut partition = nemesis_with("partition:halves", &cx, &agents(15)).await;
    let (choice, seen) = hurt(&mut *partition, &cx, NAME).await;
    assert_proven(&seen);
    until("there are an agent and its keeper", || costs(net.node(1)).0 == 2).await;
    let (start, (_, _, before)) = (Instant::now(), costs(net.node(1)));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (processes, kib, used) = costs(net.node(1));
    let (watched, used) = (start.elapsed(), used - before);
    println!("{processes} processes, {kib} KiB, {used:?} in {watched:?}");
    assert_eq!(processes, 2);
    assert!(kib < 10 << 10, "{kib} KiB");
    assert!(used <= watched / 100, "{used:?} in {watched:?}");
    assert_proven(&partition.heal(&cx, &choice, NAME).await.unwrap());
}

/// An agent that claims to have done what it did not is found out by those who look past it.
#[tokio::test]
async fn an_agent_that_lies_is_found_out() {
    let net = Namespaces::new(3);
    let cx = store::running(&net).await;
    for (fault, truth) in [
        ("partition:n1", "still reaches"),
        ("kill:n1", "is still there"),
        ("pause:n1", "is not stopped"),
        ("disk-error:write:n1", "write works for the node's own tools"),
        ("slow-disk:400ms:n1", "a sync takes"),
        ("corrupt:flip:n1", "does not say what was changed"),
        ("wipe:one", "does not say what was changed"),
        ("supervisor:stop:n1", "the supervisor on n1"),
        ("memory:n1", "is not limited"),
        ("cpu:1%:n1", "is not limited"),
    ] {
        // A liar renews no lease.
        let mut nemesis = nemesis_with(fault, &cx, &agents(300)).await;
        lie(&net);
        let (choice, seen) = hurt(&mut *nemesis, &cx, NAME).await;
        assert_eq!(seen.effect, Effect::Indeterminate, "{fault}: {}", seen.summary);
        assert!(seen.summary.contains(truth), "{fault}: {}", seen.summary);
        confess(&net);
        assert_proven(&nemesis.heal(&cx, &choice, NAME).await.unwrap());
    }
}

/// An agent that claims to have healed what it did not is found out as well.
#[tokio::test]
async fn an_agent_that_lies_about_healing_is_found_out() {
    let net = Namespaces::new(3);
    let cx: FaultContext = store::running(&net).await;
    for (fault, truth) in [
        ("partition:n1", "the rules are still on"),
        ("pause:n1", "still stopped"),
        ("disk-error:fsync:n1", "a layer is still mounted"),
        ("wipe:n1", "is still put aside"),
        ("supervisor:stop:n1", "is still stopped"),
        ("cpu:1%:n1", "is still limited"),
    ] {
        // A liar renews no lease.
        let mut nemesis = nemesis_with(fault, &cx, &agents(300)).await;
        let (choice, seen) = hurt(&mut *nemesis, &cx, NAME).await;
        assert_proven(&seen);
        lie(&net);
        let healed = nemesis.heal(&cx, &choice, NAME).await.unwrap();
        assert_eq!(healed.effect, Effect::Indeterminate, "{fault}: {}", healed.summary);
        assert!(healed.summary.contains(truth), "{fault}: {}", healed.summary);
        confess(&net);
        assert_proven(&nemesis.heal(&cx, &choice, NAME).await.unwrap());
    }
}

/// Kills whoever serves or is about to, until nobody does: one that is just being started may be either.
/// (The pattern does not fit the command line it is part of.)
const KILL_ALL: &str = r#"left=1; while [ "$left" ]; do left=
  for c in /proc/[0-9]*/cmdline; do
    case $(tr '\0' ' ' <$c) in *agent-[0-9a-f]*serve*) p=${c#/proc/}; kill -9 ${p%/cmdline}; left=1;; esac
  done
done 2>/dev/null"#;

fn lie(net: &Namespaces) {
    net.everywhere(LIE);
    net.everywhere(KILL_ALL);
}

fn confess(net: &Namespaces) {
    net.everywhere("for a in /var/lib/deposed-agent/agent-*; do umount -l $a; done");
    net.everywhere(KILL_ALL);
}
