//! The lab by itself: bring clusters up and down, log in, run commands in their network.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use std::process::{Command, ExitCode};

use clap::{Args, Parser, Subcommand};
use deposed_lab::detached::{self, CLUSTER_VARIABLE, DEFAULT_NAME, Health};
use deposed_lab::packages::{self, Install};
use deposed_lab::{Hub, Lab, LabError, LabSpec, MAX_NODES, chain};

/// Exit code of a lab that could not be made or used.
const FAILED: u8 = 3;

/// A cluster on this machine.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Bring up a lab that outlives this command
    Up {
        #[command(flatten)]
        shape: Shape,
        #[command(flatten)]
        name: Name,
    },
    /// Take a lab down
    Down(Name),
    /// Show the labs there are
    Status,
    /// Log in to a node, or run a command there
    Ssh {
        #[command(flatten)]
        name: Name,
        /// The node
        node: String,
        /// The command; a shell if there is none
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Run a command on this machine, in the lab's network
    Exec {
        #[command(flatten)]
        name: Name,
        /// The command; $DEPOSED_CLUSTER names the inventory
        #[arg(required = true, last = true)]
        command: Vec<String>,
    },
    /// Bring up a lab that lasts as long as a command, which runs in its network
    With {
        #[command(flatten)]
        shape: Shape,
        /// The command; $DEPOSED_CLUSTER names the inventory
        #[arg(required = true, last = true)]
        command: Vec<String>,
    },
}

#[derive(Args)]
struct Shape {
    /// How many nodes
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_NODES)))]
    nodes: u8,
    /// Refuse if packages are missing, instead of installing them
    #[arg(long)]
    no_install: bool,
}

#[derive(Args)]
struct Name {
    /// Which lab
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,
}

fn main() -> ExitCode {
    deposed_lab::play_role();
    match run(Cli::parse().action) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("deposed-lab: {}", chain(&error));
            ExitCode::from(FAILED)
        }
    }
}

fn run(action: Action) -> Result<ExitCode, LabError> {
    match action {
        Action::Up { shape, name } => {
            let lab = detached::up(&name.name, &shape.spec()?)?;
            println!("lab {} is up: {}", lab.name, lab.nodes_file().display());
        }
        Action::Down(name) => match detached::down(&name.name)? {
            Health::Crashed => println!("lab {} had crashed; what was left is gone", name.name),
            _ => println!("lab {} is down", name.name),
        },
        Action::Status => {
            for lab in detached::list()? {
                println!("{}: {:?}, {}", lab.name, lab.health(), lab.nodes_file().display());
                for (node, address, pid, alive) in lab.nodes() {
                    let alive = if alive { "up" } else { "down" };
                    println!("  {node} {address} {alive} (init is process {pid})");
                }
            }
        }
        Action::Ssh { name, node, command } => {
            return Err(detached::ssh(&name.name, &node, &command));
        }
        Action::Exec { name, command } => return Err(detached::exec(&name.name, &command)),
        Action::With { shape, command } => return with(&shape.spec()?, &command),
    }
    Ok(ExitCode::SUCCESS)
}

fn with(spec: &LabSpec, command: &[String]) -> Result<ExitCode, LabError> {
    let hub = Hub::enter()?;
    let lab = Lab::up(&hub, spec)?;
    let status = Command::new(&command[0])
        .args(&command[1..])
        .env(CLUSTER_VARIABLE, lab.nodes_file())
        .status()
        .map_err(|source| LabError::Io { attempted: format!("run {}", command[0]), source })?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED)))
}

impl Shape {
    /// The lab asked for, once all it needs is installed.
    fn spec(&self) -> Result<LabSpec, LabError> {
        let spec = LabSpec { nodes: self.nodes, ..LabSpec::default() };
        let install = if self.no_install { Install::No } else { Install::Yes };
        packages::ensure(&packages::lab_requirements(&spec), install, None, &mut |line| {
            eprintln!("{line}")
        })?;
        Ok(spec)
    }
}
