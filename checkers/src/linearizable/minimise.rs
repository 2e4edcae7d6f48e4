//! Makes a case small by weakenings only: what is left still proves the whole illegal.

use super::NEVER;
use super::automaton::{Entry, Weaken};
use super::case::{Begin, Draft, Weakened};
use super::dfs::{Found, GaveUp, Limits};
use super::memory::Reservation;
use crate::Budget;

/// Configurations each attempt may visit: one that takes more is not worth making.
const NODES_PER_TRY: u64 = 200_000;

/// How often all calls are gone through, as long as some try took too long: it may not, once there is
/// less. What was tried and had an order has one in all weaker forms, too.
const PASSES_MAX: usize = 4;

/// Forms of a case that exist at the same time.
const CASES: usize = 4;

/// Events in the shortest window that is tried.
const WINDOW_MIN: usize = 4;

/// How much is compared between looks at the clock.
const WORK_PER_LOOK: usize = 1 << 12;

/// Shrinks the entries of an object, of which it is known that they have no legal order; `reached` is
/// the time of a return that a search could not pass. Stops early when the budget runs out: what
/// it returns is a proof in any case.
pub(crate) fn minimise(
    automaton: &mut dyn Weaken,
    entries: &[Entry],
    reached: u32,
    budget: &Budget,
) -> Draft {
    let mut memory = Reservation::new(budget);
    if memory.hold((entries.len() * CASES * size_of::<Weakened>()) as u64).is_err() {
        return Draft::whole(entries);
    }
    let mut minimiser =
        Minimiser { automaton, budget, entries: Vec::new(), gave_up: false, exhausted: false };
    let case = minimiser.cut_end(Draft::whole(entries), reached);
    let case = minimiser.cut_begin(case);
    minimiser.thin_out(case)
}

struct Minimiser<'a> {
    automaton: &'a mut dyn Weaken,
    budget: &'a Budget,
    /// Of the case that is tried.
    entries: Vec<Entry>,
    /// Whether some try took too long.
    gave_up: bool,
    exhausted: bool,
}

impl Minimiser<'_> {
    /// Whether nothing more can be tried.
    fn is_exhausted(&mut self) -> bool {
        self.exhausted |= self.budget.check().is_err();
        self.exhausted
    }

    fn is_pure(&self, kept: &Weakened) -> bool {
        self.automaton.traits(kept.entry.kind).pure
    }

    /// Whether it is certain that a case has no legal order.
    fn is_illegal(&mut self, case: &Draft) -> bool {
        if self.is_exhausted() {
            return false;
        }
        match (case.begin, self.automaton.anything()) {
            (Begin::Initially, _) => self.automaton.begin_in(self.automaton.init()),
            (Begin::Anyhow(_), Some(anything)) => self.automaton.begin_in(anything),
            (Begin::Anyhow(_), None) => return false,
        }
        self.entries.clear();
        self.entries.extend(case.kept.iter().map(|kept| kept.entry));
        let limits = Limits { budget: self.budget, nodes_max: NODES_PER_TRY, cancelled: None };
        match self.automaton.search(&self.entries, limits).found {
            Found::Illegal { .. } => true,
            Found::GaveUp { why, .. } => {
                self.gave_up = true;
                self.exhausted |= matches!(why, GaveUp::Budget(_));
                false
            }
            Found::Legal => false,
        }
    }

    /// The shortest prefix without a legal order: what returns later may not have happened. A
    /// search came as far as `reached`, so all that is shorter has one.
    fn cut_end(&mut self, whole: Draft, reached: u32) -> Draft {
        let mut returns: Vec<u32> =
            whole.kept.iter().map(|kept| kept.entry.ret).filter(|ret| *ret != NEVER).collect();
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

    fn until(&self, case: &Draft, until: u32) -> Draft {
        let kept = case.kept.iter().filter(|kept| kept.entry.inv <= until).filter_map(|kept| {
            let mut kept = *kept;
            if kept.entry.ret > until {
                kept.entry.ret = NEVER;
                if self.is_pure(&kept) {
                    return None;
                }
            }
            Some(kept)
        });
        Draft { begin: case.begin, until, kept: kept.collect() }
    }

    /// The latest beginning, in a state that stands for any, without a legal order.
    fn cut_begin(&mut self, case: Draft) -> Draft {
        if self.automaton.anything().is_none() {
            return case;
        }
        let mut times: Vec<u32> = case
            .kept
            .iter()
            .flat_map(|kept| [kept.entry.inv, kept.entry.ret])
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

    fn from(&self, case: &Draft, begin: u32) -> Draft {
        let kept = case.kept.iter().filter(|kept| kept.entry.ret >= begin).filter_map(|kept| {
            let mut kept = *kept;
            if kept.entry.inv < begin {
                (kept.entry.inv, kept.entry.ret) = (begin, NEVER);
                if self.is_pure(&kept) {
                    return None;
                }
            }
            Some(kept)
        });
        Draft { begin: Begin::Anyhow(begin), until: case.until, kept: kept.collect() }
    }

    /// Leaves out what is not needed: reads one by one, then makes what happened optional, then
    /// leaves out what nobody saw.
    fn thin_out(&mut self, mut case: Draft) -> Draft {
        self.drop_dispensable(&mut case);
        for _ in 0..PASSES_MAX {
            self.gave_up = false;
            let mut changed = self.drop_pure(&mut case);
            let mut at = 0;
            while at < case.kept.len() && !self.exhausted {
                let kept = case.kept[at];
                if self.is_pure(&kept) {
                    at += 1;
                    continue;
                }
                let Entry { kind, ret, .. } = kept.entry;
                if !kept.entry.is_optional() {
                    case.kept[at].entry.ret = NEVER;
                    if self.is_illegal(&case) {
                        changed = true;
                    } else {
                        case.kept[at].entry.ret = ret;
                    }
                }
                if let Some(relaxed) = self.automaton.relaxed(kind) {
                    case.kept[at].entry.kind = relaxed;
                    if self.is_illegal(&case) {
                        changed = true;
                    } else {
                        case.kept[at].entry.kind = kind;
                    }
                }
                at += 1;
            }
            changed |= self.drop_dispensable(&mut case);
            if !changed || !self.gave_up || self.exhausted {
                break;
            }
        }
        case
    }

    /// Leaves out calls that change nothing: halves, quarters, ..., single ones.
    fn drop_pure(&mut self, case: &mut Draft) -> bool {
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
                    !(at < index && index <= end && self.is_pure(kept))
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
    fn drop_dispensable(&mut self, case: &mut Draft) -> bool {
        let before = case.kept.len();
        let mut work = 0;
        loop {
            let len = case.kept.len();
            let kinds: Vec<u32> = case.kept.iter().map(|kept| kept.entry.kind).collect();
            case.kept.retain(|kept| {
                work += len;
                if work > WORK_PER_LOOK {
                    work = 0;
                    self.is_exhausted();
                }
                let can_go = kept.entry.is_optional() && !self.exhausted;
                !(can_go && self.automaton.dispensable(kept.entry.kind, &kinds))
            });
            if case.kept.len() == len {
                return len < before;
            }
        }
    }
}
