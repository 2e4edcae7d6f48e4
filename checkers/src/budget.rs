//! How much time and memory a check may take.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Limits of one check, shared by all its threads.
///
/// Checkers are pure, so the clock is handed in. A checker calls [`Budget::check`] in every loop
/// that can be long (a few thousand steps apart) and [`Budget::reserve`] before it grows a table.
#[derive(Clone)]
pub struct Budget {
    elapsed: Arc<dyn Fn() -> Duration + Send + Sync>,
    time_max: Duration,
    /// What `time_max` is a share of.
    time_whole: Duration,
    memory_max: u64,
    memory_used: Arc<AtomicU64>,
    /// Threads a checker may use; 1 or more.
    pub threads: usize,
}

/// Steps of a long loop between two looks at the clock.
const STEPS_PER_LOOK: usize = 4096;

/// Which limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// The time limit.
    #[error("the time budget of {0:?} ran out")]
    Time(Duration),
    /// The memory limit, in bytes.
    #[error("the memory budget of {} MiB ran out", .0 >> 20)]
    Memory(u64),
}

impl Budget {
    /// Limits on top of a clock that tells the time since the check began.
    pub fn new(
        elapsed: impl Fn() -> Duration + Send + Sync + 'static,
        time_max: Duration,
        memory_max: u64,
        threads: usize,
    ) -> Self {
        Self {
            elapsed: Arc::new(elapsed),
            time_max,
            time_whole: time_max,
            memory_max,
            memory_used: Arc::new(AtomicU64::new(0)),
            threads: threads.max(1),
        }
    }

    /// No limit, one thread: for tests and small histories.
    pub fn unlimited() -> Self {
        Self::new(|| Duration::ZERO, Duration::MAX, u64::MAX, 1)
    }

    /// Errs once the time is up.
    pub fn check(&self) -> Result<(), Exhausted> {
        if (self.elapsed)() > self.time_max {
            Err(Exhausted::Time(self.time_whole))
        } else {
            Ok(())
        }
    }

    /// What a long loop goes over, with an error in the place of the first item there is no time for.
    pub(crate) fn pace<I: IntoIterator>(
        &self,
        items: I,
    ) -> impl Iterator<Item = Result<I::Item, Exhausted>> + use<'_, I> {
        items.into_iter().enumerate().map(|(step, item)| {
            if step.is_multiple_of(STEPS_PER_LOOK) {
                self.check()?;
            }
            Ok(item)
        })
    }

    /// Takes `bytes` from the memory budget, or errs and takes nothing.
    pub fn reserve(&self, bytes: u64) -> Result<(), Exhausted> {
        let before = self.memory_used.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.memory_max {
            self.release(bytes);
            return Err(Exhausted::Memory(self.memory_max));
        }
        Ok(())
    }

    /// Gives `bytes` back.
    pub fn release(&self, bytes: u64) {
        self.memory_used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes `bytes` from the memory budget until what is returned is dropped.
    ///
    /// # Errors
    /// If they are not left.
    pub(crate) fn hold(&self, bytes: u64) -> Result<Held, Exhausted> {
        self.reserve(bytes)?;
        Ok(Held { memory_used: self.memory_used.clone(), bytes })
    }

    /// Makes room in a list for `more`, at least doubling it where it has none, and notes in `held` what
    /// that takes.
    ///
    /// # Errors
    /// If it is not left.
    #[inline]
    pub(crate) fn make_room<T>(
        &self,
        list: &mut Vec<T>,
        more: usize,
        held: &mut Vec<Held>,
    ) -> Result<(), Exhausted> {
        if list.capacity() - list.len() < more {
            let more = more.max(list.len());
            held.push(self.hold((more * size_of::<T>()) as u64)?);
            list.reserve_exact(more);
        }
        Ok(())
    }

    /// The same budget with no more than a part of the time that is left. Where it runs out, the error
    /// names the whole.
    #[must_use]
    pub(crate) fn share(&self, part: f64) -> Self {
        let elapsed = (self.elapsed)();
        let left = self.time_max.saturating_sub(elapsed);
        let share = Duration::try_from_secs_f64(left.as_secs_f64() * part).unwrap_or(left);
        Self { time_max: elapsed.saturating_add(share), ..self.clone() }
    }
}

/// Memory taken from a [`Budget`], given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    memory_used: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory_used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("time_max", &self.time_max)
            .field("memory_max", &self.memory_max)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}
