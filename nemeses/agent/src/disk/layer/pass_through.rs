//! A file system that is another one: every request is done to a folder that lies beneath.
//!
//! Each file the kernel knows of is held by a descriptor that only names it (`O_PATH`), and everything
//! is done through `/proc/self/fd`, so what lies beneath is reached although something is mounted over it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{
    DirBuilderExt, DirEntryExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt,
    lchown, symlink,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::fcntl::{AT_FDCWD, FallocateFlags, RenameFlags, fallocate, readlinkat, renameat2};
use nix::sys::stat::{Mode, SFlag, UtimensatFlags, mknod, utimensat};
use nix::sys::statvfs::fstatvfs;
use nix::sys::time::TimeSpec;

use super::wire::{Reply, Request, opcode};

/// The folder that is passed through, by the number the kernel has for it.
const ROOT: u64 = 1;

/// Files of our own are named so.
const OURS: &[u8] = b".deposed-";

/// A pass-through.
pub(super) struct PassThrough {
    tree: Mutex<Tree>,
    handles: Mutex<Handles>,
}

/// Files the kernel knows of.
struct Tree {
    nodes: HashMap<u64, Node>,
    /// By device and inode.
    numbers: HashMap<(u64, u64), u64>,
    last: u64,
}

struct Node {
    file: Arc<File>,
    /// How often the kernel was told of it and has not forgotten it.
    known: u64,
    key: (u64, u64),
    ours: bool,
}

/// What is open.
#[derive(Default)]
struct Handles {
    open: HashMap<u64, Arc<Open>>,
    last: u64,
}

struct Open {
    file: File,
    /// What is in it, if it is a folder: inode, type, name.
    entries: Mutex<Vec<(u64, u32, OsString)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A way to what a descriptor names, for as long as that is open.
fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Opens what only names a file, links too.
fn name_only(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)
}

/// Opens as a program asked, but for what only its own descriptor is to have.
fn open_as(path: &Path, flags: u32, mode: u32) -> io::Result<File> {
    let flags = flags.cast_signed();
    let access = flags & libc::O_ACCMODE;
    let kept =
        flags & (libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_SYNC | libc::O_DSYNC);
    OpenOptions::new()
        .read(access != libc::O_WRONLY)
        .write(access != libc::O_RDONLY)
        .custom_flags(kept)
        .mode(mode)
        .open(path)
}

