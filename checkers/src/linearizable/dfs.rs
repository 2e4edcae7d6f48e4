//! Just-in-time depth-first search for a legal order (Lowe 2017), with the rules that keep it small.
//!
//! A configuration is an event, the set of open calls that have already taken effect, and a state.
//!
//! - R1: a call takes effect only when some return cannot wait any longer.
//! - R2: pure calls take effect the moment the state allows, without branching.
//! - R3: a state is never left while a call that needs it remains and none that leads to it does.
//! - R3b: neither is a state entered that rules out one of the next calls that only look.
//! - R4: of calls that do the same, the one that must return first goes first, optional ones last.
//! - R6: a configuration that used more optional calls than another one, and is otherwise the same,
//!   can do nothing that the other cannot.

use std::sync::atomic::{AtomicBool, Ordering};

use super::NEVER;
use super::automaton::{Automaton, Entry, REFUSED};
use super::mask::Mask;
use super::memory::Reservation;
use super::planted::{Bug, planted};
use super::timeline::Timeline;
use super::visited::{Head, Key, Lists, Visited};
use crate::{Budget, Exhausted};

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// There is a legal order.
    Legal,
    /// There is none. Holds the time of the furthest return that could not be reached.
    Illegal {
        /// A hint where to look.
        reached: u32,
    },
    /// It gave up.
    GaveUp {
        /// Everything before this time has a legal order.
        reached: u32,
        /// Why.
        why: GaveUp,
    },
}

/// Why a search gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GaveUp {
    /// The budget of the whole check.
    #[error(transparent)]
    Budget(Exhausted),
    /// The nodes it was given.
    #[error("the search was cut short")]
    Nodes,
    /// Somebody else was faster.
    #[error("the search was cut short")]
    Cancelled,
    /// More calls were open at once than it can hold.
    #[error("{0} calls were open at once")]
    TooManyOpen(usize),
}

/// A result and what it took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Searched {
    pub(crate) found: Found,
    pub(crate) nodes: u64,
}

/// Limits of one search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits<'a> {
    pub(crate) budget: &'a Budget,
    /// Configurations it may visit.
    pub(crate) nodes_max: u64,
    /// Set when the answer is not needed any more.
    pub(crate) cancelled: Option<&'a AtomicBool>,
}

/// How many calls that only look, and have not been invoked yet, a new state is held against.
const LOOK_AHEAD: usize = 4;

/// Frames that there is room for from the beginning.
const FRAMES_MIN: usize = 16;

/// How much work is done between looks at the clock: some tens of microseconds.
const WORK_PER_LOOK: usize = 1 << 12;

/// Sees to it that a search keeps its limits.
pub(crate) struct Pace<'a> {
    limits: Limits<'a>,
    /// Since the last look at the clock.
    work: usize,
}

impl<'a> Pace<'a> {
    pub(crate) const fn new(limits: Limits<'a>) -> Self {
        Self { limits, work: 0 }
    }

    /// Errs if a search that has visited `nodes` configurations must stop.
    #[inline]
    pub(crate) const fn visit(&self, nodes: u64) -> Result<(), GaveUp> {
        if nodes > self.limits.nodes_max { Err(GaveUp::Nodes) } else { Ok(()) }
    }

    /// Counts some work, in units of a few nanoseconds. True if it is time to [look](Self::look).
    #[inline]
    pub(crate) const fn work(&mut self, work: usize) -> bool {
        self.work += work;
        self.work >= WORK_PER_LOOK
    }

    /// Errs if the time is up or the answer is not needed any more.
    #[cold]
    pub(crate) fn look(&mut self) -> Result<(), GaveUp> {
        self.work = 0;
        if self.limits.cancelled.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(GaveUp::Cancelled);
        }
        self.limits.budget.check().map_err(GaveUp::Budget)
    }
}

