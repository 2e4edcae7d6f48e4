//! A node's file system: the host's, as a lower layer that the node cannot change, without what is private.
//!
//! What a node writes goes to its own disk. `/proc`, `/sys`, `/dev`, `/run` and `/tmp` are fresh. Directories
//! at the top level that are no part of an operating system, and those in `/var` which hold the host's
//! traces, are replaced by empty ones.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::pivot_root;

use crate::error::LabError;
use crate::spec::{DATA_DEVICE, DATA_DIR};

/// What of the host's top level a node sees.
const SHOWN: &[&str] =
    &["bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "opt", "var"];

/// What of the top level is made anew for a node.
const FRESH: &[&str] = &["dev", "proc", "run", "sys", "tmp"];

/// What else is hidden, if it exists. Of some the tree of directories remains, since daemons expect it.
const HIDDEN: &[(&str, Keep)] = &[
    ("/etc/ssh", Keep::Nothing),
    ("/var/backups", Keep::Nothing),
    ("/var/cache", Keep::Directories),
    ("/var/crash", Keep::Nothing),
    ("/var/log", Keep::Directories),
    ("/var/mail", Keep::Nothing),
    ("/var/spool", Keep::Directories),
    ("/var/tmp", Keep::Nothing),
];

/// Devices of the host that a node shares.
const DEVICES: &[&str] = &["full", "fuse", "net/tun", "null", "random", "tty", "urandom", "zero"];

/// What in `/proc` belongs to the whole machine and may be looked at only. `/proc/sys/net` is the node's own.
const LOOK_ONLY: &[&str] = &["acpi", "bus", "fs", "irq", "sys", "sysrq-trigger"];

/// Most directories kept of one hidden tree.
const DIRECTORIES_MAX: usize = 10_000;

/// What remains of a hidden directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// Nothing.
    Nothing,
    /// Its directories, with their owners.
    Directories,
}

/// Builds the tree under `base` (any existing directory, used as a place to mount things) in this process's own
/// mount namespace. Returns the new root, which [`enter`] moves to.
pub(crate) fn build(
    base: &Path,
    root_device: &Path,
    data_device: &Path,
    hidden: &[PathBuf],
) -> Result<PathBuf, LabError> {
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .map_err(|error| LabError::io("make mounts private", error))?;
    file_system("tmpfs", "tmpfs", base, MsFlags::empty(), "mode=0700,size=1m")?;
    let (disk, root) = (base.join("disk"), base.join("root"));
    directory(&disk)?;
    directory(&root)?;
    file_system(root_device, "ext4", &disk, MsFlags::MS_NOATIME, "noinit_itable")?;
    let (upper, work, blank) = (disk.join("upper"), disk.join("work"), disk.join("blank"));
    for path in [&upper, &work, &blank] {
        directory(path)?;
    }
    let layers = format!("lowerdir=/,upperdir={},workdir={}", upper.display(), work.display());
    file_system("overlay", "overlay", &root, MsFlags::empty(), &layers)?;

    hide_private(&root, &blank, hidden)?;
    let data = root.join(&DATA_DIR[1..]);
    fs::create_dir_all(&data).map_err(|error| LabError::path("create", &data, error))?;
    file_system(data_device, "ext4", &data, MsFlags::MS_NOATIME, "noinit_itable")?;
    for name in FRESH {
        directory(&root.join(name))?;
    }
    kernel_views(&root)?;
    devices(&root.join("dev"), data_device)?;
    let tidy = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    file_system("run", "tmpfs", &root.join("run"), tidy, "mode=0755")?;
    file_system("tmp", "tmpfs", &root.join("tmp"), tidy, "mode=1777")?;
    for (name, mode) in [("run/sshd", 0o755), ("run/lock", 0o1777)] {
        directory(&root.join(name))?;
        set_mode(&root.join(name), mode)?;
    }
    Ok(root)
}

/// Makes `root` this process's `/` and lets go of the old one.
pub(crate) fn enter(root: &Path) -> Result<(), LabError> {
    let failed = |error: Errno| LabError::path("enter", root, error);
    std::env::set_current_dir(root).map_err(|error| LabError::path("enter", root, error))?;
    // The old root is stacked under the new one, then taken away from below it.
    pivot_root(".", ".").map_err(failed)?;
    umount2(".", MntFlags::MNT_DETACH).map_err(failed)?;
    std::env::set_current_dir("/").map_err(|error| LabError::path("enter", "/", error))
}

/// Hides what at the top level is not part of an operating system, and what else is the host's own.
fn hide_private(root: &Path, blank: &Path, hidden: &[PathBuf]) -> Result<(), LabError> {
    let entries = fs::read_dir(root).map_err(|error| LabError::path("list", root, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| LabError::path("list", root, error))?;
        let name = entry.file_name();
        let known = |names: &[&str]| names.iter().any(|known| name == *known);
        let kind =
            entry.file_type().map_err(|error| LabError::path("look at", entry.path(), error))?;
        if known(SHOWN) || known(FRESH) || kind.is_symlink() {
            continue;
        }
        if kind.is_dir() {
            hide(root, blank, Path::new(&name), Keep::Nothing)?;
        } else {
            // Swap files and the like; this removes the node's view of it only.
            fs::remove_file(entry.path())
                .map_err(|error| LabError::path("hide", entry.path(), error))?;
        }
    }
    let asked = hidden.iter().map(|path| (path.as_path(), Keep::Nothing));
    let always = HIDDEN.iter().map(|(path, keep)| (Path::new(path), *keep));
    for (path, keep) in always.chain(asked) {
        let relative = path.strip_prefix("/").unwrap_or(path);
        if fs::symlink_metadata(root.join(relative)).is_ok_and(|found| found.is_dir()) {
            hide(root, blank, relative, keep)?;
        }
    }
    Ok(())
}

