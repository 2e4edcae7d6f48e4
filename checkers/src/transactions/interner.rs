//! Numbers for values: by a table where they are small whole numbers, as most are.

use deposed_history::{History, ValueRef, Word};
use rustc_hash::FxHashMap;

/// Stands for no number, no node, no transaction.
pub(crate) const NONE: u32 = u32::MAX;

/// Values and the numbers given to them.
#[derive(Debug)]
pub(crate) struct Interner<'h>(Interners<'h>);

impl Default for Interner<'_> {
    fn default() -> Self {
        let mut one = Interners::default();
        one.push_key();
        Self(one)
    }
}

impl<'h> Interner<'h> {
    /// What it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// The number of a value that has one.
    #[inline]
    pub(crate) fn find(&self, history: &'h History, value: Word) -> Option<u32> {
        self.0.find(history, 0, value)
    }

    /// Gives a value that has none a number.
    pub(crate) fn insert(&mut self, history: &'h History, value: Word, number: u32) {
        self.0.insert(history, 0, value, number);
    }
}

/// Numbers for the values of each of many keys, in one table: there may be very many of them.
#[derive(Debug, Default)]
pub(crate) struct Interners<'h> {
    /// By key.
    blocks: Vec<Block>,
    /// Of each block the numbers of the values 0, 1, ...; and what blocks have grown out of.
    slots: Vec<u32>,
    /// Values that have no slot.
    far: FxHashMap<(u32, ValueRef<'h>), u32>,
}

/// The slots of a key.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    start: u32,
    len: u32,
    /// How many values the key has.
    count: u32,
}

impl<'h> Interners<'h> {
    /// A block may have this many slots for each value of its key, and some to begin with.
    const SLOTS_PER_VALUE: usize = 8;
    const SLOTS_MIN: usize = 16;

    /// Adds a key.
    pub(crate) fn push_key(&mut self) {
        self.blocks.push(Block::default());
    }

    /// What it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.len() * size_of::<Block>()
            + self.slots.len() * size_of::<u32>()
            + self.far.capacity() * size_of::<((u32, ValueRef<'_>), u32)>()
    }

    /// The number of a key's value, if it has one.
    #[inline]
    pub(crate) fn find(&self, history: &'h History, key: u32, value: Word) -> Option<u32> {
        let block = self.blocks[key as usize];
        let slot = value.small_int().and_then(|n| u32::try_from(n).ok());
        match slot.filter(|&slot| slot < block.len) {
            Some(slot) if self.slots[(block.start + slot) as usize] != NONE => {
                Some(self.slots[(block.start + slot) as usize])
            }
            _ if self.far.is_empty() => None,
            _ => self.far.get(&(key, history.view(value))).copied(),
        }
    }

    /// Gives a key's value that has none a number.
    pub(crate) fn insert(&mut self, history: &'h History, key: u32, value: Word, number: u32) {
        let block = &mut self.blocks[key as usize];
        block.count += 1;
        let room = Self::SLOTS_MIN + Self::SLOTS_PER_VALUE * block.count as usize;
        let slot = value.small_int().and_then(|n| u32::try_from(n).ok());
        match slot.filter(|&slot| slot < block.len || (slot as usize) < room) {
            Some(slot) if slot < block.len || Self::grow(block, &mut self.slots, slot) => {
                self.slots[(block.start + slot) as usize] = number;
            }
            _ => {
                self.far.insert((key, history.view(value)), number);
            }
        }
    }

    /// Moves a block to the end of the slots, where it has a slot of a number, if it can be.
    fn grow(block: &mut Block, slots: &mut Vec<u32>, slot: u32) -> bool {
        let len = (slot + 1).max(2 * block.len);
        if slots.len() + len as usize >= u32::MAX as usize {
            return false;
        }
        let old = block.start as usize..(block.start + block.len) as usize;
        if old.end != slots.len() {
            block.start = slots.len() as u32;
            slots.extend_from_within(old);
        }
        block.len = len;
        slots.resize((block.start + len) as usize, NONE);
        true
    }
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
            interner.insert(&history, word(at), at);
        }
        for at in 0..last {
            assert_eq!(interner.find(&history, word(at)), Some(at), "{at}");
        }
        assert_eq!(interner.find(&history, word(last)), None);
    }

    /// Small and large, dense and sparse values of keys that grow in turns keep their numbers.
    #[test]
    fn numbers_of_each_key_are_kept() {
        let odd = [1 << 40, -1, 0, 30, i64::MAX].map(Value::Int);
        let text = [Value::str("x"), Value::Keyword("x".into())];
        let values = (1..=100).map(Value::Int).chain(odd).chain(text);
        let ops: Vec<Op> =
            values.map(|v| Op::new(OpType::Invoke, Process::Client(0), "f", v)).collect();
        let history = History::from_ops(Header::default(), &ops);
        let word = |at: u32| history.op(at).word();
        let mut all = Interners::default();
        let keys = 0..5u32;
        keys.clone().for_each(|_| all.push_key());
        // The element 30 comes twice.
        let at: Vec<u32> = (0..history.len() as u32).filter(|&at| at != 103).collect();
        for &at in &at {
            for key in keys.clone() {
                assert_eq!(all.find(&history, key, word(at)), None, "{key} {at}");
                all.insert(&history, key, word(at), 1000 * key + at);
            }
        }
        for &at in &at {
            for key in keys.clone() {
                assert_eq!(all.find(&history, key, word(at)), Some(1000 * key + at));
            }
        }
        assert!(all.slots.len() < 5 * 400 && all.far.len() <= 5 * 7, "{all:?}");
    }
}
