//! The protocol of `/dev/fuse`, version 7, as far as a pass-through speaks it: see `linux/fuse.h`. All
//! numbers are in the machine's own order of bytes.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// The minor version that is spoken: of kernels since 5.4. Newer ones fall back to it.
const MINOR: u32 = 31;

/// The most that is written at once, in bytes.
pub(super) const WRITE_MAX: usize = 128 << 10;

/// What a buffer for requests has to hold, in bytes.
pub(super) const REQUEST_MAX: usize = WRITE_MAX + 4096;

/// How long the kernel may take what it knows of a name or a file for true, in seconds. Nobody changes
/// it but through the layer.
const VALID_S: u64 = 1;

/// Reads of a file may be under way at once; writes of more than a page; `open` truncates; a folder may
/// be read by several at once.
const CAPABILITIES: u32 = 1 << 0 | 1 << 3 | 1 << 5 | 1 << 18;

/// What is asked for, by number.
pub(super) mod opcode {
    pub(in super::super) const LOOKUP: u32 = 1;
    pub(in super::super) const FORGET: u32 = 2;
    pub(in super::super) const GETATTR: u32 = 3;
    pub(in super::super) const SETATTR: u32 = 4;
    pub(in super::super) const READLINK: u32 = 5;
    pub(in super::super) const SYMLINK: u32 = 6;
    pub(in super::super) const MKNOD: u32 = 8;
    pub(in super::super) const MKDIR: u32 = 9;
    pub(in super::super) const UNLINK: u32 = 10;
    pub(in super::super) const RMDIR: u32 = 11;
    pub(in super::super) const RENAME: u32 = 12;
    pub(in super::super) const LINK: u32 = 13;
    pub(in super::super) const OPEN: u32 = 14;
    pub(in super::super) const READ: u32 = 15;
    pub(in super::super) const WRITE: u32 = 16;
    pub(in super::super) const STATFS: u32 = 17;
    pub(in super::super) const RELEASE: u32 = 18;
    pub(in super::super) const FSYNC: u32 = 20;
    pub(in super::super) const INIT: u32 = 26;
    pub(in super::super) const OPENDIR: u32 = 27;
    pub(in super::super) const READDIR: u32 = 28;
    pub(in super::super) const RELEASEDIR: u32 = 29;
    pub(in super::super) const FSYNCDIR: u32 = 30;
    pub(in super::super) const CREATE: u32 = 35;
    pub(in super::super) const INTERRUPT: u32 = 36;
    pub(in super::super) const DESTROY: u32 = 38;
    pub(in super::super) const BATCH_FORGET: u32 = 42;
    pub(in super::super) const FALLOCATE: u32 = 43;
    pub(in super::super) const RENAME2: u32 = 45;
}

/// A request of the kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) opcode: u32,
    /// What the answer has to name; zero where none is wanted.
    pub(super) unique: u64,
    /// The file or folder.
    pub(super) node: u64,
    /// Who asks.
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) body: Body<'a>,
}

/// What of a request was not read yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Body<'a>(&'a [u8]);

impl<'a> Request<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> io::Result<Self> {
        let mut body = Body(bytes);
        let (_length, opcode) = (body.u32()?, body.u32()?);
        let (unique, node) = (body.u64()?, body.u64()?);
        let (uid, gid) = (body.u32()?, body.u32()?);
        // Its pid, and room for more.
        body.skip(8)?;
        Ok(Self { opcode, unique, node, uid, gid, body })
    }

    /// Whether nobody waits for an answer.
    pub(super) const fn is_silent(&self) -> bool {
        matches!(self.opcode, opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT)
    }
}

impl<'a> Body<'a> {
    fn take(&mut self, length: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(io::ErrorKind::InvalidData)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn skip(&mut self, length: usize) -> io::Result<()> {
        self.take(length).map(drop)
    }

    pub(super) fn u32(&mut self) -> io::Result<u32> {
        Ok(u32::from_ne_bytes(self.take(4)?.try_into().map_err(io::Error::other)?))
    }

    pub(super) fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_ne_bytes(self.take(8)?.try_into().map_err(io::Error::other)?))
    }

    /// A name, which ends with a zero.
    pub(super) fn name(&mut self) -> io::Result<&'a OsStr> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(io::ErrorKind::InvalidData)?;
        let name = self.take(end)?;
        self.skip(1)?;
        Ok(OsStr::from_bytes(name))
    }

    /// So many bytes of what is to be written.
    pub(super) fn bytes(&mut self, length: usize) -> io::Result<&'a [u8]> {
        self.take(length)
    }
}

/// An answer in the making.
#[derive(Debug, Default)]
pub(super) struct Reply(Vec<u8>);

impl Reply {
    pub(super) fn u32(mut self, number: u32) -> Self {
        self.0.extend(number.to_ne_bytes());
        self
    }

