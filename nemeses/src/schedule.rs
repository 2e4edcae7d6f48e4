//! When a lane injects and for how long: drawn from a seed, from nothing else.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// How often faults come, on average.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From one injection of a lane to the next.
    pub every: Duration,
    /// How long each is held.
    pub hold: Duration,
    /// How long nothing happens at first.
    pub quiet: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(10),
            hold: Duration::from_secs(5),
            quiet: Duration::from_secs(2),
        }
    }
}

/// A run holds at least this many injections of each lane, if need be faster than asked for.
const INJECTIONS_MIN: u32 = 3;

/// A fault is held at least this long, so that it can bite at all.
const HOLD_MIN: Duration = Duration::from_secs(1);

/// The schedule of one lane. All times are since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Schedule {
    timing: Timing,
    /// When this lane injects first, so that lanes do not start together.
    first: Duration,
    /// When the run ends, if it is known.
    end: Option<Duration>,
}

impl Schedule {
    /// The schedule of lane `lane` of `lanes` in a run of a length. A short run gets the same storm,
    /// faster.
    pub(crate) fn new(timing: Timing, lane: u32, lanes: u32, end: Option<Duration>) -> Self {
        let needed = timing.every * INJECTIONS_MIN;
        let scale = match end {
            Some(end) if end < needed => end.as_secs_f64() / needed.as_secs_f64(),
            _ => 1.0,
        };
        let timing = Timing {
            every: timing.every.mul_f64(scale),
            hold: timing.hold.mul_f64(scale),
            quiet: timing.quiet.mul_f64(scale),
        };
        Self { timing, first: timing.quiet + timing.every * lane / lanes, end }
    }

    /// When to inject first.
    pub(crate) const fn first(&self) -> Duration {
        self.first
    }

    /// How long to hold a fault: the mean, two fifths more or less.
    pub(crate) fn hold(&self, rng: &mut ChaCha8Rng) -> Duration {
        self.timing.hold.mul_f64(rng.random_range(0.6..1.4)).max(HOLD_MIN)
    }

    /// How long to wait after a heal: the mean, half more or less.
    pub(crate) fn pause(&self, rng: &mut ChaCha8Rng) -> Duration {
        let mean = self.timing.every.saturating_sub(self.timing.hold);
        mean.mul_f64(rng.random_range(0.5..1.5))
    }

    /// How long to wait after there was nothing to hit.
    pub(crate) fn retry(&self) -> Duration {
        self.timing.every / 5
    }

    /// Whether an injection at `now` could still be held long enough to count.
    pub(crate) fn fits(&self, now: Duration) -> bool {
        self.end.is_none_or(|end| now + (self.timing.hold / 2).max(HOLD_MIN) <= end)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    /// Injections of a lane, as (start, end), if each took no time itself.
    fn storm(lane: u32, lanes: u32, seconds: u64, seed: u64) -> Vec<(Duration, Duration)> {
        let end = Duration::from_secs(seconds);
        let schedule = Schedule::new(Timing::default(), lane, lanes, Some(end));
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut now = schedule.first();
        let mut storm = Vec::new();
        while schedule.fits(now) {
            let hold = schedule.hold(&mut rng);
            assert!(hold >= HOLD_MIN);
            storm.push((now, now + hold));
            now += hold + schedule.pause(&mut rng);
        }
        storm
    }

    /// Every lane of a run of half a minute injects at least twice, in one of ten seconds still
    /// once, whatever the seed; and no lane before its quiet period is over.
    #[test]
    fn short_runs_see_every_fault() {
        for seed in 0..200 {
            for lane in 0..3 {
                let storm_30 = storm(lane, 3, 30, seed);
                assert!(storm_30.len() >= 2, "{storm_30:?}");
                assert!(storm_30[0].0 >= Duration::from_secs(2));
                assert!(!storm(lane, 3, 10, seed).is_empty());
            }
        }
    }

    /// Over a long run the averages are what was asked for.
    #[test]
    fn averages_are_as_asked() {
        let storm = storm(0, 1, 100_000, 5);
        let held: f64 = storm.iter().map(|(from, to)| (*to - *from).as_secs_f64()).sum();
        let n = storm.len() as f64;
        assert!((n - 10_000.0).abs() < 300.0, "{n} injections");
        assert!((held / n - 5.0).abs() < 0.1, "held {} s on average", held / n);
    }
}
