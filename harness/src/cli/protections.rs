//! `deposed protections`: runs the cells of the protection table and compares what came of them with
//! what the project says has to.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, anyhow};
use chrono::Utc;
use deposed_report::{Cell, Outcome, ProtectionTable, Results, RunLink};
use deposed_workloads::{Expected, Protection, protections};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, ResultsArgs, note, out};
use crate::exit;
use crate::protections::{Finding, find};
use crate::run_folder::RunFolder;
use crate::verdict;

/// Measure which protection holds against which fault, for which resource.
///
/// Each cell of the table is a run in a lab of its own. What has to come of it stands in the
/// project with its reason (workloads/protections.toml); a cell that comes out otherwise fails the
/// command:
///
///     deposed protections
///     deposed protections --only lease --seconds 20
///     deposed protections --only holds --seeds 20
///
/// The table is printed, and written beside the runs as Markdown and HTML.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// Only cells with this word in their name, resource, mechanism or fault; or `holds`, `breaks`
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,

    /// How long each run is, unless its cell needs longer
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..))]
    seconds: u64,

    /// Runs of each cell that has to hold, with one seed after another; all of them have to
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,

    /// Runs at most until a cell that has to break does, or until one tests anything
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    tries: u64,

    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Show the cells and what is expected of them, and run none
    #[arg(long)]
    list: bool,

    #[command(flatten)]
    results: ResultsArgs,
}

impl Args {
    fn wants(&self, cell: &Protection) -> bool {
        let expected = match cell.expect {
            Expected::Holds => "holds",
            Expected::Breaks => "breaks",
        };
        let texts = [&cell.name, &cell.resource, &cell.mechanism, &cell.fault];
        self.only.is_empty()
            || self.only.iter().any(|word| {
                word == expected || texts.iter().any(|text| text.contains(word.as_str()))
            })
    }
}

pub(super) fn main(args: &Args) -> Result<u8, Failure> {
    let cells: Vec<Protection> = protections().into_iter().filter(|c| args.wants(c)).collect();
    if cells.is_empty() {
        return Err(Failure::nothing_selected(anyhow!(
            "no cell of the table has {} in it: see `deposed protections --list`",
            args.only.join(" or ")
        )));
    }
    if args.list {
        return list(&cells);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the asynchronous runtime")
        .map_err(Failure::infrastructure)?;
    runtime.block_on(measure(args, &cells))
}

fn list(cells: &[Protection]) -> Result<u8, Failure> {
    let lines = cells.iter().map(|cell| {
        let expected = match cell.expect {
            Expected::Holds => "holds",
            Expected::Breaks => "breaks",
        };
        let Protection { name, resource, mechanism, fault, reason, run, .. } = cell;
        format!(
            "{name}: {mechanism} for the {resource}, {fault}: {expected}\n  {reason}\n  deposed run {run}\n"
        )
    });
    out(&lines.collect::<Vec<_>>().join("\n"))?;
    Ok(exit::VALID)
}

async fn measure(args: &Args, cells: &[Protection]) -> Result<u8, Failure> {
    let now = Utc::now().format("%Y-%m-%dT%H-%M-%SZ").to_string();
    let folder = args.results.results.join("protections").join(now);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("make {}", folder.display()))
        .map_err(Failure::infrastructure)?;
    let mut table =
        ProtectionTable { cells: Vec::new(), deposed: env!("CARGO_PKG_VERSION").into() };
    let mut code = exit::VALID;
    for (number, cell) in cells.iter().enumerate() {
        let measured = Measurement { args, cell, folder: &folder }.make().await?;
        note(&format!(
            "{}/{} {}: {}{}",
            number + 1,
            cells.len(),
            cell.name,
            measured.cell.outcome.word(),
            if measured.cell.is_as_expected() { "" } else { ", which is not expected" }
        ));
        table.cells.push(measured.cell);
        write(&folder, &table)?;
        if let Some(interrupted) = measured.interrupted {
            code = interrupted;
            break;
        }
    }
    out(&format!(
        "{}\n table     {}\n",
        table.terminal(),
        folder.join("protections.html").display()
    ))?;
    let differs = |cell: &Cell| !cell.is_as_expected();
    Ok(match code {
        exit::VALID if table.cells.iter().any(|c| differs(c) && c.outcome != Outcome::Untested) => {
            exit::INVALID
        }
        exit::VALID if table.cells.iter().any(differs) => exit::UNKNOWN,
        code => code,
    })
}

/// Writes what there is so far: a table that was cut short is one, too.
fn write(folder: &Path, table: &ProtectionTable) -> Result<(), Failure> {
    for (name, text) in [("protections.md", table.markdown()), ("protections.html", table.html())] {
        let path = folder.join(name);
        std::fs::write(&path, text)
            .with_context(|| format!("write {}", path.display()))
            .map_err(Failure::infrastructure)?;
    }
    Ok(())
}

struct Measurement<'a> {
    args: &'a Args,
    cell: &'a Protection,
    folder: &'a Path,
}

