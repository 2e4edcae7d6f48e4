//! Clients that are programs of the user's, in any language.
//!
//! One child for each process, run on the controller. Protocol 1: one JSON object a line on
//! standard input and output, one operation at a time; standard error is the log.
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
//! the comparison false; anything doubtful is `info`. A child that exits, stays silent past its
//! limit, answers with anything else or with a wrong id leaves its operation indeterminate and is
//! killed. End of standard input means: close.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use deposed_core::{Client, ClientError, Invocation, Node, OpSet};
use deposed_history::{PRECONDITION, Value};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::endpoint::Endpoint;
use crate::json;

/// The version of the protocol.
const PROTOCOL: u32 = 1;
/// How long a child may take to say hello: interpreters start slowly on busy machines.
const HELLO_LIMIT: Duration = Duration::from_secs(20);
/// How long a child may take to end once its standard input is closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// A line may have this many bytes.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Starts client programs for one node.
pub(crate) struct StdioEndpoint {
    pub(crate) argv: Vec<String>,
    /// Where it runs: the directory of the system.toml.
    pub(crate) dir: Option<PathBuf>,
    pub(crate) node: Node,
    pub(crate) nodes: Vec<Node>,
    pub(crate) settings: BTreeMap<String, String>,
    /// What the file says that it supports. The program must agree.
    pub(crate) supports: OpSet,
    /// How long an operation may take.
    pub(crate) op_limit: Duration,
}

#[derive(Serialize)]
struct Hello<'a> {
    hello: u32,
    node: &'a Node,
    nodes: &'a [Node],
    process: u32,
    settings: &'a BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct HelloAnswer {
    hello: u32,
    supports: OpSet,
}

#[derive(Serialize)]
struct Request<'a> {
    id: u64,
    f: &'a str,
    value: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    id: u64,
    r#type: AnswerType,
    value: Option<serde_json::Value>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum AnswerType {
    Ok,
    Fail,
    Info,
}

#[async_trait]
impl Endpoint for StdioEndpoint {
    async fn connect(&self, process: u32) -> Result<Box<dyn Client>, ClientError> {
        // Nothing was asked of the store yet, so whatever goes wrong here is definite.
        let failed = |why: String| ClientError::Definite(format!("{}: {why}", self.argv.join(" ")));
        let mut client = self.spawn(process).map_err(|e| failed(e.to_string()))?;
        let hello = Hello {
            hello: PROTOCOL,
            node: &self.node,
            nodes: &self.nodes,
            process,
            settings: &self.settings,
        };
        let answer = timeout(HELLO_LIMIT, client.exchange(&hello)).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no hello within {HELLO_LIMIT:?}")));
        let answer = answer.map_err(failed)?;
        let answer: HelloAnswer = serde_json::from_str(&answer)
            .map_err(|e| failed(format!("not a hello: {}: {e}", shorten(&answer))))?;
        if answer.hello != PROTOCOL {
            return Err(failed(format!("speaks protocol {}, not {PROTOCOL}", answer.hello)));
        }
        if let Some(op) = self.supports.difference(&answer.supports).next() {
            return Err(failed(format!(
                "does not support `{op}`, as the system.toml says it does"
            )));
        }
        Ok(Box::new(client))
    }
}

impl StdioEndpoint {
    fn spawn(&self, process: u32) -> std::io::Result<StdioClient> {
        let (program, arguments) = self.argv.split_first().ok_or(std::io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C in the terminal is for the controller, which still needs its clients.
            .process_group(0)
            .kill_on_drop(true);
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        let mut child = command.spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(log_lines(stderr, self.node.name.to_string(), process));
        }
        Ok(StdioClient {
            child,
            stdin,
            stdout: BufReader::new(stdout.ok_or(std::io::ErrorKind::BrokenPipe)?),
            op_limit: self.op_limit,
            last_id: 0,
        })
    }
}

struct StdioClient {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    op_limit: Duration,
    last_id: u64,
}

impl StdioClient {
    /// Writes one line and reads one.
    async fn exchange(&mut self, message: &impl Serialize) -> Result<String, String> {
        let mut line = serde_json::to_string(message).map_err(|e| e.to_string())?;
        line.push('\n');
        let stdin = self.stdin.as_mut().ok_or("it was closed")?;
        // If it reads no more, what it said last or how it ended tells more than a broken pipe.
        let written = stdin.write_all(line.as_bytes()).await;
        let mut answer = String::new();
        let mut limited = (&mut self.stdout).take(LINE_BYTES_MAX);
        limited.read_line(&mut answer).await.map_err(|e| format!("read its answer: {e}"))?;
        if answer.ends_with('\n') {
            return Ok(answer);
        }
        match (timeout(CLOSE_LIMIT, self.child.wait()).await, written) {
            (Ok(Ok(status)), _) => Err(format!("it ended: {status}")),
            (_, Err(error)) => Err(format!("it reads no more: {error}")),
            _ => Err("it answered without a whole line".into()),
        }
    }

    async fn perform(&mut self, op: &Invocation) -> Result<Value, ClientError> {
        self.last_id += 1;
        let id = self.last_id;
        let request = Request { id, f: &op.f, value: json::from_value(&op.value) };
        let answer = timeout(self.op_limit, self.exchange(&request)).await;
        let answer = answer
            .unwrap_or_else(|_| Err(format!("no answer within {:?}", self.op_limit)))
            .map_err(ClientError::Indefinite)?;
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
impl Client for StdioClient {
    async fn invoke(&mut self, op: &Invocation) -> Result<Value, ClientError> {
        let result = self.perform(op).await;
        if matches!(result, Err(ClientError::Indefinite(_))) {
            // A late answer must never be taken for the next one's.
            self.stdin = None;
            let _ = self.child.start_kill();
        }
        result
    }

    async fn close(&mut self) {
        self.stdin = None;
        if timeout(CLOSE_LIMIT, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

/// What the program says to people, line by line.
async fn log_lines(stderr: impl AsyncRead + Unpin, node: String, process: u32) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        tracing::info!(%node, process, "client: {line}");
    }
}

fn shorten(line: &str) -> String {
    line.trim_end().chars().take(200).collect()
}
