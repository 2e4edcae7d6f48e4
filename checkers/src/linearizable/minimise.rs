//! Makes a case small by weakenings only: what is left still proves the whole illegal.

use super::NEVER;
use super::automaton::{Automaton, Entry};
use super::case::{Begin, Case, Kept};
use super::dfs::{Found, GaveUp, Limits, search};
use super::memory::Reservation;
use super::model::Model;
use super::table::TableAutomaton;
use crate::Budget;

/// Configurations each attempt may visit: one that takes more is not worth making.
const NODES_PER_TRY: u64 = 200_000;

/// How often all calls are gone through.
const PASSES_MAX: usize = 4;

/// Forms of a case that exist at the same time.
const CASES: usize = 4;

/// Events in the shortest window that is tried.
const WINDOW_MIN: usize = 4;

/// Shrinks the calls of an object, of which it is known that they have no legal order; `reached` is
/// the time of a return that a search could not pass. Stops early when the budget runs out: what
/// it returns is a proof in any case.
pub(crate) fn minimise<M: Model>(
    model: &M,
    calls: Vec<Kept<M::Op>>,
    reached: u32,
    budget: &Budget,
) -> Case<M::Op> {
    let whole = |kept| Case { begin: Begin::Initially, until: NEVER, kept };
    let mut memory = Reservation::new(budget);
    if memory.hold((calls.len() * CASES * size_of::<Kept<M::Op>>()) as u64).is_err() {
        return whole(calls);
    }
    let mut automaton = TableAutomaton::new(model, &model.init());
    if let Some(anything) = model.anything() {
        automaton.begin_in(&anything);
    }
    for kept in &calls {
        automaton.kind(&kept.op);
        if let Some(relaxed) = model.relaxed(&kept.op) {
            automaton.kind(&relaxed);
        }
    }
    let whole = whole(calls);
    let mut minimiser = Minimiser { model, automaton, budget, exhausted: false };
    let case = minimiser.cut_end(whole, reached);
    let case = minimiser.cut_begin(case);
    minimiser.thin_out(case)
}

struct Minimiser<'a, M: Model> {
    model: &'a M,
    automaton: TableAutomaton<'a, M>,
    budget: &'a Budget,
    exhausted: bool,
}

