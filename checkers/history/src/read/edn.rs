//! EDN as Jepsen, Knossos and Elle write it: a stream of maps or one list of them.
//!
//! Clojure prints more than EDN allows, so this reads a little more: metadata, quotes, regexes,
//! `#object[…]`. A tag says how to rebuild an object; the value it stands before is kept instead.
//! A set is read as a list, a character and a symbol as text. Ratios, and decimals (`1.5M`) of more
//! than 15 digits, are kept as text: no float is as exact. Whole numbers may be in any radix.

use super::draft::{Draft, Field, KEYWORDS, QUOTED};
use super::lists::Style;
use super::part::Part;
use super::scan::{Halt, Quoted, Scan, Stop, table};
use super::source::Block;
use crate::arena::Cell;

/// The tag before a string that is a keyword no EDN token can be: `#deposed/keyword "two words"`.
pub(crate) const KEYWORD_TAG: &str = "deposed/keyword";

/// Parses a block that begins between two events. `close`: the file is one list, already open, and
/// ends with this.
pub(super) fn parse(block: &Block, text: &str, close: Option<u8>) -> Part {
    let mut edn = Edn::new(Scan::new(block, text));
    let mut part = Part::for_text(text);
    let mut start = 0;
    let done = edn.events(&mut part, close, block.last, &mut start);
    if done.is_err() {
        match std::mem::replace(&mut edn.scan.stop, Stop::End) {
            Stop::End => part.open = Some(start),
            Stop::Flaw { at, what, mend } => {
                part.flaws.push(edn.scan.flaw(at, what, mend));
                part.fatal = true;
            }
        }
    }
    part.arena = edn.scan.arena;
    part
}

pub(super) struct Edn<'t> {
    pub(super) scan: Scan<'t>,
    /// No more text is to come, so a comment may end with it.
    last: bool,
    /// A token may end with the text.
    whole: bool,
}

/// What ends a token.
const DELIMITERS: [bool; 256] = table(b" \t\n\r,\";()[]{}");

#[inline]
pub(super) fn is_delimiter(byte: u8) -> bool {
    DELIMITERS[usize::from(byte)]
}

impl<'t> Edn<'t> {
    pub(super) const fn new(scan: Scan<'t>) -> Self {
        Self { scan, last: true, whole: false }
    }

    /// For text that is a few values and ends where it should.
    pub(super) const fn of_values(scan: Scan<'t>) -> Self {
        Self { scan, last: true, whole: true }
    }

    /// `start` is left where the last event that was begun begins.
    fn events(
        &mut self,
        part: &mut Part,
        close: Option<u8>,
        last: bool,
        start: &mut usize,
    ) -> Result<(), Halt> {
        self.last = last;
        loop {
            *start = self.scan.at;
            self.scan.anchor();
            if self.scan.word("\n") {
                self.scan.line += 1;
            }
            self.space(0)?;
            *start = self.scan.at;
            self.scan.anchor();
            let Some(byte) = self.scan.peek() else { return Ok(()) };
            if part.closed {
                let what = "there is more after the end of the list";
                return self.scan.fail(*start, what, "one file holds one history");
            }
            if Some(byte) == close {
                self.scan.at += 1;
                part.closed = true;
                continue;
            }
            if byte != b'{' {
                self.tags(0)?;
                if self.scan.need()? != b'{' {
                    return self.scan.unexpected("an event (\"{\")");
                }
            }
            self.event(part)?;
        }
    }

    /// Passes over white space, commas, comments and discarded forms.
    #[inline]
    fn space(&mut self, depth: usize) -> Result<(), Halt> {
        let bytes = self.scan.bytes;
        let mut at = self.scan.at;
        while matches!(bytes.get(at), Some(b' ' | b',')) {
            at += 1;
        }
        self.scan.at = at;
        match bytes.get(at) {
            // All that is left to pass over is below the brackets, digits and letters.
            Some(&byte) if byte > b'#' && byte != b';' => Ok(()),
            _ => self.more_space(depth),
        }
    }

    fn more_space(&mut self, depth: usize) -> Result<(), Halt> {
        while let Some(byte) = self.scan.peek() {
            match byte {
                b' ' | b',' | b'\t' | b'\r' | 0x0B | 0x0C => {}
                b'\n' => self.scan.line += 1,
                b';' => {
                    match memchr::memchr(b'\n', &self.scan.bytes[self.scan.at..]) {
                        Some(end) => self.scan.at += end,
                        None if self.last => self.scan.at = self.scan.bytes.len(),
                        None => return self.scan.end(),
                    }
                    continue;
                }
                b'#' if self.scan.bytes.get(self.scan.at + 1) == Some(&b'_') => {
                    self.scan.check_depth(depth)?;
                    self.scan.at += 2;
                    self.space(depth + 1)?;
                    self.pass_over(depth + 1)?;
                    continue;
                }
                _ => return Ok(()),
            }
            self.scan.at += 1;
        }
        Ok(())
    }

