//! The wall clock of the store's processes goes wrong, on a node that shares its clock with others.
//!
//! The processes are patched (see [`vdso`]) to add to the kernel's time what a [`Cell`] says, and
//! from then on their clocks move together with one write to it. A holder sets the cell as the
//! [`Motion`] wants it, patches what the store starts meanwhile, and reads the clock from inside of
//! a process twice a second. To undo it, the cell is set to nothing first: that puts all of them
//! right at once, and who has the cell mapped is who is to be restored.

mod cell;
mod motion;
pub(crate) mod readings;
pub(crate) mod scope;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::vdso::{self, Reading};
use crate::{Failure, Home, Primitive, Process, Result, Sight};

pub use cell::{Cell, Setting};
pub use motion::Motion;
use readings::{READ_EVERY, Readings};
use scope::Member;

/// How often the holder looks for new processes, unless looking is expensive: then so seldom that
/// it takes one part in [`LOOK_SHARE`] of a processor.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const LOOK_SHARE: u32 = 25;

/// How long new processes may take to be patched, and a moving clock to be caught away from where
/// it should be.
const PROVE_WITHIN: Duration = Duration::from_secs(2);

/// How long the holder may take to give back a thread of the store.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// How long processes may take to be restored, and how often it is tried: who is patched may have a child
/// between a look and the next, or be about to end or to become another program.
const UNDO_WITHIN: Duration = Duration::from_secs(2);
const UNDO_EVERY: Duration = Duration::from_millis(2);

/// Moves the clock of the store's processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// The store's processes. All of their sessions are meant, and what descends from those.
    pub processes: Vec<Process>,
    /// How it moves.
    #[serde(flatten)]
    pub motion: Motion,
}

/// Where the cell is, and whose clocks it moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    cell: PathBuf,
    sessions: BTreeSet<u32>,
}

impl Moved {
    fn readings(&self) -> Readings {
        Readings::beside(&self.cell)
    }

    /// A file that is locked by whoever borrows threads of the store while the holder lives, and that is there
    /// until the holder is to end.
    fn leave(&self) -> PathBuf {
        self.cell.with_extension("leave")
    }

    /// The leave to borrow threads, as long as it is kept; `None` if the holder is about to end.
    fn take_leave(&self) -> Option<Flock<File>> {
        let path = self.leave();
        let leave = Flock::lock(File::open(&path).ok()?, FlockArg::LockExclusive).ok()?;
        // It may have been taken away while it was waited for.
        path.exists().then_some(leave)
    }
}

/// The time of day as this process sees it, in nanoseconds since 1970.
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as i64)
}

fn failed(attempted: &str) -> impl Fn(io::Error) -> Failure {
    let attempted = attempted.to_owned();
    move |error| Failure::new(&attempted, error)
}

fn refused(error: vdso::Error) -> Failure {
    Failure::new("move the clock of the store's processes", error)
}

/// Whatever a process that ends meanwhile would have been is no matter.
fn unless_gone<T>(result: std::result::Result<T, vdso::Error>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(vdso::Error::Gone { .. }) => Ok(None),
        Err(error) => Err(refused(error)),
    }
}

impl Primitive for Clock {
    type Undo = Moved;

    const HELD: bool = true;

    fn plan(&self, home: &Home) -> Result<Moved> {
        let attempted = "move the clock of the store's processes";
        let sessions: BTreeSet<u32> =
            self.processes.iter().filter_map(|process| scope::session_of(*process)).collect();
        let members = scope::members(&sessions);
        if members.is_empty() {
            return Err(Failure::new(attempted, "none of them runs any more"));
        }
        let strangers = [1, std::process::id()];
        if members.iter().any(|member| strangers.contains(&member.process.pid)) {
            let reason = "they share their session with the rest of the node: start the store with \
                          setsid, or as a service";
            return Err(Failure::new(attempted, reason));
        }
        for member in &members {
            unless_gone(vdso::check(member.process.pid))?;
        }
        let name = format!("clock-{}-{}", std::process::id(), now_ns());
        Ok(Moved { cell: home.volatile().join(name).with_extension("cell"), sessions })
    }

    fn apply(&self, undo: &Moved) -> Result<()> {
        let making = format!("make {}", undo.cell.display());
        if let Some(folder) = undo.cell.parent() {
            fs::create_dir_all(folder).map_err(failed(&making))?;
            // The store opens the cell as whoever it runs as.
            let mut permissions = fs::metadata(folder).map_err(failed(&making))?.permissions();
            permissions.set_mode(permissions.mode() | 0o111);
            fs::set_permissions(folder, permissions).map_err(failed(&making))?;
        }
        Cell::create(&undo.cell).map_err(failed(&making))?;
        File::create(undo.leave()).map_err(failed(&making))?;
        let mut patched = BTreeSet::new();
        while follow(undo, &mut patched)? > 0 {}
        Ok(())
    }

