//! Serves a folder through a file system of our own that is mounted over it, and makes trouble there.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use serde::{Deserialize, Serialize};

use super::pass_through::PassThrough;
use super::wire::{REQUEST_MAX, Reply, Request, opcode};
use super::{KIND, Trouble, Use};

/// How many requests are worked on at once, besides syncs, which have threads of their own.
const WORKERS: usize = 4;

/// How often it is looked whether trouble is wanted.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What the server says of itself, for as long as it lives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// The trouble in force.
    pub(super) trouble: Trouble,
    /// How many requests for files of others failed for it, or had to wait, since it is in force.
    pub(super) hurt: u64,
}

/// A folder of notes between the server and whoever wants trouble.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Notes(pub(super) PathBuf);

impl Notes {
    fn read<T: Default + for<'a> Deserialize<'a>>(&self, name: &str) -> T {
        let text = fs::read(self.0.join(name)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn write<T: Serialize>(&self, name: &str, what: &T) -> io::Result<()> {
        let part = self.0.join(format!("{name}.part"));
        fs::create_dir_all(&self.0)?;
        fs::write(&part, serde_json::to_vec(what)?)?;
        fs::rename(part, self.0.join(name))
    }

    pub(super) fn wanted(&self) -> Trouble {
        self.read("wanted")
    }

    pub(super) fn want(&self, trouble: &Trouble) -> io::Result<()> {
        self.write("wanted", trouble)
    }

    pub(super) fn state(&self) -> State {
        self.read("state")
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// A server.
pub(super) struct Server {
    device: File,
    files: PassThrough,
    trouble: Mutex<Trouble>,
    /// Wakes those that wait for trouble to pass.
    changed: Condvar,
    hurt: AtomicU64,
}

impl Server {
    /// Mounts a layer over a folder. Requests wait until [`Server::serve`].
    pub(super) fn mount(folder: &Path) -> io::Result<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse")?;
        let mode = fs::metadata(folder)?.mode();
        let files = PassThrough::new(folder)?;
        let options = format!(
            "fd={},rootmode={mode:o},user_id=0,group_id=0,default_permissions,allow_other",
            device.as_raw_fd()
        );
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("deposed"), folder, Some(KIND), flags, Some(&*options))?;
        Ok(Self {
            device,
            files,
            trouble: Mutex::default(),
            changed: Condvar::new(),
            hurt: AtomicU64::new(0),
        })
    }

    /// Answers requests in threads that end with the process or the mount.
    pub(super) fn serve(self: &Arc<Self>) {
        for _ in 0..WORKERS {
            let server = Arc::clone(self);
            std::thread::spawn(move || server.work());
        }
    }

    /// Makes the trouble that is wanted, and says what came of it. Does not return.
    pub(super) fn watch(&self, notes: &Notes) -> io::Result<()> {
        let mut said = None;
        loop {
            let wanted = notes.wanted();
            let changed = wanted != *self.current();
            if changed {
                self.hurt.store(0, Ordering::Relaxed);
                *self.current() = wanted.clone();
                self.changed.notify_all();
                if wanted.fail.contains(&Use::Read) {
                    self.forget_contents();
                }
            }
            let state = State { trouble: wanted, hurt: self.hurt.load(Ordering::Relaxed) };
            if said.as_ref() != Some(&state) {
                notes.write("state", &state)?;
                said = Some(state);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn current(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the kernel read anew what it remembers of every file.
    fn forget_contents(&self) {
        for node in self.files.nodes() {
            // A file that nobody has open has no contents to forget.
            let _ = (&self.device).write(&Reply::forget_contents(node));
        }
    }

    fn work(self: Arc<Self>) {
        let mut buffer = vec![0; REQUEST_MAX];
        loop {
            let length = match (&self.device).read(&mut buffer) {
                Ok(length) => length,
                // Nobody waits for this request any more.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => continue,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // It is not mounted any more.
                Err(_) => return,
            };
            let message = &buffer[..length];
            let is_sync =
                Request::parse(message).is_ok_and(|request| use_of(&request) == Some(Use::Fsync));
            if is_sync {
                let (server, message) = (Arc::clone(&self), message.to_vec());
                std::thread::spawn(move || server.answer(&message));
            } else {
                self.answer(message);
            }
        }
    }

    fn answer(&self, message: &[u8]) {
        let Ok(request) = Request::parse(message) else { return };
        let done = self.hinder(&request).and_then(|()| self.files.answer(&request));
        if request.is_silent() {
            return;
        }
        let answer = match done {
            Ok(reply) => reply.message(request.unique),
            Err(error) => Reply::error(request.unique, error.raw_os_error().unwrap_or(libc::EIO)),
        };
        // Whoever asked may have been killed meanwhile.
        let _ = (&self.device).write(&answer);
    }

    /// Fails a request, or has it wait, if there is to be trouble with its like.
    fn hinder(&self, request: &Request<'_>) -> io::Result<()> {
        let Some(what) = use_of(request) else { return Ok(()) };
        let (start, mut trouble) = (Instant::now(), self.current());
        let fails = trouble.fail.contains(&what);
        let waits = what == Use::Fsync && trouble.fsync_ms > 0;
        if (fails || waits) && !self.files.is_ours(request.node) {
            self.hurt.fetch_add(1, Ordering::Relaxed);
        }
        if fails {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        loop {
            let left = Duration::from_millis(trouble.fsync_ms).saturating_sub(start.elapsed());
            if what != Use::Fsync || left.is_zero() {
                return Ok(());
            }
            let waited = self.changed.wait_timeout(trouble, left);
            trouble = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// What a request is for, as far as there may be trouble with it.
fn use_of(request: &Request<'_>) -> Option<Use> {
    let truncates = |flags: u32| flags & libc::O_TRUNC as u32 != 0;
    match request.opcode {
        opcode::OPEN if request.body.clone().u32().is_ok_and(truncates) => Some(Use::Write),
        opcode::READ | opcode::READDIR | opcode::READLINK => Some(Use::Read),
        opcode::WRITE
        | opcode::CREATE
        | opcode::SETATTR
        | opcode::MKNOD
        | opcode::MKDIR
        | opcode::SYMLINK
        | opcode::LINK
        | opcode::UNLINK
        | opcode::RMDIR
        | opcode::RENAME
        | opcode::RENAME2
        | opcode::FALLOCATE => Some(Use::Write),
        opcode::FSYNC | opcode::FSYNCDIR => Some(Use::Fsync),
        _ => None,
    }
}
