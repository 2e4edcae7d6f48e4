//! The command line: the only place that reads argv, prints and decides the exit code.

mod completions;
mod failure;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub(crate) use failure::Failure;
pub(crate) use output::out;

use crate::exit;

/// Injects faults into a replicated store, records what its clients see, and decides whether it
/// kept its promises.
///
/// A first run, on a cluster of five nodes that it makes on this machine:
///
///     deposed run etcd --time 30s --faults partition,kill,pause
///
/// Exit codes: 0 valid, 1 invalid, 2 unknown, 3 the lab or a node failed, 4 nothing selected,
/// 64 usage or configuration, 70 a bug of deposed, 130 or 143 interrupted.
#[derive(Debug, Parser)]
#[command(name = "deposed", version, max_term_width = 100, verbatim_doc_comment)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Completions(completions::Args),
}

/// Runs the command that argv asks for.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` and `--version` come here too, and are no mistakes.
            let code = if error.use_stderr() { exit::USAGE } else { exit::VALID };
            let _ = error.print();
            return code.into();
        }
    };
    let done = match cli.command {
        Command::Completions(args) => completions::main(&args),
    };
    done.unwrap_or_else(|failure| failure.print()).into()
}

/// The command line's own description, for completions and for tests of the documentation.
pub fn command() -> clap::Command {
    use clap::CommandFactory;
    Cli::command()
}
