//! What is left of one object's calls when only what proves a violation is kept.

use deposed_history::{Call, History, Outcome};

use super::NEVER;
use super::automaton::Entry;
use super::model::{CallView, Malformed, Model};

/// Calls without a legal order, weakened step by step from those of an object: every weakening can
/// only make legal orders out of illegal ones, so if these have none, the object's have none.
#[derive(Debug, Clone)]
pub(crate) struct Case<Op> {
    /// Where it begins.
    pub(crate) begin: Begin,
    /// Nothing that was invoked later counts, and what returned later may not have happened.
    pub(crate) until: u32,
    /// In the order of their invocations.
    pub(crate) kept: Vec<Kept<Op>>,
}

/// Where a case begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// In the beginning, in the initial state.
    Initially,
    /// At this time, in a state that stands for any. What returned before does not count, and what
    /// was open may have happened before.
    Anyhow(u32),
}

/// One call of a case.
#[derive(Debug, Clone)]
pub(crate) struct Kept<Op> {
    /// Index into the history's calls.
    pub(crate) call: u32,
    pub(crate) op: Op,
    pub(crate) inv: u32,
    /// [`NEVER`] if it may or may not have happened.
    pub(crate) ret: u32,
}

impl<Op> Kept<Op> {
    pub(crate) const fn is_optional(&self) -> bool {
        self.ret == NEVER
    }
}

/// A [`Case`] while it is made: its calls as numbers.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) begin: Begin,
    pub(crate) until: u32,
    /// In the order of their invocations.
    pub(crate) kept: Vec<Weakened>,
}

/// One call of a [`Draft`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weakened {
    /// Which of an object's entries it was.
    pub(crate) of: u32,
    /// What is left of it.
    pub(crate) entry: Entry,
}

impl Draft {
    /// All entries of an object.
    pub(crate) fn whole(entries: &[Entry]) -> Self {
        let kept = (0..).zip(entries).map(|(of, &entry)| Weakened { of, entry });
        Self { begin: Begin::Initially, until: NEVER, kept: kept.collect() }
    }

    /// With the operations that the model reads from the calls of a history. Errs with a call that
    /// does not fit.
    pub(crate) fn spelt_out<M: Model>(
        &self,
        model: &M,
        history: &History,
        keyed: bool,
        entries: &[Entry],
    ) -> Result<Case<M::Op>, (u32, Malformed)> {
        let mut kept = Vec::with_capacity(self.kept.len());
        for &Weakened { of, entry } in &self.kept {
            let whole = entries[of as usize];
            let calls = history.calls();
            let call = calls.partition_point(|call| call.invoke + 1 < whole.inv) as u32;
            let read = parse(model, history, call, keyed).map_err(|malformed| (call, malformed))?;
            let Some(Kept { call, op, .. }) = read else { continue };
            let relaxed = (entry.kind != whole.kind).then(|| model.relaxed(&op)).flatten();
            kept.push(Kept { call, op: relaxed.unwrap_or(op), inv: entry.inv, ret: entry.ret });
        }
        Ok(Case { begin: self.begin, until: self.until, kept })
    }
}

/// Time of a call's invocation and return: positions + 1; [`NEVER`] if it may not have happened.
pub(crate) fn interval(call: Call) -> (u32, u32) {
    let ret = match (call.outcome(), call.complete()) {
        (Outcome::Ok | Outcome::Fail, Some(position)) => position + 1,
        _ => NEVER,
    };
    (call.invoke + 1, ret)
}

/// What one call says, as the model reads it: `None` if it says nothing.
pub(crate) fn parse<M: Model>(
    model: &M,
    history: &History,
    index: u32,
    keyed: bool,
) -> Result<Option<Kept<M::Op>>, Malformed> {
    let call = history.calls()[index as usize];
    let view = CallView::new(history, call, keyed);
    if call.outcome() == Outcome::Fail && !view.is_precondition() {
        return Ok(None);
    }
    let (inv, ret) = interval(call);
    let op = model.parse(&view)?;
    Ok(op.filter(|op| !(call.outcome() == Outcome::Info && model.is_pure(op))).map(|op| Kept {
        call: index,
        op,
        inv,
        ret,
    }))
}
