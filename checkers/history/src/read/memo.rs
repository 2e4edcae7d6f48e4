//! Short lists that come again letter by letter, wherever they stand: reads of the same key, and what
//! an invocation and its completion both say. They need not be parsed again, and are kept once.

use super::scan::position;
use crate::arena::Cell;

/// The text of a short list up to its closing bracket, that included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Short {
    text: [u64; WORDS],
    /// The bytes of the text.
    pub(super) len: usize,
}

const WORDS: usize = 3;

/// The last short lists that were read. No list has no text at all.
#[derive(Debug)]
pub(super) struct Memo {
    known: [(Short, Cell); SLOTS],
}

const SLOTS: usize = 256;

impl Short {
    /// The longest text.
    pub(super) const LEN_MAX: usize = 8 * WORDS;

    /// The list at the start of these bytes, past its opening bracket, if it is short and begins with a
    /// name. If there are brackets or line ends inside of it, this is only a part of it or none.
    #[inline]
    pub(super) fn of(bytes: &[u8], close: u8) -> Option<Self> {
        if !matches!(bytes.first(), Some(b'"' | b':')) {
            return None;
        }
        let bytes: &[u8; Self::LEN_MAX] = bytes.first_chunk()?;
        let (&[a, b, c], []) = bytes.as_chunks::<8>() else { return None };
        let [a, b, c] = [u64::from_le_bytes(a), u64::from_le_bytes(b), u64::from_le_bytes(c)];
        let until = |word: u64, end: usize| word & u64::MAX >> (56 - 8 * end);
        let (text, len) = if let Some(end) = position(a, close) {
            ([until(a, end), 0, 0], end)
        } else if let Some(end) = position(b, close) {
            ([a, until(b, end), 0], 8 + end)
        } else {
            let end = position(c, close)?;
            ([a, b, until(c, end)], 16 + end)
        };
        Some(Self { text, len: len + 1 })
    }

    /// Whether a byte is in it.
    fn has(&self, byte: u8) -> bool {
        self.text.iter().any(|&word| position(word, byte).is_some())
    }

    fn slot(&self) -> usize {
        let [a, b, c] = self.text;
        let mixed = (a ^ b.rotate_left(21) ^ c.rotate_left(43)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 56) as usize
    }
}

impl Memo {
    pub(super) const fn new() -> Self {
        Self { known: [(Short { text: [0; WORDS], len: 0 }, Cell::NIL); SLOTS] }
    }

    #[inline]
    pub(super) fn get(&self, short: &Short) -> Option<Cell> {
        let (known, list) = &self.known[short.slot()];
        // Word by word: what has just been written that way is not to be read in larger pieces.
        let ([a, b, c], [d, e, f]) = (known.text, short.text);
        ((a ^ d) | (b ^ e) | (c ^ f) == 0).then_some(*list)
    }

    /// Notes what a whole list was parsed to. One with line ends is not kept: they have to be counted.
    #[inline]
    pub(super) fn note(&mut self, short: Short, list: Cell) {
        if !short.has(b'\n') {
            self.known[short.slot()] = (short, list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Symbol;

    /// A short list ends at its first closing bracket, whatever follows, and is known by all that is
    /// before it.
    #[test]
    fn short_lists_are_known_by_their_text() {
        let texts = [r#""r"]"#, r#""r" 1 nil]"#, r#""r" 1 nil,]"#, r#""append" 12345 678901]"#];
        let padded = |text: &str, end: &str| format!("{text}{}", end.repeat(24)).into_bytes();
        let mut memo = Memo::new();
        for (at, text) in texts.iter().enumerate() {
            let short = Short::of(&padded(text, "]"), b']').expect("it is short");
            assert_eq!(short.len, text.len());
            assert_eq!(memo.get(&short), None, "{text}");
            memo.note(short, [Cell::NIL, Cell::FALSE, Cell::TRUE, Cell::str(Symbol(0))][at]);
        }
        for (at, text) in texts.iter().enumerate() {
            let short = Short::of(&padded(text, " "), b']').expect("it is short");
            assert_eq!(
                memo.get(&short),
                Some([Cell::NIL, Cell::FALSE, Cell::TRUE, Cell::str(Symbol(0))][at]),
                "{text}"
            );
        }
    }

    /// What is long, or no list that begins with a name, is left alone; so is one with a line end.
    #[test]
    fn other_lists_are_not_known() {
        let long = format!("{:?}]", "x".repeat(22));
        let followed = |text: &str| Short::of(format!("{text}{}", " ".repeat(24)).as_bytes(), b']');
        assert!(followed(&long).is_none());
        assert!(followed("1 2]").is_none() && followed("[:r 1 nil]").is_none());
        assert!(followed("]").is_none());
        let short = followed(":r 1\n nil]").expect("it is short");
        let mut memo = Memo::new();
        memo.note(short, Cell::TRUE);
        assert_eq!(memo.get(&short), None);
    }
}
