//! A control group (version 2) with every process of a node in it, by which the whole node is frozen.
//!
//! Not of version 1: whatever is frozen by that cannot be killed, and would outlive its lab.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};

use crate::error::LabError;
use crate::hub::PRIVATE_DIRECTORY;

/// How long the kernel may take to freeze a node or to let it go on.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);

/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The group of one node, which outlives boots of the node. It is removed when this is dropped, and by the
/// [`crate::sweeper`] where it does not come to that.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    folder: PathBuf,
}

impl ControlGroup {
    /// Makes it, empty, at a [`place`].
    pub(crate) fn make(folder: PathBuf) -> Result<ControlGroup, LabError> {
        fs::create_dir(&folder).map_err(|error| LabError::path("create", &folder, error))?;
        Ok(ControlGroup { folder })
    }

    /// Its place in the hierarchy.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Freezes everything in it, or lets it go on. Returns when the kernel says that it is so.
    pub(crate) fn freeze(&self, frozen: bool) -> Result<(), LabError> {
        let file = self.folder.join("cgroup.freeze");
        fs::write(&file, if frozen { "1" } else { "0" })
            .map_err(|error| LabError::path("write", &file, error))?;
        let end = Instant::now() + SETTLED_WITHIN;
        while self.is_frozen() != frozen {
            if Instant::now() > end {
                let late = std::io::Error::other(format!("not so within {SETTLED_WITHIN:?}"));
                return Err(LabError::path("freeze or thaw", &self.folder, late));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Whether everything in it stands still.
    pub(crate) fn is_frozen(&self) -> bool {
        let events = fs::read_to_string(self.folder.join("cgroup.events")).unwrap_or_default();
        events.lines().any(|line| line == "frozen 1")
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Whoever is still in it is on the way out.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Moves a process, and all it will start, into the group at `folder`.
pub(crate) fn join(folder: &Path, pid: i32) -> Result<(), LabError> {
    let file = folder.join("cgroup.procs");
    fs::write(&file, pid.to_string()).map_err(|error| LabError::path("write", &file, error))
}

/// Where each hierarchy of control groups is mounted that can be written to, and its kind: `cgroup` or `cgroup2`.
pub(crate) fn mounted() -> Vec<(PathBuf, String)> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let hierarchy = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, place, kind, options, ..] = words[..] else { return None };
        let fits = kind.starts_with("cgroup") && options.split(',').any(|option| option == "rw");
        fits.then(|| (PathBuf::from(place), kind.to_owned()))
    };
    mounts.lines().filter_map(hierarchy).collect()
}

/// Where a group of this name belongs: below that of this process, so that its limits are those of the nodes, too.
/// Not every host has such groups.
pub(crate) fn place(name: &str) -> Result<PathBuf, LabError> {
    let root = hierarchy()?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    // In a container the hierarchy may begin below what the kernel calls its root.
    let below = own.map(|own| root.join(own)).filter(|folder| folder.is_dir());
    Ok(below.unwrap_or(root).join(name))
}

/// Where version 2 is mounted. Where it is not, it is mounted for this process and its children alone.
fn hierarchy() -> Result<PathBuf, LabError> {
    if let Some((place, _)) = mounted().into_iter().find(|(_, kind)| kind == "cgroup2") {
        return Ok(place);
    }
    let place = Path::new(PRIVATE_DIRECTORY).join("cgroup");
    fs::create_dir_all(&place).map_err(|error| LabError::path("create", &place, error))?;
    mount(Some("none"), &place, Some("cgroup2"), MsFlags::empty(), None::<&str>)
        .map_err(|error| LabError::path("mount control groups at", &place, error))?;
    Ok(place)
}
