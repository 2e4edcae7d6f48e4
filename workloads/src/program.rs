//! Clients that are programs spoken to line by line: on this machine the user's own, on a node
//! also those built into deposed.
//!
//! Protocol 1: one JSON object a line on standard input and output, one operation at a time;
//! standard error is the log.
//!
//! ```text
//! → {"hello":1,"node":{"name":"n1","addr":"10.0.0.1"},"nodes":[…],"process":3,"settings":{…}}
//! ← {"hello":1,"supports":["read","write","cas"]}
//! → {"id":1,"f":"write","value":["k1",3]}        ← {"id":1,"type":"ok"}
//! → {"id":2,"f":"read","value":["k1",null]}      ← {"id":2,"type":"ok","value":["k1",3]}
//! → {"id":3,"f":"cas","value":["k1",[3,4]]}      ← {"id":3,"type":"fail","error":"precondition"}
//!                                                ← {"id":3,"type":"info","error":"timeout"}
//! ```
//!
//! `fail` says that it certainly did not happen, and the error `precondition` that the store found
//! the comparison false; anything doubtful is `info`. A program that ends, stays silent past its
//! limit, answers with anything else or with a wrong id leaves its operation indeterminate and is
//! given up. End of standard input means: close.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use deposed_core::{Client, ClientError, Invocation, Node, OpSet};
use deposed_history::{PRECONDITION, Value};
use serde::{Deserialize, Serialize};

use crate::json;

/// The version of the protocol.
pub(crate) const PROTOCOL: u32 = 1;

/// A program that answers lines.
#[async_trait]
pub(crate) trait Program: Send {
    /// Says a line (without its end) and waits for the line that answers it.
    async fn exchange(&mut self, line: String, within: Duration) -> Result<String, String>;

    /// Makes sure that it is never heard again.
    fn give_up(&mut self);

    /// Ends it in good order.
    async fn close(&mut self);
}

/// The first line to a program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) hello: u32,
    pub(crate) node: Node,
    pub(crate) nodes: Vec<Node>,
    pub(crate) process: u32,
    pub(crate) settings: BTreeMap<String, String>,
}

/// The first line of a program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HelloAnswer {
    pub(crate) hello: u32,
    pub(crate) supports: OpSet,
}

/// An operation to perform.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) f: String,
    pub(crate) value: serde_json::Value,
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    pub(crate) id: u64,
    pub(crate) r#type: AnswerType,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AnswerType {
    Ok,
    Fail,
    Info,
}

/// A client that is a program.
pub(crate) struct ProgramClient<P> {
    program: P,
    op_limit: Duration,
    last_id: u64,
}

impl<P: Program> ProgramClient<P> {
    /// Greets a program, which must support these operations. Errs with the reason why it cannot
    /// be used; nothing was asked of the store yet.
    pub(crate) async fn greet(
        mut program: P,
        hello: &Hello,
        supports: &OpSet,
        within: Duration,
        op_limit: Duration,
    ) -> Result<Self, String> {
        let line = serde_json::to_string(hello).map_err(|e| e.to_string())?;
        let answer = program.exchange(line, within).await?;
        let said: HelloAnswer = serde_json::from_str(&answer)
            .map_err(|e| format!("not a hello: {}: {e}", shorten(&answer)))?;
        if said.hello != PROTOCOL {
            return Err(format!("speaks protocol {}, not {PROTOCOL}", said.hello));
        }
        if let Some(op) = supports.difference(&said.supports).next() {
            return Err(format!("does not support `{op}`, as the system.toml says it does"));
        }
        Ok(Self { program, op_limit, last_id: 0 })
    }

    async fn perform(&mut self, op: &Invocation) -> Result<Value, ClientError> {
        self.last_id += 1;
        let id = self.last_id;
        let request = Request { id, f: op.f.to_string(), value: json::from_value(&op.value) };
        let line = serde_json::to_string(&request)
            .map_err(|e| ClientError::Definite(format!("cannot be written as JSON: {e}")))?;
        let answer = self.program.exchange(line, self.op_limit).await;
        let answer = answer.map_err(ClientError::Indefinite)?;
        let bad = |why: String| {
            ClientError::Indefinite(format!("a bad answer: {}: {why}", shorten(&answer)))
        };
        let parsed: Answer = serde_json::from_str(&answer).map_err(|e| bad(e.to_string()))?;
        if parsed.id != id {
            return Err(bad(format!("its id is not {id}")));
        }
        let error = parsed.error.unwrap_or_else(|| "no reason given".into());
        match parsed.r#type {
            AnswerType::Ok => {
                Ok(parsed.value.map_or_else(|| op.value.clone(), |v| json::to_value(&v)))
            }
            AnswerType::Fail if error == PRECONDITION => Err(ClientError::Precondition),
            AnswerType::Fail => Err(ClientError::Definite(error)),
            AnswerType::Info => Err(ClientError::Indefinite(error)),
        }
    }
}

#[async_trait]
impl<P: Program> Client for ProgramClient<P> {
    async fn invoke(&mut self, op: &Invocation) -> Result<Value, ClientError> {
        let result = self.perform(op).await;
        if matches!(result, Err(ClientError::Indefinite(_))) {
            // A late answer must never be taken for the next one's.
            self.program.give_up();
        }
        result
    }

    async fn close(&mut self) {
        self.program.close().await;
    }
}

fn shorten(line: &str) -> String {
    line.trim_end().chars().take(200).collect()
}
