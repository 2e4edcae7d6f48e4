//! Faults against real processes and real packets, in namespaces of this machine. They need root.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agents;
mod clock;
mod disks;
mod lanes;
mod machines;
mod namespaces;
mod packets;
mod partition;
mod processes;
mod store;

use std::time::Duration;

use deposed_core::{Choice, Effect, Evidence, FaultContext, Nemesis};
use deposed_nemeses::{Agents, Claims};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// A fault as the command line names it, prepared.
async fn nemesis(fault: &str, cx: &FaultContext) -> Box<dyn Nemesis> {
    nemesis_with(fault, cx, &Agents::default()).await
}

/// The same, by these agents.
async fn nemesis_with(fault: &str, cx: &FaultContext, agents: &Agents) -> Box<dyn Nemesis> {
    nemesis_among(fault, cx, agents, &Claims::default()).await
}

/// The same, among others that claim nodes.
async fn nemesis_among(
    fault: &str,
    cx: &FaultContext,
    agents: &Agents,
    claims: &Claims,
) -> Box<dyn Nemesis> {
    let nodes: Vec<String> = cx.cluster.nodes().map(|node| node.name.to_string()).collect();
    let specs = deposed_nemeses::parse(fault, &nodes).unwrap();
    let mut nemesis = specs[0].nemesis(&nodes, &claims.for_another_lane(), agents).unwrap();
    nemesis.prepare(cx).await.unwrap();
    nemesis.baseline(cx).await.unwrap();
    nemesis
}

/// The name of an injection that is the only one.
const NAME: &str = "test-1";

/// Agents whose nodes do without them for so long.
fn agents(seconds: u64) -> Agents {
    Agents::new(Duration::from_secs(seconds))
}

/// Chooses and injects, and returns what was seen.
async fn hurt(nemesis: &mut dyn Nemesis, cx: &FaultContext, name: &str) -> (Choice, Evidence) {
    let choice = nemesis.choose(cx, &mut ChaCha8Rng::seed_from_u64(1)).await.unwrap();
    nemesis.inject(cx, &choice, name).await.unwrap();
    let evidence = nemesis.evidence(cx, &choice, name).await.unwrap();
    (choice, evidence)
}

#[track_caller]
fn assert_proven(evidence: &Evidence) {
    assert_eq!(evidence.effect, Effect::Proven, "{}", evidence.summary);
}

#[track_caller]
fn assert_doubted(evidence: &Evidence, because: &str) {
    assert_eq!(evidence.effect, Effect::Indeterminate, "{}", evidence.summary);
    assert!(evidence.summary.contains(because), "{}", evidence.summary);
}
