//! Every acknowledged element of a set is seen by every later read.
//!
//! `add e` adds one element, `read` completes with the list of all. An element is *known* from the
//! moment its add is acknowledged or a read that saw it completes, whichever is first. Then it is
//!
//! - *lost*, if a read invoked after that misses it and no read invoked later sees it again;
//! - *stale*, if some read invoked after that misses it, but a later one sees it;
//! - *stable*, if no such read misses it;
//! - *never read*, if no read was invoked after it was known (nothing can be said).
//!
//! Besides, an element may be *duplicated* within one read, or *unexpected*: seen without an add
//! that can have added it.

use std::collections::BTreeMap;

use deposed_history::{History, Outcome, ValueRef};
use rustc_hash::FxHashMap;

use super::planted::{Bug, planted};
use super::{LISTED_MAX, is_f, verify};
use crate::analysis::with_beginning;
use crate::linearizable::Reservation;
use crate::{Analysis, Anomaly, Budget, Checker, Exhausted, Undecided};

/// Judges a set by all of its reads.
#[derive(Debug, Clone, Copy, Default)]
pub struct SetFull {
    /// Whether a stale element is a violation, as it is for a linearizable set.
    pub linearizable: bool,
}

/// What became of one element.
#[derive(Debug, Clone, Default)]
struct Element {
    /// Its first add, if one may have happened.
    add: Option<u32>,
    /// Position of the event that made it known.
    known: Option<u32>,
    /// The reads that saw it, as places in the list of reads, ascending.
    seen: Vec<u32>,
    /// A read that saw it more than once.
    duplicated_in: Option<u32>,
}

/// A completed read: the positions of its invocation and completion.
#[derive(Debug, Clone, Copy)]
struct Read {
    invoke: u32,
    complete: u32,
}

/// The verdict on one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    NeverRead,
    Stable,
    /// Missed by the read at this place, seen by a later one.
    Stale(u32),
    /// Missed by the read at this place and by all that came after.
    Lost(u32),
}

impl Checker for SetFull {
    fn name(&self) -> &str {
        "set-full"
    }

    fn check(&self, history: &History, budget: &Budget) -> Analysis {
        with_beginning(history, "lose nothing", |history| {
            self.judge(history, budget)
                .unwrap_or_else(|why| Analysis::exhausted(self.name(), history, why))
        })
    }
}

/// Bytes an element takes besides the reads that saw it, as the vector and the table of them grow.
const BYTES_PER_ELEMENT: u64 =
    3 * (size_of::<(ValueRef<'_>, Element)>() + size_of::<(ValueRef<'_>, usize)>() + 1) as u64;

/// Bytes that an element takes for each read that saw it, as the list of those grows.
const BYTES_PER_SEEN: u64 = 2 * size_of::<u32>() as u64;

