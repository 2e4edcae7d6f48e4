//! The zone algorithm: registers whose values are written once need no search.
//!
//! After Gibbons & Korach, "Testing shared memories" (SIAM J. Comput. 1997), extended to cas, failed
//! cas and calls that may or may not have happened. The lemmas named here are in `PROOFS.md`.
//! Cost: a sort of the values that someone saw after they were written, else linear.

use super::{Compact, F, RegisterCall};
use crate::linearizable::NEVER;
use crate::linearizable::memory::Reservation;
use crate::linearizable::planted::{Bug, planted};
use crate::{Budget, Exhausted};

/// No call, no value.
const NONE: u32 = u32::MAX;

/// What the zones say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    Linearizable,
    /// Calls that cannot be ordered.
    Violation(Violation),
    /// Some value that matters may have been written twice, or a failed cas is in doubt.
    Undecided,
}

/// Why there is no order. Numbers are calls, by their index in [`Compact::calls`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Violation {
    /// `observer` saw a value that nobody can have written.
    Unwritten { observer: u32 },
    /// `observer` had returned before `writer`, the only one of its value, was invoked.
    Future { observer: u32, writer: u32 },
    /// Both changed the same value, which was current only once, to another.
    Fork { first: u32, second: u32 },
    /// A chain of cas that begins with its own end; the value it goes through.
    Cycle { value: u32 },
    /// `later` belongs to a value that came after that of `earlier` in a chain of cas, but returned
    /// before `earlier` was invoked.
    Backwards { earlier: u32, later: u32 },
    /// Each of two chains, by their first values, would have to come wholly before the other.
    Overlap { one: u32, other: u32 },
}

/// What is known of each value of one register.
pub(crate) struct Values(Vec<Known>);

/// What is known of a value.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// The only call that can have written it.
    writer: u32,
    /// The value that a cas put in its place.
    next: u32,
    /// The first return and the last invocation of its writer and readers.
    first: u32,
    last: u32,
    /// Some call is its writer or a reader; so is the value in the beginning.
    present: bool,
    /// A cas put it in the place of another value.
    follows: bool,
    /// A call that happened, or must have, observed it.
    needed: bool,
    /// Besides its writer another call, that may not have happened, can have written it.
    contested: bool,
}

impl Known {
    /// Whether it is the first value of a chain.
    const fn is_head(&self) -> bool {
        self.present && !self.follows
    }
}

const UNKNOWN: Known = Known {
    writer: NONE,
    next: NONE,
    first: NEVER,
    last: 0,
    present: false,
    follows: false,
    needed: false,
    contested: false,
};

/// The time in which a chain must, or may, be current: see lemma Z3.
#[derive(Debug, Clone, Copy)]
struct Span {
    first: u32,
    last: u32,
    head: u32,
}

/// Bytes for each value and each call: [`Values`], and what is gathered on the way.
const BYTES_PER_VALUE: usize =
    size_of::<Known>() + (2 + TIMES_PER_SPAN) * size_of::<u32>() + 3 * size_of::<Span>();
const BYTES_PER_CALL: usize = size_of::<u32>();

/// Judges the calls on one register.
pub(crate) fn zone(register: &Compact, budget: &Budget) -> Result<Zone, Exhausted> {
    let mut memory = Reservation::new(budget);
    let values = BYTES_PER_VALUE * register.values as usize;
    memory.hold((values + BYTES_PER_CALL * register.calls.len()) as u64)?;
    budget.check()?;
    let Some(mut values) = Values::assign(register) else { return Ok(Zone::Undecided) };
    budget.check()?;
    if let Err(violation) = values.cluster(register) {
        return Ok(Zone::Violation(violation));
    }
    budget.check()?;
    let chains = match values.chains(register) {
        Ok(chains) => chains,
        Err(violation) => return Ok(Zone::Violation(violation)),
    };
    budget.check()?;
    Ok(match check_spans(&chains) {
        Err(violation) => Zone::Violation(violation),
        Ok(()) if values.discharges_misses(register, &chains) => Zone::Linearizable,
        Ok(()) => Zone::Undecided,
    })
}

/// In the order of the first returns, which are all different.
fn by_first(mut spans: Vec<Span>) -> Vec<Span> {
    let times = spans.iter().map(|span| span.first);
    let (low, high) = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
    // Where times are close to each other, a table of them beats sorting.
    if (high - low) as usize > TIMES_PER_SPAN * spans.len() {
        spans.sort_unstable_by_key(|span| span.first);
        return spans;
    }
    let mut at_time = vec![NONE; (high - low) as usize + 1];
    for (at, span) in (0..).zip(&spans) {
        at_time[(span.first - low) as usize] = at;
    }
    at_time.into_iter().filter(|at| *at != NONE).map(|at| spans[at as usize]).collect()
}

/// How long a table of times may be.
const TIMES_PER_SPAN: usize = 8;

