//! What was found: counted by name, the first few told in full, sizes kept as distributions.

use std::collections::BTreeMap;

use super::planted::{Bug, planted};
use crate::Anomaly;

/// The names of all that can be found, worst first.
pub const NAMES: [&str; 16] = [
    "stale-token-accepted",
    "token-regression",
    "lost-acked-write",
    "dual-leader-effect",
    "mutual-exclusion",
    "lease-overlap",
    "duplicate-token",
    "token-grant-order",
    "unissued-token",
    "stale-read-under-lease",
    "duplicate-apply",
    "use-after-release",
    "dual-leader",
    "overclaimed-lease",
    "lost-notification",
    "stale-token-after-newer-grant",
];

/// At most this many of one name are told; all are counted.
pub(super) const LISTED_MAX: usize = 8;

/// All that bears one name.
#[derive(Debug, Default)]
pub(super) struct Kind {
    pub(super) count: u64,
    /// How large each was, in nanoseconds: of a window, a delay, an overlap.
    pub(super) sizes: Vec<i64>,
    pub(super) told: Vec<Anomaly>,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// What breaks a guarantee that is claimed.
    pub(super) violations: BTreeMap<&'static str, Kind>,
    /// What is legal under the claims, and dangerous.
    pub(super) exposures: BTreeMap<&'static str, Kind>,
    /// Figures that are neither.
    pub(super) measures: BTreeMap<&'static str, Vec<i64>>,
    /// Counts that are neither.
    pub(super) counts: BTreeMap<&'static str, u64>,
    /// What could not be judged from which position on, and why.
    pub(super) undecided: Vec<(u32, String)>,
}

impl Found {
    /// Notes one; it is told only if it is among the first of its name.
    pub(super) fn note(
        &mut self,
        name: &'static str,
        claimed: bool,
        size_ns: Option<u64>,
        tell: impl FnOnce() -> Anomaly,
    ) {
        let kinds = if claimed || planted(Bug::AllIsClaimed) {
            &mut self.violations
        } else {
            &mut self.exposures
        };
        let kind = kinds.entry(name).or_default();
        kind.count += 1;
        kind.sizes.extend(size_ns.map(|ns| i64::try_from(ns).unwrap_or(i64::MAX)));
        if kind.told.len() < LISTED_MAX {
            kind.told.push(tell());
        }
    }

    /// Adds what was found elsewhere.
    pub(super) fn add(&mut self, other: Self) {
        let Self { violations, exposures, measures, counts, undecided } = other;
        for (kinds, more) in [(&mut self.violations, violations), (&mut self.exposures, exposures)]
        {
            for (name, kind) in more {
                let known = kinds.entry(name).or_default();
                known.count += kind.count;
                known.sizes.extend(kind.sizes);
                known.told.extend(kind.told);
                known.told.truncate(LISTED_MAX);
            }
        }
        for (name, values) in measures {
            self.measures.entry(name).or_default().extend(values);
        }
        for (name, by) in counts {
            self.count(name, by);
        }
        self.undecided.extend(undecided);
    }

    /// Notes a figure.
    pub(super) fn measure(&mut self, name: &'static str, ns: i64) {
        self.measures.entry(name).or_default().push(ns);
    }

    /// Counts something.
    pub(super) fn count(&mut self, name: &'static str, by: u64) {
        *self.counts.entry(name).or_default() += by;
    }
}
