//! Kill and pause: what they do to processes, and who is believed.

use std::time::{Duration, Instant};

use deposed_core::{Effect, FaultError, Process};
use deposed_nemeses::{Agents, Claims};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::namespaces::Namespaces;
use crate::{
    NAME, agents, assert_doubted, assert_proven, hurt, nemesis, nemesis_among, nemesis_with, store,
};

/// The states of all processes of the store on a node, but for those that only wait to be reaped.
const STATES: &str = r#"g=$(cat /run/store.pid)
for f in /proc/[0-9]*/stat; do
  s=$(cat $f 2>/dev/null) || continue; s=${s##*) }; set -- $s
  [ "$3" = "$g" ] && [ "$1" != Z ] && echo "$1"
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
    assert_eq!(net.node(1).sh(STATES), "");
    let bystanders = net.everywhere(&store::count("sleep 1234"));
    assert_eq!(bystanders, ["1", "1", "1"]);
    assert_proven(&kill.heal(&cx, &choice, NAME).await.unwrap());
    let after = net.everywhere("cat /run/store.pid");
    assert_ne!(after[0], pids[0]);
    assert_eq!(after[1..], pids[1..]);
}

/// A node whose store is ready again may be paused while another one still waits for its own, and is not given
/// back when that one is ready at last.
#[tokio::test]
async fn a_node_that_is_ready_waits_for_no_other() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    let (agents, claims) = (Agents::default(), Claims::default());
    let mut kill = nemesis_among("kill:all", &cx, &agents, &claims).await;
    let mut pause = nemesis_among("pause:n1", &cx, &agents, &claims).await;
    let (killed, seen) = hurt(&mut *kill, &cx, "kill-1").await;
    assert_proven(&seen);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    assert!(pause.choose(&cx, &mut rng).await.unwrap_err().to_string().contains("is free"));
    let beats = format!("{}/beats", store::DATA);
    net.node(2).sh(&format!("echo broken >>{beats}"));
    assert_doubted(&kill.heal(&cx, &killed, "kill-1").await.unwrap(), "n2: ");
    let (paused, seen) = hurt(&mut *pause, &cx, "pause-2").await;
    assert_proven(&seen);
    net.node(2).sh(&format!("sed -i '/broken/d' {beats}"));
    assert_proven(&kill.heal(&cx, &killed, "kill-1").await.unwrap());
    assert!(pause.choose(&cx, &mut rng).await.is_err(), "n1 was given back twice");
    assert_proven(&pause.evidence(&cx, &paused, "pause-2").await.unwrap());
    assert_proven(&pause.heal(&cx, &paused, "pause-2").await.unwrap());
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

/// A paused store that its power switch shoots stood still for as long as it was there: that is proven
/// whether something of it is left or nothing, and so is that the pause is over.
#[tokio::test]
async fn a_pause_and_a_power_off_meet() {
    let one = "for p in $(ps -o pid= -g $g); do [ $p = $g ] || { kill -s KILL $p; break; }; done";
    for (shot, left) in [(one, "T"), ("kill -s KILL -- -$g", "")] {
        let net = Namespaces::new(1);
        let cx = store::running(&net).await;
        let mut pause = nemesis("pause:all", &cx).await;
        let (choice, seen) = hurt(&mut *pause, &cx, NAME).await;
        assert_proven(&seen);
        net.node(1).sh(&format!("g=$(cat /run/store.pid); {shot}"));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(net.node(1).sh(STATES), left);
        assert_proven(&pause.evidence(&cx, &choice, NAME).await.unwrap());
        let healed = pause.heal(&cx, &choice, NAME).await.unwrap();
        assert_proven(&healed);
        assert!(healed.summary.contains("but gone: pid"), "{}", healed.summary);
        assert!(!net.node(1).sh(STATES).contains('T'));
    }
}

/// Nobody heals: a paused store goes on, and a killed one is started, when the lease runs out.
#[tokio::test]
async fn processes_recover_when_the_lease_runs_out() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    let agents = agents(5);
    let mut pause = nemesis_with("pause:n1", &cx, &agents).await;
    let mut kill = nemesis_with("kill:n2", &cx, &agents).await;
    assert_proven(&hurt(&mut *pause, &cx, "pause-1").await.1);
    assert_proven(&hurt(&mut *kill, &cx, "kill-2").await.1);
    // While somebody renews them, leases do not run out.
    tokio::time::sleep(Duration::from_secs(6)).await;
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

/// How often the leader of the store was switched off a processor.
fn switches(node: &crate::namespaces::Namespace) -> u64 {
    let text = node.sh("sed -n 's/.*ctxt_switches:\\s*//p' /proc/$(cat /run/store.pid)/status");
    text.lines().map(|n| n.parse::<u64>().unwrap()).sum()
}

