//! A real SSH server on loopback with keys and configuration of its own, in a private mount namespace
//! so that users and sudoers can be added without touching this machine's. Gone when dropped.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "only tests use it")]

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

use deposed::inventory::{HostKeyPolicy, NodeSpec};
use deposed_lab::packages::{self, Install, Requirement};

/// The password of [`Sshd::USER`].
pub(crate) const PASSWORD: &str = "correct horse";

pub(crate) struct Sshd {
    folder: tempfile::TempDir,
    server: Child,
    pub(crate) port: u16,
}

impl Sshd {
    /// A user who is not root, with a password and the right to use sudo with it.
    pub(crate) const USER: &str = "deposed-test";
    /// Another, whom sudo asks for nothing.
    pub(crate) const TRUSTED_USER: &str = "deposed-free";

    /// A server on which root logs in by key, and [`Self::USER`] by key or password.
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// The same with more lines of sshd_config.
    pub(crate) fn start_with(config: &str) -> Self {
        install();
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["host_key", "key", "other_key"] {
            keygen("ed25519", &path(name), "");
        }
        keygen("ecdsa", &path("ecdsa_host_key"), "");
        keygen("ed25519", &path("locked_key"), "open sesame");
        let authorized: String = ["key.pub", "locked_key.pub"]
            .map(|name| std::fs::read_to_string(path(name)).unwrap())
            .concat();
        std::fs::write(path("authorized"), authorized).unwrap();
        let port = free_port();
        write_config(&path("sshd_config"), folder.path(), port, config);
        write_users(folder.path());
        let mut sshd = Self { server: serve(folder.path()), folder, port };
        sshd.wait_until_it_answers();
        sshd
    }

    /// Root by key, the server's own host key known.
    pub(crate) fn spec(&self) -> NodeSpec {
        let known_hosts = self.path("known_hosts");
        let key = std::fs::read_to_string(self.path("host_key.pub")).unwrap();
        std::fs::write(&known_hosts, format!("[127.0.0.1]:{} {key}", self.port)).unwrap();
        let mut spec = NodeSpec::new("n1", Ipv4Addr::LOCALHOST.into());
        spec.port = self.port;
        spec.keys = vec![self.path("key")];
        spec.known_hosts = vec![known_hosts];
        spec.host_keys = HostKeyPolicy::Strict;
        spec
    }

    /// A file in the server's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The processes that serve logins: children of the listener, and theirs.
    pub(crate) fn sessions(&self) -> Vec<u32> {
        let mut found = Vec::new();
        let mut parents = vec![self.server.id()];
        while let Some(parent) = parents.pop() {
            let children = format!("/proc/{parent}/task/{parent}/children");
            for pid in std::fs::read_to_string(children).unwrap_or_default().split_whitespace() {
                let pid: u32 = pid.parse().unwrap();
                let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                if comm.trim() == "sshd" {
                    found.push(pid);
                    parents.push(pid);
                }
            }
        }
        found
    }

    /// Sends a signal to every process that serves a login.
    pub(crate) fn signal_sessions(&self, signal: &str) {
        for pid in self.sessions() {
            // It may have ended meanwhile.
            let _ = Command::new("kill")
                .args([signal, &pid.to_string()])
                .stderr(Stdio::null())
                .status();
        }
    }

    /// Sends a signal to the listener and every session.
    pub(crate) fn signal_all(&self, signal: &str) {
        Command::new("kill").args([signal, &self.server.id().to_string()]).status().unwrap();
        self.signal_sessions(signal);
    }

    fn wait_until_it_answers(&mut self) {
        let end = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            let log =
                || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            if let Some(status) = self.server.try_wait().unwrap() {
                panic!("sshd ended with {status}: {}", log());
            }
            assert!(Instant::now() < end, "sshd does not answer: {}", log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.signal_all("-CONT");
        self.signal_sessions("-KILL");
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Installs what the tests need, once, saying so. Whoever leaves the machine's network calls it before.
pub(crate) fn install() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let needed = [
            Requirement::new("sshd", "openssh-server"),
            Requirement::new("sudo", "sudo"),
            Requirement::new("openssl", "openssl"),
            Requirement::new("iptables", "iptables"),
            Requirement::new("ip", "iproute2"),
            Requirement::new("ping", "iputils-ping"),
            Requirement::new("ps", "procps"),
        ];
        packages::ensure(&needed, Install::Yes, None, &mut |line| println!("{line}")).unwrap();
        std::fs::create_dir_all("/run/sshd").unwrap();
    });
}

fn keygen(kind: &str, file: &Path, passphrase: &str) {
    let status = Command::new("ssh-keygen")
        .args(["-q", "-t", kind, "-N", passphrase, "-C", "deposed test", "-f"])
        .arg(file)
        .status()
        .unwrap();
    assert!(status.success());
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn write_config(file: &Path, folder: &Path, port: u16, more: &str) {
    let folder = folder.display();
    let config = format!(
        "{more}
        ListenAddress 127.0.0.1:{port}
        ListenAddress [::1]:{port}
        HostKey {folder}/host_key
        HostKey {folder}/ecdsa_host_key
        AuthorizedKeysFile {folder}/authorized
        PidFile none
        UsePAM no
        StrictModes no
        PermitRootLogin yes
        PasswordAuthentication yes
        LogLevel VERBOSE
        "
    );
    std::fs::write(file, config).unwrap();
}

/// This machine's users and two more; sudoers for those two.
fn write_users(folder: &Path) {
    let hash = Command::new("openssl").args(["passwd", "-6", PASSWORD]).output().unwrap().stdout;
    let hash = String::from_utf8(hash).unwrap();
    let mut passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let mut shadow = std::fs::read_to_string("/etc/shadow").unwrap();
    for (user, id) in [(Sshd::USER, 64_001), (Sshd::TRUSTED_USER, 64_002)] {
        passwd += &format!("{user}:x:{id}:65534::/:/bin/sh\n");
        shadow += &format!("{user}:{}:19000:0:99999:7:::\n", hash.trim());
    }
    let sudoers = format!(
        "root ALL=(ALL:ALL) ALL\n{} ALL=(ALL:ALL) ALL\n{} ALL=(ALL:ALL) NOPASSWD: ALL\n",
        Sshd::USER,
        Sshd::TRUSTED_USER
    );
    std::fs::write(folder.join("passwd"), passwd).unwrap();
    std::fs::write(folder.join("shadow"), shadow).unwrap();
    std::fs::write(folder.join("sudoers"), sudoers).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder, open).unwrap();
    let sudoers = std::os::unix::fs::PermissionsExt::from_mode(0o440);
    std::fs::set_permissions(folder.join("sudoers"), sudoers).unwrap();
}

/// Starts the listener. It dies with this process, and its mounts with it.
fn serve(folder: &Path) -> Child {
    let script = "set -e
        for file in passwd shadow sudoers; do mount --bind \"$0/$file\" \"/etc/$file\"; done
        exec /usr/sbin/sshd -D -f \"$0/sshd_config\" -E \"$0/log\"";
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"])
        .args(["/bin/sh", "-c", script])
        .arg(folder)
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}
