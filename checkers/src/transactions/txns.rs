//! The transactions of a history in a few dense arrays.

use std::ops::Range;

use deposed_history::{Call, History, Outcome, ValueRef, Word};

use super::decode::{ODDITIES_MAX, Oddity, Part, RawMop, RawTxn, Reads, Status, decode};
use super::graph::Stop;
use super::interner::{Interner, NONE};
use super::planted::{Bug, planted};
use crate::budget::{Budget, Held};
use crate::parallel::in_parallel;

/// A transaction. Its micro-operations follow those of the one before.
#[derive(Debug, Clone, Copy)]
struct Txn {
    /// Which of the history's calls.
    call: u32,
    first: u32,
    status: Status,
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

/// A value written to a key, or seen under it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) key: u32,
    /// The transaction that wrote it and did not fail; [`NONE`] if there is none.
    pub(crate) writer: u32,
    /// One that failed to.
    pub(crate) failed: u32,
    /// Which of its transaction's micro-operations wrote it.
    pub(crate) mop: u32,
    /// What the same transaction wrote to the same key next.
    pub(crate) next: u32,
    /// Whether more than one that did not fail wrote it: then nothing follows from it.
    pub(crate) ambiguous: bool,
}

/// Keys a history can have: a micro-operation keeps its key in 31 bits.
const KEYS_MAX: usize = 1 << 31;

/// Everything is numbered in 32 bits, of which the highest number is [`NONE`].
const NUMBER_MAX: usize = NONE as usize - 1;

/// Below so many calls a thread is not worth its while.
const CALLS_PER_PART_MIN: usize = 1 << 12;

/// What the number of a value takes, mostly.
const BYTES_PER_NUMBER: usize = 8;

/// All transactions of a history.
#[derive(Debug)]
pub(crate) struct Txns<'h> {
    pub(crate) history: &'h History,
    list: Vec<Txn>,
    mops: Vec<Mop>,
    keys: Vec<Word>,
    pub(crate) written: Vec<Written>,
    /// By value: the transaction that wrote it, if it is known and counts, or [`NONE`]. All that
    /// graphs ask of values, in one word each.
    writers: Vec<u32>,
    texts: Vec<Word>,
    value_numbers: Vec<Interner<'h>>,
    /// The last value each key got, and from which transaction: to find intermediate writes.
    last_write: Vec<(u32, u32)>,
    /// Values written more than once, and two transactions that did.
    pub(crate) ambiguous: Vec<(u32, u32, u32)>,
    pub(crate) oddities: Vec<Oddity>,
    pub(crate) oddity_count: u64,
    /// The memory it takes.
    #[expect(dead_code, reason = "it is given back when this is dropped")]
    held: Held,
}

/// A part whose keys have got numbers for all of the history.
pub(crate) struct Numbered<R> {
    pub(crate) reads: R,
    /// By number within the part: that in the whole.
    pub(crate) keys: Vec<u32>,
}

