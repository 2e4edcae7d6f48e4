//! Memory taken from a budget, given back when it is dropped.

use crate::{Budget, Exhausted};

/// What a table has taken from the budget.
pub(crate) struct Reservation<'b> {
    budget: &'b Budget,
    bytes: u64,
}

/// The least that is taken at once.
const STEP_BYTES: u64 = 1 << 16;

impl<'b> Reservation<'b> {
    pub(crate) const fn new(budget: &'b Budget) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Makes sure that so many bytes are taken, or errs and takes no more.
    pub(crate) fn reach(&mut self, bytes: u64) -> Result<(), Exhausted> {
        if bytes > self.bytes {
            // A little more at a time, so that small steps cost nothing.
            let more = (bytes - self.bytes).max(STEP_BYTES);
            self.budget.reserve(more)?;
            self.bytes += more;
        }
        Ok(())
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}
