//! The life of a described system on its nodes.

use std::time::Duration;

use async_trait::async_trait;
use deposed_core::{
    Cluster, Command, Db, LogFile, Node, Primaries, Process, ProcessControl, Remote, RemoteError,
    SystemError,
};
use tokio::time::{Instant, sleep, timeout};

use crate::blueprint::{Blueprint, PrimariesBy, Readiness};
use crate::daemon::{Daemon, RUNS, START, STOP, quote};
use crate::system::{DescribedSystem, NodePart};

/// A stop command may take this long before what is left is killed.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// Pause between two looks at readiness.
const READY_INTERVAL: Duration = Duration::from_millis(100);
/// One look at readiness may take this long.
const READY_PROBE_LIMIT: Duration = Duration::from_secs(5);
/// How long a node may take to say who leads.
const PRIMARIES_LIMIT: Duration = Duration::from_millis(1500);
/// Log files of one node that are collected at most.
const LOG_FILES_MAX: usize = 100;

impl DescribedSystem {
    pub(crate) fn failed(&self, action: &'static str) -> impl FnOnce(RemoteError) -> SystemError {
        let system = self.summary.name.clone();
        move |source| SystemError::Remote { system, action, source }
    }

    pub(crate) fn unfit(&self, remote: &dyn Remote, reason: String) -> SystemError {
        let node = remote.node().name.to_string();
        SystemError::Unfit { system: self.summary.name.clone(), node, reason }
    }

    pub(crate) fn part_of(&self, remote: &dyn Remote) -> Result<&NodePart, SystemError> {
        self.part(&remote.node().name)
            .ok_or_else(|| self.unfit(remote, "it was loaded for other nodes".into()))
    }

    /// Errs if a stranger listens on one of its ports. It is never killed: it is not ours.
    async fn check_ports(
        &self,
        cluster: &Cluster,
        remote: &dyn Remote,
        blueprint: &Blueprint,
    ) -> Result<(), SystemError> {
        let ports: Vec<u16> = blueprint.ports.values().copied().collect();
        let listeners = blueprint.daemon.listeners(remote, &ports).await;
        let listeners = listeners.map_err(self.failed("look at its ports"))?;
        let node = remote.node();
        // Several nodes may share a machine, each with an address of its own.
        let of_other_node = |addr| cluster.nodes().any(|n| n.name != node.name && n.addr == addr);
        let taken: Vec<String> = listeners
            .iter()
            .filter(|listener| !of_other_node(listener.addr))
            .map(|listener| format!("port {} is taken by {}", listener.port, listener.holder))
            .collect();
        if taken.is_empty() {
            return Ok(());
        }
        let reason = format!(
            "{}. It was not started by deposed, so it is left alone: stop it (a service: \
             `systemctl disable --now UNIT`), or choose other ports",
            taken.join(", ")
        );
        Err(self.unfit(remote, reason))
    }

    async fn look_ready(&self, remote: &dyn Remote, part: &NodePart) -> Result<(), String> {
        let script = match &part.blueprint.ready {
            Readiness::Run(script) => script.clone(),
            Readiness::Port(port) => part.blueprint.daemon.script(&format!(
                "[ -n \"$(listeners {port})\" ] || {{ echo nothing listens on port {port}; exit 1; }}"
            )),
            Readiness::Client => {
                let probe = part.endpoint.probe().ok_or("its client cannot tell")?;
                let answer = timeout(READY_PROBE_LIMIT, probe.serves()).await;
                return answer.unwrap_or_else(|_| Err("its client got no answer".into()));
            }
        };
        let command = Command::new(script).idempotent().deadline(READY_PROBE_LIMIT);
        remote.run(command).await.map(drop).map_err(|e| e.to_string())
    }

    fn not_ready(&self, remote: &dyn Remote, within: Duration, last: String) -> SystemError {
        let node = remote.node().name.to_string();
        SystemError::NotReady { system: self.summary.name.clone(), node, within, last }
    }
}

#[async_trait]
impl Db for DescribedSystem {
    async fn install(
        &self,
        _cluster: &Cluster,
        remote: &dyn Remote,
    ) -> Result<Vec<String>, SystemError> {
        self.install_on(remote).await
    }

