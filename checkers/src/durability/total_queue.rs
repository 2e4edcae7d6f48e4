//! Every acknowledged element comes out of the queue, and nothing comes out that was not put in.
//!
//! Order is not judged here: the linearizable `fifo-queue` model does that.

use std::collections::BTreeMap;

use deposed_history::{History, Outcome, ValueRef};
use rustc_hash::FxHashMap;

use super::planted::{Bug, planted};
use super::{LISTED_MAX, is_f, vacuous, verify};
use crate::linearizable::Reservation;
use crate::{Analysis, Anomaly, Budget, Checker, Exhausted, Undecided};

/// Judges `enqueue v`, `dequeue` (completes with `v`) and `drain` (completes with a list).
///
/// A dequeue or drain that crashed may have taken elements that nobody saw: one for a dequeue, any
/// number for a drain. So many losses prove nothing. A crashed drain that tells what it had taken
/// so far (a list as the value of its `info`) took at least that.
#[derive(Debug, Clone, Copy, Default)]
pub struct TotalQueue;

/// What became of one element.
#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    /// Enqueues that may have happened.
    attempts: u64,
    /// Enqueues that happened.
    acknowledged: u64,
    /// Times it came out.
    dequeued: u64,
    /// An enqueue of it, for the witness.
    enqueue: Option<u32>,
    /// A call it came out of, for the witness.
    dequeue: Option<u32>,
}

impl Checker for TotalQueue {
    fn name(&self) -> &str {
        "total-queue"
    }

    fn check(&self, history: &History, budget: &Budget) -> Analysis {
        self.judge(history, budget)
            .unwrap_or_else(|why| Analysis::exhausted(self.name(), history, why))
    }
}

/// Bytes an element takes, as the vector and the table of them grow.
const BYTES_PER_ELEMENT: u64 =
    3 * (size_of::<(ValueRef<'_>, Fate)>() + size_of::<(ValueRef<'_>, usize)>() + 1) as u64;

impl TotalQueue {
    fn judge(&self, history: &History, budget: &Budget) -> Result<Analysis, Exhausted> {
        let mut memory = Reservation::new(budget);
        let (fates, unseen) = collect(history, &mut memory)?;
        let (mut lost, mut unexpected, mut duplicated, mut recovered) = (0, 0, 0, 0);
        let mut acknowledged = 0;
        let (mut lost_witness, mut unexpected_witness) = (Vec::new(), Vec::new());
        for (value, fate) in &fates {
            acknowledged += fate.acknowledged;
            let once = planted(Bug::CopiesIgnored) && fate.dequeued > 0;
            let missing = fate.acknowledged.saturating_sub(fate.dequeued) * u64::from(!once);
            if missing > 0 {
                lost += missing;
                lost_witness.push((*value, *fate));
            }
            if fate.attempts == 0 && !planted(Bug::UnexpectedIgnored) {
                unexpected += fate.dequeued;
                unexpected_witness.push((*value, *fate));
            } else {
                duplicated += fate.dequeued.saturating_sub(fate.attempts);
                let seen = fate.dequeued.min(fate.attempts);
                recovered += seen.saturating_sub(fate.acknowledged);
            }
        }
        let mut anomalies: Vec<Anomaly> = unexpected_witness
            .iter()
            .take(LISTED_MAX)
            .map(|(v, f)| unexpected_one(*v, f))
            .collect();
        let mut undecided = Vec::new();
        let certainly_lost = unseen.at_least_lost(lost);
        if certainly_lost > 0 {
            let listed = lost_witness.iter().take(LISTED_MAX);
            anomalies.extend(listed.map(|(v, f)| lost_one(*v, f, certainly_lost, lost)));
        } else if lost > 0 {
            let reason = format!(
                "{lost} acknowledged elements never came out, but {} dequeues and {} drains \
                 crashed or told nothing, and may have taken them",
                unseen.dequeues, unseen.drains
            );
            let known = format!(
                "the other {} acknowledged elements came out, and nothing that was not put in",
                acknowledged - lost
            );
            undecided.push(Undecided { known: Some(known), ..Undecided::whole(history, reason) });
        }
        if anomalies.is_empty() {
            undecided.extend(vacuous(history, &["enqueue", "dequeue", "drain"]));
        }
        let count = unexpected + certainly_lost;
        let summary = format!(
            "{acknowledged} acknowledged, {lost} lost, {unexpected} unexpected, {duplicated} duplicated"
        );
        let figures = BTreeMap::from([
            ("acknowledged", acknowledged),
            ("lost", lost),
            ("certainly_lost", certainly_lost),
            ("unexpected", unexpected),
            ("duplicated", duplicated),
            ("recovered", recovered),
            ("crashed_dequeues", unseen.dequeues),
            ("crashed_drains", unseen.drains),
        ]);
        let analysis = Analysis {
            anomaly_count: count,
            details: serde_json::json!(figures),
            ..Analysis::from_findings(self.name(), summary, anomalies, undecided)
        };
        Ok(analysis.verified(history, budget, |anomaly| verify::queue(history, anomaly)))
    }
}

