//! Whole machines that are held, by wardens that lie and by ones that do not. What a real one does, in a lab, is
//! tested where there are labs.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use deposed_core::{FaultContext, FaultError, Hold, Loss, Machine, Nemesis, Warden, WardenError};
use deposed_nemeses::{Agents, Claims, heal_all};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::namespaces::Namespaces;
use crate::{NAME, agents, assert_doubted, assert_proven, hurt, nemesis_with, store};

/// What a warden says and does not do: the node goes on all the time.
#[derive(Clone)]
struct Script {
    state: Arc<Mutex<State>>,
    /// Whether commands on the node fail while it is held.
    line: Option<Arc<Mutex<bool>>>,
}

struct State {
    machine: Machine,
    renewed: u32,
    /// What is in the way of a release.
    stuck: bool,
    /// How far the processes it tells of have gone since the last look.
    steps: u64,
}

impl Script {
    /// Of node `n1`.
    fn new(net: &Namespaces, loss: Option<Loss>, pids: &[u32], cuts: bool) -> Self {
        let processes = pids.iter().map(|pid| (*pid, 100)).collect();
        let machine = Machine { held: None, processes, loss };
        let state = State { machine, renewed: 0, stuck: false, steps: 0 };
        let line = cuts.then(|| net.node(1).line());
        let script = Self { state: Arc::new(Mutex::new(state)), line };
        net.node(1).set_warden(script.clone());
        script
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    fn cut(&self, cut: bool) {
        if let Some(line) = &self.line {
            *line.lock().unwrap() = cut;
        }
    }
}

#[async_trait]
impl Warden for Script {
    async fn check(&self, _: Hold) -> Result<(), WardenError> {
        Ok(())
    }
    async fn hold(&self, how: Hold, _: Duration, _: Option<String>) -> Result<(), WardenError> {
        self.change(|state| state.machine.held = Some(how));
        self.cut(true);
        Ok(())
    }
    async fn renew(&self, _: Duration) -> Result<(), WardenError> {
        self.change(|state| state.renewed += 1);
        Ok(())
    }
    async fn look(&self) -> Result<Machine, WardenError> {
        let mut state = self.state.lock().unwrap();
        let steps = state.steps;
        state.machine.processes.values_mut().for_each(|switches| *switches += steps);
        Ok(state.machine.clone())
    }
    async fn release(&self) -> Result<(), WardenError> {
        let mut state = self.state.lock().unwrap();
        if state.stuck {
            let (node, reason) = ("n1".into(), "it is stuck".into());
            return Err(WardenError { node, action: "release", reason });
        }
        state.machine.held = None;
        state.steps = 1;
        self.cut(false);
        Ok(())
    }
}

const LOSS: Loss = Loss { synced: true, unsynced: 1000, lost: 900 };

/// A warden that says what is not so is found out, past it or by what it says itself.
#[tokio::test]
async fn a_warden_that_lies_is_found_out() {
    for (fault, loss, pids, cuts, truth) in [
        ("node-freeze:n1", None, &[7][..], false, "n1 answers over SSH"),
        ("node-freeze:n1", None, &[], true, "no process that could stand still"),
        ("power-off:n1", Some(LOSS), &[], false, "n1 answers over SSH"),
        ("power-off:n1", Some(LOSS), &[7], true, "still there on n1: [7]"),
        ("power-off:n1", None, &[], true, "what n1 lost is not known"),
        ("power-off:n1", Some(Loss { synced: false, ..LOSS }), &[], true, "was synced is gone"),
        ("power-off:n1", Some(Loss { lost: 0, ..LOSS }), &[], true, "not synced is still there"),
    ] {
        let net = Namespaces::new(1);
        let cx = store::running(&net).await;
        Script::new(&net, loss, pids, cuts);
        let mut nemesis = nemesis_with(fault, &cx, &agents(300)).await;
        let (_, seen) = hurt(&mut *nemesis, &cx, NAME).await;
        assert_doubted(&seen, truth);
    }
}

/// That a machine stood still is believed for as long as nothing in it ran and it was held.
#[tokio::test]
async fn a_machine_that_stirs_was_not_frozen() {
    let net = Namespaces::new(1);
    let cx = store::running(&net).await;
    let warden = Script::new(&net, None, &[7, 8], true);
    let mut freeze = nemesis_with("node-freeze:all", &cx, &agents(300)).await;
    let (choice, seen) = hurt(&mut *freeze, &cx, NAME).await;
    assert_proven(&seen);
    assert!(seen.summary.starts_with("2 processes of n1 stand still"), "{}", seen.summary);
    assert_proven(&freeze.evidence(&cx, &choice, NAME).await.unwrap());
    warden.change(|state| state.steps = 1);
    let seen = freeze.evidence(&cx, &choice, NAME).await.unwrap();
    assert_doubted(&seen, "a process of n1 (pid 7 outside of it) did not stand still");
    warden.change(|state| (state.steps, state.machine.held) = (0, None));
    assert_doubted(&freeze.evidence(&cx, &choice, NAME).await.unwrap(), "n1 is not held any more");
}

/// A machine is not believed to be healed before it answers and everything in it has run.
#[tokio::test]
async fn a_release_is_looked_at() {
    let net = Namespaces::new(1);
    let cx = store::running(&net).await;
    let warden = Script::new(&net, Some(LOSS), &[], true);
    let mut off = nemesis_with("power-off:n1", &cx, &agents(300)).await;
    let (choice, seen) = hurt(&mut *off, &cx, NAME).await;
    assert_proven(&seen);
    assert!(seen.summary.contains("900 of 1000 unsynced bytes gone"), "{}", seen.summary);
    net.node(1).sh("kill -9 -- -$(cat /run/store.pid)");
    warden.change(|state| state.stuck = true);
    let error = heal_all(&cx.cluster, &[]).await["n1"].as_ref().unwrap_err().to_string();
    assert!(error.contains("it is stuck"), "{error}");
    assert_doubted(&off.heal(&cx, &choice, NAME).await.unwrap(), "it is stuck");
    warden.change(|state| state.stuck = false);
    assert_proven(&off.heal(&cx, &choice, NAME).await.unwrap());
    let runs = net.node(1).sh("kill -0 $(cat /run/store.pid) && echo runs");
    assert_eq!(runs, "runs", "the store was not started");
}

/// A hold is said to be wanted for as long as it is held, and not any longer.
#[tokio::test]
async fn a_hold_is_renewed_until_it_is_healed() {
    let net = Namespaces::new(1);
    let cx = store::running(&net).await;
    let warden = Script::new(&net, None, &[7], true);
    let mut freeze = nemesis_with("node-freeze:n1", &cx, &agents(1)).await;
    let (choice, _) = hurt(&mut *freeze, &cx, NAME).await;
    let renewed = || warden.state.lock().unwrap().renewed;
    let patience = Instant::now() + Duration::from_secs(60);
    while renewed() < 5 {
        assert!(Instant::now() < patience, "renewed {} times", renewed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_proven(&freeze.heal(&cx, &choice, NAME).await.unwrap());
    let by_now = renewed();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(renewed(), by_now);
}

/// Faults of links leave nodes alone whose machine is held, and say why; those in force there are doubted. When
/// the node is back, its agent takes faults again.
#[tokio::test]
async fn other_faults_do_without_a_machine_that_is_held() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    // Every node has somebody; nobody asks for that of n2.
    net.node(2).set_warden(Script::new(&net, None, &[7], true));
    let (claims, agents) = (Claims::default(), Agents::new(Duration::from_secs(300)));
    let nodes = net.names();
    let made = async |fault: &str| {
        let spec = deposed_nemeses::parse(fault, &nodes).unwrap().remove(0);
        let mut nemesis = spec.nemesis(&nodes, &claims, &agents).unwrap();
        nemesis.prepare(&cx).await.unwrap();
        nemesis.baseline(&cx).await.unwrap();
        nemesis
    };
    let mut freeze = made("node-freeze:n1").await;
    let mut cut = made("partition:n1").await;
    let mut packets = made("packets:delay=20ms:n2").await;
    let mut pause = made("pause:n1").await;
    let (choice, seen) = hurt(&mut *freeze, &cx, "node-freeze-1").await;
    assert_proven(&seen);
    for (other, why) in [
        (&mut cut, "frozen or off: n1"),
        (&mut packets, "frozen or off: n1"),
        (&mut pause, "no node is free for `n1`"),
    ] {
        let error = refusal(&mut **other, &cx).await;
        assert!(matches!(&error, FaultError::Nothing(said) if said.contains(why)), "{error}");
    }
    assert_proven(&freeze.heal(&cx, &choice, "node-freeze-1").await.unwrap());

    let (choice, seen) = hurt(&mut *cut, &cx, "partition-2").await;
    assert_proven(&seen);
    let (frozen, _) = hurt(&mut *freeze, &cx, "node-freeze-3").await;
    assert!(cut.evidence(&cx, &choice, "partition-2").await.is_err(), "n1 tells nothing");
    assert_proven(&freeze.heal(&cx, &frozen, "node-freeze-3").await.unwrap());
    assert_proven(&cut.heal(&cx, &choice, "partition-2").await.unwrap());
}

async fn refusal(nemesis: &mut dyn Nemesis, cx: &FaultContext) -> FaultError {
    nemesis.choose(cx, &mut ChaCha8Rng::seed_from_u64(1)).await.unwrap_err()
}

/// Where nobody holds machines, the fault is refused before anything is touched.
#[tokio::test]
async fn machines_that_nobody_holds_are_refused() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    let nodes = net.names();
    for fault in ["node-freeze", "power-off:n2"] {
        let spec = deposed_nemeses::parse(fault, &nodes).unwrap().remove(0);
        let mut nemesis = spec.nemesis(&nodes, &Claims::default(), &agents(15)).unwrap();
        let error = nemesis.prepare(&cx).await.unwrap_err();
        let FaultError::Unsupported(reason) = &error else { panic!("{error}") };
        assert!(reason.contains("could not undo this by itself"), "{reason}");
    }
}
