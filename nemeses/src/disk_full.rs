//! The fault `disk-full`: the disk of the store's data has no room left on some nodes.
//!
//! It bit if neither the agent nor the node's own tools can write to it any more. It healed if they can
//! and the store runs and is ready: one that ended is started again.

use async_trait::async_trait;
use deposed_agent::Spec;
use deposed_agent::disk::DiskFull as Full;
use deposed_core::{Choice, Evidence, FaultContext, FaultError, Nemesis};
use rand_chacha::ChaCha8Rng;

use crate::agents::Agents;
use crate::claims::Claims;
use crate::fanout::{all, on_each};
use crate::findings::{Findings, healed};
use crate::kill::start_undone;
use crate::power_cut::says_where_its_data_is;
use crate::processes;
use crate::target::Target;

/// Fills the store's disk.
pub(crate) struct DiskFull {
    target: Option<Target>,
    claims: Claims,
    agents: Agents,
}

impl DiskFull {
    pub(crate) const fn new(target: Option<Target>, claims: Claims, agents: Agents) -> Self {
        Self { target, claims, agents }
    }

    /// Nodes whose own tools can write next to the store's data.
    async fn roomy(&self, cx: &FaultContext, choice: &Choice) -> Result<Vec<String>, FaultError> {
        let control = processes::control(cx)?;
        let scripts = cx.cluster.nodes().filter_map(|node| {
            let data =
                control.data(node).filter(|_| choice.nodes.contains(&node.name.to_string()))?;
            let script = format!(
                "f='{data}/.deposed-dd'; dd if=/dev/zero of=\"$f\" bs=64k count=4 conv=fsync \
                 2>/dev/null && echo room; rm -f \"$f\""
            );
            Some((node.name.to_string(), script))
        });
        let printed = all(on_each(&cx.cluster, scripts.collect::<Vec<_>>()).await)?;
        Ok(printed.into_iter().filter(|(_, said)| said.contains("room")).map(|(n, _)| n).collect())
    }
}

#[async_trait]
impl Nemesis for DiskFull {
    fn fault(&self) -> &str {
        "disk-full"
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

    /// The nodes' own journals know what takes the room.
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
        let nodes = cx.cluster.nodes().filter(|node| choice.nodes.contains(&node.name.to_string()));
        let specs = nodes.filter_map(|node| {
            let start = control.start_script(&cx.cluster, node);
            let full = Full { data: control.data(node)?.into(), start };
            Some((node.name.to_string(), Spec::DiskFull(full)))
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
        let roomy = self.roomy(cx, choice).await?;
        findings.doubt(roomy.into_iter().map(|node| format!("dd can write on {node}")));
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
        let roomy = self.roomy(cx, choice).await?;
        let full = choice.nodes.iter().filter(|node| !roomy.contains(node));
        late.extend(full.map(|node| format!("dd cannot write on {node}")));
        Ok(healed(&self.claims, &choice.nodes, &late, |nodes| {
            format!("the disk takes writes, the store is ready on {nodes}")
        }))
    }
}
