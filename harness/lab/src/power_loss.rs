//! A machine loses its power: of its data disk what was synced stays, and what was only written goes.
//!
//! The file system of the data outlives the processes that used it: it is held until they are gone, and then
//! shut down, so that unmounting it syncs nothing. Two files tell whether that worked: one that was synced
//! must be there afterwards, and one that was only written must not.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statfs::{EXT4_SUPER_MAGIC, fstatfs};
use serde::{Deserialize, Serialize};

use crate::error::LabError;

const SYNCED: &str = ".deposed-synced";
const UNSYNCED: &str = ".deposed-unsynced";

/// What is written into the first file.
const WORD: &[u8] = b"synced";

/// Length of the second.
const UNSYNCED_BYTES: usize = 256 << 10;

/// `EXT4_IOC_SHUTDOWN` of `fs/ext4/ext4.h`, and its flag for: as it is, without flushing the journal.
const SHUTDOWN: libc::c_ulong = 0x8004_587D;
static NO_LOG_FLUSH: u32 = 2;

/// What a loss of power took from a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Whether the file that was synced is whole.
    pub synced: bool,
    /// Bytes that were written and not synced.
    pub unsynced: u64,
    /// How many of them are gone.
    pub lost: u64,
}

/// A file system that is about to lose its power.
#[derive(Debug)]
pub(crate) struct PowerLoss {
    folder: File,
}

impl PowerLoss {
    /// Takes hold of the file system that is mounted at `point`, and writes the two files to it.
    pub(crate) fn prepare(point: &Path) -> Result<PowerLoss, LabError> {
        let failed = |error: io::Error| LabError::path("write to the disk at", point, error);
        let folder = File::open(point).map_err(failed)?;
        let found = fstatfs(&folder).map_err(|errno| failed(errno.into()))?;
        if found.filesystem_type() != EXT4_SUPER_MAGIC {
            return Err(failed(io::Error::other("something else is mounted over it")));
        }
        let loss = PowerLoss { folder };
        let mut synced = File::create(loss.within().join(SYNCED)).map_err(failed)?;
        synced.write_all(WORD).and_then(|()| synced.sync_all()).map_err(failed)?;
        loss.folder.sync_all().map_err(failed)?;
        fs::write(loss.within().join(UNSYNCED), vec![0x55; UNSYNCED_BYTES]).map_err(failed)?;
        Ok(loss)
    }

    /// It is gone: nobody is left who could be told that something is synced which is not.
    pub(crate) fn strike(self) -> Result<(), LabError> {
        // SAFETY: the request takes a pointer to a u32, which the kernel only reads and which outlives the call.
        #[expect(unsafe_code, reason = "a file system is shut down by ioctl only")]
        let result =
            unsafe { libc::ioctl(self.folder.as_raw_fd(), SHUTDOWN as _, &raw const NO_LOG_FLUSH) };
        if result < 0 {
            return Err(LabError::io("cut a disk off", io::Error::last_os_error()));
        }
        Ok(())
    }

    /// The file system, wherever it is mounted, or not any more.
    fn within(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.folder.as_raw_fd()).into()
    }
}

/// Mounts a disk at `point` for a moment, which recovers it, and sees what its loss of power took.
pub(crate) fn look(device: &Path, point: &Path) -> Result<Loss, LabError> {
    let failed = |error: nix::errno::Errno| LabError::path("look at the disk", device, error);
    fs::create_dir_all(point).map_err(|error| LabError::path("create", point, error))?;
    mount(Some(device), point, Some("ext4"), MsFlags::MS_NOATIME, Some("noinit_itable"))
        .map_err(failed)?;
    let left = fs::metadata(point.join(UNSYNCED)).map_or(0, |found| found.len());
    let loss = Loss {
        synced: fs::read(point.join(SYNCED)).is_ok_and(|text| text == WORD),
        unsynced: UNSYNCED_BYTES as u64,
        lost: UNSYNCED_BYTES as u64 - left.min(UNSYNCED_BYTES as u64),
    };
    for name in [SYNCED, UNSYNCED] {
        // It is there or it is not.
        let _ = fs::remove_file(point.join(name));
    }
    umount2(point, MntFlags::empty()).map_err(failed)?;
    Ok(loss)
}
