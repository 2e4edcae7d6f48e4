//! The observer: renews the leader's grant, and promotes another node when it has run out.
//!
//! `grants.jsonl` is the record of whom it let lead. It does not decide anything where nodes vote.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::clock::wall_ns;
use crate::journal::{self, Journal};
use crate::lease::{Granted, granted_until_ms};
use crate::{Config, Failover, Fencing, Link, Mistake, Reply, Request};

/// How long a node, the volume or a power switch may take to answer.
const CALL_LIMIT: Duration = Duration::from_millis(500);

/// What must survive a crash.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Record {
    /// The last token that was issued.
    token: u64,
    /// Who leads by it.
    leader: Option<String>,
}

/// A line of `grants.jsonl`.
#[derive(Debug, Serialize, Deserialize)]
struct Grant {
    wall_ns: u64,
    token: u64,
    node: String,
}

struct Book {
    record: Record,
    grants: Journal,
    /// When the last grant ends.
    granted: Granted,
    /// Whether the leader has renewed its grant yet.
    renewed: bool,
}

/// The observer.
pub(crate) struct Observer {
    config: Config,
    record_at: PathBuf,
    book: Mutex<Book>,
}

impl Observer {
    pub(crate) fn open(config: &Config) -> io::Result<Arc<Self>> {
        let record_at = config.data.join("observer.json");
        let kept: Option<Record> = journal::load(&record_at)?;
        // Planted: who counts in memory begins again.
        let forgets = config.has(Mistake::TokensRestart);
        let record = kept.filter(|_| !forgets).unwrap_or_default();
        let (grants, _) = Journal::open::<Grant>(config.data.join("grants.jsonl"))?;
        // For all it knows, the leader has renewed its grant just before the crash.
        let granted = Granted::now(config);
        let book = Mutex::new(Book { record, grants, granted, renewed: false });
        Ok(Arc::new(Self { config: config.clone(), record_at, book }))
    }

    /// Watches the leader, for ever.
    pub(crate) fn start(self: &Arc<Self>) {
        let observer = self.clone();
        tokio::spawn(async move {
            loop {
                sleep(observer.config.heartbeat() / 4).await;
                if observer.config.failover == Failover::Quorum || !observer.is_due() {
                    continue;
                }
                if let Err(why) = observer.fail_over().await {
                    report(format_args!("no failover: {why}"));
                    sleep(observer.config.heartbeat()).await;
                }
            }
        });
    }

