//! Locks of etcd, and writes that they guard.
//!
//! A lock is taken by its name under a lease that is as long as the holder asked for, and goes with
//! the lease. Who waits for it has a key in a queue, and the revision in which that was created grows
//! with every grant, so it can serve as a fencing token. What the lock guards is a key of etcd itself: with `token = revision` it keeps
//! the greatest token that was shown to it, and a write under a smaller one is refused, in one
//! transaction; with `token = none` whatever comes is written, as with any resource that knows
//! nothing of the lock.
//!
//! The lease is renewed by nobody but whoever says so: a holder that pauses is one whose process
//! was paused, keep-alives and all.

use std::collections::BTreeMap;

use deposed_core::{ClientError, Invocation};
use deposed_history::Value;
use deposed_history::fencing::{Grant, STALE_TOKEN};
use serde::{Deserialize, Serialize};

use super::client::{EtcdClient, malformed};
use super::outcome;
use super::wire::{
    CREATE, Comparand, Compare, EQUAL, KeepAliveRequest, KeepAliveResponse, LeaseGrantRequest,
    LeaseGrantResponse, LockRequest, LockResponse, MOD, PutRequest, PutResponse, RangeRequest,
    RangeResponse, Request, RequestOp, TxnRequest, TxnResponse, UnlockRequest, UnlockResponse,
};
use crate::json;

/// How long a lock lasts unless it is renewed. etcd grants no less than one and a half election
/// timeouts.
const TTL_SECONDS: i64 = 2;
/// A guarded write that others come in between is tried so often.
const ATTEMPTS_MAX: usize = 10;

/// What a client holds, by token.
pub(super) type Holds = BTreeMap<i64, Hold>;

/// A lock that was taken.
#[derive(Debug, Clone)]
pub(super) struct Hold {
    lease: i64,
    /// What etcd made of its name.
    key: Vec<u8>,
}

/// What the guarded key holds.
#[derive(Debug, Serialize, Deserialize)]
struct Guarded {
    /// The greatest token it was written under.
    token: i64,
    /// The last write.
    id: String,
}

impl EtcdClient {
    /// Takes a lock, and waits for it if need be.
    pub(super) async fn acquire(&mut self, lock: &Value) -> Result<Value, ClientError> {
        let grant = LeaseGrantRequest { ttl: TTL_SECONDS, id: 0 };
        // A lease alone holds nothing.
        let lease: LeaseGrantResponse = self
            .call("/etcdserverpb.Lease/LeaseGrant", &grant)
            .await
            .map_err(|e| outcome::of_read(&e))?;
        let request = LockRequest { name: json::to_key(lock), lease: lease.id };
        let answer: LockResponse =
            self.call("/v3lockpb.Lock/Lock", &request).await.map_err(|e| outcome::of_write(&e))?;
        // etcd 3.4 grants a lock also to who waited for longer than its lease lasted, and so to
        // several at once (https://github.com/etcd-io/etcd/issues/11456). Only who still has its key
        // holds anything.
        let read = RangeRequest { key: answer.key.clone(), serializable: false };
        let own: RangeResponse =
            self.call("/etcdserverpb.KV/Range", &read).await.map_err(|e| outcome::of_write(&e))?;
        let Some(own) = own.kvs.first() else {
            return Err(ClientError::Definite("the lease was over before the lock came".into()));
        };
        let token = own.create_revision;
        self.holds.insert(token, Hold { lease: lease.id, key: answer.key });
        Ok(Value::pair(lock.clone(), granted(token, lease.ttl)))
    }

    /// Extends the lease of a lock, if it is not over.
    pub(super) async fn renew(&mut self, op: &Invocation) -> Result<Value, ClientError> {
        let (lock, token) = self.held(op)?;
        let lease = self.holds[&token].lease;
        let answer: KeepAliveResponse = self
            .call("/etcdserverpb.Lease/LeaseKeepAlive", &KeepAliveRequest { id: lease })
            .await
            .map_err(|e| outcome::of_write(&e))?;
        if answer.ttl <= 0 {
            return Err(ClientError::Definite("the lease is over".into()));
        }
        Ok(Value::pair(lock, granted(token, answer.ttl)))
    }

