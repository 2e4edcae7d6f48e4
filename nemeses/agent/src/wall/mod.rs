//! The wall clock of a machine goes wrong, where the machine owns its clock.
//!
//! What shares a kernel shares its clock, so this is refused wherever a look around finds a reason
//! to ([`guard`]). What keeps the clock right stands still meanwhile ([`sync`]). Jumps are made by
//! `ADJ_SETOFFSET`, drifts by the tick and the frequency of adjtimex(2), so that timers and system calls
//! see them as they see a clock that is wrong.
//!
//! The true time is computed, never remembered: what the time of day was when all was well, and how far
//! the raw clock, which nobody sets, has come since, at the rate the clock had then. So it does not
//! matter who undoes this, or when. After a reboot there is nothing to undo: the time of day is then
//! what the hardware clock says, which the kernel does not write while ours says that it is not
//! synchronised, and the daemons are new.

mod guard;
mod machine;
mod sync;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::clock::readings::{READ_EVERY, Readings};
use crate::clock::{Cell, Motion, Setting, now_ns};
use crate::stop::stop;
use crate::vdso::Reading;
use crate::{Failure, Home, Look, Primitive, Process, Result, Sight};
use machine::{Clocks, Discipline, Machine, This};

/// How far a clock that was set may be from where it should be, besides what reading it takes: steps
/// are of whole microseconds, and rates are not exact.
const STEP_NS: u64 = 500_000;
const RATE_ERROR: f64 = 2e-5;

/// By how much the kernel may round a frequency, in its own units.
const FREQ: u64 = 2;

/// How far off a clock may be that is right again: its daemons may correct it at once.
const RIGHT_NS: u64 = 5_000_000;

/// How often it is set right: whoever reads it in between may be interrupted for long.
const RESTORE_TRIES: u32 = 3;

/// How long a moving clock may take to be caught where it should be.
const PROVE_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Moves the clock of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wall {
    /// The boots of machines that are not to be moved: the controller's and those of all other nodes.
    pub others: BTreeSet<String>,
    /// How it moves.
    #[serde(flatten)]
    pub motion: Motion,
}

/// How the clock was when it was right, and who kept it so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Right {
    boot: String,
    clocks: Clocks,
    discipline: Discipline,
    daemons: Vec<Process>,
    /// Says what the clock is set to.
    cell: PathBuf,
}

impl Right {
    fn new(machine: &impl Machine, cell: PathBuf) -> Result<Self> {
        Ok(Self {
            boot: machine.boot()?,
            clocks: machine.clocks()?,
            discipline: machine.discipline()?,
            daemons: Vec::new(),
            cell,
        })
    }

    /// The true time of day.
    fn true_ns(&self, now: &Clocks) -> i64 {
        let raw = now.raw_ns - self.clocks.raw_ns;
        let gained = raw as f64 * (self.discipline.rate() - 1.0);
        self.clocks.real_ns + raw + gained as i64 + (now.slept_ns - self.clocks.slept_ns)
    }

    /// How far the clock is off now.
    fn read(&self, machine: &impl Machine) -> Result<Reading> {
        let now = machine.clocks()?;
        let at_ns = self.true_ns(&now);
        let error_ns = now.error_ns + self.clocks.error_ns;
        Ok(Reading { at_ns, offset_ns: now.real_ns - at_ns, error_ns })
    }

    /// Sets it.
    fn set(&self, machine: &impl Machine, setting: Setting) -> Result<()> {
        machine.set_discipline(&self.discipline.faster(setting.ppm())?)?;
        let now = self.read(machine)?;
        machine.step((setting.offset_at(now.at_ns) - now.offset_ns) / 1000)
    }

    /// Sets it right.
    fn restore(&self, machine: &impl Machine) -> Result<()> {
        for _ in 0..RESTORE_TRIES {
            self.set(machine, Setting::default())?;
            let now = self.read(machine)?;
            if now.offset_ns.unsigned_abs() <= now.error_ns + STEP_NS {
                break;
            }
        }
        // A step makes it unsynchronised: that it was not comes last.
        machine.set_discipline(&self.discipline)
    }