/// Takes that nobody saw the result of.
#[derive(Debug, Clone, Copy, Default)]
struct Unseen {
    dequeues: u64,
    drains: u64,
}

impl Unseen {
    /// Of `lost` elements, how many no crashed call can have taken.
    const fn at_least_lost(self, lost: u64) -> u64 {
        if self.drains > 0 { 0 } else { lost.saturating_sub(self.dequeues) }
    }
}

fn collect<'h>(
    history: &'h History,
    memory: &mut Reservation<'_>,
) -> Result<(Vec<(ValueRef<'h>, Fate)>, Unseen), Exhausted> {
    let mut enqueues = is_f(history, "enqueue");
    let (mut dequeues, mut drains) = (is_f(history, "dequeue"), is_f(history, "drain"));
    let mut order: Vec<(ValueRef<'_>, Fate)> = Vec::new();
    let mut place: FxHashMap<ValueRef<'_>, usize> = FxHashMap::default();
    let mut unseen = Unseen::default();
    let budget = memory.budget;
    let mut fate_of = |value, change: &mut dyn FnMut(&mut Fate)| {
        let at = *place.entry(value).or_insert_with(|| {
            order.push((value, Fate::default()));
            order.len() - 1
        });
        change(&mut order[at].1);
        memory.hold(order.len() as u64 * BYTES_PER_ELEMENT)
    };
    for call in budget.pace(history.calls()) {
        let call = call?;
        let completed = call.complete().map(|complete| history.op(complete).value());
        if enqueues(call.invoke) {
            if call.outcome() == Outcome::Fail {
                continue;
            }
            fate_of(history.op(call.invoke).value(), &mut |fate| {
                fate.attempts += 1;
                fate.acknowledged += u64::from(call.outcome() == Outcome::Ok);
                fate.enqueue.get_or_insert(call.invoke);
            })?;
        } else if dequeues(call.invoke) {
            match (call.outcome(), completed) {
                (Outcome::Ok, Some(value)) if !value.is_nil() => fate_of(value, &mut |fate| {
                    fate.dequeued += 1;
                    fate.dequeue.get_or_insert(call.invoke);
                })?,
                (Outcome::Info, _) if planted(Bug::CrashedDequeuesIgnored) => {}
                (Outcome::Info, _) if planted(Bug::DequeuesTakeAll) => unseen.drains += 1,
                (Outcome::Info, _) => unseen.dequeues += 1,
                _ => {}
            }
        } else if drains(call.invoke) {
            let told = completed.is_some_and(|value| value.is_nil() || value.as_list().is_some());
            let is_untold = call.outcome() == Outcome::Ok && !told;
            if call.outcome() == Outcome::Info && !planted(Bug::CrashedDrainsIgnored) || is_untold {
                unseen.drains += 1;
            }
            let untold = call.outcome() == Outcome::Info && planted(Bug::ToldIgnored);
            if call.outcome() == Outcome::Fail || untold || planted(Bug::DrainsIgnored) {
                continue;
            }
            for value in completed.and_then(ValueRef::as_list).into_iter().flat_map(|l| l.iter()) {
                fate_of(value, &mut |fate| {
                    fate.dequeued += 1;
                    fate.dequeue.get_or_insert(call.invoke);
                })?;
            }
        }
    }
    Ok((order, unseen))
}

fn lost_one(value: ValueRef<'_>, fate: &Fate, certainly: u64, lost: u64) -> Anomaly {
    let mut sentences = vec![
        format!("The enqueue of {value} was acknowledged."),
        format!("No dequeue or drain ever returned {value}."),
    ];
    if certainly < lost {
        sentences.push(format!(
            "Crashed dequeues may have taken {} of the {lost} missing elements, not all of them.",
            lost - certainly
        ));
    }
    Anomaly {
        name: "lost-element".into(),
        key: None,
        summary: format!("the acknowledged element {value} never came out"),
        sentences,
        witness: fate.enqueue.into_iter().collect(),
        edges: Vec::new(),
    }
}

fn unexpected_one(value: ValueRef<'_>, fate: &Fate) -> Anomaly {
    Anomaly {
        name: "unexpected-element".into(),
        key: None,
        summary: format!("the element {value} came out and was never put in"),
        sentences: vec![format!(
            "{value} came out of the queue, but no enqueue can have put it in."
        )],
        witness: fate.dequeue.into_iter().collect(),
        edges: Vec::new(),
    }
}
