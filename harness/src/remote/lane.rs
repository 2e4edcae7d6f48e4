//! The queue of a node and the threads that serve it.
//!
//! A lane is one thread with one connection of its own. Lanes are started as commands pile up, to a
//! limit well below what an SSH server accepts at once (10 logins under way, 10 channels a session).

use std::collections::{BTreeMap, VecDeque};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use deposed_core::{Command, Output, RemoteError};
use rand::RngExt;
use tokio::sync::oneshot;

use super::handshake::{self, CONNECT_DEADLINE, Pulse, Refused, SshWire};
use super::host_key::Fingerprint;
use super::shell::{Broken, OUTPUT_BYTES_MAX, Shell};
use crate::inventory::NodeSpec;

/// How many commands run on a node at once; the rest wait their turn.
const LANES_MAX: usize = 6;
/// How many may wait.
const WAITING_MAX: usize = 4096;
/// How often an idle connection is used, so that it is known to live.
const FRESH: Duration = Duration::from_secs(10);
/// How long a connection is trusted to live without having been used.
const TRUSTED: Duration = Duration::from_secs(1);
/// How long a connection may take to show that it lives.
const PING_DEADLINE: Duration = Duration::from_secs(5);
/// How often an idempotent command is sent that gets lost.
const TRIES_MAX: u32 = 5;
/// How often a login is tried that a busy server drops.
const LOGINS_MAX: u32 = 8;

/// A command on its way.
pub(super) struct Job {
    pub(super) command: Command,
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Result<Output, RemoteError>>,
}

/// What a node's lanes share.
pub(super) struct Queue {
    pub(super) spec: NodeSpec,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    lanes: usize,
    idle: usize,
    started: usize,
    closed: bool,
    sockets: BTreeMap<usize, TcpStream>,
    fingerprint: Option<Fingerprint>,
}

enum Next {
    Job(Box<Job>),
    Nothing,
    Closed,
}

impl Queue {
    pub(super) fn new(spec: NodeSpec) -> Arc<Self> {
        Arc::new(Self { spec, state: Mutex::default(), wake: Condvar::new() })
    }

    /// Hands in a job, starting a lane for it if all are busy.
    pub(super) fn submit(self: &Arc<Self>, job: Job) -> Result<(), RemoteError> {
        let mut state = self.state();
        let refused = |reason: String| RemoteError::Connect {
            node: self.spec.node.name.to_string(),
            addr: self.spec.endpoint().to_string(),
            reason,
        };
        if state.waiting.len() >= WAITING_MAX {
            return Err(refused(format!("{WAITING_MAX} commands already wait for this node")));
        }
        state.waiting.push_back(job);
        if state.waiting.len() > state.idle && state.lanes < LANES_MAX {
            state.started += 1;
            let (queue, number) = (Arc::clone(self), state.started);
            let name = format!("ssh {} {number}", self.spec.node.name);
            // The thread's first act is to ask for the state, so it finds itself counted.
            let live = move || Lane::new(queue, number).live();
            match std::thread::Builder::new().name(name).spawn(live) {
                Ok(_) => state.lanes += 1,
                Err(error) if state.lanes == 0 => {
                    state.waiting.pop_back();
                    return Err(refused(format!("cannot start a thread: {error}")));
                }
                Err(_) => {}
            }
        }
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// Ends all lanes at once, cutting the connections.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.waiting.clear();
        for socket in state.sockets.values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        drop(state);
        self.wake.notify_all();
    }

    /// The key the server showed last.
    pub(super) fn fingerprint(&self) -> Option<Fingerprint> {
        self.state().fingerprint.clone()
    }

    fn next(&self) -> Next {
        let mut state = self.state();
        let until = Instant::now() + FRESH;
        loop {
            if state.closed {
                return Next::Closed;
            }
            if let Some(job) = state.waiting.pop_front() {
                return Next::Job(Box::new(job));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Next::Nothing;
            }
            state.idle += 1;
            state = self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.idle -= 1;
        }
    }

