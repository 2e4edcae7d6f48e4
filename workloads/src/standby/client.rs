//! The client: operations into requests, replies into values.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deposed_core::{Client, ClientError, Invocation};
use deposed_history::Value;
use deposed_history::fencing::{Grant, STALE_TOKEN, Seen};
use deposed_history::fencing::{Observation, Served};
use deposed_standby::{CallError, Link, Peer, Reply, Request};
use tokio::time::{Instant, sleep, timeout_at};

use crate::endpoint::{ClientKind, Endpoint, EndpointPlan, Probe};
use crate::json;

/// How long a node may take to say how it is.
const PROBE_LIMIT: Duration = Duration::from_secs(1);
/// How often one operation may be sent on to another node.
const HOPS_MAX: usize = 3;
/// After a refusal the client waits, so that a store without a leader does not fill the history.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);
/// How long a client takes the last leader it heard of for the leader, before it asks its own node again:
/// who is served by a deposed leader need not hear of the new one, and others do.
const LEADER_KEPT: Duration = Duration::from_millis(500);
/// The resource that leaders write to, as opposed to those that clients guard by locks.
const VOLUME: &str = "volume";
/// The resource behind leaders that knows nothing of them.
const EXTERNAL: &str = "external";

/// `kind = "standby"`. Settings: `nodes` (NAME=ADDRESS:PORT, …), `volume`, `lock_ms`.
pub(crate) const KIND: ClientKind = ClientKind {
    name: "standby",
    supports: &["read", "write", "cas", "append", "acquire", "renew", "release", "fenced-write"],
    settings: &["nodes", "volume", "lock_ms"],
    endpoint,
    records: Some(super::records::read),
};

fn endpoint(plan: EndpointPlan) -> Result<Arc<dyn Endpoint>, String> {
    let setting =
        |name: &str| plan.settings.get(name).ok_or_else(|| format!("needs the setting `{name}`"));
    let nodes = setting("nodes")?.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let volume = setting("volume")?.parse().map_err(|_| "`volume` is no ADDRESS:PORT")?;
    let lock_ms = setting("lock_ms")?.parse().map_err(|_| "`lock_ms` is no number")?;
    // A fifth is kept back, so that the answer of the client comes before the run loop's deadline.
    let limit = plan.op_limit * 4 / 5;
    Ok(Arc::new(StandbyEndpoint { addr: plan.addr, nodes, volume, lock_ms, limit }))
}

#[derive(Clone)]
struct StandbyEndpoint {
    addr: SocketAddr,
    nodes: Vec<Peer>,
    volume: SocketAddr,
    lock_ms: u64,
    limit: Duration,
}

impl StandbyEndpoint {
    /// The store node that a client of this node asks first. Where there is none, it is any.
    fn home(&self, process: u32) -> usize {
        let own = self.nodes.iter().position(|peer| peer.addr == self.addr);
        own.unwrap_or(process as usize % self.nodes.len())
    }