/// Covers `root/path` by an empty directory of the same owner and mode, on the node's disk.
fn hide(root: &Path, blank: &Path, path: &Path, keep: Keep) -> Result<(), LabError> {
    let original = root.join(path);
    let cover = blank.join(path.to_string_lossy().replace('/', "-"));
    copy_directory(&original, &cover)?;
    if keep == Keep::Directories {
        let mut pending = vec![(original.clone(), cover.clone())];
        let mut made = 0;
        while let Some((from, to)) = pending.pop() {
            let entries =
                fs::read_dir(&from).map_err(|error| LabError::path("list", &from, error))?;
            for entry in entries.flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) && made < DIRECTORIES_MAX {
                    made += 1;
                    let below = to.join(entry.file_name());
                    copy_directory(&entry.path(), &below)?;
                    pending.push((entry.path(), below));
                }
            }
        }
    }
    bind(&cover, &original)
}

/// Makes an empty directory with the owner and mode of another.
fn copy_directory(from: &Path, to: &Path) -> Result<(), LabError> {
    let found = fs::metadata(from).map_err(|error| LabError::path("look at", from, error))?;
    directory(to)?;
    chown(to, Some(found.uid()), Some(found.gid()))
        .map_err(|error| LabError::path("set the owner of", to, error))?;
    set_mode(to, found.mode() & 0o7777)
}

/// `/proc` and `/sys`: the node's own processes and links; the machine's settings cannot be changed.
fn kernel_views(root: &Path) -> Result<(), LabError> {
    let strict = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let proc = root.join("proc");
    file_system("proc", "proc", &proc, strict, "")?;
    file_system("sysfs", "sysfs", &root.join("sys"), strict | MsFlags::MS_RDONLY, "")?;
    bind(&proc.join("sys/net"), &proc.join("sys/net"))?;
    for name in LOOK_ONLY {
        let path = proc.join(name);
        if !path.exists() {
            continue;
        }
        bind(&path, &path)?;
        let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | strict;
        mount(None::<&str>, &path, None::<&str>, read_only, None::<&str>)
            .map_err(|error| LabError::path("make read-only", &path, error))?;
    }
    Ok(())
}

/// A minimal `/dev`, with nothing in it that is the machine's but the node's own data disk.
fn devices(dev: &Path, data_device: &Path) -> Result<(), LabError> {
    file_system("dev", "tmpfs", dev, MsFlags::MS_NOSUID, "mode=0755,size=1m")?;
    for name in ["net", "pts", "shm"] {
        directory(&dev.join(name))?;
    }
    let shared = DEVICES.iter().map(|name| (Path::new("/dev").join(name), dev.join(name)));
    let disk = (
        data_device.to_path_buf(),
        dev.join(Path::new(DATA_DEVICE).file_name().unwrap_or_default()),
    );
    for (from, to) in shared.chain([disk]).filter(|(from, _)| from.exists()) {
        fs::write(&to, "").map_err(|error| LabError::path("create", &to, error))?;
        bind(&from, &to)?;
    }
    let pts = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    file_system(
        "devpts",
        "devpts",
        &dev.join("pts"),
        pts,
        "newinstance,ptmxmode=0666,mode=0620,gid=5",
    )?;
    let shm = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    file_system("shm", "tmpfs", &dev.join("shm"), shm, "mode=1777")?;
    for (target, name) in [
        ("pts/ptmx", "ptmx"),
        ("/proc/self/fd", "fd"),
        ("fd/0", "stdin"),
        ("fd/1", "stdout"),
        ("fd/2", "stderr"),
    ] {
        symlink(target, dev.join(name))
            .map_err(|error| LabError::path("create", dev.join(name), error))?;
    }
    Ok(())
}

fn file_system(
    source: impl AsRef<Path>,
    kind: &str,
    target: &Path,
    flags: MsFlags,
    options: &str,
) -> Result<(), LabError> {
    let options = (!options.is_empty()).then_some(options);
    mount(Some(source.as_ref()), target, Some(kind), flags, options).map_err(|errno| match errno {
        Errno::ENODEV => LabError::Kernel {
            attempted: format!("mount {kind}"),
            mend: format!("load the module (`modprobe {kind}`) or use a kernel that has it"),
            source: errno.into(),
        },
        other => LabError::path(&format!("mount {kind} at"), target, other),
    })
}

/// Shows `from`, with what is mounted below it, at `to`.
fn bind(from: &Path, to: &Path) -> Result<(), LabError> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)
        .map_err(|error| LabError::path(&format!("show {} at", from.display()), to, error))
}

fn directory(path: &Path) -> Result<(), LabError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(LabError::path("create", path, error))
        }
        _ => Ok(()),
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<(), LabError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|error| LabError::path("set the mode of", path, error))
}
