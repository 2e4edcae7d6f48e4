//! The processes of one service on one node: started, found and killed by what was recorded of
//! them, never by name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use deposed_core::{Command, Process, Remote, RemoteError};

/// The shell functions every script below is built on.
const FUNCTIONS: &str = include_str!("daemon.sh");

/// Starts the service on the data there is, unless it runs.
pub(crate) const START: &str = "start_service";

/// Succeeds if it runs.
pub(crate) const RUNS: &str = "members; [ -n \"$members\" ]";

/// Kills whatever is left of it.
pub(crate) const STOP: &str = "kill_service";

/// A service of one node.
#[derive(Debug, Clone)]
pub(crate) struct Daemon {
    /// Where its pid is recorded.
    pub(crate) run: String,
    /// The directory it runs in.
    pub(crate) data: String,
    /// Where its standard output and error go.
    pub(crate) log_file: String,
    /// Who it runs as, if not root.
    pub(crate) user: Option<String>,
    /// The command, which stays in the foreground.
    pub(crate) start: String,
}

/// A socket that listens on a port the service needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listener {
    /// The port.
    pub(crate) port: u16,
    /// The address it is bound to.
    pub(crate) addr: IpAddr,
    /// The program, its pid and its unit, for people.
    pub(crate) holder: String,
}

impl Daemon {
    /// A script that has the functions of `daemon.sh` and the variables they need.
    pub(crate) fn script(&self, body: &str) -> String {
        let variables = [
            ("run", self.run.as_str()),
            ("data", &self.data),
            ("log_file", &self.log_file),
            ("user", self.user.as_deref().unwrap_or("")),
            ("start", &self.start),
        ];
        let variables: String =
            variables.iter().map(|(name, value)| format!("{name}={}\n", quote(value))).collect();
        format!("PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin\n{variables}{FUNCTIONS}\n{body}\n")
    }

    /// Where client programs on its node write for people.
    pub(crate) fn log_of_clients(&self) -> String {
        let folder = self.log_file.rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{folder}/clients.log")
    }

    /// Starts it on the data there is. Does nothing if it runs.
    pub(crate) async fn start(&self, remote: &dyn Remote) -> Result<(), RemoteError> {
        remote.run(Command::new(self.script(START)).idempotent()).await.map(drop)
    }

    /// Kills whatever is left of it. Does nothing if nothing is.
    pub(crate) async fn kill(&self, remote: &dyn Remote) -> Result<(), RemoteError> {
        remote.run(Command::new(self.script(STOP)).idempotent()).await.map(drop)
    }

    /// Its living processes, the leader first.
    pub(crate) async fn processes(&self, remote: &dyn Remote) -> Result<Vec<Process>, RemoteError> {
        let script = self.script("members; echo $members");
        let members = remote.run(Command::new(script).idempotent()).await?;
        Ok(members.split_whitespace().filter_map(parse_process).collect())
    }

    /// Every socket that listens on one of the ports.
    pub(crate) async fn listeners(
        &self,
        remote: &dyn Remote,
        ports: &[u16],
    ) -> Result<Vec<Listener>, RemoteError> {
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        let script = self.script(&format!(
            "for port in {}; do\n\
             listeners $port | while read -r addr inode; do\n\
             echo \"$port $addr $(holder $inode)\"\ndone\ndone",
            ports.join(" ")
        ));
        let command = Command::new(script).idempotent().deadline(Duration::from_secs(20));
        Ok(remote.run(command).await?.lines().filter_map(parse_listener).collect())
    }
}

/// A word of the shell that means exactly `text`.
pub(crate) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn parse_process(word: &str) -> Option<Process> {
    let (pid, ticks) = word.split_once(':')?;
    Some(Process { pid: pid.parse().ok()?, start_ticks: ticks.parse().ok()? })
}

fn parse_listener(line: &str) -> Option<Listener> {
    let mut words = line.splitn(3, ' ');
    let port = words.next()?.parse().ok()?;
    let addr = parse_kernel_address(words.next()?)?;
    Some(Listener { port, addr, holder: words.next()?.to_owned() })
}

/// `/proc/net/tcp` shows addresses as 32-bit words of a little-endian machine.
fn parse_kernel_address(hex: &str) -> Option<IpAddr> {
    let mut bytes = Vec::with_capacity(16);
    for at in (0..hex.len()).step_by(8) {
        bytes.extend(u32::from_str_radix(hex.get(at..at + 8)?, 16).ok()?.to_le_bytes());
    }
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's way of writing addresses is understood for IPv4, IPv6 and mapped IPv4.
    #[test]
    fn kernel_addresses() {
        let parse = |hex| parse_kernel_address(hex).unwrap().to_string();
        assert_eq!(parse("0100007F"), "127.0.0.1");
        assert_eq!(parse("00000000000000000000000001000000"), "::1");
        assert_eq!(parse("0000000000000000FFFF00000100007F"), "127.0.0.1");
        assert_eq!(parse_kernel_address("01"), None);
    }

    /// A quoted word survives the shell whatever is in it.
    #[test]
    fn quoting() {
        let text = "it's $HOME `x` \\ \"y\"\nz";
        let script = format!("printf %s {}", quote(text));
        let said = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8(said.stdout).unwrap(), text);
    }
}
