//! `deposed completions SHELL`.

use super::{Failure, command, out};
use crate::exit;

/// Print a completion script for a shell.
///
/// For bash: deposed completions bash > /etc/bash_completion.d/deposed
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell to complete for.
    shell: clap_complete::Shell,
}

pub(super) fn main(args: &Args) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "deposed", &mut script);
    out(&String::from_utf8_lossy(&script))?;
    Ok(exit::VALID)
}
