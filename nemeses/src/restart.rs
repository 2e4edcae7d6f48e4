//! The fault `restart`: the store on some nodes is killed again and again, each time as soon as it has been
//! up for a moment.
//!
//! It bit if every node's store was killed and started anew at least once. It healed if it runs and is ready.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use deposed_agent::Spec;
use deposed_core::{Choice, Effect, Evidence, FaultContext, FaultError, Nemesis, Stop, StopSender};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::agents::Agents;
use crate::claims::Claims;
use crate::findings::healed;
use crate::kill::start_and_release;
use crate::processes::{self, Prey};
use crate::target::Target;

/// How long the store is let live between two kills.
const UP: Duration = Duration::from_millis(800);

/// How long after injection it must have been killed and started anew.
const SEEN_WITHIN: Duration = Duration::from_secs(8);

/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Kills the store again and again.
pub(crate) struct Restart {
    target: Option<Target>,
    claims: Claims,
    agents: Agents,
    storm: Option<Storm>,
}

/// The storm in force.
struct Storm {
    stop: StopSender,
    task: JoinHandle<()>,
    /// The start of every leader that was seen, by node.
    lives: Lives,
}

/// By node: pid and start time of each leader.
type Lives = Arc<Mutex<BTreeMap<String, BTreeSet<(u32, u64)>>>>;

impl Restart {
    pub(crate) const fn new(target: Option<Target>, claims: Claims, agents: Agents) -> Self {
        Self { target, claims, agents, storm: None }
    }
}

/// Starts what was killed, lets it live for a moment and kills it again, until it is stopped. Whatever fails
/// is tried again in the next round: what counts is what is seen.
async fn rounds(
    cx: FaultContext,
    agents: Agents,
    prey: Prey,
    name: String,
    lives: Lives,
    mut stop: Stop,
) {
    let nodes: Vec<String> = prey.processes.keys().cloned().collect();
    loop {
        agents.undo(&name, &nodes).await;
        tokio::select! {
            () = tokio::time::sleep(UP) => {}
            () = stop.wait() => return,
        }
        let Ok(listed) = processes::list(&cx, &nodes).await else { continue };
        note(&lives, &listed);
        // One that ended by itself has nobody to start it: only what was killed here is in a journal.
        for node in nodes.iter().filter(|node| !listed.contains_key(*node)) {
            if let (Some(remote), Ok(control)) = (cx.cluster.remote(node), processes::control(&cx))
            {
                let _ = control.start(&cx.cluster, &**remote).await;
            }
        }
        let _ = agents.apply(&name, specs(&cx, listed)).await;
    }
}

fn note(lives: &Lives, listed: &BTreeMap<String, Vec<deposed_core::Process>>) {
    let mut lives = lives.lock().unwrap_or_else(PoisonError::into_inner);
    for (node, processes) in listed {
        let leader = processes.first().map(|leader| (leader.pid, leader.start_ticks));
        lives.entry(node.clone()).or_default().extend(leader);
    }
}

fn specs(
    cx: &FaultContext,
    prey: BTreeMap<String, Vec<deposed_core::Process>>,
) -> Vec<(String, Spec)> {
    let start = |node: &str| {
        let node = cx.cluster.nodes().find(|known| &*known.name == node)?;
        processes::control(cx).ok()?.start_script(&cx.cluster, node)
    };
    prey.into_iter()
        .map(|(node, processes)| {
            let processes = processes.into_iter().map(processes::of_agent).collect();
            let start = start(&node);
            (node, Spec::Kill(deposed_agent::Kill { processes, start }))
        })
        .collect()
}

#[async_trait]
impl Nemesis for Restart {
    fn fault(&self) -> &str {
        "restart"
    }

    async fn prepare(&mut self, cx: &FaultContext) -> Result<(), FaultError> {
        let control = processes::control(cx)?;
        for node in cx.cluster.nodes() {
            if control.start_script(&cx.cluster, node).is_none() {
                return Err(FaultError::Unsupported(format!(
                    "{} does not say how its nodes start it by themselves",
                    cx.system.name()
                )));
            }
        }
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
        let start = |node: &deposed_core::Node| control.start_script(&cx.cluster, node);
        nodes.filter_map(|node| Some((node.name.to_string(), start(node)?))).collect()
    }

    async fn inject(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<(), FaultError> {
        let prey = Prey::read(choice)?;
        let lives = Lives::default();
        note(&lives, &prey.processes);
        self.agents.apply(name, specs(cx, prey.processes.clone())).await?;
        let (stop, stopped) = Stop::channel();
        let (cx, agents) = (cx.clone(), self.agents.clone());
        let storm = rounds(cx, agents, prey, name.to_owned(), Arc::clone(&lives), stopped);
        self.storm = Some(Storm { stop, task: tokio::spawn(storm), lives });
        Ok(())
    }

    async fn evidence(
        &mut self,
        _cx: &FaultContext,
        choice: &Choice,
        _name: &str,
    ) -> Result<Evidence, FaultError> {
        let Some(storm) = &self.storm else {
            return Err(FaultError::Unsupported("there is no storm".into()));
        };
        let lives = || storm.lives.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let again = |lives: &BTreeMap<String, BTreeSet<_>>| {
            choice.nodes.iter().all(|node| lives.get(node).is_some_and(|lives| lives.len() > 1))
        };
        let end = tokio::time::Instant::now() + SEEN_WITHIN;
        while !again(&lives()) && tokio::time::Instant::now() < end {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let lives = lives();
        let words: Vec<String> =
            lives.iter().map(|(node, lives)| format!("{node} {} times", lives.len() - 1)).collect();
        let (effect, summary) = if again(&lives) {
            (Effect::Proven, format!("started anew: {}", words.join(", ")))
        } else {
            (Effect::Indeterminate, format!("not started anew everywhere: {}", words.join(", ")))
        };
        let figures =
            lives.iter().map(|(node, lives)| (node.clone(), json!({ "lives": lives.len() })));
        Ok(Evidence { effect, summary, figures: serde_json::Value::Object(figures.collect()) })
    }

    async fn heal(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        if let Some(Storm { stop, task, .. }) = self.storm.take() {
            stop.set();
            let _ = task.await;
        }
        let late = start_and_release(cx, &self.claims, &self.agents, choice, name).await;
        Ok(healed(&self.claims, &choice.nodes, &late, |nodes| {
            format!("runs and is ready on {nodes}")
        }))
    }
}
