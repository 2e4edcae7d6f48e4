//! The data of a store is damaged while it is down: a bit is flipped, a file is cut short, or all of it is
//! gone.
//!
//! Whoever heals starts the store on what is there first, for that is the fault, and waits whether it gets ready.
//! One that runs when the damage is undone is left with it. One that does not, because it gave up or because nobody
//! is there any more who would wait (a wiped member may fall over its peers long after its start), is given back what
//! it had: the bit, the end of the file, the folder, which were put aside. They lie beside the folder of its data until
//! then.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::tool::run_script;
use crate::{Failure, Home, Primitive, Result, Sight};

/// The most that is cut off, in bytes.
const CUT_MAX: u64 = 64 << 10;

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

/// What was changed, written down before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Change {
    /// A byte of a file.
    Byte { file: PathBuf, offset: u64, was: u8, is: u8 },
    /// The length of a file. What was cut off lies in a file beside this note.
    Length { file: PathBuf, was: u64, is: u64 },
    /// Everything; it lies beside this note.
    Everything { files: usize },
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

impl Damaged {
    fn note(&self) -> PathBuf {
        self.aside.join("change.json")
    }

    fn cut_off(&self) -> PathBuf {
        self.aside.join("end")
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
                && length(&self.data.join(file)).is_ok_and(|length| length > 0)
        });
        if files.is_empty() {
            return Err(io::Error::other(format!("no file that is not empty fits `{pattern}`")));
        }
        let file = self.data.join(&files[dice.below(files.len() as u64) as usize]);
        let was = length(&file)?;
        let open = File::options().read(true).write(true).open(&file)?;
        if let Harm::Flip { .. } = harm {
            let offset = dice.below(was);
            let byte = byte_at(&file, offset)?;
            let is = byte ^ (1 << dice.below(8));
            self.put_down(&Change::Byte { file, offset, was: byte, is })?;
            open.write_all_at(&[is], offset)?;
        } else {
            let is = was - 1 - dice.below(was.min(CUT_MAX));
            let mut end = vec![0; (was - is) as usize];
            open.read_exact_at(&mut end, is)?;
            write_synced(&self.cut_off(), &end)?;
            self.put_down(&Change::Length { file, was, is })?;
            open.set_len(is)?;
        }
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

    /// Puts back what was changed, as far as nobody has changed it since.
    fn put_back(&self) -> io::Result<()> {
        match self.change() {
            Some(Change::Byte { file, offset, was, is })
                if byte_at(&file, offset).is_ok_and(|byte| byte == is) =>
            {
                let file = File::options().write(true).open(file)?;
                file.write_all_at(&[was], offset)?;
                file.sync_all()?;
            }
            Some(Change::Length { file, is, .. })
                if length(&file).is_ok_and(|length| length == is) =>
            {
                let end = fs::read(self.cut_off())?;
                let file = File::options().write(true).open(file)?;
                file.write_all_at(&end, is)?;
                file.sync_all()?;
            }
            // In two steps, each whole, so that it can be gone on with from anywhere.
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
            Some(Change::Byte { file, offset, was, is }) => (
                byte_at(file, *offset).is_ok_and(|byte| byte == *is),
                format!("byte {offset} of {} is {is:#04x} and was {was:#04x}", file.display()),
            ),
            Some(Change::Length { file, was, is }) => (
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

    fn undo(undo: &Damaged) -> Result<()> {
        if undo.aside.exists() {
            if !undo.runs() {
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
