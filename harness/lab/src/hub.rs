//! The network that a lab hangs on, and in which its controller lives.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

use crate::error::LabError;

/// Where a process in a hub keeps what ends with it: every such process sees its own directory here.
pub(crate) const PRIVATE_DIRECTORY: &str = "/run/deposed/private";

/// A private network namespace, with no link to the outside, that this process has entered.
///
/// Its mounts are private too, for one directory of temporary files that no one else sees and that vanishes
/// with the process, even by SIGKILL.
#[derive(Debug)]
pub struct Hub {
    host_network: File,
}

impl Hub {
    /// Leaves the host's network for a new, empty one.
    ///
    /// Namespaces are a thread's: call it before any other thread exists, or only this thread and those it
    /// starts from now on will reach the nodes.
    pub fn enter() -> Result<Hub, LabError> {
        if !nix::unistd::geteuid().is_root() {
            return Err(LabError::NotRoot);
        }
        let host_network = File::open("/proc/thread-self/ns/net")
            .map_err(|error| LabError::io("find the host's network namespace", error))?;
        fs::create_dir_all(PRIVATE_DIRECTORY)
            .map_err(|error| LabError::path("create", PRIVATE_DIRECTORY, error))?;
        isolate(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)?;
        // Slave, not private: what the host mounts later is still seen here, but not the other way round.
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)
            .map_err(|error| LabError::io("make mounts private", error))?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("deposed"), PRIVATE_DIRECTORY, Some("tmpfs"), flags, Some("mode=0700,size=64m"))
            .map_err(|error| LabError::path("mount a tmpfs at", PRIVATE_DIRECTORY, error))?;
        Ok(Hub { host_network })
    }

    /// Runs `work` in a thread that is back in the host's network.
    pub fn on_host<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                setns(&self.host_network, CloneFlags::CLONE_NEWNET)
                    .map_err(|error| LabError::io("return to the host's network", error))?;
                Ok(work())
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A directory that only this process and its children see, and that ends with it.
    pub(crate) fn private_directory(&self) -> PathBuf {
        Path::new(PRIVATE_DIRECTORY).into()
    }
}

/// Gives this thread (or its future children, for the process namespace) new namespaces.
pub(crate) fn isolate(namespaces: CloneFlags) -> Result<(), LabError> {
    use nix::errno::Errno;
    let attempted = format!("make namespaces ({namespaces:?})");
    unshare(namespaces).map_err(|errno| match errno {
        Errno::EPERM => LabError::NotPermitted { attempted },
        Errno::EINVAL => LabError::Kernel {
            attempted,
            mend: "use one with CONFIG_NET_NS, CONFIG_UTS_NS, CONFIG_IPC_NS and CONFIG_PID_NS"
                .into(),
            source: errno.into(),
        },
        Errno::ENOSPC | Errno::EUSERS => LabError::Kernel {
            attempted,
            mend: "raise the limits in /proc/sys/user/max_*_namespaces".into(),
            source: errno.into(),
        },
        other => LabError::io(attempted, other),
    })
}
