//! `deposed lab …`: clusters on this machine.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::Context;
use clap::Subcommand;
use deposed_lab::detached::{self, CLUSTER_VARIABLE, DEFAULT_NAME, Health};
use deposed_lab::packages::{self, Install};
use deposed_lab::{Hub, Lab, LabError, LabSpec, MAX_NODES};

use super::{Failure, note, out};
use crate::exit;

/// Bring up, use and take down a cluster on this machine.
///
/// A lab is a few nodes, each with its own network, processes and file system and a real sshd. `up`
/// leaves one running; `exec` runs a command in its network, so that a run uses it like any other
/// cluster:
///
///     deposed lab up --nodes 3
///     deposed lab exec -- deposed run etcd
///     deposed lab down
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
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
        /// The command; the variable DEPOSED_CLUSTER names the lab's inventory to it
        #[arg(required = true, last = true)]
        command: Vec<String>,
    },
    /// Bring up a lab that lasts as long as a command, which runs in its network
    With {
        #[command(flatten)]
        shape: Shape,
        /// The command; the variable DEPOSED_CLUSTER names the lab's inventory to it
        #[arg(required = true, last = true)]
        command: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Shape {
    /// How many nodes
    #[arg(
        long,
        default_value_t = LabSpec::default().nodes,
        value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_NODES))
    )]
    nodes: u8,
    /// Refuse if packages are missing, instead of installing them
    #[arg(long)]
    no_install: bool,
    /// Programs of the nodes' future work to install now, while there is a way to the host's
    /// package registry: names of bundled systems
    #[arg(long = "for", value_name = "SYSTEM")]
    systems: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct Name {
    /// Which lab
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,
}

pub(super) fn main(args: Args) -> Result<u8, Failure> {
    match args.action {
        Action::Up { shape, name } => up(&name.name, &shape)?,
        Action::Down(name) => down(&name.name)?,
        Action::Status => status()?,
        // These two replace this process, so that they only return to say why they could not.
        Action::Ssh { name, node, command } => {
            return Err(failure(detached::ssh(&name.name, &node, &command)));
        }
        Action::Exec { name, command } => {
            return Err(failure(detached::exec(&name.name, &command)));
        }
        Action::With { shape, command } => return with(&shape, &command),
    }
    Ok(exit::VALID)
}

/// Installs what is missing for a lab, or refuses.
pub(super) fn ensure(
    requirements: &[packages::Requirement],
    no_install: bool,
) -> Result<(), Failure> {
    let install = if no_install { Install::No } else { Install::Yes };
    packages::ensure(requirements, install, None, &mut |line| note(line))
        .map_err(Failure::infrastructure)
}

impl Shape {
    /// The lab asked for, once all it needs is installed.
    fn spec(&self) -> Result<LabSpec, Failure> {
        let spec = LabSpec { nodes: self.nodes, ..LabSpec::default() };
        let mut requirements = packages::lab_requirements(&spec);
        for system in &self.systems {
            requirements.extend(super::run::requirements(system)?);
        }
        ensure(&requirements, self.no_install)?;
        Ok(spec)
    }
}

fn up(name: &str, shape: &Shape) -> Result<(), Failure> {
    let lab = detached::up(name, &shape.spec()?).map_err(failure)?;
    out(&format!(
        "lab {name} is up: {} nodes, inventory {}\n\
         run a command in its network: deposed lab exec --name {name} -- COMMAND\n",
        shape.nodes,
        lab.nodes_file().display()
    ))
}

/// Runs a command in a lab of its own, and ends as it ended.
fn with(shape: &Shape, command: &[String]) -> Result<u8, Failure> {
    let spec = shape.spec()?;
    let hub = Hub::enter().map_err(failure)?;
    let lab = Lab::up(&hub, &spec).map_err(failure)?;
    let status = Command::new(&command[0])
        .args(&command[1..])
        .env(CLUSTER_VARIABLE, lab.nodes_file())
        .status()
        .with_context(|| format!("run {}", command[0]))
        .map_err(Failure::infrastructure)?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::INFRASTRUCTURE))
}

fn down(name: &str) -> Result<(), Failure> {
    let was = match detached::down(name) {
        // What was asked for is so.
        Err(LabError::NotUp { .. }) => return out(&format!("no lab named {name:?} is up\n")),
        was => was.map_err(failure)?,
    };
    match was {
        Health::Crashed => out(&format!("lab {name} had crashed; what was left is gone\n")),
        _ => out(&format!("lab {name} is down\n")),
    }
}

fn status() -> Result<(), Failure> {
    let labs = detached::list().map_err(failure)?;
    if labs.is_empty() {
        return out("no lab is up; bring one up with `deposed lab up`\n");
    }
    let mut text = String::new();
    for lab in labs {
        let health = match lab.health() {
            Health::Up => "up",
            Health::Starting => "starting",
            Health::Degraded => "degraded: a node has died, or has no power",
            Health::Crashed => "crashed: `deposed lab down` clears what is left",
        };
        let _ = writeln!(text, "{}  {health}  {}", lab.name, lab.nodes_file().display());
        for (node, address, pid, alive) in lab.nodes() {
            let alive = if alive { "up" } else { "down" };
            let _ = writeln!(text, "  {node}  {address}  {alive}  pid {pid}");
        }
    }
    out(&text)
}

/// What is wrong with the command is told from what is wrong with the machine.
pub(super) fn failure(error: LabError) -> Failure {
    match error {
        LabError::Spec(_)
        | LabError::NotUp { .. }
        | LabError::AlreadyUp { .. }
        | LabError::NoSuchNode { .. } => Failure::usage(error),
        error => Failure::infrastructure(error),
    }
}
