//! One object from its calls to an answer: fast path, search, witness, verification.

use std::borrow::Cow;

use deposed_history::History;

use super::aspects::Shortcut;
use super::automaton::{Entry, Weaken};
use super::case::{Begin, Case, Kept, interval, parse};
use super::dfs::{Found, GaveUp, Limits, Searched, search};
use super::memory::Reservation;
use super::minimise::minimise;
use super::model::{Malformed, Model};
use super::models::Register;
use super::naming::name;
use super::planted::{Bug, planted};
use super::portfolio::race;
use super::register::{
    Compact, Pieces, Proof, RegisterCall, RegisterKinds, Registers, Renumbering, Zone, compact,
    load, prove, searchable, zone,
};
use super::table::TableAutomaton;
use super::verify::{Flaw, verify};
use super::{NEVER, witness};
use crate::parallel::in_parallel;
use crate::{Anomaly, Budget, Exhausted};

/// What is judged.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) history: &'a History,
    pub(crate) keyed: bool,
    /// The object's calls, as indices into the history's.
    pub(crate) calls: &'a [u32],
    pub(crate) budget: &'a Budget,
}

/// How long to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Long enough for almost every object.
    Quick,
    /// As long as the budget lasts, on so many threads.
    Full {
        /// At least 1.
        threads: usize,
    },
}

/// The answer for one object.
#[derive(Debug)]
pub(crate) enum Judged {
    Linearizable(Method),
    Violation(Box<Anomaly>),
    /// Not decided: everything before the time `reached` is fine.
    Undecided {
        reached: u32,
        why: String,
        again: bool,
    },
}

/// How an object was found to be fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Without a search.
    Direct,
    /// By a search that visited so many configurations.
    Search(u64),
}

/// Something that can judge objects: a model with all that is known of it.
pub(crate) trait Judge: Send + Sync {
    fn model_name(&self) -> &str;
    fn judge(&self, scope: Scope<'_>, effort: Effort) -> Judged;

    /// Looks at all objects of a history at once and says how many there are, if all of them are
    /// fine without a search. `None` if some may not be.
    fn screen(
        &self,
        _history: &History,
        _keyed: bool,
        _budget: &Budget,
    ) -> Result<Option<usize>, Exhausted> {
        Ok(None)
    }
}

/// Limits of a quick search.
const fn quick(budget: &Budget, calls: usize) -> Limits<'_> {
    Limits { budget, nodes_max: 30 * calls as u64 + 10_000, cancelled: None }
}

/// Says what it can of an object without a search.
type TakeShortcut<M> = fn(&[Kept<<M as Model>::Op>]) -> Shortcut;

/// Judges by search: any model.
pub(crate) struct BySearch<M: Model> {
    model: M,
    shortcut: Option<TakeShortcut<M>>,
}

impl<M: Model> BySearch<M> {
    pub(crate) const fn new(model: M) -> Self {
        Self { model, shortcut: None }
    }

    pub(crate) const fn with_shortcut(model: M, shortcut: TakeShortcut<M>) -> Self {
        Self { model, shortcut: Some(shortcut) }
    }

    /// The answer that a shortcut gives, if it holds.
    fn take_shortcut(&self, scope: Scope<'_>, kept: &[Kept<M::Op>]) -> Option<Judged> {
        match self.shortcut?(kept) {
            Shortcut::Legal => Some(Judged::Linearizable(Method::Direct)),
            Shortcut::Undecided => None,
            Shortcut::Illegal(name, calls) => {
                let kept = calls.iter().map(|at| kept[*at].clone()).collect();
                let case = Case { begin: Begin::Initially, until: NEVER, kept };
                let judged = report(&self.model, scope, &case, |_| name);
                // What does not hold is left to the search.
                Some(judged).filter(|judged| matches!(judged, Judged::Violation(_)))
            }
        }
    }
}

impl<M: Model> Judge for BySearch<M> {
    fn model_name(&self) -> &str {
        self.model.name()
    }

    fn judge(&self, scope: Scope<'_>, effort: Effort) -> Judged {
        let mut memory = Reservation::new(scope.budget);
        let bytes = scope.calls.len() * size_of::<Kept<M::Op>>();
        if let Err(exhausted) = memory.hold(bytes as u64) {
            return exhausted_at(0, exhausted);
        }
        let kept = match read(&self.model, scope) {
            Ok(kept) => kept,
            Err((call, malformed)) => return judge_before(self, scope, effort, call, &malformed),
        };
        if let Err(exhausted) = scope.budget.check() {
            return exhausted_at(0, exhausted);
        }
        if let Some(judged) = self.take_shortcut(scope, &kept) {
            return judged;
        }
        let mut automaton = TableAutomaton::new(&self.model);
        let entries: Vec<Entry> = kept
            .iter()
            .map(|kept| Entry { kind: automaton.kind(&kept.op), inv: kept.inv, ret: kept.ret })
            .collect();
        let limits = match effort {
            Effort::Quick => quick(scope.budget, entries.len()),
            Effort::Full { .. } => {
                Limits { budget: scope.budget, nodes_max: u64::MAX, cancelled: None }
            }
        };
        let searched = automaton.search(&entries, limits);
        conclude(&self.model, scope, searched, || (automaton.with_weaker(), entries))
    }
}

