//! Tells a certificate in sentences.

use deposed_history::{History, Outcome, ValueRef};
use rustc_hash::FxHashMap;

use super::certificate::{Because, Certificate, Proof};
use super::isolation::Isolation;
use super::level::OrderKind;
use crate::{Anomaly, Edge, EdgeKind};

/// Elements of a long list that are shown at its end.
const ELEMENTS_MAX: usize = 8;

/// Transactions and steps of a long argument that are told; its edges are all there.
const TOLD_MAX: usize = 100;

/// Transactions of a cycle in its headline.
const RING_MAX: usize = 12;

/// Micro-operations of a transaction that are shown.
const MOPS_MAX: usize = 12;

/// The anomaly of a certificate.
pub(crate) fn anomaly(history: &History, certificate: &Certificate<'_>) -> Anomaly {
    let txns = certificate.proof.txns();
    let numbers = (1..).zip(&txns).map(|(number, &txn)| (txn, number)).collect();
    let speaker = Speaker { history, numbers };
    let mut sentences: Vec<String> =
        txns.iter().take(TOLD_MAX).map(|&txn| speaker.introduction(txn)).collect();
    if txns.len() > TOLD_MAX {
        sentences.push(format!("And so on, to T{}.", txns.len()));
    }
    for happened in certificate.happened.iter().take(TOLD_MAX) {
        let (txn, reader) = (speaker.name(happened.txn), happened.reader);
        sentences.push(format!(
            "{txn} must have happened, because {} read {} of {}, which only {txn} wrote.",
            speaker.name(reader),
            happened.value,
            happened.key,
        ));
    }
    let (key, summary) = speaker.argue(&certificate.proof, &mut sentences);
    let mut witness = txns.clone();
    witness.extend(certificate.happened.iter().map(|happened| happened.reader));
    witness.sort_unstable();
    witness.dedup();
    let edges = match &certificate.proof {
        Proof::Cycle(steps) | Proof::NoOrder { known: steps, .. } => steps
            .iter()
            .map(|step| Edge {
                from: step.from,
                to: step.to,
                kind: kind(&step.because),
                because: speaker.because(step.from, step.to, &step.because),
            })
            .collect(),
        _ => Vec::new(),
    };
    Anomaly {
        name: certificate.name.into(),
        key: key.map(|key| key.to_string()),
        summary,
        sentences,
        witness,
        edges,
    }
}

const fn kind(because: &Because<'_>) -> EdgeKind {
    match because {
        Because::RealTime => EdgeKind::RealTime,
        Because::Process => EdgeKind::Process,
        Because::Saw { .. } => EdgeKind::WriteRead,
        Because::Wrote { .. } => EdgeKind::WriteWrite,
        Because::Missed { .. } => EdgeKind::ReadWrite,
    }
}

struct Speaker<'a> {
    history: &'a History,
    /// By transaction: its number, from 1.
    numbers: FxHashMap<u32, usize>,
}

