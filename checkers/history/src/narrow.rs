//! Cells in half a word each, as nearly all fit.

use crate::arena::Cell;

/// A cell of 32 bits whose sign goes on, or where to find a [far](Far) one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Narrow(u32);

/// Cells that do not fit.
#[derive(Debug, Default)]
pub(crate) struct Far(Vec<Cell>);

/// Cells side by side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cells<'a> {
    narrow: &'a [Narrow],
    far: &'a Far,
}

impl Narrow {
    pub(crate) const NIL: Self = Self(Cell::NIL.bits() as u32);

    /// Its place among the far ones, if it is one.
    const fn far(self) -> Option<usize> {
        let is_far = self.0 as u64 & Cell::TAG_MASK == Cell::FAR;
        if is_far { Some((self.0 >> Cell::TAG_BITS) as usize) } else { None }
    }

    /// Its tag, and the bits above.
    #[inline]
    pub(crate) const fn parts(self) -> (u32, u32) {
        (self.0 & Cell::TAG_MASK as u32, self.0 >> Cell::TAG_BITS)
    }

    /// One whose bits are by so much more, or less, which wraps.
    #[inline]
    pub(crate) const fn shifted(self, by: u32) -> Self {
        Self(self.0.wrapping_add(by))
    }
}

impl Far {
    /// How many there can be.
    pub(crate) const LIMIT: usize = 1 << (u32::BITS - Cell::TAG_BITS);

    /// # Panics
    /// If it does not fit, and there are [`Far::LIMIT`] already that do not.
    #[inline]
    pub(crate) fn narrow(&mut self, cell: Cell) -> Narrow {
        let bits = cell.bits().cast_signed();
        if i64::from(bits as i32) == bits { Narrow(bits as u32) } else { self.add(cell) }
    }

    fn add(&mut self, cell: Cell) -> Narrow {
        assert!(self.0.len() < Self::LIMIT, "fewer than 2^28 values of more than 32 bits");
        self.0.push(cell);
        Narrow(((self.0.len() - 1) << Cell::TAG_BITS) as u32 | Cell::FAR as u32)
    }

    #[inline]
    pub(crate) fn widen(&self, narrow: Narrow) -> Cell {
        match narrow.far() {
            None => Cell::of_bits(i64::from(narrow.0.cast_signed()).cast_unsigned()),
            Some(at) => self.0[at],
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Appends others.
    pub(crate) fn append(&mut self, others: impl Iterator<Item = Cell>) {
        self.0.extend(others);
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Cell> {
        self.0.iter().copied()
    }

    /// A cell that moves here from where `before` were here already; `moved` says what becomes of it
    /// if it is none of the far ones, which have been appended.
    #[inline]
    pub(crate) fn moved(
        &mut self,
        narrow: Narrow,
        before: usize,
        moved: impl Fn(Cell) -> Cell,
    ) -> Narrow {
        match narrow.far() {
            None => {
                let cell = moved(self.widen(narrow));
                self.narrow(cell)
            }
            Some(_) => Narrow(narrow.0 + (before << Cell::TAG_BITS) as u32),
        }
    }

    /// Gives back room that was kept for more.
    pub(crate) fn freeze(&mut self) {
        self.0.shrink_to_fit();
    }
}

impl<'a> Cells<'a> {
    #[inline]
    pub(crate) const fn new(narrow: &'a [Narrow], far: &'a Far) -> Self {
        Self { narrow, far }
    }

    pub(crate) const fn len(self) -> usize {
        self.narrow.len()
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.narrow.is_empty()
    }

    #[inline]
    pub(crate) fn get(self, at: usize) -> Option<Cell> {
        self.narrow.get(at).map(|&narrow| self.far.widen(narrow))
    }

    #[inline]
    pub(crate) fn iter(self) -> impl ExactSizeIterator<Item = Cell> + DoubleEndedIterator + 'a {
        self.narrow.iter().map(move |&narrow| self.far.widen(narrow))
    }

    /// Two by two.
    #[inline]
    pub(crate) fn pairs(self) -> impl ExactSizeIterator<Item = (Cell, Cell)> + 'a {
        let (pairs, _) = self.narrow.as_chunks();
        pairs.iter().map(move |&[one, other]| (self.far.widen(one), self.far.widen(other)))
    }

    /// Two by two: of the first pair whose first is such, the second.
    #[inline]
    pub(crate) fn after(self, is_such: impl Fn(Cell) -> bool) -> Option<Cell> {
        let (pairs, _) = self.narrow.as_chunks();
        let pair = pairs.iter().find(|&&[one, _]| is_such(self.far.widen(one)))?;
        Some(self.far.widen(pair[1]))
    }

    /// The first so many, if there are.
    pub(crate) fn first(self, len: usize) -> Option<Self> {
        Some(Self { narrow: self.narrow.get(..len)?, ..self })
    }

    /// Whether they are the same, as can be told without a look at what they stand for.
    pub(crate) fn same(self, other: Self) -> bool {
        std::ptr::eq(self.far, other.far)
            && (std::ptr::eq(self.narrow, other.narrow) || self.narrow == other.narrow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Arena;

    /// Cells come back, whether they fit or not; what fits is not listed.
    #[test]
    fn cells_come_back() {
        let mut arena = Arena::default();
        let mut far = Far::default();
        let edge = 1_i64 << (31 - Cell::TAG_BITS);
        for (int, fits) in [
            (0, true),
            (-1, true),
            (edge - 1, true),
            (-edge, true),
            (edge, false),
            (-edge - 1, false),
            (i64::MAX >> 8, false),
            (i64::MIN >> 8, false),
        ] {
            let before = far.len();
            let cell = arena.int(int);
            let narrow = far.narrow(cell);
            assert_eq!(far.widen(narrow), cell, "{int}");
            assert_eq!(far.len() == before, fits, "{int}");
        }
        assert_eq!(far.widen(Narrow::NIL), Cell::NIL);
    }
}