    /// Gives a lock back.
    pub(super) async fn release(&mut self, op: &Invocation) -> Result<Value, ClientError> {
        let (_, token) = self.held(op)?;
        let key = self.holds[&token].key.clone();
        let _: UnlockResponse = self
            .call("/v3lockpb.Lock/Unlock", &UnlockRequest { key })
            .await
            .map_err(|e| outcome::of_write(&e))?;
        self.holds.remove(&token);
        Ok(op.value.clone())
    }

    /// Writes to what a lock guards.
    pub(super) async fn guarded_write(&mut self, op: &Invocation) -> Result<Value, ClientError> {
        let Some([lock, argument]) = op.value.as_list() else { return Err(malformed(op)) };
        let int = |name: &str| argument.get(name).and_then(Value::as_int);
        let id = argument.get("id").and_then(Value::as_str);
        let (Some(token), Some(id)) = (int("token"), id) else { return Err(malformed(op)) };
        let key = json::to_key(&Value::from(format!("guarded by {lock}")));
        let text = |token| {
            let guarded = Guarded { token, id: id.to_owned() };
            serde_json::to_vec(&guarded).expect("numbers and texts")
        };
        if !self.checks_tokens {
            let put = PutRequest { key, value: text(token), lease: 0 };
            let _: PutResponse =
                self.call("/etcdserverpb.KV/Put", &put).await.map_err(|e| outcome::of_write(&e))?;
            return Ok(op.value.clone());
        }
        for _ in 0..ATTEMPTS_MAX {
            let read = RangeRequest { key: key.clone(), serializable: false };
            let there: RangeResponse = self
                .call("/etcdserverpb.KV/Range", &read)
                .await
                .map_err(|e| outcome::of_read(&e))?;
            let there = there.kvs.first();
            let seen = there.and_then(|kv| serde_json::from_slice::<Guarded>(&kv.value).ok());
            if seen.is_some_and(|seen| seen.token > token) {
                return Err(ClientError::Definite(STALE_TOKEN.into()));
            }
            let (target, comparand) = match there {
                Some(kv) => (MOD, Comparand::ModRevision(kv.mod_revision)),
                None => (CREATE, Comparand::CreateRevision(0)),
            };
            let compare =
                Compare { result: EQUAL, target, key: key.clone(), comparand: Some(comparand) };
            let put = PutRequest { key: key.clone(), value: text(token), lease: 0 };
            let put = RequestOp { request: Some(Request::Put(put)) };
            let txn = TxnRequest { compare: vec![compare], success: vec![put] };
            let answer: TxnResponse =
                self.call("/etcdserverpb.KV/Txn", &txn).await.map_err(|e| outcome::of_write(&e))?;
            if answer.succeeded {
                return Ok(op.value.clone());
            }
        }
        Err(ClientError::Definite("others came in between each time".into()))
    }

    /// The lock and token of an operation on a lock that this client holds, as far as it knows.
    fn held(&self, op: &Invocation) -> Result<(Value, i64), ClientError> {
        let Some([lock, argument]) = op.value.as_list() else { return Err(malformed(op)) };
        let token = argument.get("token").and_then(Value::as_int).ok_or_else(|| malformed(op))?;
        if !self.holds.contains_key(&token) {
            return Err(ClientError::Definite(format!("token {token} is not held by this client")));
        }
        Ok((lock.clone(), token))
    }
}

fn granted(token: i64, ttl_seconds: i64) -> Value {
    let lease_ms = u64::try_from(ttl_seconds).unwrap_or(0) * 1000;
    Grant { token, lease_ms: Some(lease_ms), valid_until_ns: None }.to_value()
}
