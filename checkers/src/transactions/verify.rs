//! Checks certificates against the raw history, edge by edge. Nothing here comes from the search:
//! only [`History`] and what the certificate claims.

use deposed_history::{Call, History, ListRef, Outcome, ValueRef};
use rustc_hash::{FxHashMap, FxHashSet};

use super::certificate::{Because, Certificate, Proof, Step};
use super::isolation::Isolation;
use super::level::OrderKind;
use super::replay::{self, RawTxn};

/// What a history's transactions do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Append to lists.
    Append,
    /// Write registers.
    Register,
}

impl Workload {
    pub(crate) const fn write(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Register => "w",
        }
    }

    /// Whether a read shows a value.
    fn shows(self, read: ValueRef<'_>, value: ValueRef<'_>) -> bool {
        match self {
            Self::Append => items(read).iter().flat_map(|l| l.iter()).any(|v| v == value),
            Self::Register => read == value,
        }
    }

    /// The newest value a read shows.
    fn newest(self, read: ValueRef<'_>) -> ValueRef<'_> {
        match self {
            Self::Append => items(read)
                .and_then(|list| list.get(list.len().checked_sub(1)?))
                .unwrap_or(ValueRef::Nil),
            Self::Register => read,
        }
    }
}

fn items(read: ValueRef<'_>) -> Option<ListRef<'_>> {
    read.as_list()
}

/// A micro-operation as it stands in the history: what it does, its key, its value.
pub(crate) type RawMop<'h> = (&'h str, ValueRef<'h>, ValueRef<'h>);

/// What stands against a certificate.
type Refused = String;

/// A key and a value.
type Pair<'h> = (ValueRef<'h>, ValueRef<'h>);

struct Raw<'h> {
    history: &'h History,
    workload: Workload,
    only_txns: bool,
    /// Whether what was read may never have been committed.
    dirty_reads: bool,
    /// Who wrote the pairs in question: invocations and outcomes.
    writers: FxHashMap<Pair<'h>, Vec<(u32, Outcome)>>,
    /// Those pairs in question that some acknowledged read shows.
    shown: FxHashSet<Pair<'h>>,
}

/// For each certificate, what is wrong with it. Where dirty reads are allowed, what was seen of an
/// indeterminate transaction does not prove that it happened.
pub(crate) fn verify<'h>(
    history: &'h History,
    workload: Workload,
    dirty_reads: bool,
    certificates: &[Certificate<'h>],
) -> Vec<Result<(), Refused>> {
    if certificates.is_empty() {
        return Vec::new();
    }
    let mut raw = Raw {
        history,
        workload,
        dirty_reads,
        only_txns: history.symbol("txn").is_some_and(|txn| {
            history.calls().iter().any(|call| history.op(call.invoke).f_symbol() == txn)
        }),
        writers: FxHashMap::default(),
        shown: FxHashSet::default(),
    };
    let pairs: FxHashSet<Pair<'h>> = certificates.iter().flat_map(pairs).collect();
    let unseen: FxHashSet<Pair<'h>> = certificates.iter().flat_map(Raw::claimed_unseen).collect();
    raw.collect(&pairs, &unseen);
    certificates.iter().map(|certificate| raw.verify(certificate)).collect()
}

/// The pairs whose writers matter to a certificate.
fn pairs<'h>(certificate: &Certificate<'h>) -> Vec<Pair<'h>> {
    let mut pairs: Vec<Pair<'h>> = certificate.happened.iter().map(|h| (h.key, h.value)).collect();
    match &certificate.proof {
        Proof::Cycle(steps) | Proof::NoOrder { known: steps, .. } => {
            for step in steps {
                match step.because {
                    Because::Saw { key, value } => pairs.push((key, value)),
                    Because::Wrote { key, before, after, .. } => {
                        pairs.extend([(key, before), (key, after)]);
                    }
                    Because::Missed { key, after, .. } => pairs.push((key, after)),
                    Because::RealTime | Because::Process => {}
                }
            }
        }
        &Proof::Aborted { key, value, .. }
        | &Proof::Future { key, value, .. }
        | &Proof::Duplicate { key, value, .. }
        | &Proof::Garbage { key, value, .. } => pairs.push((key, value)),
        &Proof::Intermediate { key, value, next, .. } => pairs.extend([(key, value), (key, next)]),
        &Proof::DirtyUpdate { key, value, after, .. } => pairs.extend([(key, value), (key, after)]),
        &Proof::OwnOrder { key, first, second, .. } => pairs.extend([(key, first), (key, second)]),
        Proof::Internal { .. } | Proof::LostUpdate { .. } | Proof::Incompatible { .. } => {}
    }
    pairs
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> Refused) -> Result<(), Refused> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

