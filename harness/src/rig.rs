//! The cluster and the system on it, from the first connection to the last clean-up.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use deposed_core::{
    Cluster, Command, Remote, RemoteError, System, SystemError, Warden, WardenError,
};
use futures_util::future::join_all;
use tokio::time::sleep;

use crate::inventory::{HostKeyPolicy, NodeSpec};
use crate::remote::{LabWarden, SshRemote};

/// How long a node may take to tell of itself.
const DESCRIBE_LIMIT: Duration = Duration::from_secs(10);

/// A cluster with a system on it.
#[derive(Clone)]
pub struct Rig {
    /// The nodes.
    pub cluster: Cluster,
    /// What runs on them.
    pub system: Arc<dyn System>,
}

/// What went wrong on each node where something did.
#[derive(Debug)]
pub struct Failures<E>(pub Vec<E>);

impl<E: fmt::Display> fmt::Display for Failures<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, failure) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { "\n  " };
            write!(f, "{separator}{failure}")?;
        }
        Ok(())
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for Failures<E> {}

/// What a node says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// `uname -sr`.
    pub kernel: String,
    /// The distribution and its release.
    pub os: String,
    /// The packages that were asked about and their versions.
    pub packages: BTreeMap<String, String>,
    /// Seconds its log lines are ahead of UTC, where they name no zone.
    pub zone_s: i64,
}

/// Connects to every node at once. Besides the cluster, a sentence for each host key that was not
/// strictly checked.
///
/// # Errors
/// With the failures of all nodes that could not be reached.
pub async fn connect(nodes: &[NodeSpec]) -> Result<(Cluster, Vec<String>), Failures<RemoteError>> {
    let connected = join_all(nodes.iter().map(SshRemote::connect)).await;
    let remotes = sort(connected)?;
    let unchecked = nodes.iter().zip(&remotes).filter_map(|(spec, remote)| {
        let policy = match spec.host_keys {
            HostKeyPolicy::Strict => return None,
            HostKeyPolicy::AcceptNew => "accepted if new (--host-keys accept-new)",
            HostKeyPolicy::Off => "not checked (--host-keys off)",
        };
        let key = remote.fingerprint()?;
        Some(format!("the host key of {} was {policy}: {key}", spec.node.name))
    });
    let unchecked = unchecked.collect();
    let remotes = remotes.into_iter().map(|remote| Arc::new(remote) as Arc<dyn Remote>);
    Ok((Cluster::new(remotes.collect()), unchecked))
}

/// Lets every machine go on that is held from outside, and boots those that are off: a node has to run before
/// it can be connected to.
///
/// # Errors
/// With the failures of all machines that could not be released.
pub async fn release_machines(nodes: &[NodeSpec]) -> Result<(), Failures<WardenError>> {
    let wardens: Vec<LabWarden> = nodes.iter().filter_map(LabWarden::of).collect();
    sort(join_all(wardens.iter().map(Warden::release)).await).map(drop)
}

/// Where a node notes which run is using it, and until when by its own uptime: 0 once it is given back.
const CLAIM: &str = "/run/deposed/claim";

/// Says something of a claim, alone.
fn on_claim(script: &str) -> Command {
    let alone =
        format!("mkdir -p /run/deposed && exec 9>{CLAIM}.lock && flock 9 || exit 1\n{script}");
    Command::new(alone).deadline(DESCRIBE_LIMIT)
}

/// How long a claim lasts unless it is renewed, and how often that is done: a run that was killed leaves
/// its nodes free before long, one that lives keeps them however long it takes.
const CLAIM_TTL: Duration = Duration::from_secs(20);
const CLAIM_EVERY: Duration = Duration::from_secs(5);

