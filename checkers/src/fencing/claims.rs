//! What a system promises, and so what counts as broken rather than as dangerous.

use serde::{Deserialize, Serialize};

use super::planted::{Bug, planted};

/// The guarantees a system claims. By default all it can, with perfect clocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Claims {
    /// A lock without a lease has one holder at a time.
    pub mutex: bool,
    /// Tokens are unique and grow with every grant, and resources refuse what is older than the
    /// newest they have seen.
    pub fencing: bool,
    /// At most one holder, and one leader, at a time as long as clocks keep within bounds.
    pub lease: Option<LeaseClaim>,
    /// A read sees every write that was acknowledged before it began.
    pub linearizable_reads: bool,
    /// An acknowledged write survives.
    pub durability: bool,
    /// A write takes effect once, however often it is tried.
    pub writes_once: bool,
    /// Resources ask the service that grants tokens, so that they refuse a token from the moment
    /// in which a newer one is granted. Hardly any does: not claimed by default.
    pub validated_tokens: bool,
}

/// The bounds within which a lease holds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LeaseClaim {
    /// How far apart two clocks may be, in milliseconds.
    pub clock_error_ms: u64,
    /// How much faster or slower a clock may run, as a fraction: 0.01 is one percent.
    pub drift: f64,
}

impl Default for Claims {
    fn default() -> Self {
        Self {
            mutex: true,
            fencing: true,
            lease: Some(LeaseClaim::default()),
            linearizable_reads: true,
            durability: true,
            writes_once: true,
            validated_tokens: false,
        }
    }
}

impl Claims {
    /// Nothing is promised: whatever is found is an exposure.
    pub const NONE: Self = Self {
        mutex: false,
        fencing: false,
        lease: None,
        linearizable_reads: false,
        durability: false,
        writes_once: false,
        validated_tokens: false,
    };

    /// Whether a leader of an epoch has to be the only one of that epoch.
    pub(super) const fn epochs_are_unique(&self) -> bool {
        self.mutex
            || self.fencing
            || self.lease.is_some()
            || self.linearizable_reads
            || self.durability
    }

    /// The bounds of leases: those claimed, or those of perfect clocks, to measure against.
    pub(super) fn lease_bounds(&self) -> LeaseClaim {
        self.lease.unwrap_or_default()
    }
}

impl LeaseClaim {
    /// Until when a lease is certainly in force that was asked for at `begin_ns`: it was not
    /// granted earlier, and the clock of who granted it may be fast and ahead.
    pub(super) fn certain_end_ns(self, begin_ns: u64, lease_ms: u64) -> u64 {
        let drift = if planted(Bug::LeasesNeverRunFast) { 0.0 } else { self.drift };
        let error = if planted(Bug::LeasesAreExact) { 0 } else { self.error_ns() };
        let term = lease_ms as f64 * 1e6 * (1.0 - drift);
        begin_ns.saturating_add(term as u64).saturating_sub(error)
    }

    /// From when a lease is certainly over that was received at `end_ns`.
    pub(super) fn latest_end_ns(self, end_ns: u64, lease_ms: u64) -> u64 {
        let drift = if planted(Bug::LeasesNeverRunSlow) { 0.0 } else { self.drift };
        let error = if planted(Bug::EndsAreExact) { 0 } else { self.error_ns() };
        let term = lease_ms as f64 * 1e6 * (1.0 + drift);
        end_ns.saturating_add(term.ceil() as u64).saturating_add(error)
    }

    const fn error_ns(self) -> u64 {
        self.clock_error_ms.saturating_mul(1_000_000)
    }
}
