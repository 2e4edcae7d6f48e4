//! Lists of numbers that repeat, or go on from, the one that was read before in the same place.
//!
//! Whoever reads a growing list over and over writes almost the same text over and over. What is the
//! same need not be parsed again, and is kept once.

use crate::arena::{Cell, Growing};

/// A list that was read.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Its text, without brackets.
    start: usize,
    end: usize,
    list: Growing,
}

/// The last list of each place. A place is known by the value before it in the enclosing list, so
/// that the lists under different keys are told apart; where places are mixed up, texts differ.
#[derive(Debug)]
pub(super) struct Echo {
    known: [Option<Known>; SLOTS],
}

const SLOTS: usize = 64;

/// What a list has in common with the one before it.
pub(super) enum Echoed {
    /// Nothing that is worth it.
    Nothing,
    /// All of it, up to the byte `end`, where its bracket is.
    Whole { list: Cell, end: usize },
    /// It begins with the one before; at the byte `end` an element is due.
    Begins { list: Growing, end: usize },
}

impl Echo {
    pub(super) const fn new() -> Self {
        Self { known: [None; SLOTS] }
    }

    /// The place after a value.
    #[inline]
    pub(super) fn place(before: Option<&Cell>) -> usize {
        before.map_or(0, |cell| cell.hash() % SLOTS)
    }

    /// Compares the list whose first element is at the byte `at` with the last one in its place.
    /// Elements are separated by `separator`, and `close` is behind the last.
    #[inline]
    pub(super) fn compare(
        &self,
        place: usize,
        bytes: &[u8],
        at: usize,
        (separator, close): (u8, u8),
    ) -> Echoed {
        if !bytes.get(at).is_some_and(u8::is_ascii_digit) {
            return Echoed::Nothing;
        }
        let Some(known) = self.known[place] else { return Echoed::Nothing };
        let before = &bytes[known.start..known.end];
        let text = &bytes[at..];
        let same = common(before, text);
        let end = at + same;
        match bytes.get(end) {
            Some(&byte) if byte == close => {
                if same == before.len() {
                    return Echoed::Whole { list: known.list.cell(), end };
                }
                if before[same] == separator && same > 0 {
                    let len = memchr::memchr_iter(separator, &before[..same]).count() + 1;
                    return Echoed::Whole { list: known.list.first(len), end };
                }
                Echoed::Nothing
            }
            Some(&byte) if byte == separator && same == before.len() => {
                Echoed::Begins { list: known.list, end: end + 1 }
            }
            _ => Echoed::Nothing,
        }
    }

    /// Notes a list whose text, without brackets, is `start..end`.
    #[inline]
    pub(super) const fn note(&mut self, place: usize, start: usize, end: usize, list: Growing) {
        self.known[place] = Some(Known { start, end, list });
    }
}

/// How many bytes two texts have in common at their beginnings.
#[inline]
fn common(one: &[u8], other: &[u8]) -> usize {
    let word = |bytes: &[u8], at| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let mut same = 0;
    while let (Some(a), Some(b)) = (word(one, same), word(other, same)) {
        if a != b {
            return same + (a ^ b).trailing_zeros() as usize / 8;
        }
        same += 8;
    }
    while same < one.len() && one.get(same) == other.get(same) {
        same += 1;
    }
    same
}

#[cfg(test)]
mod tests {
    use super::common;

    /// Beginnings in common are found wherever they end.
    #[test]
    fn what_texts_have_in_common() {
        let text = b"0123456789abcdefghij";
        for end in 0..=text.len() {
            assert_eq!(common(&text[..end], text), end);
            let mut other = text.to_vec();
            if let Some(byte) = other.get_mut(end) {
                *byte = b'!';
                assert_eq!(common(&other, text), end);
            }
        }
    }
}
