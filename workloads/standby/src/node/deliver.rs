//! What the leader does outside the replicated log: writes to the volume, calls of the service.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::Node;
use super::core::Undelivered;
use crate::{CallError, Link, Mistake, OnStale, Reply, Request};

/// The grant under which leaders write to the volume; the others there are locks.
pub(crate) const LEADER: &str = "leader";

/// How long the volume may take to answer.
pub(super) const VOLUME_LIMIT: Duration = Duration::from_secs(1);
/// How long the external service may take before the call is repeated, and how often it is.
const PERFORM_LIMIT: Duration = Duration::from_millis(300);
const PERFORM_ATTEMPTS: usize = 3;

impl Node {
    /// Writes to the volume under a token that this node leads by.
    pub(super) async fn deliver(&self, link: &mut Link, write: Undelivered) -> Reply {
        let Undelivered { token, id, value } = write;
        sleep(Duration::from_millis(self.config.work_ms)).await;
        // Planted: whatever happened during the work, nobody looks again.
        if !self.config.has(Mistake::CheckBeforePause) && !self.may_deliver(token) {
            return Reply::NotLeader { leader: self.core().leader.clone() };
        }
        // Not even the last look is the moment of the effect.
        sleep(Duration::from_millis(self.config.queue_ms)).await;
        let request = Request::VolumeWrite { token, id, value, grant: LEADER.into() };
        match link.call(&request, VOLUME_LIMIT).await {
            Ok(Reply::Ok { .. }) => self.done(token, Value::Null),
            Ok(Reply::Stale { token: newer }) => {
                self.learned_stale(newer);
                Reply::Stale { token: newer }
            }
            Ok(reply) => reply,
            Err(CallError::NotSent(why)) => Reply::Fail { error: why },
            Err(CallError::NoAnswer(why)) => Reply::Info { error: why },
        }
    }

    fn may_deliver(&self, token: u64) -> bool {
        match self.config.on_stale {
            OnStale::Disconnect => self.core().leads() == Some(token),
            // What it acknowledged as a leader it delivers as one, whichever term that was.
            OnStale::Silent => self.core().leads().is_some(),
        }
    }

    /// Delivers, in order, what was acknowledged before.
    pub(super) async fn deliver_later(self: Arc<Self>) {
        let mut link = Link::new(self.config.volume, &self.config.name);
        loop {
            let first =
                self.wait_for(self.config.term(), |core| core.undelivered.front().cloned()).await;
            let Some(first) = first else { continue };
            match self.deliver(&mut link, first.clone()).await {
                Reply::Ok { .. } | Reply::Stale { .. } => {
                    // Deposed meanwhile, the queue may hold others by now, or nothing.
                    let mut core = self.core();
                    if core.undelivered.front().is_some_and(|front| front.id == first.id) {
                        core.undelivered.pop_front();
                    }
                }
                _ => sleep(self.config.heartbeat()).await,
            }
        }
    }

    /// What the leader knows to be on the volume.
    pub(super) async fn get(&self, link: &mut Link) -> Reply {
        let Some(token) = self.core().leads() else { return self.not_leader() };
        if let Some(last) = self.core().undelivered.back() {
            return self.done(token, last.id.clone().into());
        }
        let read = link.call(&Request::VolumeRead { grant: LEADER.into() }, VOLUME_LIMIT).await;
        match read {
            Ok(Reply::Ok { value, .. }) if self.core().leads() == Some(token) => {
                self.done(token, value)
            }
            Ok(Reply::Ok { .. }) => self.not_leader(),
            Ok(reply) => reply,
            Err(error) => Reply::fail(error.to_string()),
        }
    }

    /// Has the external service do something. What got no answer is repeated, as nobody can tell.
    pub(super) async fn perform(&self, link: &mut Link, id: String, value: Value) -> Reply {
        let Some(token) = self.core().leads() else { return self.not_leader() };
        // As with the volume: the look is not the moment of the effect.
        sleep(Duration::from_millis(self.config.queue_ms)).await;
        let request = Request::Perform { token, id, value };
        let mut sent = false;
        let mut last = String::new();
        for _ in 0..PERFORM_ATTEMPTS {
            match link.call(&request, PERFORM_LIMIT).await {
                Ok(Reply::Ok { value, .. }) => return self.done(token, value),
                Ok(reply) => return reply,
                Err(CallError::NotSent(why)) => last = why,
                Err(CallError::NoAnswer(why)) => (sent, last) = (true, why),
            }
        }
        if sent { Reply::info(last) } else { Reply::fail(last) }
    }
}
