//! The events of one object in order, and a slot for every call that is open: what lets a search
//! name any set of open calls by a few machine words.

use rustc_hash::FxHashMap;

use super::NEVER;
use super::automaton::{Entry, Likeness};
use super::memory::Reservation;
use crate::{Budget, Exhausted};

/// More calls than are open at once in most histories.
const OPEN_USUALLY: usize = 16;

/// An invocation or a return.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    /// Which entry.
    pub(crate) entry: u32,
    /// Whether it returns.
    pub(crate) is_return: bool,
}

/// Events, slots, and which calls are open when one has to return.
///
/// Optional calls are open for ever and have the slots `0..optional` in the order of their
/// invocations; the others share the slots above.
pub(crate) struct Timeline<'b> {
    pub(crate) events: Vec<Event>,
    /// Of each entry.
    pub(crate) slot: Vec<u32>,
    /// Of each entry.
    like: Vec<Likeness>,
    /// The optional entries, in the order of their invocations.
    pub(crate) optional: Vec<u32>,
    /// For each optional entry the one before it that does the same, or [`NEVER`].
    pub(crate) twin: Vec<u32>,
    /// Slots in all.
    pub(crate) slots: usize,
    open: Vec<u32>,
    /// For each event that is a return: where its open calls are in `open`, and how many optional
    /// calls had been invoked.
    at: Vec<At>,
    /// Of all this.
    _memory: Reservation<'b>,
}

#[derive(Debug, Clone, Copy, Default)]
struct At {
    start: u32,
    end: u32,
    optional: u32,
}

impl<'b> Timeline<'b> {
    /// Lays out entries, which are in the order of their invocations.
    pub(crate) fn new(
        entries: &[Entry],
        likeness: impl Fn(u32) -> Likeness,
        budget: &'b Budget,
    ) -> Result<Self, Exhausted> {
        let mut memory = Reservation::new(budget);
        let returning = entries.iter().filter(|entry| !entry.is_optional()).count();
        let events = entries.len() + returning;
        let fixed = events * (size_of::<Event>() + size_of::<At>())
            + entries.len() * (3 * size_of::<u32>() + size_of::<Likeness>())
            + returning * size_of::<(u32, u32)>();
        memory.hold(fixed as u64)?;
        let mut returns: Vec<(u32, u32)> = Vec::with_capacity(returning);
        returns.extend(
            entries
                .iter()
                .enumerate()
                .filter(|(_, entry)| !entry.is_optional())
                .map(|(index, entry)| (entry.ret, index as u32)),
        );
        // No two calls return at the same time.
        returns.sort_unstable_by_key(|(time, _)| *time);
        budget.check()?;
        let open = open_in_all(entries, &returns);
        memory.hold((fixed + open * size_of::<u32>()) as u64)?;
        let like: Vec<Likeness> = entries.iter().map(|entry| likeness(entry.kind)).collect();
        let optional: Vec<u32> =
            (0..entries.len() as u32).filter(|&i| entries[i as usize].is_optional()).collect();
        let mut last: FxHashMap<Likeness, u32> = FxHashMap::default();
        let twin = (optional.iter().zip(0..))
            .map(|(&entry, at)| last.insert(like[entry as usize], at).unwrap_or(NEVER))
            .collect();
        let mut timeline = Self {
            events: Vec::with_capacity(events),
            slot: vec![0; entries.len()],
            like,
            slots: optional.len(),
            optional,
            twin,
            open: Vec::with_capacity(open),
            at: Vec::with_capacity(events),
            _memory: memory,
        };
        timeline.lay_out(entries, &returns);
        budget.check()?;
        Ok(timeline)
    }

    /// Whether two entries do the same.
    #[inline]
    pub(crate) fn same(&self, one: u32, other: u32) -> bool {
        self.like[one as usize] == self.like[other as usize]
    }

    fn lay_out(&mut self, entries: &[Entry], returns: &[(u32, u32)]) {
        let mut free: Vec<u32> = Vec::with_capacity(OPEN_USUALLY);
        let mut open: Vec<u32> = Vec::with_capacity(OPEN_USUALLY);
        let (mut begun, mut ended, mut optional) = (0, 0, 0);
        while begun < entries.len() || ended < returns.len() {
            let next = returns.get(ended);
            let begins = entries
                .get(begun)
                .is_some_and(|entry| next.is_none_or(|(time, _)| entry.inv < *time));
            if begins {
                let entry = begun as u32;
                if entries[begun].is_optional() {
                    self.slot[begun] = optional;
                    optional += 1;
                } else {
                    self.slot[begun] = free.pop().unwrap_or_else(|| {
                        self.slots += 1;
                        self.slots as u32 - 1
                    });
                    open.push(entry);
                }
                self.at.push(At::default());
                self.events.push(Event { entry, is_return: false });
                begun += 1;
            } else if let Some(&(_, entry)) = next {
                let start = self.open.len() as u32;
                self.open.extend_from_slice(&open);
                self.at.push(At { start, end: self.open.len() as u32, optional });
                self.events.push(Event { entry, is_return: true });
                open.retain(|&other| other != entry);
                free.push(self.slot[entry as usize]);
                ended += 1;
            }
        }
    }

    /// The calls that are not optional and open when the event, a return, takes place.
    pub(crate) fn open(&self, event: u32) -> &[u32] {
        let at = self.at[event as usize];
        &self.open[at.start as usize..at.end as usize]
    }

    /// The optional calls invoked before the event, a return.
    pub(crate) fn optional(&self, event: u32) -> &[u32] {
        &self.optional[..self.at[event as usize].optional as usize]
    }
}

/// How many calls that are not optional are open at a return, summed over all returns.
fn open_in_all(entries: &[Entry], returns: &[(u32, u32)]) -> usize {
    let (mut begun, mut open, mut sum) = (0, 0, 0);
    for &(time, _) in returns {
        while let Some(entry) = entries.get(begun).filter(|entry| entry.inv < time) {
            open += usize::from(!entry.is_optional());
            begun += 1;
        }
        sum += open;
        open -= 1;
    }
    sum
}
