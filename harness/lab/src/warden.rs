//! Who holds machines of a lab from outside: frozen, or without power.
//!
//! A node in that state can undo nothing by itself. So each hold has a time: whoever asked for it has to say
//! again and again that it is still wanted, or the machine goes on, or boots, by itself. The warden lives in the
//! process that owns the lab; when that ends there are no machines any more.
//!
//! It is spoken to over a socket in the lab's directory, a connection for each [`Request`]: a line of JSON there,
//! a line back.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use crate::address::node_name;
use crate::error::{LabError, chain};
use crate::machine::{Hold, Machine, View};

/// The name of the socket in the lab's directory.
pub(crate) const SOCKET: &str = "warden";

/// How often to look whose time is over, in milliseconds.
const LOOK_EVERY_MS: u16 = 200;

/// How long an answer may take. A boot has a limit of its own, below that.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// How long a line may take that was begun.
const LINE_LIMIT: Duration = Duration::from_secs(5);

/// What a warden is asked.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Whether a machine can be held so.
    Check { how: Hold },
    /// Hold it for so long.
    Hold { how: Hold, ttl_ms: u64, start: Option<String> },
    /// Hold it for so long from now on.
    Renew { ttl_ms: u64 },
    /// Tell what can be seen of it.
    Look,
    /// Let it go on, or boot it.
    Release,
}

#[derive(Debug, Serialize, Deserialize)]
struct Request {
    node: String,
    order: Order,
}

/// What can be seen of the machine afterwards, or what is in the way.
type Answer = Result<View, String>;