    fn opened(&self, lane: usize, socket: &TcpStream) {
        let mut state = self.state();
        if state.closed {
            let _ = socket.shutdown(Shutdown::Both);
        }
        if let Ok(socket) = socket.try_clone() {
            state.sockets.insert(lane, socket);
        }
    }

    /// A number for one more connection that is not a lane's.
    pub(super) fn number(&self) -> usize {
        let mut state = self.state();
        state.started += 1;
        state.started
    }

    /// Connects and logs in, trying again where a busy server drops logins.
    pub(super) fn connect(
        &self,
        number: usize,
        orphan: Option<&str>,
        deadline: Instant,
    ) -> Result<Shell<SshWire>, Refused> {
        let token = format!("{:032x}", rand::rng().random::<u128>());
        let opened = |socket: &TcpStream| self.opened(number, socket);
        let within = Instant::now() + CONNECT_DEADLINE;
        let mut said = String::new();
        for attempt in 0..LOGINS_MAX {
            if attempt > 0 {
                pause(attempt, deadline);
            }
            let spec = &self.spec;
            match handshake::open(spec, &token, orphan, deadline.min(within), &opened) {
                Ok((shell, fingerprint)) => {
                    self.state().fingerprint = Some(fingerprint);
                    return Ok(shell);
                }
                Err(Refused::Passing(reason)) => said = reason,
                Err(Refused::Late) if within < deadline => {
                    return Err(Refused::Lasting(format!(
                        "no answer within {CONNECT_DEADLINE:?}: is the node up, and `addr` and `port` \
                         right?"
                    )));
                }
                Err(refused) => return Err(refused),
            }
        }
        Err(Refused::Lasting(format!("{said} ({LOGINS_MAX} tries); is its SSH server overloaded?")))
    }

    /// Says that a connection is no more.
    pub(super) fn closed(&self, number: usize) {
        self.state().sockets.remove(&number);
    }

