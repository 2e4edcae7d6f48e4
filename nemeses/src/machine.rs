//! The faults `node-freeze` and `power-off`: whole nodes stand still, or lose their power, with sshd and our
//! agent and all; later they go on, or boot, and the store is started again.
//!
//! A node can undo neither by itself, so both take somebody outside of it who holds its machine
//! ([`deposed_core::Warden`]), and who lets it go when nobody says any more that it is wanted.
//!
//! They bit if the warden saw every process stand still, or none left and unsynced data gone, and the node
//! answers nothing over SSH. They healed if every process has run again, or the store was started and is ready.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deposed_core::{
    Choice, Command, Evidence, FaultContext, FaultError, Hold, Machine, Nemesis, Remote, Warden,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::agents::Agents;
use crate::claims::Claims;
use crate::fanout::SCRIPT_MAX;
use crate::findings::{Findings, healed};
use crate::processes;
use crate::target::{self, Target};
use crate::{kill, target::node_names};

/// How long a node may take to answer over SSH before it counts as silent.
const SILENT_AFTER: Duration = Duration::from_millis(1500);

/// How often it is looked whether every process has run again, and how far apart.
const LOOKS: u32 = 50;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Freezes whole nodes, or cuts their power.
pub(crate) struct HeldMachine {
    how: Hold,
    target: Option<Target>,
    claims: Claims,
    agents: Agents,
    /// Says again and again that the hold is wanted, until it is dropped.
    wanted: JoinSet<()>,
    still: Option<Still>,
}

/// Of nodes that stand still.
struct Still {
    since: Instant,
    machines: BTreeMap<String, Machine>,
}

impl HeldMachine {
    pub(crate) fn new(how: Hold, target: Option<Target>, claims: Claims, agents: Agents) -> Self {
        Self { how, target, claims, agents, wanted: JoinSet::new(), still: None }
    }

    /// What speaks against every process of a frozen node standing still, and all the time.
    fn stirred(&self, machines: &BTreeMap<String, Machine>) -> Vec<String> {
        let mut doubts = Vec::new();
        for (node, machine) in machines {
            if machine.processes.is_empty() {
                doubts.push(format!("{node} has no process that could stand still"));
            }
            let Some(still) = &self.still else { continue };
            let before = &still.machines[node].processes;
            let ran = machine.processes.iter().filter(|(pid, n)| before.get(pid) != Some(n));
            doubts.extend(ran.map(|(pid, _)| {
                format!("a process of {node} (pid {pid} outside of it) did not stand still")
            }));
        }
        doubts
    }
}

/// What speaks against nodes being without power.
fn powered(machines: &BTreeMap<String, Machine>) -> Vec<String> {
    let mut doubts = Vec::new();
    for (node, machine) in machines {
        if !machine.processes.is_empty() {
            let pids = machine.processes.keys();
            doubts.push(format!("still there on {node}: {:?}", pids.collect::<Vec<_>>()));
        }
        match machine.loss {
            None => doubts.push(format!("what {node} lost is not known")),
            Some(loss) if !loss.synced => {
                doubts.push(format!("a file of {node} that was synced is gone, too"));
            }
            Some(loss) if loss.lost == 0 => {
                doubts.push(format!("a file of {node} that was not synced is still there"));
            }
            Some(_) => {}
        }
    }
    doubts
}

/// Who holds the machine of a node, or a refusal.
fn warden(remote: &dyn Remote) -> Result<&dyn Warden, FaultError> {
    remote.warden().ok_or_else(|| {
        FaultError::Unsupported(format!(
            "{} could not undo this by itself, and nobody is known who holds its machine from outside: \
             that takes a node of a lab (a run without a cluster makes one, or `deposed lab up`)",
            remote.node().name
        ))
    })
}

/// Asks for every node at once.
async fn each<T, F>(
    cx: &FaultContext,
    nodes: &[String],
    ask: impl Fn(Arc<dyn Remote>) -> F,
) -> BTreeMap<String, Result<T, FaultError>>
where
    T: Send + 'static,
    F: Future<Output = Result<T, FaultError>> + Send + 'static,
{
    let mut asked = JoinSet::new();
    for node in nodes {
        let remote = cx.cluster.remote(node).map(Arc::clone);
        let asking = ask(remote.expect("targets are nodes of the cluster"));
        let node = node.clone();
        asked.spawn(async move { (node, asking.await) });
    }
    asked.join_all().await.into_iter().collect()
}

