//! `deposed check`: judge a run again, or a history of anybody's.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use deposed_checkers::{
    Analysis, Anomaly, Checker, Claims, MODELS, ModelOptions, Verdict, checker,
};
use deposed_core::{Node, System};
use deposed_history::{Format, History, ReadOptions};
use deposed_report::{Check, Ending, Plan, Results, check_line};
use deposed_workloads::{load_system, workload};

use super::{Failure, ResultsArgs, duration, note, out};
use crate::exit;
use crate::judge::{Limits, judge};
use crate::logs::Logs;
use crate::progress::{Progress, Told};
use crate::run_folder::RunFolder;
use crate::settings::Settings;
use crate::verdict::{self, Case, VerdictError};

/// Judge a run again, or a history of anybody's.
///
/// A run (its folder, its id, or latest) is judged by the checkers of its workload, and its reports
/// are written again. A history file is judged by a model alone:
///
///     deposed check latest
///     deposed check history.edn --model cas-register
///     deposed check history.edn --model list-append --consistency snapshot-isolation
///
/// Exit codes: 0 valid, 1 invalid, 2 unknown, 64 the file is no history.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// A run, or a history file: ours, Jepsen's or Knossos's EDN, elle-cli's JSON, Porcupine's logs;
    /// plain, gzip or zstd
    what: PathBuf,

    /// Judge by this model alone: see `deposed list models`
    #[arg(long)]
    model: Option<String>,

    /// The level that is demanded, named as Elle names it [default: the model's strongest]
    #[arg(long, value_name = "LEVEL")]
    consistency: Option<String>,

    /// The file's format, if it is not to be told from the contents: jsonl, json, edn, log
    #[arg(long)]
    format: Option<Format>,

    /// Values are [key, value] pairs, one object for each key
    #[arg(long)]
    keyed: bool,

    /// Only these checkers of the run's workload
    #[arg(long, value_name = "CHECKER", value_delimiter = ',')]
    only: Vec<String>,

    /// Time each checker may take
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    time: Duration,

    /// Memory each checker may take, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 4096,
        value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    memory: u64,

    /// Threads each checker may use [default: all]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Print the analyses as JSON
    #[arg(long)]
    json: bool,

    /// Draw the violations of a history file into this folder: SVG, and DOT for Graphviz
    #[arg(long, value_name = "DIR")]
    draw: Option<PathBuf>,

    #[command(flatten)]
    results: ResultsArgs,
}

impl Args {
    fn limits(&self) -> Limits {
        let threads = self.threads.unwrap_or(Limits::default().threads);
        Limits { time: self.time, memory: self.memory << 20, threads }
    }

    fn read_options(&self) -> ReadOptions {
        ReadOptions { format: self.format, keyed: self.keyed }
    }

    /// Whether a checker was asked for.
    fn wants(&self, checker: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == checker)
    }
}

pub(super) fn main(args: Args) -> Result<u8, Failure> {
    if let Some(name) = &args.model {
        let options = ModelOptions { keyed: args.keyed, consistency: args.consistency.clone() };
        let checker = checker(name, &options)
            .ok_or_else(|| unknown_model(name))?
            .map_err(|wrong| Failure::usage(anyhow!("--model {name}: {wrong}")))?;
        let history = load(&args)?;
        if name.ends_with("register") && looks_keyed(&history) {
            let advice = "its values look like [key, value] pairs: say so with --keyed";
            return Err(Failure::usage(anyhow!("{}: {advice}", args.what.display())));
        }
        return judge_file(&args, &history, vec![checker]);
    }
    if args.consistency.is_some() {
        return Err(Failure::usage(anyhow!("--consistency goes with --model")));
    }
    if args.what.is_file() {
        return check_file(&args);
    }
    check_run(&args)
}

fn unknown_model(name: &str) -> Failure {
    if let Some(permits) = name.strip_prefix("semaphore:") {
        return Failure::usage(anyhow!(
            "--model {name}: {permits:?} is no number of permits, such as the 3 of semaphore:3"
        ));
    }
    let known: Vec<_> = MODELS.iter().map(|model| model.name).collect();
    Failure::nothing_selected(anyhow!(
        "no model is called {name:?}; there are {}",
        known.join(", ")
    ))
}

