//! How a clock is moved while a fault is held.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cell::Setting;

/// How the clock of a node is moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "motion", rename_all = "kebab-case")]
pub enum Motion {
    /// It is set once.
    Jump {
        /// How far ahead, in milliseconds; behind if negative.
        offset_ms: i64,
    },
    /// It jumps there and back.
    Strobe {
        /// How far ahead, in milliseconds; behind if negative.
        offset_ms: i64,
        /// How long it stays on each side, in milliseconds.
        period_ms: u64,
    },
    /// It runs too fast, or too slow if negative.
    Drift {
        /// By how much, in parts per million.
        rate_ppm: f64,
    },
    /// It is set anew, again and again.
    Scramble {
        /// How far ahead or behind at most, in milliseconds.
        max_ms: u64,
        /// How often, in milliseconds.
        period_ms: u64,
        /// Decides how far each time.
        seed: u64,
    },
}

impl Motion {
    /// How long one setting is in force; `None` if for the whole time.
    pub fn period(&self) -> Option<Duration> {
        match self {
            Self::Jump { .. } | Self::Drift { .. } => None,
            Self::Strobe { period_ms, .. } | Self::Scramble { period_ms, .. } => {
                Some(Duration::from_millis((*period_ms).max(1)))
            }
        }
    }

    /// How far ahead the clock may be, in nanoseconds, when the fault has been in force for at most so long.
    pub fn reach(&self, held: Duration) -> RangeInclusive<i64> {
        let between = |ns: i64| ns.min(0)..=ns.max(0);
        let ns = |ms: i64| ms.saturating_mul(1_000_000);
        match self {
            Self::Jump { offset_ms } => ns(*offset_ms)..=ns(*offset_ms),
            Self::Strobe { offset_ms, .. } => between(ns(*offset_ms)),
            Self::Drift { rate_ppm } => between((held.as_nanos() as f64 * rate_ppm / 1e6) as i64),
            Self::Scramble { max_ms, .. } => -ns(*max_ms as i64)..=ns(*max_ms as i64),
        }
    }

    /// The setting of a period, counted from 0, of a fault that began at `base_ns`.
    pub fn setting(&self, period: u64, base_ns: i64) -> Setting {
        let still = |offset_ms: i64| Setting {
            offset_ns: offset_ms.saturating_mul(1_000_000),
            base_ns,
            rate: 0,
        };
        match self {
            Self::Jump { offset_ms } => still(*offset_ms),
            Self::Strobe { offset_ms, .. } => {
                still(if period.is_multiple_of(2) { *offset_ms } else { 0 })
            }
            Self::Drift { rate_ppm } => {
                Setting { offset_ns: 0, base_ns, rate: Setting::rate_of_ppm(*rate_ppm) }
            }
            Self::Scramble { max_ms, seed, .. } => {
                let width = max_ms.saturating_mul(2).saturating_add(1);
                let drawn = mix(seed.wrapping_add(period)) % width;
                still(drawn as i64 - *max_ms as i64)
            }
        }
    }
}

impl fmt::Display for Motion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jump { .. } => write!(f, "jump"),
            Self::Strobe { offset_ms, period_ms } => {
                write!(f, "strobe of {offset_ms} ms each {period_ms} ms")
            }
            Self::Drift { rate_ppm } => write!(f, "drift of {rate_ppm} ppm"),
            Self::Scramble { max_ms, period_ms, .. } => {
                write!(f, "scramble within {max_ms} ms each {period_ms} ms")
            }
        }
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
/// OOPSLA 2014): neighbouring numbers become unrelated ones.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A strobe is there in even periods and right in odd ones.
    #[test]
    fn a_strobe_goes_there_and_back() {
        let strobe = Motion::Strobe { offset_ms: -30, period_ms: 5 };
        let offsets: Vec<i64> = (0..4).map(|p| strobe.setting(p, 9).offset_ns).collect();
        assert_eq!(offsets, [-30_000_000, 0, -30_000_000, 0]);
    }

    /// A scramble stays within its limits, uses both sides, and is the same for the same seed.
    #[test]
    fn a_scramble_is_bounded_and_repeatable() {
        let scramble = |seed| Motion::Scramble { max_ms: 100, period_ms: 1, seed };
        let offsets: Vec<i64> =
            (0..200).map(|p| scramble(4).setting(p, 0).offset_ns / 1_000_000).collect();
        assert!(offsets.iter().all(|offset| offset.abs() <= 100));
        assert!(offsets.iter().any(|o| *o > 50) && offsets.iter().any(|o| *o < -50));
        assert_eq!(scramble(4).setting(7, 0), scramble(4).setting(7, 0));
        assert_ne!(scramble(4).setting(7, 0), scramble(5).setting(7, 0));
    }
}