/// Calls on one register that are worth a look in advance: fewer are read twice if it says nothing.
const CALLS_SCREENED: usize = 1 << 12;

/// Judges registers: zones first.
pub(crate) struct ByZones(pub(crate) Register);

impl Judge for ByZones {
    fn model_name(&self) -> &str {
        self.0.name()
    }

    fn screen(
        &self,
        history: &History,
        keyed: bool,
        budget: &Budget,
    ) -> Result<Option<usize>, Exhausted> {
        // One register is a single object anyway, and judged alone almost as fast.
        if !keyed && history.calls().len() < CALLS_SCREENED {
            return Ok(None);
        }
        let Some(registers) = load(history, keyed, self.0, budget)? else { return Ok(None) };
        let Registers { pieces, memory } = registers;
        let count = pieces.len();
        // Every thread takes a share and keeps one set of tables.
        let share = count.div_ceil(budget.threads).max(1);
        let mut shares: Vec<Vec<Pieces>> = Vec::new();
        for register in pieces {
            match shares.last_mut().filter(|last| last.len() < share) {
                Some(last) => last.push(register),
                None => shares.push(vec![register]),
            }
        }
        let fine = in_parallel(budget.threads, shares, |share| {
            let mut values = Renumbering::new();
            for pieces in share {
                if zone(&values.dense(pieces), budget)? != Zone::Linearizable {
                    return Ok(false);
                }
            }
            Ok(true)
        });
        drop(memory);
        let fine: Vec<bool> = fine.into_iter().collect::<Result<_, Exhausted>>()?;
        Ok(fine.iter().all(|fine| *fine).then_some(count))
    }

    fn judge(&self, scope: Scope<'_>, effort: Effort) -> Judged {
        let mut memory = Reservation::new(scope.budget);
        let bytes = scope.calls.len() * 2 * size_of::<RegisterCall>();
        if let Err(exhausted) = memory.hold(bytes as u64) {
            return exhausted_at(0, exhausted);
        }
        let register = match compact(scope.history, scope.calls, scope.keyed, self.0) {
            Ok(register) => register,
            Err((call, malformed)) => return judge_before(self, scope, effort, call, &malformed),
        };
        let mut unproven = None;
        match zone(&register, scope.budget) {
            Err(exhausted) => return exhausted_at(0, exhausted),
            Ok(Zone::Linearizable) => return Judged::Linearizable(Method::Direct),
            Ok(Zone::Violation(violation)) => {
                if let Some(proof) = prove(&register, &violation) {
                    match self.report(scope, &register, &proof) {
                        proven @ Judged::Violation(_) => return proven,
                        other => unproven = Some(other),
                    }
                }
            }
            Ok(Zone::Undecided) => {}
        }
        let searched = search_register(&register, effort, scope.budget);
        let judged = conclude(&self.0, scope, searched, || RegisterKinds::of(&register));
        match (unproven, judged) {
            // Zones and the search cannot both be right.
            (Some(unproven), Judged::Linearizable(_)) => unproven,
            (_, judged) => judged,
        }
    }
}

/// Searches for a legal order of a register's calls.
pub(crate) fn search_register(register: &Compact, effort: Effort, budget: &Budget) -> Searched {
    let mut automaton = searchable(register);
    match effort {
        Effort::Quick => {
            let entries = automaton.entries();
            let limits = quick(budget, entries.len());
            search(&mut automaton, &entries, limits)
        }
        Effort::Full { threads } => race(&automaton, budget, threads),
    }
}

/// Judges an object up to a call that the model can make nothing of. Whatever that one did, it did
/// not before it was invoked: a violation that is found there stands.
fn judge_before(
    judge: &impl Judge,
    scope: Scope<'_>,
    effort: Effort,
    call: u32,
    malformed: &Malformed,
) -> Judged {
    let invoke = scope.history.calls()[call as usize].invoke;
    let why = format!("op {}: {malformed}", scope.history.op(invoke).index());
    let beginning = scope.history.beginning(invoke);
    let calls = &scope.calls[..scope.calls.partition_point(|&other| other < call)];
    match judge.judge(Scope { history: &beginning, calls, ..scope }, effort) {
        Judged::Linearizable(_) => Judged::Undecided { reached: invoke + 1, why, again: false },
        Judged::Undecided { reached, why: earlier, again } => {
            Judged::Undecided { reached, why: format!("{why}; before that, {earlier}"), again }
        }
        violation @ Judged::Violation(_) => violation,
    }
}

