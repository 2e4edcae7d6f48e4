//! Checks anomalies of the counting checkers against the raw history, on its own: but for how an
//! amount is read, nothing here comes from what found them. It is plain, for it runs on a handful of anomalies.

use deposed_history::{Call, History, Outcome, ValueRef};
use rustc_hash::{FxHashMap, FxHashSet};

use super::counter_bounds::amount;
use crate::Anomaly;

/// The calls of a function that may have happened.
fn calls<'h>(history: &'h History, f: &'h str) -> impl Iterator<Item = &'h Call> {
    let is =
        move |call: &&Call| call.outcome() != Outcome::Fail && history.op(call.invoke).f() == f;
    history.calls().iter().filter(is)
}

/// What a call asked for.
fn asked<'h>(history: &'h History, call: &Call) -> ValueRef<'h> {
    history.op(call.invoke).value()
}

/// What a call completed with, as far as it did.
fn told<'h>(history: &'h History, call: &Call) -> Option<ValueRef<'h>> {
    call.complete().map(|complete| history.op(complete).value())
}

/// The call among some that was invoked at a position, and what it completed with, if it succeeded.
fn answered<'h>(history: &'h History, f: &'h str, at: u32) -> Option<(&'h Call, ValueRef<'h>)> {
    let call = calls(history, f).find(|call| call.invoke == at)?;
    Some((call, told(history, call)?)).filter(|_| call.outcome() == Outcome::Ok)
}

fn elements(list: ValueRef<'_>) -> impl Iterator<Item = ValueRef<'_>> {
    list.as_list().into_iter().flat_map(|list| list.iter())
}

fn is_list(value: ValueRef<'_>) -> bool {
    value.is_nil() || value.as_list().is_some()
}

fn has(list: ValueRef<'_>, element: ValueRef<'_>) -> bool {
    elements(list).any(|other| other == element)
}

/// Two calls were given one id.
pub(super) fn duplicate_id(history: &History, anomaly: &Anomaly) -> bool {
    let [one, other] = anomaly.witness[..] else { return false };
    let ids = [one, other].map(|at| answered(history, "generate", at).map(|(_, id)| id));
    one != other && ids[0].is_some() && ids[0] == ids[1]
}

/// A read is no number, or no choice of the adds that it may have seen sums to it.
pub(super) fn counter(history: &History, anomaly: &Anomaly) -> bool {
    let [read] = anomaly.witness[..] else { return false };
    let Some((read, seen)) = answered(history, "read", read) else { return false };
    let number = if seen.is_nil() { Some(0) } else { seen.as_int().map(i128::from) };
    let number = match (anomaly.name.as_str(), number) {
        ("counter-not-a-number", number) => return number.is_none(),
        ("counter-out-of-bounds", Some(number)) => number,
        _ => return false,
    };
    let (mut lower, mut upper) = (0, 0);
    for add in calls(history, "add").filter(|add| Some(add.invoke) < read.complete()) {
        let Some(amount) = amount(asked(history, add)) else { return false };
        let ended = add.complete().filter(|_| add.outcome() == Outcome::Ok);
        let is_certain = ended.is_some_and(|ended| ended < read.invoke);
        lower += if is_certain { amount } else { amount.min(0) };
        upper += if is_certain { amount } else { amount.max(0) };
    }
    number < lower || number > upper
}

/// A read has what it cannot have, or misses what was known before it was invoked.
pub(super) fn set(history: &History, anomaly: &Anomaly) -> bool {
    let witness = |call: &&Call| anomaly.witness.contains(&call.invoke);
    let reads = || {
        let ok = calls(history, "read").filter(|read| read.outcome() == Outcome::Ok);
        ok.filter_map(|read| Some((read, told(history, read)?)))
    };
    let mut told_of = reads().filter(|(read, _)| witness(read));
    match anomaly.name.as_str() {
        "duplicate-elements" => told_of.any(|(_, seen)| {
            let mut met = FxHashSet::default();
            !elements(seen).all(|element| met.insert(element))
        }),
        "unexpected-element" => {
            let added: FxHashSet<_> =
                calls(history, "add").map(|add| asked(history, add)).collect();
            told_of.any(|(_, seen)| elements(seen).any(|element| !added.contains(&element)))
        }
        name @ ("lost-element" | "stale-element") => {
            let Some(add) = calls(history, "add").find(witness) else { return false };
            let element = asked(history, add);
            let miss = told_of.find(|&(_, seen)| is_list(seen) && !has(seen, element));
            let Some((miss, _)) = miss else { return false };
            let acknowledged = calls(history, "add")
                .filter(|add| add.outcome() == Outcome::Ok && asked(history, add) == element);
            let seers = reads().filter(|&(_, seen)| has(seen, element)).map(|(read, _)| read);
            let mut known = acknowledged.chain(seers).filter_map(|call| call.complete());
            let mut later = reads().filter(|(read, _)| read.invoke > miss.invoke);
            let may_be_seen_again = later.any(|(_, seen)| !is_list(seen) || has(seen, element));
            known.any(|known| known < miss.invoke) && (name != "lost-element" || !may_be_seen_again)
        }
        _ => false,
    }
}

/// Something came out that was not put in, or stays in that nobody can have taken.
pub(super) fn queue(history: &History, anomaly: &Anomaly) -> bool {
    let [at] = anomaly.witness[..] else { return false };
    let dequeued = calls(history, "dequeue").filter(|call| call.outcome() == Outcome::Ok);
    let dequeued = dequeued.filter_map(|call| Some((call.invoke, told(history, call)?)));
    let dequeued = dequeued.filter(|(_, element)| !element.is_nil());
    let drained =
        calls(history, "drain").filter_map(|call| Some((call.invoke, told(history, call)?)));
    let drained = drained.flat_map(|(at, list)| elements(list).map(move |element| (at, element)));
    let mut out = dequeued.chain(drained);
    match anomaly.name.as_str() {
        "unexpected-element" => {
            let put = calls(history, "enqueue").map(|call| asked(history, call));
            let put: FxHashSet<_> = put.collect();
            out.any(|(of, element)| of == at && !put.contains(&element))
        }
        "lost-element" => {
            let mut inside: FxHashMap<ValueRef<'_>, u64> = FxHashMap::default();
            for call in calls(history, "enqueue").filter(|call| call.outcome() == Outcome::Ok) {
                *inside.entry(asked(history, call)).or_default() += 1;
            }
            for (_, element) in out {
                inside.entry(element).and_modify(|left| *left = left.saturating_sub(1));
            }
            let of_it = calls(history, "enqueue").find(|call| call.invoke == at);
            let left = of_it.and_then(|call| inside.get(&asked(history, call)));
            let is_untold = |drain: &Call| {
                drain.outcome() == Outcome::Info || !told(history, drain).is_some_and(is_list)
            };
            let untold = calls(history, "dequeue").filter(|call| call.outcome() == Outcome::Info);
            let lost: u64 = inside.values().sum();
            left.is_some_and(|&left| left > 0)
                && !calls(history, "drain").any(is_untold)
                && lost > untold.count() as u64
        }
        _ => false,
    }
}
