//! From a [`NodeSpec`] to a shell on its node: socket, SSH, host key, login, channel.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, setsockopt, sockopt};
use ssh2::{Channel, ErrorCode, ExtendedData, Session};

use super::host_key::{self, Fingerprint, HostKeyError};
use super::login;
use super::shell::{Broken, Entry, Shell, Wire};
use crate::inventory::{NodeSpec, Sudo};

/// How long a connection may take from its first packet to its shell.
pub(super) const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// How long a silent peer's kernel may take to answer a TCP probe, or to acknowledge data.
const UNACKNOWLEDGED_MS_MAX: u32 = 20_000;
/// Seconds of silence after which the kernel probes the peer.
const PROBE_AFTER_SECONDS: u32 = 10;

/// Why there is no shell. Nothing ran.
#[derive(Debug)]
pub(super) enum Refused {
    /// Worth trying again at once: an overloaded server drops logins like this.
    Passing(String),
    /// Not worth it.
    Lasting(String),
    /// The server shows another key than the one known.
    HostKeyChanged(String),
    /// There was no time left.
    Late,
}

impl From<ssh2::Error> for Refused {
    fn from(error: ssh2::Error) -> Self {
        // Banner, socket send, disconnect, receive: how a throttling sshd (MaxStartups) looks from here.
        match error.code() {
            ErrorCode::Session(-9 | -30) => Self::Late,
            ErrorCode::Session(-2 | -7 | -13 | -43) => Self::Passing(error.message().to_owned()),
            _ => Self::Lasting(error.message().to_owned()),
        }
    }
}

/// One connection: the channel on which a shell runs.
pub(super) struct SshWire {
    channel: Channel,
    session: Session,
    socket: TcpStream,
    deadline: Instant,
}

/// What can be told of a connection without a round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pulse {
    /// Nothing has come: alive, as far as this side has heard.
    Quiet,
    /// Something has come, be it a question or a farewell.
    Stirred,
    /// The peer has hung up.
    Gone,
}

impl SshWire {
    /// Looks at the socket without taking anything from it.
    pub(super) fn pulse(&self) -> Pulse {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        match recv(self.socket.as_raw_fd(), &mut [0], flags) {
            Err(Errno::EAGAIN) => Pulse::Quiet,
            Ok(1) => Pulse::Stirred,
            Ok(_) | Err(_) => Pulse::Gone,
        }
    }

    /// libssh2 takes its timeout per call, in milliseconds, and 0 for none.
    fn arm(&self) -> std::io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now()).as_millis();
        if left == 0 {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        self.session.set_timeout(u32::try_from(left).unwrap_or(u32::MAX));
        Ok(())
    }
}

impl Wire for SshWire {
    fn until(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }
}

impl Read for SshWire {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.arm()?;
        self.channel.read(buffer)
    }
}