impl SetFull {
    fn judge(&self, history: &History, budget: &Budget) -> Result<Analysis, Exhausted> {
        let _reads = budget.hold((2 * size_of::<Read>() * history.calls().len()) as u64)?;
        let mut memory = Reservation::new(budget);
        let Reads { reads, odd } = reads(history, budget)?;
        let elements = elements(history, &reads, &mut memory)?;
        let mut counts: BTreeMap<&str, u64> =
            ["stable", "stale", "lost", "never_read", "duplicated", "unexpected"]
                .map(|name| (name, 0))
                .into();
        let mut count = |name| *counts.entry(name).or_default() += 1;
        let mut anomalies: Vec<Anomaly> = Vec::new();
        let mut found = 0u64;
        let mut worst_stale_ns = 0u64;
        for element in budget.pace(&elements) {
            let (value, element) = element?;
            let mut report = |anomaly: Anomaly| {
                found += 1;
                if anomalies.len() < LISTED_MAX {
                    anomalies.push(anomaly);
                }
            };
            if element.add.is_none() {
                if planted(Bug::UnexpectedIgnored) {
                    continue;
                }
                count("unexpected");
                report(unexpected(history, &reads, *value, element));
                continue;
            }
            if let Some(read) = element.duplicated_in {
                count("duplicated");
                report(duplicated(history, &reads, *value, read));
            }
            let fate = match fate(element, &reads) {
                // A read of which nothing is known may have seen it again.
                Fate::Lost(read)
                    if odd.is_some_and(|(_, last)| last > reads[read as usize].invoke) =>
                {
                    Fate::Stale(read)
                }
                fate => fate,
            };
            match fate {
                Fate::NeverRead => count("never_read"),
                Fate::Stable => count("stable"),
                Fate::Stale(read) => {
                    count("stale");
                    let late = history.op(reads[read as usize].invoke).time();
                    let known = element.known.map_or(late, |known| history.op(known).time());
                    worst_stale_ns = worst_stale_ns.max(late.saturating_sub(known));
                    if self.linearizable {
                        report(missed(history, &reads, *value, element, read, "stale-element"));
                    }
                }
                Fate::Lost(read) => {
                    count("lost");
                    report(missed(history, &reads, *value, element, read, "lost-element"));
                }
            }
        }
        let decided = counts["stable"] + counts["stale"] + counts["lost"];
        let mut undecided = Vec::new();
        if let Some((invoke, _)) = odd {
            let op = history.op(invoke);
            let reason = format!("the read of op {} tells no list of elements", op.index());
            undecided.push(Undecided::since(history, invoke, reason));
        } else if decided == 0 && anomalies.is_empty() {
            let none = "no element was both acknowledged and read afterwards";
            undecided.push(Undecided::untested(history, none));
        }
        let summary = format!(
            "{} elements, {} reads: {} stable, {} stale, {} lost, {} never read",
            elements.len(),
            reads.len(),
            counts["stable"],
            counts["stale"],
            counts["lost"],
            counts["never_read"]
        );
        let mut details = serde_json::json!(counts);
        details["worst_stale_ns"] = worst_stale_ns.into();
        let analysis = Analysis {
            anomaly_count: found,
            details,
            ..Analysis::from_findings(self.name(), summary, anomalies, undecided)
        };
        Ok(analysis.verified(history, budget, |anomaly| verify::set(history, anomaly)))
    }
}

/// Completed reads.
struct Reads {
    /// Those that tell a list, in the order of their invocations.
    reads: Vec<Read>,
    /// The invocations of the first and of the last that tells none.
    odd: Option<(u32, u32)>,
}

fn reads(history: &History, budget: &Budget) -> Result<Reads, Exhausted> {
    let mut is_read = is_f(history, "read");
    let (mut reads, mut odd) = (Vec::new(), None);
    for call in budget.pace(history.calls()) {
        let call = call?;
        let ok = call.outcome() == Outcome::Ok && is_read(call.invoke);
        let Some(complete) = call.complete().filter(|_| ok) else { continue };
        let value = history.op(complete).value();
        if value.is_nil() || value.as_list().is_some() {
            reads.push(Read { invoke: call.invoke, complete });
        } else {
            odd = Some((odd.map_or(call.invoke, |(first, _)| first), call.invoke));
        }
    }
    Ok(Reads { reads, odd })
}

