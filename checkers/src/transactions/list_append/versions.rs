//! The order of versions of each list, recovered from what was read.
//!
//! The longest committed read of a key is its version order, and every other read a prefix of it
//! (PROOFS.md, Lemma S0). A read that is none, a *stray*, is an anomaly; its elements are kept on the
//! side.

use std::sync::OnceLock;

use deposed_history::{ListRef, ValueRef, Word};
use rustc_hash::FxHashMap;

use super::super::decode::Reads;
use super::super::graph::Stop;
use super::super::interner::NONE;
use super::super::planted::{Bug, planted};
use super::super::txns::{Numbered, Txns};
use crate::budget::{Budget, Held};

/// Reads of strays have this bit in their micro-operation, and the number of the stray.
const STRAY: u32 = 1 << 31;

/// The longest read of each key so far.
#[derive(Debug, Default)]
pub(crate) struct Longest<'h> {
    keys: Vec<LongestOfKey<'h>>,
    forked: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct LongestOfKey<'h> {
    list: Option<ListRef<'h>>,
    /// The first call that read it.
    call: u32,
    /// Some two reads were such that neither begins with the other.
    forked: bool,
}

impl<'h> Reads<'h> for Longest<'h> {
    const WRITE: &'static str = "append";

    #[inline]
    fn see(&mut self, call: u32, key: u32, seen: ValueRef<'h>) -> bool {
        match seen {
            ValueRef::Nil => true,
            ValueRef::List(list) if list.len() < STRAY as usize => {
                self.add(key, list, call);
                true
            }
            _ => false,
        }
    }
}

impl<'h> Longest<'h> {
    /// That of a whole history, from those of its parts.
    pub(crate) fn of(parts: &[Numbered<Self>]) -> Self {
        let mut whole = Self::default();
        for Numbered { reads, keys } in parts {
            for (of_key, &key) in reads.keys.iter().zip(keys) {
                if let Some(list) = of_key.list {
                    whole.add(key, list, of_key.call);
                    whole.keys[key as usize].forked |= of_key.forked;
                }
            }
            whole.forked |= reads.forked;
        }
        whole
    }

    #[inline]
    fn add(&mut self, key: u32, list: ListRef<'h>, call: u32) {
        if self.keys.len() <= key as usize {
            self.keys.resize(key as usize + 1, LongestOfKey::default());
        }
        let of_key = &mut self.keys[key as usize];
        let Some(longest) = of_key.list else {
            (of_key.list, of_key.call) = (Some(list), call);
            return;
        };
        // Of the longest ones the first, whichever thread saw it.
        let longer =
            list.len() > longest.len() || list.len() == longest.len() && call < of_key.call;
        let (short, long) = if longer { (longest, list) } else { (list, longest) };
        if !long.starts_with(short) {
            of_key.forked = true;
            self.forked = true;
        }
        if longer {
            (of_key.list, of_key.call) = (Some(list), call);
        }
    }
}

/// What a read keeps: its length. With the longest read it tells the elements.
#[inline]
pub(crate) fn length(txns: &Txns<'_>, seen: Word) -> u32 {
    txns.history.word_list(seen).map_or(0, |list| list.len() as u32)
}

/// A read that is no prefix of its key's order.
#[derive(Debug)]
pub(crate) struct Stray {
    pub(crate) key: u32,
    pub(crate) elements: Vec<u32>,
    /// The first transaction that read it.
    pub(crate) reader: u32,
}

/// The version orders of all keys.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    /// The elements of each key's order, one key after the other.
    elements: Vec<u32>,
    first: Vec<u32>,
    /// By value: its place in its key's order, from 1; 0 if it is in none.
    place: Vec<u32>,
    pub(crate) strays: Vec<Stray>,
    /// Values that some stray has and no order.
    stray_values: Vec<u32>,
    /// By key: a transaction that read the whole order. Only proofs ask for it.
    whole_readers: OnceLock<Vec<u32>>,
    /// The memory it takes.
    #[expect(dead_code, reason = "it is given back when this is dropped")]
    held: Option<Held>,
}

