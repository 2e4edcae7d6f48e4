//! The transactions of a history in a few dense arrays.

use std::ops::Range;

use deposed_history::{Call, History, Outcome, ValueRef, Word};
use rustc_hash::FxHashMap;

use super::decode::{self, Names, ODDITIES_MAX, Oddity, Part, RawMop, RawTxn, Reads, Status};
use super::graph::Stop;
use super::interner::{Interner, Interners, NONE};
use super::planted::{Bug, planted};
use crate::budget::{Budget, Held};
use crate::parallel::in_parallel;

/// A transaction: which of the history's calls, and what became of it, in one word. Its
/// micro-operations follow those of the one before.
#[derive(Debug, Clone, Copy)]
struct Txn {
    head: u32,
    first: u32,
}

impl Txn {
    const STATUS_BITS: u32 = 2;

    const fn new(call: u32, first: u32, status: Status) -> Self {
        Self { head: call << Self::STATUS_BITS | status as u32, first }
    }

    #[inline]
    const fn call(self) -> usize {
        (self.head >> Self::STATUS_BITS) as usize
    }

    #[inline]
    const fn is(self, status: Status) -> bool {
        self.head & ((1 << Self::STATUS_BITS) - 1) == status as u32
    }
}

/// One read or write, in two words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mop {
    head: u32,
    /// A write's value; for a read, whatever the workload makes of what was seen.
    pub(crate) what: u32,
}

impl Mop {
    const fn new(key: u32, write: bool, what: u32) -> Self {
        Self { head: key << 1 | write as u32, what }
    }

    #[inline]
    pub(crate) const fn key(self) -> u32 {
        self.head >> 1
    }

    #[inline]
    pub(crate) const fn is_write(self) -> bool {
        self.head & 1 == 1
    }
}

/// Who wrote a value and did not fail, and what is to be known of that, in one word.
#[derive(Debug, Clone, Copy)]
struct Written(u32);

impl Written {
    /// It is the only one, and it happened.
    const COUNTS: u32 = 1;
    /// It is not the only one: then nothing follows from it.
    const AMBIGUOUS: u32 = 2;
    /// It wrote to the same key again.
    const OVERWRITTEN: u32 = 4;
    const FLAG_BITS: u32 = 3;

    const NOBODY: Self = Self(NONE << Self::FLAG_BITS);

    #[inline]
    const fn by(self) -> Option<u32> {
        if self.0 & Self::NOBODY.0 == Self::NOBODY.0 {
            None
        } else {
            Some(self.0 >> Self::FLAG_BITS)
        }
    }

    #[inline]
    const fn is(self, flag: u32) -> bool {
        self.0 & flag != 0
    }
}

/// A value that was seen before anybody was known to have written it.
#[derive(Debug, Clone, Copy)]
struct Unwritten {
    text: Word,
    /// Position of the invocation of a transaction that failed to write it.
    failed: Option<u32>,
}

/// A value that more than one transaction wrote and did not fail to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ambiguous {
    pub(crate) key: u32,
    pub(crate) value: u32,
    /// Two that did.
    pub(crate) writers: (u32, u32),
}

/// A word holds a transaction and three flags, or a call and a status.
const CALLS_MAX: usize = (1 << (u32::BITS - Written::FLAG_BITS)) - 1;

/// Keys a history can have: a micro-operation keeps its key in 31 bits.
const KEYS_MAX: usize = 1 << 31;

/// Everything is numbered in 32 bits, of which the highest number is [`NONE`].
const NUMBER_MAX: usize = NONE as usize - 1;

/// Below so many calls a thread is not worth its while.
const CALLS_PER_BLOCK_MIN: usize = 1 << 12;

/// Above, blocks take more memory than they are worth.
const CALLS_PER_BLOCK_MAX: usize = 1 << 14;

/// All transactions of a history but those that failed.
#[derive(Debug)]
pub(crate) struct Txns<'h> {
    pub(crate) history: &'h History,
    list: Vec<Txn>,
    mops: Vec<Mop>,
    keys: Vec<Word>,
    /// By value.
    written: Vec<Written>,
    unwritten: FxHashMap<u32, Unwritten>,
    numbers: Numbers<'h>,
    names: Names,
    pub(crate) ambiguous: Vec<Ambiguous>,
    pub(crate) oddities: Vec<Oddity>,
    pub(crate) oddity_count: u64,
    /// The memory it takes.
    held: Vec<Held>,
    held_bytes: usize,
}

/// What is only needed until all values are known.
#[derive(Debug, Default)]
struct Numbers<'h> {
    keys: Interner<'h>,
    values: Interners<'h>,
    /// By key: the last value it got, and from which transaction.
    last_write: Vec<(u32, u32)>,
}

