//! The fault `supervisor`: on some nodes the process that supervises the store is killed or stopped, alone.
//!
//! It bit if that process is gone or stands still while what it supervises is not stopped. It healed if
//! the store runs, with a supervisor that is not stopped, and is ready.

use std::collections::BTreeMap;

use async_trait::async_trait;
use deposed_agent::{Blow, Spec, Supervisor as Hit};
use deposed_core::{Choice, Evidence, FaultContext, FaultError, Nemesis, Process};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use crate::agents::Agents;
use crate::claims::Claims;
use crate::disk_trouble::can_be_stopped;
use crate::findings::{Findings, healed};
use crate::kill::start_undone;
use crate::mistake::Mistake;
use crate::processes::{self, Look, Prey, Standstill};
use crate::target::Target;
use crate::words::{self, Unknown, Word, with_targets};

/// What `supervisor:` may be followed by, beside a target.
const BLOWS: [Word; 2] = [("kill", "it is killed"), ("stop", "it is stopped")];

/// Hits the store's supervisor.
pub(crate) struct Supervisor {
    blow: Option<Blow>,
    target: Option<Target>,
    claims: Claims,
    agents: Agents,
}

fn parse_blow(word: &str) -> Option<Blow> {
    match word {
        "kill" => Some(Blow::Kill),
        "stop" => Some(Blow::Stop),
        _ => None,
    }
}

/// The supervisor of each node and those it supervises.
fn split(choice: &Choice) -> Result<BTreeMap<String, (Process, Vec<Process>)>, FaultError> {
    let prey = Prey::read(choice)?.processes.into_iter();
    let split = prey.filter_map(|(node, processes)| {
        let (first, others) = processes.split_first()?;
        Some((node, (*first, others.to_vec())))
    });
    Ok(split.collect())
}

impl Supervisor {
    /// Words for help and completions.
    pub(crate) const WORDS: [Word; 7] = with_targets(&BLOWS);

    /// Reads `kill`, `stop:one` or `one`.
    pub(crate) fn parse(
        text: Option<&str>,
        nodes: &[String],
        claims: &Claims,
        agents: &Agents,
    ) -> Result<Self, Mistake> {
        let unknown = Unknown { problem: "it is not known", known: &BLOWS };
        let (blow, target) = words::read(
            text,
            &unknown,
            |word| parse_blow(word).map(Ok),
            |word| Target::parse(word, nodes),
        )?;
        Ok(Self { blow, target, claims: claims.clone(), agents: agents.clone() })
    }
}

#[async_trait]
impl Nemesis for Supervisor {
    fn fault(&self) -> &str {
        "supervisor"
    }

    async fn prepare(&mut self, cx: &FaultContext) -> Result<(), FaultError> {
        can_be_stopped(cx)?;
        self.agents.start(&cx.cluster).await
    }

    async fn choose(
        &mut self,
        cx: &FaultContext,
        rng: &mut ChaCha8Rng,
    ) -> Result<Choice, FaultError> {
        let mut choice = processes::choose(cx, self.target.as_ref(), &self.claims, rng).await?;
        let drawn = if rng.random_bool(0.5) { Blow::Kill } else { Blow::Stop };
        choice.what["blow"] = json!(self.blow.unwrap_or(drawn));
        Ok(choice)
    }

    async fn repeat(&mut self, cx: &FaultContext, earlier: &Choice) -> Result<Choice, FaultError> {
        processes::repeat(cx, earlier, &self.claims).await
    }

    /// The nodes' own journals know whom to let go on and what to start.
    fn undo(&self, _cx: &FaultContext, _choice: &Choice) -> Vec<(String, String)> {
        Vec::new()
    }

    async fn inject(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<(), FaultError> {
        let blow: Blow = serde_json::from_value(choice.what["blow"].clone())
            .map_err(|error| FaultError::Unsupported(format!("not a choice of a blow: {error}")))?;
        let control = processes::control(cx)?;
        let mut split = split(choice)?;
        let specs = cx.cluster.nodes().filter_map(|node| {
            let (first, others) = split.remove(&*node.name)?;
            let hit = Hit {
                process: processes::of_agent(first),
                others: others.into_iter().map(processes::of_agent).collect(),
                blow,
                stop: control.stop_script(node)?,
                start: control.start_script(&cx.cluster, node)?,
            };
            Some((node.name.to_string(), Spec::Supervisor(hit)))
        });
        let specs = specs.collect();
        self.agents.apply(name, specs).await
    }

    async fn evidence(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        let mut findings = Findings::of(&self.agents, name, &choice.nodes).await?;
        let split = split(choice)?;
        for (node, looks) in processes::look(cx, &Prey::read(choice)?, Standstill::Signal).await? {
            let first = split[&node].0.pid;
            for (pid, look) in looks {
                match look {
                    Look::Running if pid == first => {
                        findings.doubts.push(format!("the supervisor on {node}, pid {pid}, runs"));
                    }
                    Look::Stopped { .. } if pid != first => {
                        findings.doubts.push(format!("pid {pid} on {node} is stopped, too"));
                    }
                    _ => {}
                }
            }
        }
        Ok(findings.evidence())
    }

    async fn heal(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        let undone = self.agents.undo(name, &choice.nodes).await;
        let mut late = start_undone(cx, undone).await;
        for (node, looks) in processes::look(cx, &Prey::read(choice)?, Standstill::Signal).await? {
            let stopped =
                looks.into_iter().filter(|(_, look)| matches!(look, Look::Stopped { .. }));
            late.extend(stopped.map(|(pid, _)| format!("{node}: pid {pid} is still stopped")));
        }
        Ok(healed(&self.claims, &choice.nodes, &late, |nodes| {
            format!("nothing is stopped, the store is ready on {nodes}")
        }))
    }
}