    pub(super) fn u64(mut self, number: u64) -> Self {
        self.0.extend(number.to_ne_bytes());
        self
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// What a file is.
    fn attributes(self, of: &Metadata) -> Self {
        self.u64(of.ino())
            .u64(of.size())
            .u64(of.blocks())
            .u64(of.atime().cast_unsigned())
            .u64(of.mtime().cast_unsigned())
            .u64(of.ctime().cast_unsigned())
            .u32(of.atime_nsec() as u32)
            .u32(of.mtime_nsec() as u32)
            .u32(of.ctime_nsec() as u32)
            .u32(of.mode())
            .u32(of.nlink() as u32)
            .u32(of.uid())
            .u32(of.gid())
            .u32(of.rdev() as u32)
            .u32(of.blksize() as u32)
            .u32(0)
    }

    /// `struct fuse_attr_out`.
    pub(super) fn attr(self, of: &Metadata) -> Self {
        self.u64(VALID_S).u64(0).attributes(of)
    }

    /// `struct fuse_entry_out`: a file by the number it is asked for from now on.
    pub(super) fn entry(self, node: u64, of: &Metadata) -> Self {
        self.u64(node).u64(0).u64(VALID_S).u64(VALID_S).u64(0).attributes(of)
    }

    /// `struct fuse_open_out`.
    pub(super) fn open(self, handle: u64) -> Self {
        self.u64(handle).u64(0)
    }

    /// An entry of a folder, if so many bytes have room for it too. `next` is where to go on after it.
    pub(super) fn dirent(
        mut self,
        (ino, kind, name): (u64, u32, &OsStr),
        next: u64,
        room: usize,
    ) -> Result<Self, Self> {
        let length = (24 + name.len()).next_multiple_of(8);
        if self.0.len() + length > room {
            return Err(self);
        }
        let end = self.0.len() + length;
        self = self.u64(ino).u64(next).u32(name.len() as u32).u32(kind).bytes(name.as_bytes());
        self.0.resize(end, 0);
        Ok(self)
    }

    /// `struct fuse_init_out`: what is spoken from now on.
    pub(super) fn init(mut body: Body<'_>) -> io::Result<Self> {
        let (major, minor, read_ahead, offered) =
            (body.u32()?, body.u32()?, body.u32()?, body.u32()?);
        if (major, minor.min(MINOR)) != (7, MINOR) {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        let backlog = 64 | 48 << 16;
        let reply = Self::default().u32(7).u32(MINOR).u32(read_ahead).u32(offered & CAPABILITIES);
        Ok(reply.u32(backlog).u32(WRITE_MAX as u32).u32(1).bytes(&[0; 36]))
    }

    /// What is sent, for a request of that number.
    pub(super) fn message(self, unique: u64) -> Vec<u8> {
        Self::packet(0, unique, &self.0)
    }

    /// What is sent where it failed.
    pub(super) fn error(unique: u64, errno: i32) -> Vec<u8> {
        Self::packet(-errno, unique, &[])
    }

    /// A notice: what the kernel remembers of what is in a file is not to be used any more.
    pub(super) fn forget_contents(node: u64) -> Vec<u8> {
        const INVALIDATE_INODE: i32 = 2;
        let body = Self::default().u64(node).u64(0).u64(0);
        Self::packet(INVALIDATE_INODE, 0, &body.0)
    }

    fn packet(code: i32, unique: u64, body: &[u8]) -> Vec<u8> {
        let mut packet = Vec::with_capacity(16 + body.len());
        packet.extend((16 + body.len() as u32).to_ne_bytes());
        packet.extend(code.to_ne_bytes());
        packet.extend(unique.to_ne_bytes());
        packet.extend(body);
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request is read field by field, and one that is cut short is an error, not a crash.
    #[test]
    fn requests_are_read() {
        let mut bytes = Vec::new();
        for number in [0u32, opcode::RENAME] {
            bytes.extend(number.to_ne_bytes());
        }
        for number in [9u64, 1] {
            bytes.extend(number.to_ne_bytes());
        }
        for number in [3u32, 4, 0, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(5u64.to_ne_bytes());
        bytes.extend(b"old\0new\0");
        let mut request = Request::parse(&bytes).unwrap();
        assert_eq!((request.opcode, request.unique, request.node), (opcode::RENAME, 9, 1));
        assert_eq!((request.uid, request.gid), (3, 4));
        assert_eq!(request.body.u64().unwrap(), 5);
        assert_eq!(
            (request.body.name().unwrap(), request.body.name().unwrap()),
            ("old".as_ref(), "new".as_ref())
        );
        assert!(request.body.name().is_err() && request.body.u32().is_err());
        assert!(Request::parse(&bytes[..30]).is_err());
    }

    /// Structures are as long as the kernel has them.
    #[test]
    fn replies_have_their_length() {
        let found = std::fs::metadata("/").unwrap();
        let length = |reply: Reply| reply.message(1).len() - 16;
        assert_eq!(length(Reply::default().attr(&found)), 104);
        assert_eq!(length(Reply::default().entry(1, &found)), 128);
        assert_eq!(length(Reply::default().open(1)), 16);
        let offer: Vec<u8> = [7u32, 45, 0, u32::MAX].iter().flat_map(|n| n.to_ne_bytes()).collect();
        assert_eq!(length(Reply::init(Body(&offer)).unwrap()), 64);
        let old: Vec<u8> = [7u32, 12, 0, 0].iter().flat_map(|n| n.to_ne_bytes()).collect();
        assert!(Reply::init(Body(&old)).is_err());
    }

    /// Entries of a folder are padded, and one for which there is no room is left for the next answer.
    #[test]
    fn entries_fill_their_room() {
        let entry = (7, 8, OsStr::new("abc"));
        let reply = Reply::default().dirent(entry, 1, 64).unwrap();
        assert_eq!(reply.0.len(), 32);
        let reply = reply.dirent(entry, 2, 64).unwrap();
        assert_eq!(reply.dirent(entry, 3, 64).unwrap_err().0.len(), 64);
    }
}
