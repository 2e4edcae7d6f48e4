//! The transactions of a history in a few dense arrays.

use deposed_history::{Call, History, ListRef, Outcome, ValueRef};

use super::interner::{Interner, NONE};
use super::planted::{Bug, planted};

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// It happened.
    Committed,
    /// Nobody knows: it counts only once one of its writes was seen, and its reads never.
    Open,
    /// It did not happen.
    Failed,
}

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

/// Something in the history that is no transaction of this workload.
#[derive(Debug, Clone)]
pub(crate) struct Oddity {
    pub(crate) position: u32,
    pub(crate) what: String,
}

/// Oddities that are kept.
const ODDITIES_MAX: usize = 8;

/// Keys a history can have: a micro-operation keeps its key in 31 bits.
const KEYS_MAX: usize = 1 << 31;

/// What a workload's transactions are made of.
pub(crate) trait Reads<'h> {
    /// What the workload calls a write: `append`, `w`.
    const WRITE: &'static str;

    /// Takes note of what a committed transaction saw, and says what to keep of it in the
    /// micro-operation; `None` if that can be no value of a key.
    fn read(&mut self, txns: &mut Txns<'h>, key: u32, seen: ValueRef<'h>) -> Option<u32>;
}

/// All transactions of a history.
#[derive(Debug)]
pub(crate) struct Txns<'h> {
    pub(crate) history: &'h History,
    list: Vec<Txn>,
    mops: Vec<Mop>,
    keys: Vec<ValueRef<'h>>,
    key_numbers: Interner<'h>,
    pub(crate) written: Vec<Written>,
    texts: Vec<ValueRef<'h>>,
    value_numbers: Vec<Interner<'h>>,
    /// The last value each key got, and from which transaction: to find intermediate writes.
    last_write: Vec<(u32, u32)>,
    /// Values written more than once, and two transactions that did.
    pub(crate) ambiguous: Vec<(u32, u32, u32)>,
    pub(crate) oddities: Vec<Oddity>,
    pub(crate) oddity_count: u64,
}