/// Searches for a legal order of entries, which are in the order of their invocations.
pub(crate) fn search<A: Automaton>(
    automaton: &mut A,
    entries: &[Entry],
    limits: Limits<'_>,
) -> Searched {
    let timeline = match Timeline::new(entries, |kind| automaton.likeness(kind), limits.budget) {
        Ok(timeline) => timeline,
        Err(exhausted) => {
            let found = Found::GaveUp { reached: 0, why: GaveUp::Budget(exhausted) };
            return Searched { found, nodes: 0 };
        }
    };
    match timeline.slots {
        0..=64 => Search::<A, 1>::new(automaton, entries, &timeline, limits).run(),
        65..=128 => Search::<A, 2>::new(automaton, entries, &timeline, limits).run(),
        129..=512 => Search::<A, 8>::new(automaton, entries, &timeline, limits).run(),
        513..=8192 => Search::<A, 128>::new(automaton, entries, &timeline, limits).run(),
        slots => Searched {
            found: Found::GaveUp { reached: 0, why: GaveUp::TooManyOpen(slots) },
            nodes: 0,
        },
    }
}

struct Search<'a, A, const N: usize> {
    automaton: &'a mut A,
    entries: &'a [Entry],
    timeline: &'a Timeline<'a>,
    pace: Pace<'a>,
    /// The entries that only look, in the order of their invocations, if states can be ruled out.
    lookers: Vec<u32>,
    ahead: Ahead,
    memo: Memo<'a, N>,
    /// Of all but the memo.
    memory: Reservation<'a>,
    /// The slots of optional calls.
    optional: Mask<N>,
}

/// A configuration and which of its continuations comes next.
struct Frame<const N: usize> {
    event: u32,
    state: u32,
    next: u32,
    /// How many calls had taken effect.
    taken: u32,
    mask: Mask<N>,
}

impl<'a, A: Automaton, const N: usize> Search<'a, A, N> {
    fn new(
        automaton: &'a mut A,
        entries: &'a [Entry],
        timeline: &'a Timeline<'a>,
        limits: Limits<'a>,
    ) -> Self {
        let ahead = Ahead::new(automaton, entries);
        let lookers = if ahead.further > 0 {
            (0..entries.len() as u32).filter(|at| ahead.of[*at as usize].pure).collect()
        } else {
            Vec::new()
        };
        let optional = Mask::first(timeline.optional.len());
        let budget = limits.budget;
        let memo = if timeline.optional.is_empty() {
            Memo::Exact(Visited::new(budget))
        } else {
            Memo::Antichain { used: Visited::new(budget), sets: Lists::new(budget) }
        };
        let memory = Reservation::new(budget);
        let pace = Pace::new(limits);
        Self { automaton, entries, timeline, pace, lookers, ahead, memo, memory, optional }
    }

    fn run(mut self) -> Searched {
        let mut nodes = 0;
        let mut reached = 0;
        let found = match self.explore(&mut nodes, &mut reached) {
            Ok(found) => found,
            Err(why) => Found::GaveUp { reached: self.time(reached), why },
        };
        Searched { found, nodes }
    }

    fn explore(&mut self, nodes: &mut u64, reached: &mut u32) -> Result<Found, GaveUp> {
        self.hold(0).map_err(GaveUp::Budget)?;
        let end = self.timeline.events.len() as u32;
        let start = self.automaton.start();
        let (event, mask) = self.advance(0, Mask::EMPTY, start);
        *reached = event;
        if event == end {
            return Ok(Found::Legal);
        }
        self.remember(event, start, mask)?;
        let taken = self.ahead.taken.len() as u32;
        let mut stack = Vec::with_capacity(FRAMES_MIN);
        stack.push(Frame { event, state: start, next: 0, taken, mask });
        while let Some(frame) = stack.last_mut() {
            self.ahead.undo(frame.taken as usize);
            let tried = frame.next;
            let candidate = self.candidate(frame);
            let (tried, open) = (frame.next - tried, self.timeline.open(frame.event).len());
            if self.pace.work(tried as usize * (open + 1) + 4 * N) {
                self.pace.look()?;
                self.hold(stack.capacity()).map_err(GaveUp::Budget)?;
            }
            let (Some(frame), Some(entry)) = (stack.last(), candidate) else {
                stack.pop();
                continue;
            };
            let (event, state, mut mask) = (frame.event, frame.state, frame.mask);
            let taken = frame.taken as usize;
            let kind = self.entries[entry as usize].kind;
            let next = self.automaton.step(state, kind);
            if next == REFUSED || !self.is_worth_it(entry, state, next) {
                continue;
            }
            self.take(entry, &mut mask);
            self.take_pure(event, next, &mut mask);
            let (event, mask) = self.advance(event, mask, next);
            if event == end {
                return Ok(Found::Legal);
            }
            if state != next && self.is_dead_end(event, next, &mask) {
                self.ahead.undo(taken);
                continue;
            }
            *reached = (*reached).max(event);
            if self.remember(event, next, mask)? {
                *nodes += 1;
                self.pace.visit(*nodes)?;
                let taken = self.ahead.taken.len() as u32;
                stack.push(Frame { event, state: next, next: 0, taken, mask });
            }
        }
        Ok(Found::Illegal { reached: self.time(*reached) })
    }

