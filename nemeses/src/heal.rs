//! Undoing everything from outside of a run: before one starts, after one died.

use std::collections::BTreeMap;

use deposed_core::{Cluster, RemoteError};

use crate::deadman;
use crate::fanout::on_each;
use crate::firewall::restore_script;
use crate::journal::Entry;

/// Undoes on every node of a cluster whatever a run may have left: what the node itself has written
/// down, the firewall rules of ours, and what is `pending` in the journal of a run (which may be
/// empty). Touches nothing that is not ours; may be repeated.
///
/// Every run begins with it, before it tears down and sets up the store: a timer that a dead run
/// left behind may start a store that it had killed, and must not do so in the middle of the next.
///
/// Says for each node whether that succeeded. A store that was killed is started again only where
/// its system gave a script for it.
pub async fn heal_all(
    cluster: &Cluster,
    pending: &[Entry],
) -> BTreeMap<String, Result<(), RemoteError>> {
    let mut scripts: BTreeMap<String, String> = cluster
        .nodes()
        .map(|node| {
            let all_of_ours = format!(
                "failed=0\n(\n{}\n) || failed=1\n(\n{}\n) || failed=1\n",
                deadman::sweep(),
                restore_script()
            );
            (node.name.to_string(), all_of_ours)
        })
        .collect();
    for undo in pending.iter().rev().flat_map(|entry| &entry.undo) {
        let script = scripts.entry(undo.node.clone()).or_insert_with(|| "failed=0\n".into());
        script.push_str(&format!("(\n{}\n) || failed=1\n", undo.script));
    }
    for script in scripts.values_mut() {
        script.push_str("exit $failed\n");
    }
    let healed = on_each(cluster, scripts).await;
    healed.into_iter().map(|(node, result)| (node, result.map(drop))).collect()
}
