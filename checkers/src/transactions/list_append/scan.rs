//! Anomalies of lists that are no cycles: what single transactions, and pairs, give away.

use rustc_hash::FxHashSet;

use super::super::certificate::{Found, Proof};
use super::super::interner::NONE;
use super::super::planted::{Bug, planted};
use super::super::txns::Txns;
use super::versions::Versions;
use crate::budget::{Budget, Exhausted, Held};

/// Transactions between two looks at the clock.
const TXNS_PER_LOOK: u32 = 1 << 12;

/// Looks at every committed read and append once.
pub(crate) fn scan<'h>(
    txns: &Txns<'h>,
    versions: &Versions,
    budget: &Budget,
    found: &mut Found<'h>,
) -> Result<(), Exhausted> {
    let keys = txns.key_count();
    let _held = budget.hold((keys * (size_of::<Bad>() + 2 * size_of::<(u32, u32)>())) as u64)?;
    let bad_orders: Vec<Bad> =
        (0..txns.key_count() as u32).map(|key| Bad::of_order(txns, versions, key)).collect();
    let mut own = Own::new(keys, budget);
    for txn in (0..txns.len() as u32).filter(|&txn| txns.is_committed(txn)) {
        if txn.is_multiple_of(TXNS_PER_LOOK) {
            budget.check()?;
        }
        for (at, mop) in (0..).zip(txns.mops(txn)) {
            let key = mop.key();
            if mop.is_write() {
                own.append(txns, versions, txn, mop.what, key, found)?;
                continue;
            }
            let seen = versions.seen(key, mop.what);
            let bad = match Versions::stray(mop.what) {
                None => bad_orders[key as usize],
                Some(_) => Bad::of_stray(txns, seen),
            };
            bad.report(txns, txn, key, seen, found);
            intermediate(txns, txn, key, seen, found);
            own.read(txns, versions, (txn, at), key, mop.what, found);
        }
    }
    lost_updates(txns, &mut own.updates, found);
    drop(own);
    let strays = versions.strays.iter().filter(|_| !planted(Bug::StraysIgnored));
    for stray in strays {
        found.add("incompatible-order", || Proof::Incompatible {
            one: txns.invoke(stray.reader),
            other: txns.invoke(versions.whole_reader(txns, stray.key)),
            key: txns.key_text(stray.key),
        });
    }
    for key in 0..txns.key_count() as u32 {
        dirty_updates(txns, versions, key, found);
        own_order(txns, versions, key, found);
    }
    own_order_unseen(txns, versions, found);
    Ok(())
}

/// From which length on a list has an element that it should not have; [`NONE`] if it never has.
#[derive(Debug, Clone, Copy)]
struct Bad {
    aborted: u32,
    garbage: u32,
    duplicate: u32,
}

impl Bad {
    /// Of a key's order.
    fn of_order(txns: &Txns<'_>, versions: &Versions, key: u32) -> Self {
        // A value that occurs twice has the place of its first occurrence.
        Self::of(txns, versions.order(key), |at, value| versions.place(value) != at)
    }

    /// Of the elements of a stray.
    fn of_stray(txns: &Txns<'_>, elements: &[u32]) -> Self {
        let mut seen = FxHashSet::default();
        Self::of(txns, elements, |_, value| !seen.insert(value))
    }

    /// `again`: whether the value at a place, from 1, was there before.
    fn of(txns: &Txns<'_>, elements: &[u32], mut again: impl FnMut(u32, u32) -> bool) -> Self {
        let mut bad = Self { aborted: NONE, garbage: NONE, duplicate: NONE };
        for (at, &value) in (1..).zip(elements) {
            if again(at, value) && !txns.is_ambiguous(value) {
                bad.duplicate = bad.duplicate.min(at);
            }
            // Most have a writer that is known.
            if txns.writer(value).is_some() {
                continue;
            }
            if txns.written_by(value).is_none() {
                let failed = txns.failed(value).is_some();
                let first = if failed { &mut bad.aborted } else { &mut bad.garbage };
                *first = at.min(*first);
            }
        }
        bad
    }

    fn report<'h>(self, txns: &Txns<'h>, txn: u32, key: u32, seen: &[u32], found: &mut Found<'h>) {
        let length = seen.len() as u32;
        let reader = txns.invoke(txn);
        let at = |place: u32| (txns.key_text(key), txns.value_text(seen[place as usize - 1]));
        if self.aborted <= length && !planted(Bug::AbortedIgnored) {
            found.add("G1a", || {
                let (key, value) = at(self.aborted);
                let writer = txns.failed(seen[self.aborted as usize - 1]).unwrap_or_default();
                Proof::Aborted { reader, writer, key, value }
            });
        }
        if self.garbage <= length && !planted(Bug::GarbageIgnored) {
            found.add("garbage-read", || {
                let (key, value) = at(self.garbage);
                Proof::Garbage { reader, key, value }
            });
        }
        if self.duplicate <= length && !planted(Bug::DuplicateIgnored) {
            found.add("duplicate-elements", || {
                let (key, value) = at(self.duplicate);
                Proof::Duplicate { reader, key, value }
            });
        }
    }
}

