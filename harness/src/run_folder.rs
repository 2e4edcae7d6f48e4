//! The folder of a run: where everything about it is kept, and in which state it is.
//!
//! `results/<system>/<workload>+<faults>/<UTC time>-<id>/`, with `results/latest` and
//! `results/<system>/<cell>/latest` pointing at the newest. Every file but the growing ones
//! (`history.jsonl`, `undo.jsonl`, `run.log`) is written beside its place and renamed into it, so
//! that what is there is whole.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::Serialize;

/// Where runs are kept, unless told otherwise.
pub const RESULTS: &str = "results";
/// The environment variable that tells otherwise.
pub const RESULTS_VARIABLE: &str = "DEPOSED_RESULTS";

/// How far a run has come. The status file is the last thing written in each phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Being recorded, or its controller was killed while it was.
    Running,
    /// The history is complete and sealed.
    Recorded,
    /// Judged and reported.
    Analysed,
    /// It ended before there was anything to judge.
    Crashed,
}

impl Status {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Recorded => "recorded",
            Self::Analysed => "analysed",
            Self::Crashed => "crashed",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Running, Self::Recorded, Self::Analysed, Self::Crashed]
            .into_iter()
            .find(|status| status.as_str() == word.trim())
    }
}

/// Why a run folder could not be made, found or written.
#[derive(Debug, thiserror::Error)]
pub enum RunFolderError {
    /// A file or folder refused.
    #[error("{action} {}: {source}{}", .path.display(), hint(.source))]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No run is called that.
    #[error("{}", not_found(.wanted, .results))]
    NotFound {
        /// What was asked for.
        wanted: String,
        /// Where it was looked for.
        results: PathBuf,
    },
    /// Somebody else writes into it.
    #[error("{}: the run is still going on, or being judged; wait for its end", .path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// Several runs are called that.
    #[error("{wanted:?} could be any of {}", .candidates.join(", "))]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// The folders that fit.
        candidates: Vec<String>,
    },
}

/// Says whether there is a folder of that name at all, which is then of no run.
fn not_found(wanted: &str, results: &Path) -> String {
    let give = "give a run folder, the end of its name, or `latest`";
    match Path::new(wanted).is_dir() {
        true => format!("{wanted} is a folder, but not of a run (it has no plan.json): {give}"),
        false => format!("no run {wanted:?} below {}: {give}", results.display()),
    }
}

/// What to do about an error the system reports, where that is known.
fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => " (free some space, or give another place with --results)",
        io::ErrorKind::PermissionDenied => " (give a place you may write to with --results)",
        _ => "",
    }
}

/// Keeps others from writing into a run's folder, for as long as it lives. It ends with the process,
/// however that ends.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "the lock is held by the open file")] File);

/// One run's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder {
    path: PathBuf,
}

/// A cell as one folder: ports and links of faults are written with slashes, and many faults make a
/// longer name than file systems take (255 bytes).
fn folder_name(cell: &str) -> String {
    let mut name = cell.replace('/', "_");
    while name.len() > 200 {
        name.pop();
    }
    name
}

impl RunFolder {
    /// Makes the folder of a new run and points `latest` at it.
    pub fn create(
        results: &Path,
        system: &str,
        cell: &str,
        start: DateTime<Utc>,
        id: &str,
    ) -> Result<Self, RunFolderError> {
        let cell = folder_name(cell);
        let parent = results.join(system).join(&cell);
        let name = format!("{}-{id}", start.format("%Y-%m-%dT%H-%M-%SZ"));
        let path = parent.join(&name);
        make(&path)?;
        let run = Self { path };
        run.set_status(Status::Running)?;
        point(&parent.join("latest"), Path::new(&name))?;
        point(&results.join("latest"), &Path::new(system).join(&cell).join(&name))?;
        Ok(run)
    }

    /// Finds a run by its path, by the end of its name (its id), or as `latest`.
    pub fn find(results: &Path, wanted: &str) -> Result<Self, RunFolderError> {
        let as_path = Path::new(wanted);
        for candidate in [as_path.to_owned(), results.join(wanted)] {
            if candidate.join("status").is_file() || candidate.join("plan.json").is_file() {
                let path = candidate.canonicalize().unwrap_or(candidate);
                return Ok(Self { path });
            }
        }
        let mut found: Vec<PathBuf> = Vec::new();
        for system in folders(results) {
            for cell in folders(&system) {
                found.extend(folders(&cell).into_iter().filter(|run| {
                    run.file_name().is_some_and(|name| name.to_string_lossy().ends_with(wanted))
                        && run.join("status").is_file()
                }));
            }
        }
        match found.len() {
            0 => Err(RunFolderError::NotFound {
                wanted: wanted.to_owned(),
                results: results.to_owned(),
            }),
            1 => Ok(Self { path: found.remove(0) }),
            _ => Err(RunFolderError::Ambiguous {
                wanted: wanted.to_owned(),
                candidates: found.iter().map(|path| path.display().to_string()).collect(),
            }),
        }
    }

    /// What a command finds this run by: its id where that is looked for without `--results`, else its path.
    pub fn handle(&self, id: &str) -> String {
        let results =
            std::env::var_os(RESULTS_VARIABLE).map_or_else(|| RESULTS.into(), PathBuf::from);
        let real = |path: &Path| path.canonicalize().ok();
        match Self::find(&results, id) {
            Ok(found) if real(&found.path) == real(&self.path) => id.to_owned(),
            _ => self.path.display().to_string(),
        }
    }

