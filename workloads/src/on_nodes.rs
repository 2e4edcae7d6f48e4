//! Clients that run on the nodes they speak to, over SSH: what cuts a node off from the others cuts its
//! clients off with it.
//!
//! A client built into deposed goes there as this program, which speaks the protocol of
//! [`crate::program`] there; a program of the user's is where its `system.toml` has put it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deposed_core::{
    Client, ClientError, ClientFactory, Cluster, Command, Conversation, Node, OpSet, SystemError,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::task::JoinSet;

use crate::daemon::quote;
use crate::endpoint::EndpointPlan;
use crate::json;
use crate::program::{
    Answer, AnswerType, Hello, HelloAnswer, PROTOCOL, Program, ProgramClient, Request,
};
use crate::registry::CLIENT_KINDS;
use crate::system::DescribedSystem;

/// Where this program is on a node, for its clients.
const PATH: &str = "/var/lib/deposed-agent/client";
/// How long this program may take to show that it runs there.
const TRY_LIMIT: Duration = Duration::from_secs(20);
/// How long a program on a node may take to say hello.
const HELLO_LIMIT: Duration = Duration::from_secs(20);

/// How a client of one node is made on it.
#[derive(Debug, Clone)]
pub(crate) struct OnNode {
    /// What a shell there becomes.
    pub(crate) script: String,
    /// The first line to it, for process 0.
    pub(crate) hello: Hello,
    /// How long an operation may take.
    pub(crate) op_limit: Duration,
    /// Whether it is this program, which has to be put there.
    pub(crate) is_built_in: bool,
}

impl OnNode {
    /// The script for a client built in.
    pub(crate) fn built_in(kind: &str, addr: SocketAddr, op_limit: Duration) -> String {
        format!("exec {PATH} client {} {addr} {}", quote(kind), op_limit.as_millis())
    }

    /// The script for a program of the user's.
    pub(crate) fn program(argv: &[String], log: &str) -> String {
        let words: Vec<String> = argv.iter().map(|word| quote(word)).collect();
        format!("exec {} 2>>{}", words.join(" "), quote(log))
    }
}

/// Makes clients on nodes that can run them.
pub(crate) struct OnNodes {
    cluster: Cluster,
    parts: Vec<OnNode>,
    supports: OpSet,
}

impl OnNodes {
    /// Puts what clients need on every node, and sees that it runs there.
    pub(crate) async fn install(
        system: &DescribedSystem,
        cluster: &Cluster,
    ) -> Result<Self, SystemError> {
        let mut parts = Vec::new();
        for remote in cluster.remotes() {
            let part = system.part_of(&**remote)?.on_node.clone();
            let only_here = || "its clients run on the controller only".to_owned();
            parts.push(part.ok_or_else(|| system.unfit(&**remote, only_here()))?);
        }
        if parts.iter().any(|part| part.is_built_in) {
            put_on_all(system, cluster).await?;
        }
        Ok(Self { cluster: cluster.clone(), parts, supports: system.summary().supports.clone() })
    }
}

/// Puts this program on all nodes at once, and sees that it runs there.
async fn put_on_all(system: &DescribedSystem, cluster: &Cluster) -> Result<(), SystemError> {
    let own = tokio::task::spawn_blocking(|| std::fs::read("/proc/self/exe")).await;
    let own: Arc<[u8]> = match own.unwrap_or_else(|panic| Err(std::io::Error::other(panic))) {
        Ok(own) => own.into(),
        Err(error) => {
            let reason = format!("read this program to send it there: {error}");
            return Err(system.unfit(&*cluster.remotes()[0], reason));
        }
    };
    let mut sending = JoinSet::new();
    for remote in cluster.remotes() {
        let (remote, own) = (Arc::clone(remote), Arc::clone(&own));
        sending.spawn(async move {
            let sent = remote.upload(&own, PATH, 0o755).await;
            let tried = Command::new(format!("{PATH} --version")).deadline(TRY_LIMIT).idempotent();
            let ran = if sent.is_ok() { remote.run(tried).await.map(drop) } else { Ok(()) };
            (remote, sent, ran)
        });
    }
    while let Some(done) = sending.join_next().await {
        let (remote, sent, ran) = done.expect("sending a file does not panic");
        sent.map_err(system.failed("send it its clients"))?;
        ran.map_err(|error| {
            let reason = format!(
                "this deposed does not run there, so its clients cannot either: {error}; use \
                 `--clients on-controller`, or a deposed built on a machine like it"
            );
            system.unfit(&*remote, reason)
        })?;
    }
    Ok(())
}