struct Measured {
    cell: Cell,
    /// The exit code of a run that was interrupted.
    interrupted: Option<u8>,
}

impl Measurement<'_> {
    /// Runs a cell until it is known what comes of it.
    async fn make(&self) -> Result<Measured, Failure> {
        let expected = match self.cell.expect {
            Expected::Holds => Outcome::Held,
            Expected::Breaks => Outcome::Broke,
        };
        let mut told = Finding::untested("it was not run");
        let mut runs: Vec<RunLink> = Vec::new();
        let (mut held, mut interrupted) = (0, None);
        for seed in self.args.seed.. {
            let (code, folder) = self.run(seed).await?;
            if matches!(code, exit::INTERRUPTED | exit::TERMINATED) {
                interrupted = Some(code);
                break;
            }
            if code == exit::USAGE || code == exit::BUG || code == exit::NOTHING_SELECTED {
                let (name, run) = (&self.cell.name, &self.cell.run);
                return Err(Failure::bug(anyhow!(
                    "{name}: `deposed run {run}` is refused with exit code {code}"
                )));
            }
            let finding = match &folder {
                Some(folder) => self.find(folder, code),
                None => Finding::untested(format!("the run left nothing behind, exit code {code}")),
            };
            let outcome = finding.outcome;
            if let Some(folder) = folder {
                let folder = folder.strip_prefix(self.folder).unwrap_or(&folder);
                let link = RunLink { folder: folder.display().to_string(), seed, outcome };
                // The one that tells is the first.
                let at = if worse(outcome, told.outcome) { 0 } else { runs.len() };
                runs.insert(at, link);
            }
            if worse(outcome, told.outcome) || told.outcome == Outcome::Untested {
                told = finding;
            }
            held += u64::from(outcome == Outcome::Held);
            let done = seed - self.args.seed + 1;
            let enough = match (expected, outcome) {
                (_, Outcome::Otherwise) | (_, Outcome::Broke) => true,
                (Outcome::Held, _) => {
                    held >= self.args.seeds || done >= self.args.seeds + self.args.tries - 1
                }
                _ => done >= self.args.tries,
            };
            if enough {
                break;
            }
        }
        let Protection { name, resource, mechanism, fault, reason, .. } = self.cell.clone();
        let Finding { outcome, told, window } = told;
        let cell = Cell {
            name,
            resource,
            mechanism,
            fault,
            expected,
            reason,
            outcome,
            told,
            window,
            runs,
        };
        Ok(Measured { cell, interrupted })
    }

    /// One run in a process of its own: a lab is entered once. Says how it ended, and where.
    async fn run(&self, seed: u64) -> Result<(u8, Option<PathBuf>), Failure> {
        let program = std::env::current_exe().map_err(Failure::infrastructure)?;
        let results = self.folder.join(&self.cell.name).join(seed.to_string());
        let seconds = self.args.seconds.max(self.cell.seconds_min);
        let time = humantime::format_duration(Duration::from_secs(seconds)).to_string();
        let mut run = Command::new(program)
            .arg("run")
            .args(self.cell.run.split_whitespace())
            .args(["--time", &time.replace(' ', ""), "--seed", &seed.to_string()])
            .args(["--output", "plain", "--results"])
            .arg(&results)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start a run")
            .map_err(Failure::infrastructure)?;
        // Ctrl-C reaches the run as well: it heals and judges, and is waited for.
        let mut interrupts = signal(SignalKind::interrupt()).map_err(Failure::infrastructure)?;
        let status = loop {
            tokio::select! {
                status = run.wait() => break status.map_err(Failure::infrastructure)?,
                _ = interrupts.recv() => note("interrupted: the run heals and is judged first"),
            }
        };
        let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::BUG);
        Ok((code, RunFolder::find(&results, "latest").ok().map(|found| found.path().to_owned())))
    }

    fn find(&self, folder: &Path, code: u8) -> Finding {
        let results =
            RunFolder::find(folder, ".").map_err(|error| error.to_string()).and_then(|folder| {
                verdict::read_json::<Results>(&folder, "results.json").map_err(|e| e.to_string())
            });
        match results {
            Ok(results) if code != exit::INFRASTRUCTURE => find(self.cell, &results),
            Ok(results) => Finding::untested(results.reason),
            Err(why) => Finding::untested(format!("exit code {code}: {why}")),
        }
    }
}

/// Whether an outcome outweighs another one of the same cell.
fn worse(outcome: Outcome, than: Outcome) -> bool {
    let weight = |outcome| match outcome {
        Outcome::Untested => 0,
        Outcome::Held => 1,
        Outcome::Broke => 2,
        Outcome::Otherwise => 3,
    };
    weight(outcome) > weight(than)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    /// Every run of the table is one that the command line understands.
    #[test]
    fn every_cell_can_be_run() {
        for cell in protections() {
            let words = format!("deposed run {} --time 30s --seed 1", cell.run);
            let parsed = Cli::try_parse_from(words.split_whitespace());
            assert!(parsed.is_ok(), "{}: {}", cell.name, parsed.unwrap_err());
        }
    }
}