    /// The time of an event.
    fn time(&self, event: u32) -> u32 {
        self.timeline.events.get(event as usize).map_or(NEVER, |event| {
            let entry = &self.entries[event.entry as usize];
            if event.is_return { entry.ret } else { entry.inv }
        })
    }

    /// The next call that could take effect now: the one that must return, then the others that
    /// are open, then optional ones.
    fn candidate(&self, frame: &mut Frame<N>) -> Option<u32> {
        let timeline = self.timeline;
        let returning = timeline.events[frame.event as usize].entry;
        let open = timeline.open(frame.event);
        let optional = timeline.optional(frame.event);
        loop {
            let at = frame.next as usize;
            frame.next += 1;
            if at == 0 {
                return Some(returning);
            } else if let Some(&entry) = open.get(at - 1) {
                let taken = frame.mask.has(timeline.slot[entry as usize]);
                if entry != returning && !taken && !self.has_earlier_twin(entry, open, &frame.mask)
                {
                    return Some(entry);
                }
            } else {
                let &entry = optional.get(at - 1 - open.len())?;
                if self.is_first_of_its_kind(entry, open, &frame.mask) {
                    return Some(entry);
                }
            }
        }
    }

    /// Whether an open call that does the same must return before `entry` (rule R4).
    fn has_earlier_twin(&self, entry: u32, open: &[u32], mask: &Mask<N>) -> bool {
        let this = &self.entries[entry as usize];
        open.iter().any(|&other| {
            let that = &self.entries[other as usize];
            that.ret < this.ret
                && (!mask.has(self.timeline.slot[other as usize]) || planted(Bug::TwinsForgotten))
                && self.timeline.same(entry, other)
        })
    }

    /// Whether an optional call is unused, and no other unused one does the same (rule R4).
    fn is_first_of_its_kind(&self, entry: u32, open: &[u32], mask: &Mask<N>) -> bool {
        let slot = self.timeline.slot[entry as usize];
        if mask.has(slot) {
            return false;
        }
        let twin = self.timeline.twin[slot as usize];
        (twin == NEVER || mask.has(twin)) && !self.has_earlier_twin(entry, open, mask)
    }

    /// Rule R3, and no optional call without a use.
    fn is_worth_it(&self, entry: u32, state: u32, next: u32) -> bool {
        let optional = self.entries[entry as usize].is_optional();
        if state == next {
            return !optional;
        }
        !(self.ahead.strands(entry, state) || optional && self.ahead.is_useless(next))
    }

    /// Rule R3b. Looks at the calls that are open and at those that come next.
    fn is_dead_end(&mut self, event: u32, state: u32, mask: &Mask<N>) -> bool {
        if self.lookers.is_empty() || !self.ahead.only_grows() {
            return false;
        }
        for &entry in self.timeline.open(event) {
            if self.ahead.of[entry as usize].pure
                && !mask.has(self.timeline.slot[entry as usize])
                && self.automaton.rules_out(state, self.entries[entry as usize].kind)
            {
                return true;
            }
        }
        let now = self.time(event);
        let next = self.lookers.partition_point(|entry| self.entries[*entry as usize].inv < now);
        let end = (next + LOOK_AHEAD).min(self.lookers.len());
        (next..end).any(|at| {
            let kind = self.entries[self.lookers[at] as usize].kind;
            self.automaton.rules_out(state, kind)
        })
    }