/// Whether a history that does not say so reads `[key nil]`: a register is never asked for that.
fn looks_keyed(history: &History) -> bool {
    let mut reads = history.calls().iter().map(|call| history.op(call.invoke));
    !history.header().keyed
        && reads.any(|op| op.f() == "read" && op.pair().is_some_and(|(_, value)| value.is_nil()))
}

/// The file of a history, also where a run's folder was given.
fn load(args: &Args) -> Result<History, Failure> {
    let path = if args.what.is_file() {
        args.what.clone()
    } else {
        match RunFolder::find(&args.results.results, &args.what.to_string_lossy()) {
            Ok(folder) => folder.history(),
            Err(_) => args.what.clone(),
        }
    };
    verdict::load(&path, &args.read_options(), &quiet()).map_err(failure)
}

/// Only warnings, on standard error.
fn quiet() -> Progress {
    Progress::new(|told| {
        if let Told::Warned { warning } = told {
            note(&warning);
        }
    })
}

/// A file that says which workload recorded it is judged by that workload's checkers.
fn check_file(args: &Args) -> Result<u8, Failure> {
    let history = load(args)?;
    let named = history.header().workload.clone();
    let Some(workload) = named.as_deref().and_then(workload) else {
        let known: Vec<_> = MODELS.iter().map(|model| model.name).collect();
        return Err(Failure::usage(anyhow!(
            "{} does not say what it is a history of: give --model, one of {}",
            args.what.display(),
            known.join(", ")
        )));
    };
    let mut checkers = verdict::checkers(&*workload, &Claims::default(), BTreeMap::new());
    checkers.retain(|checker| args.wants(checker.name()));
    judge_file(args, &history, checkers)
}

fn judge_file(
    args: &Args,
    history: &History,
    checkers: Vec<Box<dyn Checker>>,
) -> Result<u8, Failure> {
    if checkers.is_empty() {
        return Err(nothing_selected(args));
    }
    let mut checks = Vec::new();
    for checker in &checkers {
        let (analysis, elapsed) = judge(history, &**checker, &args.limits());
        checks.push(Check { analysis, elapsed_ms: elapsed.as_millis() as u64 });
    }
    let worst = checks.iter().map(|check| check.analysis.verdict).max().unwrap_or(Verdict::Unknown);
    if let Some(folder) = &args.draw {
        let anomalies = checks.iter().flat_map(|check| &check.analysis.anomalies);
        let drawn = draw(folder, history, anomalies);
        drawn.map_err(|error| Failure::usage(anyhow!("--draw {}: {error}", folder.display())))?;
    }
    if args.json {
        let analyses: Vec<&Analysis> = checks.iter().map(|check| &check.analysis).collect();
        let text = serde_json::to_string_pretty(&analyses).map_err(Failure::bug)?;
        out(&format!("{text}\n"))?;
    } else {
        let mut text = String::new();
        for check in &checks {
            text.push_str(&format!("{}\n", check_line(check)));
            text.push_str(&evidence(&check.analysis));
        }
        text.push_str(&format!("{worst}\n"));
        out(&text)?;
    }
    Ok(exit::of(worst))
}

/// Writes each violation's calls and their order as a picture and for Graphviz: `1-stale-read.svg`.
fn draw<'a>(
    folder: &Path,
    history: &History,
    anomalies: impl Iterator<Item = &'a Anomaly>,
) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    for (at, anomaly) in anomalies.enumerate() {
        let name = format!("{}-{}", at + 1, anomaly.name);
        fs::write(folder.join(format!("{name}.svg")), anomaly.svg(history))?;
        fs::write(folder.join(format!("{name}.dot")), anomaly.dot(history))?;
    }
    Ok(())
}

fn nothing_selected(args: &Args) -> Failure {
    Failure::nothing_selected(anyhow!("no checker of this run is called {}", args.only.join(", ")))
}

/// At most this many anomalies are told on a terminal; `--json` has all that are listed.
const TOLD_MAX: usize = 3;

