//! A register whose reads may have taken effect before they were invoked.
//!
//! A read that may lag is one whose interval begins earlier: the history is linearizable if reads may lag
//! by so much exactly if the one with wider reads is. Wider reads are under way by the dozen, which no
//! search likes, so the part of their intervals that they cannot make use of is cut off again. No witness
//! is looked for: that would cost more than the answer. The lemmas named here are in `PROOFS.md`.

use deposed_history::History;

use super::compact::F;
use super::{Compact, RegisterCall, Zone, compact, zone};
use crate::linearizable::dfs::{Found, GaveUp};
use crate::linearizable::judge::{Effort, search_register};
use crate::linearizable::memory::Reservation;
use crate::linearizable::model::Malformed;
use crate::linearizable::models::Register;
use crate::linearizable::planted::{Bug, planted};
use crate::{Budget, Exhausted};

/// The calls on one register, with their times.
pub(crate) struct Lagging<'b> {
    register: Compact,
    /// Of each call.
    spans: Vec<Span>,
    /// Of each value.
    writers: Vec<Writers>,
    _memory: Reservation<'b>,
}

/// When a call was under way, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Span {
    inv: u64,
    ret: u64,
    /// Whether it is a read, and may have begun earlier.
    lags: bool,
}

/// Who may have written a value.
#[derive(Debug, Clone, Copy)]
struct Writers {
    count: u32,
    /// When the first of them was invoked.
    inv: u64,
    /// When the last of them returned; never if one may still happen.
    ret: u64,
}

/// The smallest lag that explains a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Least {
    /// In nanoseconds.
    Lag(u64),
    /// There is none.
    None,
}

/// The search for it was given up: it is at least `low`, and `high` is enough if it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Between {
    pub(crate) low: u64,
    pub(crate) high: Option<u64>,
    pub(crate) why: GaveUp,
}

impl<'b> Lagging<'b> {
    /// Reads the calls of one register; `calls` are indices into the history's.
    pub(crate) fn new(
        history: &History,
        calls: &[u32],
        keyed: bool,
        budget: &'b Budget,
    ) -> Result<Result<Self, (u32, Malformed)>, Exhausted> {
        let mut memory = Reservation::new(budget);
        memory.hold((calls.len() * BYTES_PER_CALL) as u64)?;
        budget.check()?;
        let register = match compact(history, calls, keyed, Register { cas: true }) {
            Ok(register) => register,
            Err(malformed) => return Ok(Err(malformed)),
        };
        let read = history.symbol("read");
        let time = |position: u32| history.op(position).time();
        let span = |call: &RegisterCall| {
            let invoke = call.inv - 1;
            let ret = if call.is_optional() { u64::MAX } else { time(call.ret - 1) };
            let lags = call.f == F::Read
                && (Some(history.op(invoke).f_symbol()) == read || planted(Bug::AnythingLags));
            Span { inv: time(invoke), ret, lags }
        };
        let spans: Vec<Span> = register.calls.iter().map(span).collect();
        let nobody = Writers { count: 0, inv: u64::MAX, ret: 0 };
        let mut writers = vec![nobody; register.values as usize];
        for (call, span) in register.calls.iter().zip(&spans) {
            if let Some(value) = call.product() {
                let writers = &mut writers[value as usize];
                writers.count += 1;
                writers.inv = writers.inv.min(span.inv);
                if writers.count == 1 || !planted(Bug::OneWriterOfMany) {
                    writers.ret = writers.ret.max(span.ret);
                }
            }
        }
        Ok(Ok(Self { register, spans, writers, _memory: memory }))
    }

    /// The reads that may lag: what they saw, and when they were under way.
    fn reads(&self) -> impl Iterator<Item = (u32, Span)> {
        let calls = self.register.calls.iter().zip(&self.spans);
        calls.filter(|(_, span)| span.lags).map(|(call, span)| (call.a, *span))
    }

    /// How many reads there are.
    pub(crate) fn reads_count(&self) -> usize {
        self.reads().count()
    }

