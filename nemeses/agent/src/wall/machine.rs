//! The clocks of the machine and what disciplines them: the only file that sets a clock for real.

use std::fs;
use std::io;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::guard::{self, Surroundings};
use crate::{Failure, Result};

/// How often clocks are read together, to take the reading that was least interrupted.
const READINGS: u32 = 7;

/// The kernel's ticks a second as adjtimex(2) counts them: the same on every machine we run on.
const TICKS_PER_SECOND: i64 = 100;

/// A tick of a clock that runs at its own rate, in microseconds, and its limits.
const TICK_US: f64 = 10_000.0;
const TICK_US_MIN: f64 = 9_000.0;
const TICK_US_MAX: f64 = 11_000.0;

/// Parts per million, in the units of `timex.freq`.
const PPM: f64 = 65_536.0;

/// The clocks of a machine, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Clocks {
    /// The time of day, in nanoseconds since 1970.
    pub(super) real_ns: i64,
    /// `CLOCK_MONOTONIC_RAW`: nobody sets it, and no discipline makes it faster or slower. It stands
    /// still while the machine sleeps.
    pub(super) raw_ns: i64,
    /// How long the machine has slept since it was booted.
    pub(super) slept_ns: i64,
    /// How far apart they may have been read.
    pub(super) error_ns: u64,
}

/// What makes the clock run at its rate, as adjtimex(2) has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Discipline {
    /// Microseconds a tick.
    pub(super) tick: i64,
    /// Parts per million, times 2^16.
    pub(super) freq: i64,
    /// `STA_*`.
    pub(super) status: i32,
    /// Microseconds.
    pub(super) maxerror: i64,
    /// Microseconds.
    pub(super) esterror: i64,
}

impl Discipline {
    /// How many nanoseconds the time of day gains in one of the raw clock.
    pub(super) fn rate(&self) -> f64 {
        (self.tick * TICKS_PER_SECOND) as f64 / 1e6 + self.freq as f64 / PPM / 1e6
    }

    /// The same, so much faster. Says that the clock is not synchronised: the kernel then does not copy
    /// it to the hardware clock, which is where a reboot gets the time from.
    ///
    /// # Errors
    /// If the kernel cannot make a clock that fast or slow.
    pub(super) fn faster(&self, ppm: f64) -> Result<Self> {
        let rate = self.rate() * (1.0 + ppm / 1e6);
        let tick = (rate * TICK_US).round();
        if !(TICK_US_MIN..=TICK_US_MAX).contains(&tick) {
            let reason = "the clock of a machine runs at most 10 % too fast or too slow";
            return Err(Failure::new(format!("make a clock drift by {ppm} ppm"), reason));
        }
        let freq = (rate - tick / TICK_US) * 1e6 * PPM;
        let status = self.status | libc::STA_UNSYNC;
        Ok(Self { tick: tick as i64, freq: freq.round() as i64, status, ..*self })
    }
}

/// A machine with a clock that can be set.
pub(super) trait Machine {
    /// Which boot of which machine this is.
    fn boot(&self) -> Result<String>;

    /// What the clocks show.
    fn clocks(&self) -> Result<Clocks>;

    /// What is in force.
    fn discipline(&self) -> Result<Discipline>;

    /// Puts another one in force.
    fn set_discipline(&self, discipline: &Discipline) -> Result<()>;

    /// Moves the time of day by so many microseconds, from one moment to the next.
    fn step(&self, us: i64) -> Result<()>;
}

/// The machine this program runs on. Whoever has one may set its clock: there are two ways to get it.
pub(super) struct This(());

impl This {
    /// The machine, if its clock is its own as far as can be seen, and it is none of the `others`,
    /// which are named by their boots.
    ///
    /// # Errors
    /// With whatever speaks against it.
    pub(super) fn alone(others: &std::collections::BTreeSet<String>) -> Result<Self> {
        let refusal = guard::refusal(&Surroundings::look()?, others);
        refusal.map_or(Ok(Self(())), |reason| Err(Failure::new(guard::ATTEMPTED, reason)))
    }

    /// The machine, if it was not booted anew since its clock was set. Who shares the clock only since
    /// then wants it to be right too.
    pub(super) fn still(boot: &str) -> Result<Option<Self>> {
        Ok((boot_id()? == boot).then_some(Self(())))
    }
}

/// Which boot of which machine this is. The same in every container.
pub(super) fn boot_id() -> Result<String> {
    const PATH: &str = "/proc/sys/kernel/random/boot_id";
    let text = fs::read_to_string(PATH).map_err(|e| Failure::new(format!("read {PATH}"), e))?;
    Ok(text.trim().to_owned())
}

