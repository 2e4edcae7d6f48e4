//! A layer over the folder of a store's data: a file system of our own (FUSE) that passes everything
//! through until trouble is wanted.
//!
//! A process keeps what it has open, so the store is stopped before the layer is mounted and started on
//! it; and stopped again before it is taken away. While it lies there it changes nothing but time: the
//! holder of the fault answers each request with what lies beneath. When that process dies, requests fail
//! at once (`ENOTCONN`) rather than hang, and undoing unmounts what is left of it.

mod pass_through;
mod server;
mod wire;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, umount, umount2};
use nix::sys::stat::{Mode, umask};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::server::{Notes, Server};
use crate::tool::run_script;
use crate::{Failure, Home, Primitive, Result, Sight};

/// The type of its file system, as mounts name it.
const KIND: &str = "fuse.deposed";

/// How long a layer may take to make the trouble that is wanted.
const TROUBLE_WITHIN: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Lays a layer over a store's data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Where its data is.
    pub data: PathBuf,
    /// An idempotent script for `/bin/sh` that kills the store and returns when it is gone.
    pub stop: String,
    /// One that starts it and does not wait for it.
    pub start: String,
}

/// What is to be taken away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Laid {
    data: PathBuf,
    notes: Notes,
    stop: String,
    start: String,
}

/// The notes of the layer over some data.
fn notes(home: &Home, data: &Path) -> Notes {
    let name = data.to_string_lossy().trim_matches('/').replace('/', "-");
    Notes(home.volatile().join("layers").join(name))
}

/// How many layers lie over a folder.
fn layers(data: &Path) -> usize {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let is_one = |line: &&str| {
        let words: Vec<&str> = line.split(' ').collect();
        matches!(words[..], [_, point, KIND, ..] if Path::new(&point.replace("\\040", " ")) == data)
    };
    mounts.lines().filter(is_one).count()
}

impl Primitive for Layer {
    type Undo = Laid;

    const HELD: bool = true;

    fn plan(&self, home: &Home) -> Result<Laid> {
        let failed = |reason: &dyn std::fmt::Display| {
            Failure::new(format!("lay a layer over {}", self.data.display()), reason)
        };
        let data = fs::canonicalize(&self.data).map_err(|error| failed(&error))?;
        let device = File::options().read(true).write(true).open("/dev/fuse");
        device
            .map_err(|error| failed(&format!("/dev/fuse: {error}; is the module fuse loaded?")))?;
        if layers(&data) > 0 {
            return Err(failed(&"there is one already"));
        }
        if [home.volatile(), home.lasting()].iter().any(|path| path.starts_with(&data)) {
            return Err(failed(&"the agent keeps its own records there"));
        }
        let notes = notes(home, &data);
        Ok(Laid { data, notes, stop: self.stop.clone(), start: self.start.clone() })
    }

    fn apply(&self, undo: &Laid) -> Result<()> {
        undo.notes.remove().map_err(|error| Failure::new("remove old notes", error))?;
        run_script(&undo.stop)
    }

    fn hold(&self, undo: &Laid, ready: &Path) -> Result<()> {
        let failed = |what: &str, error: io::Error| {
            Failure::new(format!("{what} {}", undo.data.display()), error)
        };
        let server =
            Server::mount(&undo.data).map_err(|error| failed("mount a layer over", error))?;
        let server = Arc::new(server);
        // Modes are masked before they are sent here.
        let mask = umask(Mode::empty()).bits();
        server.serve();
        run_script(&format!("umask {mask:04o}\n{}", undo.start))?;
        fs::write(ready, "").map_err(|error| failed("say that a layer is over", error))?;
        server.watch(&undo.notes).map_err(|error| failed("keep notes of the layer over", error))
    }

    fn prove(&self, undo: &Laid) -> Result<Sight> {
        let layers = layers(&undo.data);
        Ok(Sight {
            holds: layers == 1,
            summary: format!("{layers} layers over {}", undo.data.display()),
            figures: json!({}),
        })
    }

    /// The store must not see its disk vanish: it is killed first.
    fn release(undo: &Laid) -> Result<()> {
        run_script(&undo.stop)?;
        umount(&undo.data)
            .map_err(|errno| Failure::new(format!("unmount {}", undo.data.display()), errno))
    }

    fn undo(undo: &Laid) -> Result<()> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            Failure::new(format!("{what} {}", undo.data.display()), error)
        };
        if layers(&undo.data) > 0 {
            run_script(&undo.stop)?;
        }
        while layers(&undo.data) > 0 {
            // Nobody answers there any more: an ordinary end might wait for ever.
            umount2(&undo.data, MntFlags::MNT_DETACH).map_err(|e| failed("unmount", &e))?;
        }
        undo.notes.remove().map_err(|e| failed("remove notes on", &e))?;
        run_script(&undo.start)
    }

    fn prove_undone(undo: &Laid) -> Result<Sight> {
        let layers = layers(&undo.data);
        Ok(Sight {
            holds: layers == 0,
            summary: format!("{layers} layers over {}", undo.data.display()),
            figures: json!({}),
        })
    }
}