    fn hold(&self, undo: &Moved, ready: &Path) -> Result<()> {
        let setting = format!("set {}", undo.cell.display());
        let mut cell = Cell::open(&undo.cell).map_err(failed(&setting))?;
        let (start, base_ns) = (Instant::now(), now_ns());
        cell.set(self.motion.setting(0, base_ns)).map_err(failed(&setting))?;
        File::create(ready).map_err(failed("say that the clock is moved"))?;
        std::thread::scope(|scope| {
            scope.spawn(|| watch(undo));
            let Some(period) = self.motion.period() else { return Ok(()) };
            loop {
                let number = (start.elapsed().as_nanos() / period.as_nanos()) as u64 + 1;
                let next = start + Duration::from_nanos((period.as_nanos() as u64) * number);
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                cell.set(self.motion.setting(number, base_ns)).map_err(failed(&setting))?;
            }
        })
    }

    /// Waits until the holder has no thread of the store borrowed, and lets it borrow none any more: one whose
    /// borrower is killed goes on with registers that are not its own.
    fn release(undo: &Moved) -> Result<()> {
        let path = undo.leave();
        let end = Instant::now() + RELEASE_WITHIN;
        while let Ok(file) = File::open(&path) {
            // Kept until the file is gone.
            let leave = Flock::lock(file, FlockArg::LockExclusiveNonblock);
            if leave.is_ok() || Instant::now() > end {
                return fs::remove_file(&path).map_err(failed("take the leave of the holder"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn prove(&self, undo: &Moved) -> Result<Sight> {
        let deadline = Instant::now() + PROVE_WITHIN;
        loop {
            let looks = look(undo)?;
            let doubts: Vec<&String> =
                looks.iter().filter_map(|look| look.as_ref().err()).collect();
            let seen: Vec<Seen> =
                looks.iter().filter_map(|look| look.as_ref().ok()).copied().collect();
            let bites = seen.iter().any(|seen| seen.setting != Setting::default());
            let holds = doubts.is_empty() && bites;
            if !holds && Instant::now() < deadline {
                std::thread::sleep(LOOK_EVERY / 2);
                continue;
            }
            let summary = match (doubts.first(), widest(seen.iter().map(|seen| seen.reading))) {
                (Some(doubt), _) => (*doubt).clone(),
                (None, Some(reading)) if bites => {
                    format!("{}: clock {reading} in {}", self.motion, count(seen.len()))
                }
                (None, Some(reading)) => {
                    format!("the cell says nothing: clock {} in {}", reading, count(seen.len()))
                }
                (None, None) => "nothing of the store runs".into(),
            };
            let latest = widest(seen.iter().map(|seen| seen.reading));
            let processes: Vec<Value> = seen.iter().map(Seen::figures).collect();
            let figures = json!({
                "asked": self.motion,
                "processes": processes,
                "readings_ago_ms_ns_ns": undo.readings().figures(latest),
            });
            return Ok(Sight { holds, summary, figures });
        }
    }

    fn undo(undo: &Moved) -> Result<()> {
        let removing = format!("set {} to nothing", undo.cell.display());
        match Cell::open(&undo.cell) {
            Ok(mut cell) => cell.set(Setting::default()).map_err(failed(&removing))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&removing)(error)),
        }
        let end = Instant::now() + UNDO_WITHIN;
        loop {
            let patched = patched(undo);
            if patched.is_empty() || Instant::now() > end {
                break;
            }
            for pid in patched {
                unless_gone(vdso::restore(pid, &undo.cell))?;
            }
            std::thread::sleep(UNDO_EVERY);
        }
        let removing = format!("remove {}", undo.cell.display());
        undo.readings().remove().map_err(failed(&removing))?;
        match fs::remove_file(&undo.cell) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&removing)(error)),
            _ => Ok(()),
        }
    }

    fn prove_undone(undo: &Moved) -> Result<Sight> {
        let patched = patched(undo);
        let mut readings = Vec::new();
        for member in scope::members(&undo.sessions) {
            if let Some(reading) = unless_gone(vdso::read_clock(member.process.pid))? {
                readings.push((member.process.pid, reading));
            }
        }
        let wrong = readings.iter().find(|(_, r)| r.offset_ns.unsigned_abs() > r.error_ns);
        let summary = match (patched.first(), wrong) {
            (Some(pid), _) => format!("pid {pid} still has the cell"),
            (None, Some((pid, reading))) => format!("the clock of pid {pid} is still {reading}"),
            (None, None) => match widest(readings.iter().map(|(_, reading)| *reading)) {
                Some(reading) => format!("clock {} in {}", reading, count(readings.len())),
                None => "nothing of the store runs, and nobody has the cell".into(),
            },
        };
        let latest = widest(readings.iter().map(|(_, reading)| *reading));
        let latest: Vec<Value> = latest.iter().map(Reading::figure).collect();
        let figures: Vec<Value> = readings.iter().map(|(pid, r)| process(*pid, r)).collect();
        Ok(Sight {
            holds: patched.is_empty() && wrong.is_none(),
            summary,
            figures: json!({ "processes": figures, "readings_ago_ms_ns_ns": latest }),
        })
    }
}