impl<M: Model> Minimiser<'_, M> {
    /// Whether nothing more can be tried.
    fn is_exhausted(&mut self) -> bool {
        self.exhausted |= self.budget.check().is_err();
        self.exhausted
    }

    /// Whether it is certain that a case has no legal order.
    fn is_illegal(&mut self, case: &Case<M::Op>) -> bool {
        if self.is_exhausted() {
            return false;
        }
        match case.begin {
            Begin::Initially => self.automaton.begin_in(&self.model.init()),
            Begin::Anyhow(_) => match self.model.anything() {
                Some(anything) => self.automaton.begin_in(&anything),
                None => return false,
            },
        }
        let entries: Vec<Entry> = case
            .kept
            .iter()
            .map(|kept| Entry { kind: self.automaton.kind(&kept.op), inv: kept.inv, ret: kept.ret })
            .collect();
        let limits = Limits { budget: self.budget, nodes_max: NODES_PER_TRY, cancelled: None };
        let mut automaton: &mut dyn Automaton = &mut self.automaton;
        match search(&mut automaton, &entries, limits).found {
            Found::Illegal { .. } => true,
            Found::GaveUp { why: GaveUp::Budget(_), .. } => {
                self.exhausted = true;
                false
            }
            _ => false,
        }
    }

    /// The shortest prefix without a legal order: what returns later may not have happened. A
    /// search came as far as `reached`, so all that is shorter has one.
    fn cut_end(&mut self, whole: Case<M::Op>, reached: u32) -> Case<M::Op> {
        let mut returns: Vec<u32> =
            whole.kept.iter().map(|kept| kept.ret).filter(|ret| *ret != NEVER).collect();
        returns.sort_unstable();
        let mut low = returns.partition_point(|ret| *ret < reached);
        let mut high = returns.len();
        let mut best = None;
        // Wider and wider steps until it is illegal, then halves.
        let mut at = low;
        let mut step = 1;
        while low < high && !self.exhausted {
            let case = self.until(&whole, returns[at]);
            if self.is_illegal(&case) {
                best = Some(case);
                high = at;
            } else {
                low = at + 1;
            }
            at = if best.is_none() { (low + step).min(high - 1) } else { low + (high - low) / 2 };
            step *= 2;
        }
        best.unwrap_or(whole)
    }

    fn until(&self, case: &Case<M::Op>, until: u32) -> Case<M::Op> {
        let kept = case.kept.iter().filter(|kept| kept.inv <= until).filter_map(|kept| {
            let mut kept = kept.clone();
            if kept.ret > until {
                kept.ret = NEVER;
                if self.model.is_pure(&kept.op) {
                    return None;
                }
            }
            Some(kept)
        });
        Case { begin: case.begin, until, kept: kept.collect() }
    }

    /// The latest beginning, in a state that stands for any, without a legal order.
    fn cut_begin(&mut self, case: Case<M::Op>) -> Case<M::Op> {
        if self.model.anything().is_none() {
            return case;
        }
        let mut times: Vec<u32> = case
            .kept
            .iter()
            .flat_map(|kept| [kept.inv, kept.ret])
            .filter(|time| *time != NEVER)
            .collect();
        times.sort_unstable();
        let mut size = WINDOW_MIN;
        let mut best = None;
        while size < times.len() && !self.exhausted {
            let window = self.from(&case, times[times.len() - size]);
            if self.is_illegal(&window) {
                best = Some((size, window));
                break;
            }
            size *= 2;
        }
        let Some((mut high, mut best)) = best else { return case };
        let mut low = high / 2;
        while low + 1 < high && !self.exhausted {
            let size = low + (high - low) / 2;
            let window = self.from(&case, times[times.len() - size]);
            if self.is_illegal(&window) {
                (high, best) = (size, window);
            } else {
                low = size;
            }
        }
        best
    }

    fn from(&self, case: &Case<M::Op>, begin: u32) -> Case<M::Op> {
        let kept = case.kept.iter().filter(|kept| kept.ret >= begin).filter_map(|kept| {
            let mut kept = kept.clone();
            if kept.inv < begin {
                kept.inv = begin;
                kept.ret = NEVER;
                if self.model.is_pure(&kept.op) {
                    return None;
                }
            }
            Some(kept)
        });
        Case { begin: Begin::Anyhow(begin), until: case.until, kept: kept.collect() }
    }

    /// Leaves out what is not needed: reads one by one, then makes what happened optional, then
    /// leaves out what nobody saw.
    fn thin_out(&mut self, mut case: Case<M::Op>) -> Case<M::Op> {
        self.drop_dispensable(&mut case);
        for _ in 0..PASSES_MAX {
            let mut changed = self.drop_pure(&mut case);
            let mut at = 0;
            while at < case.kept.len() && !self.exhausted {
                let kept = case.kept[at].clone();
                if self.model.is_pure(&kept.op) {
                    at += 1;
                    continue;
                }
                if !kept.is_optional() {
                    case.kept[at].ret = NEVER;
                    if self.is_illegal(&case) {
                        changed = true;
                    } else {
                        case.kept[at].ret = kept.ret;
                    }
                }
                if let Some(relaxed) = self.model.relaxed(&kept.op) {
                    case.kept[at].op = relaxed;
                    if self.is_illegal(&case) {
                        changed = true;
                    } else {
                        case.kept[at].op = kept.op;
                    }
                }
                at += 1;
            }
            changed |= self.drop_dispensable(&mut case);
            if !changed || self.exhausted {
                break;
            }
        }
        case
    }

    /// Leaves out calls that change nothing: halves, quarters, ..., single ones.
    fn drop_pure(&mut self, case: &mut Case<M::Op>) -> bool {
        let mut changed = false;
        let mut size = case.kept.len().div_ceil(2).max(1);
        loop {
            let mut at = 0;
            while at < case.kept.len() && !self.exhausted {
                let end = (at + size).min(case.kept.len());
                let mut smaller = case.clone();
                let mut index = 0;
                smaller.kept.retain(|kept| {
                    index += 1;
                    !(at < index && index <= end && self.model.is_pure(&kept.op))
                });
                if smaller.kept.len() < case.kept.len() && self.is_illegal(&smaller) {
                    let dropped = case.kept.len() - smaller.kept.len();
                    *case = smaller;
                    changed = true;
                    at = end - dropped;
                } else {
                    at = end;
                }
            }
            if size == 1 || self.exhausted {
                return changed;
            }
            size /= 2;
        }
    }

    /// Leaves out optional calls that cannot make a difference to the rest. Fewer optional calls
    /// mean fewer orders, so the case stays illegal.
    fn drop_dispensable(&mut self, case: &mut Case<M::Op>) -> bool {
        let before = case.kept.len();
        loop {
            let len = case.kept.len();
            let ops: Vec<&M::Op> = case.kept.iter().map(|kept| &kept.op).collect();
            let keep: Vec<bool> = case
                .kept
                .iter()
                .map(|kept| {
                    let can_go = kept.is_optional() && !self.is_exhausted();
                    !(can_go && self.model.dispensable(&kept.op, &ops))
                })
                .collect();
            let mut keep = keep.into_iter();
            case.kept.retain(|_| keep.next().unwrap_or(true));
            if case.kept.len() == len {
                return len < before;
            }
        }
    }
}
