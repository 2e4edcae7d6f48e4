//! What has to be undone on this node: a file for each injection, written and synced before
//! anything is applied, removed when it was seen to be gone.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::{Failure, Home, Result, Spec, Undo};

/// One injection that may be in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Unique among the injections of a run: `pause-3`.
    pub name: String,
    /// What was asked for.
    pub spec: Spec,
    /// How to undo it.
    pub undo: Undo,
}

/// The journal of a node, with the right to change it for as long as it lives: agents, the keeper and
/// a heal never work at once.
pub struct Journal {
    home: Home,
    _lock: Flock<File>,
}

impl Journal {
    /// Waits for whoever is changing the journal, and takes it.
    ///
    /// # Errors
    /// If its folder cannot be made or locked.
    pub fn lock(home: &Home) -> Result<Self> {
        let path = home.volatile().join("lock");
        let open = || {
            fs::create_dir_all(home.volatile())?;
            let file = File::options().create(true).truncate(false).write(true).open(&path)?;
            Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| io::Error::from(errno))
        };
        let lock =
            open().map_err(|error| Failure::new(format!("lock {}", path.display()), error))?;
        Ok(Self { home: home.clone(), _lock: lock })
    }

    /// Every injection that may be in force, oldest first.
    ///
    /// # Errors
    /// If a record cannot be read; names it. It is left alone then.
    pub fn records(&self) -> Result<Vec<Record>> {
        let mut found = Vec::new();
        for folder in [self.home.volatile(), self.home.lasting()].map(faults) {
            let read = |error: &dyn std::fmt::Display| {
                Failure::new(format!("read the journal {}", folder.display()), error)
            };
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(read(&error)),
            };
            for entry in entries {
                let path = entry.map_err(|error| read(&error))?.path();
                if path.extension().is_none_or(|extension| extension != "json") {
                    continue;
                }
                let text = fs::read(&path).map_err(|error| read(&error))?;
                let written = fs::metadata(&path).and_then(|data| data.modified()).ok();
                let record: Record = serde_json::from_slice(&text)
                    .map_err(|error| read(&format!("{} is no record: {error}", path.display())))?;
                found.push((written, record));
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.name.cmp(&b.1.name)));
        Ok(found.into_iter().map(|(_, record)| record).collect())
    }

    /// Records, durably, what is about to be applied.
    ///
    /// # Errors
    /// If it cannot be written; then nothing may be applied.
    pub fn write(&self, record: &Record) -> Result<()> {
        let path = self.path(record);
        let write = || {
            let folder = path.parent().unwrap_or(Path::new("/"));
            fs::create_dir_all(folder)?;
            let part = path.with_extension("part");
            let mut file = File::create(&part)?;
            file.write_all(&serde_json::to_vec(record)?)?;
            file.sync_all()?;
            fs::rename(&part, &path)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|error| Failure::new(format!("write {}", path.display()), error))
    }

    /// Forgets what was seen to be gone.
    ///
    /// # Errors
    /// If the record cannot be removed; then it is undone once more, in vain.
    pub fn forget(&self, record: &Record) -> Result<()> {
        let path = self.path(record);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::new(format!("remove {}", path.display()), error))
            }
            _ => Ok(()),
        }
    }

    /// Where this journal lies.
    pub fn home(&self) -> &Home {
        &self.home
    }

    fn path(&self, record: &Record) -> PathBuf {
        let survives = record.spec.survives_reboot();
        let folder = if survives { self.home.lasting() } else { self.home.volatile() };
        faults(folder).join(format!("{}.json", record.name))
    }
}

fn faults(folder: &Path) -> PathBuf {
    folder.join("faults")
}