impl Write for SshWire {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.arm()?;
        self.channel.write(bytes)
    }

    /// Does nothing: writes are sent at once, and libssh2's flush throws away what was *received*.
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for SshWire {
    /// Shuts the socket first: libssh2 closes a channel by waiting for the peer's consent.
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Connects, logs in and starts a shell. `opened` is given the socket as soon as there is one, so that
/// others can cut it.
pub(super) fn open(
    spec: &NodeSpec,
    token: &str,
    orphan: Option<&str>,
    deadline: Instant,
    opened: &dyn Fn(&TcpStream),
) -> Result<(Shell<SshWire>, Fingerprint), Refused> {
    let socket = connect(spec, deadline)?;
    opened(&socket);
    let mut session = Session::new()?;
    let result = log_in(&mut session, &socket, spec, deadline).and_then(|fingerprint| {
        let entry = entry(spec);
        let wire = channel(&session, &socket, &entry.command(token), deadline)?;
        match Shell::start(wire, token, &entry, orphan, deadline) {
            Ok(shell) => Ok((shell, fingerprint)),
            Err(Broken::Lost(said)) => Err(Refused::Lasting(no_shell(spec, &entry, &said))),
            Err(_) => Err(Refused::Late),
        }
    });
    if result.is_err() {
        let _ = socket.shutdown(Shutdown::Both);
    }
    result
}

fn entry(spec: &NodeSpec) -> Entry {
    if spec.sudo == Sudo::None || spec.user == "root" {
        return Entry::Plain;
    }
    let password = spec.sudo_password.as_ref().or(spec.password.as_ref());
    password.map_or(Entry::Sudo, |password| Entry::SudoPassword(password.clone()))
}

fn connect(spec: &NodeSpec, deadline: Instant) -> Result<TcpStream, Refused> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Refused::Late);
    }
    let socket = TcpStream::connect_timeout(&spec.endpoint(), left).map_err(|error| {
        use std::io::ErrorKind::{ConnectionRefused, TimedOut};
        match error.kind() {
            TimedOut => Refused::Late,
            ConnectionRefused => Refused::Lasting(format!(
                "connection refused: no SSH server listens on port {}; start it, or say which `port`",
                spec.port
            )),
            _ => Refused::Lasting(format!("{error}; check `addr` and the network")),
        }
    })?;
    let options = || -> std::io::Result<()> {
        socket.set_nodelay(true)?;
        setsockopt(&socket, sockopt::KeepAlive, &true)?;
        setsockopt(&socket, sockopt::TcpKeepIdle, &PROBE_AFTER_SECONDS)?;
        setsockopt(&socket, sockopt::TcpUserTimeout, &UNACKNOWLEDGED_MS_MAX)?;
        Ok(())
    };
    options().map_err(|error| Refused::Lasting(format!("socket options: {error}")))?;
    Ok(socket)
}

fn log_in(
    session: &mut Session,
    socket: &TcpStream,
    spec: &NodeSpec,
    deadline: Instant,
) -> Result<Fingerprint, Refused> {
    let own = socket.try_clone().map_err(|error| Refused::Lasting(error.to_string()))?;
    session.set_tcp_stream(own);
    arm(session, deadline)?;
    host_key::prefer_known(session, spec)?;
    session.handshake()?;
    let fingerprint = host_key::check(session, spec).map_err(|error| match error {
        HostKeyError::Unknown(reason) => Refused::Lasting(reason),
        HostKeyError::Changed(reason) => Refused::HostKeyChanged(reason),
    })?;
    arm(session, deadline)?;
    login::login(session, spec)?;
    Ok(fingerprint)
}

fn channel(
    session: &Session,
    socket: &TcpStream,
    command: &str,
    deadline: Instant,
) -> Result<SshWire, Refused> {
    arm(session, deadline)?;
    let mut channel = session.channel_session()?;
    // What goes wrong before our shell is up is said on standard error, and one stream is enough
    // to wait on. The shell itself sends nothing there.
    channel.handle_extended_data(ExtendedData::Merge)?;
    channel.exec(command)?;
    let socket = socket.try_clone().map_err(|error| Refused::Lasting(error.to_string()))?;
    Ok(SshWire { channel, session: session.clone(), socket, deadline })
}

fn arm(session: &Session, deadline: Instant) -> Result<(), Refused> {
    let left = deadline.saturating_duration_since(Instant::now()).as_millis();
    if left == 0 {
        return Err(Refused::Late);
    }
    session.set_timeout(u32::try_from(left).unwrap_or(u32::MAX));
    Ok(())
}

fn no_shell(spec: &NodeSpec, entry: &Entry, said: &str) -> String {
    let user = &spec.user;
    if matches!(entry, Entry::Plain) {
        return format!("{user} logged in, but /bin/sh did not start: {said}");
    }
    let mend = if said.contains("password is required") {
        "give it one (`sudo_password`), or let sudoers ask for none (NOPASSWD)"
    } else if said.contains("password is wrong") {
        "check `sudo_password`"
    } else if said.contains("not found") {
        "install sudo, or log in as root"
    } else if said.contains("must have a tty") {
        "switch off `requiretty` in sudoers"
    } else {
        "check that sudoers lets it run /bin/sh as root, or log in as root"
    };
    format!("{user} logged in, but got no root shell: {said}; {mend}")
}
