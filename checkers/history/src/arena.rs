//! Compact values: one word each, lists in one common array of half words, text interned.

use crate::narrow::{Cells, Far, Narrow};
use crate::strings::{Strings, Symbol};
use crate::view::{ListRef, MapRef, ValueRef};
use crate::{Value, strings};

/// A value in one word: a tag in the low bits, the rest is the value itself (small integers) or
/// where to find it. Equal words are equal values; the reverse does not hold for lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell(u64);

const TAG_BITS: u32 = 4;

const SIMPLE: u64 = 0;
const INT: u64 = 1;
const WIDE_INT: u64 = 2;
const FLOAT: u64 = 3;
const STR: u64 = 4;
const KEYWORD: u64 = 5;
const LIST: u64 = 6;
const MAP: u64 = 7;
const LONG_LIST: u64 = 8;
const LONG_MAP: u64 = 9;
/// A list of one; the tags that follow are those of two, three and four. They say where it starts.
const SHORT_LIST: u64 = 10;
const PAIR: u64 = SHORT_LIST + 1;
const SHORT_LIST_END: u64 = SHORT_LIST + SHORT_MAX as u64;

/// The longest list whose tag tells its length.
const SHORT_MAX: usize = 4;

/// The word of a list that is neither short nor long holds its length in these many bits and where it
/// starts in the rest; a longer one goes through [`Arena::long`].
const LEN_BITS: u32 = 24;
const LEN_MASK: u64 = (1 << LEN_BITS) - 1;

impl Cell {
    pub(crate) const NIL: Self = Self::new(SIMPLE, 0);
    pub(crate) const FALSE: Self = Self::new(SIMPLE, 1);
    pub(crate) const TRUE: Self = Self::new(SIMPLE, 2);

    pub(crate) const TAG_BITS: u32 = TAG_BITS;
    pub(crate) const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
    /// A tag that no cell has.
    pub(crate) const FAR: u64 = 15;

    const fn new(tag: u64, payload: u64) -> Self {
        Self(payload << TAG_BITS | tag)
    }

    const fn tag(self) -> u64 {
        self.0 & Self::TAG_MASK
    }

    const fn payload(self) -> usize {
        (self.0 >> TAG_BITS) as usize
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn of_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// A list of at most [`LEN_MASK`] elements.
    const fn list(start: usize, len: usize) -> Self {
        if len > 0 && len <= SHORT_MAX {
            return Self::new(SHORT_LIST + len as u64 - 1, start as u64);
        }
        Self::new(LIST, (start as u64) << LEN_BITS | len as u64)
    }

    pub(crate) const fn bool(truth: bool) -> Self {
        if truth { Self::TRUE } else { Self::FALSE }
    }

    pub(crate) const fn str(symbol: Symbol) -> Self {
        Self::new(STR, symbol.0 as u64)
    }

    pub(crate) const fn keyword(symbol: Symbol) -> Self {
        Self::new(KEYWORD, symbol.0 as u64)
    }

    /// The whole number, if it is in the cell itself.
    #[inline]
    pub(crate) const fn small_int(self) -> Option<i64> {
        if self.tag() == INT { Some(self.0 as i64 >> TAG_BITS) } else { None }
    }

    /// A number to spread cells by.
    #[inline]
    pub(crate) const fn hash(self) -> usize {
        (self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize
    }

    /// The text of a string or keyword.
    pub(crate) const fn symbol(self) -> Option<Symbol> {
        match self.tag() {
            STR | KEYWORD => Some(Symbol(self.payload() as u32)),
            _ => None,
        }
    }

    pub(crate) const fn is_keyword(self) -> bool {
        self.tag() == KEYWORD
    }
}

/// Strings and values of one history, or of a part of one while it is read.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    pub(crate) strings: Strings,
    cells: Vec<Narrow>,
    pub(crate) far: Far,
    /// Integers too big for a cell, and floats as bits.
    wide: Vec<u64>,
    /// Start and length of lists too long for a cell.
    long: Vec<(usize, usize)>,
    recent: Recent,
}

/// Short lists seen lately. An invocation's value mostly comes again in its completion, so this
/// alone halves the array of lists.
#[derive(Debug, Default)]
struct Recent {
    /// Empty until the first list.
    lists: Vec<Cell>,
}

impl Recent {
    const SLOTS: usize = 1 << 12;