impl Versions {
    /// Finds the orders, and which open transactions happened (Lemma S5): none of them where what was
    /// read may never have been committed.
    pub(crate) fn of<'h>(
        txns: &mut Txns<'h>,
        longest: &Longest<'h>,
        dirty_reads: bool,
        budget: &Budget,
    ) -> Result<Self, Stop> {
        let keys = txns.key_count();
        let elements: usize =
            longest.keys.iter().filter_map(|of_key| of_key.list).map(ListRef::len).sum();
        if elements > STRAY as usize {
            return Err(Stop::TooLarge);
        }
        // Elements, places by value, and three words a key: those proofs ask for included.
        let bytes = 4 * (elements + txns.value_count().max(elements) + 3 * keys);
        let held = Some(budget.hold(bytes as u64)?);
        let mut versions = Self { held, ..Self::default() };
        versions.elements.reserve_exact(elements);
        versions.first.push(0);
        for key in 0..keys as u32 {
            if let Some(list) = longest.keys.get(key as usize).and_then(|of_key| of_key.list) {
                for element in list.words().iter() {
                    let value = txns.value(key, element);
                    versions.elements.push(value);
                }
            }
            versions.first.push(versions.elements.len() as u32);
        }
        if longest.forked {
            versions.find_strays(txns, longest);
        }
        budget.check()?;
        versions.place = vec![0; txns.value_count()];
        for bounds in versions.first.windows(2) {
            let order = &versions.elements[bounds[0] as usize..bounds[1] as usize];
            for (place, &value) in (1..).zip(order) {
                let known = &mut versions.place[value as usize];
                if *known == 0 {
                    *known = place;
                }
            }
        }
        versions.stray_values = versions
            .strays
            .iter()
            .flat_map(|stray| stray.elements.iter().copied())
            .filter(|&value| versions.place[value as usize] == 0)
            .collect();
        versions.stray_values.sort_unstable();
        versions.stray_values.dedup();
        let seen = versions.elements.iter().chain(&versions.stray_values).copied();
        txns.settle(seen.filter(|_| !dirty_reads || planted(Bug::DirtyReadsCount)), budget)?;
        Ok(versions)
    }

    /// A transaction that read the whole order of a key.
    pub(crate) fn whole_reader(&self, txns: &Txns<'_>, key: u32) -> u32 {
        let readers = self.whole_readers.get_or_init(|| {
            let mut readers = vec![NONE; txns.key_count()];
            for txn in (0..txns.len() as u32).rev() {
                for mop in txns.mops(txn).iter().filter(|mop| !mop.is_write()) {
                    if mop.what as usize == self.order(mop.key()).len() {
                        readers[mop.key() as usize] = txn;
                    }
                }
            }
            readers
        });
        readers[key as usize]
    }

    /// Looks again at every read of a key whose reads do not agree.
    fn find_strays<'h>(&mut self, txns: &mut Txns<'h>, longest: &Longest<'h>) {
        let mut known: FxHashMap<(u32, Vec<u32>), u32> = FxHashMap::default();
        for txn in 0..txns.len() as u32 {
            for at in 0..txns.mops(txn).len() {
                let mop = txns.mops(txn)[at];
                let Some(&LongestOfKey { list: Some(order), forked: true, .. }) =
                    longest.keys.get(mop.key() as usize)
                else {
                    continue;
                };
                let Some(list) = (!mop.is_write()).then(|| list_read(txns, txn, at)).flatten()
                else {
                    continue;
                };
                if order.starts_with(list) {
                    continue;
                }
                let key = mop.key();
                let elements: Vec<u32> = list.words().iter().map(|v| txns.value(key, v)).collect();
                let strays = &mut self.strays;
                let number = *known.entry((key, elements)).or_insert_with_key(|(_, elements)| {
                    strays.push(Stray { key, elements: elements.clone(), reader: txn });
                    strays.len() as u32 - 1
                });
                txns.mops_mut(txn)[at].what = STRAY | number;
            }
        }
    }

    /// A key's values in the order they were appended.
    #[inline]
    pub(crate) fn order(&self, key: u32) -> &[u32] {
        let key = key as usize;
        &self.elements[self.first[key] as usize..self.first[key + 1] as usize]
    }

    /// The value at a place in the orders of all keys.
    pub(crate) fn at(&self, place: usize) -> u32 {
        self.elements[place]
    }

    /// How long the orders of all keys are.
    pub(crate) const fn length(&self) -> usize {
        self.elements.len()
    }

    /// Where a key's order begins among those of all keys.
    #[inline]
    pub(crate) fn first(&self, key: u32) -> usize {
        self.first[key as usize] as usize
    }

    /// The stray that a read saw, if it did.
    #[inline]
    pub(crate) const fn stray(what: u32) -> Option<u32> {
        if what & STRAY != 0 { Some(what & !STRAY) } else { None }
    }

    /// The elements that a read saw.
    #[inline]
    pub(crate) fn seen(&self, key: u32, what: u32) -> &[u32] {
        match Self::stray(what) {
            Some(number) => &self.strays[number as usize].elements,
            None => &self.order(key)[..what as usize],
        }
    }

    /// The place of a value in its key's order, from 1; 0 if it was never seen there.
    #[inline]
    pub(crate) fn place(&self, value: u32) -> u32 {
        self.place[value as usize]
    }

    /// Whether any committed read saw a value.
    pub(crate) fn is_seen(&self, value: u32) -> bool {
        self.place(value) > 0 || self.stray_values.binary_search(&value).is_ok()
    }
}

/// What a micro-operation of a committed transaction read, as it stands in the history.
pub(crate) fn list_read<'h>(txns: &Txns<'h>, txn: u32, at: usize) -> Option<ListRef<'h>> {
    let call = txns.call(txn);
    let completed = call.complete().map(|position| txns.history.op(position).value());
    let value = completed
        .filter(|value| !value.is_nil())
        .unwrap_or_else(|| txns.history.op(call.invoke).value());
    value.as_list()?.get(at)?.as_list()?.get(2)?.as_list()
}
