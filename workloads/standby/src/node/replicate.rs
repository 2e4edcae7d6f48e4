//! The leader's log to its followers, and the leases by which those answer reads.

use std::sync::Arc;
use std::time::Instant;

use tokio::time::{sleep, timeout};

use super::Node;
use crate::lease::granted_until_ms;
use crate::{Link, Peer, Reads, Reply, Request};

impl Node {
    /// Keeps one follower up to date for as long as this node leads.
    pub(super) async fn replicate(self: Arc<Self>, peer: Peer) {
        let mut link = Link::new(peer.addr, &self.config.name);
        let mut changed = self.changed.subscribe();
        let mut told = 0;
        loop {
            changed.mark_unchanged();
            let message = self.core().entries_for(&peer.name);
            if let Some((commit, message)) = message {
                let term = self.core().term();
                let sent = Instant::now();
                match link.call(&message, self.config.term() / 2).await {
                    Ok(Reply::Stale { token }) => {
                        self.learned_stale(token);
                        sleep(self.config.heartbeat() / 2).await;
                    }
                    Ok(reply) => {
                        told = commit;
                        self.change(|core| core.followed(&peer.name, term, sent, &reply));
                    }
                    Err(_) => sleep(self.config.heartbeat() / 2).await,
                }
                if self.core().has_news_for(&peer.name, told) {
                    continue;
                }
            }
            // A heartbeat even if nothing happens; sooner if something does that it should know.
            let news = async {
                while changed.changed().await.is_ok() {
                    if self.core().has_news_for(&peer.name, told) {
                        return;
                    }
                }
            };
            let _ = timeout(self.config.heartbeat(), news).await;
        }
    }

    /// Asks the leader, again and again, to be allowed to answer reads.
    pub(super) async fn hold_read_lease(self: Arc<Self>) {
        if self.config.reads != Reads::FollowerLease {
            return;
        }
        let addrs = self.config.addrs();
        let mut link: Option<Link> = None;
        loop {
            let (term, leader) = {
                let core = self.core();
                (core.term(), core.leader.clone().filter(|leader| *leader != self.config.name))
            };
            let Some(addr) = leader.and_then(|leader| addrs.get(&leader).copied()) else {
                sleep(self.config.heartbeat()).await;
                continue;
            };
            let fresh = link.take().filter(|link| link.addr() == addr);
            let link = link.insert(fresh.unwrap_or_else(|| Link::new(addr, &self.config.name)));
            let request = Request::ReadLease { node: self.config.name.clone(), term };
            let asked = self.core().read_lease.ask();
            let reply = link.call(&request, self.config.term()).await;
            if let Ok(Reply::Granted { until_ms }) = reply {
                let mut core = self.core();
                if core.term() == term {
                    core.read_lease.renew(asked, until_ms);
                }
            } else {
                sleep(self.config.heartbeat()).await;
            }
        }
    }

    /// The leader's answer. It comes late, so that the next request is always on its way.
    pub(super) async fn grant_read_lease(&self, node: String, term: u64) -> Reply {
        let until_ms = granted_until_ms(&self.config);
        if !self.change(|core| core.let_read(&node, term)) {
            return Reply::fail("not granted");
        }
        sleep(self.config.term() / 5).await;
        Reply::Granted { until_ms }
    }
}
