//! Process 1 of a node: makes the node around itself, then keeps its sshd running.
//!
//! Its standard input is a pipe from the controller: a [`Boot`] on the first line, an empty line once the
//! node's cable is plugged in, and end-of-file when the controller is gone, upon which the node ends. On its
//! standard output it sends one [`Report`] a line.

use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, sethostname, setsid};
use serde::{Deserialize, Serialize};

use crate::address::{CONTROLLER_V4, PREFIX_V4, PREFIX_V6, node_name, node_v4, node_v6};
use crate::error::{LabError, chain};
use crate::packages::program;
use crate::spec::{Login, Sudo};
use crate::{capabilities, hub, ip, root};

/// How long to wait before an sshd that died is started again.
const SSHD_RESTART_PAUSE: Duration = Duration::from_millis(100);

/// What a node is to be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Boot {
    /// Which node, 1-based.
    pub(crate) index: u8,
    /// How many there are.
    pub(crate) nodes: u8,
    /// Whether it gets an IPv6 address too.
    pub(crate) v6: bool,
    /// An existing directory, as a place to mount things at.
    pub(crate) base: PathBuf,
    /// Block device for what it writes.
    pub(crate) root_device: PathBuf,
    /// Block device for store data.
    pub(crate) data_device: PathBuf,
    /// Directories to hide, beyond those that always are.
    pub(crate) hidden: Vec<PathBuf>,
    /// Its private host key.
    pub(crate) host_key: String,
    /// Who may log in.
    pub(crate) authorized_key: String,
    /// Its sshd_config.
    pub(crate) sshd_config: String,
    /// Logins beside root's.
    pub(crate) logins: Vec<Login>,
    /// A script that is run at the end of the boot: a store that lost its power is started again.
    pub(crate) start: Option<String>,
}

/// What init tells the controller.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// Its namespaces exist: the cable can be plugged in.
    Isolated,
    /// sshd is started.
    Booted,
    /// It gives up; why.
    Failed(String),
}

/// Plays process 1 of a node.
pub(crate) fn play() -> ! {
    match boot() {
        Ok(sshd) => supervise(sshd),
        Err(error) => report(&Report::Failed(chain(&error))),
    }
    std::process::exit(1)
}

fn boot() -> Result<u32, LabError> {
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|error| LabError::io("tie init to its parent", error))?;
    // Out of the controller's session: a Ctrl-C at its terminal is not for the nodes.
    setsid().map_err(|error| LabError::io("start a session", error))?;
    umask(Mode::from_bits_truncate(0o022));
    raise_file_limit();
    let boot: Boot = serde_json::from_str(&read_line()?)
        .map_err(|error| LabError::io("read what to boot", io::Error::from(error)))?;
    hub::isolate(
        CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWUTS
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWNET,
    )?;
    report(&Report::Isolated);

    let new_root = root::build(&boot.base, &boot.root_device, &boot.data_device, &boot.hidden)?;
    settle(&new_root.join("etc"), &boot)?;
    root::enter(&new_root)?;
    for login in &boot.logins {
        add_login(login)?;
    }
    read_line()?;
    connect(&boot)?;
    capabilities::drop_dangerous()?;
    let sshd = start_sshd()?;
    report(&Report::Booted);
    if let Some(script) = &boot.start {
        // Its end, whatever that is, is seen where all orphans are reaped; what it says is in the node's log.
        let start = Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(Stdio::null())
            .stdout(io::stderr())
            .spawn();
        start
            .map_err(|error| LabError::path("start what is to be started by", "/bin/sh", error))?;
    }
    Ok(sshd)
}

/// Reaps every orphan of the node and restarts sshd when it dies, until the controller is gone.
fn supervise(mut sshd: u32) -> ! {
    std::thread::spawn(|| {
        // Nothing more is ever sent: this returns at end-of-file, when the controller has gone.
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        std::process::exit(0)
    });
    loop {
        match waitpid(None::<Pid>, None) {
            Ok(status) if status.pid().is_some_and(|pid| pid.as_raw() as u32 != sshd) => continue,
            Err(Errno::EINTR) => continue,
            // sshd has died (or could not be started: then there may be no child at all).
            _ => {}
        }
        std::thread::sleep(SSHD_RESTART_PAUSE);
        sshd = start_sshd().unwrap_or(0);
    }
}

