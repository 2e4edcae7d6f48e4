//! A store node: follower, candidate or leader.
//!
//! | file | what |
//! |---|---|
//! | `core.rs` | what a node knows and how it changes, without waiting for anything |
//! | `replicate.rs` | the leader's log to its followers; read leases |
//! | `lead.rs` | who leads: votes, and renewals with the observer |
//! | `serve.rs` | what clients ask |
//! | `deliver.rs` | what the leader writes to the volume and has performed outside |

mod core;
mod deliver;
mod lead;
mod replicate;
mod serve;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use self::core::Core;
pub(crate) use self::serve::Session;
use crate::{Config, OnStale, Reply, Request};

/// A node and what it tells its own tasks.
pub(crate) struct Node {
    pub(crate) config: Config,
    core: Mutex<Core>,
    /// Counts changes that somebody may wait for.
    changed: watch::Sender<u64>,
    /// Counts the times it was deposed and let its clients know.
    deposed: watch::Sender<u64>,
}

impl Node {
    /// A node with the data it has.
    pub(crate) fn open(config: &Config) -> io::Result<Arc<Self>> {
        let core = Mutex::new(Core::open(config)?);
        let (changed, deposed) = (watch::Sender::new(0), watch::Sender::new(0));
        Ok(Arc::new(Self { config: config.clone(), core, changed, deposed }))
    }

    /// Starts what it does unasked.
    pub(crate) fn start(self: &Arc<Self>) {
        for peer in self.config.others() {
            tokio::spawn(self.clone().replicate(peer.clone()));
        }
        tokio::spawn(self.clone().lead());
        tokio::spawn(self.clone().hold_read_lease());
        tokio::spawn(self.clone().deliver_later());
    }

    /// Ends when this node is next deposed; client connections end then.
    pub(crate) fn deposed(&self) -> watch::Receiver<u64> {
        self.deposed.subscribe()
    }

    /// Answers another part of the store.
    pub(crate) async fn answer(&self, request: Request) -> Reply {
        match request {
            Request::Status => self.core().status(),
            Request::Entries { term, leader, prev_index, prev_term, entries, commit } => {
                self.change(|c| c.follow(term, leader, prev_index, prev_term, entries, commit))
            }
            Request::Vote { term, candidate, last_index, last_term, canvass } => {
                self.change(|core| core.vote(term, &candidate, (last_term, last_index), canvass))
            }
            Request::Prepare { token } => self.change(|core| core.prepare(token)),
            Request::Promote { token } => self.change(|core| core.promote(token)),
            Request::ReadLease { node, term } => return self.grant_read_lease(node, term).await,
            _ => Reply::fail("not a request to a node"),
        }
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what the node knows, and wakes whoever waits for it.
    fn change<T>(&self, change: impl FnOnce(&mut Core) -> T) -> T {
        let mut core = self.core();
        let led = core.leads_by_itself();
        let result = change(&mut core);
        let lost = led && !core.leads_by_itself();
        drop(core);
        self.changed.send_modify(|count| *count += 1);
        if lost && self.config.on_stale == OnStale::Disconnect {
            self.deposed.send_modify(|count| *count += 1);
        }
        result
    }

    /// Somebody knows a newer token than the one this node leads by.
    fn learned_stale(&self, token: u64) {
        // The switch: a silent leader goes on, until the new one speaks to it.
        if self.config.on_stale == OnStale::Disconnect {
            self.change(|core| core.step_down_for(token));
        }
    }

    /// Waits until `look` finds something, at most `limit`.
    async fn wait_for<T>(
        &self,
        limit: Duration,
        mut look: impl FnMut(&mut Core) -> Option<T>,
    ) -> Option<T> {
        let mut changed = self.changed.subscribe();
        let found = async {
            loop {
                if let Some(found) = look(&mut self.core()) {
                    return found;
                }
                // The sender lives as long as the node.
                let _ = changed.changed().await;
            }
        };
        timeout(limit, found).await.ok()
    }
}