    /// Keeps others from writing into the folder.
    ///
    /// # Errors
    /// If somebody else holds it: a run that is still going on, or a check.
    pub fn hold(&self) -> Result<Held, RunFolderError> {
        let path = self.file(".lock");
        let open = File::create(&path);
        let file = open.map_err(|source| RunFolderError::Io { action: "create", path, source })?;
        match file.try_lock() {
            Ok(()) => Ok(Held(file)),
            Err(TryLockError::WouldBlock) => Err(RunFolderError::Busy { path: self.path.clone() }),
            Err(TryLockError::Error(source)) => {
                Err(RunFolderError::Io { action: "lock", path: self.path.clone(), source })
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The history: sealed if it was, else the one that was being recorded.
    pub fn history(&self) -> PathBuf {
        let sealed = self.file("history.jsonl.zst");
        if sealed.is_file() { sealed } else { self.file("history.jsonl") }
    }

    /// Writes a file whole.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), RunFolderError> {
        let path = self.file(name);
        let beside = path.with_file_name(format!(
            ".{}.new",
            path.file_name().map(|n| n.to_string_lossy()).unwrap_or_default()
        ));
        let write = || -> io::Result<()> {
            let mut file = File::create(&beside)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&beside, &path)
        };
        write().map_err(|source| RunFolderError::Io { action: "write", path, source })
    }

    /// Writes a value as indented JSON.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), RunFolderError> {
        let mut bytes = serde_json::to_vec_pretty(value).expect("our own types serialise");
        bytes.push(b'\n');
        self.write(name, &bytes)
    }

    /// Enters the next phase.
    pub fn set_status(&self, status: Status) -> Result<(), RunFolderError> {
        self.write("status", format!("{}\n", status.as_str()).as_bytes())
    }

    /// The phase it is in; a folder without a readable status is still `running`.
    pub fn status(&self) -> Status {
        fs::read_to_string(self.file("status"))
            .ok()
            .and_then(|word| Status::parse(&word))
            .unwrap_or(Status::Running)
    }
}

fn make(path: &Path) -> Result<(), RunFolderError> {
    fs::create_dir_all(path).map_err(|source| RunFolderError::Io {
        action: "make the folder",
        path: path.to_owned(),
        source,
    })
}

/// Points a symbolic link somewhere else, in one step.
fn point(link: &Path, target: &Path) -> Result<(), RunFolderError> {
    let beside = link.with_file_name(format!(".latest.{}", std::process::id()));
    let _ = fs::remove_file(&beside);
    symlink(target, &beside).and_then(|()| fs::rename(&beside, link)).map_err(|source| {
        RunFolderError::Io { action: "make the link", path: link.to_owned(), source }
    })
}

/// The folders in a folder, sorted; none if it cannot be read.
fn folders(path: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && !path.is_symlink())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(results: &Path, id: &str) -> RunFolder {
        let start = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        RunFolder::create(results, "store", "register+kill", start, id).unwrap()
    }

    #[test]
    fn a_run_is_found_by_path_by_id_and_as_latest() {
        let results = tempfile::tempdir().unwrap();
        let old = run(results.path(), "aaaa");
        let new = run(results.path(), "bbbb");
        for (wanted, expected) in [
            (old.path().to_str().unwrap(), &old),
            ("aaaa", &old),
            ("bbbb", &new),
            ("latest", &new),
            ("store/register+kill/latest", &new),
        ] {
            let found = RunFolder::find(results.path(), wanted).unwrap();
            assert_eq!(
                found.path().canonicalize().unwrap(),
                expected.path().canonicalize().unwrap(),
                "{wanted}"
            );
        }
        let missing = RunFolder::find(results.path(), "cccc").unwrap_err();
        assert!(matches!(missing, RunFolderError::NotFound { .. }));
    }

    #[test]
    fn every_cell_is_one_folder() {
        let results = tempfile::tempdir().unwrap();
        for cell in ["log+partition:primaries/n1+n2@tcp/80".to_owned(), "ü".repeat(200)] {
            let start = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
            let run = RunFolder::create(results.path(), "store", &cell, start, "aaaa").unwrap();
            let above = run.path().ancestors().nth(3);
            assert_eq!(above, Some(results.path()), "{cell}");
        }
    }

    #[test]
    fn a_name_that_fits_two_runs_is_refused() {
        let results = tempfile::tempdir().unwrap();
        run(results.path(), "1aaa");
        run(results.path(), "2aaa");
        let error = RunFolder::find(results.path(), "aaa").unwrap_err();
        assert!(
            matches!(error, RunFolderError::Ambiguous { candidates, .. } if candidates.len() == 2)
        );
    }

    #[test]
    fn the_status_follows_the_phases() {
        let results = tempfile::tempdir().unwrap();
        let run = run(results.path(), "aaaa");
        assert_eq!(run.status(), Status::Running);
        run.set_status(Status::Analysed).unwrap();
        assert_eq!(run.status(), Status::Analysed);
    }

    #[test]
    fn a_folder_is_held_by_one_at_a_time() {
        let results = tempfile::tempdir().unwrap();
        let run = run(results.path(), "aaaa");
        let held = run.hold().unwrap();
        assert!(matches!(run.hold(), Err(RunFolderError::Busy { .. })));
        drop(held);
        run.hold().unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let results = tempfile::tempdir().unwrap();
        let run = run(results.path(), "aaaa");
        let error = run.write("missing/folder.json", b"").unwrap_err().to_string();
        assert!(error.contains("missing/folder.json"), "{error}");
    }
}
