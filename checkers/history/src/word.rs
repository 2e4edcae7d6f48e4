//! A value inside a history as one machine word, for code that looks at millions of them.

use crate::arena::Cell;
use crate::narrow::Cells;
use crate::{History, ListRef, OpRef, Symbol, ValueRef};

/// A value of one history in one word: copied freely, and told apart without being looked at where
/// it is a small whole number or nil. [`History::view`] shows what it is.
///
/// Equal words of one history are equal values; the reverse does not hold for lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word(Cell);

/// The elements of a list, as words.
#[derive(Debug, Clone, Copy)]
pub struct Words<'h>(Cells<'h>);

impl<'h> Words<'h> {
    /// How many.
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The one at a position.
    #[inline]
    pub fn get(self, position: usize) -> Option<Word> {
        self.0.get(position).map(Word)
    }

    /// The elements in order.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = Word> + DoubleEndedIterator + 'h {
        self.0.iter().map(Word)
    }
}

impl Word {
    /// Nothing.
    pub const NIL: Self = Self(Cell::NIL);

    /// Whether it is nothing.
    #[inline]
    pub fn is_nil(self) -> bool {
        self.0 == Cell::NIL
    }

    /// The whole number, if it is one of less than 60 bits.
    #[inline]
    pub const fn small_int(self) -> Option<i64> {
        self.0.small_int()
    }

    /// The text of a string or keyword, as a number.
    #[inline]
    pub const fn symbol(self) -> Option<Symbol> {
        self.0.symbol()
    }

    /// Whether it is a keyword, which is no string of the same text.
    #[inline]
    pub const fn is_keyword(self) -> bool {
        self.0.is_keyword()
    }
}

impl<'h> ListRef<'h> {
    /// The elements, as words.
    #[inline]
    pub const fn words(self) -> Words<'h> {
        Words(self.items)
    }
}

impl OpRef<'_> {
    /// Its value.
    #[inline]
    pub fn word(self) -> Word {
        Word(self.cell())
    }
}

impl History {
    /// What a word of this history stands for.
    pub fn view(&self, word: Word) -> ValueRef<'_> {
        self.arena().view(word.0)
    }

    /// The elements, if it is a list.
    #[inline]
    pub fn word_list(&self, word: Word) -> Option<Words<'_>> {
        self.arena().list_of(word.0).map(Words)
    }

    /// The two elements, if it is a list of two.
    #[inline]
    pub fn word_pair(&self, word: Word) -> Option<(Word, Word)> {
        self.arena().pair(word.0).map(|(one, other)| (Word(one), Word(other)))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Header, History, Op, OpType, Process, Value};

    /// Words show the values they stand for, pairs are taken apart, and small numbers are at hand.
    #[test]
    fn words_stand_for_values() {
        let value = Value::List(vec![Value::Int(-7), Value::str("x")]);
        let ops = [value, Value::Int(i64::MAX), Value::Nil, Value::List(vec![Value::Nil])]
            .map(|value| Op::new(OpType::Invoke, Process::Client(0), "f", value));
        let history = History::from_ops(Header::default(), &ops);
        let word = |at| history.op(at).word();
        let (one, other) = history.word_pair(word(0)).expect("a pair");
        assert_eq!(one.small_int(), Some(-7));
        assert_eq!(history.view(other).as_str(), Some("x"));
        assert_eq!(word(1).small_int(), None);
        assert!(!other.is_keyword());
        assert_eq!(history.view(word(1)).as_int(), Some(i64::MAX));
        assert!(word(2).is_nil() && !word(1).is_nil());
        assert!(history.word_pair(word(3)).is_none() && history.word_pair(word(2)).is_none());
        let list = history.word_list(word(0)).expect("a list");
        assert_eq!((list.len(), list.get(0), list.get(2)), (2, Some(one), None));
        assert!(list.iter().eq([one, other]));
        assert_eq!(other.symbol(), history.symbol("x"));
        assert!(one.symbol().is_none() && history.word_list(word(1)).is_none());
    }
}
