//! What can go wrong with a lab, and how to mend it.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::packages::{PackagesError, Requirement, listed};

/// Why a lab could not be brought up, found or used.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The caller is not root.
    #[error(
        "the lab needs root (namespaces, mounts, links): run it with sudo, or point at a cluster over SSH"
    )]
    NotRoot,

    /// Root, but without the right to make namespaces (an unprivileged container, say).
    #[error(
        "not allowed to {attempted}: root here lacks CAP_SYS_ADMIN (in a container, run it privileged)"
    )]
    NotPermitted {
        /// What was refused.
        attempted: String,
    },

    /// The kernel lacks something.
    #[error("this kernel cannot {attempted}: {mend}")]
    Kernel {
        /// What was attempted.
        attempted: String,
        /// What to load or to enable.
        mend: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },

    /// Programs the lab runs are not installed.
    #[error("not installed: {}", listed(missing))]
    MissingTools {
        /// The programs, and the Debian packages that hold them.
        missing: Vec<Requirement>,
    },

    /// The description of the lab makes no sense.
    #[error("{0}")]
    Spec(String),

    /// The operating system refused something.
    #[error("failed to {attempted}")]
    Io {
        /// What was attempted.
        attempted: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },

    /// A program the lab runs failed.
    #[error("`{command}` failed: {output}")]
    Command {
        /// The command line.
        command: String,
        /// What it printed, and its status.
        output: String,
    },

    /// A node did not boot.
    #[error("node {node} did not boot: {message}")]
    Boot {
        /// The node.
        node: String,
        /// What its init reported, or the end of its log.
        message: String,
    },

    /// A node took too long.
    #[error("node {node}: {waited_for} not seen within {limit:?}")]
    Timeout {
        /// The node.
        node: String,
        /// What was waited for.
        waited_for: String,
        /// For how long.
        limit: Duration,
    },

    /// No detached lab of that name.
    #[error("no lab named {name:?} is up: `lab up` makes one")]
    NotUp {
        /// The name asked for.
        name: String,
    },

    /// There is one already.
    #[error(
        "a lab named {name:?} is already up: `lab down` removes it, another --name makes a second one"
    )]
    AlreadyUp {
        /// The name asked for.
        name: String,
    },

    /// Its state file is there but its processes are not.
    #[error("the lab named {name:?} has crashed: `lab down` clears what is left of it")]
    Crashed {
        /// The name asked for.
        name: String,
    },

    /// The lab has no such node.
    #[error("lab {lab:?} has no node {node:?}: it has {}", known.join(", "))]
    NoSuchNode {
        /// The lab.
        lab: String,
        /// The node asked for.
        node: String,
        /// The nodes it has.
        known: Vec<String>,
    },

    /// The process in the background could not bring its lab up; its words.
    #[error("{0}")]
    Hub(String),

    /// A machine could not be held or released.
    #[error("{0}")]
    Warden(String),

    /// Packages could not be installed.
    #[error(transparent)]
    Packages(#[from] PackagesError),
}

impl LabError {
    /// The operating system refused `attempted`.
    pub(crate) fn io(attempted: impl Into<String>, source: impl Into<io::Error>) -> LabError {
        LabError::Io { attempted: attempted.into(), source: source.into() }
    }

    /// The operating system refused to do `verb` to `path`.
    pub(crate) fn path(
        verb: &str,
        path: impl AsRef<Path>,
        source: impl Into<io::Error>,
    ) -> LabError {
        let path: PathBuf = path.as_ref().into();
        LabError::io(format!("{verb} {}", path.display()), source)
    }
}

/// An error with its causes, on one line.
pub fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    line
}
