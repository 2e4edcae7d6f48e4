//! Numbers for values: by a table where they are small whole numbers, as most are.

use deposed_history::{History, ValueRef, Word};
use rustc_hash::FxHashMap;

/// Stands for no number, no node, no transaction.
pub(crate) const NONE: u32 = u32::MAX;

/// Values and the numbers given to them.
#[derive(Debug, Default)]
pub(crate) struct Interner<'h> {
    near: Vec<u32>,
    far: FxHashMap<ValueRef<'h>, u32>,
    count: usize,
}

impl<'h> Interner<'h> {
    /// Bytes that a value takes at the most, text aside.
    pub(crate) const BYTES_PER_VALUE: usize = 4 * Self::SLOTS_PER_VALUE;

    /// The table may have this many slots for each value it holds, and some to begin with.
    const SLOTS_PER_VALUE: usize = 8;
    const SLOTS_MIN: usize = 16;

    /// The number of a value that has one.
    #[inline]
    pub(crate) fn find(&self, history: &'h History, value: Word) -> Option<u32> {
        let slot = value.small_int().and_then(|n| usize::try_from(n).ok());
        match slot.and_then(|slot| self.near.get(slot)) {
            Some(&NONE) | None if self.far.is_empty() => None,
            Some(&NONE) | None => self.far.get(&history.view(value)).copied(),
            Some(&number) => Some(number),
        }
    }

    /// Gives a value that has none a number.
    pub(crate) fn insert(&mut self, value: ValueRef<'h>, number: u32) {
        self.count += 1;
        let room = self.near.len().max(Self::SLOTS_MIN + Self::SLOTS_PER_VALUE * self.count);
        match index(value).filter(|&slot| slot < room) {
            Some(slot) => {
                if slot >= self.near.len() {
                    self.near.resize(slot + 1, NONE);
                }
                self.near[slot] = number;
            }
            None => {
                self.far.insert(value, number);
            }
        }
    }
}

fn index(value: ValueRef<'_>) -> Option<usize> {
    value.as_int().and_then(|n| usize::try_from(n).ok())
}

#[cfg(test)]
mod tests {
    use deposed_history::{Header, Op, OpType, Process, Value};

    use super::*;

    /// Small and large, dense and sparse values keep their numbers.
    #[test]
    fn numbers_are_kept() {
        let values = [3, 1 << 40, -1, 40, 0, 30, i64::MAX].map(Value::Int);
        let values = values.into_iter().chain([Value::str("x"), Value::Keyword("x".into())]);
        let mut ops: Vec<Op> =
            values.map(|v| Op::new(OpType::Invoke, Process::Client(0), "f", v)).collect();
        let last = ops.len() as u32;
        ops.push(Op::new(OpType::Invoke, Process::Client(0), "f", Value::Int(4)));
        let history = History::from_ops(Header::default(), &ops);
        let word = |at| history.op(at).word();
        let mut interner = Interner::default();
        for at in 0..last {
            assert_eq!(interner.find(&history, word(at)), None, "{at}");
            interner.insert(history.view(word(at)), at);
        }
        for at in 0..last {
            assert_eq!(interner.find(&history, word(at)), Some(at), "{at}");
        }
        assert_eq!(interner.find(&history, word(last)), None);
    }
}
