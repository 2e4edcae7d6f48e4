//! The same moment on many nodes: scripts run in parallel, each with a deadline.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use deposed_core::{Cluster, Command, RemoteError};
use tokio::task::JoinSet;

/// How long a script of a fault may take on a node.
pub(crate) const SCRIPT_MAX: Duration = Duration::from_secs(10);

/// Runs a script on each of some nodes, all at once, and returns what each printed. The scripts
/// must be idempotent. A node the cluster does not know is reported as unreachable.
pub(crate) async fn on_each(
    cluster: &Cluster,
    scripts: impl IntoIterator<Item = (String, String)>,
) -> BTreeMap<String, Result<String, RemoteError>> {
    let mut running = JoinSet::new();
    let mut results = BTreeMap::new();
    for (node, script) in scripts {
        let Some(remote) = cluster.remote(&node).map(Arc::clone) else {
            let reason = "the cluster has no node of that name".to_owned();
            let error = RemoteError::Connect { node: node.clone(), addr: "?".into(), reason };
            results.insert(node, Err(error));
            continue;
        };
        running.spawn(async move {
            let command = Command::new(script).deadline(SCRIPT_MAX).idempotent();
            (node, remote.run(command).await)
        });
    }
    while let Some(done) = running.join_next().await {
        let (node, result) = done.expect("running a command does not panic");
        results.insert(node, result);
    }
    results
}

/// What every node printed, or the error of the first that failed.
pub(crate) fn all(
    results: BTreeMap<String, Result<String, RemoteError>>,
) -> Result<BTreeMap<String, String>, RemoteError> {
    results.into_iter().map(|(node, result)| result.map(|text| (node, text))).collect()
}
