//! Lists as most are, which is quicker than to look what each element is: a few numbers, or a name and
//! what it is about, as micro-operations are.

use super::echo::{Echo, Echoed};
use super::edn::is_delimiter;
use super::memo;
use super::scan::{Scan, table};
use crate::arena::{Cell, Growing};

/// How a format writes lists.
pub(super) struct Style {
    /// Between two elements.
    separator: u8,
    /// What may follow a number.
    ends: [bool; 256],
    nothing: &'static str,
}

impl Style {
    pub(super) const EDN: Self = Self { separator: b' ', ends: table(b" ]"), nothing: "nil" };

    pub(super) const JSON: Self = Self { separator: b',', ends: table(b",]"), nothing: "null" };
}

/// The bracket that ends a list.
const CLOSE: u8 = b']';

/// Where the elements of a list begin.
#[derive(Clone, Copy)]
pub(super) struct Opened {
    /// In the text.
    at: usize,
    /// On the stack.
    base: usize,
}

impl Scan<'_> {
    /// A list begins at the cursor, which is past its bracket.
    #[inline]
    pub(super) fn open_list(&self) -> Opened {
        Opened { at: self.at, base: self.stack.len() }
    }

    /// Whether nothing of a list was read yet.
    pub(super) const fn is_at_start(&self, opened: Opened) -> bool {
        self.at == opened.at
    }

    /// All of a list that was opened, if it is a short one that is known, or has a name, a small number
    /// and another one, nothing, or a list of them; then past its end. `None`: nothing of it was read, or
    /// as many of its elements as are numbers.
    #[inline]
    pub(super) fn usual_list(&mut self, opened: Opened, style: &Style) -> Option<Cell> {
        match self.peek()? {
            b'"' | b':' if !self.discard => {
                if let Some(list) = self.known_list() {
                    return Some(list);
                }
                if self.named(style).is_some() {
                    return Some(self.close_list(opened));
                }
                self.at = opened.at;
                self.stack.truncate(opened.base);
                None
            }
            b'0'..=b'9' | b'-' => self.numbers(style),
            _ => None,
        }
    }

    /// A list that was read lately, letter by letter the same.
    #[inline]
    fn known_list(&mut self) -> Option<Cell> {
        let short = memo::Short::of(&self.bytes[self.at..], CLOSE)?;
        let list = self.memo.get(&short)?;
        self.at += short.len;
        Some(list)
    }

    /// Elements onto the stack: a name that was seen lately, a small number, and another one, nothing, or a
    /// list of them; then past the end. `None` if it is not, however far that was found out.
    #[inline]
    fn named(&mut self, style: &Style) -> Option<()> {
        let &Style { separator, ref ends, nothing } = style;
        let name = match self.peek()? {
            b'"' => self.known_quoted()?,
            _ => self.keyword()?,
        };
        self.keep(name);
        self.byte(separator)?;
        let number = self.small_integer(ends)?;
        self.keep(number);
        self.byte(separator)?;
        let last = if self.word(nothing) {
            Cell::NIL
        } else if self.word("[]") {
            self.collect(self.stack.len(), false)
        } else if self.word("[") {
            self.numbers(style)?
        } else {
            self.small_integer(ends)?
        };
        self.keep(last);
        self.byte(CLOSE)
    }

    /// The keyword whose colon is at the cursor, and past it.
    #[inline]
    fn keyword(&mut self) -> Option<Cell> {
        let start = self.at + 1;
        let rest = &self.bytes[start..];
        let len = rest.iter().position(|&byte| is_delimiter(byte)).filter(|&len| len > 0)?;
        self.at = start + len;
        Some(Cell::keyword(self.symbol(start, self.at)))
    }

    /// The rest of a list of whole numbers of a few digits with nothing around them, and past its bracket.
    /// `None`: those that are are on the stack, the cursor at the first element that is something else.
    #[inline]
    fn numbers(&mut self, style: &Style) -> Option<Cell> {
        let &Style { separator, ref ends, .. } = style;
        let place = Echo::place(self.stack.last());
        let Opened { at: start, base } = self.open_list();
        let echoed = if self.discard {
            Echoed::Nothing
        } else {
            self.echo.compare(place, self.bytes, start, (separator, CLOSE))
        };
        let mut begins: Option<Growing> = None;
        match echoed {
            Echoed::Nothing => {}
            Echoed::Whole { list, end } => {
                self.at = end + 1;
                return Some(list);
            }
            Echoed::Begins { list, end } => {
                self.at = end;
                begins = Some(list);
            }
        }
        loop {
            let Some(number) = self.small_integer(ends) else {
                self.push_beginning(base, begins);
                return None;
            };
            self.keep(number);
            self.at += 1;
            if self.bytes[self.at - 1] == CLOSE {
                break;
            }
        }
        if self.discard {
            return Some(Cell::NIL);
        }
        let more = self.stack.len() - base;
        let (cell, list) = match begins {
            Some(list) if list.may_grow(more) => {
                let list = self.arena.grow(list, &self.stack[base..]);
                (list.cell(), Some(list))
            }
            _ => {
                self.push_beginning(base, begins);
                let cell = self.arena.list(&self.stack[base..]);
                (cell, Growing::new(cell, self.stack.len() - base))
            }
        };
        if let Some(list) = list {
            self.echo.note(place, start, self.at - 1, list);
        }
        self.stack.truncate(base);
        Some(cell)
    }

    /// Puts the elements that a list begins with on the stack, before the others.
    fn push_beginning(&mut self, base: usize, begins: Option<Growing>) {
        if let Some(list) = begins {
            let elements = self.arena.slice(list.cell());
            self.stack.splice(base..base, elements.iter());
        }
    }

    /// A cell for the list whose elements are on the stack, the cursor past its end.
    #[inline]
    pub(super) fn close_list(&mut self, opened: Opened) -> Cell {
        let Opened { at, base } = opened;
        if self.discard {
            return Cell::NIL;
        }
        let cell = self.arena.new_list(&self.stack[base..]);
        self.stack.truncate(base);
        if self.at - at <= memo::Short::LEN_MAX
            && let Some(short) = memo::Short::of(&self.bytes[at..], CLOSE)
            && at + short.len == self.at
        {
            self.memo.note(short, cell);
        }
        cell
    }

    /// Past this byte, if it is at the cursor.
    #[inline]
    fn byte(&mut self, byte: u8) -> Option<()> {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found.then_some(())
    }
}