    pub(crate) async fn answer(&self, request: Request) -> Reply {
        let Request::Renewal { node, token } = request else {
            return Reply::fail("not a request to an observer");
        };
        let first = {
            let mut book = self.book();
            if book.record.token != token || book.record.leader.as_ref() != Some(&node) {
                return Reply::Stale { token: book.record.token };
            }
            book.granted = Granted::now(&self.config);
            !std::mem::replace(&mut book.renewed, true)
        };
        let until_ms = granted_until_ms(&self.config);
        // The first answer comes at once, for nobody can lead without it; the others come late.
        if !first {
            sleep(self.config.renewal_delay()).await;
        }
        Reply::Granted { until_ms }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_due(&self) -> bool {
        let book = self.book();
        book.record.leader.is_none() || book.granted.over()
    }

    /// Makes the old leader harmless, as it is configured, and then another the leader.
    async fn fail_over(&self) -> Result<(), String> {
        let Record { token, leader: old } = self.book().record.clone();
        // Planted: a new grant with an old token.
        let token = if self.config.has(Mistake::SharedToken) { token.max(1) } else { token + 1 };
        // The token is used up even if nobody comes to lead by it. Renewals are refused from here.
        self.keep(Record { token, leader: None }).map_err(|e| e.to_string())?;
        if let Some(old) = &old
            && let Err(why) = self.fence(old).await
        {
            // The old leader is still a danger: whoever leads next must be waited for like this.
            self.keep(Record { token, leader: Some(old.clone()) }).map_err(|e| e.to_string())?;
            return Err(why);
        }
        let (node, addr) = self.best_prepared(token).await?;
        if self.config.fencing == Fencing::Revoke {
            let client = node.clone();
            self.call(self.config.volume, Request::Admit { client }).await?;
        }
        let grant = Grant { wall_ns: wall_ns(), token, node: node.clone() };
        self.book().grants.append(&[grant]).map_err(|e| e.to_string())?;
        self.keep(Record { token, leader: Some(node.clone()) }).map_err(|e| e.to_string())?;
        match self.call(addr, Request::Promote { token }).await? {
            Reply::Status { .. } => {
                report(format_args!("{node} leads by token {token}"));
                Ok(())
            }
            reply => Err(format!("{node} does not lead: {reply:?}")),
        }
    }

    /// Writes down who leads by which token from now on, for a term at least.
    fn keep(&self, record: Record) -> io::Result<()> {
        let mut book = self.book();
        journal::store(&self.record_at, &record)?;
        book.record = record;
        book.granted = Granted::now(&self.config);
        book.renewed = false;
        Ok(())
    }

    /// Does to the old leader what the configuration says; an error means that it is not done.
    async fn fence(&self, old: &str) -> Result<(), String> {
        match self.config.fencing {
            Fencing::None | Fencing::Token => Ok(()),
            Fencing::Revoke => {
                let client = old.to_owned();
                self.call(self.config.volume, Request::Revoke { client }).await.map(drop)
            }
            Fencing::PowerOff => {
                let addrs = self.config.addrs();
                let addr = addrs.get(old).ok_or("the old leader is no node")?;
                let switch = SocketAddr::new(addr.ip(), self.config.power_port);
                match self.call(switch, Request::PowerOff).await? {
                    Reply::Ok { .. } => Ok(()),
                    reply => Err(format!("{old} is not off: {reply:?}")),
                }
            }
        }
    }

    /// Has a majority promise to listen to no leader before this token, and chooses the one that
    /// has the most: it has everything a majority ever had.
    async fn best_prepared(&self, token: u64) -> Result<(String, SocketAddr), String> {
        let mut asked = JoinSet::new();
        for peer in self.config.nodes.clone() {
            let mut link = Link::new(peer.addr, &self.config.name);
            asked.spawn(
                async move { (peer, link.call(&Request::Prepare { token }, CALL_LIMIT).await) },
            );
        }
        let mut prepared = Vec::new();
        let mut newest = 0;
        // A majority is enough, for it has everything a majority ever had. The others are waited for a
        // moment only: each moment is one without a leader.
        let mut wait = CALL_LIMIT;
        while let Ok(Some(Ok((peer, reply)))) = timeout(wait, asked.join_next()).await {
            match reply {
                Ok(Reply::Status { last_term, last_index, .. }) => {
                    prepared.push(((last_term, last_index), peer));
                }
                Ok(Reply::Stale { token }) => newest = newest.max(token),
                _ => {}
            }
            if prepared.len() >= self.config.majority() {
                wait = self.config.heartbeat() / 4;
            }
        }
        if newest > token {
            return Err(format!("token {newest} was issued already"));
        }
        if prepared.len() < self.config.majority() {
            return Err(format!("only {} nodes answer", prepared.len()));
        }
        let best = prepared.into_iter().max_by(|a, b| a.0.cmp(&b.0).then(b.1.name.cmp(&a.1.name)));
        let best = best.map(|(_, peer)| (peer.name, peer.addr));
        best.ok_or_else(|| "there are no nodes".to_owned())
    }

    async fn call(&self, addr: SocketAddr, request: Request) -> Result<Reply, String> {
        let mut link = Link::new(addr, &self.config.name);
        link.call(&request, CALL_LIMIT).await.map_err(|error| error.to_string())
    }
}

/// Says something in the log of the process.
#[expect(clippy::print_stderr, reason = "the log of a service is its standard error")]
fn report(what: std::fmt::Arguments<'_>) {
    eprintln!("{} observer: {what}", wall_ns());
}