    #[inline]
    fn slot(items: &[Cell]) -> usize {
        let mut hash = items.len() as u64;
        for item in items {
            hash = (hash.rotate_left(5) ^ item.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        (hash >> 52) as usize
    }
}

/// A list that others may begin with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Growing {
    start: usize,
    len: u32,
    /// Free cells right behind it, which are its own.
    room: u32,
}

impl Growing {
    /// Lists beyond this length are not grown.
    const LEN_MAX: usize = 1 << 20;

    /// A list of so many elements that was stored, if it may grow.
    #[inline]
    pub(crate) const fn new(cell: Cell, len: usize) -> Option<Self> {
        if len == 0 || len >= Self::LEN_MAX {
            return None;
        }
        let shift = if len <= SHORT_MAX { 0 } else { LEN_BITS };
        Some(Self { start: cell.payload() >> shift, len: len as u32, room: 0 })
    }

    #[inline]
    pub(crate) const fn cell(self) -> Cell {
        Cell::list(self.start, self.len as usize)
    }

    /// Its first `len` elements; it has at least as many.
    #[inline]
    pub(crate) const fn first(self, len: usize) -> Cell {
        debug_assert!(len <= self.len as usize);
        Cell::list(self.start, len)
    }

    /// Whether it may grow by so much.
    #[inline]
    pub(crate) const fn may_grow(self, by: usize) -> bool {
        self.len as usize + by < Self::LEN_MAX
    }
}

impl Arena {
    #[inline]
    pub(crate) fn int(&mut self, n: i64) -> Cell {
        let cell = Cell((n << TAG_BITS) as u64 | INT);
        if cell.0 as i64 >> TAG_BITS == n {
            cell
        } else {
            Cell::new(WIDE_INT, self.widen(n as u64))
        }
    }

    pub(crate) fn float(&mut self, x: f64) -> Cell {
        Cell::new(FLOAT, self.widen(x.to_bits()))
    }

    fn widen(&mut self, bits: u64) -> u64 {
        self.wide.push(bits);
        self.wide.len() as u64 - 1
    }

    #[inline]
    pub(crate) fn str(&mut self, text: &str) -> Cell {
        Cell::str(self.strings.intern(text))
    }

    #[inline]
    pub(crate) fn list(&mut self, items: &[Cell]) -> Cell {
        if items.is_empty() || items.len() > SHORT_MAX {
            return self.new_list(items);
        }
        if self.recent.lists.is_empty() {
            self.recent.lists = vec![Cell::NIL; Recent::SLOTS];
        }
        let slot = Recent::slot(items);
        let seen = self.recent.lists[slot];
        let elements = self.list_of(seen);
        if elements.is_some_and(|elements| elements.iter().eq(items.iter().copied())) {
            return seen;
        }
        let cell = self.new_list(items);
        self.recent.lists[slot] = cell;
        cell
    }

    /// A list that probably was not seen lately.
    #[inline]
    pub(crate) fn new_list(&mut self, items: &[Cell]) -> Cell {
        let (start, len) = self.store(items);
        if len as u64 <= LEN_MASK {
            Cell::list(start, len)
        } else {
            self.long(LONG_LIST, start, len)
        }
    }

    /// A map; keys and values alternate.
    pub(crate) fn map(&mut self, items: &[Cell]) -> Cell {
        let (start, len) = self.store(items);
        if len as u64 <= LEN_MASK {
            return Cell::new(MAP, (start as u64) << LEN_BITS | len as u64);
        }
        self.long(LONG_MAP, start, len)
    }

    /// Puts elements side by side; says where they start, and how many they are.
    #[inline]
    fn store(&mut self, items: &[Cell]) -> (usize, usize) {
        let Self { cells, far, .. } = self;
        let start = cells.len();
        cells.extend(items.iter().map(|&cell| far.narrow(cell)));
        (start, items.len())
    }

    #[cold]
    fn long(&mut self, tag: u64, start: usize, len: usize) -> Cell {
        self.long.push((start, len));
        Cell::new(tag, self.long.len() as u64 - 1)
    }

