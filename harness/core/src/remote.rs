//! Commands on a node.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Node, Warden};

/// One shell command for a node, with everything that decides how it may be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// A script for `/bin/sh`, run as root (through sudo where the login user is not root).
    pub script: String,
    /// What it reads on standard input.
    pub stdin: Vec<u8>,
    /// How long it may take. Past that it is killed and the call errs.
    pub deadline: Duration,
    /// Whether it may be sent again after a lost connection.
    pub idempotent: bool,
}

impl Command {
    /// How long a command may take unless it says otherwise.
    pub const DEADLINE: Duration = Duration::from_secs(30);

    /// A script, short enough to be shown in an error: its first line, cut.
    pub fn label(script: &str) -> String {
        const CHARS_MAX: usize = 80;
        let first = script.trim().lines().next().unwrap_or_default();
        let cut: String = first.chars().take(CHARS_MAX).collect();
        if cut.len() < script.trim().len() { format!("{cut} …") } else { cut }
    }

    /// A script that is sent once and given [`Command::DEADLINE`].
    pub fn new(script: impl Into<String>) -> Self {
        Self {
            script: script.into(),
            stdin: Vec::new(),
            deadline: Self::DEADLINE,
            idempotent: false,
        }
    }

    /// Feeds it standard input.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Gives it another deadline.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Says that running it twice is as good as once.
    #[must_use]
    pub const fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }
}

/// What a command that ran to its end left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Its exit status. A command killed by a signal has 128 + the signal.
    pub status: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Standard output as text, trimmed.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }

    /// Whether it exited with 0.
    pub const fn success(&self) -> bool {
        self.status == 0
    }
}

/// Why a command has no output. It may or may not have run, except where a variant says so.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RemoteError {
    /// No connection could be made; nothing ran. `reason` says how to mend it.
    #[error("connect to {node} ({addr}): {reason}")]
    Connect {
        /// The node.
        node: String,
        /// Where it was looked for, `host:port`.
        addr: String,
        /// What went wrong and what to do.
        reason: String,
    },
    /// The server at the node's address shows another host key than the one known. Nothing ran.
    #[error("connect to {node} ({addr}): {reason}")]
    HostKeyChanged {
        /// The node.
        node: String,
        /// Where it was looked for, `host:port`.
        addr: String,
        /// Both keys' whereabouts and what to do.
        reason: String,
    },
    /// The deadline passed. The command was killed if the node could still be reached.
    #[error("{node}: `{command}` did not end within {deadline:?}")]
    Deadline {
        /// The node.
        node: String,
        /// The script, shortened.
        command: String,
        /// The limit.
        deadline: Duration,
    },
    /// The connection broke before an exit status came back: the command may have run.
    #[error("{node}: the connection was lost while running `{command}`: {reason}")]
    Lost {
        /// The node.
        node: String,
        /// The script, shortened.
        command: String,
        /// What the transport said.
        reason: String,
    },
    /// The command ran and exited with something else than 0.
    #[error("{node}: `{command}` exited with {status}: {stderr}")]
    Exit {
        /// The node.
        node: String,
        /// The script, shortened.
        command: String,
        /// Its status.
        status: i32,
        /// The end of its standard error (or output, if that is all there is).
        stderr: String,
    },
    /// A file could not be moved.
    #[error("{node}: {action} {path}: {reason}")]
    Transfer {
        /// The node.
        node: String,
        /// `upload` or `download`.
        action: &'static str,
        /// The file on the node.
        path: String,
        /// What went wrong.
        reason: String,
    },
}

/// A program on a node that is spoken to for as long as it is wanted: a line there, a line back.
/// Dropping it closes the program's standard input.
#[async_trait]
pub trait Conversation: Send + Sync {
    /// Says a line (without its end) and waits for the line that answers it. Lines are answered in
    /// order, one at a time. After an error the conversation is over: every further call errs with
    /// [`RemoteError::Lost`].
    async fn ask(&self, line: &str, deadline: Duration) -> Result<String, RemoteError>;
}

/// A way to run commands on one node and move files.
#[async_trait]
pub trait Remote: Send + Sync {
    /// The node.
    fn node(&self) -> &Node;

    /// Who holds its machine from outside, where somebody does: enables faults of the whole machine.
    fn warden(&self) -> Option<&dyn Warden> {
        None
    }

    /// Runs a command to its end, whatever its exit status.
    async fn exec(&self, command: Command) -> Result<Output, RemoteError>;

    /// Writes a file on the node, atomically, with a mode such as `0o755`. Parents are made.
    async fn upload(&self, bytes: &[u8], to: &str, mode: u32) -> Result<(), RemoteError>;

    /// Copies a file from the node into a local file. Parents are made.
    async fn download(&self, from: &str, to: &Path) -> Result<(), RemoteError>;

    /// Starts a program, as root, on a connection of its own, and speaks to it. `script` is for
    /// `/bin/sh` and becomes the program: `exec /usr/bin/cat`. Whether it has started shows when it
    /// answers.
    async fn converse(&self, script: &str) -> Result<Box<dyn Conversation>, RemoteError>;

    /// Runs a command that must exit with 0 and returns its trimmed standard output.
    async fn run(&self, command: Command) -> Result<String, RemoteError> {
        let script = command.script.clone();
        let output = self.exec(command).await?;
        if output.success() {
            return Ok(output.text());
        }
        let said = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
        let said = String::from_utf8_lossy(said);
        let tail: String = said.trim().chars().rev().take(2000).collect();
        Err(RemoteError::Exit {
            node: self.node().name.to_string(),
            command: Command::label(&script),
            status: output.status,
            stderr: tail.chars().rev().collect(),
        })
    }
}