/// The violations and the open questions of an analysis, in sentences.
fn evidence(analysis: &Analysis) -> String {
    let mut text = String::new();
    for anomaly in analysis.anomalies.iter().take(TOLD_MAX) {
        text.push_str(&format!("\n{}: {}\n", anomaly.name, anomaly.summary));
        for sentence in &anomaly.sentences {
            text.push_str(&format!("  {sentence}\n"));
        }
    }
    let told = analysis.anomalies.len().min(TOLD_MAX) as u64;
    let more = analysis.anomaly_count.saturating_sub(told);
    if more > 0 {
        text.push_str(&format!("\nand {more} more\n"));
    }
    for open in analysis.undecided.iter().take(TOLD_MAX) {
        let key = open.key.as_ref().map_or_else(String::new, |key| format!(" on key {key}"));
        let (first, last) = open.window;
        text.push_str(&format!("\nnot decided{key}, events {first} to {last}: {}\n", open.reason));
        if let Some(known) = &open.known {
            text.push_str(&format!("  {known}\n"));
        }
    }
    text
}

/// Judges a run folder again and writes its reports.
fn check_run(args: &Args) -> Result<u8, Failure> {
    let folder = RunFolder::find(&args.results.results, &args.what.to_string_lossy())
        .map_err(Failure::nothing_selected)?;
    let _held = folder.hold().map_err(Failure::infrastructure)?;
    if !folder.history().exists() {
        let path = folder.path().display();
        return Err(Failure::usage(anyhow!("{path}: the run ended before anything was recorded")));
    }
    let plan: Plan = verdict::read_json(&folder, "plan.json").map_err(Failure::usage)?;
    let workload = workload(&plan.workload.name).ok_or_else(|| {
        Failure::usage(anyhow!("the workload {:?} is not known here", plan.workload.name))
    })?;
    let mut checkers = verdict::checkers(
        &*workload,
        &plan.system.guarantees.unwrap_or_default(),
        plan.faults.required.clone(),
    );
    checkers.retain(|checker| args.wants(checker.name()));
    if checkers.is_empty() {
        return Err(nothing_selected(args));
    }
    if !args.only.is_empty() {
        // A part of the verdict is told, and never takes the place of the whole.
        return judge_file(args, &load(args)?, checkers);
    }
    if args.draw.is_some() {
        let advice = "the report of a run draws its violations; --draw goes with a history file";
        return Err(Failure::usage(anyhow!("{advice}, --model or --only")));
    }
    // How the run ended is known only if it was judged before.
    let before: Option<Results> = verdict::read_json(&folder, "results.json").ok();
    let ending = before.map_or(Ending::Untold, |results| results.ending);
    match &ending {
        Ending::Untold => note("how the run ended is not known; judged on what was recorded"),
        Ending::Interrupted { by } => {
            note(&format!("the run was interrupted by {by}; judged on what was recorded"));
        }
        Ending::Infrastructure { reason } => note(&format!("the run failed: {reason}")),
        Ending::Normal | Ending::Bug { .. } => {}
    }
    let logs = Logs::of(folder.path());
    let progress = Progress::new(|told| match told {
        Told::Warned { warning } => note(&warning),
        Told::Checked { check } => drop(out(&format!("{}\n", check_line(&check)))),
        _ => {}
    });
    let case = Case {
        plan: &plan,
        ending: &ending,
        checkers,
        logs: &logs,
        crash_patterns: crash_patterns(&plan),
        zones: Default::default(),
        limits: args.limits(),
    };
    let concluded = verdict::conclude(&folder, case, &progress).map_err(failure)?;
    let lines: Vec<String> = concluded.closing.iter().map(|line| format!("{line}\n")).collect();
    out(&format!("\n{}", lines.concat()))?;
    Ok(exit::of(concluded.verdict))
}

/// The patterns of the run's system; none if it cannot be loaded here any more.
fn crash_patterns(plan: &Plan) -> Vec<String> {
    let nodes: Vec<Node> = plan
        .cluster
        .nodes
        .iter()
        .filter_map(|node| {
            Some(Node { name: node.name.as_str().into(), addr: node.addr.parse().ok()? })
        })
        .collect();
    let loaded = Settings::of(plan).map_err(|what| what.to_string()).and_then(|settings| {
        load_system(&settings.system, &nodes, &settings.system_options(false))
            .map_err(|error| error.to_string())
    });
    match loaded {
        Ok(system) => system.db().crash_patterns(),
        Err(why) => {
            note(&format!("logs are not searched for crashes: {why}"));
            Vec::new()
        }
    }
}

/// Input that cannot be read is the user's to mend; the rest is the machine's.
pub(super) fn failure(error: VerdictError) -> Failure {
    match error {
        VerdictError::Folder(_) => Failure::infrastructure(error),
        error => Failure::usage(error),
    }
}
