//! The client: operations into calls, answers into values.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deposed_core::{Client, ClientError, Invocation};
use deposed_history::Value;
use prost::Message;
use tokio::time::{Instant, sleep_until};

use super::lock::Holds;
use super::outcome;
use super::wire::{
    CREATE, Comparand, Compare, EQUAL, LeaseGrantRequest, LeaseGrantResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, Request, RequestOp, StatusRequest, StatusResponse,
    TxnRequest, TxnResponse, VALUE,
};
use crate::endpoint::{ClientKind, Endpoint, EndpointPlan, Probe};
use crate::grpc::{CallError, Connection};
use crate::json;

/// How long a connection may take to be made.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// After a failed attempt to connect, the next is made no sooner than this, so that a client whose
/// node is down does not fill the history with refused connections.
pub(super) const RECONNECT_SPACING: Duration = Duration::from_millis(100);
/// How long a node may take to say how it is.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// `kind = "etcd"`. Setting `read`: `linearizable` asks the quorum, `serializable` one node. Setting
/// `token`: whether what locks guard compares revisions (`revision`) or nothing (`none`).
pub(crate) const KIND: ClientKind = ClientKind {
    name: "etcd",
    supports: &[
        "read",
        "write",
        "cas",
        "acquire",
        "renew",
        "release",
        "fenced-write",
        "put-leased",
    ],
    settings: &["read", "token"],
    endpoint,
    records: None,
};

fn endpoint(plan: EndpointPlan) -> Result<Arc<dyn Endpoint>, String> {
    let serializable = plan.choice("read", &[("linearizable", false), ("serializable", true)])?;
    let checks_tokens = plan.choice("token", &[("revision", true), ("none", false)])?;
    // A fifth is kept back, so that the answer of the client comes before the run loop's deadline.
    let (addr, limit) = (plan.addr, plan.op_limit * 4 / 5);
    Ok(Arc::new(EtcdEndpoint { addr, serializable, checks_tokens, limit }))
}

struct EtcdEndpoint {
    addr: SocketAddr,
    serializable: bool,
    checks_tokens: bool,
    limit: Duration,
}

#[async_trait]
impl Endpoint for EtcdEndpoint {
    async fn connect(&self, _process: u32) -> Result<Box<dyn Client>, ClientError> {
        let connection =
            Connection::open(self.addr, CONNECT_LIMIT).await.map_err(ClientError::Definite)?;
        Ok(Box::new(EtcdClient {
            addr: self.addr,
            serializable: self.serializable,
            checks_tokens: self.checks_tokens,
            holds: Holds::new(),
            limit: self.limit,
            connection: Some(connection),
            refused_at: None,
        }))
    }

    fn probe(&self) -> Option<&dyn Probe> {
        Some(self)
    }
}

#[async_trait]
impl Probe for EtcdEndpoint {
    /// It serves when a read that needs the quorum is answered.
    async fn serves(&self) -> Result<(), String> {
        let read = RangeRequest { key: b"\0".to_vec(), serializable: false };
        let mut connection = Connection::open(self.addr, PROBE_LIMIT).await?;
        let answer = connection.call("/etcdserverpb.KV/Range", &read, PROBE_LIMIT).await;
        answer.map(|_: RangeResponse| ()).map_err(|e| e.to_string())
    }

    async fn leads(&self) -> Result<bool, String> {
        let mut connection = Connection::open(self.addr, PROBE_LIMIT).await?;
        let path = "/etcdserverpb.Maintenance/Status";
        let status: StatusResponse = connection
            .call(path, &StatusRequest {}, PROBE_LIMIT)
            .await
            .map_err(|e| e.to_string())?;
        let member = status.header.ok_or("a status without header")?.member_id;
        Ok(member != 0 && member == status.leader)
    }
}

pub(super) struct EtcdClient {
    addr: SocketAddr,
    serializable: bool,
    /// Whether what locks guard compares tokens.
    pub(super) checks_tokens: bool,
    /// The locks it holds.
    pub(super) holds: Holds,
    limit: Duration,
    /// Made again, before an operation is sent, when it has ended.
    connection: Option<Connection>,
    refused_at: Option<Instant>,
}