    /// What speaks against the clock being set as the cell says, and what it showed.
    fn look(&self, machine: &impl Machine) -> Result<(Reading, Setting, Option<String>)> {
        let setting = || {
            let read = Cell::open(&self.cell).and_then(|cell| cell.setting());
            read.map_err(|e| Failure::new(format!("read {}", self.cell.display()), e))
        };
        let before = setting()?;
        let reading = self.read(machine)?;
        let (discipline, after) = (machine.discipline()?, setting()?);
        let asked = before.offset_at(reading.at_ns);
        let lasted = (reading.at_ns - self.clocks.real_ns).unsigned_abs();
        let allowed = reading.error_ns + STEP_NS + (lasted as f64 * RATE_ERROR) as u64;
        let wanted = self.discipline.faster(before.ppm())?;
        let doubt = if after != before {
            Some("the clock moved whenever it was read".to_owned())
        } else if reading.offset_ns.abs_diff(asked) > allowed {
            Some(format!("the clock is {reading}, not {asked} ns"))
        } else if discipline.tick != wanted.tick || discipline.freq.abs_diff(wanted.freq) > FREQ {
            Some(format!("the clock runs at {:.9} of its rate", discipline.rate()))
        } else if before == Setting::default() {
            Some(format!("the cell says nothing: clock {reading}"))
        } else {
            None
        };
        Ok((reading, before, doubt))
    }

    fn readings(&self) -> Readings {
        Readings::beside(&self.cell)
    }
}

impl Primitive for Wall {
    type Undo = Right;

    const HELD: bool = true;

    fn plan(&self, home: &Home) -> Result<Right> {
        let machine = This::alone(&self.others)?;
        let name = format!("wall-{}-{}", std::process::id(), now_ns());
        let right = Right::new(&machine, home.volatile().join(name).with_extension("cell"))?;
        if let Motion::Drift { rate_ppm } = self.motion {
            right.discipline.faster(rate_ppm)?;
        }
        let running = |daemon: &Process| daemon.look() == Look::Running;
        Ok(Right { daemons: sync::daemons().into_iter().filter(running).collect(), ..right })
    }

    fn apply(&self, undo: &Right) -> Result<()> {
        let making =
            |error: io::Error| Failure::new(format!("make {}", undo.cell.display()), error);
        if let Some(folder) = undo.cell.parent() {
            fs::create_dir_all(folder).map_err(making)?;
        }
        Cell::create(&undo.cell).map_err(making)?;
        stop(&undo.daemons)
    }

    fn hold(&self, undo: &Right, ready: &Path) -> Result<()> {
        let machine = This::alone(&self.others)?;
        let mut cell = Cell::open(&undo.cell)
            .map_err(|e| Failure::new(format!("open {}", undo.cell.display()), e))?;
        let base_ns = undo.read(&machine)?.at_ns;
        let mut set = |number: u64| {
            let setting = self.motion.setting(number, base_ns);
            let writing = |e: io::Error| Failure::new(format!("set {}", undo.cell.display()), e);
            cell.set(setting).map_err(writing)?;
            undo.set(&machine, setting)
        };
        set(0)?;
        File::create(ready).map_err(|e| Failure::new("say that the clock is moved", e))?;
        let start = Instant::now();
        let (mut read_at, readings) = (start, undo.readings());
        let period = self.motion.period();
        let mut next = period.map(|period| (1, start + period));
        loop {
            let until = next.map_or(read_at, |(_, at)| at.min(read_at));
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            let now = Instant::now();
            if let (Some((number, at)), Some(period)) = (next, period)
                && now >= at
            {
                // Periods that were slept through are left out.
                let number = number.max(((now - start).as_nanos() / period.as_nanos()) as u64);
                set(number)?;
                next = Some((number + 1, start + period * (number + 1) as u32));
            }
            if now >= read_at {
                read_at += READ_EVERY;
                let reading = undo.read(&machine)?;
                readings.keep(reading.offset_ns, reading.error_ns);
            }
        }
    }