    /// Passes over tags, quotes and metadata, up to the value they are about. True if the last tag
    /// says that a string is a keyword.
    #[inline]
    fn tags(&mut self, depth: usize) -> Result<bool, Halt> {
        let mut keyword = false;
        loop {
            match self.scan.need()? {
                b'\'' => self.scan.at += 1,
                b'^' => {
                    self.scan.check_depth(depth)?;
                    self.scan.at += 1;
                    self.space(depth + 1)?;
                    self.pass_over(depth + 1)?;
                }
                b'#' => match self.scan.bytes.get(self.scan.at + 1) {
                    Some(b'{' | b'(' | b'"' | b'#') => return Ok(false),
                    Some(b'<') => {
                        let mend = "record it as text; Clojure cannot read it either";
                        return self.scan.fail(self.scan.at, "an object printed as #<…>", mend);
                    }
                    Some(b'\'' | b'^') => self.scan.at += 1,
                    Some(_) => {
                        self.scan.at += 1;
                        keyword = self.token()? == KEYWORD_TAG;
                    }
                    None => return self.scan.end(),
                },
                _ => return Ok(keyword),
            }
            self.space(depth)?;
        }
    }

    /// Text up to the next delimiter, which there has to be.
    #[inline]
    fn token(&mut self) -> Result<&'t str, Halt> {
        let start = self.scan.at;
        let end = self.token_end()?;
        Ok(&self.scan.text[start..end])
    }

    /// Goes to the next delimiter, which there has to be, and says where that is.
    #[inline]
    fn token_end(&mut self) -> Result<usize, Halt> {
        let bytes = self.scan.bytes;
        let mut at = self.scan.at;
        while bytes.get(at).is_some_and(|&byte| !is_delimiter(byte)) {
            at += 1;
        }
        self.scan.at = at;
        if at == bytes.len() && !self.whole {
            return self.scan.end();
        }
        Ok(at)
    }

    fn event(&mut self, part: &mut Part) -> Result<(), Halt> {
        let (start, line) = (self.scan.at, self.scan.line);
        let mut draft = Draft::new(line);
        if self.usual_event(&mut draft).is_some() {
            draft.finish(&mut self.scan.arena, part);
            return Ok(());
        }
        (self.scan.at, self.scan.line) = (start, line);
        self.scan.stack.clear();
        self.scan.discard = false;
        draft = Draft::new(line);
        self.scan.at += 1;
        loop {
            self.space(0)?;
            let name_at = self.scan.at;
            let field = match self.scan.need()? {
                b'}' => break,
                b':' => {
                    self.scan.at += 1;
                    let end = self.token_end()?;
                    self.scan.field(name_at + 1, end)
                }
                b'"' => {
                    let quoted = self.quoted()?;
                    Field::of(self.scan.quoted_text(quoted).as_bytes())
                }
                _ => {
                    self.pass_over(1)?;
                    None
                }
            };
            self.space(0)?;
            if self.scan.need()? == b'}' {
                return self.odd();
            }
            let Some(field) = field else {
                self.pass_over(1)?;
                continue;
            };
            if !draft.first(field) {
                let what = format!(":{} is given twice in one event", field.name());
                return self.scan.fail(name_at, what, "");
            }
            self.field(field, &mut draft)?;
        }
        self.scan.at += 1;
        draft.finish(&mut self.scan.arena, part);
        Ok(())
    }

    /// An event exactly as [`edn::write_op`](crate::edn::write_op) writes it, and Jepsen's history
    /// simulator, which is quicker than to look for its fields. `None` if it is not, however far that
    /// was found out.
    #[inline]
    fn usual_event(&mut self, draft: &mut Draft) -> Option<()> {
        let scan = &mut self.scan;
        scan.expect("{:index ")?;
        draft.index = Some(scan.natural()?);
        if scan.word(", :time ") {
            draft.time = Some(scan.natural()?);
        }
        scan.expect(", :type ")?;
        draft.kind = Some(KEYWORDS.kind(scan)?);
        scan.expect(", :process ")?;
        draft.process = Some(KEYWORDS.process(scan)?);
        scan.expect(", :f :")?;
        scan.at -= 1;
        draft.f = self.keyword().ok()?.symbol();
        self.scan.expect(", :value ")?;
        self.event_value(draft).ok()?;
        self.scan.expect("}")
    }

    /// Reads the value of an event.
    #[inline]
    fn event_value(&mut self, draft: &mut Draft) -> Result<(), Halt> {
        if let Some(value) = self.scan.repeated(draft) {
            draft.value = value;
            return Ok(());
        }
        let start = self.scan.at;
        draft.value = match self.scan.need()? {
            b'[' => self.vector(1)?,
            _ => self.value(1)?,
        };
        self.scan.note_asked(draft, start);
        Ok(())
    }

    #[inline]
    fn field(&mut self, field: Field, draft: &mut Draft) -> Result<(), Halt> {
        let start = self.scan.at;
        match field {
            Field::Key => draft.key = Some(self.value(1)?),
            Field::Value => self.event_value(draft)?,
            Field::Error => draft.error = self.value(1)?,
            Field::F | Field::Node => {
                let cell = self.value(1)?;
                match cell.symbol() {
                    Some(symbol) if field == Field::F => draft.f = Some(symbol),
                    Some(symbol) => draft.node = Some(symbol),
                    None if cell == Cell::NIL => {}
                    None => self.misfit(field, start, draft),
                }
            }
            _ => {
                if draft.plain(field, &mut self.scan, &KEYWORDS) && self.is_past_token() {
                    return Ok(());
                }
                let plain = self.again(start) && self.scan.word("nil") && self.is_past_token()
                    || self.again(start)
                        && draft.plain(field, &mut self.scan, &QUOTED)
                        && self.is_past_token();
                if !plain {
                    // At the end of the text it may yet become right; this then says so.
                    self.scan.at = start;
                    self.pass_over(1)?;
                    self.misfit(field, start, draft);
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn misfit(&self, field: Field, start: usize, draft: &mut Draft) {
        let what = format!(":{} is not {}", field.name(), field.wants());
        draft.flaw.get_or_insert_with(|| self.scan.flaw(start, what, ""));
    }

    const fn again(&mut self, start: usize) -> bool {
        self.scan.at = start;
        true
    }

    #[inline]
    fn is_past_token(&self) -> bool {
        self.scan.peek().is_none_or(is_delimiter)
    }

    #[cold]
    fn odd<T>(&mut self) -> Result<T, Halt> {
        self.scan.fail(self.scan.at, "a map ends after a key that has no value", "")
    }

    fn pass_over(&mut self, depth: usize) -> Result<(), Halt> {
        let discard = std::mem::replace(&mut self.scan.discard, true);
        self.value(depth)?;
        self.scan.discard = discard;
        Ok(())
    }

    /// A value, from its first character on.
    pub(super) fn value(&mut self, depth: usize) -> Result<Cell, Halt> {
        let byte = self.scan.need()?;
        if matches!(byte, b'#' | b'^' | b'\'') && self.tags(depth)? {
            return self.tagged_keyword();
        }
        match self.scan.need()? {
            b'"' => {
                if let Some(cell) = self.scan.known_quoted() {
                    return Ok(cell);
                }
                let quoted = self.quoted()?;
                Ok(self.scan.quoted_cell(quoted))
            }
            b':' => self.keyword(),
            b'[' => self.vector(depth),
            b'(' => self.sequence(b')', 1, depth),
            b'{' => self.sequence(b'}', 1, depth),
            b'#' => self.dispatch(depth),
            b'\\' => self.character(),
            b'0'..=b'9' => self.number(),
            b'-' | b'+' => match self.scan.bytes.get(self.scan.at + 1) {
                Some(b'0'..=b'9') => self.number(),
                Some(_) => self.symbol(),
                None => self.scan.end(),
            },
            b')' | b']' | b'}' => self.scan.unexpected("a value"),
            _ => self.symbol(),
        }
    }

    fn keyword(&mut self) -> Result<Cell, Halt> {
        let start = self.scan.at;
        self.scan.at += 1;
        let end = self.token_end()?;
        if end == start + 1 {
            return self.scan.fail(start, "a keyword without a name", "");
        }
        if self.scan.discard {
            return Ok(Cell::NIL);
        }
        Ok(Cell::keyword(self.scan.symbol(start + 1, end)))
    }

    #[cold]
    fn tagged_keyword(&mut self) -> Result<Cell, Halt> {
        if self.scan.need()? != b'"' {
            return self.scan.unexpected("the text of a keyword");
        }
        let quoted = self.quoted()?;
        let cell = self.scan.quoted_cell(quoted);
        Ok(cell.symbol().map_or(cell, Cell::keyword))
    }

    fn symbol(&mut self) -> Result<Cell, Halt> {
        Ok(match self.token()? {
            "nil" => Cell::NIL,
            "true" => Cell::TRUE,
            "false" => Cell::FALSE,
            name => self.scan.text_cell(name),
        })
    }

    /// A vector, opening bracket at the cursor.
    fn vector(&mut self, depth: usize) -> Result<Cell, Halt> {
        self.scan.check_depth(depth)?;
        self.scan.at += 1;
        let opened = self.scan.open_list();
        if let Some(list) = self.scan.usual_list(opened, &Style::EDN) {
            return Ok(list);
        }
        self.items(b']', depth)?;
        Ok(self.scan.close_list(opened))
    }

    /// A list, set or map whose opening takes `opening` characters.
    fn sequence(&mut self, close: u8, opening: usize, depth: usize) -> Result<Cell, Halt> {
        self.scan.check_depth(depth)?;
        let map = close == b'}' && opening == 1;
        self.scan.at += opening;
        let base = self.scan.stack.len();
        let count = self.items(close, depth)?;
        if map && count % 2 == 1 {
            self.scan.at -= 1;
            return self.odd();
        }
        Ok(self.scan.collect(base, map))
    }

    /// What is left of a list, onto the stack, and past its end; how many there were.
    #[inline]
    fn items(&mut self, close: u8, depth: usize) -> Result<usize, Halt> {
        let mut count: usize = 0;
        loop {
            self.space(depth + 1)?;
            let item = match self.scan.need()? {
                b'0'..=b'9' => self.number()?,
                b'[' => self.vector(depth + 1)?,
                byte if byte == close => break,
                b')' | b']' | b'}' => {
                    return self.scan.unexpected(&format!("{:?}", char::from(close)));
                }
                _ => self.value(depth + 1)?,
            };
            self.scan.keep(item);
            count += 1;
        }
        self.scan.at += 1;
        Ok(count)
    }

    /// What begins with `#` and is neither a tag nor discarded.
    fn dispatch(&mut self, depth: usize) -> Result<Cell, Halt> {
        match self.scan.bytes.get(self.scan.at + 1) {
            Some(b'{') => self.sequence(b'}', 2, depth),
            Some(b'(') => self.sequence(b')', 2, depth),
            Some(b'"') => {
                self.scan.at += 1;
                self.regex()
            }
            _ => {
                let start = self.scan.at;
                Ok(match self.token()? {
                    "##NaN" => self.scan.arena.float(f64::NAN),
                    "##Inf" => self.scan.arena.float(f64::INFINITY),
                    "##-Inf" => self.scan.arena.float(f64::NEG_INFINITY),
                    _ => return self.scan.fail(start, "not ##NaN, ##Inf or ##-Inf", ""),
                })
            }
        }
    }

    /// The source of a regular expression: backslashes stand for themselves.
    fn regex(&mut self) -> Result<Cell, Halt> {
        self.scan.at += 1;
        let start = self.scan.at;
        loop {
            match self.scan.need()? {
                b'"' => break,
                b'\\' => self.scan.at += 1,
                b'\n' => self.scan.line += 1,
                _ => {}
            }
            self.scan.at += 1;
        }
        let text = &self.scan.text[start..self.scan.at];
        self.scan.at += 1;
        Ok(self.scan.text_cell(text))
    }

    fn character(&mut self) -> Result<Cell, Halt> {
        let start = self.scan.at;
        self.scan.at += 1;
        let Some(first) = self.scan.text[self.scan.at..].chars().next() else {
            return self.scan.end();
        };
        self.scan.at += first.len_utf8();
        self.token()?;
        let name = &self.scan.text[start + 1..self.scan.at];
        let character = match name {
            "newline" => '\n',
            "space" => ' ',
            "tab" => '\t',
            "return" => '\r',
            "backspace" => '\u{8}',
            "formfeed" => '\u{C}',
            _ if name.len() == first.len_utf8() => first,
            _ => {
                let code = name.strip_prefix('u').and_then(|hex| u32::from_str_radix(hex, 16).ok());
                match code.filter(|_| name.len() == 5).and_then(char::from_u32) {
                    Some(character) => character,
                    None => return self.scan.fail(start, "no such character", ""),
                }
            }
        };
        Ok(self.scan.text_cell(character.encode_utf8(&mut [0; 4])))
    }

    #[inline]
    fn number(&mut self) -> Result<Cell, Halt> {
        if let Some(cell) = self.scan.small_integer(&DELIMITERS) {
            return Ok(cell);
        }
        let start = self.scan.at;
        let text = self.token()?;
        match self.special_number(text) {
            Some(cell) => Ok(cell),
            None => self.scan.fail(start, format!("{text:?} is not a number"), ""),
        }
    }

    /// A number that is not just a few digits.
    #[cold]
    fn special_number(&mut self, text: &str) -> Option<Cell> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let is_whole = |digits: &str| {
            !digits.is_empty()
                && digits.bytes().all(|b| b.is_ascii_digit())
                && (digits.len() == 1 || !digits.starts_with('0'))
        };
        if let Some((above, below)) = unsigned.split_once('/') {
            return (is_whole(above) && is_whole(below)).then(|| self.scan.text_cell(text));
        }
        if is_whole(unsigned.strip_suffix(['N', 'M']).unwrap_or(unsigned)) {
            return Some(self.scan.integer_cell(text.trim_end_matches(['N', 'M'])));
        }
        if let Some(magnitude) = in_another_radix(unsigned.strip_suffix('N').unwrap_or(unsigned)) {
            let sign = if text.starts_with('-') { "-" } else { "" };
            return Some(self.scan.integer_cell(&format!("{sign}{magnitude}")));
        }
        let exact = unsigned.ends_with('M');
        let decimal = text.strip_suffix('M').unwrap_or(text);
        let is_decimal =
            decimal.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'-' | b'+'))
                && decimal.contains(['.', 'e', 'E'])
                && decimal.parse::<f64>().is_ok();
        if !is_decimal {
            return None;
        }
        let digits = decimal.split(['e', 'E']).next().unwrap_or_default();
        let precise = digits.bytes().filter(u8::is_ascii_digit).count() > 15;
        Some(if exact && precise {
            self.scan.text_cell(text)
        } else {
            self.scan.float_cell(decimal)
        })
    }

    /// A string, opening quote at the cursor.
    #[inline]
    fn quoted(&mut self) -> Result<Quoted, Halt> {
        let start = self.scan.at + 1;
        let bytes = self.scan.bytes;
        let mut at = start;
        while bytes.get(at).is_some_and(|byte| !matches!(byte, b'"' | b'\\' | b'\n')) {
            at += 1;
        }
        self.scan.at = at;
        match bytes.get(at) {
            Some(b'"') => {
                self.scan.at += 1;
                Ok(Quoted::Plain(start, at))
            }
            // A line end has to be counted; that is done there too.
            Some(_) => self.escaped(start),
            None => self.scan.end(),
        }
    }

    /// The rest of a string with escapes, the first at the cursor.
    #[cold]
    fn escaped(&mut self, start: usize) -> Result<Quoted, Halt> {
        self.scan.unescaped.clear();
        self.scan.unescaped.push_str(&self.scan.text[start..self.scan.at]);
        loop {
            match self.scan.need()? {
                b'"' => {
                    self.scan.at += 1;
                    return Ok(Quoted::Unescaped);
                }
                b'\\' => {
                    self.scan.at += 1;
                    let escape = self.scan.need()?;
                    self.scan.at += 1;
                    let character = match escape {
                        b'"' | b'\\' => char::from(escape),
                        b'n' => '\n',
                        b'r' => '\r',
                        b't' => '\t',
                        b'b' => '\u{8}',
                        b'f' => '\u{C}',
                        b'u' => self.scan.unicode()?,
                        _ => return self.scan.fail(self.scan.at - 2, "unknown escape", ""),
                    };
                    self.scan.unescaped.push(character);
                }
                _ => {
                    let rest = &self.scan.bytes[self.scan.at..];
                    let end = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                    let run = &self.scan.text[self.scan.at..self.scan.at + end];
                    self.scan.line += memchr::memchr_iter(b'\n', run.as_bytes()).count() as u64;
                    self.scan.unescaped.push_str(run);
                    self.scan.at += end;
                }
            }
        }
    }
}

/// A whole number as only Clojure reads it, and prints addresses of objects: `0x1b`, `033` or `36rR`.
fn in_another_radix(unsigned: &str) -> Option<u128> {
    let (radix, digits) = match unsigned.strip_prefix('0') {
        Some(rest) => rest.strip_prefix(['x', 'X']).map_or((8, rest), |digits| (16, digits)),
        None => {
            let (radix, digits) = unsigned.split_once(['r', 'R'])?;
            (radix.parse().ok().filter(|radix| (2..=36).contains(radix))?, digits)
        }
    };
    // A second sign is none of its digits.
    digits
        .chars()
        .all(|digit| digit.is_digit(radix))
        .then(|| u128::from_str_radix(digits, radix).ok())?
}