impl ByZones {
    fn report(&self, scope: Scope<'_>, register: &Compact, proof: &Proof) -> Judged {
        let model = &self.0;
        let mut kept = Vec::with_capacity(proof.kept.len());
        for &(index, relaxed) in &proof.kept {
            let call = register.calls[index as usize].index(scope.history);
            let Ok(Some(mut one)) = parse(model, scope.history, call, scope.keyed) else {
                continue;
            };
            if let (true, Some(op)) = (relaxed, model.relaxed(&one.op)) {
                one.op = op;
            }
            kept.push(one);
        }
        let case = Case { begin: Begin::Initially, until: NEVER, kept };
        let case = shown(&case);
        match verify(model, scope.history, scope.calls, scope.keyed, &case, scope.budget) {
            Ok(_) => Judged::Violation(Box::new(witness::from_proof(
                model,
                scope.history,
                scope.keyed,
                &case,
                register,
                proof,
            ))),
            Err(flaw) => unverified(&flaw),
        }
    }
}

/// What the calls of an object say to a model.
fn read<M: Model>(model: &M, scope: Scope<'_>) -> Result<Vec<Kept<M::Op>>, (u32, Malformed)> {
    let mut kept = Vec::with_capacity(scope.calls.len());
    for &call in scope.calls {
        kept.extend(
            parse(model, scope.history, call, scope.keyed)
                .map_err(|malformed| (call, malformed))?,
        );
    }
    Ok(kept)
}

/// From the result of a search to an answer. `whole` are all calls of the object, what they do, and
/// weaker forms of it.
pub(crate) fn conclude<M: Model, A: Weaken>(
    model: &M,
    scope: Scope<'_>,
    searched: Searched,
    whole: impl FnOnce() -> (A, Vec<Entry>),
) -> Judged {
    let reached = match searched.found {
        Found::Legal if planted(Bug::OrderDenied) => None,
        Found::Legal => return Judged::Linearizable(Method::Search(searched.nodes)),
        Found::Illegal { reached } => Some(reached),
        Found::GaveUp { reached, why } => {
            let again = why == GaveUp::Nodes;
            return Judged::Undecided { reached, again, why: why.to_string() };
        }
    };
    let (mut automaton, entries) = whole();
    let last = entries.last().map_or(0, |last| last.inv);
    prove_illegal(model, scope, &mut automaton, &entries, reached.unwrap_or(last))
}

/// From calls that a search found to be without a legal order to a verified witness.
fn prove_illegal<M: Model>(
    model: &M,
    scope: Scope<'_>,
    automaton: &mut dyn Weaken,
    entries: &[Entry],
    reached: u32,
) -> Judged {
    let draft = minimise(automaton, entries, reached, scope.budget);
    let case = match draft.spelt_out(model, scope.history, scope.keyed, entries) {
        Ok(case) => case,
        Err((call, malformed)) => return not_judged(scope, call, &malformed),
    };
    let name = |stuck: &Kept<M::Op>| {
        let (inv, _) = interval(scope.history.calls()[stuck.call as usize]);
        let stuck = entries.partition_point(|entry| entry.inv < inv);
        name(automaton, model.fork_name(), entries, stuck)
    };
    match report(model, scope, &case, name) {
        // What the search came past is fine all the same.
        Judged::Undecided { why, again, .. } => Judged::Undecided { reached, why, again },
        judged => judged,
    }
}

/// A case without a legal order as a violation, if it is verified; `name` is told which of its calls
/// got stuck.
fn report<M: Model>(
    model: &M,
    scope: Scope<'_>,
    case: &Case<M::Op>,
    name: impl FnOnce(&Kept<M::Op>) -> &'static str,
) -> Judged {
    let case = &shown(case);
    match verify(model, scope.history, scope.calls, scope.keyed, case, scope.budget) {
        Ok(refutation) => Judged::Violation(Box::new(witness::from_refutation(
            model,
            scope.history,
            scope.keyed,
            case,
            &refutation,
            name(&case.kept[refutation.stuck]),
        ))),
        Err(flaw) => unverified(&flaw),
    }
}

/// A case as it is shown to the verifier.
fn shown<Op: Clone>(case: &Case<Op>) -> Cow<'_, Case<Op>> {
    let mut shown = Cow::Borrowed(case);
    if planted(Bug::WitnessIncomplete) && !case.kept.is_empty() {
        shown.to_mut().kept.remove(0);
    }
    shown
}

/// A violation whose witness did not hold is none.
fn unverified(flaw: &Flaw) -> Judged {
    let why = match flaw {
        Flaw::Exhausted(exhausted) => {
            format!("a violation was found, but {exhausted} before its witness was verified")
        }
        flaw => format!(
            "a violation was found, but its witness did not hold ({flaw}): this is a bug of the \
             checker, please report it with the history"
        ),
    };
    Judged::Undecided { reached: 0, why, again: false }
}

/// Nothing is known from the time `reached` on.
pub(crate) fn exhausted_at(reached: u32, exhausted: Exhausted) -> Judged {
    Judged::Undecided { reached, why: exhausted.to_string(), again: false }
}

fn not_judged(scope: Scope<'_>, call: u32, malformed: &Malformed) -> Judged {
    let invoke = scope.history.calls()[call as usize].invoke;
    let index = scope.history.op(invoke).index();
    Judged::Undecided { reached: 0, why: format!("op {index}: {malformed}"), again: false }
}