fn start_sshd() -> Result<u32, LabError> {
    let sshd = program("sshd")?;
    let child = Command::new(&sshd)
        .args(["-D", "-e"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| LabError::path("start", &sshd, error))?;
    Ok(child.id())
}

/// Writes what in `/etc` tells this node from the host.
fn settle(etc: &Path, boot: &Boot) -> Result<(), LabError> {
    let name = node_name(boot.index);
    sethostname(&name).map_err(|error| LabError::io("set the host name", error))?;
    let mut hosts = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
    for index in 1..=boot.nodes {
        hosts += &format!("{} {}\n", node_v4(index), node_name(index));
    }
    // The bare names mean IPv4 only, so that no store meets an address family it does not listen on.
    for index in 1..=boot.nodes {
        hosts += &format!("{} {}-v6\n", node_v6(index), node_name(index));
    }
    hosts += &format!("{CONTROLLER_V4} controller\n");
    write(&etc.join("hosts"), 0o644, &hosts)?;
    write(&etc.join("hostname"), 0o644, &format!("{name}\n"))?;
    write(&etc.join("resolv.conf"), 0o644, "# a node of a lab: no name server can be reached\n")?;
    write(
        &etc.join("machine-id"),
        0o444,
        &format!("{:032x}\n", 0xde90_5ed0_u128 << 64 | u128::from(boot.index)),
    )?;
    write(&etc.join("ssh/sshd_config"), 0o644, &boot.sshd_config)?;
    write(&etc.join("ssh/ssh_host_ed25519_key"), 0o600, &boot.host_key)?;
    write(&etc.join("ssh/authorized_keys"), 0o644, &boot.authorized_key)?;
    // "*" is no password but no lock either: sshd refuses accounts that are locked, even by key.
    for file in ["shadow", "gshadow"] {
        let path = etc.join(file);
        if let Ok(accounts) = fs::read_to_string(&path) {
            write(&path, 0o640, &without_passwords(&accounts))?;
        }
    }
    Ok(())
}

fn without_passwords(accounts: &str) -> String {
    let starred = accounts.lines().map(|line| {
        let mut fields: Vec<&str> = line.split(':').collect();
        if let Some(password) = fields.get_mut(1) {
            *password = "*";
        }
        fields.join(":") + "\n"
    });
    starred.collect()
}

fn add_login(login: &Login) -> Result<(), LabError> {
    let name = &login.name;
    // An earlier boot may have added it.
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    if !accounts.lines().any(|account| account.split(':').next() == Some(name)) {
        run(
            Command::new("useradd").args([
                "--create-home",
                "--shell",
                "/bin/sh",
                "--password",
                "*",
                name,
            ]),
            "",
        )?;
    }
    if let Some(password) = &login.password {
        run(
            Command::new("chpasswd").args(["--crypt-method", "SHA512"]),
            &format!("{name}:{password}\n"),
        )?;
    }
    let rule = match login.sudo {
        Sudo::No => return Ok(()),
        Sudo::Free => format!("{name} ALL=(ALL:ALL) NOPASSWD: ALL\n"),
        Sudo::Password => format!("{name} ALL=(ALL:ALL) ALL\n"),
    };
    write(&Path::new("/etc/sudoers.d").join(format!("deposed-{name}")), 0o440, &rule)
}

/// Gives the node's end of the cable its addresses. There is no route but to the other nodes.
fn connect(boot: &Boot) -> Result<(), LabError> {
    let (v4, v6): (Ipv4Addr, Ipv6Addr) = (node_v4(boot.index), node_v6(boot.index));
    let mut lines = vec!["link set lo up".into(), format!("addr add {v4}/{PREFIX_V4} dev eth0")];
    if boot.v6 {
        lines.push(format!("addr add {v6}/{PREFIX_V6} dev eth0 nodad"));
    }
    lines.push("link set eth0 up".into());
    ip::batch(&lines)
}

/// Stores want many files open; the limit they would inherit is that of whoever started the lab.
fn raise_file_limit() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

fn run(command: &mut Command, input: &str) -> Result<(), LabError> {
    let shown = format!("{command:?}");
    let failed = |error| LabError::io(format!("run {shown}"), error);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    Err(LabError::Command {
        command: shown,
        output: String::from_utf8_lossy(&output.stderr).trim().into(),
    })
}

/// Replaces a file, which may be a link to somewhere that does not exist here.
fn write(path: &Path, mode: u32, text: &str) -> Result<(), LabError> {
    let failed = |error| LabError::path("write", path, error);
    if fs::symlink_metadata(path).is_ok() {
        fs::remove_file(path).map_err(failed)?;
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}

fn read_line() -> Result<String, LabError> {
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(0) => std::process::exit(0),
        Ok(_) => Ok(line),
        Err(error) => Err(LabError::io("listen to the controller", error)),
    }
}

fn report(report: &Report) {
    let line = serde_json::to_string(report).unwrap_or_default() + "\n";
    // A controller that no longer listens is gone, and end-of-file on stdin will tell.
    let mut out = io::stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No password hash of the host reaches a node, and no account is left locked.
    #[test]
    fn password_hashes_are_removed() {
        let shadow = "root:$y$j9T$abc:19000:0:99999:7:::\nsshd:!:19000::::::\n";
        assert_eq!(without_passwords(shadow), "root:*:19000:0:99999:7:::\nsshd:*:19000::::::\n");
    }
}
