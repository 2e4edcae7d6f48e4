//! An error on its way to the exit code.

use std::fmt;

use super::note;
use crate::exit;

/// Why a command could not do its work: what to print, and the code to leave with.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    error: anyhow::Error,
}

impl Failure {
    /// Wrong flags, configuration or input.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { code: exit::USAGE, error: error.into() }
    }

    /// The lab, a node, a package or this machine failed.
    pub(crate) fn infrastructure(error: impl Into<anyhow::Error>) -> Self {
        Self { code: exit::INFRASTRUCTURE, error: error.into() }
    }

    /// What was asked for does not exist.
    pub(crate) fn nothing_selected(error: impl Into<anyhow::Error>) -> Self {
        Self { code: exit::NOTHING_SELECTED, error: error.into() }
    }

    /// A bug of ours.
    pub(crate) fn bug(error: impl Into<anyhow::Error>) -> Self {
        Self { code: exit::BUG, error: error.into() }
    }

    /// Says it on standard error, cause by cause, and returns the exit code.
    pub(crate) fn print(self) -> u8 {
        note(&self.to_string());
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Our error types name their cause themselves where it matters; print what they leave out.
        let mut said = self.error.to_string();
        for cause in self.error.chain().skip(1) {
            let cause = cause.to_string();
            if !said.contains(&cause) {
                said.push_str(": ");
                said.push_str(&cause);
            }
        }
        f.write_str(&said)
    }
}