    async fn status(&self) -> Result<Reply, String> {
        let mut link = Link::new(self.addr, "probe");
        link.call(&Request::Status, PROBE_LIMIT).await.map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Endpoint for StandbyEndpoint {
    async fn connect(&self, process: u32) -> Result<Box<dyn Client>, ClientError> {
        let home = self.home(process);
        let name = format!("client-{process}");
        let link = |addr| Link::new(addr, name.as_str());
        let mut client = StandbyClient {
            endpoint: self.clone(),
            links: self.nodes.iter().map(|peer| link(peer.addr)).collect(),
            volume: link(self.volume),
            name: name.clone(),
            home,
            leader: home,
            leader_since: Instant::now(),
        };
        let opened = client.links[home].open(self.limit).await;
        opened.map_err(|error| ClientError::Definite(error.to_string()))?;
        Ok(Box::new(client))
    }

    fn probe(&self) -> Option<&dyn Probe> {
        Some(self)
    }
}

#[async_trait]
impl Probe for StandbyEndpoint {
    /// A store node serves when somebody leads; the others, when they answer.
    async fn serves(&self) -> Result<(), String> {
        self.status().await?;
        if self.nodes.iter().all(|peer| peer.addr != self.addr) {
            return Ok(());
        }
        let mut link = Link::new(self.addr, "probe");
        let read =
            link.call(&Request::Get, PROBE_LIMIT).await.map_err(|error| error.to_string())?;
        match read {
            Reply::Ok { .. } | Reply::NotLeader { leader: Some(_) } => Ok(()),
            reply => Err(format!("nobody leads: {reply:?}")),
        }
    }

    async fn leads(&self) -> Result<bool, String> {
        Ok(matches!(self.status().await?, Reply::Status { leads: true, .. }))
    }
}

struct StandbyClient {
    endpoint: StandbyEndpoint,
    /// To each node, in the order of [`StandbyEndpoint::nodes`].
    links: Vec<Link>,
    volume: Link,
    name: String,
    /// Who is asked first.
    home: usize,
    /// Who led when the client last heard, and since when it has gone by that.
    leader: usize,
    leader_since: Instant,
}

#[async_trait]
impl Client for StandbyClient {
    async fn invoke(&mut self, op: &Invocation) -> Result<Value, ClientError> {
        let Some([resource, argument]) = op.value.as_list() else { return Err(malformed(op)) };
        let key = || resource.as_str().map_or_else(|| resource.to_string(), str::to_owned);
        let pair = |value: Value| Value::pair(resource.clone(), value);
        let field = |name: &str| argument.get(name);
        let token = || field("token").and_then(Value::as_int).and_then(|n| u64::try_from(n).ok());
        let id = || field("id").and_then(Value::as_str).map(str::to_owned);
        let value = || json::from_value(field("value").unwrap_or(&Value::Nil));
        let done = |(_, _): (serde_json::Value, Server)| op.value.clone();
        let leader = self.presumed_leader();
        match (&*op.f, argument) {
            // The resources of this system: the volume, lists, and the locks of the volume.
            ("read", Value::Nil) if key() == VOLUME => {
                let (value, server) = self.ask(leader, &Request::Get, Effect::None).await?;
                Ok(pair(last_seen(&value, &server)))
            }
            ("read", Value::Nil) if key().starts_with("log") => {
                let list = Request::List { list: key() };
                let (value, server) = self.ask(self.home, &list, Effect::None).await?;
                Ok(pair(all_seen(&value, &server)))
            }
            ("read", Value::Nil) => {
                let read = Request::Read { key: key() };
                let (value, _) = self.ask(self.home, &read, Effect::None).await?;
                Ok(pair(json::to_value(&value)))
            }
            ("write", argument) => {
                let write = Request::Write { key: key(), value: json::from_value(argument) };
                self.ask(leader, &write, Effect::Some).await.map(done)
            }
            ("cas", Value::List(both)) if both.len() == 2 => {
                let [old, new] = [&both[0], &both[1]].map(json::from_value);
                let cas = Request::Cas { key: key(), old, new };
                self.ask(leader, &cas, Effect::Some).await.map(done)
            }
            ("append", _) => {
                let id = id().ok_or_else(|| malformed(op))?;
                let append = Request::Append { list: key(), value: id.as_str().into() };
                let (_, server) = self.ask(leader, &append, Effect::Some).await?;
                Ok(pair(server.served(Some(&id)).to_value()))
            }
            ("acquire", Value::Nil) => {
                let (lock, owner, ttl_ms) = (key(), self.name.clone(), self.endpoint.lock_ms);
                let acquire = Request::Acquire { lock, owner, ttl_ms };
                let (token, _) = self.ask(leader, &acquire, Effect::Some).await?;
                Ok(pair(self.grant(token.as_i64().unwrap_or(0))))
            }
            ("renew", _) => {
                let token = token().ok_or_else(|| malformed(op))?;
                let renew = Request::Renew { lock: key(), token };
                self.ask(leader, &renew, Effect::Some).await?;
                Ok(pair(self.grant(i64::try_from(token).unwrap_or(i64::MAX))))
            }
            ("release", _) => {
                let token = token().ok_or_else(|| malformed(op))?;
                let release = Request::Release { lock: key(), token };
                self.ask(leader, &release, Effect::Some).await.map(done)
            }
            ("fenced-write", _) => {
                let (id, value) = (id().ok_or_else(|| malformed(op))?, value());
                match (token(), &*key()) {
                    // The client has a lock, and writes to the volume by itself.
                    (Some(token), grant) => {
                        let grant = grant.to_owned();
                        let write = Request::VolumeWrite { token, id, value, grant };
                        let reply = self.volume.call(&write, self.endpoint.limit).await;
                        understood(reply, Effect::Some).map(done)
                    }
                    (None, resource) => {
                        let request = match resource {
                            EXTERNAL => Request::Call { id: id.clone(), value },
                            _ => Request::Put { id: id.clone(), value },
                        };
                        let (_, server) = self.ask(leader, &request, Effect::Some).await?;
                        Ok(pair(server.served(Some(&id)).to_value()))
                    }
                }
            }
            _ => Err(malformed(op)),
        }
    }

    async fn close(&mut self) {
        self.links.iter_mut().for_each(Link::close);
    }
}

/// Whether an operation changes something, so that one without an answer is indeterminate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    None,
    Some,
}

/// Who served an operation.
struct Server {
    node: String,
    token: u64,
}

impl Server {
    fn served<'a>(&'a self, id: Option<&'a str>) -> Served<'a> {
        let epoch = i64::try_from(self.token).unwrap_or(i64::MAX);
        Served { id, node: &self.node, epoch, leader: self.token > 0 }
    }
}

impl StandbyClient {
    /// Who to ask for what only a leader does.
    fn presumed_leader(&mut self) -> usize {
        if self.leader_since.elapsed() > LEADER_KEPT {
            (self.leader, self.leader_since) = (self.home, Instant::now());
        }
        self.leader
    }