    fn prove(&self, undo: &Right) -> Result<Sight> {
        let machine = still(undo)?;
        let deadline = Instant::now() + PROVE_WITHIN;
        let (reading, setting, doubt) = loop {
            let (reading, setting, doubt) = undo.look(&machine)?;
            if doubt.is_none() || Instant::now() > deadline {
                break (reading, setting, doubt);
            }
            std::thread::sleep(LOOK_EVERY);
        };
        let running = sync::daemons().into_iter().find(|daemon| daemon.look() == Look::Running);
        let running = running.map(|daemon| {
            format!("{} (pid {}) keeps it right", sync::name(daemon.pid), daemon.pid)
        });
        let doubt = running.or(doubt);
        let stopped = match undo.daemons.len() {
            0 => String::new(),
            n => format!(", {n} of time synchronisation stopped"),
        };
        let summary = doubt
            .clone()
            .unwrap_or_else(|| format!("{}: the machine's clock {reading}{stopped}", self.motion));
        let figures = json!({
            "asked": self.motion,
            "asked_ns": setting.offset_at(reading.at_ns),
            "offset_ns": reading.offset_ns,
            "error_ns": reading.error_ns,
            "stopped": undo.daemons,
            "readings_ago_ms_ns_ns": undo.readings().figures(Some(reading)),
        });
        Ok(Sight { holds: doubt.is_none(), summary, figures })
    }

    fn undo(undo: &Right) -> Result<()> {
        // Half-way applied, the cell may never have been made, and the clock not have been touched.
        if let (Some(machine), true) = (This::still(&undo.boot)?, undo.cell.exists()) {
            undo.restore(&machine)?;
        }
        undo.daemons.iter().try_for_each(|daemon| daemon.signal(Signal::SIGCONT))?;
        let removing = |e: io::Error| Failure::new(format!("remove {}", undo.cell.display()), e);
        undo.readings().remove().map_err(removing)?;
        match fs::remove_file(&undo.cell) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(removing(error)),
            _ => Ok(()),
        }
    }

    fn prove_undone(undo: &Right) -> Result<Sight> {
        let Some(machine) = This::still(&undo.boot)? else {
            let summary = "the machine was booted anew: its clock is what its hardware clock said";
            return Ok(Sight { holds: true, summary: summary.into(), figures: json!({}) });
        };
        let reading = undo.read(&machine)?;
        let still = undo.daemons.iter().find(|d| matches!(d.look(), Look::Stopped { .. }));
        let wrong = reading.offset_ns.unsigned_abs() > reading.error_ns + RIGHT_NS;
        let summary = match still {
            _ if wrong => format!("the machine's clock is still {reading}"),
            Some(daemon) => format!("{} is still stopped", sync::name(daemon.pid)),
            None => format!("the machine's clock {reading}"),
        };
        let figures = json!({
            "offset_ns": reading.offset_ns,
            "error_ns": reading.error_ns,
            "readings_ago_ms_ns_ns": [reading.figure()],
        });
        Ok(Sight { holds: !wrong && still.is_none(), summary, figures })
    }
}