fn count(processes: usize) -> String {
    format!("{processes} process{}", if processes == 1 { "" } else { "es" })
}

/// The reading that is furthest from the kernel's time.
fn widest(readings: impl Iterator<Item = Reading>) -> Option<Reading> {
    readings.max_by_key(|reading| reading.offset_ns.unsigned_abs())
}

fn process(pid: u32, reading: &Reading) -> Value {
    json!({ "pid": pid, "offset_ns": reading.offset_ns, "error_ns": reading.error_ns })
}

/// Patches who belongs and is not in `known`, and returns how many that were.
fn follow(undo: &Moved, known: &mut BTreeSet<Member>) -> Result<usize> {
    let members = scope::members(&undo.sessions);
    known.retain(|member| members.contains(member));
    let new: Vec<Member> = members.into_iter().filter(|member| !known.contains(member)).collect();
    for member in &new {
        unless_gone(vdso::patch(member.process.pid, &undo.cell))?;
        known.insert(*member);
    }
    Ok(new.len())
}

/// Patches what the store starts, and reads a clock now and then. What cannot be patched or read
/// now is tried again with the next look; whether all is well, [`Primitive::prove`] finds out.
fn watch(undo: &Moved) {
    let (mut known, readings) = (BTreeSet::new(), undo.readings());
    let mut due = Instant::now();
    // Without leave it is about to be killed.
    while let Some(leave) = undo.take_leave() {
        let looked = Instant::now();
        let _ = follow(undo, &mut known);
        let reader = known.first().map(|member| member.process.pid);
        if looked >= due {
            due += READ_EVERY;
            if let Some(Ok(reading)) = reader.map(vdso::read_clock) {
                readings.keep(reading.offset_ns, reading.error_ns);
            }
        }
        drop(leave);
        std::thread::sleep(LOOK_EVERY.max(looked.elapsed() * LOOK_SHARE));
    }
    loop {
        std::thread::park();
    }
}

/// A clock that shows what it should.
#[derive(Clone, Copy)]
struct Seen {
    pid: u32,
    reading: Reading,
    setting: Setting,
}

impl Seen {
    fn figures(&self) -> Value {
        let mut figures = process(self.pid, &self.reading);
        figures["asked_ns"] = json!(self.setting.offset_at(self.reading.at_ns));
        figures
    }
}

/// Looks at the clocks of all who belong: what each shows, or what is wrong with it.
fn look(undo: &Moved) -> Result<Vec<std::result::Result<Seen, String>>> {
    let setting = || {
        let cell = Cell::open(&undo.cell).and_then(|cell| cell.setting());
        cell.map_err(failed(&format!("read {}", undo.cell.display())))
    };
    // Nobody else is to have borrowed what is looked at.
    let _leave = undo.take_leave();
    let mut looks = Vec::new();
    for member in scope::members(&undo.sessions) {
        let pid = member.process.pid;
        match unless_gone(vdso::is_patched(pid, &undo.cell))? {
            None => continue,
            Some(false) => {
                looks.push(Err(format!("pid {pid} sees the true time")));
                continue;
            }
            Some(true) => {}
        }
        let before = setting()?;
        let Some(reading) = unless_gone(vdso::read_clock(pid))? else { continue };
        if setting()? != before {
            looks.push(Err(format!("the clock of pid {pid} moved whenever it was read")));
            continue;
        }
        let asked = before.offset_at(reading.at_ns);
        // While it was read, a clock that runs at another rate went that much further.
        let gained =
            ((i128::from(before.rate) * i128::from(reading.error_ns)) >> 32).unsigned_abs();
        let allowed = u128::from(reading.error_ns) + gained + 2;
        looks.push(if u128::from(reading.offset_ns.abs_diff(asked)) <= allowed {
            Ok(Seen { pid, reading, setting: before })
        } else {
            Err(format!("the clock of pid {pid} is {reading}, not {asked} ns"))
        });
    }
    Ok(looks)
}

/// Everybody on the node who has the cell mapped.
fn patched(undo: &Moved) -> Vec<u32> {
    let has = |pid: &u32| vdso::has_cell(*pid, &undo.cell).unwrap_or(false);
    scope::everybody().into_iter().filter(has).collect()
}