    /// Asks a node, and where it says that another leads, that one.
    async fn ask(
        &mut self,
        first: usize,
        request: &Request,
        effect: Effect,
    ) -> Result<(serde_json::Value, Server), ClientError> {
        let deadline = Instant::now() + self.endpoint.limit;
        let mut node = first;
        for _ in 0..HOPS_MAX {
            let left = deadline.saturating_duration_since(Instant::now());
            let reply = self.links[node].call(request, left).await;
            if let Ok(Reply::NotLeader { leader: Some(leader) }) = &reply {
                let named = self.endpoint.nodes.iter().position(|peer| peer.name == *leader);
                node = named.filter(|named| *named != node).unwrap_or(self.home);
                self.leader = node;
                continue;
            }
            if !matches!(reply, Ok(Reply::Ok { .. } | Reply::Precondition)) {
                // It may know no better than to ask this one again; the node it was made for does.
                self.leader = self.home;
            }
            let understood = understood(reply, effect);
            if matches!(understood, Err(ClientError::Definite(_))) {
                let _ = timeout_at(deadline, sleep(REFUSED_PAUSE)).await;
            }
            return understood;
        }
        sleep(REFUSED_PAUSE).await;
        Err(ClientError::Definite("the nodes do not agree on who leads".into()))
    }

    fn grant(&self, token: i64) -> Value {
        Grant { token, lease_ms: Some(self.endpoint.lock_ms), valid_until_ns: None }.to_value()
    }
}

/// What a reply means for the operation. The store says `fail` only of what certainly was not done.
fn understood(
    reply: Result<Reply, CallError>,
    effect: Effect,
) -> Result<(serde_json::Value, Server), ClientError> {
    let definite = |why: String| Err(ClientError::Definite(why));
    let doubtful = |why: String| match effect {
        Effect::None => Err(ClientError::Definite(why)),
        Effect::Some => Err(ClientError::Indefinite(why)),
    };
    match reply {
        Ok(Reply::Ok { value, node, token }) => Ok((value, Server { node, token })),
        Ok(Reply::Precondition) => Err(ClientError::Precondition),
        Ok(Reply::Fail { error }) => definite(error),
        Ok(Reply::NotLeader { .. }) => definite("nobody leads".into()),
        Ok(Reply::Stale { .. }) => definite(STALE_TOKEN.into()),
        Ok(Reply::Info { error }) => doubtful(error),
        Ok(other) => doubtful(format!("not an answer to this: {other:?}")),
        Err(CallError::NotSent(why)) => definite(why),
        Err(CallError::NoAnswer(why)) => doubtful(why),
    }
}

/// A read of the volume. What it holds is the id of the last write.
fn last_seen(value: &serde_json::Value, server: &Server) -> Value {
    let served = Some(server.served(None));
    Observation { seen: Seen::Last(value.as_str()), served }.to_value()
}

/// A read of a list of ids.
fn all_seen(value: &serde_json::Value, server: &Server) -> Value {
    let ids = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let ids = ids.iter().filter_map(serde_json::Value::as_str).collect();
    Observation { seen: Seen::Every(ids), served: Some(server.served(None)) }.to_value()
}

fn malformed(op: &Invocation) -> ClientError {
    ClientError::Definite(format!("not an operation of this client: {} {}", op.f, op.value))
}
