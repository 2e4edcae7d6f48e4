//! A node for one boot, as its machine sees it: an init to talk to, and a thread that is its parent.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sched::CloneFlags;

use crate::address::{node_name, node_v4};
use crate::control_group;
use crate::error::LabError;
use crate::hub::isolate;
use crate::init::{Boot, Report};
use crate::process::Process;
use crate::role;

/// How long a node may take to boot, and its sshd to answer.
pub(crate) const BOOT_LIMIT: Duration = Duration::from_secs(20);

/// How often to ask for sshd's greeting.
const GREETING_POLL: Duration = Duration::from_millis(5);

/// How long one such question may take.
const GREETING_LIMIT: Duration = Duration::from_millis(500);

/// How long a node that is thought to have failed may take to say why.
const LAST_WORDS_LIMIT: Duration = Duration::from_millis(100);

/// How much of a node's log to show when it did not boot, in bytes from its end.
const LOG_TAIL_BYTES: usize = 400;

/// A running node.
#[derive(Debug)]
pub(crate) struct Node {
    index: u8,
    log: PathBuf,
    /// Process number of its init on this host; 0 until it has been started.
    pid: i32,
    init: Arc<Mutex<Option<Child>>>,
    /// The node ends when this is closed.
    guard: Option<ChildStdin>,
    /// `None` once nobody listens any more.
    reports: Option<Receiver<Started>>,
    /// Parent of its init, which dies with it; ends when init has been reaped.
    parent: Option<JoinHandle<()>>,
}

/// What the parent of init passes on.
enum Started {
    /// Init runs.
    Init { pid: i32, stdin: ChildStdin },
    /// Init says so.
    Said(Report),
    /// It could not be started.
    Failed(LabError),
}

impl Node {
    /// Starts to boot a node, with `program` as its init, in the control group at `group` if there is one.
    /// What it says beside its reports is added to `log`. Returns at once.
    pub(crate) fn start(
        program: &Path,
        boot: Boot,
        group: Option<PathBuf>,
        log: PathBuf,
    ) -> Result<Node, LabError> {
        let stderr = File::options().create(true).append(true).open(&log);
        let stderr = stderr.map_err(|error| LabError::path("open", &log, error))?;
        let index = boot.index;
        let init = Arc::new(Mutex::new(None));
        let (sender, reports) = channel();
        let (program, shared) = (program.to_owned(), Arc::clone(&init));
        let parent = thread::Builder::new()
            .name(format!("parent-{}", node_name(index)))
            .spawn(move || guard(&program, &boot, group.as_deref(), stderr, &shared, &sender))
            .map_err(|error| LabError::io("start a thread", error))?;
        Ok(Node {
            index,
            log,
            pid: 0,
            init,
            guard: None,
            reports: Some(reports),
            parent: Some(parent),
        })
    }

    /// Process number of its init on this host.
    pub(crate) const fn pid(&self) -> i32 {
        self.pid
    }

    fn name(&self) -> String {
        node_name(self.index)
    }

    /// Waits until its namespaces exist.
    pub(crate) fn wait_isolated(&mut self, deadline: Instant) -> Result<(), LabError> {
        loop {
            match self.next(deadline, "namespaces")? {
                Started::Init { pid, stdin } => {
                    self.pid = pid;
                    self.guard = Some(stdin);
                }
                Started::Said(Report::Isolated) => return Ok(()),
                Started::Said(other) => return Err(self.unexpected(&other)),
                Started::Failed(error) => return Err(error),
            }
        }
    }