#[async_trait]
impl ClientFactory for OnNodes {
    async fn connect(&self, node: &Node, process: u32) -> Result<Box<dyn Client>, ClientError> {
        let failed =
            |why: String| ClientError::Definite(format!("start a client on {}: {why}", node.name));
        let part = self.parts.iter().find(|part| part.hello.node.name == node.name);
        let (Some(part), Some(remote)) = (part, self.cluster.remote(&node.name)) else {
            return Err(failed("it is no node of this cluster".into()));
        };
        let talk = remote.converse(&part.script).await.map_err(|e| failed(e.to_string()))?;
        let program = NodeProgram { talk: Some(talk) };
        let hello = Hello { process, ..part.hello.clone() };
        let op_limit = part.op_limit;
        let greeted = ProgramClient::greet(program, &hello, &self.supports, HELLO_LIMIT, op_limit);
        Ok(Box::new(greeted.await.map_err(failed)?))
    }
}

/// A program on a node.
struct NodeProgram {
    talk: Option<Box<dyn Conversation>>,
}

#[async_trait]
impl Program for NodeProgram {
    async fn exchange(&mut self, line: String, within: Duration) -> Result<String, String> {
        let talk = self.talk.as_ref().ok_or("it was closed")?;
        talk.ask(&line, within).await.map_err(|error| error.to_string())
    }

    fn give_up(&mut self) {
        self.talk = None;
    }

    async fn close(&mut self) {
        self.talk = None;
    }
}

/// Is a client of a kind built in, for whoever speaks to standard input: its address, and how many
/// milliseconds an operation may take.
///
/// # Errors
/// If the words are none of a client's, or the other end is lost or talks nonsense.
pub async fn serve_client(kind: &str, addr: &str, op_limit_ms: u64) -> std::io::Result<()> {
    let bad = |why: String| std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
    let kind = CLIENT_KINDS.iter().find(|known| known.name == kind);
    let kind = kind.ok_or_else(|| bad("no such client is built in".into()))?;
    let addr = addr.parse().map_err(|_| bad(format!("{addr} is not an address and a port")))?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let Some(hello) = lines.next_line().await? else { return Ok(()) };
    let hello: Hello = serde_json::from_str(&hello).map_err(|e| bad(format!("hello: {e}")))?;
    let op_limit = Duration::from_millis(op_limit_ms);
    let plan = EndpointPlan { addr, settings: hello.settings, op_limit };
    let endpoint = (kind.endpoint)(plan).map_err(bad)?;
    let supports = kind.supports.iter().map(|op| (*op).to_owned()).collect();
    say(&HelloAnswer { hello: PROTOCOL, supports }).await?;
    // It connects with its first operation: that the store refuses is an answer, not an end.
    let mut client: Option<Box<dyn Client>> = None;
    while let Some(line) = lines.next_line().await? {
        let Request { id, f, value } =
            serde_json::from_str(&line).map_err(|e| bad(format!("{line}: {e}")))?;
        let op = deposed_core::Invocation::new(f, json::to_value(&value));
        let result = match &mut client {
            Some(client) => client.invoke(&op).await,
            None => match endpoint.connect(hello.process).await {
                Ok(connected) => client.insert(connected).invoke(&op).await,
                Err(error) => Err(error),
            },
        };
        let (r#type, value, error) = match result {
            Ok(value) => (AnswerType::Ok, Some(json::from_value(&value)), None),
            Err(error @ ClientError::Indefinite(_)) => {
                (AnswerType::Info, None, Some(error.to_string()))
            }
            Err(error) => (AnswerType::Fail, None, Some(error.to_string())),
        };
        say(&Answer { id, r#type, value, error }).await?;
    }
    if let Some(mut client) = client {
        client.close().await;
    }
    Ok(())
}

async fn say(message: &impl serde::Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut out = tokio::io::stdout();
    out.write_all(&line).await?;
    out.flush().await
}
