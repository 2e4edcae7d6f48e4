//! The volume: registers that are not replicated, one for each grant, and a log of every attempt to
//! write one. It can check tokens, and it can be told to shut a client out.
//!
//! `volume.jsonl` is the record of what truly happened to the resource, in its order.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use crate::clock::wall_ns;
use crate::journal::Journal;
use crate::{Config, Fencing, Mistake, Reply, Request};

/// One attempt to write.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Attempt {
    /// From 1, in the order of the volume.
    seq: u64,
    wall_ns: u64,
    grant: String,
    token: u64,
    id: String,
    value: Value,
    /// Who wrote.
    client: String,
    accepted: bool,
}

/// What the volume knows of one grant.
#[derive(Debug, Default)]
struct Register {
    /// The last write it accepted.
    last: Option<String>,
    /// What tokens are compared with.
    token: u64,
    /// Writes it has, so that one that is repeated is not done twice.
    ids: BTreeSet<String>,
}

struct Content {
    journal: Journal,
    seq: u64,
    registers: BTreeMap<String, Register>,
}

/// The volume.
pub(crate) struct Volume {
    config: Config,
    content: Mutex<Content>,
    /// Who is shut out. Connections watch it, and end when they are in it.
    revoked: watch::Sender<BTreeSet<String>>,
}

impl Volume {
    pub(crate) fn open(config: &Config) -> io::Result<Self> {
        let (journal, attempts) = Journal::open::<Attempt>(config.data.join("volume.jsonl"))?;
        let mut content = Content { journal, seq: 0, registers: BTreeMap::new() };
        for attempt in attempts {
            content.seq = attempt.seq;
            let register = content.registers.entry(attempt.grant.clone()).or_default();
            register.see(config, attempt.token);
            if attempt.accepted {
                register.ids.insert(attempt.id.clone());
                register.last = Some(attempt.id);
            }
        }
        // Who was shut out stays so over a restart.
        let revoked = crate::journal::load(&config.data.join("revoked.json"))?.unwrap_or_default();
        let revoked = watch::Sender::new(revoked);
        Ok(Self { config: config.clone(), content: Mutex::new(content), revoked })
    }

    /// Changes when somebody is shut out or let in.
    pub(crate) fn revoked(&self) -> watch::Receiver<BTreeSet<String>> {
        self.revoked.subscribe()
    }

    pub(crate) fn answer(&self, client: &str, request: Request) -> io::Result<Reply> {
        match request {
            Request::VolumeWrite { token, id, value, grant } => {
                self.write(client, token, id, value, grant)
            }
            Request::VolumeRead { grant } => {
                let content = self.content();
                let last = content.registers.get(&grant).and_then(|register| register.last.clone());
                Ok(self.done(last.into()))
            }
            Request::Revoke { client } => self.admit(client, false),
            Request::Admit { client } => self.admit(client, true),
            _ => Ok(Reply::fail("not a request to a volume")),
        }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self, value: Value) -> Reply {
        Reply::Ok { value, node: self.config.name.clone(), token: 0 }
    }

    fn write(
        &self,
        client: &str,
        token: u64,
        id: String,
        value: Value,
        grant: String,
    ) -> io::Result<Reply> {
        let mut content = self.content();
        // A request that was read just before its client was shut out comes too late.
        if self.revoked.borrow().contains(client) {
            return Ok(Reply::fail("shut out"));
        }
        let register = content.registers.entry(grant.clone()).or_default();
        if register.ids.contains(&id) {
            return Ok(self.done(Value::Null));
        }
        let seen = register.token;
        let accepted = self.config.fencing != Fencing::Token || token >= seen;
        register.see(&self.config, token);
        if accepted {
            register.ids.insert(id.clone());
            register.last = Some(id.clone());
        }
        content.seq += 1;
        let (seq, client) = (content.seq, client.to_owned());
        let attempt =
            Attempt { seq, wall_ns: wall_ns(), grant, token, id, value, client, accepted };
        content.journal.append(&[attempt])?;
        Ok(if accepted { self.done(Value::Null) } else { Reply::Stale { token: seen } })
    }

    /// Lets a client in, or shuts it out: its connections are reset before this is answered.
    fn admit(&self, client: String, in_again: bool) -> io::Result<Reply> {
        // Nothing is being written meanwhile.
        let _content = self.content();
        let mut revoked = self.revoked.borrow().clone();
        let changed = if in_again { revoked.remove(&client) } else { revoked.insert(client) };
        if changed {
            crate::journal::store(&self.config.data.join("revoked.json"), &revoked)?;
            self.revoked.send_replace(revoked);
        }
        Ok(self.done(Value::Null))
    }
}

impl Register {
    /// A token was shown.
    fn see(&mut self, config: &Config, token: u64) {
        // Planted: the last token, even one that was refused, takes the place of the highest.
        let last = config.has(Mistake::LastToken);
        self.token = if last { token } else { self.token.max(token) };
    }
}
