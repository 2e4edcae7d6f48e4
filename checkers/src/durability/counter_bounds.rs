//! Every read of a counter lies between what must and what may have been added.
//!
//! A read sees every add that completed before it was invoked, and may see any that was invoked
//! before it completed. So its value lies between the sum of the former plus all negative amounts of
//! the latter, and the same plus all positive amounts. This is necessary, not sufficient: the
//! linearizable `counter` model decides exactly, at the price of a search.

use deposed_history::{History, Outcome, ValueRef};

use super::planted::{Bug, planted};
use super::{LISTED_MAX, is_f, vacuous, verify};
use crate::analysis::with_beginning;
use crate::{Analysis, Anomaly, Budget, Checker, Exhausted, Undecided};

/// Judges `add` (an amount, which may be negative, or a list of amounts added as one) and `read`.
#[derive(Debug, Clone, Copy, Default)]
pub struct CounterBounds;

/// What the sweep meets, in the order of the history.
#[derive(Debug, Clone, Copy)]
enum Step {
    AddBegins { amount: i128 },
    AddEnds { amount: i128 },
    ReadBegins { read: usize },
    ReadEnds { read: usize },
}

/// A definite read and the bounds that hold for it.
#[derive(Debug, Clone, Copy)]
struct Read {
    invoke: u32,
    complete: u32,
    value: i128,
    lower: i128,
    upper: i128,
}

impl Checker for CounterBounds {
    fn name(&self) -> &str {
        "counter-bounds"
    }

    fn check(&self, history: &History, budget: &Budget) -> Analysis {
        with_beginning(history, "are within the bounds", |history| {
            self.judge(history, budget)
                .unwrap_or_else(|why| Analysis::exhausted(self.name(), history, why))
        })
    }
}

/// Bytes a call takes, as vectors grow.
const BYTES_PER_CALL: u64 = 3 * (2 * size_of::<(u32, Step)>() + size_of::<Read>()) as u64;

impl CounterBounds {
    fn judge(&self, history: &History, budget: &Budget) -> Result<Analysis, Exhausted> {
        let _memory = budget.hold(history.calls().len() as u64 * BYTES_PER_CALL)?;
        let Collected { mut steps, mut reads, odd_reads, odd_add } = collect(history, budget)?;
        steps.sort_unstable_by_key(|&(position, _)| position);
        sweep(&steps, &mut reads);
        // What was added by then is not known.
        reads.retain(|read| odd_add.is_none_or(|odd| read.complete < odd));
        let mut anomalies = odd_reads;
        let mut count = anomalies.len() as u64;
        anomalies.truncate(LISTED_MAX);
        for read in reads.iter().filter(|r| r.value < r.lower || r.value > r.upper) {
            count += 1;
            if anomalies.len() < LISTED_MAX {
                anomalies.push(out_of_bounds(history, read));
            }
        }
        let mut undecided = Vec::new();
        if let Some(invoke) = odd_add {
            let op = history.op(invoke);
            let reason = format!("op {}: no amounts can be added of {}", op.index(), op.value());
            undecided.push(Undecided::since(history, invoke, reason));
        } else if anomalies.is_empty() {
            undecided.extend(vacuous(history, &["add", "read"]));
        }
        let summary = format!("{} reads, {count} out of bounds", reads.len());
        let analysis = Analysis {
            anomaly_count: count,
            ..Analysis::from_findings(self.name(), summary, anomalies, undecided)
        };
        Ok(analysis.verified(history, budget, |anomaly| verify::counter(history, anomaly)))
    }
}

/// What a history says of a counter.
#[derive(Default)]
struct Collected {
    /// Adds and reads by position.
    steps: Vec<(u32, Step)>,
    reads: Vec<Read>,
    /// Reads whose value is no number.
    odd_reads: Vec<Anomaly>,
    /// The first add whose amount is none.
    odd_add: Option<u32>,
}

