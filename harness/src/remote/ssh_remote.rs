//! A node over SSH.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use deposed_core::{Command, Conversation, Node, Output, Remote, RemoteError, Warden};
use tokio::sync::oneshot;

use super::conversation::SshConversation;
use super::host_key::Fingerprint;
use super::lane::{self, Job, Queue};
use super::shell::GRACE;
use super::transfer;
use super::warden::LabWarden;
use crate::inventory::NodeSpec;

/// What a longer deadline is cut to.
const DEADLINE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long the first connection may take.
const FIRST_DEADLINE: Duration = Duration::from_secs(30);

/// Commands and files on one node over SSH. Several commands run at once, each on a connection of its
/// own; dropping the remote cuts them all.
///
/// A command's deadline counts from the call, so it includes waiting for a free connection. A call
/// returns at most about a second and a half after it, whatever state the node is in. Dropping the future of
/// a call does not stop the command: its deadline does.
pub struct SshRemote {
    queue: Arc<Queue>,
    warden: Option<LabWarden>,
}

impl SshRemote {
    /// Connects and logs in. Errs with [`RemoteError::Connect`] or [`RemoteError::HostKeyChanged`],
    /// whose reason says how to mend it.
    pub async fn connect(spec: &NodeSpec) -> Result<Self, RemoteError> {
        let remote = Self { queue: Queue::new(spec.clone()), warden: LabWarden::of(spec) };
        let hello = Command::new(":").deadline(FIRST_DEADLINE).idempotent();
        remote.run(hello).await?;
        Ok(remote)
    }

    /// The key the node's server showed when it was last connected to.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.queue.fingerprint()
    }
}

impl Drop for SshRemote {
    fn drop(&mut self) {
        self.queue.close();
    }
}

#[async_trait]
impl Remote for SshRemote {
    fn node(&self) -> &Node {
        &self.queue.spec.node
    }

    fn warden(&self) -> Option<&dyn Warden> {
        self.warden.as_ref().map(|warden| warden as &dyn Warden)
    }

    async fn exec(&self, command: Command) -> Result<Output, RemoteError> {
        let deadline = Instant::now() + command.deadline.min(DEADLINE_MAX);
        let late = lane::late(&self.queue.spec, &command);
        let lost = lane::lost(&self.queue.spec, &command, "its thread died".to_owned());
        let (reply, answer) = oneshot::channel();
        self.queue.submit(Job { command, deadline, reply })?;
        // The lane keeps the deadline itself. This is for what it cannot bound: its turn in the
        // queue, and an agent that does not answer.
        match tokio::time::timeout_at((deadline + GRACE * 3 / 2).into(), answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(lost),
            Err(_) => Err(late),
        }
    }

    async fn upload(&self, bytes: &[u8], to: &str, mode: u32) -> Result<(), RemoteError> {
        transfer::upload(self, bytes, to, mode).await
    }

    async fn download(&self, from: &str, to: &Path) -> Result<(), RemoteError> {
        transfer::download(self, from, to).await
    }

    async fn converse(&self, script: &str) -> Result<Box<dyn Conversation>, RemoteError> {
        Ok(Box::new(SshConversation::start(&self.queue, script).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_accepts_and_says_nothing_is_a_deadline() {
        let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut spec = NodeSpec::new("n1", "127.0.0.1".parse().unwrap());
        spec.port = mute.local_addr().unwrap().port();
        let remote = SshRemote { queue: Queue::new(spec), warden: None };
        let began = Instant::now();
        let call = remote.exec(Command::new(":").deadline(Duration::from_millis(300)));
        assert!(matches!(call.await, Err(RemoteError::Deadline { .. })));
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        let call = remote.exec(Command::new(":").deadline(Duration::MAX));
        assert!(tokio::time::timeout(Duration::from_millis(100), call).await.is_err());
    }
}
