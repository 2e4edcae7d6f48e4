//! A disk is full: a file of ours takes all that is left of it, and what is freed meanwhile.
//!
//! A store that ends for it is started again when the disk has room.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::filesystem::FileSystem;
use crate::tool::run_script;
use crate::{Failure, Home, Primitive, Result, Sight};

/// What a program could not write any more counts as full, in bytes.
const PROBE: usize = 64 << 10;

/// How much is taken at once, and how little is still taken.
const CHUNK: u64 = 1 << 30;
const CRUMB: u64 = 4 << 10;

/// How often what was freed is taken.
const TAKE_EVERY: Duration = Duration::from_millis(50);

/// Fills the disk that holds a store's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskFull {
    /// Where its data is.
    pub data: PathBuf,
    /// An idempotent script for `/bin/sh` that starts it again and does not wait for it.
    pub start: Option<String>,
}

/// What takes the room, and what may have to be started again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filled {
    file_system: FileSystem,
    start: Option<String>,
}

impl Filled {
    fn filler(&self) -> PathBuf {
        self.file_system.point.join(".deposed-full")
    }

    fn probe(&self) -> PathBuf {
        self.file_system.point.join(".deposed-probe")
    }

    /// Takes what is left.
    fn fill(&self) -> io::Result<()> {
        let file = File::options().create(true).append(true).open(self.filler())?;
        let (mut chunk, mut length) = (CHUNK, file.metadata()?.len());
        while chunk >= CRUMB {
            match fallocate(&file, FallocateFlags::empty(), length as i64, chunk as i64) {
                Ok(()) => length += chunk,
                Err(Errno::ENOSPC) => chunk /= 2,
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Tries to write as a program would.
    fn try_write(&self) -> io::Result<()> {
        let written = File::create(self.probe())
            .and_then(|mut file| file.write_all(&[0x55; PROBE]).and_then(|()| file.sync_all()));
        let _ = fs::remove_file(self.probe());
        written
    }
}

impl Primitive for DiskFull {
    type Undo = Filled;

    const SURVIVES_REBOOT: bool = true;
    const HELD: bool = true;

    fn plan(&self, home: &Home) -> Result<Filled> {
        let refused =
            |reason| Failure::new(format!("fill the disk of {}", self.data.display()), reason);
        let file_system = FileSystem::of(&self.data).map_err(refused)?;
        if [home.volatile(), home.lasting()].iter().any(|path| path.starts_with(&file_system.point))
        {
            return Err(refused("the agent keeps its own records there".to_owned()));
        }
        Ok(Filled { file_system, start: self.start.clone() })
    }

    fn apply(&self, undo: &Filled) -> Result<()> {
        undo.fill()
            .map_err(|error| Failure::new(format!("fill {}", undo.filler().display()), error))
    }

    fn hold(&self, undo: &Filled, ready: &Path) -> Result<()> {
        File::create(ready).map_err(|error| Failure::new("say that the disk is full", error))?;
        loop {
            self.apply(undo)?;
            std::thread::sleep(TAKE_EVERY);
        }
    }

    fn prove(&self, undo: &Filled) -> Result<Sight> {
        // What was freed this very moment is taken the next.
        let mut written = undo.try_write();
        for _ in 0..20 {
            if written.is_err() {
                break;
            }
            std::thread::sleep(TAKE_EVERY);
            written = undo.try_write();
        }
        let taken = fs::metadata(undo.filler()).map_or(0, |found| found.len());
        let full = matches!(&written, Err(error) if error.raw_os_error() == Some(libc::ENOSPC));
        Ok(Sight {
            holds: full,
            summary: match written {
                Err(error) if !full => error.to_string(),
                Err(_) => format!("{} MiB taken, no room for {} KiB", taken >> 20, PROBE >> 10),
                Ok(()) => format!("there still was room for {} KiB", PROBE >> 10),
            },
            figures: json!({ "taken": taken }),
        })
    }

    fn undo(undo: &Filled) -> Result<()> {
        match fs::remove_file(undo.filler()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Failure::new(format!("remove {}", undo.filler().display()), error));
            }
            _ => {}
        }
        undo.start.as_deref().map_or(Ok(()), run_script)
    }

    fn prove_undone(undo: &Filled) -> Result<Sight> {
        let written = undo.try_write();
        let holds = written.is_ok() && !undo.filler().exists();
        Ok(Sight {
            holds,
            summary: match written {
                Ok(()) if holds => "the disk takes writes".into(),
                Ok(()) => "what filled the disk is still there".into(),
                Err(error) => error.to_string(),
            },
            figures: json!({}),
        })
    }
}