/// All successes, or the first failure.
fn all<T>(
    answers: BTreeMap<String, Result<T, FaultError>>,
) -> Result<BTreeMap<String, T>, FaultError> {
    answers.into_iter().map(|(node, answer)| answer.map(|answer| (node, answer))).collect()
}

async fn look(
    cx: &FaultContext,
    nodes: &[String],
) -> Result<BTreeMap<String, Machine>, FaultError> {
    all(each(cx, nodes, async |remote| Ok(warden(&*remote)?.look().await?)).await)
}

/// The nodes that answer over SSH within some time: past the warden.
async fn answering(cx: &FaultContext, nodes: &[String], within: Duration) -> Vec<String> {
    let hello = move || Command::new(":").deadline(within).idempotent();
    let answers =
        each(cx, nodes, move |remote| async move { Ok(remote.run(hello()).await?) }).await;
    answers.into_iter().filter(|(_, answer)| answer.is_ok()).map(|(node, _)| node).collect()
}

#[async_trait]
impl Nemesis for HeldMachine {
    fn fault(&self) -> &str {
        match self.how {
            Hold::Frozen => "node-freeze",
            Hold::Off => "power-off",
        }
    }

    async fn prepare(&mut self, cx: &FaultContext) -> Result<(), FaultError> {
        let how = self.how;
        let nodes = node_names(cx);
        let able =
            each(cx, &nodes, |remote| async move { Ok(warden(&*remote)?.check(how).await?) });
        all(able.await)?;
        if how == Hold::Off {
            let control = processes::control(cx)?;
            let started = |node| control.start_script(&cx.cluster, node).is_some();
            if !cx.cluster.nodes().all(started) {
                return Err(FaultError::Unsupported(format!(
                    "{} does not say how its nodes start it by themselves when they boot",
                    cx.system.name()
                )));
            }
        }
        Ok(())
    }

    async fn choose(
        &mut self,
        cx: &FaultContext,
        rng: &mut ChaCha8Rng,
    ) -> Result<Choice, FaultError> {
        let (target, nodes) = target::claim(cx, self.target.as_ref(), &self.claims, rng).await?;
        self.claims.lose(&nodes);
        Ok(Choice { nodes, what: json!({ "target": target.word() }) })
    }

    async fn repeat(&mut self, cx: &FaultContext, earlier: &Choice) -> Result<Choice, FaultError> {
        let target = Target::Nodes(earlier.nodes.clone());
        // Named nodes leave nothing to the seed.
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let (_, nodes) = target::claim(cx, Some(&target), &self.claims, &mut rng).await?;
        self.claims.lose(&nodes);
        Ok(Choice { nodes, what: earlier.what.clone() })
    }

    /// The warden knows, and needs nobody.
    fn undo(&self, _cx: &FaultContext, _choice: &Choice) -> Vec<(String, String)> {
        Vec::new()
    }

    async fn inject(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        _name: &str,
    ) -> Result<(), FaultError> {
        let (how, ttl) = (self.how, self.agents.ttl());
        self.still = None;
        let starts: BTreeMap<String, String> = match how {
            Hold::Frozen => BTreeMap::new(),
            Hold::Off => {
                let control = processes::control(cx)?;
                let nodes = cx.cluster.nodes();
                nodes
                    .filter_map(|node| {
                        let script = control.start_script(&cx.cluster, node)?;
                        Some((node.name.to_string(), script))
                    })
                    .collect()
            }
        };
        let held = each(cx, &choice.nodes, |remote| {
            let start = starts.get(&*remote.node().name).cloned();
            async move { Ok(warden(&*remote)?.hold(how, ttl, start).await?) }
        });
        all(held.await)?;
        let (cx, nodes) = (cx.clone(), choice.nodes.clone());
        self.wanted.spawn(async move {
            loop {
                sleep(ttl / 5).await;
                // One that is not held any more is seen by whoever looks.
                each(&cx, &nodes, |remote| async move { Ok(warden(&*remote)?.renew(ttl).await?) })
                    .await;
            }
        });
        Ok(())
    }

