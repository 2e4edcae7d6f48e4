//! Is this cluster fit for a run? Examines every node and says how to mend what is not.
//!
//! Nothing is changed on the nodes: the one thing that is made, a firewall chain, is removed at once.
//! (iptables itself leaves an empty table `filter` where there was none, as it does after any use.)

mod clock;
mod facts;
mod finding;
mod judge;

pub use finding::{Finding, State, render};

use std::sync::Arc;

use deposed_core::{Command, Remote, RemoteError};
use tokio::task::JoinSet;

use crate::inventory::{Inventory, NodeSpec};
use crate::remote::SshRemote;
use clock::Offset;
use facts::Facts;

/// Examines all nodes at once. Findings come node by node, in the order of the inventory.
pub async fn examine(inventory: &Inventory) -> Vec<Finding> {
    let mut under_way = JoinSet::new();
    for (index, spec) in inventory.nodes.iter().cloned().enumerate() {
        under_way.spawn(async move { (index, examine_node(&spec).await) });
    }
    let mut by_node = vec![Vec::new(); inventory.nodes.len()];
    while let Some(done) = under_way.join_next().await {
        match done {
            Ok((index, findings)) => by_node[index] = findings,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    by_node.concat()
}

async fn examine_node(spec: &NodeSpec) -> Vec<Finding> {
    let node = &spec.node.name;
    let remote = match SshRemote::connect(spec).await {
        Ok(remote) => remote,
        Err(error) => return vec![unreachable(node, &error)],
    };
    let key = remote.fingerprint().map_or_else(String::new, |key| format!(", {key}"));
    let reached = format!("{}@{}{key}", spec.user, spec.endpoint());
    let mut findings = vec![Finding::ok(node, "reach", reached)];
    match look(&remote).await {
        Ok((facts, offset)) => findings.extend(judge::judge(node, &facts, offset)),
        Err(error) => findings.push(Finding::fail(
            node,
            "facts",
            error.to_string(),
            "run the command by hand on the node and see what it says",
        )),
    }
    findings
}

async fn look(remote: &SshRemote) -> Result<(Facts, Offset), RemoteError> {
    let facts = remote.run(Command::new(facts::SCRIPT).idempotent()).await?;
    Ok((facts::parse(&facts), clock::measure(remote).await?))
}

fn unreachable(node: &Arc<str>, error: &RemoteError) -> Finding {
    // The reason already ends in what to do.
    let (said, mend) = match error {
        RemoteError::Connect { addr, reason, .. } => (format!("{addr}: {reason}"), ""),
        RemoteError::HostKeyChanged { addr, reason, .. } => (format!("{addr}: {reason}"), ""),
        other => (other.to_string(), "is the node up and its SSH server well?"),
    };
    Finding::fail(node, "reach", said, mend)
}