/// What is done to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Reads of what the kernel does not remember; when trouble begins it remembers nothing.
    Read,
    /// Whatever changes files and folders.
    Write,
    /// Syncs of either.
    Fsync,
}

impl Use {
    /// `read`, `write`, `fsync`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Fsync => "fsync",
        }
    }
}

/// Trouble with the data of a store that runs on a [`Layer`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// Where the data is.
    pub data: PathBuf,
    /// What fails, with `EIO`.
    pub fail: Vec<Use>,
    /// How long each sync waits before it is done, in milliseconds.
    pub fsync_ms: u64,
}

/// Whom to tell that there is to be no trouble any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Troubled {
    data: PathBuf,
    notes: Notes,
}

impl Troubled {
    /// A file of ours, to be read and written.
    fn probe(&self) -> PathBuf {
        self.data.join(".deposed-probe")
    }

    /// Whether there is a layer, and somebody who answers for it.
    fn answers(&self) -> bool {
        let listed = fs::read_dir(&self.data);
        let dead = [Some(libc::ENOTCONN), Some(libc::ECONNABORTED)];
        let is_dead = listed.is_err_and(|error| dead.contains(&error.raw_os_error()));
        layers(&self.data) > 0 && !is_dead
    }

    /// Has the layer make this trouble, and waits until it does.
    fn have(&self, trouble: &Trouble) -> Result<()> {
        let failed = |reason: &dyn std::fmt::Display| {
            Failure::new(format!("tell the layer over {}", self.data.display()), reason)
        };
        self.notes.want(trouble).map_err(|error| failed(&error))?;
        let end = Instant::now() + TROUBLE_WITHIN;
        while self.answers() && self.notes.state().trouble != *trouble {
            if Instant::now() > end {
                return Err(failed(&format!("it did not act within {TROUBLE_WITHIN:?}")));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Does what a program would, and says what came of it and how long it took.
    fn try_out(&self, what: Use) -> (io::Result<()>, Duration) {
        let start = Instant::now();
        let done = match what {
            Use::Read => fs::read(self.probe()).map(drop),
            Use::Write => File::options()
                .write(true)
                .open(self.probe())
                .and_then(|mut file| file.write_all(b"probe")),
            Use::Fsync => File::open(self.probe()).and_then(|file| file.sync_all()),
        };
        (done, start.elapsed())
    }
}

impl Primitive for Trouble {
    type Undo = Troubled;

    // A file of ours is on the disk.
    const SURVIVES_REBOOT: bool = true;

    fn plan(&self, home: &Home) -> Result<Troubled> {
        let failed = |reason: &dyn std::fmt::Display| {
            Failure::new(format!("make trouble in {}", self.data.display()), reason)
        };
        let data = fs::canonicalize(&self.data).map_err(|error| failed(&error))?;
        if layers(&data) == 0 {
            return Err(failed(&"no layer lies over it"));
        }
        let notes = notes(home, &data);
        Ok(Troubled { data, notes })
    }

    fn apply(&self, undo: &Troubled) -> Result<()> {
        fs::write(undo.probe(), b"probe")
            .map_err(|error| Failure::new(format!("write {}", undo.probe().display()), error))?;
        undo.have(self)
    }

    fn prove(&self, undo: &Troubled) -> Result<Sight> {
        let mut doubts = Vec::new();
        for what in &self.fail {
            match undo.try_out(*what).0 {
                Err(error) if error.raw_os_error() == Some(libc::EIO) => {}
                Err(error) => doubts.push(format!("{what:?} fails otherwise: {error}")),
                Ok(()) => doubts.push(format!("{what:?} still works")),
            }
        }
        let mut took_ms = 0;
        if self.fsync_ms > 0 {
            let (done, took) = undo.try_out(Use::Fsync);
            took_ms = took.as_millis() as u64;
            if let Err(error) = done {
                doubts.push(format!("a sync fails: {error}"));
            } else if took_ms < self.fsync_ms {
                doubts.push(format!("a sync takes {took_ms} ms only"));
            }
        }
        let hurt = undo.notes.state().hurt;
        let told = match self.fsync_ms {
            0 => {
                let uses: Vec<&str> = self.fail.iter().map(|what| what.as_str()).collect();
                format!("input/output errors of {}: the store met {hurt}", uses.join(", "))
            }
            _ => format!("a sync takes {took_ms} ms: the store waited for {hurt}"),
        };
        Ok(Sight {
            holds: doubts.is_empty(),
            summary: if doubts.is_empty() { told } else { doubts.join("; ") },
            figures: json!({ "hurt": hurt, "sync_ms": took_ms }),
        })
    }

    fn undo(undo: &Troubled) -> Result<()> {
        if undo.answers() {
            undo.have(&Trouble::default())?;
        }
        match fs::remove_file(undo.probe()) {
            Err(error) if undo.answers() && error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::new(format!("remove {}", undo.probe().display()), error))
            }
            _ => Ok(()),
        }
    }

    fn prove_undone(undo: &Troubled) -> Result<Sight> {
        let quiet = !undo.answers() || undo.notes.state().trouble == Trouble::default();
        Ok(Sight {
            holds: quiet,
            summary: if quiet { "no trouble any more" } else { "there still is trouble" }.into(),
            figures: json!({}),
        })
    }
}