/// Lemma Z4: forward chains are disjoint, and no backward chain lies inside a forward one.
fn check_spans(chains: &[Span]) -> Result<(), Violation> {
    let forward = by_first(chains.iter().copied().filter(|span| span.first < span.last).collect());
    for pair in forward.windows(2) {
        if pair[1].first < pair[0].last && !planted(Bug::ForwardOverlapIgnored) {
            return Err(Violation::Overlap { one: pair[0].head, other: pair[1].head });
        }
    }
    let mut before = 0;
    for span in chains.iter().filter(|span| span.first >= span.last) {
        // Chains come more or less in the order of time: mostly the place is that of the one before.
        let is_before = |at: usize| forward.get(at).is_some_and(|f| f.first < span.last);
        if is_before(before) || before > 0 && !is_before(before - 1) {
            before = forward.partition_point(|f| f.first < span.last);
        }
        if let Some(around) = before.checked_sub(1).map(|at| forward[at])
            && span.first < around.last
            && !planted(Bug::BackwardInsideIgnored)
        {
            return Err(Violation::Overlap { one: around.head, other: span.head });
        }
    }
    Ok(())
}

impl Values {
    /// Finds the one writer of every value that matters, by lemma Z1: an optional call matters only
    /// if a call that happened needs its value, directly or through other optional calls.
    /// `None` if a value that matters may have been written twice.
    pub(crate) fn assign(register: &Compact) -> Option<Self> {
        let calls = &register.calls;
        let mut values = vec![UNKNOWN; register.values as usize];
        // What optional calls may have written.
        let mut doubtful = Vec::new();
        for (index, call) in (0..).zip(calls) {
            if let Some(v) = call.product() {
                let known = &mut values[v as usize];
                if call.is_optional() {
                    doubtful.push(v);
                }
                if known.writer == NONE {
                    known.writer = index;
                } else if call.is_optional() {
                    known.contested = true;
                } else if calls[known.writer as usize].is_optional() {
                    known.writer = index;
                    known.contested = true;
                } else {
                    return None;
                }
            }
            if let (false, Some(v)) = (call.is_optional(), call.observed()) {
                values[v as usize].needed = true;
            }
        }
        let is_optional = |writer: u32| writer != NONE && calls[writer as usize].is_optional();
        if values.first().is_some_and(|nil| nil.writer != NONE && !is_optional(nil.writer)) {
            return None;
        }
        let needed = |v: &u32| values[*v as usize].needed;
        let mut pending: Vec<u32> = doubtful.iter().copied().filter(needed).collect();
        while let Some(v) = pending.pop() {
            let known = values[v as usize];
            if !known.contested && !is_optional(known.writer) || planted(Bug::NoOptionalCounts) {
                continue;
            }
            if known.contested || v == 0 {
                if planted(Bug::SecondWriterIgnored) {
                    continue;
                }
                return None;
            }
            if let Some(u) = calls[known.writer as usize].observed()
                && !values[u as usize].needed
                && !planted(Bug::NoClosure)
            {
                values[u as usize].needed = true;
                pending.push(u);
            }
        }
        for v in doubtful {
            let known = &mut values[v as usize];
            let counts = known.needed && !known.contested && v != 0;
            if is_optional(known.writer) && (!counts || planted(Bug::NoOptionalCounts)) {
                known.writer = NONE;
            }
        }
        Some(Self(values))
    }

    /// The only call that can have written a value, if it is known to have happened.
    pub(crate) fn writer(&self, value: u32) -> u32 {
        self.0[value as usize].writer
    }

    /// The value that a cas put in the place of another one.
    pub(crate) fn next(&self, value: u32) -> u32 {
        self.0[value as usize].next
    }

    /// Whether a call took part: it happened, or must have.
    pub(crate) fn counts(&self, index: u32, call: &RegisterCall) -> bool {
        !call.is_optional() || call.product().is_some_and(|v| self.writer(v) == index)
    }

    /// Links values by cas as far as that goes: what a proof needs to follow chains.
    pub(crate) fn link(&mut self, register: &Compact) {
        for (index, call) in (0..).zip(&register.calls) {
            if call.f == F::Cas && self.counts(index, call) && self.next(call.a) == NONE {
                self.0[call.a as usize].next = call.b;
            }
        }
    }

    /// Gathers each value's writer and readers, and links values by cas (lemma Z2).
    fn cluster(&mut self, register: &Compact) -> Result<(), Violation> {
        self.0[0].present = true;
        self.0[0].first = 0;
        for (index, call) in (0..).zip(&register.calls) {
            if call.f == F::Miss || !self.counts(index, call) {
                continue;
            }
            if let Some(u) = call.observed()
                && u != 0
            {
                let writer = self.writer(u);
                if writer == NONE {
                    return Err(Violation::Unwritten { observer: index });
                }
                let future = register.calls[writer as usize].inv > call.ret;
                if future && !planted(Bug::FutureIgnored) {
                    return Err(Violation::Future { observer: index, writer });
                }
            }
            if call.f == F::Cas {
                let (u, v) = (call.a, call.b);
                if self.next(u) != NONE {
                    let first = self.writer(self.next(u));
                    return Err(Violation::Fork { first, second: index });
                }
                self.0[u as usize].next = v;
                self.0[v as usize].follows = true;
            }
            let known = &mut self.0[call.product().unwrap_or(call.a) as usize];
            known.present = true;
            known.first = known.first.min(call.ret);
            if !(call.f == F::Read && planted(Bug::ReadsOutsideZones)) {
                known.last = known.last.max(call.inv);
            }
        }
        Ok(())
    }

