//! `deposed report RUN`: the reports again, from the verdict that is there.

use anyhow::anyhow;
use deposed_history::ReadOptions;
use deposed_report::{Plan, Results};

use super::{Failure, ResultsArgs, check, note, out};
use crate::exit;
use crate::progress::{Progress, Told};
use crate::run_folder::RunFolder;
use crate::verdict;

/// Write the reports of a judged run again: no cluster, no checking.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The run: its folder, its id, or latest
    #[arg(default_value = "latest")]
    run: String,

    #[command(flatten)]
    results: ResultsArgs,
}

pub(super) fn main(args: &Args) -> Result<u8, Failure> {
    let folder =
        RunFolder::find(&args.results.results, &args.run).map_err(Failure::nothing_selected)?;
    let plan: Plan = verdict::read_json(&folder, "plan.json").map_err(Failure::usage)?;
    if !folder.file("results.json").exists() {
        let path = folder.path().display();
        let advice = format!("`deposed check {path}` does that, and writes its reports");
        return Err(Failure::usage(anyhow!("{path}: the run was not judged; {advice}")));
    }
    let results: Results = verdict::read_json(&folder, "results.json").map_err(Failure::usage)?;
    let progress = Progress::new(|told| {
        if let Told::Warned { warning } = told {
            note(&warning);
        }
    });
    let history = verdict::load(&folder.history(), &ReadOptions::default(), &progress)
        .map_err(check::failure)?;
    let told =
        verdict::write(&folder, &plan, &results.ending, &history, &results.checks, &results.logs)
            .map_err(check::failure)?;
    let lines: Vec<String> = told.closing.iter().map(|line| format!("{line}\n")).collect();
    out(&lines.concat())?;
    Ok(exit::VALID)
}
