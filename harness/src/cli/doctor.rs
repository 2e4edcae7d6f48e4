//! `deposed doctor`: is this cluster fit for a run?

use anyhow::anyhow;

use super::{Failure, note, out};
use crate::doctor::{State, examine, render};
use crate::exit;
use crate::inventory::{ClusterArgs, Surroundings};

/// Examine a cluster before it is trusted with a run.
///
/// Looks, on every node, for the way in, root, the tools faults need, the firewall, clocks and what
/// keeps them in time, disk space, and leftovers of earlier runs; says how to mend what is not as it
/// should be. Changes nothing.
///
/// Exit codes: 0 fit, 3 something must be mended first.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
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
    let findings = runtime.block_on(examine(&inventory));
    if args.json {
        let text = serde_json::to_string_pretty(&findings).map_err(Failure::bug)?;
        out(&format!("{text}\n"))?;
    } else {
        out(&render(&findings))?;
    }
    let unfit = findings.iter().any(|finding| finding.state == State::Fail);
    Ok(if unfit { exit::INFRASTRUCTURE } else { exit::VALID })
}
