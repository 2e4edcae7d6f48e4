//! What clients ask of a node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Node;
use super::core::Undelivered;
use super::deliver::VOLUME_LIMIT;
use crate::state::{Op, Outcome, State};
use crate::{Acks, Failover, Link, Reads, Reply, Request};

/// How long a client is kept waiting before it is told that nobody knows.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// How many writes may be acknowledged and not delivered.
const UNDELIVERED_MAX: usize = 10_000;

/// What one client's connection needs.
pub(crate) struct Session {
    volume: Link,
    external: Link,
}

impl Session {
    pub(crate) fn new(node: &Node) -> Self {
        let link = |addr| Link::new(addr, &node.config.name);
        Self { volume: link(node.config.volume), external: link(node.config.external_at) }
    }
}

impl Node {
    /// Answers a client.
    pub(crate) async fn serve(self: &Arc<Self>, session: &mut Session, request: Request) -> Reply {
        match request {
            Request::Read { key } => {
                self.read(|state| state.keys.get(&key).cloned().unwrap_or(Value::Null)).await
            }
            Request::List { list } => {
                let whole = |state: &State| state.lists.get(&list).cloned().unwrap_or_default();
                self.read(|state| Value::Array(whole(state))).await
            }
            Request::Write { key, value } => self.write(Op::Write { key, value }).await,
            Request::Cas { key, old, new } => self.write(Op::Cas { key, old, new }).await,
            Request::Append { list, value } => self.write(Op::Append { list, value }).await,
            Request::Acquire { lock, owner, ttl_ms } => self.acquire(lock, owner, ttl_ms).await,
            Request::Renew { lock, token } => self.write(Op::Renew { lock, token }).await,
            Request::Release { lock, token } => self.write(Op::Release { lock, token }).await,
            Request::Put { id, value } => self.put(&mut session.volume, id, value).await,
            Request::Get => self.get(&mut session.volume).await,
            Request::Call { id, value } => self.perform(&mut session.external, id, value).await,
            _ => Reply::fail("not a request of a client"),
        }
    }

    pub(super) fn not_leader(&self) -> Reply {
        let leader = self.core().leader.clone();
        Reply::NotLeader { leader: leader.filter(|leader| *leader != self.config.name) }
    }

    pub(super) fn done(&self, token: u64, value: Value) -> Reply {
        Reply::Ok { value, node: self.config.name.clone(), token }
    }

    async fn acquire(&self, lock: String, owner: String, ttl_ms: u64) -> Reply {
        if !self.settles().await {
            return self.not_leader();
        }
        let (expired, token) = {
            let mut core = self.core();
            (core.expired(&lock), core.mistaken_token())
        };
        self.write(Op::Acquire { lock, owner, ttl_ms, token, expired }).await
    }

    /// Puts something into the log and waits until it is committed.
    async fn write(&self, op: Op) -> Reply {
        let submitted = self.change(|core| Some((core.leads()?, core.submit(op))));
        let Some((term, index)) = submitted else { return self.not_leader() };
        let outcome = self.wait_for(REQUEST_LIMIT, |core| core.outcome(term, index)).await;
        match outcome {
            Some(Ok(Outcome::Done)) => self.done(term, Value::Null),
            Some(Ok(Outcome::Taken(token))) => self.done(term, token.into()),
            Some(Ok(Outcome::Precondition)) => Reply::Precondition,
            Some(Ok(Outcome::Held(why))) => Reply::Fail { error: why },
            Some(Err(())) => Reply::info("deposed before it was committed"),
            None => {
                self.core().forget(index);
                Reply::info(format!("not committed within {REQUEST_LIMIT:?}"))
            }
        }
    }

    /// Waits until this node, as a leader, knows what was committed before.
    async fn settles(&self) -> bool {
        let settled = |core: &mut super::Core| {
            if core.leads().is_none() {
                return Some(false);
            }
            core.is_settled().then_some(true)
        };
        self.wait_for(REQUEST_LIMIT, settled).await.unwrap_or(false)
    }

    async fn read(&self, look: impl Fn(&State) -> Value) -> Reply {
        if !self.core().leads_by_itself() {
            return self.read_as_follower(look).await;
        }
        if self.config.reads == Reads::Any {
            let core = self.core();
            return self.done(core.term(), look(&core.state));
        }
        if !self.settles().await || !self.confirmed().await {
            return self.not_leader();
        }
        let core = self.core();
        // The look at the lease and the look at the data are one moment.
        match core.leads() {
            Some(term) => self.done(term, look(&core.state)),
            None => {
                drop(core);
                self.not_leader()
            }
        }
    }

    async fn read_as_follower(&self, look: impl Fn(&State) -> Value) -> Reply {
        match self.config.reads {
            Reads::Leader => self.not_leader(),
            Reads::Any => self.done(0, look(&self.core().state)),
            Reads::FollowerLease => {
                // What is under way may be committed already, and read elsewhere.
                let end = self.core().last();
                let read = |core: &mut super::Core| {
                    if !core.read_lease.valid() || core.leads_by_itself() {
                        return Some(None);
                    }
                    core.all_committed(end).then(|| Some(look(&core.state)))
                };
                match self.wait_for(self.config.term(), read).await.flatten() {
                    Some(value) => self.done(0, value),
                    None => self.not_leader(),
                }
            }
        }
    }

    /// Whether this node led at some moment from now on. By vote, that takes a round of messages;
    /// by lease it is the lease; by timeout there is no way to know.
    async fn confirmed(&self) -> bool {
        if self.config.failover != Failover::Quorum {
            return true;
        }
        let term = self.core().leads();
        let now = Instant::now();
        self.change(|core| core.confirm_from(now));
        let round = |core: &mut super::Core| {
            if core.leads() != term {
                return Some(false);
            }
            (core.confirmed_since(now) >= self.config.majority()).then_some(true)
        };
        self.wait_for(REQUEST_LIMIT, round).await.unwrap_or(false)
    }

    async fn put(self: &Arc<Self>, link: &mut Link, id: String, value: Value) -> Reply {
        let Some(token) = self.core().leads() else { return self.not_leader() };
        let write = Undelivered { token, id, value };
        match self.config.acks {
            Acks::Durable => {
                // A task of its own: what is at work does not end with the client's connection.
                let mut own = std::mem::replace(link, Link::new(link.addr(), &self.config.name));
                let node = self.clone();
                let delivery = tokio::spawn(async move {
                    let reply = node.deliver(&mut own, write).await;
                    (own, reply)
                });
                match delivery.await {
                    Ok((own, reply)) => {
                        *link = own;
                        reply
                    }
                    Err(error) => Reply::info(error.to_string()),
                }
            }
            Acks::Local if self.core().undelivered.len() >= UNDELIVERED_MAX => {
                Reply::fail("too much is undelivered")
            }
            Acks::Local => {
                self.change(|core| core.undelivered.push_back(write));
                self.done(token, Value::Null)
            }
        }
    }
}

/// A limit that leaves the volume time to answer before the client is told that nobody knows.
const _: () = assert!(VOLUME_LIMIT.as_millis() < REQUEST_LIMIT.as_millis());