/// The machines of a lab, and the thread that keeps their time and answers.
#[derive(Debug)]
pub(crate) struct Warden {
    machines: Arc<Vec<Mutex<Machine>>>,
    socket: PathBuf,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Warden {
    /// Takes charge of machines; listens in `directory`. Whenever one was booted, `boots` is told.
    pub(crate) fn start(
        machines: Vec<Machine>,
        directory: &Path,
        boots: Sender<()>,
    ) -> Result<Warden, LabError> {
        let socket = directory.join(SOCKET);
        // This lab's directory may have seen another before.
        let _ = fs::remove_file(&socket);
        let failed = |error| LabError::path("listen at", &socket, error);
        let listener = UnixListener::bind(&socket).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let machines: Arc<Vec<_>> = Arc::new(machines.into_iter().map(Mutex::new).collect());
        let over = Arc::new(AtomicBool::new(false));
        let (held, ended) = (Arc::clone(&machines), Arc::clone(&over));
        let thread = thread::Builder::new()
            .name("warden".into())
            .spawn(move || keep(&held, &listener, &ended, &boots))
            .map_err(|error| LabError::io("start a thread", error))?;
        Ok(Warden { machines, socket, over, thread: Some(thread) })
    }

    /// Every machine, one after another.
    pub(crate) fn machines(&self) -> impl Iterator<Item = MutexGuard<'_, Machine>> {
        self.machines.iter().map(lock)
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes it up. If that fails it wakes up by itself a moment later.
        let _ = UnixStream::connect(&self.socket);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(machine: &Mutex<Machine>) -> MutexGuard<'_, Machine> {
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The life of the thread.
fn keep(
    machines: &Arc<Vec<Mutex<Machine>>>,
    listener: &UnixListener,
    over: &AtomicBool,
    boots: &Sender<()>,
) {
    loop {
        let mut wanted = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        // Whatever it says: the clock is looked at and the listener asked.
        let _ = poll(&mut wanted, PollTimeout::from(LOOK_EVERY_MS));
        if over.load(Ordering::Relaxed) {
            return;
        }
        while let Ok((stream, _)) = listener.accept() {
            let (machines, boots) = (Arc::clone(machines), boots.clone());
            // Whoever asked is told by the end of the connection if nothing comes of it.
            let _ = thread::Builder::new()
                .name("warden-answer".into())
                .spawn(move || answer(&machines, &stream, &boots));
        }
        for (position, machine) in machines.iter().enumerate() {
            // One that is busy is being looked after.
            if machine.try_lock().is_ok_and(|machine| machine.is_due()) {
                let (machines, boots) = (Arc::clone(machines), boots.clone());
                let _ = thread::Builder::new().name("warden-release".into()).spawn(move || {
                    if lock(&machines[position]).release_if_due() {
                        let _ = boots.send(());
                    }
                });
            }
        }
    }
}

/// Answers one connection.
fn answer(machines: &[Mutex<Machine>], stream: &UnixStream, boots: &Sender<()>) {
    let mut line = String::new();
    let read = stream
        .set_read_timeout(Some(LINE_LIMIT))
        .and_then(|()| BufReader::new(stream).read_line(&mut line));
    if !matches!(read, Ok(1..)) {
        return;
    }
    let answer: Answer = match serde_json::from_str::<Request>(&line) {
        Ok(request) => obey(machines, request, boots).map_err(|error| chain(&error)),
        Err(error) => Err(format!("no request: {error}")),
    };
    let line = serde_json::to_string(&answer).unwrap_or_default() + "\n";
    // Who has gone meanwhile is not waited for: what it asked for has its time.
    let _ = (&*stream).write_all(line.as_bytes());
}

fn obey(
    machines: &[Mutex<Machine>],
    request: Request,
    boots: &Sender<()>,
) -> Result<View, LabError> {
    let Request { node, order } = request;
    let (machine, _) = machines
        .iter()
        .zip(1..)
        .find(|(_, index)| node_name(*index) == node)
        .ok_or_else(|| LabError::Warden(format!("this lab has no node {node:?}")))?;
    let mut machine = lock(machine);
    match order {
        Order::Check { how } => machine.check(how)?,
        Order::Hold { how, ttl_ms, start } => {
            machine.hold(how, Duration::from_millis(ttl_ms), start)?;
        }
        Order::Renew { ttl_ms } => machine.renew(Duration::from_millis(ttl_ms))?,
        Order::Look => {}
        Order::Release => {
            if machine.release()? {
                let _ = boots.send(());
            }
        }
    }
    Ok(machine.look())
}

/// The machine of one node, by way of the warden of its lab. Every call blocks until it is answered.
#[derive(Debug, Clone)]
pub struct Line {
    socket: PathBuf,
    node: String,
}

impl Line {
    /// To the warden that listens at `socket`.
    pub fn new(socket: impl Into<PathBuf>, node: impl Into<String>) -> Line {
        Line { socket: socket.into(), node: node.into() }
    }

    /// Errs where the machine cannot be held so; touches nothing.
    pub fn check(&self, how: Hold) -> Result<(), LabError> {
        self.ask(Order::Check { how }).map(drop)
    }

    /// Holds the machine for so long, or until it is released; returns when that is so. One that was off runs
    /// `start`, a script for `/bin/sh`, when it has booted.
    pub fn hold(&self, how: Hold, ttl: Duration, start: Option<String>) -> Result<(), LabError> {
        self.ask(Order::Hold { how, ttl_ms: millis(ttl), start }).map(drop)
    }

    /// Holds it for so long from now on. Errs if it is not held any more.
    pub fn renew(&self, ttl: Duration) -> Result<(), LabError> {
        self.ask(Order::Renew { ttl_ms: millis(ttl) }).map(drop)
    }

    /// What can be seen of it.
    pub fn look(&self) -> Result<View, LabError> {
        self.ask(Order::Look)
    }

    /// Lets it go on, or boots it; returns when its sshd answers. Does nothing to one that runs.
    pub fn release(&self) -> Result<(), LabError> {
        self.ask(Order::Release).map(drop)
    }

    fn ask(&self, order: Order) -> Result<View, LabError> {
        let failed = |error| LabError::path("ask the warden of the lab at", &self.socket, error);
        let request = Request { node: self.node.clone(), order };
        let line = serde_json::to_string(&request).map_err(|error| failed(error.into()))? + "\n";
        let mut answer = String::new();
        let mut stream = UnixStream::connect(&self.socket).map_err(failed)?;
        stream
            .set_read_timeout(Some(ANSWER_LIMIT))
            .and_then(|()| stream.write_all(line.as_bytes()))
            .and_then(|()| BufReader::new(stream).read_line(&mut answer))
            .map_err(failed)?;
        let answer: Answer = serde_json::from_str(&answer)
            .map_err(|_| failed(io::Error::other("it ended before it answered")))?;
        answer.map_err(LabError::Warden)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