/// Takes every node for one run: two runs at once would take each other's doing for the store's.
///
/// # Errors
/// With each node that another run is using.
pub async fn claim(cluster: &Cluster, run: &str) -> Result<(), Failures<Taken>> {
    let script = format!(
        "now=$(cut -d. -f1 /proc/uptime) || exit 1\n\
         if read -r id until 2>/dev/null <{CLAIM} && [ \"$now\" -lt \"$until\" ]\n\
         then echo \"$id, for $((until - now)) s unless it goes on\"; else echo {run} $((now + {})) >{CLAIM}; fi",
        CLAIM_TTL.as_secs()
    );
    let asked = cluster.remotes().iter().map(|remote| async {
        let command = on_claim(&script);
        let node = remote.node().name.to_string();
        match remote.run(command).await {
            Ok(said) if said.is_empty() => Ok(()),
            Ok(said) => Err(Taken::By { node, run: said }),
            Err(error) => Err(Taken::Unknown(error)),
        }
    });
    sort(join_all(asked).await).map(drop)
}

/// Keeps every node for a run, for as long as it is polled. One that another run has had meanwhile is not taken
/// back, even if that is over: [`lost`] has to see it.
pub async fn keep(cluster: &Cluster, run: &str) -> Infallible {
    let script = format!(
        "now=$(cut -d. -f1 /proc/uptime) || exit 1\n\
         read -r id until 2>/dev/null <{CLAIM}; [ \"${{id:-{run}}}\" != {run} ] || echo {run} $((now + {})) >{CLAIM}",
        CLAIM_TTL.as_secs()
    );
    loop {
        sleep(CLAIM_EVERY).await;
        let asked =
            cluster.remotes().iter().map(|remote| remote.run(on_claim(&script).idempotent()));
        // One that cannot be reached now is tried again.
        let _ = join_all(asked).await;
    }
}

/// Gives every node of a run back, as far as nodes can be reached.
pub async fn release(cluster: &Cluster, run: &str) {
    let script = format!(
        "if read -r id until 2>/dev/null <{CLAIM} && [ \"$id\" = {run} ]; then echo \"$id 0\" >{CLAIM}; fi"
    );
    let asked = cluster.remotes().iter().map(|remote| remote.run(on_claim(&script).idempotent()));
    // A claim that stays ends by itself.
    let _ = join_all(asked).await;
}

