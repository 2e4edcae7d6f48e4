//! Who leads: by vote, or by the grace of the observer.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Node;
use crate::{Clock, Failover, Link, Reply, Request};

/// A renewal is answered late on purpose; it is given up after so many terms.
const RENEWAL_TERMS: u32 = 3;

impl Node {
    /// Does what a node has to do to lead or to be led, for ever.
    pub(super) async fn lead(self: Arc<Self>) {
        let mut observer = Link::new(self.config.observer, &self.config.name);
        loop {
            match self.config.failover {
                Failover::Quorum => self.stand_if_needed().await,
                Failover::Timeout | Failover::Lease => self.renew(&mut observer).await,
            }
            // Promises to readers run out without anybody saying so.
            self.change(|core| core.advance());
        }
    }

    /// Tells the observer that this node leads still, and extends its lease by the answer.
    async fn renew(&self, observer: &mut Link) {
        let (leads, token, asked) = {
            let core = self.core();
            (core.leads_by_itself(), core.term(), core.lease.ask())
        };
        if !leads {
            let limit = self.config.heartbeat();
            self.wait_for(limit, |core| core.leads_by_itself().then_some(())).await;
            return;
        }
        let request = Request::Renewal { node: self.config.name.clone(), token };
        match observer.call(&request, self.config.term() * RENEWAL_TERMS).await {
            Ok(Reply::Granted { until_ms }) => {
                {
                    let mut core = self.core();
                    if core.leads_by_itself() && core.term() == token {
                        core.lease.renew(asked, until_ms);
                    }
                }
                sleep(self.config.renewal_pause()).await;
            }
            Ok(Reply::Stale { token }) => {
                self.learned_stale(token);
                sleep(self.config.heartbeat()).await;
            }
            _ => sleep(self.config.heartbeat()).await,
        }
    }

    /// Stands for election when no leader was heard of for a term and a little more.
    async fn stand_if_needed(&self) {
        let heartbeat = self.config.heartbeat();
        sleep(heartbeat / 4).await;
        let Some(term) = self.core().next_term(self.config.term() + self.patience()) else {
            return;
        };
        // Asking first keeps a node that was cut off from unseating a leader that is well.
        if !self.poll(term, true).await {
            return sleep(heartbeat).await;
        }
        if self.change(|core| core.stand(term)) && self.poll(term, false).await {
            self.change(|core| core.elected(term));
        }
    }

    /// A different while for each node, and each time, so that one stands before the others.
    fn patience(&self) -> Duration {
        let rank = self.config.nodes.iter().position(|peer| peer.name == self.config.name);
        let random = Clock::Monotonic.now().subsec_nanos() % 1000;
        let heartbeat = self.config.heartbeat();
        heartbeat * u32::try_from(rank.unwrap_or(0)).unwrap_or(0) + heartbeat * random / 1000
    }

    /// Whether a majority votes, or would vote, for this node.
    async fn poll(&self, term: u64, canvass: bool) -> bool {
        let (last_term, last_index) = self.core().end();
        let candidate = self.config.name.clone();
        let request = Request::Vote { term, candidate, last_index, last_term, canvass };
        let mut asked = JoinSet::new();
        for peer in self.config.others() {
            let mut link = Link::new(peer.addr, &self.config.name);
            let (request, limit) = (request.clone(), self.config.heartbeat() * 2);
            asked.spawn(async move { link.call(&request, limit).await });
        }
        let mut votes = 1;
        while votes < self.config.majority()
            && let Some(answer) = asked.join_next().await
        {
            if let Ok(Ok(Reply::Voted { granted: true, .. })) = answer {
                votes += 1;
            }
        }
        votes >= self.config.majority()
    }
}
