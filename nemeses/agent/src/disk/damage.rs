//! The data of a store is damaged while it is down: a bit is flipped, a file is cut short, or all of it is
//! gone.
//!
//! A controller that heals starts the store on what is there first, for that is the fault, and waits whether it
//! gets ready. One that runs when it then asks for the undo is left with what it has. One that does not gave up, and is
//! given back what it had: the file or the folder that was put aside, beside the folder of its data. So is one of which
//! no controller waited whether it gets ready (a wiped member may fall over its peers long after its start), unless it
//! runs and has written to the damaged file since: then it made it its own.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::tool::run_script;
use crate::{Failure, Home, Primitive, Result, Sight};

/// The most that is cut off of what a file holds, in bytes.
const CUT_MAX: u64 = 64 << 10;

/// How much of a file is looked at at a time, in bytes.
const BLOCK: u64 = 64 << 10;

/// The most files that are looked at.
const FILES_MAX: usize = 100_000;

/// What is done to the data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Harm {
    /// A bit of a file is flipped.
    Flip {
        /// Which files: a path below the data in which `*` stands for anything and `?` for one letter.
        files: String,
    },
    /// The end of a file is cut off.
    Truncate {
        /// Which files.
        files: String,
    },
    /// All of it is gone.
    Wipe,
}

/// Damages the data of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// Where it is.
    pub data: PathBuf,
    /// How.
    pub harm: Harm,
    /// Chooses file and place.
    pub seed: u64,
    /// An idempotent script for `/bin/sh` that kills the store and returns when it is gone.
    pub stop: String,
    /// One that starts it and does not wait for it.
    pub start: String,
    /// One that succeeds if it runs.
    pub runs: String,
}

/// What the store may have to be given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damaged {
    data: PathBuf,
    aside: PathBuf,
    stop: String,
    start: String,
    runs: String,
}

/// What was changed, written down before. What was there lies beside this note.
///
/// As a disk that forgets, damage leaves the time at which a file was last written as it is: one that
/// differs says that the store has written since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Change {
    /// A byte of a file.
    Byte { file: PathBuf, written: SystemTime, offset: u64, was: u8, is: u8 },
    /// The length of a file.
    Length { file: PathBuf, written: SystemTime, was: u64, is: u64 },
    /// Everything.
    Everything { files: usize },
}

impl Change {
    /// Whether a file has been written to since it was damaged.
    fn was_written_over(&self) -> bool {
        match self {
            Self::Byte { file, written, .. } | Self::Length { file, written, .. } => {
                fs::metadata(file)
                    .and_then(|found| found.modified())
                    .is_ok_and(|now| now != *written)
            }
            Self::Everything { .. } => false,
        }
    }
}

/// A generator of numbers (splitmix64), good enough to choose.
struct Dice(u64);

impl Dice {
    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end.max(1)
    }
}

/// Whether a path fits a pattern of `*` and `?`.
fn fits(pattern: &[u8], path: &[u8]) -> bool {
    match (pattern.first(), path.first()) {
        (None, None) => true,
        (Some(b'*'), _) => {
            fits(&pattern[1..], path) || (!path.is_empty() && fits(pattern, &path[1..]))
        }
        (Some(b'?'), Some(_)) => fits(&pattern[1..], &path[1..]),
        (Some(a), Some(b)) if a == b => fits(&pattern[1..], &path[1..]),
        _ => false,
    }
}

