//! `deposed lab …`: clusters on this machine.

use std::fmt::Write as _;

use clap::Subcommand;
use deposed_lab::detached::{self, DEFAULT_NAME, Health};
use deposed_lab::packages::{self, Install};
use deposed_lab::{LabError, LabSpec, MAX_NODES};

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
}

#[derive(Debug, clap::Args)]
struct Name {
    /// Which lab
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,
}

pub(super) fn main(args: Args) -> Result<u8, Failure> {
    match args.action {
        Action::Up { nodes, no_install, systems, name } => {
            up(&name.name, nodes, no_install, &systems)?
        }
        Action::Down(name) => down(&name.name)?,
        Action::Status => status()?,
        // These two replace this process, so that they only return to say why they could not.
        Action::Ssh { name, node, command } => {
            return Err(failure(detached::ssh(&name.name, &node, &command)));
        }
        Action::Exec { name, command } => {
            return Err(failure(detached::exec(&name.name, &command)));
        }
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

fn up(name: &str, nodes: u8, no_install: bool, systems: &[String]) -> Result<(), Failure> {
    let spec = LabSpec { nodes, ..LabSpec::default() };
    let mut requirements = packages::lab_requirements(&spec);
    for system in systems {
        requirements.extend(super::run::requirements(system)?);
    }
    ensure(&requirements, no_install)?;
    let lab = detached::up(name, &spec).map_err(failure)?;
    out(&format!(
        "lab {name} is up: {nodes} nodes, inventory {}\n\
         run a command in its network: deposed lab exec --name {name} -- COMMAND\n",
        lab.nodes_file().display()
    ))
}

fn down(name: &str) -> Result<(), Failure> {
    let was = detached::down(name).map_err(failure)?;
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
            Health::Degraded => "degraded: a node has died",
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
        LabError::Spec(_) => Failure::usage(error),
        error => Failure::infrastructure(error),
    }
}
