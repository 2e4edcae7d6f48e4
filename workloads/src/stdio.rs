//! Client programs that run on the controller, a child for each process; see [`crate::program`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use deposed_core::{Client, ClientError, Node, OpSet};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::endpoint::Endpoint;
use crate::program::{Hello, PROTOCOL, Program, ProgramClient};

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

#[async_trait]
impl Endpoint for StdioEndpoint {
    async fn connect(&self, process: u32) -> Result<Box<dyn Client>, ClientError> {
        // Nothing was asked of the store yet, so whatever goes wrong here is definite.
        let failed = |why: String| ClientError::Definite(format!("{}: {why}", self.argv.join(" ")));
        let child = self.spawn(process).map_err(|e| failed(e.to_string()))?;
        let hello = Hello {
            hello: PROTOCOL,
            node: self.node.clone(),
            nodes: self.nodes.clone(),
            process,
            settings: self.settings.clone(),
        };
        let greeted =
            ProgramClient::greet(child, &hello, &self.supports, HELLO_LIMIT, self.op_limit);
        Ok(Box::new(greeted.await.map_err(failed)?))
    }
}

impl StdioEndpoint {
    fn spawn(&self, process: u32) -> std::io::Result<ChildProgram> {
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
        let stdout = BufReader::new(stdout.ok_or(std::io::ErrorKind::BrokenPipe)?);
        Ok(ChildProgram { child, stdin, stdout })
    }
}

struct ChildProgram {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl ChildProgram {
    /// Writes one line and reads one.
    async fn ask(&mut self, mut line: String) -> Result<String, String> {
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
}

#[async_trait]
impl Program for ChildProgram {
    async fn exchange(&mut self, line: String, within: Duration) -> Result<String, String> {
        let answer = timeout(within, self.ask(line)).await;
        answer.unwrap_or_else(|_| Err(format!("no answer within {within:?}")))
    }

    fn give_up(&mut self) {
        self.stdin = None;
        let _ = self.child.start_kill();
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
