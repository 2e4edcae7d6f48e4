//! What parts of the store, and clients, say to each other: one JSON object a line, over TCP, one
//! request at a time on a connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::state::Op;

/// A longer line ends the connection.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// One entry of the replicated log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The term of the leader that took it.
    pub(crate) term: u64,
    #[serde(flatten)]
    pub(crate) op: Op,
}

/// A request, by whom it is for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "f", rename_all = "kebab-case")]
pub enum Request {
    /// To everyone, first on a connection, without a reply: who speaks.
    Hello {
        /// A node's name, or a client's.
        from: String,
    },
    /// To everyone: how are you?
    Status,

    /// Client to node: the value of a key.
    Read {
        /// The key.
        key: String,
    },
    /// Client to node: a replicated write.
    Write {
        /// The key.
        key: String,
        /// Its new value.
        value: Value,
    },
    /// Client to node: a replicated write, if the key has the old value (null: is absent).
    Cas {
        /// The key.
        key: String,
        /// What it must be.
        old: Value,
        /// What it becomes.
        new: Value,
    },
    /// Client to node: adds to a replicated list.
    Append {
        /// The list.
        list: String,
        /// What.
        value: Value,
    },
    /// Client to node: a whole replicated list.
    List {
        /// The list.
        list: String,
    },
    /// Client to node: takes a lock.
    Acquire {
        /// The lock.
        lock: String,
        /// Who wants it.
        owner: String,
        /// How long it is held unless it is renewed.
        ttl_ms: u64,
    },
    /// Client to node: holds a lock for longer.
    Renew {
        /// The lock.
        lock: String,
        /// The token it was taken with.
        token: u64,
    },
    /// Client to node: gives a lock back.
    Release {
        /// The lock.
        lock: String,
        /// The token it was taken with.
        token: u64,
    },
    /// Client to node: writes to the volume, under the leader's token.
    Put {
        /// Unique.
        id: String,
        /// The new content.
        value: Value,
    },
    /// Client to node: the id of the write that the leader would find on the volume, or null.
    Get,
    /// Client to node: has the external service perform something, under the leader's token.
    Call {
        /// The same when it is repeated.
        id: String,
        /// What.
        value: Value,
    },

    /// To the volume: a write.
    VolumeWrite {
        /// The writer's token.
        token: u64,
        /// Unique.
        id: String,
        /// The new content.
        value: Value,
        /// Which grant this is about: a lock, or `leader`.
        grant: String,
    },
    /// To the volume: the id of the last write it accepted, or null.
    VolumeRead {
        /// Which grant this is about: a lock, or `leader`.
        grant: String,
    },
    /// Observer to volume: shut a client out and reset its connections.
    Revoke {
        /// Whom.
        client: String,
    },
    /// Observer to volume: let it in again.
    Admit {
        /// Whom.
        client: String,
    },
    /// To the external service.
    Perform {
        /// The token of the leader that passes it on. Nobody looks at it: it is for the log.
        token: u64,
        /// The same when it is repeated.
        id: String,
        /// What.
        value: Value,
    },

    /// Leader to follower: the log after a position.
    Entries {
        /// The leader's term.
        term: u64,
        /// The leader.
        leader: String,
        /// The position before the first entry.
        prev_index: u64,
        /// The term of the entry there.
        prev_term: u64,
        /// What follows.
        entries: Vec<Entry>,
        /// How much is committed.
        commit: u64,
    },
    /// Candidate to node: a vote for a term.
    Vote {
        /// The term.
        term: u64,
        /// Who stands.
        candidate: String,
        /// Where its log ends.
        last_index: u64,
        /// The term of the entry there.
        last_term: u64,
        /// Whether it only wants to know if it would be granted.
        canvass: bool,
    },
    /// Follower to leader: may I answer reads for a term?
    ReadLease {
        /// Who asks.
        node: String,
        /// The term it believes is current.
        term: u64,
    },
    /// Leader to observer: I lead still.
    Renewal {
        /// Who.
        node: String,
        /// By which token.
        token: u64,
    },
    /// Observer to node: listen to no leader before this token, and say how much you have.
    Prepare {
        /// The token of the next leader.
        token: u64,
    },
    /// Observer to node: lead.
    Promote {
        /// By this token. The lease has to be asked for.
        token: u64,
    },
    /// Observer to power switch: off.
    PowerOff,
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Reply {
    /// Done.
    Ok {
        /// What was asked for, or null.
        value: Value,
        /// Who did it.
        node: String,
        /// The token of the grant under which that node leads; 0: it does not.
        token: u64,
    },
    /// Certainly not done.
    Fail {
        /// Why.
        error: String,
    },
    /// A comparison was made and was false.
    Precondition,
    /// Perhaps done, perhaps later.
    Info {
        /// Why.
        error: String,
    },
    /// Certainly not done: this node does not lead.
    NotLeader {
        /// Who may.
        leader: Option<String>,
    },
    /// Certainly not done: a newer token is known.
    Stale {
        /// The newer one.
        token: u64,
    },
    /// How a node is.
    Status {
        /// Its name.
        node: String,
        /// Whether it believes it leads.
        leads: bool,
        /// Its term, which is its token if it leads.
        term: u64,
        /// Where its log ends.
        last_index: u64,
        /// The term of the entry there.
        last_term: u64,
        /// How much is committed.
        commit: u64,
    },
    /// To [`Request::Entries`]: how far the logs are alike, or from where to try again.
    Position {
        /// Whether the entries fitted.
        fits: bool,
        /// The end of what is alike, or a guess.
        index: u64,
    },
    /// To [`Request::Vote`].
    Voted {
        /// Whether it is granted.
        granted: bool,
        /// The voter's term.
        term: u64,
    },
    /// A lease was granted, a term from when the request was received.
    Granted {
        /// When it ends, by the granter's wall clock.
        until_ms: u64,
    },
}

impl Reply {
    /// A refusal.
    pub(crate) fn fail(error: impl Into<String>) -> Self {
        Self::Fail { error: error.into() }
    }

