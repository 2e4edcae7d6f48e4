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

/// The tables of one register: what is known of each value.
pub(crate) struct Values {
    /// The only call that can have written it.
    pub(crate) writer: Vec<u32>,
    /// An observer because of which its optional writer must have happened.
    pub(crate) witness: Vec<u32>,
    /// The value that a cas put in its place.
    pub(crate) next: Vec<u32>,
    /// The value in whose place a cas put it.
    pub(crate) previous: Vec<u32>,
    /// The first return and the last invocation of its writer and readers.
    first: Vec<Bound>,
    last: Vec<Bound>,
    present: Vec<bool>,
}

/// A time and the call it comes from.
#[derive(Debug, Clone, Copy)]
struct Bound {
    time: u32,
    call: u32,
}

/// The time in which a chain must, or may, be current: see lemma Z3.
#[derive(Debug, Clone, Copy)]
struct Span {
    first: u32,
    last: u32,
    head: u32,
}

/// Bytes for each value and each call: [`Values`], and what is gathered on the way.
const BYTES_PER_VALUE: usize =
    (7 + TIMES_PER_SPAN) * size_of::<u32>() + 2 * size_of::<Bound>() + 3 * size_of::<Span>();
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
    let chains = match values.chains() {
        Ok(chains) => chains,
        Err(violation) => return Ok(Zone::Violation(violation)),
    };
    budget.check()?;
    Ok(match values.check_spans(&chains) {
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

impl Values {
    /// Finds the one writer of every value that matters, by lemma Z1: an optional call matters only
    /// if a call that happened needs its value, directly or through other optional calls.
    /// `None` if a value that matters may have been written twice.
    pub(crate) fn assign(register: &Compact) -> Option<Self> {
        let n = register.values as usize;
        let mut writer = vec![NONE; n];
        let mut optional = vec![NONE; n];
        let mut twice = vec![false; n];
        let mut witness = vec![NONE; n];
        let mut stack = Vec::new();
        for (index, call) in register.calls.iter().enumerate() {
            if let Some(v) = call.product() {
                let writers = if call.is_optional() { &mut optional } else { &mut writer };
                if writers[v as usize] == NONE {
                    writers[v as usize] = index as u32;
                } else if call.is_optional() {
                    twice[v as usize] = true;
                } else {
                    return None;
                }
            }
            if let (false, Some(v)) = (call.is_optional(), call.observed())
                && witness[v as usize] == NONE
            {
                witness[v as usize] = index as u32;
                stack.push(v);
            }
        }
        if writer.first().is_some_and(|w| *w != NONE) {
            return None;
        }
        while let Some(v) = stack.pop() {
            let v = v as usize;
            if optional[v] == NONE || planted(Bug::NoOptionalCounts) {
                continue;
            }
            if writer[v] != NONE || twice[v] || v == 0 {
                if planted(Bug::SecondWriterIgnored) {
                    continue;
                }
                return None;
            }
            writer[v] = optional[v];
            let call = &register.calls[optional[v] as usize];
            if let Some(u) = call.observed()
                && witness[u as usize] == NONE
                && !planted(Bug::NoClosure)
            {
                witness[u as usize] = optional[v];
                stack.push(u);
            }
        }
        Some(Self {
            writer,
            witness,
            next: vec![NONE; n],
            previous: vec![NONE; n],
            first: vec![Bound { time: NEVER, call: NONE }; n],
            last: vec![Bound { time: 0, call: NONE }; n],
            present: vec![false; n],
        })
    }

    /// Whether a call took part: it happened, or must have.
    pub(crate) fn counts(&self, index: u32, call: &RegisterCall) -> bool {
        !call.is_optional() || call.product().is_some_and(|v| self.writer[v as usize] == index)
    }

    /// Links values by cas as far as that goes: what a proof needs to follow chains.
    pub(crate) fn link(&mut self, register: &Compact) {
        for (index, call) in register.calls.iter().enumerate() {
            if call.f == F::Cas
                && self.counts(index as u32, call)
                && self.next[call.a as usize] == NONE
            {
                self.next[call.a as usize] = call.b;
                self.previous[call.b as usize] = call.a;
            }
        }
    }

    /// Gathers each value's writer and readers, and links values by cas (lemma Z2).
    fn cluster(&mut self, register: &Compact) -> Result<(), Violation> {
        self.present[0] = true;
        self.first[0].time = 0;
        for (index, call) in register.calls.iter().enumerate() {
            let index = index as u32;
            if call.f == F::Miss || !self.counts(index, call) {
                continue;
            }
            if let Some(u) = call.observed()
                && u != 0
            {
                let writer = self.writer[u as usize];
                if writer == NONE {
                    return Err(Violation::Unwritten { observer: index });
                }
                let future = register.calls[writer as usize].inv > call.ret;
                if future && !planted(Bug::FutureIgnored) {
                    return Err(Violation::Future { observer: index, writer });
                }
            }
            if call.f == F::Cas {
                let (u, v) = (call.a as usize, call.b as usize);
                if self.next[u] != NONE {
                    let first = self.writer[self.next[u] as usize];
                    return Err(Violation::Fork { first, second: index });
                }
                self.next[u] = call.b;
                self.previous[v] = call.a;
            }
            let v = call.product().unwrap_or(call.a) as usize;
            self.present[v] = true;
            if call.ret < self.first[v].time || self.first[v].call == NONE && v != 0 {
                self.first[v] = Bound { time: call.ret, call: index };
            }
            if call.inv > self.last[v].time
                && !(call.f == F::Read && planted(Bug::ReadsOutsideZones))
            {
                self.last[v] = Bound { time: call.inv, call: index };
            }
        }
        Ok(())
    }

    /// Follows the chains of cas and checks the order inside each (lemma Z2).
    fn chains(&self) -> Result<Vec<Span>, Violation> {
        let mut chains = Vec::new();
        let mut seen = 0;
        for head in 0..self.present.len() as u32 {
            if !self.present[head as usize] || self.previous[head as usize] != NONE {
                continue;
            }
            let mut span = Span { first: NEVER, last: 0, head };
            let mut latest = Bound { time: 0, call: NONE };
            let mut value = head;
            while value != NONE {
                let v = value as usize;
                seen += 1;
                let backwards = self.first[v].time < latest.time;
                if backwards && !planted(Bug::ChainOrderIgnored) {
                    let (earlier, later) = (latest.call, self.first[v].call);
                    return Err(Violation::Backwards { earlier, later });
                }
                if self.last[v].time > latest.time {
                    latest = self.last[v];
                }
                span.first = span.first.min(self.first[v].time);
                span.last = span.last.max(self.last[v].time);
                value = self.next[v];
            }
            chains.push(span);
        }
        if seen == self.present.iter().filter(|present| **present).count() {
            return Ok(chains);
        }
        Err(Violation::Cycle { value: self.on_a_cycle() })
    }

    /// A value on a cycle of cas, when chains from their heads do not cover all values.
    fn on_a_cycle(&self) -> u32 {
        let mut covered = vec![false; self.present.len()];
        for head in 0..self.present.len() as u32 {
            let mut value = head;
            if self.present[head as usize] && self.previous[head as usize] == NONE {
                while value != NONE {
                    covered[value as usize] = true;
                    value = self.next[value as usize];
                }
            }
        }
        (0..covered.len()).find(|&v| self.present[v] && !covered[v]).map_or(0, |v| v as u32)
    }

    /// Lemma Z4: forward chains are disjoint, and no backward chain lies inside a forward one.
    fn check_spans(&self, chains: &[Span]) -> Result<(), Violation> {
        let forward =
            by_first(chains.iter().copied().filter(|span| span.first < span.last).collect());
        for pair in forward.windows(2) {
            if pair[1].first < pair[0].last && !planted(Bug::ForwardOverlapIgnored) {
                return Err(Violation::Overlap { one: pair[0].head, other: pair[1].head });
            }
        }
        for span in chains.iter().filter(|span| span.first >= span.last) {
            let before = forward.partition_point(|f| f.first < span.last);
            if let Some(around) = before.checked_sub(1).map(|at| forward[at])
                && span.first < around.last
                && !planted(Bug::BackwardInsideIgnored)
            {
                return Err(Violation::Overlap { one: around.head, other: span.head });
            }
        }
        Ok(())
    }

    /// Lemma Z5: whether every failed cas can be placed whatever order is chosen for the rest.
    fn discharges_misses(&self, register: &Compact, chains: &[Span]) -> bool {
        let misses = register.calls.iter().any(|call| call.f == F::Miss);
        if !misses || planted(Bug::MissesIgnored) {
            return true;
        }
        let n = self.present.len();
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
                if self.writer[v] != NONE {
                    let writer = &register.calls[self.writer[v] as usize];
                    let late = planted(Bug::BeginsTooLate) && !writer.is_optional();
                    latest = latest.max(if late { writer.ret } else { writer.inv });
                }
                begun[v] = latest;
                latest = latest.max(self.last[v].time);
                chain.push(v);
                value = self.next[v];
            }
            let mut earliest = NEVER;
            for &v in chain.iter().rev() {
                ended[v] = earliest;
                earliest = earliest.min(self.first[v].time);
            }
        }
        // The first return of a call that changes the value, among those invoked from here on.
        let mut change = vec![NEVER; register.calls.len() + 1];
        for (index, call) in register.calls.iter().enumerate().rev() {
            let ret = if call.product().is_some() { call.ret } else { NEVER };
            change[index] = change[index + 1].min(ret);
        }
        let mut current: Vec<(u32, u32, u32)> = (0..n)
            .filter(|&v| self.present[v] && self.first[v].time < self.last[v].time)
            .map(|v| (self.first[v].time, self.last[v].time, v as u32))
            .collect();
        current.sort_unstable();
        register.calls.iter().filter(|call| call.f == F::Miss).all(|miss| {
            let u = miss.a as usize;
            if !self.present[u] || miss.inv < begun[u] || ended[u] < miss.ret {
                return true;
            }
            let seen = self.first[u].time;
            let seen = if planted(Bug::EndsTooSoon) { 0 } else { seen };
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