fn read(clock: ClockId) -> Result<i64> {
    let now = clock_gettime(clock).map_err(|errno| Failure::new("read a clock", errno))?;
    Ok(Duration::from(now).as_nanos() as i64)
}

/// Asks adjtimex(2), which also changes what `modes` names.
fn adjtimex(attempted: &str, mut asked: libc::timex) -> Result<libc::timex> {
    // SAFETY: the pointer is to a live value of the layout the call defines, which it fills.
    #[expect(unsafe_code, reason = "adjtimex has no safe wrapper")]
    let state = unsafe { libc::adjtimex(&raw mut asked) };
    match state {
        -1 => Err(Failure::new(attempted, io::Error::last_os_error())),
        _ => Ok(asked),
    }
}

fn nothing() -> libc::timex {
    // SAFETY: it consists of integers alone, for which zeros are values.
    #[expect(unsafe_code, reason = "libc has no constructor for it")]
    unsafe {
        std::mem::zeroed()
    }
}

impl Machine for This {
    fn boot(&self) -> Result<String> {
        boot_id()
    }

    fn clocks(&self) -> Result<Clocks> {
        let once = || {
            let before = read(ClockId::CLOCK_MONOTONIC_RAW)?;
            let real_ns = read(ClockId::CLOCK_REALTIME)?;
            let slept_ns = read(ClockId::CLOCK_BOOTTIME)? - read(ClockId::CLOCK_MONOTONIC)?;
            let after = read(ClockId::CLOCK_MONOTONIC_RAW)?;
            let error_ns = (after - before).unsigned_abs();
            Ok(Clocks { real_ns, raw_ns: before + (after - before) / 2, slept_ns, error_ns })
        };
        let mut best = once()?;
        for _ in 1..READINGS {
            let next = once()?;
            if next.error_ns < best.error_ns {
                best = next;
            }
        }
        Ok(best)
    }

    fn discipline(&self) -> Result<Discipline> {
        let timex = adjtimex("read what disciplines the clock", nothing())?;
        let libc::timex { tick, freq, status, maxerror, esterror, .. } = timex;
        Ok(Discipline { tick, freq, status, maxerror, esterror })
    }

    fn set_discipline(&self, discipline: &Discipline) -> Result<()> {
        let Discipline { tick, freq, status, maxerror, esterror } = *discipline;
        let modes = libc::ADJ_TICK
            | libc::ADJ_FREQUENCY
            | libc::ADJ_STATUS
            | libc::ADJ_MAXERROR
            | libc::ADJ_ESTERROR;
        let asked = libc::timex { modes, tick, freq, status, maxerror, esterror, ..nothing() };
        adjtimex("change the rate of the clock", asked).map(drop)
    }

    fn step(&self, us: i64) -> Result<()> {
        let time =
            libc::timeval { tv_sec: us.div_euclid(1_000_000), tv_usec: us.rem_euclid(1_000_000) };
        let asked = libc::timex { modes: libc::ADJ_SETOFFSET, time, ..nothing() };
        adjtimex(&format!("move the clock by {us} µs"), asked).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Discipline =
        Discipline { tick: 10_000, freq: -1_500_000, status: 1, maxerror: 7, esterror: 3 };

    /// What a clock is made to gain adds to what it gained already, to a tenth of a part per billion.
    #[test]
    fn rates_are_split_into_ticks_and_frequency() {
        for ppm in [0.0, 1.0, -37.5, 100.0, -500.0, 12_345.6, 99_000.0, -99_000.0] {
            let faster = USUAL.faster(ppm).unwrap();
            let wanted = USUAL.rate() * (1.0 + ppm / 1e6);
            assert!((faster.rate() - wanted).abs() < 1e-10, "{ppm}: {faster:?}");
            assert!(faster.freq.abs() <= (500.0 * PPM) as i64, "{faster:?}");
            assert_eq!(faster.status, 1 | libc::STA_UNSYNC);
        }
        let refused = USUAL.faster(200_000.0).unwrap_err();
        assert!(refused.to_string().contains("at most 10 %"), "{refused}");
    }

    /// Clocks are read together, and in their order; reading changes nothing.
    #[test]
    fn clocks_are_read() {
        let this = This(());
        let (first, then) = (this.clocks().unwrap(), this.clocks().unwrap());
        assert!(then.raw_ns >= first.raw_ns && first.real_ns > 1_600_000_000_000_000_000);
        assert!((0.8..1.2).contains(&this.discipline().unwrap().rate()));
        assert!(This::still("another boot").unwrap().is_none());
        assert!(This::still(&this.boot().unwrap()).unwrap().is_some());
    }
}
