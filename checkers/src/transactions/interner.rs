//! Numbers for values: by a table where they are small whole numbers, as most are.

use deposed_history::ValueRef;
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
    pub(crate) fn find(&self, value: ValueRef<'h>) -> Option<u32> {
        if let Some(slot) = index(value) {
            match self.near.get(slot) {
                Some(&NONE) | None => {}
                Some(&number) => return Some(number),
            }
        }
        if self.far.is_empty() { None } else { self.far.get(&value).copied() }
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
    use super::*;

    /// Small and large, dense and sparse values keep their numbers.
    #[test]
    fn numbers_are_kept() {
        let mut interner = Interner::default();
        let values = [
            ValueRef::Int(3),
            ValueRef::Int(1 << 40),
            ValueRef::Int(-1),
            ValueRef::Int(40),
            ValueRef::Str("x"),
            ValueRef::Keyword("x"),
            ValueRef::Int(0),
            ValueRef::Int(30),
        ];
        for (number, value) in values.iter().enumerate() {
            assert_eq!(interner.find(*value), None, "{value}");
            interner.insert(*value, number as u32);
        }
        for (number, value) in values.iter().enumerate() {
            assert_eq!(interner.find(*value), Some(number as u32), "{value}");
        }
        assert_eq!(interner.find(ValueRef::Int(4)), None);
    }
}