    fn take(&mut self, entry: u32, mask: &mut Mask<N>) {
        mask.set(self.timeline.slot[entry as usize]);
        self.ahead.take(entry);
    }

    /// Rule R2 for the calls that are open at a return.
    fn take_pure(&mut self, event: u32, state: u32, mask: &mut Mask<N>) {
        for &entry in self.timeline.open(event) {
            if !mask.has(self.timeline.slot[entry as usize]) && self.only_looks(entry, state) {
                self.take(entry, mask);
            }
        }
    }

    /// Whether a call can take effect in `state` and never changes any.
    fn only_looks(&mut self, entry: u32, state: u32) -> bool {
        let Needs { pure, requires, .. } = self.ahead.of[entry as usize];
        if pure && requires != REFUSED {
            return requires == state;
        }
        (pure || planted(Bug::WritesLook))
            && self.automaton.step(state, self.entries[entry as usize].kind) == state
    }

    /// Goes on to the first return of a call that has not taken effect.
    fn advance(&mut self, mut event: u32, mut mask: Mask<N>, state: u32) -> (u32, Mask<N>) {
        while let Some(&at) = self.timeline.events.get(event as usize) {
            let slot = self.timeline.slot[at.entry as usize];
            if at.is_return {
                if !mask.has(slot) {
                    break;
                }
                mask.clear(slot);
            } else if self.only_looks(at.entry, state) {
                self.take(at.entry, &mut mask);
            }
            event += 1;
        }
        (event, mask)
    }

    /// Whether a configuration is new and worth looking at.
    fn remember(&mut self, event: u32, state: u32, mask: Mask<N>) -> Result<bool, GaveUp> {
        self.memo.insert(Spot { event, state, mask }, &self.optional).map_err(GaveUp::Budget)
    }

    /// Takes the memory of what has grown since the last look at the clock.
    fn hold(&mut self, frames: usize) -> Result<(), Exhausted> {
        let calls = self.entries.len();
        let ahead = calls * size_of::<Needs>() + self.ahead.states.len() * size_of::<Counts>();
        let lists = (self.ahead.taken.capacity() + self.lookers.len()) * size_of::<u32>();
        let own = frames * size_of::<Frame<N>>() + ahead + lists;
        self.memory.hold(own as u64 + self.automaton.bytes())
    }
}

/// What is still to come for each state: how many calls need it, how many lead to it.
struct Ahead {
    /// Of each entry.
    of: Vec<Needs>,
    states: Vec<Counts>,
    /// Calls that lead to one state, whichever it is.
    anchored: u32,
    /// Calls that only ever lead further.
    further: u32,
    /// Calls that may lead anywhere.
    anywhere: u32,
    /// Whether every call is exact, so that the counts tell everything.
    exact: bool,
    /// Calls that took effect, in order.
    taken: Vec<u32>,
}

/// What is still to come for one state.
#[derive(Clone, Copy, Default)]
struct Counts {
    /// Calls that need it, and have happened.
    needed: u32,
    /// Optional calls that need it.
    wanted: u32,
    /// Calls that lead to it.
    reachable: u32,
}

/// What an entry has to do with states, [`REFUSED`] for none.
#[derive(Clone, Copy)]
struct Needs {
    requires: u32,
    leads_to: u32,
    optional: bool,
    pure: bool,
    further: bool,
    anywhere: bool,
}

impl Ahead {
    fn new<A: Automaton>(automaton: &A, entries: &[Entry]) -> Self {
        let mut ahead = Self {
            of: Vec::with_capacity(entries.len()),
            states: vec![Counts::default(); automaton.known_states()],
            anchored: 0,
            further: 0,
            anywhere: 0,
            exact: true,
            taken: Vec::with_capacity(entries.len()),
        };
        for (at, entry) in entries.iter().enumerate() {
            let traits = automaton.traits(entry.kind);
            ahead.exact &= traits.exact;
            ahead.of.push(Needs {
                requires: traits.requires.unwrap_or(REFUSED),
                leads_to: traits.leads_to.unwrap_or(REFUSED),
                optional: entry.is_optional(),
                pure: traits.pure,
                further: traits.further,
                anywhere: !traits.pure && !traits.further && traits.leads_to.is_none(),
            });
            ahead.count(at, 1);
        }
        ahead
    }

