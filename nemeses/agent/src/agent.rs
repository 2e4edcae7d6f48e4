//! Does what is asked for: each fault recorded before it is applied, each undo from its record.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::keeper::ensure_kept;
use crate::{Failure, Home, Journal, Lease, Process, Record, Reply, Request, Result, Sight, Spec};

/// How long a holder may take to have its fault in force.
const HOLDER_READY_WITHIN: Duration = Duration::from_secs(5);

/// How long a killed holder may take to go.
const HOLDER_GONE_WITHIN: Duration = Duration::from_secs(2);

/// How often a holder is looked at while it starts or ends.
const HOLDER_LOOK_EVERY: Duration = Duration::from_millis(1);

/// What acts on a node. It keeps nothing in memory: another one can take over at any moment.
#[derive(Debug, Clone, Default)]
pub struct Agent {
    home: Home,
}

impl Agent {
    /// An agent that keeps its records there.
    pub const fn new(home: Home) -> Self {
        Self { home }
    }

    /// Does what is asked for.
    pub fn answer(&self, request: &Request) -> Reply {
        let done = match request {
            Request::Renew { ttl_ms } => self.renew(Duration::from_millis(*ttl_ms)),
            Request::Check { spec } => spec.plan(&self.home).map(drop),
            Request::Apply { name, spec } => self.apply(name, spec),
            Request::Prove { name } => {
                return self.prove(name).map_or_else(Reply::Failed, Reply::Seen);
            }
            Request::Undo { name } => {
                return self.undo(name).map_or_else(Reply::Failed, Reply::Seen);
            }
            Request::UndoAll => Journal::lock(&self.home).and_then(|journal| undo_all(&journal)),
            Request::List => {
                return self.list().map_or_else(Reply::Failed, Reply::Faults);
            }
        };
        done.map_or_else(Reply::Failed, |()| Reply::Done)
    }

    fn renew(&self, ttl: Duration) -> Result<()> {
        let journal = Journal::lock(&self.home)?;
        Lease::new(&self.home).renew(ttl)?;
        ensure_kept(&journal)
    }

    fn apply(&self, name: &str, spec: &Spec) -> Result<()> {
        if !is_name(name) {
            return Err(Failure::new(
                format!("apply {name:?}"),
                "letters, digits and - make a name",
            ));
        }
        let journal = Journal::lock(&self.home)?;
        if let Some(before) = find(&journal, name)? {
            undo(&journal, &before)?;
        }
        if Lease::new(&self.home).left()?.is_zero() {
            let reason = "the lease of this node has run out; renew it first";
            return Err(Failure::new(format!("apply {name}"), reason));
        }
        // What has nobody to undo it is not applied.
        ensure_kept(&journal)?;
        let record =
            Record { name: name.to_owned(), spec: spec.clone(), undo: spec.plan(&self.home)? };
        journal.write(&record)?;
        let applied = spec.apply(&record.undo).and_then(|()| match spec.held() {
            true => self.start_holder(name),
            false => Ok(()),
        });
        if let Err(failure) = applied {
            // If this fails too, the record stays, and the keeper goes on trying.
            undo(&journal, &record)?;
            return Err(failure);
        }
        Ok(())
    }

    fn prove(&self, name: &str) -> Result<Sight> {
        let journal = Journal::lock(&self.home)?;
        let record = find(&journal, name)?.ok_or_else(|| {
            Failure::new(
                format!("look at {name}"),
                "it is not in force here; did its lease run out?",
            )
        })?;
        let mut sight = record.spec.prove(&record.undo)?;
        if record.spec.held() && Holder::new(&self.home, name).process().is_none() {
            sight.holds = false;
            sight.summary = format!("the process that holds it is gone; {}", sight.summary);
        }
        Ok(sight)
    }

    fn undo(&self, name: &str) -> Result<Sight> {
        let journal = Journal::lock(&self.home)?;
        match find(&journal, name)? {
            Some(record) => {
                record.undo.accept()?;
                undo(&journal, &record)
            }
            None => Ok(Sight {
                holds: true,
                summary: "it was not in force any more".into(),
                figures: serde_json::json!({}),
            }),
        }
    }

    fn list(&self) -> Result<Vec<String>> {
        let records = Journal::lock(&self.home)?.records()?;
        Ok(records.into_iter().map(|record| record.name).collect())
    }