/// Every element that was added or seen, in the order of its first appearance.
fn elements<'h>(
    history: &'h History,
    reads: &[Read],
    memory: &mut Reservation<'_>,
) -> Result<Vec<(ValueRef<'h>, Element)>, Exhausted> {
    let budget = memory.budget;
    let mut seen_count = 0;
    let mut adds = is_f(history, "add");
    let mut order: Vec<(ValueRef<'h>, Element)> = Vec::new();
    let mut place: FxHashMap<ValueRef<'h>, usize> = FxHashMap::default();
    for call in budget.pace(history.calls()) {
        let call = call?;
        let failed = call.outcome() == Outcome::Fail && !planted(Bug::FailedAddsCount);
        if failed || !adds(call.invoke) {
            continue;
        }
        let value = history.op(call.invoke).value();
        let at = *place.entry(value).or_insert_with(|| {
            order.push((value, Element::default()));
            order.len() - 1
        });
        let element = &mut order[at].1;
        element.add.get_or_insert(call.invoke);
        if call.outcome() == Outcome::Ok {
            let end =
                if planted(Bug::AddsCountAtOnce) { Some(call.invoke) } else { call.complete() };
            let known = end.into_iter().chain(element.known).min();
            element.known = known;
        }
        memory.hold(order.len() as u64 * BYTES_PER_ELEMENT)?;
    }
    for (number, read) in (0u32..).zip(reads) {
        budget.check()?;
        let seen = history.op(read.complete).value();
        for value in seen.as_list().into_iter().flat_map(|list| list.iter()) {
            let at = *place.entry(value).or_insert_with(|| {
                order.push((value, Element::default()));
                order.len() - 1
            });
            let element = &mut order[at].1;
            if element.seen.last() == Some(&number) {
                element.duplicated_in.get_or_insert(number);
                continue;
            }
            element.seen.push(number);
            let seen = Some(read.complete).filter(|_| !planted(Bug::SeenIsNotKnown));
            element.known = [element.known, seen].into_iter().flatten().min();
            seen_count += 1;
            let elements = order.len() as u64 * BYTES_PER_ELEMENT;
            memory.hold(elements + seen_count * BYTES_PER_SEEN)?;
        }
    }
    Ok(order)
}

/// Decides one element. The last read that missed it is found by walking back over the reads that
/// saw it, so all elements together cost no more than the reads are long.
fn fate(element: &Element, reads: &[Read]) -> Fate {
    let Some(known) = element.known else { return Fate::NeverRead };
    let early = planted(Bug::EarlyReadsCount);
    let first_after = reads.partition_point(|read| read.invoke <= known && !early) as u32;
    let end = reads.len() as u32;
    let mut last_missed = end;
    for &seen in element.seen.iter().rev() {
        if seen + 1 == last_missed {
            last_missed = seen;
        } else {
            break;
        }
    }
    // `last_missed` is now the first of the unbroken run of reads at the end that saw it.
    if last_missed <= first_after {
        return if first_after == end && element.seen.is_empty() {
            Fate::NeverRead
        } else {
            Fate::Stable
        };
    }
    let missed = last_missed - 1;
    let seen_again = last_missed < end && !planted(Bug::StaleIsLost);
    if seen_again { Fate::Stale(missed) } else { Fate::Lost(missed) }
}

fn missed(
    history: &History,
    reads: &[Read],
    value: ValueRef<'_>,
    element: &Element,
    read: u32,
    name: &str,
) -> Anomaly {
    let miss = reads[read as usize].invoke;
    let reader = history.op(miss).process();
    let add = element.add.unwrap_or(miss);
    let adder = history.op(add).process();
    let mut witness = vec![add, miss];
    let known = element.known.unwrap_or(add);
    let seer = element.seen.iter().map(|&seen| reads[seen as usize]).find(|r| r.complete == known);
    let how = if let Some(seer) = seer {
        witness.push(seer.invoke);
        format!("a read of process {} had seen it", history.op(seer.invoke).process())
    } else {
        "the add had been acknowledged".to_owned()
    };
    let end = if name == "lost-element" {
        format!("No read invoked after that one saw {value}: it was lost.")
    } else {
        format!("A later read saw {value} again: the read was stale.")
    };
    witness.sort_unstable();
    Anomaly {
        name: name.into(),
        key: None,
        summary: format!(
            "process {adder} added {value}, and a later read of process {reader} missed it"
        ),
        sentences: vec![
            format!("Process {adder} added {value}."),
            format!(
                "Before process {reader} invoked its read, {how}, so the read must contain {value}."
            ),
            format!("It does not: a contradiction. {end}"),
        ],
        witness,
        edges: Vec::new(),
    }
}

fn duplicated(history: &History, reads: &[Read], value: ValueRef<'_>, read: u32) -> Anomaly {
    let invoke = reads[read as usize].invoke;
    let process = history.op(invoke).process();
    Anomaly {
        name: "duplicate-elements".into(),
        key: None,
        summary: format!("a read of process {process} contains {value} more than once"),
        sentences: vec![format!("Process {process} read {value} twice in one read of a set.")],
        witness: vec![invoke],
        edges: Vec::new(),
    }
}

fn unexpected(
    history: &History,
    reads: &[Read],
    value: ValueRef<'_>,
    element: &Element,
) -> Anomaly {
    let witness: Vec<u32> =
        element.seen.iter().take(1).map(|&seen| reads[seen as usize].invoke).collect();
    let process =
        witness.first().map_or_else(String::new, |&w| history.op(w).process().to_string());
    Anomaly {
        name: "unexpected-element".into(),
        key: None,
        summary: format!("process {process} read {value}, which no add can have added"),
        sentences: vec![format!(
            "Process {process} read {value}, but no add of it can have happened."
        )],
        witness,
        edges: Vec::new(),
    }
}
