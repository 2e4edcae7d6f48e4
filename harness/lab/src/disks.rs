//! The disks of a machine, which stay when it has no power.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::image::{Journal, make_disk};
use crate::loop_device::LoopDevice;
use crate::spec::LabSpec;

/// How long the kernel may take to unmount what nobody uses any more.
const FREE_WITHIN: Duration = Duration::from_secs(10);

/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The disks of one machine. They are held open here, so that they end with the lab and not with a boot.
#[derive(Debug)]
pub(crate) struct Disks {
    root: LoopDevice,
    data: LoopDevice,
}

impl Disks {
    /// Makes them, empty.
    pub(crate) fn make(spec: &LabSpec) -> Result<Disks, LabError> {
        Ok(Disks {
            root: make_disk(&spec.image_directory, spec.root_mib, Journal::No)?,
            data: make_disk(&spec.image_directory, spec.data_mib, Journal::Yes)?,
        })
    }

    /// The device of what a node writes outside of its data.
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// The device of its data.
    pub(crate) fn data(&self) -> &Path {
        self.data.path()
    }

    /// Waits until neither is mounted anywhere. A file system outlives the processes that used it by a moment.
    pub(crate) fn wait_free(&self) -> Result<(), LabError> {
        let end = Instant::now() + FREE_WITHIN;
        for device in [self.root(), self.data()] {
            // A block device that is mounted cannot be opened exclusively.
            let open = || OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(device);
            while let Err(error) = open() {
                if Instant::now() > end {
                    return Err(LabError::path("take back the disk", device, error));
                }
                std::thread::sleep(LOOK_EVERY);
            }
        }
        Ok(())
    }
}
