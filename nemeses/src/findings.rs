//! What was found of a fault on its nodes, as evidence: what agents saw, and what speaks against it.

use std::collections::BTreeMap;

use deposed_agent::Sight;
use deposed_core::{Effect, Evidence, FaultError};

use crate::agents::Agents;
use crate::claims::Claims;

/// Of a fault in force.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// By node: an agent that sees it.
    pub(crate) seen: BTreeMap<String, Sight>,
    /// What speaks against it.
    pub(crate) doubts: Vec<String>,
}

impl Findings {
    /// What the agents see of it.
    ///
    /// # Errors
    /// With the first node that does not answer.
    pub(crate) async fn of(
        agents: &Agents,
        name: &str,
        nodes: &[String],
    ) -> Result<Self, FaultError> {
        let mut findings = Self::default();
        findings.ask(agents, name, nodes).await?;
        Ok(findings)
    }

    /// Adds what the agents see of it.
    ///
    /// # Errors
    /// With the first node that does not answer.
    pub(crate) async fn ask(
        &mut self,
        agents: &Agents,
        name: &str,
        nodes: &[String],
    ) -> Result<(), FaultError> {
        for (node, sight) in agents.sights(name, nodes).await {
            self.add(node, sight?);
        }
        Ok(())
    }

    /// Adds what an agent sees.
    pub(crate) fn add(&mut self, node: String, sight: Sight) {
        if sight.holds {
            self.seen.insert(node, sight);
        } else {
            self.doubts.push(format!("{node}: {}", sight.summary));
        }
    }

    /// Adds what speaks against it.
    pub(crate) fn doubt(&mut self, doubts: impl IntoIterator<Item = String>) {
        self.doubts.extend(doubts);
    }

    /// What the agents say, unless something speaks against it.
    pub(crate) fn evidence(self) -> Evidence {
        let told: Vec<String> =
            self.seen.iter().map(|(node, sight)| format!("{node}: {}", sight.summary)).collect();
        self.told_as(told.join("; "))
    }

    /// The same in other words.
    pub(crate) fn told_as(self, told: String) -> Evidence {
        let (effect, summary) = match self.doubts.is_empty() {
            true => (Effect::Proven, told),
            false => (Effect::Indeterminate, self.doubts.join("; ")),
        };
        let figures = self.seen.into_iter().map(|(node, sight)| (node, sight.figures)).collect();
        Evidence { effect, summary, figures: serde_json::Value::Object(figures) }
    }
}

/// Evidence that a fault is over, in these words, unless something is left of it. Other faults may have
/// its nodes again.
pub(crate) fn healed(
    claims: &Claims,
    nodes: &[String],
    left: &[String],
    told: impl FnOnce(&str) -> String,
) -> Evidence {
    let (effect, summary) = if left.is_empty() {
        claims.release(nodes);
        (Effect::Proven, told(&nodes.join(" ")))
    } else {
        (Effect::Indeterminate, left.join("; "))
    };
    Evidence { effect, summary, figures: serde_json::Value::Null }
}
