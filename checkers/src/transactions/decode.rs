//! Transactions as they stand in a part of a history, with keys numbered: what several threads can
//! do before the rest is put together in order.

use deposed_history::{Call, History, Outcome, Symbol, ValueRef, Word, Words};

use super::interner::Interner;
use super::planted::{Bug, planted};
use crate::budget::{Budget, Exhausted, Held};

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// It happened.
    Committed,
    /// Nobody knows: it counts only once one of its writes was seen, and its reads never.
    Open,
    /// It did not happen.
    Failed,
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

    /// Takes note of what a committed transaction saw of a key, numbered within the part. `false`
    /// if that can be no value of a key.
    fn see(&mut self, key: u32, seen: ValueRef<'h>) -> bool;
}

/// A transaction of a part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawTxn {
    /// Which of the history's calls.
    pub(crate) call: u32,
    /// The end of its micro-operations among those of the part.
    pub(crate) end: u32,
    pub(crate) status: Status,
}

/// A micro-operation of a part: reads only of transactions that committed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawMop {
    /// Numbered within the part.
    pub(crate) key: u32,
    pub(crate) write: bool,
    /// What was written or seen.
    pub(crate) value: Word,
}

/// The transactions of consecutive calls.
#[derive(Debug)]
pub(crate) struct Part<'h, R> {
    history: &'h History,
    names: Names,
    pub(crate) txns: Vec<RawTxn>,
    pub(crate) mops: Vec<RawMop>,
    pub(crate) keys: Vec<Word>,
    key_numbers: Interner<'h>,
    pub(crate) reads: R,
    /// Writes by transactions that did not fail.
    pub(crate) writes: usize,
    pub(crate) oddities: Vec<Oddity>,
    pub(crate) oddity_count: u64,
    held: Vec<Held>,
    held_bytes: usize,
}

/// Names of micro-operations, as numbers.
#[derive(Debug, Clone, Copy)]
struct Names {
    read: Option<Symbol>,
    write: Option<Symbol>,
}

/// Calls between two looks at the clock and at the memory.
const CALLS_PER_LOOK: usize = 1 << 14;

/// Reads the calls of a part. `only_txns`: those that are not called `txn` are something else.
pub(crate) fn decode<'h, R: Reads<'h>>(
    history: &'h History,
    calls: std::ops::Range<usize>,
    only_txns: bool,
    budget: &Budget,
) -> Result<Part<'h, R>, Exhausted> {
    let txn = history.symbol("txn");
    let names = Names { read: history.symbol("r"), write: history.symbol(R::WRITE) };
    let mut part = Part {
        history,
        names,
        txns: Vec::with_capacity(calls.len()),
        mops: Vec::new(),
        keys: Vec::new(),
        key_numbers: Interner::default(),
        reads: R::default(),
        writes: 0,
        oddities: Vec::new(),
        oddity_count: 0,
        held: Vec::new(),
        held_bytes: 0,
    };
    for (number, call) in calls.clone().zip(&history.calls()[calls]) {
        if number.is_multiple_of(CALLS_PER_LOOK) {
            budget.check()?;
            part.hold(budget)?;
        }
        if !only_txns || Some(history.op(call.invoke).f_symbol()) == txn {
            part.add(number as u32, *call);
        }
    }
    part.hold(budget)?;
    Ok(part)
}

impl<'h, R: Reads<'h>> Part<'h, R> {
    /// Takes what it has grown to from the budget.
    fn hold(&mut self, budget: &Budget) -> Result<(), Exhausted> {
        let bytes = self.txns.capacity() * size_of::<RawTxn>()
            + self.mops.capacity() * size_of::<RawMop>()
            + self.keys.capacity() * (size_of::<Word>() + Interner::BYTES_PER_VALUE);
        let more = bytes.saturating_sub(self.held_bytes);
        if more > 0 {
            self.held.push(budget.hold(more as u64)?);
            self.held_bytes = bytes;
        }
        Ok(())
    }

    fn add(&mut self, number: u32, call: Call) {
        let status = match call.outcome {
            Outcome::Ok => Status::Committed,
            Outcome::Info if planted(Bug::OpenAlwaysHappens) => Status::Committed,
            Outcome::Info => Status::Open,
            Outcome::Fail => Status::Failed,
        };
        let completed = call.complete.filter(|_| status == Status::Committed);
        let word = completed.map_or(Word::NIL, |at| self.history.op(at).word());
        let word = if word.is_nil() { self.history.op(call.invoke).word() } else { word };
        let read = match self.history.word_list(word) {
            Some(list) => self.add_mops(status, list),
            None => Err(format!("{} is no list of micro-operations", self.history.view(word))),
        };
        self.txns.push(RawTxn { call: number, end: self.mops.len() as u32, status });
        if let Err(what) = read {
            self.oddity_count += 1;
            if self.oddities.len() < ODDITIES_MAX {
                self.oddities.push(Oddity { position: call.invoke, what });
            }
        }
    }

    fn add_mops(&mut self, status: Status, list: Words<'h>) -> Result<(), String> {
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
                if !self.reads.see(key, history.view(value)) {
                    return Err(say("saw what no key can hold"));
                }
                self.mops.push(RawMop { key, write: false, value });
            } else if name == self.names.write {
                if value.is_nil() {
                    return Err(say("writes nothing, which is what keys hold at first"));
                }
                let key = self.key(key);
                self.mops.push(RawMop { key, write: true, value });
                self.writes += 1;
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
        self.key_numbers.insert(self.history.view(key), number);
        self.keys.push(key);
        number
    }
}
