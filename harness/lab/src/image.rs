//! A node's disks: ext4 on sparse files which have no name.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use crate::error::LabError;
use crate::loop_device::LoopDevice;
use crate::packages::program;

/// Whether a disk can be cut off from power and come back with what was synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Journal {
    /// It keeps a journal.
    Yes,
    /// It does not: quicker to make, and nothing on it outlives the node.
    No,
}

/// Makes a disk of `size_mib` and attaches it. The file has no name, so it ends with the device.
///
/// A real file system on a real file, rather than a tmpfs, because fsync and a full disk must mean something
/// to the store; making one takes about 5 ms.
pub(crate) fn make_disk(
    directory: &Path,
    size_mib: u64,
    journal: Journal,
) -> Result<LoopDevice, LabError> {
    let file = tempfile::tempfile_in(directory)
        .map_err(|error| LabError::path("make a disk image in", directory, error))?;
    file.set_len(size_mib << 20)
        .map_err(|error| LabError::path("size a disk image in", directory, error))?;
    format(&file, journal)?;
    LoopDevice::attach(&file)
}

fn format(image: &File, journal: Journal) -> Result<(), LabError> {
    let path = format!("/proc/{}/fd/{}", std::process::id(), image.as_raw_fd());
    let features = match journal {
        Journal::Yes => "has_journal",
        Journal::No => "^has_journal",
    };
    // The file is all zeros already: there is nothing to discard and no table to clear.
    let output = Command::new(program("mkfs.ext4")?)
        .args(["-q", "-F", "-m", "0", "-O", features])
        .args(["-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1", &path])
        .output()
        .map_err(|error| LabError::io("run mkfs.ext4", error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(LabError::Command {
        command: "mkfs.ext4".into(),
        output: format!("{} ({})", String::from_utf8_lossy(&output.stderr).trim(), output.status),
    })
}