    /// How long each read that lagged began after its value was certainly gone, in nanoseconds. Only
    /// for values that one call can have written: of others it cannot be said which write was seen.
    pub(crate) fn certain_lags(&self) -> Vec<u64> {
        let changes = self.register.calls.iter().zip(&self.spans);
        let mut changes: Vec<Span> = changes
            .filter(|(call, _)| call.product().is_some() && !call.is_optional())
            .map(|(_, span)| *span)
            .collect();
        changes.sort_unstable_by_key(|span| span.inv);
        // The first return among those invoked from here on.
        let mut first = u64::MAX;
        for change in changes.iter_mut().rev() {
            first = first.min(change.ret);
            change.ret = first;
        }
        let lag = |(value, read): (u32, Span)| {
            let writers = self.writers[value as usize];
            let after = match (value, writers.count) {
                (0, 0) => 0,
                (0, _) | (_, 0 | 2..) => return None,
                (_, 1) => changes.partition_point(|change| change.inv <= writers.ret),
            };
            let gone = if planted(Bug::GoneWhenInvoked) {
                changes.get(after)?.inv
            } else {
                changes.get(after)?.ret
            };
            read.inv.checked_sub(gone).filter(|lag| *lag > 0)
        };
        self.reads().filter_map(lag).collect()
    }

    /// The smallest lag, in nanoseconds, with which the history is linearizable: by bisection (lemma L1), first
    /// of what the zones say, which needs no search but passes over failed cas (lemma L3), and from there on,
    /// in leaps, of the whole: then it is smallest to a thousandth.
    ///
    /// # Errors
    /// If the budget or the effort is not enough, with what is known nevertheless.
    pub(crate) fn least(&self, effort: Effort, budget: &Budget) -> Result<Least, Between> {
        let give_up = |low, high| move |why| Between { low, high, why };
        let zones = |lag| Ok(!matches!(self.zones(lag, budget)?.0, Zone::Violation(_)));
        // With this, every read could have taken effect before everything else.
        let most = self.reads().map(|(_, read)| read.inv).max().unwrap_or(0);
        if !zones(most).map_err(give_up(0, None))? {
            return Ok(Least::None);
        }
        let low = if zones(0).map_err(give_up(0, None))? {
            0
        } else {
            bisect(0, most, u64::MAX, zones).map_err(|at| Between { high: None, ..at })?
        };
        let whole = |lag| self.is_linearizable(lag, effort, budget);
        if planted(Bug::ZonesSuffice) || whole(low).map_err(give_up(low, None))? {
            return Ok(Least::Lag(low));
        }
        Self::leap(low, most, whole)
    }

    /// The smallest lag above `low`, which is not enough, and up to `most`. The more reads may lag, the more of
    /// them are under way at a time, so that a search for `most` may be out of reach where one that is
    /// a little above the answer is not: it is gone up in leaps, each twice as far as the one before.
    fn leap(
        mut low: u64,
        most: u64,
        whole: impl Fn(u64) -> Result<bool, GaveUp>,
    ) -> Result<Least, Between> {
        let mut leap = (most - low) / FIRST_LEAP + 1;
        while low < most {
            let high = low.saturating_add(leap).min(most);
            match whole(high) {
                Ok(true) if planted(Bug::LeapsSuffice) => return Ok(Least::Lag(high)),
                Ok(true) => return bisect(low, high, PRECISION, whole).map(Least::Lag),
                Ok(false) => low = high,
                Err(why) => return Err(Between { low: low + 1, high: None, why }),
            }
            leap = leap.saturating_mul(2);
        }
        Ok(Least::None)
    }

    /// Whether the history is linearizable if reads may lag by so much.
    fn is_linearizable(&self, lag: u64, effort: Effort, budget: &Budget) -> Result<bool, GaveUp> {
        match self.zones(lag, budget)? {
            (Zone::Linearizable, _) => Ok(true),
            (Zone::Violation(_), _) => Ok(false),
            (Zone::Undecided, register) => match search_register(&register, effort, budget).found {
                Found::Legal => Ok(true),
                Found::Illegal { .. } => Ok(false),
                Found::GaveUp { why, .. } => Err(why),
            },
        }
    }

