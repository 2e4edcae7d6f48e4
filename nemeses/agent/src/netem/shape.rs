//! What a bad link does to packets.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What happens to the packets of a link, in one direction. Probabilities are per packet, in percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shape {
    /// How many are lost.
    pub loss_pct: f64,
    /// How many come twice.
    pub duplicate_pct: f64,
    /// How many have a bit flipped. The receiver's checksums find that, as a rule.
    pub corrupt_pct: f64,
    /// How many overtake those before them: they are not delayed.
    pub reorder_pct: f64,
    /// How long they take, in milliseconds.
    pub delay_ms: f64,
    /// By how much that varies at most, either way, in milliseconds, evenly.
    pub jitter_ms: f64,
    /// How much passes, in kilobits a second; everything if 0.
    pub rate_kbit: f64,
}

/// Longest that packets wait for a link that passes less than is sent; what would wait longer is lost.
pub(super) const BACKLOG_MAX: Duration = Duration::from_secs(1);

impl Shape {
    /// What is wrong with it, if anything.
    pub fn mistake(&self) -> Option<&'static str> {
        let percentages = [self.loss_pct, self.duplicate_pct, self.corrupt_pct, self.reorder_pct];
        let amounts = [self.delay_ms, self.jitter_ms, self.rate_kbit];
        if percentages.iter().any(|p| !(0.0..=100.0).contains(p)) {
            Some("a percentage is between 0 and 100")
        } else if amounts.iter().any(|amount| !amount.is_finite() || *amount < 0.0) {
            Some("delay, jitter and rate are positive")
        } else if self.delay_ms + self.jitter_ms > 60_000.0 {
            Some("no packet takes longer than a minute")
        } else if self.reorder_pct > 0.0 && self.delay_ms == 0.0 {
            Some("packets are reordered by delaying the others: give a delay")
        } else if *self == Self::default() {
            Some("it leaves every packet alone")
        } else {
            None
        }
    }

    /// Whether the contents of packets are needed, and not only their lengths.
    pub(crate) fn needs_contents(&self) -> bool {
        self.duplicate_pct > 0.0 || self.corrupt_pct > 0.0
    }
}

/// What becomes of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is lost.
    Lost,
    /// It goes on.
    Passes {
        /// When, on the clock of the arrival.
        at: Duration,
        /// Whether it overtakes others.
        early: bool,
        /// The bit to flip, counted from its beginning, if any.
        flip: Option<u64>,
        /// Whether it comes twice.
        twice: bool,
    },
}

/// A link of a [`Shape`]: what it does to each packet, from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    shape: Shape,
    random: u64,
    /// Until when it is busy passing what came before.
    busy_until: Duration,
}

impl Link {
    /// A link that nothing has passed yet.
    pub(crate) const fn new(shape: Shape, seed: u64) -> Self {
        Self { shape, random: seed, busy_until: Duration::ZERO }
    }

    /// What becomes of a packet of so many bytes that arrives `now`.
    pub(crate) fn fate(&mut self, now: Duration, bytes: u64) -> Fate {
        let Shape { loss_pct, duplicate_pct, corrupt_pct, reorder_pct, .. } = self.shape;
        if self.chance(loss_pct) {
            return Fate::Lost;
        }
        let sent = if self.shape.rate_kbit > 0.0 {
            let free = self.busy_until.max(now);
            if free - now > BACKLOG_MAX {
                return Fate::Lost;
            }
            self.busy_until =
                free + Duration::from_secs_f64(bytes as f64 * 8.0 / (self.shape.rate_kbit * 1e3));
            self.busy_until
        } else {
            now
        };
        let early = self.chance(reorder_pct);
        let varied = self.shape.jitter_ms * (2.0 * self.draw() - 1.0);
        let delay = if early { 0.0 } else { (self.shape.delay_ms + varied).max(0.0) };
        let flip = self.chance(corrupt_pct).then(|| (self.draw() * bytes as f64 * 8.0) as u64);
        let twice = self.chance(duplicate_pct);
        Fate::Passes { at: sent + Duration::from_secs_f64(delay / 1e3), early, flip, twice }
    }

    fn chance(&mut self, percent: f64) -> bool {
        percent > 0.0 && self.draw() * 100.0 < percent
    }