impl<'h> Txns<'h> {
    /// Reads a history. `keep` says what to keep of what a read saw, in its micro-operation.
    ///
    /// Threads read parts of it; then the parts are put together in order, so that all numbers are
    /// those of one thread.
    pub(crate) fn of<R: Reads<'h>>(
        history: &'h History,
        budget: &Budget,
        keep: impl Fn(&mut Self, u32, Word) -> u32,
    ) -> Result<(Self, Vec<Numbered<R>>), Stop> {
        // Where some calls say that they are transactions, the others are something else.
        let txn = history.symbol("txn");
        let is_txn = |call: &Call| Some(history.op(call.invoke).f_symbol()) == txn;
        let calls = history.calls();
        let only_txns = txn.is_some() && calls.iter().any(is_txn);
        let size = calls.len().div_ceil(budget.threads).max(CALLS_PER_PART_MIN);
        let parts: Vec<Range<usize>> = (0..calls.len())
            .step_by(size)
            .map(|from| from..(from + size).min(calls.len()))
            .collect();
        let parts = in_parallel(budget.threads, parts, |calls| {
            decode::<R>(history, calls, only_txns, budget)
        });
        let parts: Vec<Part<'h, R>> = parts.into_iter().collect::<Result<_, _>>()?;
        Self::join(history, parts, budget, keep)
    }

    fn join<R: Reads<'h>>(
        history: &'h History,
        parts: Vec<Part<'h, R>>,
        budget: &Budget,
        keep: impl Fn(&mut Self, u32, Word) -> u32,
    ) -> Result<(Self, Vec<Numbered<R>>), Stop> {
        let sum = |size: fn(&Part<'h, R>) -> usize| parts.iter().map(size).sum::<usize>();
        let (txns, mops) = (sum(|part| part.txns.len()), sum(|part| part.mops.len()));
        let (keys, values) = (sum(|part| part.keys.len()), sum(|part| part.writes));
        if mops > NUMBER_MAX || keys > KEYS_MAX {
            return Err(Stop::TooLarge);
        }
        let bytes = (txns + 1) * size_of::<Txn>()
            + mops * size_of::<Mop>()
            + keys * (size_of::<Interner<'_>>() + size_of::<Word>() + Interner::BYTES_PER_VALUE)
            + values
                * (size_of::<Written>() + size_of::<u32>() + size_of::<Word>() + BYTES_PER_NUMBER);
        let mut all = Self {
            history,
            held: budget.hold(bytes as u64)?,
            list: Vec::with_capacity(txns + 1),
            mops: Vec::with_capacity(mops),
            keys: Vec::new(),
            written: Vec::with_capacity(values),
            writers: Vec::new(),
            texts: Vec::with_capacity(values),
            value_numbers: Vec::new(),
            last_write: Vec::new(),
            ambiguous: Vec::new(),
            oddities: Vec::new(),
            oddity_count: 0,
        };
        let mut key_numbers = Interner::default();
        let mut numbered = Vec::with_capacity(parts.len());
        for part in parts {
            budget.check()?;
            let keys: Vec<u32> =
                part.keys.iter().map(|&key| all.key(key, &mut key_numbers)).collect();
            let mut mops = part.mops.iter();
            let mut taken = 0;
            for txn in &part.txns {
                let own = mops.by_ref().take((txn.end - taken) as usize);
                taken = txn.end;
                all.add(*txn, own, &keys, &keep);
            }
            all.oddities.extend(part.oddities);
            all.oddity_count += part.oddity_count;
            numbered.push(Numbered { reads: part.reads, keys });
        }
        all.oddities.truncate(ODDITIES_MAX);
        let first = all.mops.len() as u32;
        all.list.push(Txn { call: NONE, first, status: Status::Failed });
        Ok((all, numbered))
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
        self.list.push(Txn { call: txn.call, first: self.mops.len() as u32, status: txn.status });
        for (at, mop) in (0..).zip(mops) {
            let key = keys[mop.key as usize];
            if !mop.write {
                let what = keep(self, key, mop.value);
                self.mops.push(Mop::new(key, false, what));
                continue;
            }
            let what = self.value(key, mop.value);
            self.wrote(number, txn.status, what, at);
            if txn.status != Status::Failed {
                self.mops.push(Mop::new(key, true, what));
            }
        }
    }

    fn wrote(&mut self, txn: u32, status: Status, value: u32, mop: u32) {
        let written = &mut self.written[value as usize];
        if status == Status::Failed {
            written.failed = txn;
            return;
        }
        if written.writer != NONE && !planted(Bug::AmbiguityIgnored) {
            written.ambiguous = true;
            self.ambiguous.push((value, written.writer, txn));
        }
        written.writer = txn;
        written.mop = mop;
        let last = &mut self.last_write[written.key as usize];
        let (before, by) = std::mem::replace(last, (value, txn));
        if by == txn {
            self.written[before as usize].next = value;
        }
    }

    fn key(&mut self, key: Word, numbers: &mut Interner<'h>) -> u32 {
        if let Some(number) = numbers.find(self.history, key) {
            return number;
        }
        let number = self.keys.len() as u32;
        numbers.insert(self.history.view(key), number);
        self.keys.push(key);
        self.value_numbers.push(Interner::default());
        self.last_write.push((NONE, NONE));
        number
    }

    /// The number of a value under a key, new or known.
    #[inline]
    pub(crate) fn value(&mut self, key: u32, word: Word) -> u32 {
        let numbers = &mut self.value_numbers[key as usize];
        if let Some(number) = numbers.find(self.history, word) {
            return number;
        }
        let number = self.written.len() as u32;
        numbers.insert(self.history.view(word), number);
        self.written.push(Written {
            key,
            writer: NONE,
            failed: NONE,
            mop: 0,
            next: NONE,
            ambiguous: false,
        });
        self.texts.push(word);
        number
    }

    /// How many transactions: they are numbered from 0 in the order of their invocations.
    pub(crate) const fn len(&self) -> usize {
        self.list.len() - 1
    }

    pub(crate) fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// Takes note of all values that were seen: the open transactions that wrote one of them happened,
    /// and no others did. Before, no value has a [writer](Self::writer).
    pub(crate) fn settle(&mut self, seen: impl Iterator<Item = u32>) {
        if self.list.iter().any(|txn| txn.status == Status::Open) && !planted(Bug::OpenNeverHappens)
        {
            for value in seen {
                let written = &self.written[value as usize];
                if written.writer != NONE && !written.ambiguous {
                    self.list[written.writer as usize].status = Status::Committed;
                }
            }
        }
        let counts = |written: &Written| {
            written.writer != NONE && !written.ambiguous && self.is_committed(written.writer)
        };
        let writer = |written| if counts(written) { written.writer } else { NONE };
        self.writers = self.written.iter().map(writer).collect();
    }

    /// The micro-operations of a transaction; none of one that failed, no reads of one that is open.
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
        self.history.calls()[self.list[txn as usize].call as usize]
    }

    /// Position of a transaction's invocation.
    pub(crate) fn invoke(&self, txn: u32) -> u32 {
        self.call(txn).invoke
    }

    /// The transaction that was invoked at a position.
    pub(crate) fn at(&self, invoke: u32) -> Option<u32> {
        let txns = &self.list[..self.len()];
        let found = txns
            .binary_search_by_key(&invoke, |txn| self.history.calls()[txn.call as usize].invoke);
        found.ok().map(|txn| txn as u32)
    }

    /// Whether its completion said that it happened.
    pub(crate) fn is_acknowledged(&self, txn: u32) -> bool {
        self.call(txn).outcome == Outcome::Ok
    }

    /// Whether it counts: it was acknowledged, or a write of it was seen.
    #[inline]
    pub(crate) fn is_committed(&self, txn: u32) -> bool {
        self.list[txn as usize].status == Status::Committed
    }

    /// The transaction that wrote a value, if it is known and counts.
    #[inline]
    pub(crate) fn writer(&self, value: u32) -> Option<u32> {
        Some(self.writers[value as usize]).filter(|&writer| writer != NONE)
    }

    /// A key as it was written.
    pub(crate) fn key_text(&self, key: u32) -> ValueRef<'h> {
        self.history.view(self.keys[key as usize])
    }

    /// A value as it was written.
    pub(crate) fn value_text(&self, value: u32) -> ValueRef<'h> {
        self.history.view(self.texts[value as usize])
    }
}
