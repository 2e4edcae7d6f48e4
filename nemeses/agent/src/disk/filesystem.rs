//! A mounted file system: which one a path is on, who uses it, and how it is cut off.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount, umount};
use serde::{Deserialize, Serialize};

/// A file system of a block device, as it was found mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileSystem {
    /// Where.
    pub(super) point: PathBuf,
    /// Its type.
    pub(super) kind: String,
    /// A device node of it.
    pub(super) device: PathBuf,
    /// Options of the mount and of the file system, as `/proc/self/mountinfo` has them.
    options: (String, String),
}

/// Where a device node may be.
const DEVICES: [&str; 3] = ["/dev", "/dev/mapper", "/dev/block"];

/// A line of `/proc/self/mountinfo`, as far as it matters.
struct Line<'a> {
    device: (u64, u64),
    root: &'a str,
    point: String,
    options: &'a str,
    kind: &'a str,
    source: &'a str,
    super_options: &'a str,
}

fn parse_line(line: &str) -> Option<Line<'_>> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mount: Vec<&str> = mount.split(' ').collect();
    let mut file_system = file_system.split(' ');
    let (major, minor) = mount.get(2)?.split_once(':')?;
    Some(Line {
        device: (major.parse().ok()?, minor.parse().ok()?),
        root: mount.get(3)?,
        // Blanks in paths are written as octal numbers; there are hardly any other escapes.
        point: mount.get(4)?.replace("\\040", " "),
        options: mount.get(5)?,
        kind: file_system.next()?,
        source: file_system.next()?,
        super_options: file_system.next()?,
    })
}

/// A block device of that number, by a name that is there.
fn device_node(source: &str, number: (u64, u64)) -> Option<PathBuf> {
    let is = |path: &Path| {
        fs::metadata(path).is_ok_and(|found| {
            let rdev = found.rdev();
            found.file_type().is_block_device()
                && (nix::sys::stat::major(rdev), nix::sys::stat::minor(rdev)) == number
        })
    };
    let named = PathBuf::from(source);
    if is(&named) {
        return Some(named);
    }
    let entries = DEVICES.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    entries.map(|entry| entry.path()).find(|path| is(path))
}

impl FileSystem {
    /// The file system that a path is on; the reason why it is not one that can be cut off by itself.
    pub(super) fn of(path: &Path) -> Result<Self, String> {
        let path =
            fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let text = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
        // The last of several at one place hides the others.
        let lines = text.lines().filter_map(parse_line);
        let found = lines
            .filter(|line| path.starts_with(&line.point))
            .max_by_key(|line| line.point.len())
            .ok_or("it is on no file system")?;
        let (point, kind) = (found.point.clone(), found.kind);
        if point == "/" || found.root != "/" {
            return Err(format!(
                "{} is on a file system with other things; give it one of its own",
                path.display()
            ));
        }
        if !matches!(kind, "ext4" | "xfs") {
            return Err(format!("{point} is {kind}, and only ext4 and xfs can be cut off"));
        }
        let device = device_node(found.source, found.device)
            .ok_or_else(|| format!("no device node of {point} is found below /dev"))?;
        let options = (found.options.to_owned(), found.super_options.to_owned());
        Ok(Self { point: point.into(), kind: kind.to_owned(), device, options })
    }

    /// Whether it is mounted where it was.
    pub(super) fn is_mounted(&self) -> bool {
        let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        text.lines().filter_map(parse_line).any(|line| Path::new(&line.point) == self.point)
    }

    /// Whether it can be written to, lastingly.
    pub(super) fn works(&self) -> bool {
        let probe = self.point.join(".deposed-probe");
        let written = File::create(&probe).and_then(|file| file.sync_all());
        written.and_then(|()| fs::remove_file(&probe)).is_ok()
    }

    /// A process other than `known` that uses it, by pid.
    pub(super) fn stranger(&self, known: impl Fn(u32) -> bool) -> Option<u32> {
        let own = fs::metadata(&self.point).ok()?.dev();
        let on_it = |path: PathBuf| fs::metadata(path).is_ok_and(|found| found.dev() == own);
        let uses = |pid: &u32| {
            let folder = PathBuf::from(format!("/proc/{pid}"));
            let files = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
            on_it(folder.join("cwd"))
                || on_it(folder.join("exe"))
                || files.map(|entry| entry.path()).any(on_it)
        };
        let entries = fs::read_dir("/proc").ok()?.flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // Known is looked up after the use was seen: what was begun meanwhile is nobody's stranger.
        pids.filter(uses).find(|pid| !known(*pid))
    }

    /// Cuts it off: nothing that was not written to the device will be, and every use of it fails.
    pub(super) fn shut_down(&self) -> io::Result<()> {
        /// `_IOR('X', 125, __u32)`, the same for all file systems that have it.
        const SHUTDOWN: libc::c_ulong = 0x8004_587d;
        /// Nor is the log written.
        const NO_LOG_FLUSH: u32 = 2;
        let folder = File::open(&self.point)?;
        let how = NO_LOG_FLUSH;
        #[expect(unsafe_code, reason = "file systems are shut down by ioctl only")]
        // SAFETY: the request reads a number of 32 bits, which outlives the call.
        let result = unsafe { libc::ioctl(folder.as_raw_fd(), SHUTDOWN as _, &raw const how) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Unmounts it. Who still uses it makes that fail.
    pub(super) fn unmount(&self) -> nix::Result<()> {
        umount(&self.point)
    }

    /// Mounts it as it was.
    pub(super) fn mount(&self) -> nix::Result<()> {
        let mut flags = MsFlags::empty();
        for option in self.options.0.split(',') {
            flags |= match option {
                "ro" => MsFlags::MS_RDONLY,
                "nosuid" => MsFlags::MS_NOSUID,
                "nodev" => MsFlags::MS_NODEV,
                "noexec" => MsFlags::MS_NOEXEC,
                "noatime" => MsFlags::MS_NOATIME,
                "nodiratime" => MsFlags::MS_NODIRATIME,
                "relatime" => MsFlags::MS_RELATIME,
                "sync" => MsFlags::MS_SYNCHRONOUS,
                _ => MsFlags::empty(),
            };
        }
        let own = self.options.1.split(',').filter(|option| !matches!(*option, "rw" | "ro"));
        // What the kernel tells of a file system that was cut off.
        let own: Vec<&str> = own.filter(|option| !option.contains("shutdown")).collect();
        mount(Some(&self.device), &self.point, Some(&*self.kind), flags, Some(&*own.join(",")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines are read with and without optional fields, and with blanks in paths.
    #[test]
    fn lines_of_mountinfo() {
        let line = "36 35 7:12 / /var/lib/my\\040data rw,noatime shared:1 - ext4 /dev/loop12 rw,x";
        let read = parse_line(line).unwrap();
        assert_eq!((read.device, read.root, &*read.point), ((7, 12), "/", "/var/lib/my data"));
        assert_eq!((read.options, read.kind, read.source), ("rw,noatime", "ext4", "/dev/loop12"));
        assert_eq!(read.super_options, "rw,x");
        assert!(parse_line("36 35 7:12 / /x rw").is_none());
    }

    /// The root file system is never one that can be cut off, nor is one in memory.
    #[test]
    fn what_others_need_is_refused() {
        assert!(FileSystem::of(Path::new("/etc")).is_err());
        assert!(FileSystem::of(Path::new("/proc/self")).is_err());
        assert!(FileSystem::of(Path::new("/nowhere")).is_err());
    }
}