    /// The error of a command that never ran because there was no connection for it.
    pub(super) fn refused(&self, refused: Refused, command: &Command) -> RemoteError {
        let (node, addr) = (self.spec.node.name.to_string(), self.spec.endpoint().to_string());
        match refused {
            Refused::Late => late(&self.spec, command),
            Refused::Passing(reason) | Refused::Lasting(reason) => {
                RemoteError::Connect { node, addr, reason }
            }
            Refused::HostKeyChanged(reason) => RemoteError::HostKeyChanged { node, addr, reason },
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thread's view: its connection, if it has one.
struct Lane {
    queue: Arc<Queue>,
    number: usize,
    shell: Option<Shell<SshWire>>,
    used: Instant,
    /// The folder of a shell that was given up while it ran a command.
    orphan: Option<String>,
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.lanes -= 1;
        state.sockets.remove(&self.number);
    }
}

impl Lane {
    fn new(queue: Arc<Queue>, number: usize) -> Self {
        Self { queue, number, shell: None, used: Instant::now(), orphan: None }
    }

    fn live(mut self) {
        // While there are others, a command is not taken before there is a connection for it: one of
        // them may be free sooner, and this one may never be.
        if self.queue.state().lanes > 1 {
            match self.connect(Instant::now() + CONNECT_DEADLINE) {
                Ok(shell) => self.shell = Some(shell),
                Err(_) => return,
            }
            self.used = Instant::now();
        }
        loop {
            match self.queue.next() {
                Next::Closed => return,
                Next::Nothing => self.refresh(Instant::now() + PING_DEADLINE),
                Next::Job(job) if job.reply.is_closed() => {}
                Next::Job(job) => {
                    let Job { command, deadline, reply } = *job;
                    let _ = reply.send(self.serve(&command, deadline));
                }
            }
        }
    }

    /// Runs a command, once, or until it is answered if it is idempotent.
    fn serve(&mut self, command: &Command, deadline: Instant) -> Result<Output, RemoteError> {
        let mut lost = None;
        for attempt in 0..TRIES_MAX {
            if attempt > 0 {
                pause(attempt, deadline);
            }
            let shell = match self.connected(deadline) {
                Ok(shell) => shell,
                Err(refused) => return Err(self.refused(refused, command, lost)),
            };
            let result = shell.run(command, deadline);
            let folder = shell.folder().to_owned();
            self.used = Instant::now();
            let broken = match result {
                Ok(output) => return Ok(output),
                Err(broken) => broken,
            };
            if broken != Broken::Killed {
                self.shell = None;
                self.orphan = Some(folder);
            }
            match broken {
                Broken::Killed | Broken::Silent => return Err(self.late(command)),
                Broken::Big(length) => return Err(self.big(command, length)),
                Broken::Lost(reason) => lost = Some(reason),
            }
            if !command.idempotent {
                break;
            }
        }
        Err(self.lost(command, lost.unwrap_or_default()))
    }

    /// A shell that is known to have lived a moment ago.
    fn connected(&mut self, deadline: Instant) -> Result<&mut Shell<SshWire>, Refused> {
        self.refresh(deadline.min(Instant::now() + PING_DEADLINE));
        if self.shell.is_none() {
            self.shell = Some(self.connect(deadline)?);
            self.used = Instant::now();
        }
        self.shell.as_mut().ok_or(Refused::Late)
    }

    /// Drops a connection that has died unnoticed.
    fn refresh(&mut self, deadline: Instant) {
        let Some(shell) = &mut self.shell else { return };
        let lives = match shell.wire().pulse() {
            Pulse::Quiet if self.used.elapsed() < TRUSTED => return,
            Pulse::Quiet | Pulse::Stirred => shell.ping(deadline).is_ok(),
            Pulse::Gone => false,
        };
        if !lives {
            self.shell = None;
        }
        self.used = Instant::now();
    }

    fn connect(&mut self, deadline: Instant) -> Result<Shell<SshWire>, Refused> {
        let shell = self.queue.connect(self.number, self.orphan.as_deref(), deadline)?;
        self.orphan = None;
        Ok(shell)
    }

    fn refused(&self, refused: Refused, command: &Command, lost: Option<String>) -> RemoteError {
        match (lost, refused) {
            // It was sent once already: this is not "nothing ran".
            (Some(lost), Refused::Passing(reason) | Refused::Lasting(reason)) => {
                self.lost(command, format!("{lost}; then {reason}"))
            }
            (_, refused) => self.queue.refused(refused, command),
        }
    }

    fn late(&self, command: &Command) -> RemoteError {
        late(&self.queue.spec, command)
    }

    fn lost(&self, command: &Command, reason: String) -> RemoteError {
        lost(&self.queue.spec, command, reason)
    }

    fn big(&self, command: &Command, length: u64) -> RemoteError {
        RemoteError::Transfer {
            node: self.node(),
            action: "read the output of",
            path: Command::label(&command.script),
            reason: format!(
                "{length} bytes are more than {OUTPUT_BYTES_MAX}; redirect it to a file and download that"
            ),
        }
    }

    fn node(&self) -> String {
        self.queue.spec.node.name.to_string()
    }
}

/// The error of a command whose time is up.
pub(super) fn late(spec: &NodeSpec, command: &Command) -> RemoteError {
    RemoteError::Deadline {
        node: spec.node.name.to_string(),
        command: Command::label(&command.script),
        deadline: command.deadline,
    }
}

/// The error of a command that may have run.
pub(super) fn lost(spec: &NodeSpec, command: &Command, reason: String) -> RemoteError {
    let node = spec.node.name.to_string();
    RemoteError::Lost { node, command: Command::label(&command.script), reason }
}

/// Waits longer each time, and never as long as the neighbour does.
fn pause(attempt: u32, deadline: Instant) {
    let jittered = Duration::from_millis(rand::rng().random_range(50..150)) * attempt;
    std::thread::sleep(jittered.min(deadline.saturating_duration_since(Instant::now())));
}
