//! The external service: performs what it is asked to, whoever asks. It knows nothing of leaders.
//!
//! `external.jsonl` is the record of what it did.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock::wall_ns;
use crate::journal::Journal;
use crate::{Config, External, Reply, Request};

/// One thing it was asked to do.
#[derive(Debug, Serialize, Deserialize)]
struct Performance {
    /// From 1, in the order of the service.
    seq: u64,
    wall_ns: u64,
    /// The token of the leader that passed it on. The service cannot read it; the log can.
    token: u64,
    id: String,
    value: Value,
    /// Whether it was done, or was known to be done already.
    performed: bool,
}

struct Done {
    journal: Journal,
    seq: u64,
    ids: BTreeSet<String>,
}

/// The external service.
pub(crate) struct Service {
    config: Config,
    done: Mutex<Done>,
}

impl Service {
    pub(crate) fn open(config: &Config) -> io::Result<Self> {
        let (journal, past) = Journal::open::<Performance>(config.data.join("external.jsonl"))?;
        let seq = past.last().map_or(0, |last| last.seq);
        let ids = past.iter().map(|past| past.id.clone()).collect();
        Ok(Self { config: config.clone(), done: Mutex::new(Done { journal, seq, ids }) })
    }

    pub(crate) fn answer(&self, request: Request) -> io::Result<Reply> {
        let Request::Perform { token, id, value } = request else {
            return Ok(Reply::fail("not a request to the external service"));
        };
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let new = done.ids.insert(id.clone());
        let performed = new || self.config.external == External::Plain;
        done.seq += 1;
        let (seq, wall_ns) = (done.seq, wall_ns());
        done.journal.append(&[Performance { seq, wall_ns, token, id, value, performed }])?;
        Ok(Reply::Ok { value: Value::Null, node: self.config.name.clone(), token: 0 })
    }
}