    /// Follows the chains of cas and checks the order inside each (lemma Z2).
    fn chains(&self, register: &Compact) -> Result<Vec<Span>, Violation> {
        let mut chains = Vec::new();
        let (mut present, mut seen) = (0, 0);
        for (head, known) in (0..).zip(&self.0) {
            present += usize::from(known.present);
            if !known.is_head() {
                continue;
            }
            let mut span = Span { first: NEVER, last: 0, head };
            let mut value = head;
            while value != NONE {
                let known = &self.0[value as usize];
                seen += 1;
                if known.first < span.last && !planted(Bug::ChainOrderIgnored) {
                    let earlier = call_where(register, |call| call.inv == span.last);
                    let later = call_where(register, |call| call.ret == known.first);
                    return Err(Violation::Backwards { earlier, later });
                }
                span.first = span.first.min(known.first);
                span.last = span.last.max(known.last);
                value = known.next;
            }
            chains.push(span);
        }
        if seen == present {
            return Ok(chains);
        }
        Err(Violation::Cycle { value: self.on_a_cycle() })
    }

    /// A value on a cycle of cas, when chains from their heads do not cover all values.
    fn on_a_cycle(&self) -> u32 {
        let mut covered = vec![false; self.0.len()];
        for (head, known) in (0..).zip(&self.0) {
            let mut value = if known.is_head() { head } else { NONE };
            while value != NONE {
                covered[value as usize] = true;
                value = self.next(value);
            }
        }
        (0..)
            .zip(&self.0)
            .find(|(v, known)| known.present && !covered[*v])
            .map_or(0, |(v, _)| v as u32)
    }

    /// Lemma Z5: whether every failed cas can be placed whatever order is chosen for the rest.
    fn discharges_misses(&self, register: &Compact, chains: &[Span]) -> bool {
        let misses = register.calls.iter().any(|call| call.f == F::Miss);
        if !misses || planted(Bug::MissesIgnored) {
            return true;
        }
        let n = self.0.len();
        // Along chains: the latest time before which a value cannot have begun, and the earliest
        // after which it must have ended.
        let mut begun = vec![0; n];
        let mut ended = vec![NEVER; n];
        let mut chain = Vec::new();
        for span in chains {
            chain.clear();
            let mut value = span.head;
            let mut latest = 0;
            while value != NONE {
                let v = value as usize;
                let known = &self.0[v];
                if known.writer != NONE {
                    let writer = &register.calls[known.writer as usize];
                    let late = planted(Bug::BeginsTooLate) && !writer.is_optional();
                    latest = latest.max(if late { writer.ret } else { writer.inv });
                }
                begun[v] = latest;
                latest = latest.max(known.last);
                chain.push(v);
                value = known.next;
            }
            let mut earliest = NEVER;
            for &v in chain.iter().rev() {
                ended[v] = earliest;
                earliest = earliest.min(self.0[v].first);
            }
        }
        // The first return of a call that changes the value, among those invoked from here on.
        let mut change = vec![NEVER; register.calls.len() + 1];
        for (index, call) in register.calls.iter().enumerate().rev() {
            let ret = if call.product().is_some() { call.ret } else { NEVER };
            change[index] = change[index + 1].min(ret);
        }
        let mut current: Vec<(u32, u32, u32)> = (0..)
            .zip(&self.0)
            .filter(|(_, known)| known.present && known.first < known.last)
            .map(|(v, known)| (known.first, known.last, v))
            .collect();
        current.sort_unstable();
        register.calls.iter().filter(|call| call.f == F::Miss).all(|miss| {
            let u = miss.a as usize;
            let known = &self.0[u];
            if !known.present || miss.inv < begun[u] || ended[u] < miss.ret {
                return true;
            }
            let seen = if planted(Bug::EndsTooSoon) { 0 } else { known.first };
            let after = register.calls.partition_point(|call| call.inv <= seen);
            if change[after] < miss.ret {
                return true;
            }
            let from = current.partition_point(|span| span.1 <= miss.inv);
            current[from..]
                .iter()
                .take_while(|span| span.0 < miss.ret)
                .take(2)
                .any(|span| span.2 != miss.a)
        })
    }
}

/// The call of which something holds.
fn call_where(register: &Compact, holds: impl Fn(&RegisterCall) -> bool) -> u32 {
    register.calls.iter().position(holds).map_or(NONE, |at| at as u32)
}