/// A frozen store does not run, though no signal has stopped it and none makes it go on; it goes on as
/// the same processes, in the control group it was in. Where no hierarchy is mounted, one is.
#[tokio::test]
async fn freeze_holds_against_signals() {
    let net = Namespaces::new(2);
    net.node(2).sh("umount -l /sys/fs/cgroup/unified; umount -l /sys/fs/cgroup/freezer");
    let cx = store::running(&net).await;
    let group = "cat /proc/$(cat /run/store.pid)/cgroup";
    let (pids, groups) = (net.everywhere("cat /run/store.pid"), net.everywhere(group));
    let mut freeze = nemesis("freeze:all", &cx).await;
    let (choice, seen) = hurt(&mut *freeze, &cx, NAME).await;
    assert_proven(&seen);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let seen = freeze.evidence(&cx, &choice, NAME).await.unwrap();
    assert_proven(&seen);
    assert!(seen.summary.contains("frozen on n1 n2 for"), "{}", seen.summary);
    // The kernel may wake a process for a signal and freeze it again at once, which it counts as a
    // switch: so it is counted from after that.
    net.everywhere("kill -s CONT -- -$(cat /run/store.pid)");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = [switches(net.node(1)), switches(net.node(2))];
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!([switches(net.node(1)), switches(net.node(2))], before);
    let states = net.everywhere(STATES);
    assert!(states.iter().all(|states| !states.contains('T')), "{states:?}");
    assert_proven(&freeze.heal(&cx, &choice, NAME).await.unwrap());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(switches(net.node(1)) > before[0] && switches(net.node(2)) > before[1]);
    assert_eq!(net.everywhere("cat /run/store.pid"), pids);
    assert_eq!(net.everywhere(group), groups);
    assert_eq!(net.everywhere("grep -c /run/deposed/cgroup /proc/mounts"), ["0", "0"]);
}

/// A frozen store that somebody else let run in between is not believed to have stood still.
#[tokio::test]
async fn a_freeze_somebody_lifted_is_not_believed() {
    let net = Namespaces::new(1);
    let cx = store::running(&net).await;
    let mut freeze = nemesis("freeze:all", &cx).await;
    let (choice, seen) = hurt(&mut *freeze, &cx, NAME).await;
    assert_proven(&seen);
    net.node(1).sh(
        "g=$(sed -n 's/^0:://p' /proc/$(cat /run/store.pid)/cgroup); cd $(sed -n 's/^cgroup2* \\(.*\\) cgroup2 .*/\\1/p' /proc/mounts)/$g; \
         echo 0 >cgroup.freeze; sleep 0.4; echo 1 >cgroup.freeze",
    );
    tokio::time::sleep(Duration::from_millis(300)).await;
    let seen = freeze.evidence(&cx, &choice, NAME).await.unwrap();
    assert_doubted(&seen, "did not stand still all the time");
    assert_proven(&freeze.heal(&cx, &choice, NAME).await.unwrap());
}

/// A slow store does little of what it did before, and all of it again when it is healed.
#[tokio::test]
async fn slow_leaves_a_fraction() {
    let net = Namespaces::new(1);
    let cx = store::running(&net).await;
    // Something that runs as fast as it can, in the group of the store.
    net.node(1).sh(
        "read g </run/store.pid; kill -9 -- -$g
         setsid sh -c 'echo $$ >/run/store.pid; while :; do :; done' </dev/null >/dev/null 2>&1 & sleep 0.2",
    );
    // Clock ticks of processor time in a second and a half.
    let ran = async || {
        let ticks = || -> u64 {
            let text = net.node(1).sh("set -- $(cat /proc/$(cat /run/store.pid)/stat); echo ${14}");
            text.parse().unwrap()
        };
        let before = ticks();
        tokio::time::sleep(Duration::from_millis(1500)).await;
        ticks() - before
    };
    let mut slow = nemesis("slow:all", &cx).await;
    let (choice, _) = hurt(&mut *slow, &cx, NAME).await;
    // A busy machine lets it run on for a while now and then, or has no time to look.
    let mut proven = async || {
        let mut seen = slow.evidence(&cx, &choice, NAME).await;
        for _ in 0..20 {
            if seen.as_ref().is_ok_and(|seen| seen.effect == Effect::Proven) {
                return;
            }
            seen = slow.evidence(&cx, &choice, NAME).await;
        }
        panic!("it was never seen to be slow: {seen:?}");
    };
    proven().await;
    // A tenth of 150, and what a late timer of a busy machine adds.
    let little = ran().await;
    assert!((1..75).contains(&little), "{little} ticks");
    proven().await;
    assert_proven(&slow.heal(&cx, &choice, NAME).await.unwrap());
    let left = net.everywhere("ls /run/deposed/faults");
    assert_eq!(left, [""]);
}

