//! The fault `kill`: SIGKILL to the store on some nodes, and later a new start on what it left.
//!
//! It bit if the processes are gone. It healed if the store runs again and is ready.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deposed_agent::{Sight, Spec};
use deposed_core::{Choice, Effect, Evidence, FaultContext, FaultError, Nemesis};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use tokio::task::JoinSet;

use crate::agents::Agents;
use crate::claims::Claims;
use crate::findings::healed;
use crate::processes::{self, Look, Prey, Standstill};
use crate::target::Target;

/// How long killed processes may take to go, and how often that is looked at. Exit of a big process
/// takes its time.
const GONE_LOOKS: u32 = 20;
const GONE_LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long a store that was started again may take to be ready. While other faults are in force
/// it may be unable to; then the lane tries again later.
const READY_WITHIN: Duration = Duration::from_secs(15);

/// Kills the store.
pub(crate) struct Kill {
    target: Option<Target>,
    claims: Claims,
    agents: Agents,
}

impl Kill {
    pub(crate) const fn new(target: Option<Target>, claims: Claims, agents: Agents) -> Self {
        Self { target, claims, agents }
    }
}

#[async_trait]
impl Nemesis for Kill {
    fn fault(&self) -> &str {
        "kill"
    }

    async fn prepare(&mut self, cx: &FaultContext) -> Result<(), FaultError> {
        processes::control(cx)?;
        self.agents.start(&cx.cluster).await
    }

    async fn choose(
        &mut self,
        cx: &FaultContext,
        rng: &mut ChaCha8Rng,
    ) -> Result<Choice, FaultError> {
        processes::choose(cx, self.target.as_ref(), &self.claims, rng).await
    }

    async fn repeat(&mut self, cx: &FaultContext, earlier: &Choice) -> Result<Choice, FaultError> {
        processes::repeat(cx, earlier, &self.claims).await
    }

    fn undo(&self, cx: &FaultContext, choice: &Choice) -> Vec<(String, String)> {
        let Ok(control) = processes::control(cx) else { return Vec::new() };
        let nodes = cx.cluster.nodes().filter(|node| choice.nodes.contains(&node.name.to_string()));
        nodes
            .filter_map(|node| {
                Some((node.name.to_string(), control.start_script(&cx.cluster, node)?))
            })
            .collect()
    }

    async fn inject(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<(), FaultError> {
        let prey = Prey::read(choice)?;
        let mut starts: BTreeMap<String, String> = self.undo(cx, choice).into_iter().collect();
        let specs = prey.processes.into_iter().map(|(node, processes)| {
            let processes = processes.into_iter().map(processes::of_agent).collect();
            let start = starts.remove(&node);
            (node, Spec::Kill(deposed_agent::Kill { processes, start }))
        });
        self.agents.apply(name, specs.collect()).await
    }

    async fn evidence(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        let prey = Prey::read(choice)?;
        let mut alive = Vec::new();
        for look in 0..GONE_LOOKS {
            if look > 0 {
                tokio::time::sleep(GONE_LOOK_EVERY).await;
            }
            let looks = processes::look(cx, &prey, Standstill::Signal).await?;
            alive = looks
                .iter()
                .flat_map(|(node, looks)| looks.iter().map(move |(pid, look)| (node, pid, look)))
                .filter(|(_, _, look)| **look != Look::Gone)
                .map(|(node, pid, _)| format!("pid {pid} on {node} is still there"))
                .collect();
            if alive.is_empty() {
                break;
            }
        }
        alive.extend(self.agents.objections(name, &choice.nodes).await?);
        let (effect, summary) = if alive.is_empty() {
            (Effect::Proven, format!("killed on {}: all pids gone", choice.nodes.join(" ")))
        } else {
            (Effect::Indeterminate, alive.join("; "))
        };
        let pids = prey.processes.iter().map(|(node, processes)| {
            let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
            (node.clone(), json!({ "pids": pids }))
        });
        Ok(Evidence { effect, summary, figures: serde_json::Value::Object(pids.collect()) })
    }

    async fn heal(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        let late = start_and_release(cx, &self.claims, &self.agents, choice, name).await;
        Ok(healed(&self.claims, &choice.nodes, &late, |nodes| {
            format!("started again and ready on {nodes}")
        }))
    }
}

/// Undoes a fault of which nothing but a store that does not run is left, and starts the store again. A node is
/// given back as soon as its store is ready: the others may have to wait until a partition is over. Says
/// what does not work yet, node by node.
pub(crate) async fn start_and_release(
    cx: &FaultContext,
    claims: &Claims,
    agents: &Agents,
    choice: &Choice,
    name: &str,
) -> Vec<String> {
    let mut starting = JoinSet::new();
    for (node, undone) in agents.undo(name, &claims.ours(&choice.nodes)).await {
        let (cx, claims) = (cx.clone(), claims.clone());
        starting.spawn(async move {
            let started = match undone {
                Ok(_) => start(&cx, &node).await,
                Err(error) => Err(error),
            };
            started.map(|()| claims.release([&node])).map_err(|error| format!("{node}: {error}"))
        });
    }
    let mut late: Vec<_> = starting.join_all().await.into_iter().filter_map(Result::err).collect();
    late.sort();
    late
}

/// Starts the store on every node where its fault was undone, and waits until it is ready there. Says
/// what does not work yet, node by node.
pub(crate) async fn start_undone(
    cx: &FaultContext,
    undone: BTreeMap<String, Result<Sight, FaultError>>,
) -> Vec<String> {
    let (mut late, mut nodes) = (Vec::new(), Vec::new());
    // A node that does not answer must not keep the others down.
    for (node, undone) in undone {
        match undone {
            Ok(_) => nodes.push(node),
            Err(error) => late.push(format!("{node}: {error}")),
        }
    }
    late.extend(start_all(cx, nodes).await);
    late.sort();
    late
}

/// Starts the store on nodes, all at once, and waits until it is ready there. Says what does not work.
pub(crate) async fn start_all(cx: &FaultContext, nodes: Vec<String>) -> Vec<String> {
    let mut starting = JoinSet::new();
    for node in nodes {
        let cx = cx.clone();
        starting.spawn(async move { start(&cx, &node).await.map_err(|e| format!("{node}: {e}")) });
    }
    let started = starting.join_all().await;
    started.into_iter().filter_map(Result::err).collect()
}

/// Starts the store on a node and waits until it is ready.
async fn start(cx: &FaultContext, node: &str) -> Result<(), FaultError> {
    let remote = cx.cluster.remote(node).map(Arc::clone);
    let remote = remote.ok_or_else(|| FaultError::Unsupported(format!("no node {node}")))?;
    processes::control(cx)?.start(&cx.cluster, &*remote).await?;
    match tokio::time::timeout(READY_WITHIN, cx.system.db().ready(&cx.cluster, &*remote)).await {
        Ok(ready) => Ok(ready?),
        Err(_) => Err(FaultError::Unsupported(format!(
            "started again, but not ready within {READY_WITHIN:?}"
        ))),
    }
}