    fn count(&mut self, entry: usize, by: i32) {
        let needs = self.of[entry];
        let add = |count: &mut u32| *count = count.wrapping_add_signed(by);
        if needs.requires != REFUSED {
            let counts = &mut self.states[needs.requires as usize];
            add(if needs.optional { &mut counts.wanted } else { &mut counts.needed });
        }
        if needs.leads_to != REFUSED {
            add(&mut self.states[needs.leads_to as usize].reachable);
            add(&mut self.anchored);
        }
        if needs.further {
            add(&mut self.further);
        }
        if needs.anywhere {
            add(&mut self.anywhere);
        }
    }

    fn take(&mut self, entry: u32) {
        self.taken.push(entry);
        self.count(entry as usize, -1);
    }

    fn undo(&mut self, len: usize) {
        while self.taken.len() > len {
            if let Some(entry) = self.taken.pop() {
                self.count(entry as usize, 1);
            }
        }
    }

    /// Whether `entry` leaves `state` for good while somebody still needs it.
    fn strands(&self, entry: u32, state: u32) -> bool {
        let Some(&Counts { needed, reachable, .. }) = self.states.get(state as usize) else {
            return false;
        };
        let needs = self.of[entry as usize];
        let own = u32::from(!needs.optional && needs.requires == state);
        let returns = reachable > 0
            || self.anywhere > 0
            || self.further > 0 && self.anchored > 0 && !planted(Bug::NothingStartsAnew);
        needed > own && (!returns || planted(Bug::NoWayBack))
    }

    /// Whether nothing remains that leads to a certain state, or anywhere.
    fn only_grows(&self) -> bool {
        self.anchored == 0 && self.anywhere == 0 || planted(Bug::RuledOutForEver)
    }

    /// Whether nobody has a use for a state.
    fn is_useless(&self, state: u32) -> bool {
        self.exact
            && self.states.get(state as usize).is_none_or(|counts| {
                let unwanted = counts.wanted == 0 || planted(Bug::OptionalCasForgotten);
                counts.needed == 0 && unwanted
            })
    }
}

/// A configuration.
#[derive(Clone, Copy, PartialEq)]
struct Spot<const N: usize> {
    /// [`NEVER`] if it is none.
    event: u32,
    state: u32,
    mask: Mask<N>,
}

impl<const N: usize> Key for Spot<N> {
    const FREE: Self = Self { event: NEVER, state: 0, mask: Mask::EMPTY };

    #[inline]
    fn is_free(&self) -> bool {
        self.event == NEVER
    }

    #[inline]
    fn hash(&self) -> u64 {
        self.mask.hash_with(self.event, self.state)
    }
}

/// Configurations that were visited.
enum Memo<'b, const N: usize> {
    /// Without optional calls: a set.
    Exact(Visited<'b, Spot<N>, ()>),
    /// With optional calls: for each event, state and set of other calls the smallest sets of
    /// optional calls used.
    Antichain { used: Visited<'b, Spot<N>, Head>, sets: Lists<'b, Mask<N>> },
}

impl<const N: usize> Memo<'_, N> {
    /// Whether a configuration is new, and no other one can do what it can with fewer of the
    /// `optional` slots used.
    fn insert(&mut self, spot: Spot<N>, optional: &Mask<N>) -> Result<bool, Exhausted> {
        match self {
            Self::Exact(spots) => {
                let state = if planted(Bug::StateForgotten) { 0 } else { spot.state };
                spots.entry(Spot { state, ..spot }).map(|(_, new)| new)
            }
            Self::Antichain { used, sets } => {
                let mask = spot.mask.without(optional);
                let (head, new) = used.entry(Spot { mask, ..spot })?;
                let set = spot.mask.and(optional);
                let reversed = planted(Bug::MoreIsBetter) && !new;
                if reversed || sets.iter(*head).any(|smaller| smaller.within(&set)) {
                    return Ok(false);
                }
                sets.retain(head, |larger| !set.within(larger));
                sets.push(head, set)?;
                Ok(true)
            }
        }
    }
}