/// What a thread saw, whose keys have got numbers for all of the history.
pub(crate) struct Numbered<R> {
    pub(crate) reads: R,
    /// By number within the part: that in the whole.
    pub(crate) keys: Vec<u32>,
}

impl<'h> Txns<'h> {
    /// Reads a history. `keep` says what to keep of what a read saw, in its micro-operation.
    ///
    /// Threads read blocks of it side by side; then those are put together in order, so that all numbers
    /// are those of one thread.
    pub(crate) fn of<R: Reads<'h>>(
        history: &'h History,
        budget: &Budget,
        keep: impl Fn(&mut Self, u32, Word) -> u32,
    ) -> Result<(Self, Vec<Numbered<R>>), Stop> {
        let calls = history.calls().len();
        if calls > CALLS_MAX {
            return Err(Stop::TooLarge);
        }
        let names = Names::of(history, R::WRITE);
        let mut all = Self {
            history,
            list: Vec::with_capacity(calls + 1),
            mops: Vec::new(),
            keys: Vec::new(),
            written: Vec::new(),
            unwritten: FxHashMap::default(),
            numbers: Numbers::default(),
            names,
            ambiguous: Vec::new(),
            oddities: Vec::new(),
            oddity_count: 0,
            held: Vec::new(),
            held_bytes: 0,
        };
        let size = calls.div_ceil(budget.threads).clamp(CALLS_PER_BLOCK_MIN, CALLS_PER_BLOCK_MAX);
        let threads = budget.threads.min(calls.div_ceil(size));
        let part = |_| (Part::<R>::new(history, names), Vec::new());
        let (mut parts, mut numbers): (Vec<_>, Vec<Vec<u32>>) = (0..threads).map(part).unzip();
        for from in (0..calls).step_by(size * threads.max(1)) {
            let blocks = (from..).step_by(size).map(|at| at.min(calls)..(at + size).min(calls));
            let work: Vec<(&mut Part<'h, R>, Range<usize>)> =
                parts.iter_mut().zip(blocks).collect();
            let decoded = in_parallel(threads, work, |(part, calls)| part.decode(calls, budget));
            decoded.into_iter().collect::<Result<(), _>>()?;
            for (part, keys) in parts.iter_mut().zip(&mut numbers) {
                budget.check()?;
                all.join(part, keys, &keep)?;
                all.hold(budget)?;
            }
        }
        all.oddities.truncate(ODDITIES_MAX);
        all.list.push(Txn::new(0, all.mops.len() as u32, Status::Failed));
        let reads = parts.into_iter().map(|part| part.reads);
        let numbered = reads.zip(numbers).map(|(reads, keys)| Numbered { reads, keys });
        Ok((all, numbered.collect()))
    }

    /// Adds a block. `keys` are the numbers of the part's keys.
    fn join<R: Reads<'h>>(
        &mut self,
        part: &mut Part<'h, R>,
        keys: &mut Vec<u32>,
        keep: &impl Fn(&mut Self, u32, Word) -> u32,
    ) -> Result<(), Stop> {
        keys.extend(part.keys[keys.len()..].iter().map(|&key| self.key(key)));
        if self.mops.len() + part.mops.len() > NUMBER_MAX || self.keys.len() > KEYS_MAX {
            return Err(Stop::TooLarge);
        }
        let mut mops = part.mops.iter();
        let mut taken = 0;
        for txn in &part.txns {
            let own = mops.by_ref().take((txn.end - taken) as usize);
            taken = txn.end;
            self.add(*txn, own, keys, keep);
        }
        self.oddities.append(&mut part.oddities);
        self.oddity_count += part.oddity_count;
        Ok(())
    }

    /// Takes what it has grown to from the budget.
    pub(crate) fn hold(&mut self, budget: &Budget) -> Result<(), Stop> {
        let bytes = (self.list.len() + 1) * size_of::<Txn>()
            + self.mops.len() * size_of::<Mop>()
            + self.keys.len() * size_of::<Word>()
            + self.numbers.keys.bytes()
            + self.written.len() * size_of::<Written>()
            + self.numbers.values.bytes()
            + self.unwritten.capacity() * size_of::<(u32, Unwritten)>();
        let more = bytes.saturating_sub(self.held_bytes);
        if more > 0 {
            self.held.push(budget.hold(more as u64)?);
            self.held_bytes = bytes;
        }
        Ok(())
    }

    #[inline]
    fn add<'m>(
        &mut self,
        txn: RawTxn,
        mops: impl Iterator<Item = &'m RawMop>,
        keys: &[u32],
        keep: &impl Fn(&mut Self, u32, Word) -> u32,
    ) {
        let number = self.list.len() as u32;
        self.list.push(Txn::new(txn.call, self.mops.len() as u32, txn.status));
        for mop in mops {
            let key = keys[mop.key as usize];
            let what = match mop.write {
                true => self.wrote(number, key, mop.value),
                false => keep(self, key, mop.value),
            };
            self.mops.push(Mop::new(key, mop.write, what));
        }
    }

    /// Takes note of a write; returns the value's number.
    fn wrote(&mut self, txn: u32, key: u32, word: Word) -> u32 {
        let value = self.find(key, word).unwrap_or_else(|| self.number(key, word));
        let written = &mut self.written[value as usize];
        let mut flags = 0;
        if let Some(other) = written.by().filter(|_| !planted(Bug::AmbiguityIgnored)) {
            flags = written.0 & !Written::NOBODY.0 | Written::AMBIGUOUS;
            self.ambiguous.push(Ambiguous { key, value, writers: (other, txn) });
        }
        *written = Written(txn << Written::FLAG_BITS | flags);
        let last = &mut self.numbers.last_write[key as usize];
        let (before, by) = std::mem::replace(last, (value, txn));
        if by == txn {
            self.written[before as usize].0 |= Written::OVERWRITTEN;
        }
        value
    }

    fn key(&mut self, key: Word) -> u32 {
        if let Some(number) = self.numbers.keys.find(self.history, key) {
            return number;
        }
        let number = self.keys.len() as u32;
        self.numbers.keys.insert(self.history, key, number);
        self.keys.push(key);
        self.numbers.values.push_key();
        self.numbers.last_write.push((NONE, NONE));
        number
    }

    /// The number of a value under a key, if it has one.
    #[inline]
    fn find(&self, key: u32, word: Word) -> Option<u32> {
        self.numbers.values.find(self.history, key, word)
    }

    /// Gives a value a number.
    fn number(&mut self, key: u32, word: Word) -> u32 {
        let number = self.written.len() as u32;
        self.numbers.values.insert(self.history, key, word, number);
        self.written.push(Written::NOBODY);
        number
    }

    /// The number of a value that was seen under a key. Not to be asked once they are
    /// [settled](Self::settle).
    #[inline]
    pub(crate) fn value(&mut self, key: u32, word: Word) -> u32 {
        self.find(key, word).unwrap_or_else(|| {
            let number = self.number(key, word);
            self.unwritten.insert(number, Unwritten { text: word, failed: None });
            number
        })
    }

    /// How many transactions, without those that failed: they are numbered from 0 in the order of their
    /// invocations.
    pub(crate) const fn len(&self) -> usize {
        self.list.len() - 1
    }

    pub(crate) fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// How many values there are.
    pub(crate) const fn value_count(&self) -> usize {
        self.written.len()
    }

    /// Takes note of all values that were seen, which have their numbers: the open transactions that
    /// wrote one of them happened, and no others did. Before, no value has a [writer](Self::writer).
    ///
    /// # Errors
    /// If the memory has run out.
    pub(crate) fn settle(
        &mut self,
        seen: impl Iterator<Item = u32>,
        budget: &Budget,
    ) -> Result<(), Stop> {
        if self.list.iter().any(|txn| txn.is(Status::Open)) && !planted(Bug::OpenNeverHappens) {
            for value in seen {
                let written = self.written[value as usize];
                if let Some(writer) = written.by().filter(|_| !written.is(Written::AMBIGUOUS)) {
                    let Txn { first, .. } = self.list[writer as usize];
                    let call = self.list[writer as usize].call() as u32;
                    self.list[writer as usize] = Txn::new(call, first, Status::Committed);
                }
            }
        }
        for written in &mut self.written {
            let happened = |writer: u32| self.list[writer as usize].is(Status::Committed);
            if !written.is(Written::AMBIGUOUS) && written.by().is_some_and(happened) {
                written.0 |= Written::COUNTS;
            }
        }
        self.find_failed();
        self.numbers = Numbers::default();
        (self.held, self.held_bytes) = (Vec::new(), 0);
        self.hold(budget)
    }

    /// Finds who failed to write what was seen although nobody wrote it.
    fn find_failed(&mut self) {
        if self.unwritten.keys().all(|&value| self.written_by(value).is_some()) {
            return;
        }
        for call in self.history.calls().iter().filter(|call| call.outcome() == Outcome::Fail) {
            for (key, value) in decode::writes(self.history, *call, self.names) {
                let key = self.numbers.keys.find(self.history, key);
                let value = key.and_then(|key| self.find(key, value));
                if let Some(unwritten) = value.and_then(|value| self.unwritten.get_mut(&value)) {
                    unwritten.failed = Some(call.invoke);
                }
            }
        }
    }

    /// The micro-operations of a transaction; no reads of one that is open.
    #[inline]
    pub(crate) fn mops(&self, txn: u32) -> &[Mop] {
        let (from, to) = (self.list[txn as usize].first, self.list[txn as usize + 1].first);
        &self.mops[from as usize..to as usize]
    }

    pub(crate) fn mops_mut(&mut self, txn: u32) -> &mut [Mop] {
        let (from, to) = (self.list[txn as usize].first, self.list[txn as usize + 1].first);
        &mut self.mops[from as usize..to as usize]
    }

    /// How many micro-operations there are.
    pub(crate) const fn mop_count(&self) -> usize {
        self.mops.len()
    }

    /// The call of a transaction.
    #[inline]
    pub(crate) fn call(&self, txn: u32) -> Call {
        self.history.calls()[self.list[txn as usize].call()]
    }

    /// Position of a transaction's invocation.
    pub(crate) fn invoke(&self, txn: u32) -> u32 {
        self.call(txn).invoke
    }

    /// The transaction that was invoked at a position.
    pub(crate) fn at(&self, invoke: u32) -> Option<u32> {
        let txns = &self.list[..self.len()];
        let found =
            txns.binary_search_by_key(&invoke, |txn| self.history.calls()[txn.call()].invoke);
        found.ok().map(|txn| txn as u32)
    }

    /// Whether its completion said that it happened.
    pub(crate) fn is_acknowledged(&self, txn: u32) -> bool {
        self.call(txn).outcome() == Outcome::Ok
    }

    /// Whether it counts: it was acknowledged, or a write of it was seen.
    #[inline]
    pub(crate) fn is_committed(&self, txn: u32) -> bool {
        self.list[txn as usize].is(Status::Committed)
    }

    /// The transaction that wrote a value, if it is known and counts.
    #[inline]
    pub(crate) fn writer(&self, value: u32) -> Option<u32> {
        let written = self.written[value as usize];
        if written.is(Written::COUNTS) { written.by() } else { None }
    }

    /// A transaction that wrote a value and did not fail, whether it counts or not.
    pub(crate) fn written_by(&self, value: u32) -> Option<u32> {
        self.written[value as usize].by()
    }

    /// Whether more than one wrote a value and did not fail.
    pub(crate) fn is_ambiguous(&self, value: u32) -> bool {
        self.written[value as usize].is(Written::AMBIGUOUS)
    }

    /// Position of the invocation of a transaction that failed to write a value that nobody wrote.
    pub(crate) fn failed(&self, value: u32) -> Option<u32> {
        let unwritten = self.unwritten.get(&value).filter(|_| self.written_by(value).is_none());
        unwritten?.failed
    }

    /// Whether the transaction that wrote a value then wrote another one to the same key.
    #[inline]
    pub(crate) fn is_overwritten(&self, value: u32) -> bool {
        self.written[value as usize].is(Written::OVERWRITTEN)
    }

    /// That other value, as it was written.
    pub(crate) fn next_text(&self, value: u32) -> ValueRef<'h> {
        let own = self.written_by(value).map_or(&[][..], |writer| self.mops(writer));
        let mut writes = own.iter().filter(|mop| mop.is_write());
        let write = writes.find(|mop| mop.what == value);
        let next = write.and_then(|write| writes.find(|mop| mop.key() == write.key()));
        next.map_or(ValueRef::Nil, |next| self.value_text(next.what))
    }

    /// A key as it was written.
    pub(crate) fn key_text(&self, key: u32) -> ValueRef<'h> {
        self.history.view(self.keys[key as usize])
    }

    /// A value as it was written, or seen.
    pub(crate) fn value_text(&self, value: u32) -> ValueRef<'h> {
        let word = match self.written_by(value) {
            Some(writer) => self.write_text(writer, value),
            None => self.unwritten.get(&value).map(|unwritten| unwritten.text),
        };
        self.history.view(word.unwrap_or(Word::NIL))
    }

    fn write_text(&self, writer: u32, value: u32) -> Option<Word> {
        let mut writes = self.mops(writer).iter().filter(|mop| mop.is_write());
        let number = writes.position(|mop| mop.what == value)?;
        let (_, text) = decode::writes(self.history, self.call(writer), self.names).nth(number)?;
        Some(text)
    }
}