#[async_trait]
impl Client for EtcdClient {
    async fn invoke(&mut self, op: &Invocation) -> Result<Value, ClientError> {
        let (key, argument) = match op.value.as_list() {
            Some([key, argument]) => (key, argument),
            _ => return Err(malformed(op)),
        };
        let key_bytes = json::to_key(key);
        match (&*op.f, argument.as_list()) {
            ("read", _) => {
                let read = RangeRequest { key: key_bytes, serializable: self.serializable };
                let answer: RangeResponse = self
                    .call("/etcdserverpb.KV/Range", &read)
                    .await
                    .map_err(|e| outcome::of_read(&e))?;
                let value = answer.kvs.first().map(|kv| json::from_bytes(&kv.value));
                Ok(Value::pair(key.clone(), value))
            }
            ("write", _) => {
                let put = PutRequest { key: key_bytes, value: json::to_bytes(argument), lease: 0 };
                let _: PutResponse = self
                    .call("/etcdserverpb.KV/Put", &put)
                    .await
                    .map_err(|e| outcome::of_write(&e))?;
                Ok(op.value.clone())
            }
            ("cas", Some([old, new])) => {
                let txn = compare_and_set(key_bytes, old, new);
                let answer: TxnResponse = self
                    .call("/etcdserverpb.KV/Txn", &txn)
                    .await
                    .map_err(|e| outcome::of_write(&e))?;
                if answer.succeeded { Ok(op.value.clone()) } else { Err(ClientError::Precondition) }
            }
            ("put-leased", _) => {
                let lease_ms = argument.get("lease_ms").and_then(Value::as_int);
                let lease_ms = lease_ms.ok_or_else(|| malformed(op))?;
                self.put_leased(key, lease_ms).await
            }
            ("acquire", _) => self.acquire(key).await,
            ("renew", _) => self.renew(op).await,
            ("release", _) => self.release(op).await,
            ("fenced-write", _) => self.guarded_write(op).await,
            _ => Err(malformed(op)),
        }
    }

    async fn close(&mut self) {
        self.connection = None;
    }
}

impl EtcdClient {
    /// Puts a key under a lease of its own, which is never renewed.
    async fn put_leased(&mut self, key: &Value, lease_ms: i64) -> Result<Value, ClientError> {
        let grant = LeaseGrantRequest { ttl: (lease_ms / 1000).max(1), id: 0 };
        // A lease alone holds nothing.
        let lease: LeaseGrantResponse = self
            .call("/etcdserverpb.Lease/LeaseGrant", &grant)
            .await
            .map_err(|e| outcome::of_read(&e))?;
        let (key_bytes, value) = (json::to_key(key), json::to_bytes(&Value::Int(1)));
        let put = PutRequest { key: key_bytes, value, lease: lease.id };
        let _: PutResponse =
            self.call("/etcdserverpb.KV/Put", &put).await.map_err(|e| outcome::of_write(&e))?;
        let granted = Value::Map(vec![("lease_ms".into(), Value::Int(lease.ttl * 1000))]);
        Ok(Value::pair(key.clone(), granted))
    }

    pub(super) async fn call<T: Message + Default>(
        &mut self,
        path: &str,
        message: &impl Message,
    ) -> Result<T, CallError> {
        if self.connection.as_ref().is_none_or(Connection::ended) {
            if let Some(refused_at) = self.refused_at.take() {
                sleep_until(refused_at + RECONNECT_SPACING).await;
            }
            let opened = Connection::open(self.addr, CONNECT_LIMIT.min(self.limit)).await;
            self.connection = Some(opened.map_err(|why| {
                self.refused_at = Some(Instant::now());
                CallError::NotSent(why)
            })?);
        }
        let connection = self.connection.as_mut().expect("it was just opened");
        let answer = connection.call(path, message, self.limit).await;
        // A connection that lost a request is not trusted with the next.
        if matches!(answer, Err(CallError::NotSent(_) | CallError::NoAnswer(_))) {
            self.connection = None;
        }
        answer
    }
}

/// One transaction: if the key has the old value (or, for `nil`, does not exist), put the new.
fn compare_and_set(key: Vec<u8>, old: &Value, new: &Value) -> TxnRequest {
    let (target, comparand) = if old.is_nil() {
        (CREATE, Comparand::CreateRevision(0))
    } else {
        (VALUE, Comparand::Value(json::to_bytes(old)))
    };
    let compare = Compare { result: EQUAL, target, key: key.clone(), comparand: Some(comparand) };
    let put = Request::Put(PutRequest { key, value: json::to_bytes(new), lease: 0 });
    TxnRequest { compare: vec![compare], success: vec![RequestOp { request: Some(put) }] }
}

pub(super) fn malformed(op: &Invocation) -> ClientError {
    ClientError::Definite(format!("not an operation of this client: {} {}", op.f, op.value))
}