    async fn setup(&self, cluster: &Cluster, remote: &dyn Remote) -> Result<(), SystemError> {
        let blueprint = &self.part_of(remote)?.blueprint;
        self.check_ports(cluster, remote, blueprint).await?;
        let prepare = blueprint.daemon.script(&format!(
            "set -e\nrm -f -- \"$log_file\" {} {}\nlog=${{log_file%/*}}\nmkdir -p \"$data\" \"$log\"\n\
             [ -z \"$user\" ] || chown \"$user:\" \"$data\" \"$log\"",
            quote(&blueprint.daemon.log_of_clients()),
            blueprint.logs.join(" ")
        ));
        let prepared = remote.run(Command::new(prepare).idempotent()).await;
        prepared.map_err(self.failed("make its directories"))?;
        for file in &blueprint.files {
            let written = remote.upload(file.content.as_bytes(), &file.to, file.mode).await;
            written.map_err(self.failed("write its files"))?;
        }
        blueprint.daemon.start(remote).await.map_err(self.failed("start"))
    }

    async fn ready(&self, _cluster: &Cluster, remote: &dyn Remote) -> Result<(), SystemError> {
        let part = self.part_of(remote)?;
        let daemon = &part.blueprint.daemon;
        let within = part.blueprint.ready_within;
        let start = Instant::now();
        loop {
            let last = match self.look_ready(remote, part).await {
                Ok(()) => return Ok(()),
                Err(last) => last,
            };
            let processes = daemon.processes(remote).await.map_err(self.failed("look for it"))?;
            if processes.is_empty() {
                let last = format!("it ended: {}", log_tail(daemon, remote).await);
                return Err(self.not_ready(remote, within, last));
            }
            if start.elapsed() > within {
                return Err(self.not_ready(remote, within, last));
            }
            sleep(READY_INTERVAL).await;
        }
    }

    async fn teardown(&self, _cluster: &Cluster, remote: &dyn Remote) -> Result<(), SystemError> {
        let blueprint = &self.part_of(remote)?.blueprint;
        let daemon = &blueprint.daemon;
        if let Some(stop) = &blueprint.stop
            && !daemon.processes(remote).await.map_err(self.failed("look for it"))?.is_empty()
        {
            // Whatever comes of it: what it leaves is killed next.
            let stopped = remote.exec(Command::new(stop).deadline(STOP_LIMIT)).await;
            tracing::debug!(node = %remote.node().name, ?stopped, "stop command");
        }
        daemon.kill(remote).await.map_err(self.failed("kill"))?;
        let wipe = daemon.script(
            "if [ -d \"$data\" ]; then find \"$data/\" -xdev -mindepth 1 -delete; fi\n\
             status=$?\nrm -rf \"$run\"\nrmdir -p \"${run%/*}\" 2>/dev/null\nexit $status",
        );
        let wiped = remote.run(Command::new(wipe).idempotent()).await;
        wiped.map(drop).map_err(self.failed("remove its data"))
    }

    async fn log_files(&self, remote: &dyn Remote) -> Result<Vec<LogFile>, SystemError> {
        let blueprint = &self.part_of(remote)?.blueprint;
        let script = blueprint.daemon.script(&format!(
            "for file in \"$log_file\" {} {}; do [ -f \"$file\" ] && echo \"$file\"; done; true",
            quote(&blueprint.daemon.log_of_clients()),
            blueprint.logs.join(" ")
        ));
        let found = remote.run(Command::new(script).idempotent()).await;
        let found = found.map_err(self.failed("look for its logs"))?;
        Ok(name_logs(found.lines().take(LOG_FILES_MAX)))
    }

    fn crash_patterns(&self) -> Vec<String> {
        self.crash.clone()
    }

    fn processes(&self) -> Option<&dyn ProcessControl> {
        Some(self)
    }

    fn primaries(&self) -> Option<&dyn Primaries> {
        let known = self.parts.first().is_some_and(|part| part.blueprint.primaries.is_some());
        known.then_some(self)
    }
}

#[async_trait]
impl ProcessControl for DescribedSystem {
    async fn processes(&self, remote: &dyn Remote) -> Result<Vec<Process>, SystemError> {
        let daemon = &self.part_of(remote)?.blueprint.daemon;
        daemon.processes(remote).await.map_err(self.failed("look for it"))
    }

