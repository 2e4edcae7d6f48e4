//! A cursor over a block of text, and where it stopped.

use super::asked::Asked;
use super::draft::{Draft, Field};
use super::echo::Echo;
use super::memo::Memo;
use super::source::Block;
use crate::arena::{Arena, Cell};
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
fn digits(bytes: &[u8], mut at: usize) -> (u64, usize) {
    let mut n: u64 = 0;
    while let Some(eight) = bytes[at..].first_chunk() {
        let (more, count) = leading_digits(u64::from_le_bytes(*eight));
        n = n.wrapping_mul(TENS[count]).wrapping_add(more);
        at += count;
        if count < 8 {
            return (n, at);
        }
    }
    while let Some(digit) = bytes.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|&d| d < 10) {
        n = n.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    (n, at)
}

/// The powers of ten up to that of eight digits.
const TENS: [u64; 9] = {
    let mut tens = [1; 9];
    let mut i = 1;
    while i < tens.len() {
        tens[i] = tens[i - 1] * 10;
        i += 1;
    }
    tens
};

/// The number that a word begins with, from the lowest byte on, and how many digits it has: all eight at
/// the same time.
#[inline]
const fn leading_digits(word: u64) -> (u64, usize) {
    const ONES: u64 = u64::MAX / 255;
    // Digits become 0 to 9. Anything else has its highest bit, or gets it by the sum; what the sum carries
    // over is above the first byte that is no digit.
    let values = word ^ (ONES * b'0' as u64);
    let others = (values.wrapping_add(ONES * (0x7F - 9)) | values) & (ONES << 7);
    let count = others.trailing_zeros() as usize / 8;
    if count == 0 {
        return (0, 0);
    }
    // With zeros before them there are always eight: ones to pairs, pairs to fours, fours to eight.
    let ones = values << (64 - 8 * count);
    let pairs = ones.wrapping_mul(10).wrapping_add(ones >> 8) & 0x00FF_00FF_00FF_00FF;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_FFFF_0000_FFFF;
    (fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xFFFF_FFFF, count)
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
    pub(super) echo: Echo,
    pub(super) memo: Memo,
    asked: Asked,
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
        let mut n: u64 = 0;
        let mut end = self.at;
        while let Some(&byte) = self.bytes.get(end) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            n = n.wrapping_mul(10).wrapping_add(u64::from(digit));
            end += 1;
        }
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

#[cfg(test)]
mod tests {
    use super::leading_digits;

    /// Digits are counted and read up to the first byte that is none, whatever that is, and whatever
    /// follows.
    #[test]
    fn digits_of_a_word() {
        let digits = *b"90817263";
        for count in 0..=8 {
            for other in (0..=u8::MAX).filter(|byte| !byte.is_ascii_digit()) {
                for rest in [b'7', 0, u8::MAX] {
                    let mut word = digits;
                    word[count..].fill(rest);
                    if let Some(byte) = word.get_mut(count) {
                        *byte = other;
                    }
                    let text = std::str::from_utf8(&digits[..count]).expect("digits");
                    let expected = (text.parse().unwrap_or(0), count);
                    assert_eq!(leading_digits(u64::from_le_bytes(word)), expected, "{word:?}");
                }
            }
        }
    }
}