impl<'h> Raw<'h> {
    fn call(&self, invoke: u32) -> Result<Call, Refused> {
        let calls = self.history.calls();
        let found = calls.binary_search_by_key(&invoke, |call| call.invoke);
        found.map(|at| calls[at]).map_err(|_| format!("no call begins at {invoke}"))
    }

    fn mops(&self, call: &Call) -> Vec<RawMop<'h>> {
        self.each_mop(call).collect()
    }

    fn each_mop(&self, call: &Call) -> impl Iterator<Item = RawMop<'h>> + use<'h> {
        let completed = call.complete().filter(|_| call.outcome() == Outcome::Ok);
        let value = completed.map_or(ValueRef::Nil, |at| self.history.op(at).value());
        let value = if value.is_nil() { self.history.op(call.invoke).value() } else { value };
        let mop = |mop: ValueRef<'h>| {
            let parts = mop.as_list()?;
            Some((parts.get(0)?.as_str()?, parts.get(1)?, parts.get(2).unwrap_or(ValueRef::Nil)))
        };
        value.as_list().into_iter().flat_map(move |list| list.iter().filter_map(mop))
    }

    /// Pairs that a certificate claims nobody saw.
    fn claimed_unseen(certificate: &Certificate<'h>) -> Vec<Pair<'h>> {
        let Proof::Cycle(steps) = &certificate.proof else { return Vec::new() };
        steps
            .iter()
            .filter_map(|step| match step.because {
                Because::Wrote { key, after, seen: false, .. } => Some((key, after)),
                _ => None,
            })
            .collect()
    }

    /// One pass over the history for what cannot be told from single transactions.
    fn collect(&mut self, pairs: &FxHashSet<Pair<'h>>, unseen: &FxHashSet<Pair<'h>>) {
        let keys: FxHashSet<ValueRef<'h>> = pairs.iter().map(|&(key, _)| key).collect();
        let doubted: FxHashSet<ValueRef<'h>> = unseen.iter().map(|&(key, _)| key).collect();
        let write = self.workload.write();
        let txn = self.history.symbol("txn");
        // Few calls touch a key in question, and that is quickly seen.
        let touches = |mop| {
            let parts = self.history.word_list(mop);
            let key = parts.and_then(|parts| parts.get(1));
            key.is_some_and(|key| keys.contains(&self.history.view(key)))
        };
        for call in self.history.calls() {
            let invoked = self.history.op(call.invoke);
            let asked = self.history.word_list(invoked.word());
            let completed = call.complete().map(|at| self.history.op(at).word());
            let answered = completed.and_then(|word| self.history.word_list(word));
            let mut mops = asked.into_iter().chain(answered).flat_map(|mops| mops.iter());
            if self.only_txns && Some(invoked.f_symbol()) != txn || !mops.any(touches) {
                continue;
            }
            for (f, key, value) in self.each_mop(call) {
                if !keys.contains(&key) {
                    continue;
                }
                if f == write && pairs.contains(&(key, value)) {
                    self.writers
                        .entry((key, value))
                        .or_default()
                        .push((call.invoke, call.outcome()));
                } else if f == "r" && call.outcome() == Outcome::Ok && doubted.contains(&key) {
                    let shows = |&&(k, v): &&Pair<'h>| k == key && self.workload.shows(value, v);
                    let shown: Vec<Pair<'h>> = unseen.iter().filter(shows).copied().collect();
                    self.shown.extend(shown);
                }
            }
        }
    }

    /// What an acknowledged transaction read of a key.
    fn reads(&self, invoke: u32, key: ValueRef<'h>) -> Result<Vec<ValueRef<'h>>, Refused> {
        let call = self.call(invoke)?;
        ensure(call.outcome() == Outcome::Ok, || format!("the call at {invoke} did not succeed"))?;
        let reads = self.mops(&call).into_iter().filter(|&(f, k, _)| f == "r" && k == key);
        Ok(reads.map(|(_, _, read)| read).collect())
    }

    /// Whether a transaction alone, of those that did not fail, wrote a value, and once.
    fn wrote(&self, invoke: u32, key: ValueRef<'h>, value: ValueRef<'h>) -> Result<(), Refused> {
        let writers = self.writers.get(&(key, value)).map(Vec::as_slice).unwrap_or_default();
        let mut possible = writers.iter().filter(|(_, outcome)| *outcome != Outcome::Fail);
        let alone =
            possible.next().is_some_and(|&(by, _)| by == invoke) && possible.next().is_none();
        ensure(alone, || format!("not only the call at {invoke} wrote {value} to {key}"))
    }

    fn saw(&self, invoke: u32, key: ValueRef<'h>, value: ValueRef<'h>) -> Result<(), Refused> {
        let reads = self.reads(invoke, key)?;
        let saw = reads.iter().any(|&read| self.workload.shows(read, value));
        ensure(saw, || format!("the call at {invoke} did not read {value} of {key}"))
    }

    fn saw_newest(
        &self,
        invoke: u32,
        key: ValueRef<'h>,
        value: ValueRef<'h>,
    ) -> Result<(), Refused> {
        let reads = self.reads(invoke, key)?;
        let saw = reads.iter().any(|&read| self.workload.newest(read) == value);
        ensure(saw, || format!("{value} was not the newest the call at {invoke} read of {key}"))
    }

    /// Whether a transaction happened.
    fn happened(&self, certificate: &Certificate<'h>, invoke: u32) -> Result<(), Refused> {
        match self.call(invoke)?.outcome() {
            Outcome::Ok => Ok(()),
            Outcome::Fail => Err(format!("the call at {invoke} failed")),
            Outcome::Info if self.dirty_reads => {
                Err(format!("what was seen of the call at {invoke} may not have been committed"))
            }
            Outcome::Info => {
                let mut reasons = certificate.happened.iter().filter(|h| h.txn == invoke);
                let reason =
                    reasons.next().ok_or(format!("the call at {invoke} may not have been"))?;
                self.wrote(invoke, reason.key, reason.value)?;
                self.saw(reason.reader, reason.key, reason.value)
            }
        }
    }

    fn failed(&self, invoke: u32, key: ValueRef<'h>, value: ValueRef<'h>) -> Result<(), Refused> {
        let writers = self.writers.get(&(key, value)).map(Vec::as_slice).unwrap_or_default();
        let only = writers.iter().all(|(_, outcome)| *outcome == Outcome::Fail);
        let this = writers.iter().any(|(by, _)| *by == invoke);
        ensure(only && this, || {
            format!("not only failed calls like {invoke} wrote {value} to {key}")
        })
    }

    fn verify(&self, certificate: &Certificate<'h>) -> Result<(), Refused> {
        let Certificate { name, ref proof, .. } = *certificate;
        ensure(is_name_of(name, proof), || format!("that does not show a {name}"))?;
        match certificate.proof {
            Proof::Cycle(ref steps) => self.verify_cycle(certificate, steps),
            Proof::NoOrder { ref txns, isolation, order, ref known } => {
                known.iter().try_for_each(|step| self.verify_step(certificate, step))?;
                let mut raw = Vec::with_capacity(txns.len());
                for &txn in txns {
                    self.happened(certificate, txn)?;
                    let call = self.call(txn)?;
                    let ok = call.outcome() == Outcome::Ok;
                    let process = self.history.op(txn).process();
                    let complete = call.complete().filter(|_| ok);
                    raw.push(RawTxn { mops: self.mops(&call), invoke: txn, complete, process });
                }
                // Whoever reads a version comes after its writer, and so does who writes over it.
                let follows = |because: &Because<'_>| {
                    matches!(because, Because::Saw { .. } | Because::Wrote { .. })
                };
                let known: Vec<(u32, u32)> = known
                    .iter()
                    .filter(|step| follows(&step.because))
                    .map(|step| (step.from, step.to))
                    .collect();
                match replay::is_explained(&raw, &known, self.workload, isolation, order) {
                    Some(explained) => ensure(!explained, || "some order explains it".into()),
                    None => Err("there are too many orders to try".into()),
                }
            }
            Proof::Aborted { reader, writer, key, value } => {
                self.failed(writer, key, value)?;
                self.saw(reader, key, value)
            }
            Proof::Intermediate { reader, writer, key, value, next } => {
                self.wrote(writer, key, value)?;
                self.wrote(writer, key, next)?;
                ensure(writer != reader, || "a transaction may read what it wrote".into())?;
                ensure(self.wrote_before(writer, key, value, next)?, || "it was the last".into())?;
                self.saw_newest(reader, key, value)
            }
            Proof::Internal { txn, mop } => {
                self.reads_of(txn)?;
                let fits = self.fits_own(txn, mop)?;
                ensure(!fits, || format!("the read {mop} of the call at {txn} is as expected"))
            }
            Proof::Future { txn, mop, key, value } => {
                self.wrote(txn, key, value)?;
                let mops = self.reads_of(txn)?;
                let &(f, k, read) = mops.get(mop as usize).ok_or("there is no such read")?;
                let saw = f == "r" && k == key && self.workload.shows(read, value);
                let later = |&(f, k, v): &RawMop<'h>| f != "r" && k == key && v == value;
                let wrote = mops[mop as usize..].iter().any(later);
                ensure(saw && wrote, || format!("the call at {txn} did not foresee {value}"))
            }
            Proof::DirtyUpdate { failed, txn, reader, key, value, after } => {
                self.failed(failed, key, value)?;
                self.wrote(txn, key, after)?;
                self.happened(certificate, txn)?;
                ensure(self.in_order(reader, key, value, after)?, || "not in that order".into())
            }
            Proof::LostUpdate { one, other, key } => {
                let (a, b) = (self.updated(one, key)?, self.updated(other, key)?);
                ensure(one != other && same_version(a, b), || "they read different versions".into())
            }
            Proof::Duplicate { reader, key, value } => {
                self.has_lists()?;
                let writers =
                    self.writers.get(&(key, value)).map(Vec::as_slice).unwrap_or_default();
                let writes =
                    writers.iter().filter(|(_, outcome)| *outcome != Outcome::Fail).count();
                let most = self.reads(reader, key)?.into_iter().map(|read| {
                    items(read).map_or(0, |list| list.iter().filter(|v| *v == value).count())
                });
                ensure(most.max() > Some(writes.max(1)), || "no element is there twice".into())
            }
            Proof::Incompatible { one, other, key } => {
                self.has_lists()?;
                let (a, b) = (self.reads(one, key)?, self.reads(other, key)?);
                let forks = |(a, b): (ListRef<'_>, ListRef<'_>)| {
                    a.iter().zip(b.iter()).any(|(a, b)| a != b)
                };
                let mut pairs = a.iter().flat_map(|&a| b.iter().map(move |&b| (a, b)));
                let forked = pairs.any(|(a, b)| items(a).zip(items(b)).is_some_and(forks));
                ensure(forked, || "one read begins with the other".into())
            }
            Proof::Garbage { reader, key, value } => {
                let written = self.writers.contains_key(&(key, value));
                ensure(!written, || format!("{value} was written to {key}"))?;
                self.saw(reader, key, value)
            }
            Proof::OwnOrder { txn, reader, key, first, second } => {
                self.has_lists()?;
                self.wrote(txn, key, first)?;
                self.wrote(txn, key, second)?;
                self.saw(reader, key, second)?;
                ensure(self.wrote_before(txn, key, first, second)?, || "not in that order".into())?;
                let below = self.in_order(reader, key, first, second)?;
                ensure(!below, || "the read shows both in order".into())
            }
        }
    }

    fn verify_cycle(
        &self,
        certificate: &Certificate<'h>,
        steps: &[Step<'h>],
    ) -> Result<(), Refused> {
        ensure(steps.len() > 1, || "a cycle has two steps at the least".into())?;
        for (at, step) in steps.iter().enumerate() {
            let next = &steps[(at + 1) % steps.len()];
            ensure(step.to == next.from, || format!("step {at} does not lead on to the next"))?;
            self.verify_step(certificate, step)?;
        }
        let is_rw = |at: usize| matches!(steps[at % steps.len()].because, Because::Missed { .. });
        let has = |f: fn(&Because<'_>) -> bool| steps.iter().any(|step| f(&step.because));
        let base = match (0..steps.len()).filter(|&at| is_rw(at)).count() {
            0 if has(|b| matches!(b, Because::Saw { .. })) => "G1c",
            0 => "G0",
            1 => "G-single-item",
            _ if (0..steps.len()).any(|at| is_rw(at) && is_rw(at + 1)) => "G2-item",
            _ => "G-nonadjacent-item",
        };
        let suffix = if has(|b| matches!(b, Because::RealTime)) {
            "-realtime"
        } else if has(|b| matches!(b, Because::Process)) {
            "-process"
        } else {
            ""
        };
        let name = format!("{base}{suffix}");
        let allowed = name == certificate.name || is_cycle_of(certificate.name, steps);
        ensure(allowed, || format!("it is a {name}"))
    }

    fn verify_step(&self, certificate: &Certificate<'h>, step: &Step<'h>) -> Result<(), Refused> {
        let Step { from, to, because } = *step;
        self.happened(certificate, from)?;
        self.happened(certificate, to)?;
        match because {
            Because::RealTime | Because::Process => {
                let call = self.call(from)?;
                let before = call.complete().filter(|_| call.outcome() == Outcome::Ok);
                let ended = before.is_some_and(|complete| complete < to);
                let process = |position| self.history.op(position).process();
                let same = matches!(because, Because::RealTime) || process(from) == process(to);
                ensure(ended && same, || format!("{from} had not returned before {to} began"))
            }
            Because::Saw { key, value } => {
                self.wrote(from, key, value)?;
                self.saw_newest(to, key, value)
            }
            Because::Wrote { key, before, after, reader, seen } => {
                self.wrote(from, key, before)?;
                self.wrote(to, key, after)?;
                self.saw(reader, key, before)?;
                let later = if seen {
                    self.in_order(reader, key, before, after)?
                } else {
                    !self.shown.contains(&(key, after))
                };
                ensure(later, || format!("{after} may be before {before}"))
            }
            Because::Missed { key, mop, after } => {
                self.wrote(to, key, after)?;
                let mops = self.reads_of(from)?;
                let &(f, k, read) = mops.get(mop as usize).ok_or("there is no such read")?;
                // A register that is not the initial one may have been written before or after.
                let tells = self.workload == Workload::Append || read.is_nil();
                let missed = f == "r" && k == key && tells && !self.workload.shows(read, after);
                ensure(missed, || format!("the call at {from} did not miss {after}"))
            }
        }
    }

    /// The micro-operations of an acknowledged transaction.
    fn reads_of(&self, invoke: u32) -> Result<Vec<RawMop<'h>>, Refused> {
        let call = self.call(invoke)?;
        ensure(call.outcome() == Outcome::Ok, || format!("the call at {invoke} did not succeed"))?;
        Ok(self.mops(&call))
    }

    /// Whether a transaction wrote one value to a key before another.
    fn wrote_before(
        &self,
        invoke: u32,
        key: ValueRef<'h>,
        first: ValueRef<'h>,
        second: ValueRef<'h>,
    ) -> Result<bool, Refused> {
        let mops = self.mops(&self.call(invoke)?);
        let at = |value| mops.iter().position(|&(f, k, v)| f != "r" && k == key && v == value);
        Ok(at(first).zip(at(second)).is_some_and(|(first, second)| first < second))
    }

    /// Refuses registers: a read of one shows nothing of what was there before.
    fn has_lists(&self) -> Result<(), Refused> {
        ensure(self.workload == Workload::Append, || "a register has no elements".into())
    }

    /// Whether a read of a transaction shows one value below another.
    fn in_order(
        &self,
        reader: u32,
        key: ValueRef<'h>,
        below: ValueRef<'h>,
        above: ValueRef<'h>,
    ) -> Result<bool, Refused> {
        let in_order = |list: ListRef<'h>| {
            let at = |value| list.iter().position(|v| v == value);
            at(below).zip(at(above)).is_some_and(|(below, above)| below < above)
        };
        Ok(self.reads(reader, key)?.into_iter().filter_map(items).any(in_order))
    }

    /// What a transaction read of a key before it wrote it.
    fn updated(&self, invoke: u32, key: ValueRef<'h>) -> Result<ValueRef<'h>, Refused> {
        let mops = self.reads_of(invoke)?;
        let mut of_key = mops.iter().filter(|&&(_, k, _)| k == key);
        match of_key.next() {
            Some(&("r", _, read)) if of_key.any(|&(f, ..)| f != "r") => Ok(read),
            _ => Err(format!("the call at {invoke} did not read {key} and then write it")),
        }
    }

    /// Whether a read is what the transaction's own reads and writes before it leave.
    fn fits_own(&self, invoke: u32, mop: u32) -> Result<bool, Refused> {
        let mops = self.mops(&self.call(invoke)?);
        let &(f, key, read) = mops.get(mop as usize).ok_or("there is no such read")?;
        ensure(f == "r", || format!("micro-operation {mop} of the call at {invoke} is no read"))?;
        let before = mops[..mop as usize].iter().filter(|&&(_, k, _)| k == key);
        if self.workload == Workload::Register {
            return Ok(before.into_iter().next_back().is_none_or(|&(_, _, value)| value == read));
        }
        // A list of which the beginning may be unknown.
        let (mut expected, mut whole): (Vec<ValueRef<'h>>, bool) = (Vec::new(), false);
        for &(f, _, value) in before {
            if f == "r" {
                expected = items(value).map(|list| list.iter().collect()).unwrap_or_default();
                whole = true;
            } else {
                expected.push(value);
            }
        }
        let seen: Vec<ValueRef<'h>> =
            items(read).map(|list| list.iter().collect()).unwrap_or_default();
        Ok(if whole { seen == expected } else { seen.ends_with(&expected) })
    }
}

/// Whether a proof, if it holds, is one of an anomaly. Of cycles that is told by their steps.
fn is_name_of(anomaly: &str, proof: &Proof<'_>) -> bool {
    let serial: &[&str] = &["view-serializable-cycle-exists", "1SR-cycle-exists"];
    let names: &[&str] = match *proof {
        Proof::Cycle(_) => return true,
        Proof::NoOrder { isolation, order, .. } => match (isolation, order) {
            (Isolation::Serial, OrderKind::Data) => &[
                "PL-2.99-cycle-exists",
                "PL-3-cycle-exists",
                "view-serializable-cycle-exists",
                "1SR-cycle-exists",
            ],
            (Isolation::Serial, OrderKind::Process) => {
                &["strong-session-serializable-cycle-exists"]
            }
            (Isolation::Serial, OrderKind::RealTime) => &["PL-SS-cycle-exists"],
            (Isolation::Snapshot, OrderKind::Data) => &["PL-SI-cycle-exists"],
            (Isolation::Snapshot, OrderKind::Process) => {
                &["strong-session-snapshot-isolation-cycle-exists"]
            }
            (Isolation::Snapshot, OrderKind::RealTime) => {
                &["strong-snapshot-isolation-cycle-exists"]
            }
        },
        Proof::Aborted { .. } => &["G1a"],
        Proof::Intermediate { .. } => &["G1b"],
        Proof::Internal { .. } => &["internal"],
        Proof::Future { .. } => &["future-read"],
        Proof::DirtyUpdate { .. } => &["dirty-update"],
        Proof::LostUpdate { .. } => &["lost-update"],
        Proof::Duplicate { .. } => &["duplicate-elements"],
        Proof::Incompatible { .. } => &["incompatible-order"],
        Proof::Garbage { .. } => &["garbage-read"],
        Proof::OwnOrder { .. } => &["cyclic-versions"],
    };
    // Whatever no order of snapshots or of commits explains, no serial one does.
    let found_at_once = !matches!(proof, Proof::NoOrder { .. });
    names.contains(&anomaly) || found_at_once && serial.contains(&anomaly)
}

/// Whether a cycle rules out the level that an anomaly is named after.
fn is_cycle_of(anomaly: &str, steps: &[Step<'_>]) -> bool {
    let is_rw = |at: usize| matches!(steps[at % steps.len()].because, Because::Missed { .. });
    let is_wr = |at: usize| matches!(steps[at % steps.len()].because, Because::Saw { .. });
    let is_ww = |at: usize| matches!(steps[at % steps.len()].because, Because::Wrote { .. });
    let all = || 0..steps.len();
    let one_rw = all().filter(|&at| is_rw(at)).count() == 1;
    match anomaly {
        // Somebody missed a write of one it read from, ...
        "read-atomic-cycle-exists" => steps.len() == 2 && one_rw && all().any(is_wr),
        // ... or of one it saw through others.
        "causal-cerone-cycle-exists" => one_rw && all().all(|at| is_rw(at) || is_wr(at)),
        // Each rw starts from a snapshot that the wr before it belongs to.
        "prefix-cycle-exists" => {
            all().all(|at| is_rw(at) || is_wr(at) || is_ww(at))
                && all().all(|at| !is_rw(at + 1) || is_wr(at))
        }
        "parallel-snapshot-isolation-cycle-exists" => {
            one_rw && all().all(|at| is_rw(at) || is_wr(at) || is_ww(at))
        }
        "view-serializable-cycle-exists" | "1SR-cycle-exists" => {
            all().all(|at| is_rw(at) || is_wr(at) || is_ww(at))
        }
        _ => breaks_session(anomaly, steps),
    }
}

/// Whether a cycle is one of a session that breaks a guarantee, of one key alone.
fn breaks_session(anomaly: &str, steps: &[Step<'_>]) -> bool {
    use Because::{Missed, Process, Saw, Wrote};
    let because: Vec<Because<'_>> = steps.iter().map(|step| step.because).collect();
    match (anomaly, because.as_slice()) {
        // It saw a write, and then did not.
        (
            "monotonic-reads-cycle-exists",
            [Saw { key, value }, Process, Missed { key: missed, after, .. }],
        ) => (key, value) == (missed, after),
        // It did not see its own write.
        ("read-your-writes-cycle-exists", [Process, Missed { .. }]) => true,
        // Its second write was seen below its first one, ...
        ("monotonic-writes-cycle-exists", [Process, Wrote { seen, .. }]) => *seen,
        // ... or below one that it had seen.
        (
            "writes-follow-reads-cycle-exists",
            [Saw { key, value }, Wrote { key: wrote, after, seen, .. }]
            | [Saw { key, value }, Process, Wrote { key: wrote, after, seen, .. }],
        ) => *seen && (key, value) == (wrote, after),
        _ => false,
    }
}

/// Whether two reads saw the same: an empty list is nothing.
fn same_version(a: ValueRef<'_>, b: ValueRef<'_>) -> bool {
    let empty = |v: ValueRef<'_>| v.is_nil() || items(v).is_some_and(ListRef::is_empty);
    a == b || empty(a) && empty(b)
}
