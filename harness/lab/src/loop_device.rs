//! A file as a block device, until nobody uses it any more.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};

use crate::error::LabError;

/// Another process may take the free device we were told of; how often to ask for the next.
const ATTACH_ATTEMPTS: u32 = 50;

const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// A loop device over a file. The kernel detaches it by itself once it is neither open nor mounted, so that
/// nothing is left behind however a lab ends.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    path: PathBuf,
    /// Keeps the device attached until someone has mounted it.
    _open: File,
}

/// `struct loop_config` of `linux/loop.h`, with `struct loop_info64` written out.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
    reserved: [u64; 8],
}

impl LoopDevice {
    /// Attaches `image` to a free device.
    pub(crate) fn attach(image: &File) -> Result<LoopDevice, LabError> {
        let control = open(Path::new("/dev/loop-control")).map_err(no_loop)?;
        for _ in 0..ATTACH_ATTEMPTS {
            let number = ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE, 0).map_err(no_loop)?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = open(&path).map_err(no_loop)?;
            match configure(&device, image) {
                Ok(()) => return Ok(LoopDevice { path, _open: device }),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => continue,
                Err(error) => return Err(LabError::path("attach a disk image to", &path, error)),
            }
        }
        Err(LabError::path("find a free", "/dev/loop*", io::Error::from_raw_os_error(libc::EBUSY)))
    }

    /// `/dev/loopN`.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

fn no_loop(source: io::Error) -> LabError {
    LabError::Kernel {
        attempted: "use loop devices for node disks".into(),
        mend: "load the module (`modprobe loop`), and in a container share the host's /dev".into(),
        source,
    }
}

fn configure(device: &File, image: &File) -> io::Result<()> {
    let config = LoopConfig {
        fd: image.as_raw_fd() as u32,
        block_size: 0,
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: LO_FLAGS_AUTOCLEAR,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
        reserved: [0; 8],
    };
    ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config as libc::c_ulong).map(drop)
}

fn ioctl(fd: RawFd, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<libc::c_int> {
    // SAFETY: the two requests made here take nothing, or a pointer to a `LoopConfig` which outlives the call
    // and which the kernel only reads.
    #[expect(unsafe_code, reason = "loop devices are made by ioctl only")]
    let result = unsafe { libc::ioctl(fd, request as _, argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
