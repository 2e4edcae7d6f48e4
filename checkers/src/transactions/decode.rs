//! Transactions as they stand in a block of a history, with keys numbered: what several threads can
//! do before the rest is put together in order.

use deposed_history::{Call, History, Outcome, Symbol, ValueRef, Word, Words};

use super::interner::Interner;
use super::planted::{Bug, planted};
use crate::budget::{Budget, Exhausted, Held};

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    /// It happened.
    Committed,
    /// Nobody knows: it counts only once one of its writes was seen, and its reads never.
    Open,
    /// It did not happen.
    Failed,
}

impl Status {
    fn of(call: Call) -> Self {
        match call.outcome() {
            Outcome::Ok => Self::Committed,
            Outcome::Info if planted(Bug::OpenAlwaysHappens) => Self::Committed,
            Outcome::Info => Self::Open,
            Outcome::Fail => Self::Failed,
        }
    }
}

/// The micro-operations of a transaction, as it says itself: when it is done, or else when it is
/// invoked.
fn said(history: &History, call: Call) -> Word {
    let completed = call.complete().filter(|_| Status::of(call) == Status::Committed);
    let word = completed.map_or(Word::NIL, |at| history.op(at).word());
    if word.is_nil() { history.op(call.invoke).word() } else { word }
}

/// What a call wrote, or was to write, if it is a transaction: keys and values.
pub(crate) fn writes(
    history: &History,
    call: Call,
    names: Names,
) -> impl Iterator<Item = (Word, Word)> {
    let said = Some(said(history, call)).filter(|_| names.are_of(history, call));
    let mops = said.and_then(|said| history.word_list(said)).into_iter().flat_map(Words::iter);
    mops.filter_map(move |mop| {
        let parts = history.word_list(mop)?;
        let is_write = names.write.is_some() && parts.get(0)?.symbol() == names.write;
        parts.get(1).zip(parts.get(2)).filter(|_| is_write)
    })
}

/// Something in the history that is no transaction of this workload.
#[derive(Debug, Clone)]
pub(crate) struct Oddity {
    pub(crate) position: u32,
    pub(crate) what: String,
}

/// Oddities that are kept.
pub(crate) const ODDITIES_MAX: usize = 8;

/// What a workload's transactions are made of.
pub(crate) trait Reads<'h>: Default + Send {
    /// What the workload calls a write: `append`, `w`.
    const WRITE: &'static str;

    /// Takes note of what a committed transaction, the call of this number, saw of a key, numbered
    /// within the part. `false` if that can be no value of a key.
    fn see(&mut self, call: u32, key: u32, seen: ValueRef<'h>) -> bool;
}

/// A transaction of a block. Those that failed are left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawTxn {
    /// Which of the history's calls.
    pub(crate) call: u32,
    /// The end of its micro-operations among those of the block.
    pub(crate) end: u32,
    pub(crate) status: Status,
}

/// A micro-operation of a block: reads only of transactions that committed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawMop {
    /// Numbered within the part.
    pub(crate) key: u32,
    pub(crate) write: bool,
    /// What was written or seen.
    pub(crate) value: Word,
}

/// What one thread reads: blocks of consecutive calls, one after the other.
#[derive(Debug)]
pub(crate) struct Part<'h, R> {
    history: &'h History,
    names: Names,
    /// The transactions of the block at hand.
    pub(crate) txns: Vec<RawTxn>,
    pub(crate) mops: Vec<RawMop>,
    pub(crate) oddities: Vec<Oddity>,
    pub(crate) oddity_count: u64,
    /// The keys of all its blocks.
    pub(crate) keys: Vec<Word>,
    key_numbers: Interner<'h>,
    pub(crate) reads: R,
    held: Vec<Held>,
    held_bytes: usize,
}

/// Names of operations and micro-operations, as numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names {
    txn: Option<Symbol>,
    write: Option<Symbol>,
    read: Option<Symbol>,
    /// Whether an operation that is not called `txn` is something else: some are called that.
    only_txns: bool,
}

impl Names {
    /// `write` is what the workload calls a write.
    pub(crate) fn of(history: &History, write: &str) -> Self {
        let txn = history.symbol("txn");
        let is_txn = |call: &Call| Some(history.op(call.invoke).f_symbol()) == txn;
        let only_txns = txn.is_some() && history.calls().iter().any(is_txn);
        Self { txn, read: history.symbol("r"), write: history.symbol(write), only_txns }
    }