/// A read whose newest element was not the last one its writer appended.
fn intermediate<'h>(txns: &Txns<'h>, txn: u32, key: u32, seen: &[u32], found: &mut Found<'h>) {
    let Some(&value) = seen.last() else { return };
    let Some(writer) = txns.writer(value).filter(|&writer| writer != txn) else { return };
    if txns.is_overwritten(value) && !planted(Bug::IntermediateIgnored) {
        found.add("G1b", || Proof::Intermediate {
            reader: txns.invoke(txn),
            writer: txns.invoke(writer),
            key: txns.key_text(key),
            value: txns.value_text(value),
            next: txns.next_text(value),
        });
    }
}

/// What the transaction at hand did.
struct Own<'b> {
    budget: &'b Budget,
    keys: OwnKeys,
    /// Reads that their transaction then wrote over: key, what was read, transaction.
    updates: Vec<(u32, u32, u32)>,
    /// Their memory.
    held: Vec<Held>,
    /// The last transactions reported, so that each is once.
    internal: u32,
    future: u32,
}

/// What it did to each key.
struct OwnKeys {
    /// By key: the last transaction that used it, and its number among that one's keys.
    numbers: Vec<(u32, u32)>,
    /// The keys of the transaction at hand, and what is left of those before.
    list: Vec<OwnKey>,
    txn: u32,
    /// How many keys of the transaction at hand there are so far.
    count: usize,
}

#[derive(Debug, Default)]
struct OwnKey {
    /// The last read.
    seen: Option<u32>,
    /// Appended since.
    appended: Vec<u32>,
    /// The longest read so far of those that the order of versions has, and which micro-operation it was.
    longest: Option<(u32, u32)>,
    /// The reads that it has not.
    strays: Vec<(u32, u32)>,
    first_read: Option<u32>,
    wrote: bool,
}

impl OwnKey {
    /// Makes it as new, but for the room it has.
    fn clear(&mut self) {
        let Self { mut appended, mut strays, .. } = std::mem::take(self);
        appended.clear();
        strays.clear();
        *self = Self { appended, strays, ..Self::default() };
    }
}

impl OwnKeys {
    fn of(&mut self, txn: u32, key: u32) -> &mut OwnKey {
        if self.txn != txn {
            (self.txn, self.count) = (txn, 0);
        }
        let (by, number) = &mut self.numbers[key as usize];
        if *by != txn {
            (*by, *number) = (txn, self.count as u32);
            match self.list.get_mut(self.count) {
                Some(own) => own.clear(),
                None => self.list.push(OwnKey::default()),
            }
            self.count += 1;
        }
        &mut self.list[*number as usize]
    }
}

impl<'b> Own<'b> {
    fn new(keys: usize, budget: &'b Budget) -> Self {
        let numbers = vec![(NONE, 0); keys];
        let keys = OwnKeys { numbers, list: Vec::new(), txn: NONE, count: 0 };
        let (updates, held) = (Vec::new(), Vec::new());
        Self { budget, keys, updates, held, internal: NONE, future: NONE }
    }

    fn append<'h>(
        &mut self,
        txns: &Txns<'h>,
        versions: &Versions,
        txn: u32,
        value: u32,
        key: u32,
        found: &mut Found<'h>,
    ) -> Result<(), Exhausted> {
        let own = self.keys.of(txn, key);
        let mut reads = own.longest.iter().chain(&own.strays);
        if self.future != txn
            && !planted(Bug::FutureIgnored)
            && txns.writer(value) == Some(txn)
            && let Some(&(_, mop)) = reads.find(|(what, _)| contains(versions, key, *what, value))
        {
            self.future = txn;
            found.add("future-read", || Proof::Future {
                txn: txns.invoke(txn),
                mop,
                key: txns.key_text(key),
                value: txns.value_text(value),
            });
        }
        if let (Some(read), false) = (own.first_read, own.wrote) {
            self.budget.make_room(&mut self.updates, 1, &mut self.held)?;
            self.updates.push((key, read, txn));
        }
        own.wrote = true;
        own.appended.push(value);
        Ok(())
    }

    fn read<'h>(
        &mut self,
        txns: &Txns<'h>,
        versions: &Versions,
        (txn, mop): (u32, u32),
        key: u32,
        what: u32,
        found: &mut Found<'h>,
    ) {
        let own = self.keys.of(txn, key);
        let seen = versions.seen(key, what);
        let as_expected = match own.seen {
            Some(before) if before == what => own.appended.is_empty(),
            Some(before) => seen
                .strip_prefix(versions.seen(key, before))
                .is_some_and(|appended| appended == own.appended),
            None => seen.ends_with(&own.appended),
        };
        if !as_expected && self.internal != txn && !planted(Bug::InternalIgnored) {
            self.internal = txn;
            found.add("internal", || Proof::Internal { txn: txns.invoke(txn), mop });
        }
        if !own.wrote && own.first_read.is_none() {
            own.first_read = Some(what);
        }
        if Versions::stray(what).is_some() {
            own.strays.push((what, mop));
        } else if own.longest.is_none_or(|(longest, _)| longest < what) {
            own.longest = Some((what, mop));
        }
        own.seen = Some(what);
        own.appended.clear();
    }
}

