//! A cursor over a block of text, and where it stopped.

use super::asked::Asked;
use super::draft::{Draft, Field};
use super::echo::{Echo, Echoed};
use super::memo::{self, Memo};
use super::source::Block;
use crate::arena::{Arena, Cell, Growing};
use crate::{Flaw, Symbol};

/// How deep lists and maps may be nested in one event.
pub const NESTING_MAX: usize = 64;

/// Parsing stopped; [`Scan::stop`] says why.
#[derive(Debug)]
pub(super) struct Halt;

/// Why parsing stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// The text ended inside something.
    End,
    /// Something is wrong at a place.
    Flaw { at: usize, what: String, mend: &'static str },
}

/// A string: a piece of the text, or [`Scan::unescaped`].
#[derive(Clone, Copy)]
pub(super) enum Quoted {
    Plain(usize, usize),
    Unescaped,
}

/// A string of up to eight bytes that was seen lately, and its symbol. Functions, keywords and the
/// names of micro-operations come again and again; this is quicker than hashing them.
#[derive(Clone, Copy)]
struct Short {
    bits: u64,
    /// 0: none.
    len: usize,
    symbol: Symbol,
}

impl Short {
    #[inline]
    const fn slot(bits: u64, len: usize) -> usize {
        ((bits ^ len as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize
    }
}

/// Where a byte is first found in a word, from the lowest byte on.
#[inline]
pub(super) const fn position(word: u64, byte: u8) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    let differs = word ^ (ONES * byte as u64);
    // The lowest bit that is left belongs to the lowest byte that does not differ.
    let same = differs.wrapping_sub(ONES) & !differs & (ONES << 7);
    if same == 0 { None } else { Some(same.trailing_zeros() as usize / 8) }
}

/// The bytes of a set, for quick look-up.
pub(super) const fn table(set: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut i = 0;
    while i < set.len() {
        table[set[i] as usize] = true;
        i += 1;
    }
    table
}

/// The number that the digits from `at` on make, wrapping, and where they end.
#[inline]
fn digits(bytes: &[u8], at: usize) -> (u64, usize) {
    let mut n: u64 = 0;
    let mut end = at;
    while let Some(&byte) = bytes.get(end) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        n = n.wrapping_mul(10).wrapping_add(u64::from(digit));
        end += 1;
    }
    (n, end)
}

/// What both JSON and EDN need to turn text into cells.
pub(super) struct Scan<'t> {
    block: &'t Block,
    pub(super) text: &'t str,
    pub(super) bytes: &'t [u8],
    pub(super) at: usize,
    /// The line `at` is on.
    pub(super) line: u64,
    /// A place before `at` and the line it is on: flaws are located from here.
    anchor: (usize, u64),
    pub(super) arena: Arena,
    /// Elements of the lists that are open.
    pub(super) stack: Vec<Cell>,
    /// Check the syntax, keep nothing.
    pub(super) discard: bool,
    pub(super) stop: Stop,
    /// The last string that had escapes.
    pub(super) unescaped: String,
    short: [Short; 64],
    echo: Echo,
    memo: Memo,
    asked: Asked,
}

/// Where a list begins, and what is known of it.
#[derive(Clone, Copy)]
pub(super) struct Opened {
    /// Elements on the stack that are not its own.
    pub(super) base: usize,
    /// The byte of its first element.
    start: usize,
    place: usize,
    /// The elements it begins with, which are not on the stack.
    begins: Option<Growing>,
    /// Its text, if it ends at the first closing bracket.
    short: Option<memo::Short>,
}

impl Opened {
    /// Whether none of its elements was read yet.
    pub(super) const fn is_at_start(&self, scan: &Scan<'_>) -> bool {
        scan.at == self.start
    }
}

