//! The command line: the only place that reads argv, prints and decides the exit code.

mod check;
mod client;
mod completions;
mod convert;
mod doctor;
mod failure;
mod heal;
mod lab;
mod list;
mod output;
mod protections;
mod report;
mod run;
mod run_log;
mod screen;
mod signals;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

pub(crate) use failure::Failure;
pub(crate) use output::{note, out};

use crate::exit;
use crate::run_folder::{RESULTS, RESULTS_VARIABLE};

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
    Run(Box<run::Args>),
    Check(check::Args),
    Report(report::Args),
    List(list::Args),
    Doctor(doctor::Args),
    Protections(protections::Args),
    Lab(lab::Args),
    Heal(heal::Args),
    Convert(convert::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Client(client::Args),
}

/// Where runs are kept.
#[derive(Debug, Clone, clap::Args)]
struct ResultsArgs {
    /// Where runs are kept
    #[arg(long, value_name = "FOLDER", default_value = RESULTS, env = RESULTS_VARIABLE)]
    results: PathBuf,
}

/// A duration in which something can happen: `30s`, `1m 30s`, `500ms`.
fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("a duration above 0".into()),
        Ok(duration) => Ok(duration),
        Err(wrong) => Err(format!("{wrong}; durations are written 30s, 1m 30s, 500ms")),
    }
}

/// Runs the command that argv asks for.
pub fn main() -> ExitCode {
    // Parts of a lab are this program too; they never come back from here.
    deposed_lab::play_role();
    // Sent to a node under another name, it is the daemon of the bundled store.
    let mut args = std::env::args_os();
    if args.next().is_some_and(|name| Path::new(&name).ends_with("standbyd")) {
        return deposed_standby::main(std::env::args_os());
    }
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
        Command::Run(args) => run::main(*args),
        Command::Check(args) => check::main(args),
        Command::Report(args) => report::main(&args),
        Command::List(args) => list::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Protections(args) => protections::main(&args),
        Command::Lab(args) => lab::main(args),
        Command::Heal(args) => heal::main(&args),
        Command::Convert(args) => convert::main(&args),
        Command::Completions(args) => completions::main(&args),
        Command::Client(args) => client::main(&args),
    };
    done.unwrap_or_else(Failure::print).into()
}

/// The command line's own description, for completions and for tests of the documentation.
pub fn command() -> clap::Command {
    use clap::CommandFactory;
    Cli::command()
}
