//! The client: operations into commands, replies into values.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deposed_core::{Client, ClientError, Invocation};
use deposed_history::Value;
use deposed_history::fencing::{Observation, Seen, Served};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout_at};

use super::outcome;
use super::resp::{CallError, Connection, Reply};
use super::sentinel::{Master, ask, ask_all};
use crate::endpoint::{ClientKind, Endpoint, EndpointPlan, Probe};

/// How long a node may take to say how it is, or who the master is.
const PROBE_LIMIT: Duration = Duration::from_millis(500);
/// How often a client asks whether its master is still the master.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(500);
/// After a refusal the client waits, so that a store without a master does not fill the history.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// `kind = "redis-sentinel"`. Connects to a Sentinel. Settings: `nodes` (the Sentinels, NAME=ADDRESS:PORT,
/// …), `port` (of Redis on every node), `master` (its name among the Sentinels).
pub(crate) const KIND: ClientKind = ClientKind {
    name: "redis-sentinel",
    supports: &["append", "read"],
    settings: &["nodes", "port", "master"],
    endpoint,
    records: None,
};

fn endpoint(plan: EndpointPlan) -> Result<Arc<dyn Endpoint>, String> {
    let setting =
        |name: &str| plan.settings.get(name).ok_or_else(|| format!("needs the setting `{name}`"));
    let peer = |text: &str| {
        let (name, addr) = text.split_once('=')?;
        Some((name.to_owned(), addr.parse().ok()?))
    };
    let read = |text: &str| peer(text).ok_or_else(|| format!("`{text}` is not NAME=ADDRESS:PORT"));
    let mut nodes: Vec<(String, SocketAddr)> =
        setting("nodes")?.split(',').map(read).collect::<Result<_, _>>()?;
    // The own Sentinel is asked before the others.
    nodes.sort_by_key(|(_, addr)| *addr != plan.addr);
    let port = setting("port")?.parse().map_err(|_| "`port` is no port")?;
    // A fifth is kept back, so that the answer of the client comes before the run loop's deadline.
    let limit = plan.op_limit * 4 / 5;
    let master_name = setting("master")?.clone();
    Ok(Arc::new(RedisEndpoint { addr: plan.addr, nodes, port, master_name, limit }))
}

#[derive(Debug, Clone)]
struct RedisEndpoint {
    /// Its Sentinel.
    addr: SocketAddr,
    /// Every Sentinel, its own first, by the name of the node.
    nodes: Vec<(String, SocketAddr)>,
    port: u16,
    master_name: String,
    limit: Duration,
}

impl RedisEndpoint {
    fn sentinels(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|(_, addr)| *addr).collect()
    }

    /// The node at an address.
    fn name(&self, addr: SocketAddr) -> String {
        let known = self.nodes.iter().find(|(_, sentinel)| sentinel.ip() == addr.ip());
        known.map_or_else(|| addr.to_string(), |(name, _)| name.clone())
    }
}

/// Sends one command to an address that is not talked to otherwise.
async fn once(addr: SocketAddr, command: &[&str]) -> Result<Reply, String> {
    let mut connection = Connection::open(addr, PROBE_LIMIT).await.map_err(|e| e.to_string())?;
    let replies = connection.call(&[command], PROBE_LIMIT).await.map_err(|e| e.to_string())?;
    match replies.into_iter().next() {
        Some(Reply::Error(said)) => Err(format!("{addr}: {said}")),
        Some(reply) => Ok(reply),
        None => Err(format!("{addr} did not reply")),
    }
}

/// Whether what `ROLE` says is a master's, and how many replicas it has.
fn as_master(role: &Reply) -> Option<usize> {
    match role.as_list()? {
        [kind, _, replicas] if kind.as_text() == Some("master") => Some(replicas.as_list()?.len()),
        _ => None,
    }
}

#[async_trait]
impl Endpoint for RedisEndpoint {
    async fn connect(&self, _process: u32) -> Result<Box<dyn Client>, ClientError> {
        let mut client = RedisClient { endpoint: self.clone(), known: None };
        let opened = client.find_master(Instant::now() + self.limit).await;
        opened.map_err(|error| ClientError::Definite(error.to_string()))?;
        Ok(Box::new(client))
    }

    fn probe(&self) -> Option<&dyn Probe> {
        Some(self)
    }
}

#[async_trait]
impl Probe for RedisEndpoint {
    /// It serves when all Sentinels that answer agree on a master that knows itself for one, and when
    /// its own Sentinel could make another: whoever asks any of them then is led to the same.
    async fn serves(&self) -> Result<(), String> {
        let majority = self.nodes.len() / 2 + 1;
        let asked = self.nodes.iter().map(|(_, addr)| ask(*addr, &self.master_name, PROBE_LIMIT));
        let mut answers = join_all(asked).await.into_iter();
        let own = answers.next().unwrap_or_else(|| Err("there is no Sentinel".into()))?;
        let others: Vec<Master> = answers.flatten().collect();
        if others.len() + 1 < majority {
            return Err(format!("only {} Sentinels answer", others.len() + 1));
        }
        if let Some(other) = others.iter().find(|other| **other != own) {
            return Err(format!("Sentinels do not agree: {own:?}, {other:?}"));
        }
        once(self.addr, &["SENTINEL", "CKQUORUM", &self.master_name]).await?;
        let role = once(own.addr, &["ROLE"]).await?;
        let replicas = as_master(&role).ok_or_else(|| format!("{} is no master", own.addr))?;
        if replicas + 1 < majority {
            return Err(format!("the master {} has {replicas} replicas", own.addr));
        }
        once(SocketAddr::new(self.addr.ip(), self.port), &["PING"]).await.map(drop)
    }