    /// A number from 0 to 1: SplitMix64.
    fn draw(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn fates(shape: Shape, packets: u32, every: Duration) -> Vec<Fate> {
        let mut link = Link::new(shape, 7);
        (0..packets).map(|n| link.fate(every * n, 1000)).collect()
    }

    fn share(fates: &[Fate], is: impl Fn(&Fate) -> bool) -> f64 {
        fates.iter().filter(|fate| is(fate)).count() as f64 / fates.len() as f64 * 100.0
    }

    /// Each mischief happens to as many packets as asked, and to none if not asked for.
    #[test]
    fn shares_are_as_asked() {
        let shape = Shape {
            loss_pct: 30.0,
            duplicate_pct: 20.0,
            corrupt_pct: 10.0,
            reorder_pct: 5.0,
            delay_ms: 50.0,
            ..Shape::default()
        };
        let all = fates(shape, 100_000, MS);
        assert!((share(&all, |f| *f == Fate::Lost) - 30.0).abs() < 1.0);
        let passed: Vec<Fate> = all.into_iter().filter(|f| *f != Fate::Lost).collect();
        let of = |is: fn(bool, bool, bool) -> bool| {
            share(&passed, |fate| match fate {
                Fate::Passes { early, flip, twice, .. } => is(*early, flip.is_some(), *twice),
                Fate::Lost => false,
            })
        };
        assert!((of(|early, _, _| early) - 5.0).abs() < 1.0);
        assert!((of(|_, flip, _| flip) - 10.0).abs() < 1.0);
        assert!((of(|_, _, twice| twice) - 20.0).abs() < 1.0);
        let quiet = fates(Shape { delay_ms: 1.0, ..Shape::default() }, 1000, MS);
        let plain =
            |f: &Fate| matches!(f, Fate::Passes { early: false, flip: None, twice: false, .. });
        assert_eq!(share(&quiet, plain), 100.0);
    }

    /// Delays lie within delay and jitter, on both sides of the delay.
    #[test]
    fn delays_lie_within_the_jitter() {
        let shape = Shape { delay_ms: 50.0, jitter_ms: 20.0, ..Shape::default() };
        let delays: Vec<f64> = fates(shape, 10_000, MS)
            .iter()
            .zip(0..)
            .map(|(fate, n)| match fate {
                Fate::Passes { at, .. } => (*at - MS * n).as_secs_f64() * 1e3,
                Fate::Lost => panic!("nothing is lost"),
            })
            .collect();
        assert!(delays.iter().all(|delay| (30.0..=70.0).contains(delay)));
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        assert!((mean - 50.0).abs() < 1.0, "{mean}");
        assert!(delays.iter().any(|d| *d < 35.0) && delays.iter().any(|d| *d > 65.0));
    }

    /// A link that passes less than is sent passes what it can, and loses the rest.
    #[test]
    fn a_narrow_link_passes_its_rate() {
        // 1000 bytes each millisecond are 8000 kbit/s.
        let shape = Shape { rate_kbit: 800.0, ..Shape::default() };
        let all = fates(shape, 20_000, MS);
        let last = all.iter().filter_map(|f| match f {
            Fate::Passes { at, .. } => Some(*at),
            Fate::Lost => None,
        });
        assert!(last.clone().max().unwrap() < Duration::from_secs(20) + BACKLOG_MAX * 2);
        let passed = last.count() as f64;
        assert!((passed - 2100.0).abs() < 50.0, "{passed}");
    }

    /// Nonsense is named.
    #[test]
    fn mistakes_are_named() {
        let mistake = |shape: Shape| shape.mistake().unwrap_or_default();
        assert!(mistake(Shape::default()).contains("leaves every packet alone"));
        assert!(mistake(Shape { loss_pct: 101.0, ..Shape::default() }).contains("percentage"));
        assert!(mistake(Shape { reorder_pct: 5.0, ..Shape::default() }).contains("give a delay"));
        assert!(mistake(Shape { delay_ms: f64::NAN, ..Shape::default() }).contains("positive"));
        assert_eq!(mistake(Shape { loss_pct: 30.0, ..Shape::default() }), "");
    }
}