    /// A list that goes on where another one ends. It takes only the room of what is new, most of
    /// the time: a list that has grown once is given room to grow again.
    pub(crate) fn grow(&mut self, list: Growing, more: &[Cell]) -> Growing {
        let Growing { mut start, len: old, room } = list;
        let (old, mut room) = (old as usize, room as usize);
        let len = old + more.len();
        let Self { cells, far, .. } = self;
        let more_narrow = more.iter().map(|&cell| far.narrow(cell));
        if more.len() <= room {
            let free = &mut cells[start + old..start + len];
            free.iter_mut().zip(more_narrow).for_each(|(free, cell)| *free = cell);
            room -= more.len();
        } else {
            let from = std::mem::replace(&mut start, cells.len());
            room = len;
            cells.reserve(len + room);
            cells.extend_from_within(from..from + old);
            cells.extend(more_narrow);
            cells.resize(start + len + room, Narrow::NIL);
        }
        Growing { start, len: len as u32, room: room as u32 }
    }

    /// The elements of a list, or the keys and values of a map, alternating.
    #[inline]
    pub(crate) fn slice(&self, cell: Cell) -> Cells<'_> {
        let (start, len) = match cell.tag() {
            LIST | MAP => (cell.payload() >> LEN_BITS, cell.payload() & LEN_MASK as usize),
            tag @ SHORT_LIST..SHORT_LIST_END => (cell.payload(), (tag - SHORT_LIST) as usize + 1),
            _ => self.long[cell.payload()],
        };
        Cells::new(&self.cells[start..start + len], &self.far)
    }

    /// The elements, if it is a list.
    #[inline]
    pub(crate) fn list_of(&self, cell: Cell) -> Option<Cells<'_>> {
        let is_list = matches!(cell.tag(), SHORT_LIST..SHORT_LIST_END | LIST | LONG_LIST);
        is_list.then(|| self.slice(cell))
    }

    /// The two elements, if it is a list of two.
    #[inline]
    pub(crate) fn pair(&self, cell: Cell) -> Option<(Cell, Cell)> {
        (cell.tag() == PAIR).then(|| {
            let start = cell.payload();
            (self.far.widen(self.cells[start]), self.far.widen(self.cells[start + 1]))
        })
    }

    /// Keys and values, alternating, if it is a map.
    #[inline]
    pub(crate) fn map_of(&self, cell: Cell) -> Option<Cells<'_>> {
        matches!(cell.tag(), MAP | LONG_MAP).then(|| self.slice(cell))
    }

    #[inline]
    pub(crate) fn view(&self, cell: Cell) -> ValueRef<'_> {
        match cell.tag() {
            INT => ValueRef::Int(cell.0 as i64 >> TAG_BITS),
            WIDE_INT => ValueRef::Int(self.wide[cell.payload()] as i64),
            FLOAT => ValueRef::Float(f64::from_bits(self.wide[cell.payload()])),
            STR => ValueRef::Str(self.strings.get(Symbol(cell.payload() as u32))),
            KEYWORD => ValueRef::Keyword(self.strings.get(Symbol(cell.payload() as u32))),
            LIST | LONG_LIST | SHORT_LIST..SHORT_LIST_END => {
                ValueRef::List(ListRef { arena: self, items: self.slice(cell) })
            }
            MAP | LONG_MAP => ValueRef::Map(MapRef { arena: self, items: self.slice(cell) }),
            _ if cell == Cell::NIL => ValueRef::Nil,
            _ => ValueRef::Bool(cell == Cell::TRUE),
        }
    }

    /// Takes in an owned value.
    pub(crate) fn pack(&mut self, value: &Value) -> Cell {
        match value {
            Value::Nil => Cell::NIL,
            Value::Bool(truth) => Cell::bool(*truth),
            Value::Int(n) => self.int(*n),
            Value::Float(x) => self.float(*x),
            Value::Str(text) => self.str(text),
            Value::Keyword(text) => Cell::keyword(self.strings.intern(text)),
            Value::List(items) => {
                let items: Vec<Cell> = items.iter().map(|v| self.pack(v)).collect();
                self.list(&items)
            }
            Value::Map(pairs) => {
                let items: Vec<Cell> =
                    pairs.iter().flat_map(|(k, v)| [self.pack(k), self.pack(v)]).collect();
                self.map(&items)
            }
        }
    }

    /// Takes in an owned value, in half a word.
    pub(crate) fn pack_narrow(&mut self, value: &Value) -> Narrow {
        let cell = self.pack(value);
        self.far.narrow(cell)
    }

    /// Appends all that another arena holds. Its cells mean the same here after
    /// [`Moved::cell`].
    pub(crate) fn append(&mut self, other: &Self) -> Moved {
        let mut by = [0; 1 << TAG_BITS];
        by[LIST as usize] = (self.cells.len() as u64) << LEN_BITS;
        by[MAP as usize] = by[LIST as usize];
        by[SHORT_LIST as usize..SHORT_LIST_END as usize].fill(self.cells.len() as u64);
        by[WIDE_INT as usize] = self.wide.len() as u64;
        by[FLOAT as usize] = by[WIDE_INT as usize];
        by[LONG_LIST as usize] = self.long.len() as u64;
        by[LONG_MAP as usize] = by[LONG_LIST as usize];
        let symbols: Vec<Symbol> =
            other.strings.iter().map(|text| self.strings.intern(text)).collect();
        let by = by.map(|payload| payload << TAG_BITS);
        let base = self.cells.len();
        let shifts = Shifts::new(&symbols, self.far.len(), base, base + other.cells.len());
        let moved = Moved { symbols, by, far: self.far.len(), shifts };
        self.wide.extend_from_slice(&other.wide);
        self.long.extend(other.long.iter().map(|&(start, len)| (start + base, len)));
        self.far.append(other.far.iter().map(|cell| moved.cell(cell)));
        let Self { cells, far, .. } = self;
        cells.extend(other.cells.iter().map(|&cell| moved.narrow(cell, far)));
        moved
    }

    /// Gives back what only the building needed.
    pub(crate) fn freeze(&mut self) {
        self.recent = Recent::default();
        self.cells.shrink_to_fit();
        self.far.freeze();
    }

    /// Whether another arena still fits, and the values of so many events.
    pub(crate) fn has_room_for(&self, other: &Self, events: usize) -> bool {
        // At worst, no cell fits into half a word.
        let far = self.far.len() + other.far.len() + other.cells.len() + events;
        self.strings.len() + other.strings.len() <= strings::Symbol::LIMIT && far <= Far::LIMIT
    }
}