    /// Tells it that its cable is plugged in.
    pub(crate) fn plugged(&mut self) -> Result<(), LabError> {
        let told = self.guard.as_mut().map(|init| init.write_all(b"\n"));
        match told {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failed("init is gone".into())),
        }
    }

    /// Waits until sshd greets those who connect to it.
    pub(crate) fn wait_answers(&mut self, deadline: Instant) -> Result<(), LabError> {
        match self.next(deadline, "the end of its boot")? {
            Started::Said(Report::Booted) => {}
            Started::Said(other) => return Err(self.unexpected(&other)),
            Started::Failed(error) => return Err(error),
            Started::Init { .. } => return Err(self.failed("init started twice".into())),
        }
        wait_greets(self.index, deadline)
    }

    /// Why it has failed, if it has.
    pub(crate) fn last_words(&mut self) -> Option<LabError> {
        match self.next(Instant::now() + LAST_WORDS_LIMIT, "last words") {
            Ok(Started::Said(report @ Report::Failed(_))) => Some(self.unexpected(&report)),
            Ok(Started::Failed(error)) | Err(error @ LabError::Boot { .. }) => Some(error),
            _ => None,
        }
    }

    /// Kills it, without waiting for its end.
    pub(crate) fn kill(&mut self) {
        // An init that is only being started is not ours to kill yet: but the end of its input that the
        // parent is about to send us is dropped with the channel, and then it ends by itself.
        self.reports = None;
        self.guard = None;
        if let Some(init) = self.init.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            // Cannot fail but for a process that has ended already.
            let _ = init.kill();
        }
    }

    fn next(&mut self, deadline: Instant, waited_for: &str) -> Result<Started, LabError> {
        let left = deadline.saturating_duration_since(Instant::now());
        let received = match &self.reports {
            Some(reports) => reports.recv_timeout(left),
            None => Err(RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(started) => Ok(started),
            Err(RecvTimeoutError::Timeout) => Err(self.late(waited_for)),
            Err(RecvTimeoutError::Disconnected) => Err(self.failed("its init ended".into())),
        }
    }

    fn late(&self, waited_for: &str) -> LabError {
        LabError::Timeout { node: self.name(), waited_for: waited_for.into(), limit: BOOT_LIMIT }
    }

    fn unexpected(&self, report: &Report) -> LabError {
        match report {
            Report::Failed(message) => self.failed(message.clone()),
            other => self.failed(format!("init reported {other:?} out of turn")),
        }
    }

    fn failed(&self, mut message: String) -> LabError {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let tail = String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]);
        if !tail.trim().is_empty() {
            message = format!("{message} (its log ends: {})", tail.trim());
        }
        LabError::Boot { node: self.name(), message }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        if let Some(parent) = self.parent.take() {
            // It only ever waits for init, which has been killed. A panic in it has been reported already.
            let _ = parent.join();
        }
    }
}

/// The life of the thread: starts init as process 1 of a new process namespace, passes its reports on and reaps
/// it. Init is tied to this very thread by its parent-death signal.
fn guard(
    program: &Path,
    boot: &Boot,
    group: Option<&Path>,
    log: File,
    init: &Mutex<Option<Child>>,
    sender: &Sender<Started>,
) {
    // A receiver that is gone belongs to a lab that is being torn down, and nobody asks any more.
    let reports = match launch(program, boot, group, log, init, sender) {
        Ok(reports) => reports,
        Err(error) => {
            let _ = sender.send(Started::Failed(error));
            return;
        }
    };
    for line in reports.lines().map_while(Result::ok) {
        if let Ok(report) = serde_json::from_str(&line) {
            let _ = sender.send(Started::Said(report));
        }
    }
    if let Some(init) = init.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        let _ = init.wait();
    }
}

fn launch(
    program: &Path,
    boot: &Boot,
    group: Option<&Path>,
    log: File,
    init: &Mutex<Option<Child>>,
    sender: &Sender<Started>,
) -> Result<impl BufRead + use<>, LabError> {
    isolate(CloneFlags::CLONE_NEWPID)?;
    let mut child = Command::new(program)
        .arg(role::INIT)
        .arg(node_name(boot.index))
        // The environment of a controller may hold secrets, and init's can be read in the node.
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(|error| LabError::path("start init, which is", program, error))?;
    let (pid, stdin, stdout) = (child.id() as i32, child.stdin.take(), child.stdout.take());
    *init.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
    let (Some(mut stdin), Some(stdout)) = (stdin, stdout) else {
        return Err(LabError::io("talk to init", std::io::Error::other("it has no pipes")));
    };
    if let Some(group) = group {
        // Before it has anything to do, so that whatever it starts is in the group too.
        let joined = control_group::join(group, pid);
        // One that has ended already is told of below.
        if Process::of(pid).is_some_and(|init| init.alive()) {
            joined?;
        }
    }
    let line =
        serde_json::to_string(boot).map_err(|error| LabError::io("describe a node", error))?;
    // Fails only if init has ended already, which the end of its reports tells too.
    let _ = stdin.write_all((line + "\n").as_bytes());
    let _ = sender.send(Started::Init { pid, stdin });
    Ok(BufReader::new(stdout))
}

/// Waits until sshd of a node greets those who connect to it.
pub(crate) fn wait_greets(index: u8, deadline: Instant) -> Result<(), LabError> {
    let address = SocketAddr::from((node_v4(index), 22));
    while !greets(address) {
        if Instant::now() > deadline {
            let (node, waited_for) = (node_name(index), "an answer from its sshd".into());
            return Err(LabError::Timeout { node, waited_for, limit: BOOT_LIMIT });
        }
        thread::sleep(GREETING_POLL);
    }
    Ok(())
}

/// Whether an SSH server says hello at `address`.
fn greets(address: SocketAddr) -> bool {
    let Ok(stream) = TcpStream::connect_timeout(&address, GREETING_LIMIT) else { return false };
    let mut greeting = String::new();
    stream.set_read_timeout(Some(GREETING_LIMIT)).is_ok()
        && BufReader::new(stream).read_line(&mut greeting).is_ok()
        && greeting.starts_with("SSH-")
}