impl<'t> Scan<'t> {
    pub(super) fn new(block: &'t Block, text: &'t str) -> Self {
        Self {
            block,
            text,
            bytes: text.as_bytes(),
            at: 0,
            line: block.line,
            anchor: (0, block.line),
            arena: Arena::default(),
            stack: Vec::new(),
            discard: false,
            stop: Stop::End,
            unescaped: String::new(),
            short: [Short { bits: 0, len: 0, symbol: Symbol(0) }; 64],
            echo: Echo::new(),
            memo: Memo::new(),
            asked: Asked::new(),
        }
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The byte here, or the end of the text as a reason to stop.
    #[inline]
    pub(super) fn need(&mut self) -> Result<u8, Halt> {
        match self.peek() {
            Some(byte) => Ok(byte),
            None => self.end(),
        }
    }

    #[cold]
    pub(super) fn end<T>(&mut self) -> Result<T, Halt> {
        self.stop = Stop::End;
        Err(Halt)
    }

    #[cold]
    pub(super) fn fail<T>(
        &mut self,
        at: usize,
        what: impl Into<String>,
        mend: &'static str,
    ) -> Result<T, Halt> {
        self.stop = Stop::Flaw { at, what: what.into(), mend };
        Err(Halt)
    }

    /// "`found` where `wanted` is due", at the cursor.
    #[cold]
    pub(super) fn unexpected<T>(&mut self, wanted: &str) -> Result<T, Halt> {
        let Some(found) = self.text[self.at..].chars().next() else { return self.end() };
        self.fail(self.at, format!("found {found:?} where {wanted} is due"), "")
    }

    pub(super) fn check_depth(&mut self, depth: usize) -> Result<(), Halt> {
        if depth < NESTING_MAX {
            return Ok(());
        }
        let line = self.anchor.1;
        let what = format!(
            "lists and maps are nested more than {NESTING_MAX} deep in the event of line {line}"
        );
        self.fail(self.at, what, "close its brackets, or flatten its value where it is recorded")
    }

    /// A cell for text, unless nothing is kept.
    #[inline]
    pub(super) fn text_cell(&mut self, text: &str) -> Cell {
        if self.discard { Cell::NIL } else { self.arena.str(text) }
    }

    pub(super) fn quoted_text(&self, quoted: Quoted) -> &str {
        match quoted {
            Quoted::Plain(start, end) => &self.text[start..end],
            Quoted::Unescaped => &self.unescaped,
        }
    }

    #[inline]
    pub(super) fn quoted_symbol(&mut self, quoted: Quoted) -> Symbol {
        match quoted {
            Quoted::Plain(start, end) => self.symbol(start, end),
            Quoted::Unescaped => self.arena.strings.intern(&self.unescaped),
        }
    }

    /// A piece of one to eight bytes of the text as a number, if eight bytes follow its start.
    #[inline]
    fn bits(&self, start: usize, end: usize) -> Option<u64> {
        let len = end - start;
        let eight = self.bytes.get(start..start + 8)?.try_into().ok()?;
        (1..=8).contains(&len).then(|| u64::from_le_bytes(eight) & (u64::MAX >> (64 - 8 * len)))
    }

    /// The field that a piece of the text names.
    #[inline]
    pub(super) fn field(&self, start: usize, end: usize) -> Option<Field> {
        match self.bits(start, end) {
            Some(bits) => Field::of_bits(bits),
            None => Field::of(&self.bytes[start..end]),
        }
    }

    /// The string whose opening quote is at the cursor, if it is short and was seen lately; then past
    /// it.
    #[inline]
    pub(super) fn known_quoted(&mut self) -> Option<Cell> {
        let start = self.at + 1;
        let eight = u64::from_le_bytes(self.bytes.get(start..start + 8)?.try_into().ok()?);
        let len = position(eight, b'"').filter(|len| *len > 0)?;
        let bits = eight & (u64::MAX >> (64 - 8 * len));
        let known = &self.short[Short::slot(bits, len)];
        // In a keyword, a backslash is no escape.
        if known.bits != bits || known.len != len || position(bits, b'\\').is_some() {
            return None;
        }
        self.at = start + len + 1;
        Some(Cell::str(known.symbol))
    }

    /// The symbol of a piece of the text.
    #[inline]
    pub(super) fn symbol(&mut self, start: usize, end: usize) -> Symbol {
        let len = end - start;
        let Some(bits) = self.bits(start, end) else {
            return self.arena.strings.intern(&self.text[start..end]);
        };
        let slot = Short::slot(bits, len);
        let known = &self.short[slot];
        if known.bits == bits && known.len == len {
            return known.symbol;
        }
        let symbol = self.arena.strings.intern(&self.text[start..end]);
        self.short[slot] = Short { bits, len, symbol };
        symbol
    }

    #[inline]
    pub(super) fn quoted_cell(&mut self, quoted: Quoted) -> Cell {
        if self.discard { Cell::NIL } else { Cell::str(self.quoted_symbol(quoted)) }
    }

    /// A cell for the list or map whose elements are on the stack from `base` on.
    #[inline]
    pub(super) fn collect(&mut self, base: usize, map: bool) -> Cell {
        let items = &self.stack[base..];
        let cell = match (self.discard, map) {
            (true, _) => Cell::NIL,
            (false, true) => self.arena.map(items),
            (false, false) => self.arena.list(items),
        };
        self.stack.truncate(base);
        cell
    }

    /// The value at the cursor, if it repeats what the event's process asked for; then past it.
    #[inline]
    pub(super) fn repeated(&mut self, draft: &Draft) -> Option<Cell> {
        let (value, end) = self.asked.repeated(draft, self.bytes, self.at)?;
        self.at = end;
        Some(value)
    }

    /// Notes the value of an event, which began at the byte `start` and ends at the cursor.
    #[inline]
    pub(super) fn note_asked(&mut self, draft: &Draft, start: usize) {
        self.asked.note(draft, self.bytes, start..self.at);
    }

    /// Opens a list, the cursor past its bracket. `Err` holds all of it, the cursor past its end, if
    /// it was read before; if only its beginning was, the cursor is where more elements are due.
    #[inline]
    pub(super) fn open_list(&mut self, separator: u8, close: u8) -> Result<Opened, Cell> {
        let place = Echo::place(self.stack.last());
        let (base, start) = (self.stack.len(), self.at);
        let mut opened = Opened { base, start, place, begins: None, short: None };
        if self.discard {
            return Ok(opened);
        }
        opened.short = memo::Short::of(&self.bytes[start..], close);
        if let Some(short) = &opened.short {
            let Some(list) = self.memo.get(short) else { return Ok(opened) };
            self.at += short.len;
            return Err(list);
        }
        match self.echo.compare(place, self.bytes, start, (separator, close)) {
            Echoed::Nothing => {}
            Echoed::Whole { list, end } => {
                self.at = end + 1;
                return Err(list);
            }
            Echoed::Begins { list, end } => {
                self.at = end;
                opened.begins = Some(list);
            }
        }
        Ok(opened)
    }

    /// Whole numbers of a few digits at the cursor, onto the stack, each with a separator right
    /// behind it, or the closing bracket. True: past the bracket. False: at the first element that
    /// is something else.
    #[inline]
    pub(super) fn numbers(&mut self, ends: &[bool; 256], close: u8) -> bool {
        loop {
            let Some(number) = self.small_integer(ends) else { return false };
            self.keep(number);
            self.at += 1;
            if self.bytes[self.at - 1] == close {
                return true;
            }
        }
    }

    /// Closes a list of which all elements were [numbers](Self::numbers), the cursor past its end.
    #[inline]
    pub(super) fn close_numbers(&mut self, opened: Opened) -> Cell {
        let Opened { base, start, place, begins, .. } = opened;
        if self.discard {
            return Cell::NIL;
        }
        let more = self.stack.len() - base;
        let (cell, list) = match begins {
            Some(list) if list.may_grow(more) => {
                let list = self.arena.grow(list, &self.stack[base..]);
                (list.cell(), Some(list))
            }
            _ => {
                self.push_beginning(opened);
                let cell = self.arena.list(&self.stack[base..]);
                (cell, Growing::new(cell, self.stack.len() - base))
            }
        };
        if let Some(list) = list {
            self.echo.note(place, start, self.at - 1, list);
        }
        self.stack.truncate(base);
        cell
    }

    /// Closes any list, the cursor past its end.
    #[inline]
    pub(super) fn close_list(&mut self, opened: Opened) -> Cell {
        let Opened { base, start, short, .. } = opened;
        if self.discard {
            return Cell::NIL;
        }
        let cell = self.arena.new_list(&self.stack[base..]);
        if let Some(short) = short.filter(|short| start + short.len == self.at) {
            self.memo.note(short, cell);
        }
        self.stack.truncate(base);
        cell
    }

    /// Puts the elements that a list begins with on the stack, before the others.
    pub(super) fn push_beginning(&mut self, opened: Opened) {
        if let Some(list) = opened.begins {
            let elements = self.arena.slice(list.cell());
            self.stack.splice(opened.base..opened.base, elements.iter());
        }
    }

    #[inline]
    pub(super) fn keep(&mut self, cell: Cell) {
        if !self.discard {
            self.stack.push(cell);
        }
    }

    /// A whole number of any size. One beyond 64 bits is kept as its digits and an `N`, as EDN
    /// writes it, so that different numbers stay different.
    pub(super) fn integer_cell(&mut self, digits: &str) -> Cell {
        let digits = digits.strip_prefix('+').unwrap_or(digits);
        match digits.parse() {
            Ok(n) => self.arena.int(n),
            Err(_) => self.text_cell(&format!("{digits}N")),
        }
    }

    /// A number with a fraction or an exponent. One that is too big for a float is kept as text.
    pub(super) fn float_cell(&mut self, text: &str) -> Cell {
        match text.parse::<f64>() {
            Ok(x) if x.is_finite() && !self.discard => self.arena.float(x),
            _ => self.text_cell(text),
        }
    }

    /// Four hexadecimal digits at the cursor, and past them.
    fn hex4(&mut self) -> Result<u32, Halt> {
        let Some(digits) = self.bytes.get(self.at..self.at + 4) else {
            return if self.bytes[self.at..].iter().all(u8::is_ascii_hexdigit) {
                self.end()
            } else {
                self.fail(self.at, "\\u takes four hexadecimal digits", "")
            };
        };
        let mut code = 0;
        for &digit in digits {
            match char::from(digit).to_digit(16) {
                Some(digit) => code = code * 16 + digit,
                None => return self.fail(self.at, "\\u takes four hexadecimal digits", ""),
            }
        }
        self.at += 4;
        Ok(code)
    }

    /// Notes that an event begins here.
    #[inline]
    pub(super) const fn anchor(&mut self) {
        self.anchor = (self.at, self.line);
    }

    /// The line a byte is on, which is not before the event.
    pub(super) fn line_of(&self, at: usize) -> u64 {
        let (from, line) = self.anchor;
        line + memchr::memchr_iter(b'\n', &self.bytes[from..at]).count() as u64
    }

    /// A flaw at a place in the text, which is not before the event.
    pub(super) fn flaw(&self, at: usize, what: impl Into<String>, mend: &str) -> Flaw {
        let column = Some(self.block.column(at));
        Flaw { line: self.line_of(at), column, what: what.into(), mend: mend.into() }
    }

    /// Whether these bytes stand at the cursor; if so, past them.
    #[inline(always)]
    pub(super) fn word(&mut self, word: &str) -> bool {
        let found = self.bytes[self.at..].starts_with(word.as_bytes());
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// [`Scan::word`], for a chain of them.
    #[inline(always)]
    pub(super) fn expect(&mut self, word: &str) -> Option<()> {
        self.word(word).then_some(())
    }

    /// Digits at the cursor as a number; `None`, and the cursor stays, if there are none or too
    /// many.
    #[inline]
    pub(super) fn natural(&mut self) -> Option<u64> {
        let (n, end) = digits(self.bytes, self.at);
        let count = end - self.at;
        // Nineteen digits always fit.
        let n = match count {
            0 => return None,
            1..=19 => n,
            _ => self.text[self.at..end].parse().ok()?,
        };
        self.at = end;
        Some(n)
    }

    /// A whole number of a few digits, sign included, as nearly all are. `None`, and the cursor
    /// stays, if it is anything else or does not end before one of `ends`.
    #[inline]
    pub(super) fn small_integer(&mut self, ends: &[bool; 256]) -> Option<Cell> {
        let negative = self.peek() == Some(b'-');
        let start = self.at + usize::from(negative);
        let (n, end) = digits(self.bytes, start);
        let is_whole = self.bytes.get(end).is_some_and(|&byte| ends[usize::from(byte)]);
        let count = end - start;
        if !is_whole || count == 0 || count > 18 || (count > 1 && self.bytes[start] == b'0') {
            return None;
        }
        self.at = end;
        Some(self.arena.int(if negative { -(n as i64) } else { n as i64 }))
    }

    /// What follows `\u`; two of them for a character beyond 16 bits.
    pub(super) fn unicode(&mut self) -> Result<char, Halt> {
        let start = self.at - 2;
        let mut code = self.hex4()?;
        if (0xD800..0xDC00).contains(&code) {
            for expected in *b"\\u" {
                if self.need()? != expected {
                    return self.fail(start, HALF, "");
                }
                self.at += 1;
            }
            let low = self.hex4()?;
            if !(0xDC00..0xE000).contains(&low) {
                return self.fail(start, HALF, "");
            }
            code = 0x1_0000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        }
        match char::from_u32(code) {
            Some(character) => Ok(character),
            None => self.fail(start, HALF, ""),
        }
    }
}

const HALF: &str = "half a surrogate pair is no character";