impl PassThrough {
    /// Passes a folder through.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let file = name_only(folder)?;
        let found = file.metadata()?;
        let key = (found.dev(), found.ino());
        let root = Node { file: Arc::new(file), known: 1, key, ours: false };
        Ok(Self {
            tree: Mutex::new(Tree {
                nodes: HashMap::from([(ROOT, root)]),
                numbers: HashMap::from([(key, ROOT)]),
                last: ROOT,
            }),
            handles: Mutex::default(),
        })
    }

    /// Every file the kernel knows of.
    pub(super) fn nodes(&self) -> Vec<u64> {
        locked(&self.tree).nodes.keys().copied().collect()
    }

    /// Whether a file is one of ours.
    pub(super) fn is_ours(&self, node: u64) -> bool {
        locked(&self.tree).nodes.get(&node).is_some_and(|node| node.ours)
    }

    /// Does what is asked for.
    ///
    /// # Errors
    /// With what the program that asked is told.
    pub(super) fn answer(&self, request: &Request<'_>) -> io::Result<Reply> {
        let mut body = request.body;
        match request.opcode {
            opcode::INIT => Reply::init(body),
            opcode::LOOKUP => self.entry(request.node, body.name()?),
            opcode::FORGET => Ok(self.forget(request.node, body.u64()?)),
            opcode::BATCH_FORGET => {
                let count = body.u32()?;
                body.skip(4)?;
                for _ in 0..count {
                    let node = body.u64()?;
                    self.forget(node, body.u64()?);
                }
                Ok(Reply::default())
            }
            opcode::GETATTR => Ok(Reply::default().attr(&self.node(request.node)?.metadata()?)),
            opcode::SETATTR => self.set_attributes(request),
            opcode::READLINK => {
                let link = readlinkat(&*self.node(request.node)?, "")?;
                Ok(Reply::default().bytes(link.as_bytes()))
            }
            opcode::SYMLINK => {
                let (name, target) = (body.name()?, body.name()?);
                self.make(request, name, |path| symlink(target, path))
            }
            opcode::MKNOD => {
                let (mode, device) = (body.u32()?, body.u32()?);
                body.skip(8)?;
                let kind = SFlag::from_bits_truncate(mode & libc::S_IFMT);
                let mode = Mode::from_bits_truncate(mode);
                let name = body.name()?;
                self.make(request, name, |path| Ok(mknod(path, kind, mode, device.into())?))
            }
            opcode::MKDIR => {
                let mode = body.u32()?;
                body.skip(4)?;
                let name = body.name()?;
                self.make(request, name, |path| fs::DirBuilder::new().mode(mode).create(path))
            }
            opcode::UNLINK => {
                fs::remove_file(self.child(request.node, body.name()?)?.1)?;
                Ok(Reply::default())
            }
            opcode::RMDIR => {
                fs::remove_dir(self.child(request.node, body.name()?)?.1)?;
                Ok(Reply::default())
            }
            opcode::RENAME | opcode::RENAME2 => {
                let folder = body.u64()?;
                let mut flags = RenameFlags::empty();
                if request.opcode == opcode::RENAME2 {
                    flags = RenameFlags::from_bits_retain(body.u32()?);
                    body.skip(4)?;
                }
                let (_from, from) = self.child(request.node, body.name()?)?;
                let (_to, to) = self.child(folder, body.name()?)?;
                renameat2(AT_FDCWD, &from, AT_FDCWD, &to, flags)?;
                Ok(Reply::default())
            }
            opcode::LINK => {
                let old = self.node(body.u64()?)?;
                let name = body.name()?;
                let (_folder, path) = self.child(request.node, name)?;
                let follow = nix::fcntl::AtFlags::AT_SYMLINK_FOLLOW;
                nix::unistd::linkat(AT_FDCWD, &path_of(&old), AT_FDCWD, &path, follow)?;
                self.entry(request.node, name)
            }
            opcode::CREATE => {
                let (flags, mode) = (body.u32()?, body.u32()?);
                body.skip(8)?;
                let name = body.name()?;
                let (folder, path) = self.child(request.node, name)?;
                let file = open_as(&path, flags | libc::O_CREAT as u32, mode)?;
                own(&path, request, &folder.metadata()?)?;
                let entry = self.entry(request.node, name)?;
                Ok(entry.open(self.opened(file)))
            }
            opcode::OPEN => {
                let file = open_as(&path_of(&*self.node(request.node)?), body.u32()?, 0)?;
                Ok(Reply::default().open(self.opened(file)))
            }
            opcode::OPENDIR => {
                let file = File::open(path_of(&*self.node(request.node)?))?;
                Ok(Reply::default().open(self.opened(file)))
            }
            opcode::READ => {
                let (open, at) = (self.open(body.u64()?)?, body.u64()?);
                let mut bytes = vec![0; body.u32()? as usize];
                let mut length = 0;
                while length < bytes.len() {
                    match open.file.read_at(&mut bytes[length..], at + length as u64)? {
                        0 => break,
                        read => length += read,
                    }
                }
                Ok(Reply::default().bytes(&bytes[..length]))
            }
            opcode::WRITE => {
                let (open, at) = (self.open(body.u64()?)?, body.u64()?);
                let length = body.u32()?;
                body.skip(20)?;
                open.file.write_all_at(body.bytes(length as usize)?, at)?;
                Ok(Reply::default().u32(length).u32(0))
            }
            opcode::FSYNC | opcode::FSYNCDIR => {
                const DATA_ONLY: u32 = 1;
                let open = self.open(body.u64()?)?;
                match body.u32()? & DATA_ONLY {
                    0 => open.file.sync_all()?,
                    _ => open.file.sync_data()?,
                }
                Ok(Reply::default())
            }
            opcode::FALLOCATE => {
                let (open, at, length) = (self.open(body.u64()?)?, body.u64()?, body.u64()?);
                let flags = FallocateFlags::from_bits_retain(body.u32()?.cast_signed());
                fallocate(&open.file, flags, at.cast_signed(), length.cast_signed())?;
                Ok(Reply::default())
            }
            opcode::READDIR => self.list(request),
            opcode::RELEASE | opcode::RELEASEDIR => {
                let handle = body.u64()?;
                let released = locked(&self.handles).open.remove(&handle);
                drop(released);
                Ok(Reply::default())
            }
            opcode::STATFS => {
                let room = fstatvfs(&*self.node(request.node)?)?;
                let reply = Reply::default()
                    .u64(room.blocks())
                    .u64(room.blocks_free())
                    .u64(room.blocks_available())
                    .u64(room.files())
                    .u64(room.files_free())
                    .u32(room.block_size() as u32)
                    .u32(room.name_max() as u32)
                    .u32(room.fragment_size() as u32);
                Ok(reply.bytes(&[0; 28]))
            }
            opcode::INTERRUPT | opcode::DESTROY => Ok(Reply::default()),
            // The kernel does without: it asks for attributes instead, and locks files by itself.
            _ => Err(io::Error::from_raw_os_error(libc::ENOSYS)),
        }
    }

    fn node(&self, number: u64) -> io::Result<Arc<File>> {
        let tree = locked(&self.tree);
        let node = tree.nodes.get(&number);
        Ok(Arc::clone(&node.ok_or_else(|| io::Error::from_raw_os_error(libc::ESTALE))?.file))
    }

    /// A way to a name in a folder, and the folder, which has to be kept as long as the way is used.
    fn child(&self, folder: u64, name: &OsStr) -> io::Result<(Arc<File>, PathBuf)> {
        let folder = self.node(folder)?;
        let path = path_of(&folder).join(name);
        Ok((folder, path))
    }

    /// What has that name, which the kernel knows from now on.
    fn entry(&self, folder: u64, name: &OsStr) -> io::Result<Reply> {
        let (_folder, path) = self.child(folder, name)?;
        let file = name_only(&path)?;
        let found = file.metadata()?;
        let key = (found.dev(), found.ino());
        let ours = name.as_bytes().starts_with(OURS);
        let mut tree = locked(&self.tree);
        let number = match tree.numbers.get(&key).copied() {
            Some(number) => number,
            None => {
                tree.last += 1;
                let number = tree.last;
                tree.numbers.insert(key, number);
                tree.nodes.insert(number, Node { file: Arc::new(file), known: 0, key, ours });
                number
            }
        };
        if let Some(node) = tree.nodes.get_mut(&number) {
            node.known += 1;
        }
        Ok(Reply::default().entry(number, &found))
    }

    fn forget(&self, number: u64, times: u64) -> Reply {
        let mut tree = locked(&self.tree);
        if let Some(node) = tree.nodes.get_mut(&number).filter(|_| number != ROOT) {
            node.known = node.known.saturating_sub(times);
            if node.known == 0 {
                let key = node.key;
                tree.nodes.remove(&number);
                tree.numbers.remove(&key);
            }
        }
        Reply::default()
    }

    /// Makes something under a name, for whoever asked.
    fn make(
        &self,
        request: &Request<'_>,
        name: &OsStr,
        make: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<Reply> {
        let (folder, path) = self.child(request.node, name)?;
        make(&path)?;
        own(&path, request, &folder.metadata()?)?;
        self.entry(request.node, name)
    }

    fn opened(&self, file: File) -> u64 {
        let mut handles = locked(&self.handles);
        handles.last += 1;
        let handle = handles.last;
        handles.open.insert(handle, Arc::new(Open { file, entries: Mutex::default() }));
        handle
    }

    fn open(&self, handle: u64) -> io::Result<Arc<Open>> {
        let handles = locked(&self.handles);
        let open = handles.open.get(&handle);
        Ok(Arc::clone(open.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?))
    }

    fn set_attributes(&self, request: &Request<'_>) -> io::Result<Reply> {
        let mut body = request.body;
        let (valid, _) = (body.u32()?, body.u32()?);
        let (handle, size, _lock_owner) = (body.u64()?, body.u64()?, body.u64()?);
        let (atime, mtime, _ctime) = (body.u64()?, body.u64()?, body.u64()?);
        let (atime_ns, mtime_ns, _ctime_ns) = (body.u32()?, body.u32()?, body.u32()?);
        let (mode, _, uid, gid) = (body.u32()?, body.u32()?, body.u32()?, body.u32()?);
        let is_set = |bit: u32| valid & (1 << bit) != 0;
        let node = self.node(request.node)?;
        let path = path_of(&node);
        if is_set(0) {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o7777))?;
        }
        if is_set(1) || is_set(2) {
            std::os::unix::fs::chown(&path, is_set(1).then_some(uid), is_set(2).then_some(gid))?;
        }
        if is_set(3) {
            match is_set(6) {
                true => self.open(handle)?.file.set_len(size)?,
                false => OpenOptions::new().write(true).open(&path)?.set_len(size)?,
            }
        }
        if is_set(4) || is_set(5) {
            let time = |set, now, seconds: u64, nanoseconds: u32| match (set, now) {
                (false, _) => TimeSpec::UTIME_OMIT,
                (true, true) => TimeSpec::UTIME_NOW,
                (true, false) => TimeSpec::new(seconds.cast_signed(), nanoseconds.into()),
            };
            let (atime, mtime) = (
                time(is_set(4), is_set(7), atime, atime_ns),
                time(is_set(5), is_set(8), mtime, mtime_ns),
            );
            utimensat(AT_FDCWD, &path, &atime, &mtime, UtimensatFlags::FollowSymlink)?;
        }
        Ok(Reply::default().attr(&node.metadata()?))
    }

    /// A part of what is in a folder. It is looked at anew whenever it is read from the start.
    fn list(&self, request: &Request<'_>) -> io::Result<Reply> {
        let mut body = request.body;
        let (open, from, room) = (self.open(body.u64()?)?, body.u64()?, body.u32()? as usize);
        let mut entries = locked(&open.entries);
        if from == 0 {
            let own = open.file.metadata()?.ino();
            entries.clear();
            entries.extend([".", ".."].map(|name| (own, libc::DT_DIR.into(), name.into())));
            for entry in fs::read_dir(path_of(&open.file))? {
                let entry = entry?;
                let kind = entry.file_type().map_or(libc::DT_UNKNOWN, kind_of);
                entries.push((entry.ino(), kind.into(), entry.file_name()));
            }
        }
        let mut reply = Reply::default();
        for (at, (ino, kind, name)) in entries.iter().enumerate().skip(from as usize) {
            match reply.dirent((*ino, *kind, name), at as u64 + 1, room) {
                Ok(more) => reply = more,
                Err(full) => return Ok(full),
            }
        }
        Ok(reply)
    }
}

/// Gives what was made to whoever asked for it, in a folder that may have a group for all.
fn own(path: &Path, request: &Request<'_>, folder: &Metadata) -> io::Result<()> {
    let group = (folder.mode() & libc::S_ISGID == 0).then_some(request.gid);
    lchown(path, Some(request.uid), group)
}

fn kind_of(kind: fs::FileType) -> u8 {
    if kind.is_dir() {
        libc::DT_DIR
    } else if kind.is_file() {
        libc::DT_REG
    } else if kind.is_symlink() {
        libc::DT_LNK
    } else if kind.is_fifo() {
        libc::DT_FIFO
    } else if kind.is_socket() {
        libc::DT_SOCK
    } else {
        libc::DT_UNKNOWN
    }
}