/// Every file below a folder, by its path from there, in order.
fn files_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let (entry, path) = entry.map(|entry| (entry.file_type(), entry.path()))?;
            let kind = entry?;
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && files.len() < FILES_MAX {
                files.extend(path.strip_prefix(folder).map(Path::to_owned));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Writes a file and syncs it with its name.
fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn byte_at(file: &Path, offset: u64) -> io::Result<u8> {
    let mut byte = [0];
    File::open(file)?.read_exact_at(&mut byte, offset)?;
    Ok(byte[0])
}

fn length(file: &Path) -> io::Result<u64> {
    Ok(fs::metadata(file)?.len())
}

/// How much of a file is in use: stores allocate logs ahead, of which what follows is nothing but zeroes
/// that nobody reads.
fn used(file: &File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut block = vec![0; BLOCK as usize];
    while end > 0 {
        let start = (end - 1) / BLOCK * BLOCK;
        let block = &mut block[..(end - start) as usize];
        file.read_exact_at(block, start)?;
        if let Some(last) = block.iter().rposition(|&byte| byte != 0) {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Copies what a file has in use, and is as long, with its owner and rights; synced.
fn copy(from: &File, to: &Path) -> io::Result<()> {
    let found = from.metadata()?;
    let mut copy = File::create(to)?;
    io::copy(&mut from.take(used(from)?), &mut copy)?;
    copy.set_len(found.len())?;
    chown(to, Some(found.uid()), Some(found.gid()))?;
    copy.set_permissions(found.permissions())?;
    copy.set_modified(found.modified()?)?;
    copy.sync_all()
}

impl Damaged {
    fn note(&self) -> PathBuf {
        self.aside.join("change.json")
    }

    fn old_file(&self) -> PathBuf {
        self.aside.join("file")
    }

    fn old_data(&self) -> PathBuf {
        self.aside.join("data")
    }

    /// Says, for a moment, that the store was given back what it had.
    fn given_back(&self) -> PathBuf {
        self.aside.with_extension("given-back")
    }

    fn failed<E: std::fmt::Display>(&self, what: &str) -> impl Fn(E) -> Failure + use<E> {
        let attempted = format!("{what} {}", self.data.display());
        move |error| Failure::new(&attempted, error)
    }

    fn runs(&self) -> bool {
        run_script(&self.runs).is_ok()
    }

    /// What was changed, if anything was.
    fn change(&self) -> Option<Change> {
        serde_json::from_slice(&fs::read(self.note()).ok()?).ok()
    }

    /// Writes down what is about to be changed.
    fn put_down(&self, change: &Change) -> io::Result<()> {
        write_synced(&self.note(), &serde_json::to_vec(change)?)
    }

    /// Damages what is there, which nobody uses.
    fn damage(&self, harm: &Harm, dice: &mut Dice) -> io::Result<()> {
        fs::create_dir_all(&self.aside)?;
        let pattern = match harm {
            Harm::Wipe => return self.wipe(),
            Harm::Flip { files } | Harm::Truncate { files } => files,
        };
        let mut files = files_below(&self.data)?;
        files.retain(|file| {
            fits(pattern.as_bytes(), file.as_os_str().as_encoded_bytes())
                && File::open(self.data.join(file))
                    .and_then(|file| used(&file))
                    .is_ok_and(|n| n > 0)
        });
        if files.is_empty() {
            let reason = format!("no file that fits `{pattern}` has anything but zeroes in it");
            return Err(io::Error::other(reason));
        }
        let file = self.data.join(&files[dice.below(files.len() as u64) as usize]);
        let open = File::options().read(true).write(true).open(&file)?;
        copy(&open, &self.old_file())?;
        let (used, written) = (used(&open)?, open.metadata()?.modified()?);
        if let Harm::Flip { .. } = harm {
            let offset = dice.below(used);
            let was = byte_at(&file, offset)?;
            let is = was ^ (1 << dice.below(8));
            self.put_down(&Change::Byte { file, written, offset, was, is })?;
            open.write_all_at(&[is], offset)?;
        } else {
            let (was, is) = (length(&file)?, used - 1 - dice.below(used.min(CUT_MAX)));
            self.put_down(&Change::Length { file, written, was, is })?;
            open.set_len(is)?;
        }
        open.set_modified(written)?;
        open.sync_all()
    }

    fn wipe(&self) -> io::Result<()> {
        let found = fs::metadata(&self.data)?;
        self.put_down(&Change::Everything { files: files_below(&self.data)?.len() })?;
        fs::rename(&self.data, self.old_data())?;
        fs::create_dir(&self.data)?;
        chown(&self.data, Some(found.uid()), Some(found.gid()))?;
        fs::set_permissions(&self.data, Permissions::from_mode(found.mode() & 0o7777))
    }

    /// Puts back what was changed. Can be gone on with from anywhere.
    fn put_back(&self) -> io::Result<()> {
        match self.change() {
            Some(Change::Byte { file, .. } | Change::Length { file, .. })
                if self.old_file().exists() =>
            {
                // Beside it, where it can be put in place at once; the other one may be on another disk.
                let mut beside = file.clone().into_os_string();
                beside.push(".deposed-old");
                copy(&File::open(self.old_file())?, beside.as_ref())?;
                fs::rename(beside, &file)?;
                file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())?;
            }
            // In two steps, each whole.
            Some(Change::Everything { .. }) if self.old_data().exists() => {
                let new = self.aside.join("new");
                if self.data.exists() {
                    if new.exists() {
                        fs::remove_dir_all(&new)?;
                    }
                    fs::rename(&self.data, &new)?;
                }
                fs::rename(self.old_data(), &self.data)?;
            }
            _ => {}
        }
        Ok(())
    }
}

impl Primitive for Damage {
    type Undo = Damaged;

    const SURVIVES_REBOOT: bool = true;

    fn plan(&self, home: &Home) -> Result<Damaged> {
        let refused = |reason: &dyn std::fmt::Display| {
            Failure::new(format!("damage {}", self.data.display()), reason)
        };
        let data = fs::canonicalize(&self.data).map_err(|error| refused(&error))?;
        let (Some(beside), Some(name)) = (data.parent(), data.file_name()) else {
            return Err(refused(&"it is the root of the node's file systems"));
        };
        if [home.volatile(), home.lasting()].iter().any(|path| path.starts_with(&data)) {
            return Err(refused(&"the agent keeps its own records there"));
        }
        let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
        if self.harm == Harm::Wipe && device(&data) != device(beside) {
            return Err(refused(&"it is mounted by itself; let the store use a folder below it"));
        }
        let aside = beside.join(format!(".deposed-aside-{}", name.display()));
        let (stop, start, runs) = (self.stop.clone(), self.start.clone(), self.runs.clone());
        Ok(Damaged { data, aside, stop, start, runs })
    }

    fn apply(&self, undo: &Damaged) -> Result<()> {
        run_script(&undo.stop)?;
        undo.damage(&self.harm, &mut Dice(self.seed)).map_err(undo.failed("damage"))
    }

    fn prove(&self, undo: &Damaged) -> Result<Sight> {
        let change = undo.change();
        let (holds, summary) = match &change {
            None => (false, "nothing was changed".to_owned()),
            Some(Change::Byte { file, offset, was, is, .. }) => (
                byte_at(file, *offset).is_ok_and(|byte| byte == *is),
                format!("byte {offset} of {} is {is:#04x} and was {was:#04x}", file.display()),
            ),
            Some(Change::Length { file, was, is, .. }) => (
                length(file).is_ok_and(|length| length == *is),
                format!("{} has {is} bytes and had {was}", file.display()),
            ),
            Some(Change::Everything { files }) => (
                fs::read_dir(&undo.data).is_ok_and(|mut entries| entries.next().is_none()),
                format!("{} is empty and had {files} files", undo.data.display()),
            ),
        };
        Ok(Sight { holds, summary, figures: json!({ "change": change }) })
    }

    /// A store that runs got ready, or the controller would have stopped it.
    fn accept(undo: &Damaged) -> Result<()> {
        match undo.aside.exists() && undo.runs() {
            true => fs::remove_dir_all(&undo.aside).map_err(undo.failed("forget what was in")),
            false => Ok(()),
        }
    }

    fn undo(undo: &Damaged) -> Result<()> {
        if undo.aside.exists() {
            let its_own = undo.change().is_some_and(|change| change.was_written_over());
            if !(its_own && undo.runs()) {
                run_script(&undo.stop)?;
                undo.put_back().map_err(undo.failed("put back what was in"))?;
                let _ = fs::write(undo.given_back(), "");
            }
            fs::remove_dir_all(&undo.aside).map_err(undo.failed("forget what was in"))?;
        }
        run_script(&undo.start)
    }

    fn prove_undone(undo: &Damaged) -> Result<Sight> {
        let gone = !undo.aside.exists();
        let given_back = fs::remove_file(undo.given_back()).is_ok();
        Ok(Sight {
            holds: gone,
            summary: match (gone, given_back) {
                (false, _) => "what it had is still put aside",
                (true, true) => "it did not run on that and has what it had again",
                (true, false) => "it lives on what is left",
            }
            .into(),
            figures: json!({}),
        })
    }
}

#[cfg(test)]
mod tests {
    /// `*` stands for anything, folders too.
    #[test]
    fn patterns_fit() {
        let fits = |pattern: &str, path: &str| super::fits(pattern.as_bytes(), path.as_bytes());
        assert!(fits("*", "a/b") && fits("*.wal", "member/wal/0-0.wal") && fits("a?c", "abc"));
        assert!(!fits("*.wal", "a.wal.tmp") && !fits("a?c", "ac") && !fits("", "a"));
    }
}