    async fn start(&self, _cluster: &Cluster, remote: &dyn Remote) -> Result<(), SystemError> {
        let daemon = &self.part_of(remote)?.blueprint.daemon;
        daemon.start(remote).await.map_err(self.failed("start"))
    }

    fn start_script(&self, _cluster: &Cluster, node: &Node) -> Option<String> {
        Some(self.part(&node.name)?.blueprint.daemon.script(START))
    }

    fn is_supervised(&self) -> bool {
        self.parts.first().is_some_and(|part| part.blueprint.supervised)
    }

    fn stop_script(&self, node: &Node) -> Option<String> {
        Some(self.part(&node.name)?.blueprint.daemon.script(STOP))
    }

    fn runs_script(&self, node: &Node) -> Option<String> {
        Some(self.part(&node.name)?.blueprint.daemon.script(RUNS))
    }

    fn data(&self, node: &Node) -> Option<String> {
        Some(self.part(&node.name)?.blueprint.daemon.data.clone())
    }
}

#[async_trait]
impl Primaries for DescribedSystem {
    async fn primaries(&self, cluster: &Cluster) -> Result<Vec<Node>, SystemError> {
        let mut asked = tokio::task::JoinSet::new();
        for remote in cluster.remotes() {
            let part = self.part_of(&**remote)?;
            let (remote, endpoint) = (remote.clone(), part.endpoint.clone());
            let script = match &part.blueprint.primaries {
                Some(PrimariesBy::Run(script)) => Some(script.clone()),
                Some(PrimariesBy::Client) => None,
                None => continue,
            };
            asked.spawn(async move {
                let node = remote.node();
                let ask = async {
                    if let Some(script) = script {
                        let command = Command::new(script).idempotent().deadline(PRIMARIES_LIMIT);
                        return remote.run(command).await.map_err(|e| e.to_string());
                    }
                    let probe = endpoint.probe().ok_or("its client cannot tell")?;
                    let leads = probe.leads().await?;
                    Ok(if leads { node.name.to_string() } else { String::new() })
                };
                match timeout(PRIMARIES_LIMIT, ask).await {
                    Ok(Ok(answer)) => answer,
                    silent => {
                        tracing::debug!(node = %node.name, ?silent, "did not say who leads");
                        String::new()
                    }
                }
            });
        }
        let answers = asked.join_all().await.join("\n");
        let named = |node: &&Node| {
            let addr = node.addr.to_string();
            answers.split_whitespace().any(|word| word == &*node.name || word == addr)
        };
        Ok(cluster.nodes().filter(named).cloned().collect())
    }
}

/// The end of the daemon's own log, for messages.
async fn log_tail(daemon: &Daemon, remote: &dyn Remote) -> String {
    let script = daemon.script("tail -n 5 \"$log_file\" 2>/dev/null | cut -c 1-500");
    match remote.run(Command::new(script).idempotent()).await {
        Ok(tail) if tail.is_empty() => "and wrote nothing to its log".into(),
        Ok(tail) => format!("the end of {}:\n{tail}", daemon.log_file),
        Err(error) => format!("and its log cannot be read: {error}"),
    }
}

/// Names for the run folder: the file name, or the whole path where that is not enough.
fn name_logs<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<LogFile> {
    let mut logs: Vec<LogFile> = Vec::new();
    for path in paths {
        if logs.iter().any(|log| log.path == path) {
            continue;
        }
        let short = path.rsplit('/').next().unwrap_or(path);
        let name = if logs.iter().any(|log| log.name == short) {
            path.trim_start_matches('/').replace('/', "_")
        } else {
            short.to_owned()
        };
        logs.push(LogFile { path: path.to_owned(), name });
    }
    logs
}

#[cfg(test)]
mod tests {
    use super::name_logs;

    /// Two logs of one name in different directories are both kept.
    #[test]
    fn logs_do_not_collide() {
        let logs = name_logs(["/a/x.log", "/b/x.log", "/a/x.log"].into_iter());
        let names: Vec<&str> = logs.iter().map(|log| log.name.as_str()).collect();
        assert_eq!(names, ["x.log", "b_x.log"]);
    }
}