    async fn leads(&self) -> Result<bool, String> {
        let role = once(SocketAddr::new(self.addr.ip(), self.port), &["ROLE"]).await?;
        Ok(as_master(&role).is_some())
    }
}

struct RedisClient {
    endpoint: RedisEndpoint,
    known: Option<Known>,
}

/// The master a client talks to.
struct Known {
    master: Master,
    node: String,
    /// A master that becomes a replica closes it. So what it serves is of this promotion.
    connection: Connection,
    /// When a Sentinel was last asked.
    asked: Instant,
}

#[async_trait]
impl Client for RedisClient {
    async fn invoke(&mut self, op: &Invocation) -> Result<Value, ClientError> {
        let Some([list, argument]) = op.value.as_list() else { return Err(malformed(op)) };
        let key = list.as_str().map_or_else(|| list.to_string(), str::to_owned);
        let deadline = Instant::now() + self.endpoint.limit;
        let result = match &*op.f {
            "append" => {
                let id = argument.get("id").and_then(Value::as_str);
                let id = id.ok_or_else(|| malformed(op))?;
                self.append(&key, id, deadline).await
            }
            "read" => self.read(&key, deadline).await,
            _ => return Err(malformed(op)),
        };
        if matches!(result, Err(ClientError::Definite(_))) {
            let _ = timeout_at(deadline, sleep(REFUSED_PAUSE)).await;
        }
        result.map(|seen| Value::pair(list.clone(), seen))
    }

    async fn close(&mut self) {
        self.known = None;
    }
}

impl RedisClient {
    async fn append(
        &mut self,
        key: &str,
        id: &str,
        deadline: Instant,
    ) -> Result<Value, ClientError> {
        let replies = self.call(&[&["RPUSH", key, id]], deadline).await;
        match replies.map_err(|e| outcome::of_write(&e))?.as_slice() {
            [Reply::Int(_)] => Ok(self.served(Some(id)).to_value()),
            other => Err(ClientError::Indefinite(format!("not an answer to this: {other:?}"))),
        }
    }

    /// A whole list, as the master has it: a replica would answer too, and is found out by its role.
    async fn read(&mut self, key: &str, deadline: Instant) -> Result<Value, ClientError> {
        let commands: [&[&str]; 4] =
            [&["MULTI"], &["ROLE"], &["LRANGE", key, "0", "-1"], &["EXEC"]];
        let replies = self.call(&commands, deadline).await.map_err(|e| outcome::of_read(&e))?;
        let Some([role, Reply::List(ids)]) = replies.last().and_then(Reply::as_list) else {
            return Err(ClientError::Definite(format!("not an answer to this: {replies:?}")));
        };
        if as_master(role).is_none() {
            self.known = None;
            return Err(ClientError::Definite("it is no master".into()));
        }
        let seen = Seen::Every(ids.iter().filter_map(Reply::as_text).collect());
        Ok(Observation { seen, served: Some(self.served(None)) }.to_value())
    }

    /// By whom the last call was served.
    fn served<'a>(&'a self, id: Option<&'a str>) -> Served<'a> {
        let known = self.known.as_ref().expect("it has just answered");
        Served { id, node: &known.node, epoch: known.master.epoch, leader: true }
    }

    /// Sends commands to the master; an error of any of them is the error of all.
    async fn call(
        &mut self,
        commands: &[&[&str]],
        deadline: Instant,
    ) -> Result<Vec<Reply>, CallError> {
        let known = self.find_master(deadline).await?;
        let left = deadline.saturating_duration_since(Instant::now());
        let replies = known.connection.call(commands, left).await;
        let refused = |reply: &Reply| match reply {
            Reply::Error(said) => Some(CallError::Refused(said.clone())),
            _ => None,
        };
        let replies = replies.and_then(|replies| match replies.iter().find_map(refused) {
            Some(refused) => Err(refused),
            None => Ok(replies),
        });
        // A connection that lost a command is not trusted with the next; nor is one to a replica.
        if replies.as_ref().is_err_and(
            |error| !matches!(error, CallError::Refused(said) if !said.starts_with("READONLY")),
        ) {
            self.known = None;
        }
        replies
    }

    /// Connects to the master, unless it is connected to who still is.
    async fn find_master(&mut self, deadline: Instant) -> Result<&mut Known, CallError> {
        let RedisEndpoint { addr, master_name, .. } = &self.endpoint;
        let limit = PROBE_LIMIT.min(deadline.saturating_duration_since(Instant::now()));
        if self.known.as_ref().is_some_and(|known| known.connection.ended()) {
            self.known = None;
        }
        if let Some(known) = self.known.as_mut().filter(|known| known.asked.elapsed() > ASK_EVERY) {
            let named = ask(*addr, master_name, limit).await;
            // A Sentinel that is silent is no reason to leave a master that answers.
            if named.is_ok_and(|named| {
                named.addr != known.master.addr || named.epoch > known.master.epoch
            }) {
                self.known = None;
            } else {
                known.asked = Instant::now();
            }
        }
        if self.known.is_none() {
            let sentinels = self.endpoint.sentinels();
            let master = ask_all(&sentinels, master_name, limit).await;
            let master = master.map_err(CallError::NotSent)?;
            let left = deadline.saturating_duration_since(Instant::now());
            let connection = Connection::open(master.addr, left).await?;
            let node = self.endpoint.name(master.addr);
            self.known = Some(Known { master, node, connection, asked: Instant::now() });
        }
        Ok(self.known.as_mut().expect("it was just opened"))
    }
}

fn malformed(op: &Invocation) -> ClientError {
    ClientError::Definite(format!("not an operation of this client: {} {}", op.f, op.value))
}