/// The machine whose clock was set, unless it was booted anew.
fn still(undo: &Right) -> Result<This> {
    let gone = || Failure::new("look at the clock of the machine", "it was booted anew");
    This::still(&undo.boot)?.ok_or_else(gone)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A machine of which only the raw clock goes by itself.
    struct Pretended {
        clocks: RefCell<Clocks>,
        discipline: RefCell<Discipline>,
    }

    impl Pretended {
        fn new() -> Self {
            let clocks =
                Clocks { real_ns: 1_700_000_000 * S, raw_ns: 5 * S, slept_ns: 0, error_ns: 100 };
            let discipline = Discipline {
                tick: 10_000,
                freq: 3_000_000,
                status: 0x2001,
                maxerror: 9,
                esterror: 4,
            };
            Self { clocks: clocks.into(), discipline: discipline.into() }
        }

        fn pass(&self, ns: i64) {
            let mut clocks = self.clocks.borrow_mut();
            clocks.raw_ns += ns;
            clocks.real_ns += (ns as f64 * self.discipline.borrow().rate()) as i64;
        }

        fn sleep(&self, ns: i64) {
            let mut clocks = self.clocks.borrow_mut();
            clocks.slept_ns += ns;
            clocks.real_ns += ns;
        }
    }

    impl Machine for Pretended {
        fn boot(&self) -> Result<String> {
            Ok("b".into())
        }

        fn clocks(&self) -> Result<Clocks> {
            Ok(*self.clocks.borrow())
        }

        fn discipline(&self) -> Result<Discipline> {
            Ok(*self.discipline.borrow())
        }

        fn set_discipline(&self, discipline: &Discipline) -> Result<()> {
            *self.discipline.borrow_mut() = *discipline;
            Ok(())
        }

        fn step(&self, us: i64) -> Result<()> {
            self.clocks.borrow_mut().real_ns += us * 1000;
            let mut discipline = self.discipline.borrow_mut();
            (discipline.maxerror, discipline.esterror) = (16_000_000, 16_000_000);
            discipline.status |= libc::STA_UNSYNC;
            Ok(())
        }
    }

    const S: i64 = 1_000_000_000;

    fn off_ms(right: &Right, machine: &Pretended) -> i64 {
        let ns = right.read(machine).unwrap().offset_ns;
        (ns as f64 / 1e6).round() as i64
    }

    /// Whatever was done to a clock, and however long that took, it is right again by arithmetic alone,
    /// runs at its old rate, and says of itself what it said.
    #[test]
    fn a_clock_is_right_again_whatever_was_done_to_it() {
        let motions = [
            Motion::Jump { offset_ms: -600_000 },
            Motion::Strobe { offset_ms: 5_000, period_ms: 10 },
            Motion::Drift { rate_ppm: 50_000.0 },
            Motion::Scramble { max_ms: 90_000, period_ms: 10, seed: 3 },
        ];
        for motion in motions {
            let machine = Pretended::new();
            let (before, folder) = (machine.discipline().unwrap(), tempfile::tempdir().unwrap());
            let right = Right::new(&machine, folder.path().join("wall.cell")).unwrap();
            let mut cell = Cell::create(&right.cell).unwrap();
            machine.pass(S);
            let base_ns = right.read(&machine).unwrap().at_ns;
            for number in 0..5 {
                let setting = motion.setting(number, base_ns);
                cell.set(setting).unwrap();
                right.set(&machine, setting).unwrap();
                machine.pass(S);
                let (reading, _, doubt) = right.look(&machine).unwrap();
                let bites = setting != Setting::default();
                assert_eq!(doubt.is_none(), bites, "{motion} {number}: {reading} {doubt:?}");
                assert_ne!(machine.discipline().unwrap().status & libc::STA_UNSYNC, 0);
            }
            machine.sleep(3600 * S);
            machine.pass(100 * S);
            right.restore(&machine).unwrap();
            assert_eq!(off_ms(&right, &machine), 0, "{motion}");
            assert_eq!(machine.discipline().unwrap(), before);
            let elapsed = machine.clocks().unwrap().real_ns - 1_700_000_000 * S;
            assert_eq!((elapsed as f64 / 1e9).round() as i64 - 3700, 6, "{motion}");
        }
    }

    /// Drifts gain what they should; somebody who sets the clock or its rate is found out.
    #[test]
    fn a_clock_that_somebody_set_is_not_believed() {
        let (machine, folder) = (Pretended::new(), tempfile::tempdir().unwrap());
        let right = Right::new(&machine, folder.path().join("wall.cell")).unwrap();
        let mut cell = Cell::create(&right.cell).unwrap();
        let drift = Motion::Drift { rate_ppm: -100_000.0 + 500.0 };
        let setting = drift.setting(0, right.read(&machine).unwrap().at_ns);
        cell.set(setting).unwrap();
        right.set(&machine, setting).unwrap();
        machine.pass(10 * S);
        assert_eq!(off_ms(&right, &machine), -995);
        let doubt = || right.look(&machine).unwrap().2;
        assert_eq!(doubt(), None);
        machine.step(995_000).unwrap();
        assert!(doubt().unwrap().contains("the clock is"), "{:?}", doubt());
        machine.step(-995_000).unwrap();
        let slower = right.discipline.faster(-90_000.0).unwrap();
        machine.set_discipline(&slower).unwrap();
        assert!(doubt().unwrap().contains("of its rate"), "{:?}", doubt());
    }

    /// The machine the tests run on is the controller's: it is refused before anything is done.
    #[test]
    fn the_machine_of_the_controller_is_refused() {
        let others = BTreeSet::from([machine::boot_id().unwrap()]);
        let wall = Wall { others, motion: Motion::Jump { offset_ms: 1 } };
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("run"), folder.path().join("lib"));
        let refused = wall.plan(&home).unwrap_err();
        assert!(refused.reason.contains("on the same machine"), "{refused}");
    }
}
