//! The fault `power-cut`: the store and the power of its disk are gone at once on some nodes, and later
//! it starts on what was synced.
//!
//! It bit if the processes are gone, a file that was synced just before is there and one that was only
//! written is not. It healed if the disk takes writes and the store runs again and is ready.

use async_trait::async_trait;
use deposed_agent::Spec;
use deposed_agent::disk::PowerCut as Cut;
use deposed_core::{Choice, Evidence, FaultContext, FaultError, Nemesis};
use rand_chacha::ChaCha8Rng;

use crate::agents::Agents;
use crate::claims::Claims;
use crate::findings::{Findings, healed};
use crate::kill::start_and_release;
use crate::processes::{self, Look, Prey, Standstill};
use crate::target::Target;

/// Cuts the power of the store's disk.
pub(crate) struct PowerCut {
    target: Option<Target>,
    claims: Claims,
    agents: Agents,
}

impl PowerCut {
    pub(crate) const fn new(target: Option<Target>, claims: Claims, agents: Agents) -> Self {
        Self { target, claims, agents }
    }
}

/// Refuses a system that does not.
pub(crate) fn says_where_its_data_is(cx: &FaultContext) -> Result<(), FaultError> {
    let control = processes::control(cx)?;
    match cx.cluster.nodes().find(|node| control.data(node).is_none()) {
        Some(node) => Err(FaultError::Unsupported(format!(
            "{} does not say where its data is on {}; that disk cannot be hurt",
            cx.system.name(),
            node.name
        ))),
        None => Ok(()),
    }
}

#[async_trait]
impl Nemesis for PowerCut {
    fn fault(&self) -> &str {
        "power-cut"
    }

    async fn prepare(&mut self, cx: &FaultContext) -> Result<(), FaultError> {
        says_where_its_data_is(cx)?;
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

    /// The nodes' own journals know what to mount and to start.
    fn undo(&self, _cx: &FaultContext, _choice: &Choice) -> Vec<(String, String)> {
        Vec::new()
    }

    async fn inject(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<(), FaultError> {
        let control = processes::control(cx)?;
        let mut prey = Prey::read(choice)?;
        let specs = cx.cluster.nodes().filter_map(|node| {
            let processes = prey.processes.remove(&*node.name)?;
            let cut = Cut {
                processes: processes.into_iter().map(processes::of_agent).collect(),
                data: control.data(node)?.into(),
                start: control.start_script(&cx.cluster, node),
            };
            Some((node.name.to_string(), Spec::PowerCut(cut)))
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
        for (node, looks) in processes::look(cx, &Prey::read(choice)?, Standstill::Signal).await? {
            let alive = looks.into_iter().filter(|(_, look)| *look != Look::Gone);
            findings.doubt(alive.map(|(pid, _)| format!("pid {pid} on {node} is still there")));
        }
        Ok(findings.evidence())
    }

    async fn heal(
        &mut self,
        cx: &FaultContext,
        choice: &Choice,
        name: &str,
    ) -> Result<Evidence, FaultError> {
        let late = start_and_release(cx, &self.claims, &self.agents, choice, name).await;
        Ok(healed(&self.claims, &choice.nodes, &late, |nodes| {
            format!("the disk takes writes, started again and ready on {nodes}")
        }))
    }
}
