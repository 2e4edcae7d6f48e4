//! `deposed heal`: undo whatever faults a run has left behind.

use anyhow::{Context, anyhow};
use deposed_nemeses::{Journal, heal_all, heal_run};

use super::{Failure, ResultsArgs, note, out};
use crate::exit;
use crate::inventory::{ClusterArgs, Surroundings};
use crate::rig;
use crate::run_folder::RunFolder;

/// Undo every fault that a run may have left on a cluster.
///
/// Works from a cold start, on what the nodes themselves have noted and on the journal of a run,
/// if one is named. Touches nothing that is not deposed's own; may be repeated. A lab that a run has
/// made for itself is gone with the run and needs no healing.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The run whose journal is to be undone: its folder, its id, or latest
    run: Option<String>,

    #[command(flatten)]
    cluster: ClusterArgs,

    #[command(flatten)]
    results: ResultsArgs,
}

pub(super) fn main(args: &Args) -> Result<u8, Failure> {
    if !args.cluster.name_a_cluster() {
        let advice = "name the cluster to heal, with --cluster or --nodes";
        return Err(Failure::usage(anyhow!(advice)));
    }
    let inventory = args.cluster.inventory(&Surroundings::here()).map_err(Failure::usage)?;
    let journal = match &args.run {
        None => None,
        Some(run) => {
            let folder = RunFolder::find(&args.results.results, run);
            Some(folder.map_err(Failure::nothing_selected)?.file(Journal::NAME))
        }
    };
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::infrastructure)?;
    let healed = runtime.block_on(async {
        rig::release_machines(&inventory.nodes).await.map_err(Failure::infrastructure)?;
        let (cluster, keys) =
            rig::connect(&inventory.nodes).await.map_err(Failure::infrastructure)?;
        keys.iter().for_each(|key| note(key));
        match journal {
            None => Ok(heal_all(&cluster, &[]).await),
            Some(journal) => {
                let healed = heal_run(&cluster, &journal).await;
                healed.with_context(|| journal.display().to_string()).map_err(Failure::usage)
            }
        }
    })?;
    let mut failed = false;
    let mut text = String::new();
    for (node, healed) in &healed {
        match healed {
            Ok(()) => text.push_str(&format!("{node}  healed\n")),
            Err(error) => {
                failed = true;
                text.push_str(&format!("{node}  NOT healed: {error}\n"));
            }
        }
    }
    out(&text)?;
    Ok(if failed { exit::INFRASTRUCTURE } else { exit::VALID })
}
