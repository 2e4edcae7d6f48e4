//! The agents of a cluster: one program a node, put there when it is first needed, spoken to over its
//! channel, and kept allowed to hold faults for as long as anybody here wants that.
//!
//! When the last [`Agents`] is dropped, or this process dies, or a node cannot be reached, nobody renews
//! the lease of a node any more, and the node undoes every fault by itself when it runs out.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use deposed_agent::{Reply, Request, Sight, Spec};
use deposed_core::{Cluster, Command, Conversation, FaultError, Remote, RemoteError};
use tokio::sync::{Mutex, OnceCell};
use tokio::task::JoinSet;

use crate::fanout::SCRIPT_MAX;
use crate::program;

/// How long a node holds faults without another word from here.
const TTL: Duration = Duration::from_secs(15);

/// The agents of a cluster. Clones share them.
#[derive(Clone)]
pub struct Agents {
    ttl: Duration,
    links: Arc<OnceCell<BTreeMap<String, Arc<Link>>>>,
}

impl Default for Agents {
    fn default() -> Self {
        Self::new(TTL)
    }
}

impl Agents {
    /// Agents whose nodes hold faults for so long without another word from here.
    pub fn new(ttl: Duration) -> Self {
        Self { ttl, links: Arc::default() }
    }

    /// How long nodes hold faults without another word from here.
    pub(crate) const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Speaks to the agents of nodes that could not be reached for a while, so that they take faults again. Says
    /// which do not answer. Where there are none, nobody needs them.
    pub(crate) async fn rejoin(&self, nodes: &[String]) -> Vec<String> {
        if self.links.get().is_none() {
            return Vec::new();
        }
        let asked = nodes.iter().map(|node| (node.clone(), renewal(self.ttl))).collect();
        let replies = self.ask(asked).await.into_iter();
        let silent = replies.filter_map(|(node, reply)| match reply {
            Ok(Reply::Done) => None,
            Ok(other) => Some(refused(&node, &other).to_string()),
            Err(error) => Some(error.to_string()),
        });
        silent.collect()
    }

    /// Puts the agent on every node and starts it, if that was not done before.
    ///
    /// # Errors
    /// If a node cannot be reached or cannot run it.
    pub(crate) async fn start(&self, cluster: &Cluster) -> Result<(), FaultError> {
        self.links.get_or_try_init(async || self.links(cluster).await).await.map(drop)
    }

    async fn links(&self, cluster: &Cluster) -> Result<BTreeMap<String, Arc<Link>>, FaultError> {
        let mut starting = JoinSet::new();
        for remote in cluster.remotes() {
            let link = Arc::new(Link { remote: Arc::clone(remote), talk: Mutex::new(None) });
            let ttl = self.ttl;
            starting.spawn(async move {
                link.install().await?;
                link.done(&renewal(ttl)).await?;
                tokio::spawn(renew(Arc::downgrade(&link), ttl));
                Ok::<_, FaultError>((link.remote.node().name.to_string(), link))
            });
        }
        let mut links = BTreeMap::new();
        while let Some(started) = starting.join_next().await {
            let (node, link) = started.expect("starting an agent does not panic")?;
            links.insert(node, link);
        }
        Ok(links)
    }

    /// Asks whether faults could be applied; nothing is touched.
    ///
    /// # Errors
    /// With the first that could not.
    pub(crate) async fn check(&self, specs: Vec<(String, Spec)>) -> Result<(), FaultError> {
        self.done(specs, |spec| Request::Check { spec }).await
    }

    /// Has faults applied, on all nodes at once.
    ///
    /// # Errors
    /// With the first that was not.
    pub(crate) async fn apply(
        &self,
        name: &str,
        specs: Vec<(String, Spec)>,
    ) -> Result<(), FaultError> {
        self.done(specs, |spec| Request::Apply { name: name.to_owned(), spec }).await
    }

    async fn done(
        &self,
        specs: Vec<(String, Spec)>,
        request: impl Fn(Spec) -> Request,
    ) -> Result<(), FaultError> {
        let asked = specs.into_iter().map(|(node, spec)| (node, request(spec))).collect();
        let asked = self.ask(asked).await;
        for (node, reply) in asked {
            match reply? {
                Reply::Done => {}
                other => return Err(refused(&node, &other)),
            }
        }
        Ok(())
    }

    /// What the agents themselves have against a fault being in force, as words. That they have nothing
    /// proves nothing: whoever asks looks at the nodes as well, past the agents.
    ///
    /// # Errors
    /// With the first node that does not answer.
    pub(crate) async fn objections(
        &self,
        name: &str,
        nodes: &[String],
    ) -> Result<Vec<String>, FaultError> {
        let mut objections = Vec::new();
        for (node, sight) in self.sights(name, nodes).await {
            match sight {
                Ok(Sight { holds: true, .. }) => {}
                Ok(Sight { summary, .. }) => objections.push(format!("{node}: {summary}")),
                Err(FaultError::Unsupported(refusal)) => objections.push(refusal),
                Err(error) => return Err(error),
            }
        }
        Ok(objections)
    }

    /// What the agents see of a fault in force, node by node.
    pub(crate) async fn sights(
        &self,
        name: &str,
        nodes: &[String],
    ) -> BTreeMap<String, Result<Sight, FaultError>> {
        self.seen(Request::Prove { name: name.to_owned() }, nodes).await
    }

