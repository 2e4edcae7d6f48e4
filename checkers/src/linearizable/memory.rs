//! Memory taken from a budget, given back when it is dropped.

use crate::{Budget, Exhausted};

/// What a table has taken from the budget.
pub(crate) struct Reservation<'b> {
    pub(crate) budget: &'b Budget,
    bytes: u64,
    /// Given back to the allocator, but perhaps not by it.
    lost: u64,
}

/// The allocator may keep smaller pieces than this to itself. (glibc: the greatest threshold above
/// which pieces are the kernel's, `mallopt(3)`.)
const KEPT_MAX: u64 = 32 << 20;

/// The least that is taken or given back at once, so that small steps cost nothing.
const STEP_BYTES: u64 = 1 << 14;

impl<'b> Reservation<'b> {
    pub(crate) const fn new(budget: &'b Budget) -> Self {
        Self { budget, bytes: 0, lost: 0 }
    }

    /// Makes sure that so many bytes are taken, and hardly more; or errs and takes no more.
    pub(crate) fn hold(&mut self, bytes: u64) -> Result<(), Exhausted> {
        let bytes = bytes + self.lost;
        if bytes > self.bytes {
            let more = (bytes - self.bytes).max(STEP_BYTES);
            self.budget.reserve(more)?;
            self.bytes += more;
        } else if self.bytes - bytes > STEP_BYTES {
            self.budget.release(self.bytes - bytes);
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Notes that a piece of memory is no longer used.
    pub(crate) const fn lose(&mut self, bytes: u64) {
        if bytes < KEPT_MAX {
            self.lost += bytes;
        }
    }

    /// Gives a vector room for more elements, which this holds the memory of.
    pub(crate) fn grow<T>(&mut self, vector: &mut Vec<T>, more: usize) -> Result<(), Exhausted> {
        if vector.len() + more <= vector.capacity() {
            return Ok(());
        }
        let (old, len) = (vector.capacity(), vector.len() + more);
        let new = len.max(old + old / 2).max(16);
        // Old and new exist side by side for a moment.
        self.hold(((old + new) * size_of::<T>()) as u64)?;
        vector.reserve_exact(new - vector.len());
        self.lose((old * size_of::<T>()) as u64);
        self.hold((new * size_of::<T>()) as u64)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}