/// The nodes that another run has taken meanwhile, and which: claims run out where nobody renews them, and
/// do not survive a reboot.
pub async fn lost(cluster: &Cluster, run: &str) -> BTreeMap<String, String> {
    let script = format!("if read -r id until 2>/dev/null <{CLAIM}; then echo \"$id\"; fi");
    let asked = cluster.remotes().iter().map(|remote| async {
        let id = remote.run(on_claim(&script).idempotent()).await.ok()?;
        (!id.is_empty() && id != run).then(|| (remote.node().name.to_string(), id))
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// Why a node could not be taken for a run.
#[derive(Debug, thiserror::Error)]
pub enum Taken {
    /// Another run uses it.
    #[error(
        "{node}: another run is using it ({run}); wait for its end, or if it was killed, for so many seconds"
    )]
    By {
        /// The node.
        node: String,
        /// The run's id and the seconds it has the node unless it renews its claim.
        run: String,
    },
    /// It could not be asked.
    #[error(transparent)]
    Unknown(#[from] RemoteError),
}

impl Rig {
    /// Installs the system, clears whatever an earlier run left of it, starts it, and waits until it
    /// serves. Each step is finished on all nodes before the next begins. Tells at once which
    /// packages were installed on which nodes, if any were.
    ///
    /// # Errors
    /// With the failures of all nodes of the first step that failed anywhere.
    pub async fn setup(&self, tell: impl FnOnce(String)) -> Result<(), Failures<SystemError>> {
        let (cluster, db) = (&self.cluster, self.system.db());
        let installed = self.everywhere(|remote| db.install(cluster, remote)).await?;
        let mut nodes_by_packages: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (node, packages) in cluster.nodes().zip(installed) {
            if !packages.is_empty() {
                nodes_by_packages.entry(packages.join(", ")).or_default().push(&node.name);
            }
        }
        if !nodes_by_packages.is_empty() {
            let parts =
                nodes_by_packages.iter().map(|(p, nodes)| format!("{p} on {}", nodes.join(" ")));
            tell(format!("installed {}", parts.collect::<Vec<_>>().join("; ")));
        }
        self.everywhere(|remote| db.teardown(cluster, remote)).await?;
        self.everywhere(|remote| db.setup(cluster, remote)).await?;
        self.ready().await
    }

    /// Waits until the system serves on every node.
    ///
    /// # Errors
    /// With the failures of all nodes where it did not come to that.
    pub async fn ready(&self) -> Result<(), Failures<SystemError>> {
        let (cluster, db) = (&self.cluster, self.system.db());
        self.everywhere(|remote| db.ready(cluster, remote)).await?;
        Ok(())
    }

    /// Stops the system and removes its data, on every node that can be reached.
    ///
    /// # Errors
    /// With the failures of all nodes where that did not work.
    pub async fn teardown(&self) -> Result<(), Failures<SystemError>> {
        let (cluster, db) = (&self.cluster, self.system.db());
        self.everywhere(|remote| db.teardown(cluster, remote)).await?;
        Ok(())
    }

    /// What each node says of itself, by name. A node that cannot be asked says nothing.
    pub async fn describe(&self) -> BTreeMap<String, Description> {
        let packages: Vec<&str> = self.system.packages().values().map(String::as_str).collect();
        let script = format!(
            "uname -sr; date +%z; (. /etc/os-release && echo \"$PRETTY_NAME\") 2>/dev/null || echo; \
             dpkg-query -W -f '${{Package}} ${{Version}}\\n' {} 2>/dev/null || true",
            packages.join(" ")
        );
        let asked = self.cluster.remotes().iter().map(|remote| {
            let command = Command::new(script.clone()).deadline(DESCRIBE_LIMIT).idempotent();
            async move {
                let said = remote.run(command).await.unwrap_or_default();
                (remote.node().name.to_string(), Description::parse(&said))
            }
        });
        join_all(asked).await.into_iter().collect()
    }

    async fn everywhere<'a, T, F>(
        &'a self,
        step: impl Fn(&'a dyn Remote) -> F,
    ) -> Result<Vec<T>, Failures<SystemError>>
    where
        F: Future<Output = Result<T, SystemError>>,
    {
        sort(join_all(self.cluster.remotes().iter().map(|remote| step(&**remote))).await)
    }
}

impl Description {
    fn parse(said: &str) -> Self {
        let mut lines = said.lines().map(str::trim);
        let mut next = || lines.next().unwrap_or_default().to_owned();
        let (kernel, zone, os) = (next(), next(), next());
        let packages = lines.filter_map(|line| line.split_once(' '));
        Self {
            kernel,
            os,
            packages: packages.map(|(name, version)| (name.into(), version.into())).collect(),
            zone_s: zone_seconds(&zone).unwrap_or(0),
        }
    }
}

/// `+0130` as seconds.
fn zone_seconds(zone: &str) -> Option<i64> {
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = digits.split_at_checked(2)?;
    Some(sign * (hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60))
}

/// All successes, or all failures.
fn sort<T, E>(results: Vec<Result<T, E>>) -> Result<Vec<T>, Failures<E>> {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => done.push(value),
            Err(error) => failed.push(error),
        }
    }
    if failed.is_empty() { Ok(done) } else { Err(Failures(failed)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_what_it_is() {
        let said =
            "Linux 6.1.0\n-0130\nDebian GNU/Linux 12 (bookworm)\nstore-server 3.4.23+ds1-1\n";
        let description = Description::parse(said);
        assert_eq!(description.kernel, "Linux 6.1.0");
        assert_eq!(description.os, "Debian GNU/Linux 12 (bookworm)");
        assert_eq!(description.packages["store-server"], "3.4.23+ds1-1");
        assert_eq!(description.zone_s, -5400);
        assert_eq!(Description::parse(""), Description::default());
    }

    #[test]
    fn every_failure_is_told() {
        let error = sort(vec![Ok(1), Err("n2: no"), Err("n3: no")]).unwrap_err();
        assert_eq!(error.to_string(), "n2: no\n  n3: no");
    }
}
