//! Interned text: each distinct string once, numbered in the order it first came up.

use std::hash::Hasher;

use hashbrown::HashTable;
use rustc_hash::FxHasher;

/// A string interned in one history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(pub(crate) u32);

impl Symbol {
    /// How many distinct strings a history can hold: an event keeps its function in 30 bits.
    pub(crate) const LIMIT: usize = 1 << 30;

    /// A dense number, from 0, for tables indexed by symbol.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The strings of one history, end to end.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    text: String,
    ends: Vec<usize>,
    numbers: HashTable<u32>,
}

impl Strings {
    /// The symbol of a text, new or known.
    ///
    /// # Panics
    /// If there are [`Symbol::LIMIT`] already.
    #[inline]
    pub(crate) fn intern(&mut self, text: &str) -> Symbol {
        let hash = hash(text);
        if let Some(&known) = self.numbers.find(hash, |&n| self.get(Symbol(n)) == text) {
            return Symbol(known);
        }
        self.add(text, hash)
    }

    #[cold]
    fn add(&mut self, text: &str, hash: u64) -> Symbol {
        assert!(self.ends.len() < Symbol::LIMIT, "fewer than 2^30 distinct strings");
        let number = self.ends.len() as u32;
        self.text.push_str(text);
        self.ends.push(self.text.len());
        let Self { text, ends, numbers } = self;
        numbers.insert_unique(hash, number, |&n| self::hash(slice(text, ends, n)));
        Symbol(number)
    }

    /// The symbol of a text, if it was ever interned.
    pub(crate) fn find(&self, text: &str) -> Option<Symbol> {
        self.numbers.find(hash(text), |&n| self.get(Symbol(n)) == text).map(|&n| Symbol(n))
    }

    #[inline]
    pub(crate) fn get(&self, symbol: Symbol) -> &str {
        slice(&self.text, &self.ends, symbol.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len() as u32).map(|n| slice(&self.text, &self.ends, n))
    }
}

#[inline]
fn slice<'t>(text: &'t str, ends: &[usize], number: u32) -> &'t str {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &text[start..ends[number]]
}

#[inline]
fn hash(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A string has one symbol however often it comes up, through many growths of the table.
    #[test]
    fn one_symbol_a_string() {
        let mut strings = Strings::default();
        let texts: Vec<String> = (0..10_000).map(|i| format!("k{i}")).collect();
        for round in 0..2 {
            for (i, text) in texts.iter().enumerate() {
                assert_eq!(strings.intern(text).index(), i, "round {round}");
            }
        }
        assert_eq!(strings.intern("").index(), 10_000);
        assert_eq!(strings.get(Symbol(9_999)), "k9999");
        assert_eq!(strings.find(""), Some(Symbol(10_000)));
        assert_eq!(strings.find("never"), None);
        assert_eq!(strings.iter().count(), strings.len());
    }
}
