//! The configuration of a node's sshd.

use std::process::Command;

use crate::error::LabError;
use crate::packages::program;

/// First OpenSSH that makes a client wait after failed logins, unless told not to.
const PENALTIES_SINCE: (u32, u32) = (9, 8);

/// The sshd_config of a node. `passwords`: whether some login has one.
pub(crate) fn config(passwords: bool) -> Result<String, LabError> {
    // Without PAM an account is what /etc/passwd and /etc/shadow say, and a login runs nothing but a shell.
    let mut text = String::from(
        "Port 22\n\
         HostKey /etc/ssh/ssh_host_ed25519_key\n\
         AuthorizedKeysFile /etc/ssh/authorized_keys\n\
         PermitRootLogin prohibit-password\n\
         KbdInteractiveAuthentication no\n\
         UsePAM no\n\
         UseDNS no\n\
         PrintMotd no\n\
         PrintLastLog no\n\
         LogLevel ERROR\n\
         MaxSessions 100\n\
         MaxStartups 200\n\
         PidFile /run/sshd.pid\n\
         Subsystem sftp internal-sftp\n",
    );
    text += if passwords { "PasswordAuthentication yes\n" } else { "PasswordAuthentication no\n" };
    // Quantum-safe key exchange takes 60 ms of CPU at each end, for secrets that never leave this machine.
    text += "KexAlgorithms -sntrup*,mlkem*\n";
    // All connections come from the one controller: it must not be locked out by a test of a wrong key.
    if version()? >= PENALTIES_SINCE {
        text += "PerSourcePenalties no\n";
    }
    Ok(text)
}

/// Version of the sshd installed here, as in `OpenSSH_9.2p1`.
fn version() -> Result<(u32, u32), LabError> {
    let sshd = program("sshd")?;
    // Older ones do not know -V, but name themselves when they complain about it.
    let output = Command::new(&sshd)
        .arg("-V")
        .output()
        .map_err(|error| LabError::path("run", &sshd, error))?;
    let text = String::from_utf8_lossy(&output.stderr);
    parse_version(&text).ok_or_else(|| LabError::Command {
        command: format!("{} -V", sshd.display()),
        output: format!("no OpenSSH version in {:?}", text.trim()),
    })
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let (_, version) = text.split_once("OpenSSH_")?;
    let (major, rest) = version.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The version is found in what both old and new ones say.
    #[test]
    fn versions_are_read() {
        let old = "unknown option -- V\nOpenSSH_9.2p1 Debian-2+deb12u7, OpenSSL 3.0.17 1 Jul 2025\nusage: …";
        assert_eq!(parse_version(old), Some((9, 2)));
        assert_eq!(parse_version("OpenSSH_10.0p2, OpenSSL 3.5.1\n"), Some((10, 0)));
        assert_eq!(parse_version("dropbear"), None);
    }
}