impl<'h> Txns<'h> {
    /// Reads a history.
    pub(crate) fn of<R: Reads<'h>>(history: &'h History, reads: &mut R) -> Self {
        let calls = history.calls();
        let mut txns = Self {
            history,
            list: Vec::with_capacity(calls.len() + 1),
            mops: Vec::with_capacity(calls.len() * 3),
            keys: Vec::new(),
            key_numbers: Interner::default(),
            written: Vec::with_capacity(calls.len()),
            texts: Vec::with_capacity(calls.len()),
            value_numbers: Vec::new(),
            last_write: Vec::new(),
            ambiguous: Vec::new(),
            oddities: Vec::new(),
            oddity_count: 0,
        };
        // Where some calls say that they are transactions, the others are something else.
        let txn = history.symbol("txn");
        let is_txn = |call: &Call| Some(history.op(call.invoke).f_symbol()) == txn;
        let only_txns = txn.is_some() && calls.iter().any(is_txn);
        for (number, call) in calls.iter().enumerate() {
            if !only_txns || is_txn(call) {
                txns.add(number as u32, *call, reads);
            }
        }
        txns.list.push(Txn { call: NONE, first: txns.mops.len() as u32, status: Status::Failed });
        txns
    }

    fn add<R: Reads<'h>>(&mut self, number: u32, call: Call, reads: &mut R) {
        let status = match call.outcome {
            Outcome::Ok => Status::Committed,
            Outcome::Info if planted(Bug::OpenAlwaysHappens) => Status::Committed,
            Outcome::Info => Status::Open,
            Outcome::Fail => Status::Failed,
        };
        let txn = self.list.len() as u32;
        let first = self.mops.len() as u32;
        let mut value = ValueRef::Nil;
        if status == Status::Committed
            && let Some(complete) = call.complete
        {
            value = self.history.op(complete).value();
        }
        if value.is_nil() {
            value = self.history.op(call.invoke).value();
        }
        self.list.push(Txn { call: number, first, status });
        let read = match value.as_list() {
            Some(list) => self.add_mops(txn, status, list, reads),
            None => Err(format!("{value} is no list of micro-operations")),
        };
        if let Err(what) = read {
            self.oddity_count += 1;
            if self.oddities.len() < ODDITIES_MAX {
                self.oddities.push(Oddity { position: call.invoke, what });
            }
        }
    }

    fn add_mops<R: Reads<'h>>(
        &mut self,
        txn: u32,
        status: Status,
        list: ListRef<'h>,
        reads: &mut R,
    ) -> Result<(), String> {
        for (at, mop) in list.iter().enumerate() {
            let parts = mop.as_list().filter(|parts| (2..=3).contains(&parts.len()));
            let Some((f, key)) = parts.and_then(|p| p.get(0)?.as_str().zip(p.get(1))) else {
                return Err(format!("{mop} is no micro-operation"));
            };
            let value = parts.and_then(|parts| parts.get(2)).unwrap_or(ValueRef::Nil);
            if f == "r" {
                if status == Status::Committed {
                    let key = self.key(key);
                    let Some(what) = reads.read(self, key, value) else {
                        return Err(format!("{mop} saw what no key can hold"));
                    };
                    self.mops.push(Mop::new(key, false, what));
                }
            } else if f == R::WRITE {
                if value.is_nil() {
                    return Err(format!("{mop} writes nothing, which is what keys hold at first"));
                }
                let key = self.key(key);
                let what = self.value(key, value);
                self.wrote(txn, status, what, at as u32);
                if status != Status::Failed {
                    self.mops.push(Mop::new(key, true, what));
                }
            } else {
                return Err(format!("{mop} is neither a read (r) nor a write ({})", R::WRITE));
            }
        }
        Ok(())
    }

    fn wrote(&mut self, txn: u32, status: Status, value: u32, mop: u32) {
        let written = &mut self.written[value as usize];
        if status == Status::Failed {
            written.failed = txn;
            return;
        }
        if written.writer != NONE {
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

    fn key(&mut self, key: ValueRef<'h>) -> u32 {
        if let Some(number) = self.key_numbers.find(key) {
            return number;
        }
        assert!(self.keys.len() < KEYS_MAX, "fewer than 2^31 keys");
        let number = self.keys.len() as u32;
        self.key_numbers.insert(key, number);
        self.keys.push(key);
        self.value_numbers.push(Interner::default());
        self.last_write.push((NONE, NONE));
        number
    }

    /// The number of a value under a key, new or known.
    #[inline]
    pub(crate) fn value(&mut self, key: u32, value: ValueRef<'h>) -> u32 {
        let numbers = &mut self.value_numbers[key as usize];
        if let Some(number) = numbers.find(value) {
            return number;
        }
        let number = self.written.len() as u32;
        numbers.insert(value, number);
        self.written.push(Written {
            key,
            writer: NONE,
            failed: NONE,
            mop: 0,
            next: NONE,
            ambiguous: false,
        });
        self.texts.push(value);
        number
    }

    /// How many transactions: they are numbered from 0 in the order of their invocations.
    pub(crate) const fn len(&self) -> usize {
        self.list.len() - 1
    }

    pub(crate) fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// Notes that an open transaction did happen.
    pub(crate) fn commit(&mut self, txn: u32) {
        self.list[txn as usize].status = Status::Committed;
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
        let Written { writer, ambiguous, .. } = self.written[value as usize];
        (writer != NONE && !ambiguous && self.is_committed(writer)).then_some(writer)
    }

    /// A key as it was written.
    pub(crate) fn key_text(&self, key: u32) -> ValueRef<'h> {
        self.keys[key as usize]
    }

    /// A value as it was written.
    pub(crate) fn value_text(&self, value: u32) -> ValueRef<'h> {
        self.texts[value as usize]
    }
}
