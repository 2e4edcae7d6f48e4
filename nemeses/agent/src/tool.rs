//! Programs of the node.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use crate::{Failure, Result};

/// Where system programs are, for logins whose PATH lacks them.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program about to be run.
pub(crate) struct Tool {
    name: String,
    command: Command,
    input: String,
    quiet: bool,
}

/// A program that runs.
pub(crate) struct Running {
    name: String,
    child: Child,
}

impl Tool {
    pub(crate) fn new(name: &str) -> Self {
        let mut command = Command::new(name);
        command.env("PATH", PATH).env("LC_ALL", "C").current_dir("/");
        Self { name: name.to_owned(), command, input: String::new(), quiet: false }
    }

    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        self.command.args(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// What it reads; at most what a pipe takes (64 KiB) before it has said much.
    pub(crate) fn input(mut self, text: String) -> Self {
        self.input = text;
        self
    }

    /// Lets what it prints go nowhere, so that nobody waits for a daemon it leaves behind.
    pub(crate) fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    pub(crate) fn start(mut self) -> Result<Running> {
        let failed = |error: std::io::Error| Failure::new(format!("run {}", self.name), error);
        let output = || if self.quiet { Stdio::null() } else { Stdio::piped() };
        let command = self.command.stdin(Stdio::piped()).stdout(output()).stderr(output());
        let mut child = command.spawn().map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that does not read to the end says why itself.
            let _ = stdin.write_all(self.input.as_bytes());
        }
        Ok(Running { name: self.name, child })
    }

    /// Runs it to its end, which must be a good one, and returns what it printed.
    pub(crate) fn run(self) -> Result<String> {
        self.start()?.end()
    }

    /// Whether it ran to a good end.
    pub(crate) fn succeeds(self) -> bool {
        self.run().is_ok()
    }
}

/// Runs a script of the store's for `/bin/sh`, to a good end. What it starts stays.
pub(crate) fn run_script(script: &str) -> Result<()> {
    // The keeper is spared when memory is short; what it starts is not to be.
    let script = format!("echo 0 >/proc/self/oom_score_adj 2>/dev/null\n{script}");
    Tool::new("/bin/sh").args(["-c", &script]).quiet().run().map(drop)
}

impl Running {
    /// Waits for its end, which must be a good one, and returns what it printed.
    pub(crate) fn end(self) -> Result<String> {
        let attempted = format!("run {}", self.name);
        let output = self.child.wait_with_output().map_err(|e| Failure::new(&attempted, e))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Failure::new(attempted, format!("{}: {}", output.status, said.trim())))
    }
}