    /// Has a fault undone, node by node. Each says what it sees of that, or why it did not work; a node
    /// that does not answer does not keep the others waiting.
    pub(crate) async fn undo(
        &self,
        name: &str,
        nodes: &[String],
    ) -> BTreeMap<String, Result<Sight, FaultError>> {
        self.seen(Request::Undo { name: name.to_owned() }, nodes).await
    }

    /// Asks every node the same, which is answered by a sight.
    async fn seen(
        &self,
        request: Request,
        nodes: &[String],
    ) -> BTreeMap<String, Result<Sight, FaultError>> {
        let asked = nodes.iter().map(|node| (node.clone(), request.clone())).collect();
        let asked = self.ask(asked).await;
        let sights = asked.into_iter().map(|(node, reply)| {
            let sight = match reply {
                Ok(Reply::Seen(sight)) => Ok(sight),
                Ok(other) => Err(refused(&node, &other)),
                Err(error) => Err(error),
            };
            (node, sight)
        });
        sights.collect()
    }

    async fn ask(
        &self,
        requests: Vec<(String, Request)>,
    ) -> BTreeMap<String, Result<Reply, FaultError>> {
        let mut asked = JoinSet::new();
        let mut replies = BTreeMap::new();
        for (node, request) in requests {
            let Some(link) = self.links.get().and_then(|links| links.get(&node)) else {
                let unknown = format!("{node} has no agent; this fault was not prepared");
                replies.insert(node, Err(FaultError::Unsupported(unknown)));
                continue;
            };
            let link = Arc::clone(link);
            asked.spawn(async move { (node, link.ask(&request).await) });
        }
        while let Some(answer) = asked.join_next().await {
            let (node, reply) = answer.expect("asking an agent does not panic");
            replies.insert(node, reply.map_err(FaultError::from));
        }
        replies
    }
}

fn renewal(ttl: Duration) -> Request {
    Request::Renew { ttl_ms: ttl.as_millis() as u64 }
}

/// Renews the lease of a node until nobody here wants its agent any more.
async fn renew(link: Weak<Link>, ttl: Duration) {
    loop {
        tokio::time::sleep(ttl / 5).await;
        let Some(link) = link.upgrade() else { return };
        if let Err(error) = link.done(&renewal(ttl)).await {
            tracing::warn!(node = &*link.remote.node().name, %error, "a lease was not renewed");
        }
    }
}

fn refused(node: &str, reply: &Reply) -> FaultError {
    FaultError::Unsupported(match reply {
        Reply::Failed(failure) => format!("{node}: {failure}"),
        other => format!("{node}: the agent's answer was not expected: {other:?}"),
    })
}

/// The agent of one node.
struct Link {
    remote: Arc<dyn Remote>,
    talk: Mutex<Option<Box<dyn Conversation>>>,
}

impl Link {
    /// Puts the program on the node, and removes those of other versions: whoever was using them is
    /// gone, for a run takes its nodes for itself.
    async fn install(&self) -> Result<(), FaultError> {
        let look = format!(
            "uname -m; if [ -x {0} ]; then echo there; fi
             for a in /var/lib/deposed-agent/agent-*; do [ \"$a\" = {0} ] || rm -f \"$a\"; done",
            program::PATH
        );
        let said = self.remote.run(Command::new(look).deadline(SCRIPT_MAX).idempotent()).await?;
        let mut lines = said.lines();
        let arch = lines.next().unwrap_or_default();
        if arch != program::ARCH {
            return Err(FaultError::Unsupported(format!(
                "{} is an {arch} machine, and this deposed carries an agent for {}; run a deposed \
                 that was built on {arch}",
                self.remote.node().name,
                program::ARCH
            )));
        }
        if lines.next() != Some("there") {
            self.remote.upload(program::BYTES, program::PATH, 0o755).await?;
        }
        let ready =
            Command::new(format!("{} ready", program::PATH)).deadline(SCRIPT_MAX).idempotent();
        match self.remote.run(ready).await {
            Err(RemoteError::Exit { node, status: 126, .. }) => {
                Err(FaultError::Unsupported(format!(
                    "{node} may not run {}: mount the file system of /var/lib/deposed without noexec",
                    program::PATH
                )))
            }
            ran => Ok(ran.map(drop)?),
        }
    }

    /// Asks; on a fresh channel if the old one is broken. Every request may be sent twice.
    async fn ask(&self, request: &Request) -> Result<Reply, RemoteError> {
        let line = serde_json::to_string(request).expect("a request is JSON");
        let mut talk = self.talk.lock().await;
        let mut last = None;
        for _ in 0..2 {
            let conversation = match talk.take() {
                Some(conversation) => conversation,
                None => self.remote.converse(&format!("exec {} serve", program::PATH)).await?,
            };
            match conversation.ask(&line, SCRIPT_MAX).await {
                Ok(answer) => {
                    let reply =
                        serde_json::from_str(&answer).map_err(|_| self.nonsense(&answer))?;
                    *talk = Some(conversation);
                    return Ok(reply);
                }
                Err(error @ RemoteError::Deadline { .. }) => return Err(error),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("it was tried"))
    }

    async fn done(&self, request: &Request) -> Result<(), FaultError> {
        match self.ask(request).await? {
            Reply::Done => Ok(()),
            other => Err(refused(&self.remote.node().name, &other)),
        }
    }

    fn nonsense(&self, answer: &str) -> RemoteError {
        RemoteError::Lost {
            node: self.remote.node().name.to_string(),
            command: program::PATH.to_owned(),
            reason: format!("the agent said `{}`", Command::label(answer)),
        }
    }
}