/// A storm of restarts gives the store several lives, and ends with one that stays.
#[tokio::test]
async fn restart_gives_several_lives() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    let first = net.everywhere("cat /run/store.pid");
    let mut restart = nemesis("restart:n1", &cx).await;
    let (choice, seen) = hurt(&mut *restart, &cx, NAME).await;
    assert_proven(&seen);
    assert_proven(&restart.heal(&cx, &choice, NAME).await.unwrap());
    let last = net.everywhere("cat /run/store.pid");
    assert_ne!(last[0], first[0]);
    assert_eq!(last[1], first[1]);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(net.everywhere("cat /run/store.pid"), last);
    assert!(net.node(1).sh(STATES).contains('S'));
}

/// What supervises the store is hit alone, and is there again.
#[tokio::test]
async fn a_supervisor_is_hit_alone() {
    let net = Namespaces::new(1);
    let cx = store::running(&net).await;
    let leader = || net.node(1).sh("cat /run/store.pid");
    // Of the store and of the node itself, which sleeps as long.
    let sleepers = || net.node(1).sh(&store::count("sleep 1000"));
    let patience = Instant::now() + Duration::from_secs(60);
    while sleepers() != "2" {
        assert!(Instant::now() < patience, "{} sleep", sleepers());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut supervisor = nemesis("supervisor:stop:n1", &cx).await;
    let (choice, seen) = hurt(&mut *supervisor, &cx, NAME).await;
    assert_proven(&seen);
    let state = net.node(1).sh("cut -d ' ' -f 3 /proc/$(cat /run/store.pid)/stat");
    assert_eq!((state.as_str(), sleepers().as_str()), ("T", "2"));
    let first = leader();
    assert_proven(&supervisor.heal(&cx, &choice, NAME).await.unwrap());
    assert_eq!(leader(), first);

    let mut supervisor = nemesis("supervisor:kill:n1", &cx).await;
    let (choice, seen) = hurt(&mut *supervisor, &cx, NAME).await;
    assert_proven(&seen);
    assert!(seen.summary.contains("the supervisor is gone, "), "{}", seen.summary);
    assert_eq!(sleepers(), "2");
    assert_proven(&supervisor.heal(&cx, &choice, NAME).await.unwrap());
    assert_ne!(leader(), first);
}

/// Memory and processor time run short, as the kernel counts, and are there again; whoever heals.
#[tokio::test]
async fn limits_are_met_and_lifted() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    net.node(1).sh("touch /run/hungry");
    let agents = agents(3);
    let mut memory = nemesis_with("memory:6M:n1", &cx, &agents).await;
    let (choice, seen) = hurt(&mut *memory, &cx, "memory-1").await;
    assert_proven(&seen);
    // It takes its time to have wanted all that it wants.
    let patience = Instant::now() + Duration::from_secs(60);
    while memory.evidence(&cx, &choice, "memory-1").await.unwrap().figures["n1"]["killed"] == 0 {
        assert!(Instant::now() < patience, "{}", seen.summary);
    }
    assert_proven(&memory.heal(&cx, &choice, "memory-1").await.unwrap());
    assert_eq!(net.node(1).sh("grep -l :/deposed- /proc/[0-9]*/cgroup"), "");

    // Something that runs as fast as it can, in the group of the store.
    net.node(2).sh(
        "read g </run/store.pid; kill -9 -- -$g
         setsid sh -c 'echo $$ >/run/store.pid; while :; do :; done' </dev/null >/dev/null 2>&1 & sleep 0.2",
    );
    let mut cpu = nemesis_with("cpu:1%:n2", &cx, &agents).await;
    let (_, seen) = hurt(&mut *cpu, &cx, "cpu-2").await;
    assert_proven(&seen);
    let ticks = || -> u64 {
        let text = net.node(2).sh("set -- $(cat /proc/$(cat /run/store.pid)/stat); echo ${14}");
        text.parse().unwrap()
    };
    let before = ticks();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let ran = ticks() - before;
    // A hundredth of 150.
    assert!(ran < 30, "{ran} ticks");
    drop((memory, cpu, agents));
    let left = "grep -l :/deposed- /proc/[0-9]*/cgroup; grep deposed/cgroup /proc/mounts; \
                find /run/deposed/faults -mindepth 1; kill -0 $(cat /run/store.pid) || echo down";
    let patience = Instant::now() + Duration::from_secs(40);
    while net.everywhere(left) != ["", ""] {
        assert!(Instant::now() < patience, "{:?}", net.everywhere(left));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