/// Where the contents of an appended arena went.
pub(crate) struct Moved {
    symbols: Vec<Symbol>,
    /// By how much cells of each tag increase, if they are no text.
    by: [u64; 1 << TAG_BITS],
    /// How many far cells there were before its own.
    far: usize,
    shifts: Shifts,
}

/// By how much half words increase that move, by their tags, or, behind those, by their symbols. `None` where
/// they may not fit any more.
struct Shifts(Vec<Option<u32>>);

impl Shifts {
    /// For symbols that become these, where `far` cells are already, and for lists that move by `base` and
    /// end before `end` then.
    fn new(symbols: &[Symbol], far: usize, base: usize, end: usize) -> Self {
        const FITS: usize = 1 << (31 - TAG_BITS);
        let mut shifts = vec![None; (1 << TAG_BITS) + symbols.len()];
        shifts[SIMPLE as usize] = Some(0);
        shifts[INT as usize] = Some(0);
        shifts[Cell::FAR as usize] = Some((far << TAG_BITS) as u32);
        if end <= FITS {
            let lists = SHORT_LIST as usize..SHORT_LIST_END as usize;
            shifts[lists].fill(Some((base << TAG_BITS) as u32));
        }
        for (at, symbol) in symbols.iter().enumerate() {
            let fits = at.max(symbol.index()) < FITS;
            shifts[(1 << TAG_BITS) + at] =
                fits.then(|| symbol.0.wrapping_sub(at as u32) << TAG_BITS);
        }
        Self(shifts)
    }

    #[inline]
    fn of(&self, narrow: Narrow) -> Option<u32> {
        let (tag, payload) = narrow.parts();
        let is_text = u64::from(tag) & !1 == STR;
        self.0[if is_text { (1 << TAG_BITS) + payload as usize } else { tag as usize }]
    }
}

impl Moved {
    #[inline]
    pub(crate) fn cell(&self, cell: Cell) -> Cell {
        match cell.symbol() {
            Some(symbol) => Cell::new(cell.tag(), u64::from(self.symbol(symbol).0)),
            None => Cell(cell.0 + self.by[cell.tag() as usize]),
        }
    }