    /// Holds a fault until it is killed: the life of a process of its own.
    ///
    /// # Errors
    /// If there is no such fault (any more), or it cannot be held.
    pub fn hold(&self, name: &str) -> Result<()> {
        let holder = Holder::new(&self.home, name);
        // Registered before the record is looked for: whoever undoes removes the record before it looks
        // for a holder a last time, so one of the two sees the other.
        holder.register()?;
        let path = self.home.volatile().join("faults").join(format!("{name}.json"));
        let lasting = self.home.lasting().join("faults").join(format!("{name}.json"));
        let text = fs::read(&path).or_else(|_| fs::read(&lasting));
        let text = text.map_err(|error| Failure::new(format!("hold {name}"), error))?;
        let record: Record = serde_json::from_slice(&text)
            .map_err(|error| Failure::new(format!("hold {name}"), error))?;
        let held = record.spec.hold(&record.undo, &holder.ready());
        if let Err(failure) = &held {
            let _ = fs::write(holder.file.with_extension("failed"), failure.to_string());
        }
        held
    }

    fn start_holder(&self, name: &str) -> Result<()> {
        let attempted = format!("hold {name}");
        let holder = Holder::new(&self.home, name);
        holder.end()?;
        let mut child = this_program(&self.home)
            .and_then(|mut program| program.arg("hold").arg(name).spawn())
            .map_err(|error| Failure::new(&attempted, error))?;
        let end = Instant::now() + HOLDER_READY_WITHIN;
        while !holder.ready().exists() {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(Failure::new(attempted, holder.said(&status.to_string())));
            }
            if Instant::now() > end {
                let reason = format!("not in force within {HOLDER_READY_WITHIN:?}");
                return Err(Failure::new(attempted, reason));
            }
            std::thread::sleep(HOLDER_LOOK_EVERY);
        }
        // It is nobody's business here when it ends; but it must not stay a zombie.
        std::thread::spawn(move || child.wait());
        Ok(())
    }
}

/// Undoes every fault in the journal, the youngest first.
pub(crate) fn undo_all(journal: &Journal) -> Result<()> {
    let mut first = Ok(());
    for record in journal.records()?.iter().rev() {
        if let Err(failure) = undo(journal, record) {
            first = first.and(Err(failure));
        }
    }
    first
}

/// Undoes one fault; forgets it if it was seen to be gone.
fn undo(journal: &Journal, record: &Record) -> Result<Sight> {
    let holder = Holder::new(journal.home(), &record.name);
    // Whatever comes of it: undoing works without.
    let _ = record.undo.release();
    holder.end()?;
    record.undo.undo()?;
    let sight = record.undo.prove_undone()?;
    if !sight.holds {
        return Err(Failure::new(format!("undo {}", record.name), sight.summary));
    }
    journal.forget(record)?;
    holder.end()?;
    Ok(sight)
}

fn find(journal: &Journal, name: &str) -> Result<Option<Record>> {
    Ok(journal.records()?.into_iter().find(|record| record.name == name))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// This very program once more, cut off from whatever this one is connected to.
pub(crate) fn this_program(home: &Home) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--home").arg(home.volatile()).arg(home.lasting());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
    Ok(command)
}

/// The process that holds a fault, as it has registered itself: a file with pid and start time.
struct Holder {
    file: PathBuf,
}

impl Holder {
    fn new(home: &Home, name: &str) -> Self {
        Self { file: home.volatile().join("faults").join(format!("{name}.holder")) }
    }

    fn ready(&self) -> PathBuf {
        self.file.with_extension("ready")
    }

    /// What it said before it ended, written by the `hold` role.
    fn said(&self, otherwise: &str) -> String {
        fs::read_to_string(self.file.with_extension("failed"))
            .unwrap_or_else(|_| otherwise.to_owned())
    }

    fn register(&self) -> Result<()> {
        let own =
            Process::of(std::process::id()).map(|process| serde_json::json!(process).to_string());
        let part = self.file.with_extension("holder-part");
        // Records of faults that survive a reboot are elsewhere: this folder may be missing.
        self.file
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&part, own.unwrap_or_default()))
            .and_then(|()| fs::rename(&part, &self.file))
            .map_err(|error| Failure::new(format!("write {}", self.file.display()), error))
    }

    fn process(&self) -> Option<Process> {
        let process: Process = serde_json::from_slice(&fs::read(&self.file).ok()?).ok()?;
        process.lives().then_some(process)
    }

    /// Kills it, if there is one, and waits until it is gone.
    fn end(&self) -> Result<()> {
        if let Some(process) = self.process() {
            process.signal(Signal::SIGKILL)?;
            let end = Instant::now() + HOLDER_GONE_WITHIN;
            while process.lives() {
                if Instant::now() > end {
                    let reason = format!("it is still there after {HOLDER_GONE_WITHIN:?}");
                    return Err(Failure::new(
                        format!("kill the holder, pid {}", process.pid),
                        reason,
                    ));
                }
                std::thread::sleep(HOLDER_LOOK_EVERY);
            }
        }
        for file in [self.file.clone(), self.ready(), self.file.with_extension("failed")] {
            let _ = fs::remove_file(file);
        }
        Ok(())
    }
}