/// Whether a read saw a value.
fn contains(versions: &Versions, key: u32, what: u32, value: u32) -> bool {
    match Versions::stray(what) {
        None => (1..=what).contains(&versions.place(value)),
        Some(_) => versions.seen(key, what).contains(&value),
    }
}

/// Transactions that read the same version and wrote over it.
fn lost_updates<'h>(txns: &Txns<'h>, updates: &mut [(u32, u32, u32)], found: &mut Found<'h>) {
    updates.sort_unstable();
    for group in updates.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let [(key, _, one), (_, _, other), ..] = *group else { continue };
        if planted(Bug::LostUpdateIgnored) {
            continue;
        }
        found.add("lost-update", || Proof::LostUpdate {
            one: txns.invoke(one),
            other: txns.invoke(other),
            key: txns.key_text(key),
        });
    }
}

/// Acknowledged appends on top of ones that failed.
fn dirty_updates<'h>(txns: &Txns<'h>, versions: &Versions, key: u32, found: &mut Found<'h>) {
    let mut aborted = None;
    for &value in versions.order(key) {
        if txns.failed(value).is_some() {
            aborted = aborted.or(Some(value));
        }
        let Some(writer) = txns.writer(value).filter(|&writer| txns.is_acknowledged(writer)) else {
            continue;
        };
        let below = aborted.take().filter(|_| !planted(Bug::DirtyUpdateIgnored));
        let Some(below) = below else { continue };
        found.add("dirty-update", || Proof::DirtyUpdate {
            failed: txns.failed(below).unwrap_or_default(),
            txn: txns.invoke(writer),
            reader: txns.invoke(versions.whole_reader(txns, key)),
            key: txns.key_text(key),
            value: txns.value_text(below),
            after: txns.value_text(value),
        });
    }
}

/// Neighbours in a key's order that one transaction appended the other way round.
fn own_order<'h>(txns: &Txns<'h>, versions: &Versions, key: u32, found: &mut Found<'h>) {
    let mut before: Option<(u32, u32)> = None;
    for (at, &value) in (1..).zip(versions.order(key)) {
        let Some(writer) = txns.writer(value).filter(|_| versions.place(value) == at) else {
            continue;
        };
        // Values are numbered in the order in which they are written.
        if let Some((below, _)) = before
            .filter(|&(below, by)| by == writer && below > value && !planted(Bug::OwnOrderIgnored))
        {
            found.add("cyclic-versions", || Proof::OwnOrder {
                txn: txns.invoke(writer),
                reader: txns.invoke(versions.whole_reader(txns, key)),
                key: txns.key_text(key),
                first: txns.value_text(value),
                second: txns.value_text(below),
            });
        }
        before = Some((value, writer));
    }
}

/// An append that nobody saw, although the next one of the same transaction was seen.
fn own_order_unseen<'h>(txns: &Txns<'h>, versions: &Versions, found: &mut Found<'h>) {
    // By key: the next append to it, and its transaction.
    let mut next = vec![(NONE, NONE); txns.key_count()];
    for txn in (0..txns.len() as u32).filter(|&txn| txns.is_committed(txn)) {
        for mop in txns.mops(txn).iter().rev().filter(|mop| mop.is_write()) {
            let (after, by) = std::mem::replace(&mut next[mop.key() as usize], (mop.what, txn));
            if by == txn
                && !planted(Bug::OwnOrderUnseenIgnored)
                && [mop.what, after].map(|value| txns.writer(value)) == [Some(txn); 2]
                && !versions.is_seen(mop.what)
                && versions.place(after) > 0
            {
                found.add("cyclic-versions", || Proof::OwnOrder {
                    txn: txns.invoke(txn),
                    reader: txns.invoke(versions.whole_reader(txns, mop.key())),
                    key: txns.key_text(mop.key()),
                    first: txns.value_text(mop.what),
                    second: txns.value_text(after),
                });
            }
        }
    }
}