    /// The same of half a word; `far` are those of the arena it moves to.
    #[inline]
    pub(crate) fn narrow(&self, narrow: Narrow, far: &mut Far) -> Narrow {
        if let Some(by) = self.shifts.of(narrow) {
            return narrow.shifted(by);
        }
        far.moved(narrow, self.far, |cell| self.cell(cell))
    }

    #[inline]
    pub(crate) fn symbol(&self, symbol: Symbol) -> Symbol {
        self.symbols[symbol.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Vec<Value> {
        vec![
            Value::Nil,
            Value::Bool(true),
            Value::Bool(false),
            Value::Int(0),
            Value::Int(-1),
            Value::Int((1 << 59) - 1),
            Value::Int(1 << 59),
            Value::Int(-(1 << 59) - 1),
            Value::Int(i64::MAX),
            Value::Int(i64::MIN),
            Value::Float(-0.0),
            Value::Float(f64::NAN),
            Value::str(""),
            Value::str("x"),
            Value::Keyword("x".into()),
            Value::List(vec![]),
            Value::Map(vec![]),
            Value::pair("k", 1),
            Value::Map(vec![(1.into(), Value::pair("k", 1))]),
            Value::List(vec![Value::Int(7); 9]),
        ]
    }

    /// Every kind of value comes back as it went in, also after its arena was appended to another.
    #[test]
    fn values_survive_packing_and_moving() {
        let mut whole = Arena::default();
        whole.pack(&Value::List(values().into_iter().rev().collect()));
        let mut part = Arena::default();
        let cells: Vec<Cell> = values().iter().map(|v| part.pack(v)).collect();
        let narrow: Vec<Narrow> = cells.iter().map(|&cell| part.far.narrow(cell)).collect();
        let moved = whole.append(&part);
        for ((value, &cell), narrow) in values().iter().zip(&cells).zip(narrow) {
            assert_eq!(part.view(cell).to_value(), *value);
            assert_eq!(whole.view(moved.cell(cell)).to_value(), *value);
            let narrow = moved.narrow(narrow, &mut whole.far);
            assert_eq!(whole.view(whole.far.widen(narrow)).to_value(), *value);
        }
    }

    /// A list longer than its word can say is kept all the same.
    #[test]
    fn a_long_list() {
        let mut part = Arena::default();
        let items = vec![Cell::TRUE; LEN_MASK as usize + 1];
        let cell = part.list(&items);
        let mut whole = Arena::default();
        whole.pack(&Value::pair(1, 2));
        let moved = whole.append(&part);
        let ValueRef::List(list) = whole.view(moved.cell(cell)) else { panic!("a list") };
        assert_eq!(list.len(), items.len());
        assert_eq!(list.get(items.len() - 1), Some(ValueRef::Bool(true)));
    }

    /// A list that grows keeps its earlier forms, whether it grew in place or moved, and two that
    /// grow from the same beginning do not disturb each other.
    #[test]
    fn lists_grow() {
        let elements = |arena: &Arena, list| arena.slice(list).iter().collect::<Vec<Cell>>();
        let mut arena = Arena::default();
        let items: Vec<Cell> = (0..100).map(|n| arena.int(n)).collect();
        let first = Growing::new(arena.list(&items[..5]), 5).expect("a short list");
        let mut grown = vec![first];
        for len in 5..100 {
            grown.push(arena.grow(grown[len - 5], &items[len..=len]));
        }
        let other = arena.grow(first, &items[90..]);
        for (more, list) in grown.iter().enumerate() {
            assert_eq!(elements(&arena, list.cell()), &items[..5 + more]);
        }
        assert_eq!(elements(&arena, other.cell()), [&items[..5], &items[90..]].concat());
        assert_eq!(elements(&arena, other.first(6)), [&items[..5], &items[90..91]].concat());
        assert_eq!(elements(&arena, other.first(3)), &items[..3]);
        assert!(arena.cells.len() < 500, "{} cells", arena.cells.len());
    }

    /// A short list that comes again takes no more room.
    #[test]
    fn short_lists_are_shared() {
        let mut arena = Arena::default();
        let first = arena.pack(&Value::pair("k", 1));
        let size = arena.cells.len();
        assert_eq!(arena.pack(&Value::pair("k", 1)), first);
        assert_eq!(arena.cells.len(), size);
        assert_ne!(arena.pack(&Value::pair("k", 2)), first);
    }
}