    async fn evidence(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        _name: &str,
    ) -> Result<Evidence, FaultError> {
        let mut findings = Findings::default();
        let answering = answering(cx, &choice.nodes, SILENT_AFTER).await;
        findings.doubt(answering.into_iter().map(|node| format!("{node} answers over SSH")));
        let machines = look(cx, &choice.nodes).await?;
        let free = machines.iter().filter(|(_, machine)| machine.held != Some(self.how));
        findings.doubt(free.map(|(node, _)| format!("{node} is not held any more")));
        let (nodes, silent) = (choice.nodes.join(" "), "no answer over SSH");
        let mut figures = serde_json::Map::new();
        let told = match self.how {
            Hold::Off => {
                findings.doubt(powered(&machines));
                for (node, machine) in &machines {
                    figures.insert(node.clone(), json!(machine.loss));
                }
                let losses = machines.values().filter_map(|machine| machine.loss);
                let (lost, of) =
                    losses.fold((0, 0), |(lost, of), loss| (lost + loss.lost, of + loss.unsynced));
                format!("no process left on {nodes}, {lost} of {of} unsynced bytes gone, {silent}")
            }
            Hold::Frozen => {
                findings.doubt(self.stirred(&machines));
                let mut count = 0;
                let first = self.still.is_none();
                let still = self.still.get_or_insert(Still { since: Instant::now(), machines });
                let held = still.since.elapsed();
                for (node, machine) in &still.machines {
                    let pids: Vec<&u32> = machine.processes.keys().collect();
                    count += pids.len();
                    let held_ms = held.as_millis() as u64;
                    figures.insert(node.clone(), json!({ "pids": pids, "held_ms": held_ms }));
                }
                let time = match first {
                    true => String::new(),
                    false => format!(" for {:.1} s", held.as_secs_f64()),
                };
                format!("{count} processes of {nodes} stand still{time}, {silent}")
            }
        };
        Ok(Evidence { figures: figures.into(), ..findings.told_as(told) })
    }

    async fn heal(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        _name: &str,
    ) -> Result<Evidence, FaultError> {
        self.wanted = JoinSet::new();
        let released =
            each(cx, &choice.nodes, async |remote| Ok(warden(&*remote)?.release().await?)).await;
        let (mut late, mut up) = (Vec::new(), Vec::new());
        for (node, released) in released {
            match released {
                Ok(()) => up.push(node),
                Err(error) => late.push(error.to_string()),
            }
        }
        match self.how {
            Hold::Off => late.extend(kill::start_all(cx, up.clone()).await),
            Hold::Frozen => late.extend(self.not_running(cx, &up).await?),
        }
        late.extend(self.agents.rejoin(&up).await);
        Ok(healed(&self.claims, &choice.nodes, &late, |nodes| match self.how {
            Hold::Off => format!("booted, and the store started again and ready on {nodes}"),
            Hold::Frozen => format!("every process of {nodes} has run again, SSH answers"),
        }))
    }
}

impl HeldMachine {
    /// What speaks against every process of nodes that were frozen running again.
    async fn not_running(
        &self,
        cx: &FaultContext,
        nodes: &[String],
    ) -> Result<Vec<String>, FaultError> {
        let answering = answering(cx, nodes, SCRIPT_MAX).await;
        let silent = nodes.iter().filter(|node| !answering.contains(node));
        let silent: Vec<String> =
            silent.map(|node| format!("{node} does not answer over SSH")).collect();
        let Some(still) = &self.still else { return Ok(silent) };
        let mut idle = Vec::new();
        for attempt in 0..LOOKS {
            if attempt > 0 {
                sleep(LOOK_EVERY).await;
            }
            idle.clear();
            for (node, machine) in look(cx, nodes).await? {
                // Those that have ended since have run, too.
                let Some(before) = still.machines.get(&node) else { continue };
                let same = |(pid, n): &(u32, u64)| before.processes.get(pid) == Some(n);
                idle.extend(machine.processes.into_iter().filter(same).map(|(pid, _)| {
                    format!("a process of {node} (pid {pid} outside of it) still stands still")
                }));
            }
            if idle.is_empty() {
                break;
            }
        }
        Ok([silent, idle].concat())
    }
}