    /// What the zones say if reads may lag by so much, and of which calls.
    fn zones(&self, lag: u64, budget: &Budget) -> Result<(Zone, Compact), GaveUp> {
        let register = self.with_lag(lag, budget).map_err(GaveUp::Budget)?;
        let zone = zone(&register, budget).map_err(GaveUp::Budget)?;
        Ok((zone, register))
    }

    /// The register with reads that begin so much earlier, and without the part of their intervals
    /// that they cannot make use of. Times are ranks again; those that are equal are concurrent.
    fn with_lag(&self, lag: u64, budget: &Budget) -> Result<Compact, Exhausted> {
        let mut memory = Reservation::new(budget);
        memory.hold((self.spans.len() * BYTES_PER_CALL_WITH_LAG) as u64)?;
        budget.check()?;
        let mut events: Vec<(u64, bool, u32)> = Vec::with_capacity(2 * self.spans.len());
        for at in 0..self.spans.len() {
            let (inv, ret) = self.interval(at, lag);
            events.push((inv, false, at as u32));
            if !self.register.calls[at].is_optional() {
                events.push((ret, true, at as u32));
            }
        }
        events.sort_unstable();
        budget.check()?;
        let mut calls: Vec<RegisterCall> = Vec::with_capacity(self.spans.len());
        let mut place = vec![0; self.spans.len()];
        for (time, &(_, is_return, at)) in (1..).zip(&events) {
            let at = at as usize;
            if is_return {
                calls[place[at]].ret = time;
            } else {
                place[at] = calls.len();
                calls.push(RegisterCall { inv: time, ..self.register.calls[at] });
            }
        }
        Ok(Compact { calls, values: self.register.values })
    }

    /// When a call can have taken effect if reads may lag by so much: lemma L2.
    fn interval(&self, at: usize, lag: u64) -> (u64, u64) {
        let (call, span) = (&self.register.calls[at], self.spans[at]);
        let inv = if span.lags { span.inv.saturating_sub(lag) } else { span.inv };
        if call.f != F::Read {
            return (inv, span.ret);
        }
        let writers = self.writers[call.a as usize];
        // The initial value is there in the beginning.
        let first = if call.a == 0 { 0 } else { writers.inv };
        let last = if call.a == 0 && planted(Bug::InitialOnlyOnce) { 0 } else { writers.ret };
        if first > span.ret {
            // Nobody has written it until the read returned: there is nothing to cut off.
            return (inv, span.ret);
        }
        if planted(Bug::WriterMustReturn) {
            return (inv.max(last.min(span.ret)), span.ret);
        }
        let inv = inv.max(first);
        let ret = if planted(Bug::ReadsAtOnce) { inv } else { inv.max(last) };
        (inv, ret.min(span.ret))
    }
}

/// What part of the time that could be needed is leaped over first.
const FIRST_LEAP: u64 = 1000;

/// By what part of it a lag that took searches may be too large: the last steps of a bisection are the
/// hardest to search, and tell the least.
const PRECISION: u64 = 1000;

/// Bytes for each call, its span and the writers of a value.
const BYTES_PER_CALL: usize =
    2 * size_of::<RegisterCall>() + size_of::<Span>() + 2 * size_of::<Writers>();

/// Bytes for each call while its register is given a lag, and what a search sees of it.
const BYTES_PER_CALL_WITH_LAG: usize =
    2 * size_of::<(u64, bool, u32)>() + 2 * size_of::<RegisterCall>() + size_of::<usize>();

/// The smallest number at which something holds that does not hold at `low`, does at `high`, and does above
/// wherever it does at all; or one that is larger by less than one part of so many.
fn bisect(
    mut low: u64,
    mut high: u64,
    parts: u64,
    holds: impl Fn(u64) -> Result<bool, GaveUp>,
) -> Result<u64, Between> {
    while high - low > 1 + low / parts {
        let middle = low + (high - low) / 2;
        match holds(middle) {
            Ok(true) => high = middle,
            Ok(false) => low = middle,
            Err(why) => return Err(Between { low: low + 1, high: Some(high), why }),
        }
    }
    Ok(high)
}
