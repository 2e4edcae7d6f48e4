//! Undoing everything from outside of a run: before one starts, after one died.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use deposed_core::{Cluster, RemoteError};
use tokio::task::JoinSet;

use crate::fanout::on_each;
use crate::firewall::restore_script;
use crate::journal::{Entry, Journal, pending};

/// Has every agent that lies on a node, of whatever version, undo what the node's journal knows of. Sets
/// `failed`.
const AGENTS: &str = r#"failed=0
for a in /var/lib/deposed-agent/agent-*; do
  [ ! -x "$a" ] || "$a" heal || failed=1
done
"#;

/// Does what [`heal_all`] does, with what is pending in the journal of a run, and marks there what
/// was undone, so that it is not done once more when the cluster has other uses.
///
/// # Errors
/// If the journal cannot be read or written.
pub async fn heal_run(
    cluster: &Cluster,
    journal: &Path,
) -> io::Result<BTreeMap<String, Result<(), RemoteError>>> {
    let pending = pending(journal)?;
    let healed = heal_all(cluster, &pending).await;
    if !pending.is_empty() {
        let journal = Journal::open(journal)?;
        let whole = |node: &String| matches!(healed.get(node), Some(Ok(())));
        for entry in pending.iter().filter(|entry| entry.nodes.iter().all(whole)) {
            journal.undone(entry.id).await?;
        }
    }
    Ok(healed)
}

/// Undoes on every node of a cluster whatever a run may have left: a machine that is frozen or off, what the
/// node itself has written down, the firewall rules of ours, and what is `pending` in the journal of a run (which may be
/// empty). Touches nothing that is not ours; may be repeated.
///
/// Every run begins with it, before it tears down and sets up the store: a node that a dead run left
/// behind may start a store that was killed, and must not do so in the middle of the next.
///
/// Says for each node whether that succeeded. A store that was killed is started again only where
/// its system gave a script for it.
pub async fn heal_all(
    cluster: &Cluster,
    pending: &[Entry],
) -> BTreeMap<String, Result<(), RemoteError>> {
    let unreleased = release_machines(cluster).await;
    let mut scripts: BTreeMap<String, String> = cluster
        .nodes()
        .filter(|node| !unreleased.contains_key(&*node.name))
        .map(|node| {
            let rules = restore_script();
            (node.name.to_string(), format!("{AGENTS}(\n{rules}\n) || failed=1\n"))
        })
        .collect();
    let undos = pending.iter().rev().flat_map(|entry| &entry.undo);
    for undo in undos.filter(|undo| !unreleased.contains_key(&undo.node)) {
        let script = scripts.entry(undo.node.clone()).or_insert_with(|| "failed=0\n".into());
        script.push_str(&format!("(\n{}\n) || failed=1\n", undo.script));
    }
    for script in scripts.values_mut() {
        script.push_str("exit $failed\n");
    }
    let healed = on_each(cluster, scripts).await;
    let healed = healed.into_iter().map(|(node, result)| (node, result.map(drop)));
    healed.chain(unreleased.into_iter().map(|(node, error)| (node, Err(error)))).collect()
}

/// Lets every machine go on that is held from outside, or boots it. What could not be released cannot be
/// reached.
async fn release_machines(cluster: &Cluster) -> BTreeMap<String, RemoteError> {
    let mut asked = JoinSet::new();
    for remote in cluster.remotes().iter().map(Arc::clone) {
        asked.spawn(async move {
            let released = remote.warden()?.release().await;
            let (node, addr) = (remote.node().name.to_string(), remote.node().addr.to_string());
            let reason = released.err()?.to_string();
            Some((node.clone(), RemoteError::Connect { node, addr, reason }))
        });
    }
    asked.join_all().await.into_iter().flatten().collect()
}
