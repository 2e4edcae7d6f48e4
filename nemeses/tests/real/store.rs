//! A "store" for tests: on each node, a group of shells that write a line now and then,
//! do not start if one reads otherwise, and use much memory if told so. `n1` leads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use deposed_core::{
    Client, ClientError, ClientFactory, Cluster, Command, Db, FaultContext, LogFile, Node, OpSet,
    Primaries, Process, ProcessControl, Remote, System, SystemError,
};

use crate::namespaces::Namespaces;

/// `lives` succeeds if the leader has neither ended nor is about to be reaped.
const LIVES: &str = r#"
lives() {
  read -r p 2>/dev/null </run/store.pid && s=$(cat "/proc/$p/stat" 2>/dev/null) || return 1
  case ${s##*) } in Z* | X*) return 1 ;; esac
}
"#;

/// Returns when the store has begun its work or has ended.
const START: &str = r#"
lives && exit 0
mkdir -p /var/lib/store; rm -f /run/store.pid /run/store.works
setsid sh -c 'cd /var/lib/store; echo $$ >/run/store.pid
  ! grep -svqx beat beats || exit; sleep 1000 &
  [ ! -e /run/hungry ] || x=$(head -c 12000000 /dev/zero | tr "\0" x)
  : >/run/store.works
  while :; do echo beat >>beats; sleep 0.05; done' </dev/null >/dev/null 2>&1 &
until [ -s /run/store.pid ]; do sleep 0.02; done
while lives && [ ! -e /run/store.works ]; do sleep 0.02; done
"#;

const STOP: &str = r#"
read -r g 2>/dev/null </run/store.pid || exit 0
n=0
while kill -s KILL -- "-$g" 2>/dev/null; do n=$((n+1)); [ $n -lt 200 ] || exit 1; sleep 0.02; done
true
"#;

/// Where its data is.
pub(crate) const DATA: &str = "/var/lib/store";

/// Lists the group: `PID START` a line, the leader first.
const LIST: &str = r#"
read -r g 2>/dev/null </run/store.pid || exit 0
for p in "$g" $(ls /proc | grep '^[0-9]*$' | grep -vx "$g"); do
  s=$(cat "/proc/$p/stat" 2>/dev/null) || continue
  s=${s##*) }; set -- $s
  case $1 in Z|X) continue;; esac
  [ "$3" = "$g" ] && echo "$p ${20}"
done
true
"#;

/// Prints how many processes have exactly this command line.
pub(crate) fn count(command: &str) -> String {
    let all = "for c in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$c; echo; done 2>/dev/null";
    format!("{all} | grep -cx '{command} '")
}

#[derive(Default)]
pub(crate) struct Store {
    packages: BTreeMap<String, String>,
    ops: OpSet,
}

/// The context of faults against a running store.
pub(crate) async fn running(net: &Namespaces) -> FaultContext {
    let store = Arc::new(Store { ops: BTreeSet::from(["read".into()]), ..Store::default() });
    for remote in net.cluster.remotes() {
        store.start(&net.cluster, &**remote).await.unwrap();
    }
    FaultContext { cluster: net.cluster.clone(), system: store, own_clocks: Default::default() }
}

fn broken(action: &'static str, source: deposed_core::RemoteError) -> SystemError {
    SystemError::Remote { system: "shells".into(), action, source }
}

impl System for Store {
    fn name(&self) -> &str {
        "shells"
    }
    fn supports(&self) -> &OpSet {
        &self.ops
    }
    fn packages(&self) -> &BTreeMap<String, String> {
        &self.packages
    }
    fn db(&self) -> &dyn Db {
        self
    }
    fn clients(&self) -> &dyn ClientFactory {
        self
    }
}

#[async_trait]
impl Db for Store {
    async fn install(&self, _: &Cluster, _: &dyn Remote) -> Result<Vec<String>, SystemError> {
        Ok(Vec::new())
    }
    async fn setup(&self, cluster: &Cluster, remote: &dyn Remote) -> Result<(), SystemError> {
        self.start(cluster, remote).await
    }
    async fn ready(&self, _: &Cluster, remote: &dyn Remote) -> Result<(), SystemError> {
        match ProcessControl::processes(self, remote).await?.is_empty() {
            false => Ok(()),
            true => Err(SystemError::NotReady {
                system: "shells".into(),
                node: remote.node().name.to_string(),
                within: std::time::Duration::ZERO,
                last: "nothing runs".into(),
            }),
        }
    }
    async fn teardown(&self, _: &Cluster, _: &dyn Remote) -> Result<(), SystemError> {
        Ok(())
    }
    async fn log_files(&self, _: &dyn Remote) -> Result<Vec<LogFile>, SystemError> {
        Ok(Vec::new())
    }
    fn crash_patterns(&self) -> Vec<String> {
        Vec::new()
    }
    fn processes(&self) -> Option<&dyn ProcessControl> {
        Some(self)
    }
    fn primaries(&self) -> Option<&dyn Primaries> {
        Some(self)
    }
}

#[async_trait]
impl ProcessControl for Store {
    async fn processes(&self, remote: &dyn Remote) -> Result<Vec<Process>, SystemError> {
        let text = remote.run(Command::new(LIST)).await.map_err(|e| broken("list", e))?;
        let line = |line: &str| {
            let (pid, start) = line.split_once(' ').unwrap();
            Process { pid: pid.parse().unwrap(), start_ticks: start.parse().unwrap() }
        };
        Ok(text.lines().map(line).collect())
    }
    async fn start(&self, _: &Cluster, remote: &dyn Remote) -> Result<(), SystemError> {
        let start = Command::new(format!("{LIVES}{START}"));
        remote.run(start).await.map(drop).map_err(|e| broken("start", e))
    }
    fn start_script(&self, _: &Cluster, _: &Node) -> Option<String> {
        Some(format!("{LIVES}{START}"))
    }
    fn is_supervised(&self) -> bool {
        true
    }
    fn stop_script(&self, _: &Node) -> Option<String> {
        Some(STOP.into())
    }
    fn runs_script(&self, _: &Node) -> Option<String> {
        Some(format!("{LIVES}lives"))
    }
    fn data(&self, _: &Node) -> Option<String> {
        Some(DATA.into())
    }
}

#[async_trait]
impl Primaries for Store {
    async fn primaries(&self, cluster: &Cluster) -> Result<Vec<Node>, SystemError> {
        Ok(cluster.nodes().take(1).cloned().collect())
    }
}

#[async_trait]
impl ClientFactory for Store {
    async fn connect(&self, _: &Node, _: u32) -> Result<Box<dyn Client>, ClientError> {
        Err(ClientError::Definite("nobody asks this store anything".into()))
    }
}