impl Speaker<'_> {
    /// `T3`, or what can be said of a transaction that was not introduced.
    fn name(&self, txn: u32) -> String {
        match self.numbers.get(&txn) {
            Some(number) => format!("T{number}"),
            None => format!("the transaction of op {}", self.history.op(txn).index()),
        }
    }

    fn introduction(&self, txn: u32) -> String {
        let name = self.name(txn);
        let calls = self.history.calls();
        let call = calls.binary_search_by_key(&txn, |call| call.invoke).map(|at| calls[at]);
        let invoke = self.history.op(txn);
        let (process, begin) = (invoke.process(), invoke.index());
        let complete = call.ok().and_then(|call| Some((call.outcome(), call.complete()?)));
        let (value, end) = match complete {
            Some((Outcome::Ok, at)) => {
                let op = self.history.op(at);
                let value = if op.value().is_nil() { invoke.value() } else { op.value() };
                (value, format!("ops {begin} to {}", op.index()))
            }
            Some((Outcome::Fail, at)) => {
                let end = self.history.op(at).index();
                (invoke.value(), format!("ops {begin} to {end}, which failed"))
            }
            _ => (invoke.value(), format!("op {begin}, whose end is unknown")),
        };
        format!("Let {name} = process {process}: {} ({end}).", txn_text(value))
    }

    fn because(&self, from: u32, to: u32, because: &Because<'_>) -> String {
        let (from, to) = (self.name(from), self.name(to));
        match *because {
            Because::RealTime => format!("{from} had returned before {to} was invoked"),
            Because::Process => format!("the same process did {from} and then {to}"),
            Because::Saw { key, value } => {
                format!("{to} read {value} of {key}, which {from} wrote")
            }
            Because::Wrote { key, before, after, reader, seen } => {
                let reader = self.name(reader);
                if seen {
                    format!(
                        "{to} wrote {after} to {key} after {from} wrote {before}, as {reader} read"
                    )
                } else {
                    format!(
                        "{to} wrote {after} to {key}, which nobody ever read, so after {from} wrote \
                         {before}, which {reader} read"
                    )
                }
            }
            Because::Missed { key, after, .. } => {
                format!("{from} read {key} without the {after} that {to} wrote to it")
            }
        }
    }

    /// The sentences of an argument; the key it is about, if one, and its headline.
    fn argue<'h>(
        &self,
        proof: &Proof<'h>,
        sentences: &mut Vec<String>,
    ) -> (Option<ValueRef<'h>>, String) {
        match *proof {
            Proof::Cycle(ref steps) => {
                for (at, step) in steps.iter().enumerate() {
                    if at == TOLD_MAX && at + 1 < steps.len() {
                        sentences.push(format!("And so on, {} times.", steps.len() - 1 - at));
                    }
                    if at >= TOLD_MAX && at + 1 < steps.len() {
                        continue;
                    }
                    let (from, to) = (self.name(step.from), self.name(step.to));
                    let because = self.because(step.from, step.to, &step.because);
                    sentences.push(if at + 1 < steps.len() {
                        format!("Then {from} < {to}, because {because}.")
                    } else {
                        format!("However {from} < {to}, because {because}: a contradiction!")
                    });
                }
                let shown = steps.iter().take(RING_MAX);
                let mut ring: Vec<String> =
                    shown.map(|step| self.ring(step.from, &step.because)).collect();
                if steps.len() > RING_MAX {
                    ring.push("...".into());
                }
                let first = steps.first().map(|step| self.name(step.from)).unwrap_or_default();
                (
                    None,
                    format!("a cycle of {} transactions: {} {first}", steps.len(), ring.join(" ")),
                )
            }
            Proof::NoOrder { ref txns, isolation, order, ref known } => {
                for step in known {
                    let (from, to) = (self.name(step.from), self.name(step.to));
                    let because = self.because(step.from, step.to, &step.because);
                    sentences.push(format!("Then {from} < {to}, because {because}."));
                }
                let what = match isolation {
                    Isolation::Serial => "order, one after the other,",
                    Isolation::Snapshot => "order of snapshots and commits",
                };
                let within = match order {
                    OrderKind::Data => "",
                    OrderKind::Process => " that keeps to the order of processes",
                    OrderKind::RealTime => " that keeps to the order of time",
                };
                sentences.push(format!(
                    "No {what}{within} lets each of these reads see what was written last before it: \
                     all were tried: a contradiction!"
                ));
                (None, format!("no {what}{within} explains what {} transactions read", txns.len()))
            }
            Proof::Aborted { reader, writer, key, value } => {
                let (reader, writer) = (self.name(reader), self.name(writer));
                sentences.push(format!(
                    "{reader} read {value} of {key}, which only {writer} wrote, and {writer} failed: \
                     a contradiction!"
                ));
                (
                    Some(key),
                    format!(
                        "{value} of {key} was read, though the transaction that wrote it failed"
                    ),
                )
            }
            Proof::Intermediate { reader, writer, key, value, next } => {
                let (reader, writer) = (self.name(reader), self.name(writer));
                sentences.push(format!(
                    "{reader} read {value} as the newest of {key}, but {writer}, which wrote it, went \
                     on to write {next}: its state in between was seen."
                ));
                (
                    Some(key),
                    format!(
                        "{value} of {key} was read as the newest, though its transaction went on to write {next}"
                    ),
                )
            }
            Proof::Internal { txn, mop } => {
                let name = self.name(txn);
                sentences.push(format!(
                    "The read in place {} of {name} does not show what {name} itself had read and \
                     written before: a contradiction!",
                    mop + 1
                ));
                (
                    None,
                    format!(
                        "a transaction of process {} does not see its own state",
                        self.history.op(txn).process()
                    ),
                )
            }
            Proof::Future { txn, mop, key, value } => {
                let name = self.name(txn);
                sentences.push(format!(
                    "The read in place {} of {name} shows {value} of {key}, which {name} wrote only \
                     afterwards: a contradiction!",
                    mop + 1
                ));
                (
                    Some(key),
                    format!("{value} of {key} was read before the same transaction wrote it"),
                )
            }
            Proof::DirtyUpdate { failed, txn, reader, key, value, after } => {
                let (failed, txn, reader) = (self.name(failed), self.name(txn), self.name(reader));
                sentences.push(format!(
                    "{reader} read {key} with {value} of {failed}, which failed, below {after} of \
                     {txn}, which did not: {txn} wrote over a state that never was."
                ));
                (Some(key), format!("{after} was written to {key} over {value}, which failed"))
            }
            Proof::LostUpdate { one, other, key } => {
                let (a, b) = (self.name(one), self.name(other));
                sentences.push(format!(
                    "{a} and {b} read the same version of {key}, and both then wrote {key}: \
                     whichever was first, the other did not see it, and its update is lost."
                ));
                (
                    Some(key),
                    format!(
                        "two transactions read the same version of {key} and both wrote over it"
                    ),
                )
            }
            Proof::Duplicate { reader, key, value } => {
                let reader = self.name(reader);
                sentences.push(format!(
                    "{reader} read {value} twice in {key}, but it was appended once: a contradiction!"
                ));
                (Some(key), format!("{key} holds {value} twice"))
            }
            Proof::Incompatible { one, other, key } => {
                let (a, b) = (self.name(one), self.name(other));
                sentences.push(format!(
                    "{a} and {b} read {key}, and neither read begins with the other, though elements \
                     are only ever appended: a contradiction!"
                ));
                (Some(key), format!("two reads of {key} can come from no one order of appends"))
            }
            Proof::Garbage { reader, key, value } => {
                let reader = self.name(reader);
                sentences.push(format!(
                    "{reader} read {value} of {key}, which nobody wrote: a contradiction!"
                ));
                (Some(key), format!("{value} of {key} was read, which nobody wrote"))
            }
            Proof::OwnOrder { txn, reader, key, first, second } => {
                let (txn, reader) = (self.name(txn), self.name(reader));
                sentences.push(format!(
                    "{txn} wrote {first} and then {second} to {key}, but {reader} read {second} \
                     without {first} below: a contradiction!"
                ));
                (
                    Some(key),
                    format!(
                        "{second} of {key} was read without {first}, which the same transaction wrote first"
                    ),
                )
            }
        }
    }

    fn ring(&self, from: u32, because: &Because<'_>) -> String {
        let arrow = match kind(because) {
            EdgeKind::RealTime => "rt",
            EdgeKind::Process => "p",
            EdgeKind::WriteRead => "wr",
            EdgeKind::WriteWrite => "ww",
            _ => "rw",
        };
        format!("{} -{arrow}->", self.name(from))
    }
}

/// A transaction in words: `append 5 1, r 6 [1 2]`.
fn txn_text(value: ValueRef<'_>) -> String {
    let Some(mops) = value.as_list() else { return value.to_string() };
    let mut texts: Vec<String> = mops.iter().take(MOPS_MAX).map(mop_text).collect();
    if mops.len() > MOPS_MAX {
        texts.push(format!("and {} more", mops.len() - MOPS_MAX));
    }
    if texts.is_empty() { "nothing".into() } else { texts.join(", ") }
}

fn mop_text(mop: ValueRef<'_>) -> String {
    let Some(parts) = mop.as_list() else { return mop.to_string() };
    let parts = parts.iter().map(|part| match part {
        ValueRef::Str(text) | ValueRef::Keyword(text) => text.to_owned(),
        ValueRef::List(list) if list.len() > ELEMENTS_MAX => {
            let last: Vec<String> =
                list.iter().skip(list.len() - ELEMENTS_MAX).map(|v| v.to_string()).collect();
            format!("[({} before) {}]", list.len() - ELEMENTS_MAX, last.join(" "))
        }
        part => part.to_string(),
    });
    parts.collect::<Vec<_>>().join(" ")
}