    /// Whether a call is a transaction.
    #[inline]
    fn are_of(self, history: &History, call: Call) -> bool {
        !self.only_txns || Some(history.op(call.invoke).f_symbol()) == self.txn
    }
}

/// Calls between two looks at the clock and at the memory.
const CALLS_PER_LOOK: usize = 1 << 14;

impl<'h, R: Reads<'h>> Part<'h, R> {
    pub(crate) fn new(history: &'h History, names: Names) -> Self {
        Self {
            history,
            names,
            txns: Vec::new(),
            mops: Vec::new(),
            oddities: Vec::new(),
            oddity_count: 0,
            keys: Vec::new(),
            key_numbers: Interner::default(),
            reads: R::default(),
            held: Vec::new(),
            held_bytes: 0,
        }
    }

    /// Reads a block of calls, in the place of the one before.
    pub(crate) fn decode(
        &mut self,
        calls: std::ops::Range<usize>,
        budget: &Budget,
    ) -> Result<(), Exhausted> {
        self.txns.clear();
        self.mops.clear();
        self.oddities.clear();
        self.oddity_count = 0;
        self.txns.reserve(calls.len());
        for (number, call) in calls.clone().zip(&self.history.calls()[calls]) {
            if number.is_multiple_of(CALLS_PER_LOOK) {
                budget.check()?;
                self.hold(budget)?;
            }
            if self.names.are_of(self.history, *call) {
                self.add(number as u32, *call);
            }
        }
        self.hold(budget)
    }

    /// Takes what it has grown to from the budget.
    fn hold(&mut self, budget: &Budget) -> Result<(), Exhausted> {
        let bytes = self.txns.capacity() * size_of::<RawTxn>()
            + self.mops.capacity() * size_of::<RawMop>()
            + self.keys.capacity() * size_of::<Word>()
            + self.key_numbers.bytes();
        let more = bytes.saturating_sub(self.held_bytes);
        if more > 0 {
            self.held.push(budget.hold(more as u64)?);
            self.held_bytes = bytes;
        }
        Ok(())
    }

    fn add(&mut self, number: u32, call: Call) {
        let status = Status::of(call);
        let word = said(self.history, call);
        let read = match self.history.word_list(word) {
            Some(list) => self.add_mops(number, status, list),
            None => Err(format!("{} is no list of micro-operations", self.history.view(word))),
        };
        if status != Status::Failed {
            self.txns.push(RawTxn { call: number, end: self.mops.len() as u32, status });
        }
        if let Err(what) = read {
            self.oddity_count += 1;
            if self.oddities.len() < ODDITIES_MAX {
                self.oddities.push(Oddity { position: call.invoke, what });
            }
        }
    }

    fn add_mops(&mut self, call: u32, status: Status, list: Words<'h>) -> Result<(), String> {
        for mop in list.iter() {
            let history = self.history;
            let say = |what: &str| format!("{} {what}", history.view(mop));
            let parts = history.word_list(mop).filter(|parts| (2..=3).contains(&parts.len()));
            let Some((name, key)) = parts.and_then(|p| p.get(0)?.symbol().zip(p.get(1))) else {
                return Err(say("is no micro-operation"));
            };
            let value = parts.and_then(|parts| parts.get(2)).unwrap_or(Word::NIL);
            let name = Some(name);
            if name == self.names.read {
                if status != Status::Committed {
                    continue;
                }
                let key = self.key(key);
                if !self.reads.see(call, key, history.view(value)) {
                    return Err(say("saw what no key can hold"));
                }
                self.mops.push(RawMop { key, write: false, value });
            } else if name == self.names.write {
                if value.is_nil() {
                    return Err(say("writes nothing, which is what keys hold at first"));
                }
                let key = self.key(key);
                if status != Status::Failed {
                    self.mops.push(RawMop { key, write: true, value });
                }
            } else {
                let judged_by = match name.map(|name| history.text(name)) {
                    Some("append") => "; the model list-append knows it",
                    Some("w") => "; the model rw-register knows it",
                    _ => "",
                };
                let what = format!("is neither a read (r) nor a write ({}){judged_by}", R::WRITE);
                return Err(say(&what));
            }
        }
        Ok(())
    }

    #[inline]
    fn key(&mut self, key: Word) -> u32 {
        if let Some(number) = self.key_numbers.find(self.history, key) {
            return number;
        }
        let number = self.keys.len() as u32;
        self.key_numbers.insert(self.history, key, number);
        self.keys.push(key);
        number
    }
}
