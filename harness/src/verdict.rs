//! From a history on the disk to a verdict and its report: the part of a run's life that needs no
//! cluster, and can be repeated years later.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use deposed_checkers::{Checker, Claims, Stats, Verdict};
use deposed_history::{History, ReadError, ReadOptions};
use deposed_nemeses::may_give_up;
use deposed_report::{Check, Ending, Line, LogExcerpt, Plan, Report, Run, window_of_interest};
use deposed_workloads::Workload;

use crate::judge::{Limits, judge};
use crate::logs::Logs;
use crate::progress::{Progress, Told};
use crate::run_folder::{RunFolder, RunFolderError, Status};

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub enum VerdictError {
    /// The history cannot be opened.
    #[error("open {}: {source}", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The history cannot be read.
    #[error("{}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, where.
        #[source]
        source: ReadError,
    },
    /// The run folder cannot be written or read.
    #[error(transparent)]
    Folder(#[from] RunFolderError),
    /// A plan or an earlier verdict cannot be understood.
    #[error("{}: {reason}", .path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// Where in it, and what.
        reason: String,
    },
    /// A crash pattern of the system is no regular expression.
    #[error("a crash pattern of the system: {0}")]
    Pattern(#[from] regex::Error),
}

/// A verdict, told.
#[derive(Debug)]
pub struct Concluded {
    /// The verdict.
    pub verdict: Verdict,
    /// What to close with on a terminal.
    pub closing: Vec<Line>,
}

/// What is known of a run beside its history.
pub struct Case<'a> {
    /// What was planned.
    pub plan: &'a Plan,
    /// How it ended.
    pub ending: &'a Ending,
    /// The checkers that judge it, in order.
    pub checkers: Vec<Box<dyn Checker>>,
    /// Logs of the nodes.
    pub logs: &'a Logs,
    /// Patterns that mark a crash in them.
    pub crash_patterns: Vec<String>,
    /// How many seconds the clock of each node's log lines is ahead of UTC.
    pub zones: BTreeMap<String, i64>,
    /// What each checker may use.
    pub limits: Limits,
}

/// The checkers that judge a run of a workload, in the order they are told, but for the search of
/// the logs, which comes right after the first where logs were collected. What the system claims
/// and how often each fault must have bitten is in the plan.
pub fn checkers(
    workload: &dyn Workload,
    claims: &Claims,
    required: BTreeMap<String, u64>,
) -> Vec<Box<dyn Checker>> {
    let mut checkers: Vec<Box<dyn Checker>> = vec![Box::new(Stats { required })];
    checkers.extend(workload.checkers(claims));
    checkers
}

/// Reads a history.
///
/// # Errors
/// If it cannot be opened or is no history; says where and how to mend it.
pub fn load(
    path: &Path,
    options: &ReadOptions,
    progress: &Progress,
) -> Result<History, VerdictError> {
    let file =
        File::open(path).map_err(|source| VerdictError::Open { path: path.to_owned(), source })?;
    let loaded = deposed_history::read(file, options)
        .map_err(|source| VerdictError::Read { path: path.to_owned(), source })?;
    for warning in loaded.warnings.listed() {
        progress.warn(format!("{}: {warning}", path.display()));
    }
    Ok(loaded.history)
}

/// Judges the history of a run folder and writes results and reports into it.
///
/// # Errors
/// If the history cannot be read, or the folder not be written.
pub fn conclude(
    folder: &RunFolder,
    case: Case<'_>,
    progress: &Progress,
) -> Result<Concluded, VerdictError> {
    let history = load(&folder.history(), &ReadOptions::default(), progress)?;
    let mut found = case.logs.search(case.crash_patterns)?;
    found.forgive(&may_give_up(&history));
    let mut checkers = case.checkers;
    let crashes = Logs::crashes(&found);
    if found.files > 0 {
        let place = checkers.len().min(1);
        checkers.insert(place, Box::new(found));
    } else if !found.patterns.is_empty() {
        // Nothing was searched, so that nothing may be said of it.
        progress.warn("no log of a node was collected: log-patterns is left out");
    }
    let checks: Vec<Check> = checkers
        .iter()
        .map(|checker| {
            let (analysis, elapsed) = judge(&history, &**checker, &case.limits);
            let check = Check { analysis, elapsed_ms: elapsed.as_millis() as u64 };
            progress.tell(Told::Checked { check: Box::new(check.clone()) });
            check
        })
        .collect();
    let mut excerpts = crashes;
    if let Some(window) = window_of_interest(&history, &checks) {
        excerpts.extend(case.logs.around(window, &case.zones));
    }
    write(folder, case.plan, case.ending, &history, &checks, &excerpts)
}

/// Writes results and reports of a judged history.
///
/// # Errors
/// If the folder cannot be written.
pub fn write(
    folder: &RunFolder,
    plan: &Plan,
    ending: &Ending,
    history: &History,
    checks: &[Check],
    logs: &[LogExcerpt],
) -> Result<Concluded, VerdictError> {
    let files = files(folder.path());
    let report = Report::new(Run { plan, ending, history, checks, logs, files: &files });
    folder.write("results.json", report.results_json().as_bytes())?;
    folder.write("report.html", report.html().as_bytes())?;
    folder.write("report.md", report.markdown().as_bytes())?;
    folder.write("junit.xml", report.junit("report.html").as_bytes())?;
    folder.set_status(Status::Analysed)?;
    let html = folder.file("report.html");
    Ok(Concluded {
        verdict: report.verdict(),
        closing: report.closing(&html.display().to_string(), &folder.handle(&plan.id)),
    })
}

/// Reads a JSON file of a run folder.
///
/// # Errors
/// If it cannot be read, or is not what it should be: says which field is wrong.
pub fn read_json<T: serde::de::DeserializeOwned>(
    folder: &RunFolder,
    name: &str,
) -> Result<T, VerdictError> {
    let path = folder.file(name);
    let text = fs::read_to_string(&path)
        .map_err(|source| VerdictError::Open { path: path.clone(), source })?;
    let mut deserializer = serde_json::Deserializer::from_str(&text);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| VerdictError::NotOurs {
        path,
        reason: format!("{}: {}", error.path(), error.inner()),
    })
}

/// The files of a run folder, for the report's appendix. Its own products are left out: they are
/// just being written.
fn files(folder: &Path) -> Vec<deposed_report::File> {
    const PRODUCTS: [&str; 5] = ["results.json", "report.html", "report.md", "junit.xml", "status"];
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            let relative = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
            if kind.is_file() && !relative.starts_with('.') && !PRODUCTS.contains(&&*relative) {
                let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
                found.push(deposed_report::File { path: relative, bytes });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}