fn collect(history: &History, budget: &Budget) -> Result<Collected, Exhausted> {
    let (mut adds, mut is_read) = (is_f(history, "add"), is_f(history, "read"));
    let Collected { mut steps, mut reads, mut odd_reads, mut odd_add } = Collected::default();
    for call in budget.pace(history.calls()) {
        let call = call?;
        if adds(call.invoke) {
            if call.outcome() == Outcome::Fail && !planted(Bug::FailedIncrementsCount) {
                continue;
            }
            let Some(amount) = amount(history.op(call.invoke).value()) else {
                odd_add.get_or_insert(call.invoke);
                continue;
            };
            let amount = if planted(Bug::SignsIgnored) { amount.abs() } else { amount };
            steps.push((call.invoke, Step::AddBegins { amount }));
            let ended = call.outcome() == Outcome::Ok || planted(Bug::OpenAddsEnd);
            if let Some(complete) = call.complete().filter(|_| ended) {
                steps.push((complete, Step::AddEnds { amount }));
            }
        } else if is_read(call.invoke) {
            let (Outcome::Ok, Some(complete)) = (call.outcome(), call.complete()) else { continue };
            let seen = history.op(complete).value();
            let value = match seen {
                ValueRef::Nil => 0,
                ValueRef::Int(n) => i128::from(n),
                _ => {
                    odd_reads.push(not_a_number(history, call.invoke, seen));
                    continue;
                }
            };
            let read = reads.len();
            steps.push((call.invoke, Step::ReadBegins { read }));
            steps.push((complete, Step::ReadEnds { read }));
            reads.push(Read { invoke: call.invoke, complete, value, lower: 0, upper: 0 });
        }
    }
    Ok(Collected { steps, reads, odd_reads, odd_add })
}

/// An amount, or the sum of several that were added as one.
pub(super) fn amount(value: ValueRef<'_>) -> Option<i128> {
    match value {
        ValueRef::Int(n) => Some(i128::from(n)),
        ValueRef::List(items) => {
            items.iter().map(|item| item.as_int().map(i128::from)).sum::<Option<i128>>()
        }
        _ => None,
    }
}

/// One pass with four running sums. A read's lower bound is fixed when it begins, from what is
/// certain, and lowered by every negative amount that may still be seen until it ends; its upper
/// bound likewise. `may` sums only grow, so both are differences of sums at its two ends.
fn sweep(steps: &[(u32, Step)], reads: &mut [Read]) {
    let (mut certain_plus, mut certain_minus) = (0i128, 0i128);
    let (mut begun_plus, mut begun_minus) = (0i128, 0i128);
    for &(_, step) in steps {
        match step {
            Step::AddBegins { amount } if amount >= 0 => begun_plus += amount,
            Step::AddBegins { amount } => begun_minus += amount,
            Step::AddEnds { amount } if amount >= 0 => certain_plus += amount,
            Step::AddEnds { amount } => certain_minus += amount,
            Step::ReadBegins { .. } if planted(Bug::CertainAddsIgnored) => {}
            Step::ReadEnds { read } if planted(Bug::AddsUnderWayIgnored) => {
                reads[read].lower += certain_minus;
                reads[read].upper += certain_plus;
            }
            Step::ReadBegins { read } => {
                reads[read].lower = certain_plus;
                reads[read].upper = certain_minus;
            }
            Step::ReadEnds { read } => {
                // Every negative amount begun by now may be seen; those certain at the beginning
                // must be, and are among them. Likewise for positive ones.
                reads[read].lower += begun_minus;
                reads[read].upper += begun_plus;
            }
        }
    }
}

fn out_of_bounds(history: &History, read: &Read) -> Anomaly {
    let process = history.op(read.invoke).process();
    let Read { invoke, value, lower, upper, .. } = *read;
    Anomaly {
        name: "counter-out-of-bounds".into(),
        key: None,
        summary: format!("process {process} read {value}, outside of {lower} to {upper}"),
        sentences: vec![
            format!("Process {process} read {value}."),
            format!(
                "The adds that completed before that read began, and any choice of those that were \
                 under way or indeterminate, make {lower} at the least and {upper} at the most: \
                 a contradiction."
            ),
        ],
        witness: vec![invoke],
        edges: Vec::new(),
    }
}

fn not_a_number(history: &History, invoke: u32, seen: ValueRef<'_>) -> Anomaly {
    let process = history.op(invoke).process();
    Anomaly {
        name: "counter-not-a-number".into(),
        key: None,
        summary: format!("process {process} read {seen}, which is no whole number"),
        sentences: vec![format!("Process {process} read {seen}, which no sum of amounts is.")],
        witness: vec![invoke],
        edges: Vec::new(),
    }
}
