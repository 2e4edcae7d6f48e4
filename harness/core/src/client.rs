//! A client of the system under test: one connection, one operation at a time.

use std::sync::Arc;

use async_trait::async_trait;
use deposed_history::Value;

use crate::Node;

/// What a generator asks of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The operation, a word of the op language: `read`, `write`, `cas`, `append`, `txn`, ...
    pub f: Arc<str>,
    /// Its argument, in the shape the op language gives it. Keyed operations take `[key, argument]`.
    pub value: Value,
}

impl Invocation {
    /// An operation and its argument.
    pub fn new(f: impl Into<Arc<str>>, value: Value) -> Self {
        Self { f: f.into(), value }
    }
}

/// Why an operation has no result.
///
/// There is no `From` for errors of libraries: whoever writes a client must say which of the three
/// it is, and anything doubtful is `Indefinite`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// It may have happened, or may yet. Recorded as `info`; the client is closed and its process
    /// is never used again.
    #[error("{0}")]
    Indefinite(String),
    /// It certainly did not happen and never will. Recorded as `fail`.
    #[error("{0}")]
    Definite(String),
    /// The store compared, between invocation and now, and found the comparison false. Recorded as
    /// `fail` with the error `precondition`, which checkers use as an observation.
    #[error("precondition")]
    Precondition,
}

/// One connection to one node.
#[async_trait]
pub trait Client: Send {
    /// Performs an operation and returns the completed value: for a keyed read of `["k", nil]`,
    /// `["k", 5]`; where there is no result, the argument itself.
    async fn invoke(&mut self, op: &Invocation) -> Result<Value, ClientError>;

    /// Ends the connection. Errors have nobody to tell.
    async fn close(&mut self) {}
}

/// Makes clients.
#[async_trait]
pub trait ClientFactory: Send + Sync {
    /// Connects a new client for a process to a node. Must not change the state of the store.
    async fn connect(&self, node: &Node, process: u32) -> Result<Box<dyn Client>, ClientError>;
}
