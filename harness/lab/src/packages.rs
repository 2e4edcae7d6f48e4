//! Programs that must be there, and how they get there.
//!
//! A node's file system is laid over the host's, so what nodes need is installed on the host, before the lab
//! is up. Only Debian and its descendants are served; elsewhere the packages are named, under Debian's names.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::hub::Hub;
use crate::spec::{LabSpec, Sudo};

/// Where programs are sought beside `PATH`, which often lacks them for users who are not root.
const SYSTEM_DIRECTORIES: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// How much of apt-get's complaint to show, in lines from its end.
const COMPLAINT_LINES: usize = 12;

/// A program, and the Debian package that holds it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Requirement {
    /// Its name, sought in `PATH` and the system's directories, or its absolute path.
    pub program: String,
    /// The Debian package.
    pub package: String,
}

impl Requirement {
    /// `program`, from `package`.
    pub fn new(program: impl Into<String>, package: impl Into<String>) -> Requirement {
        Requirement { program: program.into(), package: package.into() }
    }
}

/// Whether missing packages may be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Install {
    /// Install them.
    Yes,
    /// Refuse, and name them (`--no-install`).
    No,
}

/// Why something that is needed is not there.
#[derive(Debug, thiserror::Error)]
pub enum PackagesError {
    /// `--no-install`.
    #[error("not installed: {}: install them (apt-get install {}) or leave out --no-install",
        listed(missing), packages(missing).join(" "))]
    Refused {
        /// What is missing.
        missing: Vec<Requirement>,
    },
    /// Not Debian.
    #[error(
        "not installed: {}: install them (package names are Debian's, and this system is not Debian)",
        listed(missing)
    )]
    NotDebian {
        /// What is missing.
        missing: Vec<Requirement>,
    },
    /// Not root.
    #[error("not installed: {}: installing them needs root", listed(missing))]
    NotRoot {
        /// What is missing.
        missing: Vec<Requirement>,
    },
    /// apt-get failed.
    #[error("could not install {}: {output}", packages(missing).join(", "))]
    Apt {
        /// What is missing.
        missing: Vec<Requirement>,
        /// The end of what apt-get said.
        output: String,
    },
    /// apt-get was content, but the program is still not there.
    #[error("still missing after installation: {}", listed(missing))]
    StillMissing {
        /// What is missing.
        missing: Vec<Requirement>,
    },
    /// The operating system refused something.
    #[error("failed to {attempted}: {source}")]
    Io {
        /// What was attempted.
        attempted: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// What a lab needs: to be made, to be reached, and to be cut by a firewall.
pub fn lab_requirements(spec: &LabSpec) -> Vec<Requirement> {
    let mut requirements = vec![
        Requirement::new("sshd", "openssh-server"),
        Requirement::new("ssh-keygen", "openssh-client"),
        Requirement::new("ip", "iproute2"),
        Requirement::new("nft", "nftables"),
        Requirement::new("iptables", "iptables"),
        Requirement::new("mkfs.ext4", "e2fsprogs"),
        // By which nodes see how links between them are.
        Requirement::new("ping", "iputils-ping"),
    ];
    if !spec.logins.is_empty() {
        requirements.push(Requirement::new("useradd", "passwd"));
    }
    if spec.logins.iter().any(|login| login.sudo != Sudo::No) {
        requirements.push(Requirement::new("sudo", "sudo"));
    }
    requirements
}

/// Makes sure that every requirement is met, and tells `notice` in one line if something must be installed
/// for it. `hub` must be given by a process that has entered one: packages come over the host's network.
///
/// No service starts by being installed.
pub fn ensure(
    requirements: &[Requirement],
    install: Install,
    hub: Option<&Hub>,
    notice: &mut dyn FnMut(&str),
) -> Result<(), PackagesError> {
    if missing(requirements).is_empty() {
        return Ok(());
    }
    let missing_now = missing(requirements);
    if !is_debian() {
        return Err(PackagesError::NotDebian { missing: missing_now });
    }
    if install == Install::No {
        return Err(PackagesError::Refused { missing: missing_now });
    }
    if !nix::unistd::geteuid().is_root() {
        return Err(PackagesError::NotRoot { missing: missing_now });
    }
    // Another run may be installing the same: wait for it, then look again.
    let _turn = turn()?;
    let missing_now = missing(requirements);
    if missing_now.is_empty() {
        return Ok(());
    }
    notice(&format!("installing {}", packages(&missing_now).join(", ")));
    let run = || apt(&packages(&missing_now));
    let output = match hub {
        Some(hub) => hub.on_host(run).map_err(|error| PackagesError::Io {
            attempted: "return to the host's network".into(),
            source: std::io::Error::other(crate::error::chain(&error)),
        })?,
        None => run(),
    }
    .map_err(|source| PackagesError::Io { attempted: "run apt-get".into(), source })?;
    if !output.status.success() {
        return Err(PackagesError::Apt { missing: missing_now, output: complaint(&output) });
    }
    let missing = missing(requirements);
    if missing.is_empty() { Ok(()) } else { Err(PackagesError::StillMissing { missing }) }
}

/// Those requirements that are not met.
pub fn missing(requirements: &[Requirement]) -> Vec<Requirement> {
    requirements.iter().filter(|wanted| find(&wanted.program).is_none()).cloned().collect()
}

/// Where a program is.
pub fn find(program: &str) -> Option<PathBuf> {
    if program.starts_with('/') {
        return executable(Path::new(program)).then(|| program.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let system = SYSTEM_DIRECTORIES.iter().map(PathBuf::from);
    env::split_paths(&path)
        .chain(system)
        .map(|directory| directory.join(program))
        .find(|path| executable(path))
}

/// Where a program of the lab is; an error if it is not there.
pub(crate) fn program(name: &str) -> Result<PathBuf, LabError> {
    find(name).ok_or_else(|| {
        let known = lab_requirements(&LabSpec::default());
        let wanted = known.into_iter().find(|requirement| requirement.program == name);
        LabError::MissingTools { missing: vec![wanted.unwrap_or(Requirement::new(name, name))] }
    })
}

/// The requirements as a list for a sentence: `sshd (openssh-server), ip (iproute2)`.
pub(crate) fn listed(requirements: &[Requirement]) -> String {
    let each = requirements.iter().map(|wanted| format!("{} ({})", wanted.program, wanted.package));
    each.collect::<Vec<_>>().join(", ")
}

fn packages(requirements: &[Requirement]) -> Vec<&str> {
    let mut packages: Vec<&str> = requirements.iter().map(|wanted| &*wanted.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn is_debian() -> bool {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let debian = release.lines().any(|line| {
        let Some((key, value)) = line.split_once('=') else { return false };
        let mut words = value.trim_matches('"').split_whitespace();
        matches!(key, "ID" | "ID_LIKE") && words.any(|word| word == "debian")
    });
    debian && find("apt-get").is_some()
}

/// Waits for our turn to install. The turn ends when the value is dropped.
fn turn() -> Result<Flock<File>, PackagesError> {
    let path = Path::new("/run/deposed/packages.lock");
    let failed =
        |source| PackagesError::Io { attempted: format!("lock {}", path.display()), source };
    fs::create_dir_all("/run/deposed").map_err(failed)?;
    let file = File::create(path).map_err(failed)?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| failed(errno.into()))
}

fn apt(packages: &[&str]) -> std::io::Result<Output> {
    Command::new("/bin/sh")
        .args(["-c", include_str!("install.sh"), "install"])
        .args(packages)
        .output()
}

fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(COMPLAINT_LINES)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that is there needs nothing; one that is not is named with its package.
    #[test]
    fn missing_programs_are_named() {
        let wanted = [
            Requirement::new("sh", "dash"),
            Requirement::new("no-such-program", "no-such-package"),
        ];
        let error = ensure(&wanted, Install::No, None, &mut |_| panic!("nothing is installed"));
        let text = error.unwrap_err().to_string();
        assert!(text.contains("no-such-program (no-such-package)"), "{text}");
        assert!(text.contains("--no-install") && !text.contains("dash"), "{text}");
    }

    /// A package is named once, however many of its programs are missing.
    #[test]
    fn a_package_is_named_once() {
        let wanted = ["sshd", "sftp-server"].map(|name| Requirement::new(name, "openssh-server"));
        assert_eq!(packages(&wanted), ["openssh-server"]);
    }
}
