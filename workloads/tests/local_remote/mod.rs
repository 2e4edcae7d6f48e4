//! Nodes that are this machine: a remote that runs its scripts here. For tests only.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use deposed_core::{Cluster, Command, Conversation, Node, Output, Remote, RemoteError};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;

/// One "node".
pub(crate) struct LocalRemote(pub(crate) Node);

#[async_trait]
impl Remote for LocalRemote {
    fn node(&self) -> &Node {
        &self.0
    }

    async fn exec(&self, command: Command) -> Result<Output, RemoteError> {
        let mut child = tokio::process::Command::new("/bin/sh")
            .args(["-c", &command.script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("sh is here");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(&command.stdin).await.expect("it reads");
        drop(stdin);
        let done = tokio::time::timeout(command.deadline, child.wait_with_output()).await;
        let output = done.map_err(|_| RemoteError::Deadline {
            node: self.0.name.to_string(),
            command: command.script.chars().take(80).collect(),
            deadline: command.deadline,
        })?;
        let output = output.expect("it can be waited for");
        let status = output.status.code().unwrap_or(137);
        Ok(Output { status, stdout: output.stdout, stderr: output.stderr })
    }

    async fn upload(&self, bytes: &[u8], to: &str, mode: u32) -> Result<(), RemoteError> {
        use std::os::unix::fs::PermissionsExt;
        std::fs::create_dir_all(Path::new(to).parent().expect("a parent")).expect("made");
        std::fs::write(to, bytes).expect("written");
        std::fs::set_permissions(to, std::fs::Permissions::from_mode(mode)).expect("set");
        Ok(())
    }

    async fn download(&self, from: &str, to: &Path) -> Result<(), RemoteError> {
        std::fs::copy(from, to).expect("copied");
        Ok(())
    }

    async fn converse(&self, script: &str) -> Result<Box<dyn Conversation>, RemoteError> {
        let mut child = tokio::process::Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh is here");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let talk = (stdin.expect("piped"), BufReader::new(stdout.expect("piped")));
        Ok(Box::new(LocalTalk(Mutex::new(talk))))
    }
}

/// A program of this machine, spoken to.
struct LocalTalk(Mutex<(ChildStdin, BufReader<ChildStdout>)>);

#[async_trait]
impl Conversation for LocalTalk {
    async fn ask(&self, line: &str, deadline: Duration) -> Result<String, RemoteError> {
        let lost = |reason: String| RemoteError::Lost {
            node: "here".into(),
            command: line.to_owned(),
            reason,
        };
        let mut talk = self.0.lock().await;
        let (stdin, stdout) = &mut *talk;
        stdin.write_all(format!("{line}\n").as_bytes()).await.map_err(|e| lost(e.to_string()))?;
        let mut answer = String::new();
        match tokio::time::timeout(deadline, stdout.read_line(&mut answer)).await {
            Ok(Ok(1..)) => Ok(answer.trim_end().to_owned()),
            other => Err(lost(format!("{other:?}"))),
        }
    }
}

/// `count` nodes with loopback addresses of their own and names no other test uses.
pub(crate) fn nodes(count: u8) -> Vec<Node> {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let group = LAST.fetch_add(1, Ordering::Relaxed);
    let pid = std::process::id();
    (1..=count)
        .map(|i| Node {
            name: format!("t{pid}-{group}-{i}").into(),
            addr: format!("127.{}.{}.{i}", 64 + pid / 250 % 128, (pid + group) % 250)
                .parse()
                .expect("an address"),
        })
        .collect()
}

/// Those nodes as a cluster.
pub(crate) fn cluster(nodes: &[Node]) -> Cluster {
    let remote = |node: &Node| Arc::new(LocalRemote(node.clone())) as Arc<dyn Remote>;
    Cluster::new(nodes.iter().map(remote).collect())
}

/// A number of ports that nothing listens on, whatever the address.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let sockets = [(); N].map(|()| std::net::TcpListener::bind("0.0.0.0:0").expect("a port"));
    sockets.map(|socket| socket.local_addr().expect("bound").port())
}