    /// Nobody knows.
    pub(crate) fn info(error: impl Into<String>) -> Self {
        Self::Info { error: error.into() }
    }
}

/// Why a request has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// It did not leave this machine.
    #[error("{0}")]
    NotSent(String),
    /// It may have arrived.
    #[error("{0}")]
    NoAnswer(String),
}

/// A connection to one part of the store, made when it is needed.
#[derive(Debug)]
pub struct Link {
    addr: SocketAddr,
    from: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Link {
    /// A link from somebody to an address, not yet connected.
    pub fn new(addr: SocketAddr, from: impl Into<String>) -> Self {
        Self { addr, from: from.into(), stream: None }
    }

    /// Where it leads.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Connects, unless it is connected.
    ///
    /// # Errors
    /// If nobody answers within the limit.
    pub async fn open(&mut self, limit: Duration) -> Result<(), CallError> {
        let closed = |stream: &BufReader<TcpStream>| {
            // Nothing is to be read between requests, unless it is the end.
            !matches!(stream.get_ref().try_read(&mut [0]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock)
        };
        if self.stream.as_ref().is_some_and(closed) {
            self.stream = None;
        }
        if self.stream.is_none() {
            let refused = |why: &dyn std::fmt::Display| {
                CallError::NotSent(format!("connect to {}: {why}", self.addr))
            };
            let connected = timeout(limit, TcpStream::connect(self.addr)).await;
            let connected = connected.map_err(|_| refused(&format_args!("{limit:?} passed")))?;
            let stream = connected.map_err(|e| refused(&e))?;
            stream.set_nodelay(true).map_err(|e| refused(&e))?;
            let mut stream = BufReader::new(stream);
            let hello = line(&Request::Hello { from: self.from.clone() });
            stream.get_mut().write_all(&hello).await.map_err(|e| refused(&e))?;
            self.stream = Some(stream);
        }
        Ok(())
    }

    /// Sends a request and waits for the reply. After an error the connection is closed.
    ///
    /// # Errors
    /// If there is no reply within the limit.
    pub async fn call(&mut self, request: &Request, limit: Duration) -> Result<Reply, CallError> {
        self.open(limit).await?;
        // Taken, so that a call that is dropped half-way leaves no half-used connection behind.
        let mut stream = self.stream.take().expect("it was just opened");
        let exchange = async {
            stream.get_mut().write_all(&line(request)).await?;
            let line = read_line(&mut stream).await?;
            let line = line.ok_or_else(|| io::Error::other("the connection was closed"))?;
            Ok::<Reply, io::Error>(serde_json::from_slice(&line)?)
        };
        let lost = |why: String| CallError::NoAnswer(format!("no answer of {}: {why}", self.addr));
        let reply = timeout(limit, exchange).await;
        let reply = reply.map_err(|_| lost(format!("{limit:?} passed")))?;
        let reply = reply.map_err(|e| lost(e.to_string()))?;
        self.stream = Some(stream);
        Ok(reply)
    }

    /// Ends the connection.
    pub fn close(&mut self) {
        self.stream = None;
    }
}

/// A message as a line.
pub(crate) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(message).expect("messages have text for keys");
    bytes.push(b'\n');
    bytes
}

/// The next line; `None` at the end.
pub(crate) async fn read_line(
    stream: &mut (impl AsyncBufRead + Unpin),
) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    stream.take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes).await?;
    match bytes.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(bytes)),
        Some(_) => Err(io::Error::other("a line was cut short, or is too long")),
    }
}
