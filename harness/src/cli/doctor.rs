//! `deposed doctor`: is this cluster fit for a run?

use anyhow::anyhow;

use super::screen::Output;
use super::{Failure, note, out};
use crate::doctor::{self, State};
use crate::exit;
use crate::inventory::{ClusterArgs, Surroundings};

/// Examine a cluster and say how to mend what is not fit for a run.
///
/// Logs in to every node and looks at root rights, tools, firewall, IPv6, clock, disk and what earlier
/// runs have left. Exit code 3 if something must be mended before a run.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How findings are shown; with json, one object a line
    #[arg(long, value_enum, default_value = "auto", value_name = "HOW")]
    output: Output,

    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) fn main(args: &Args) -> Result<u8, Failure> {
    if !args.cluster.name_a_cluster() {
        let advice = "name the cluster to examine, with --cluster or --nodes";
        return Err(Failure::usage(anyhow!(advice)));
    }
    let inventory = args.cluster.inventory(&Surroundings::here()).map_err(Failure::usage)?;
    for line in &inventory.notes {
        note(line);
    }
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::infrastructure)?;
    let findings = runtime.block_on(doctor::examine(&inventory));
    match args.output {
        Output::Json => {
            for finding in &findings {
                let line = serde_json::to_string(finding).map_err(Failure::bug)?;
                out(&format!("{line}\n"))?;
            }
        }
        Output::Auto | Output::Plain => out(&doctor::render(&findings))?,
    }
    let unfit = findings.iter().any(|finding| finding.state == State::Fail);
    Ok(if unfit { exit::INFRASTRUCTURE } else { exit::VALID })
}
