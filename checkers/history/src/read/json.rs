//! JSON: our own lines, elle-cli's arrays, and any stream of objects.

use super::draft::{Draft, Field, QUOTED};
use super::lists::Style;
use super::part::Part;
use super::scan::{Halt, Quoted, Scan, Stop, table};
use super::source::Block;
use crate::Symbol;
use crate::arena::Cell;

/// Parses a block that begins between two events. `list`: the file is one array, already open.
pub(super) fn parse(block: &Block, text: &str, list: bool) -> Part {
    let mut json = Json { scan: Scan::new(block, text) };
    let mut part = Part::for_text(text);
    json.events(&mut part, list);
    part.arena = json.scan.arena;
    part
}

struct Json<'t> {
    scan: Scan<'t>,
}

/// What may follow a whole number.
const ENDS: [bool; 256] = table(b",]} \n\r\t");

/// What cannot stand in a string as it is.
const STOPS: [bool; 256] = {
    let mut stops = table(b"\"\\");
    let mut control = 0;
    while control < 0x20 {
        stops[control] = true;
        control += 1;
    }
    stops
};

impl Json<'_> {
    fn events(&mut self, part: &mut Part, list: bool) {
        loop {
            self.space(true);
            self.scan.anchor();
            let start = self.scan.at;
            match self.scan.peek() {
                None => return,
                Some(b']') if list && !part.closed => {
                    self.scan.at += 1;
                    part.closed = true;
                    continue;
                }
                Some(_) if part.closed => {
                    let what = "there is more after the end of the list";
                    part.flaws.push(self.scan.flaw(start, what, "one file holds one history"));
                    part.fatal = true;
                    return;
                }
                Some(_) => {}
            }
            if self.event(part).is_ok() {
                continue;
            }
            match std::mem::replace(&mut self.scan.stop, Stop::End) {
                Stop::End => {
                    part.open = Some(start);
                    return;
                }
                Stop::Flaw { at, what, mend } => {
                    part.flaws.push(self.scan.flaw(at, what, mend));
                    self.scan.discard = false;
                    self.scan.stack.clear();
                    // One event a line is the rule: the next line can be judged by itself.
                    let Some(end) = memchr::memchr(b'\n', &self.scan.bytes[at..]) else {
                        part.fatal = true;
                        return;
                    };
                    self.scan.at = at + end;
                    self.scan.line = self.scan.line_of(at);
                }
            }
        }
    }

    /// Passes over white space, and commas too if asked.
    #[inline]
    fn space(&mut self, commas: bool) {
        if self.scan.peek().is_some_and(|byte| byte <= b',') {
            self.more_space(commas);
        }
    }

    fn more_space(&mut self, commas: bool) {
        while let Some(byte) = self.scan.peek() {
            match byte {
                b' ' | b'\t' | b'\r' => {}
                b'\n' => self.scan.line += 1,
                b',' if commas => {}
                _ => return,
            }
            self.scan.at += 1;
        }
    }

    #[inline]
    fn expect(&mut self, byte: u8, wanted: &str) -> Result<(), Halt> {
        if self.scan.need()? == byte {
            self.scan.at += 1;
            return Ok(());
        }
        self.scan.unexpected(wanted)
    }

    fn event(&mut self, part: &mut Part) -> Result<(), Halt> {
        let (start, line) = (self.scan.at, self.scan.line);
        let mut draft = Draft::new(line);
        if self.own_event(&mut draft).is_some() {
            draft.finish(&mut self.scan.arena, part);
            return Ok(());
        }
        (self.scan.at, self.scan.line) = (start, line);
        self.scan.stack.clear();
        draft = Draft::new(line);
        self.expect(b'{', "an event (\"{\")")?;
        self.space(false);
        if self.scan.need()? == b'}' {
            self.scan.at += 1;
        } else {
            loop {
                self.field(&mut draft)?;
                self.space(false);
                match self.scan.need()? {
                    b',' => self.scan.at += 1,
                    b'}' => {
                        self.scan.at += 1;
                        break;
                    }
                    _ => return self.scan.unexpected("\",\" or \"}\""),
                }
                self.space(false);
            }
        }
        draft.finish(&mut self.scan.arena, part);
        Ok(())
    }

    /// An event exactly as [`jsonl::write_op`](crate::jsonl::write_op) writes it, which is quicker
    /// than to look for its fields. `None` if it is not, however far that was found out.
    #[inline]
    fn own_event(&mut self, draft: &mut Draft) -> Option<()> {
        let scan = &mut self.scan;
        scan.expect("{\"index\":")?;
        draft.index = Some(scan.natural()?);
        scan.expect(",\"time\":")?;
        draft.time = Some(scan.natural()?);
        if scan.word(",\"wall\":") && !draft.plain(Field::Wall, scan, &QUOTED) {
            return None;
        }
        scan.expect(",\"process\":")?;
        draft.process = Some(QUOTED.process(scan)?);
        scan.expect(",\"type\":")?;
        draft.kind = Some(QUOTED.kind(scan)?);
        scan.expect(",\"f\":")?;
        draft.f = Some(self.symbol().ok()?);
        self.scan.expect(",\"value\":")?;
        self.event_value(draft).ok()?;
        if self.scan.word(",\"error\":") {
            draft.error = self.value(0).ok()?;
        }
        if self.scan.word(",\"node\":") {
            draft.node = Some(self.symbol().ok()?);
        }
        self.scan.expect("}")
    }

    #[inline]
    fn field(&mut self, draft: &mut Draft) -> Result<(), Halt> {
        let name_at = self.scan.at;
        let name = self.quoted("a name in quotes")?;
        let field = match name {
            Quoted::Plain(start, end) => self.scan.field(start, end),
            Quoted::Unescaped => Field::of(self.scan.unescaped.as_bytes()),
        };
        self.space(false);
        self.expect(b':', "\":\"")?;
        self.space(false);
        let Some(field) = field else { return self.pass_over() };
        if !draft.first(field) {
            let what = format!("{:?} is given twice in one event", field.name());
            return self.scan.fail(name_at, what, "");
        }
        let start = self.scan.at;
        match field {
            Field::Key => draft.key = Some(self.value(0)?),
            Field::Value => self.event_value(draft)?,
            Field::Error => draft.error = self.value(0)?,
            _ if self.scan.word("null") => {}
            Field::F if self.scan.peek() == Some(b'"') => draft.f = Some(self.symbol()?),
            Field::Node if self.scan.peek() == Some(b'"') => draft.node = Some(self.symbol()?),
            _ if draft.plain(field, &mut self.scan, &QUOTED) && self.is_past_value() => {}
            _ => {
                // At the end of the text it may yet become right; this then says so.
                self.scan.at = start;
                self.pass_over()?;
                let what = format!("{:?} is not {}", field.name(), field.wants());
                draft.flaw.get_or_insert_with(|| self.scan.flaw(start, what, ""));
            }
        }
        Ok(())
    }

    /// Reads the value of an event.
    #[inline]
    fn event_value(&mut self, draft: &mut Draft) -> Result<(), Halt> {
        if let Some(value) = self.scan.repeated(draft) {
            draft.value = value;
            return Ok(());
        }
        let start = self.scan.at;
        draft.value = self.value(0)?;
        self.scan.note_asked(draft, start);
        Ok(())
    }

    /// Whether a value can end here.
    #[inline]
    fn is_past_value(&self) -> bool {
        matches!(self.scan.peek(), None | Some(b',' | b'}' | b' ' | b'\n' | b'\r' | b'\t'))
    }

    fn pass_over(&mut self) -> Result<(), Halt> {
        self.scan.discard = true;
        self.value(0)?;
        self.scan.discard = false;
        Ok(())
    }

    fn symbol(&mut self) -> Result<Symbol, Halt> {
        let quoted = self.quoted("text")?;
        Ok(self.scan.quoted_symbol(quoted))
    }

    fn value(&mut self, depth: usize) -> Result<Cell, Halt> {
        match self.scan.need()? {
            b'"' => {
                if let Some(cell) = self.scan.known_quoted() {
                    return Ok(cell);
                }
                let quoted = self.quoted("text")?;
                Ok(self.scan.quoted_cell(quoted))
            }
            b'[' => self.array(depth),
            b'{' => self.object(depth),
            b'-' | b'0'..=b'9' => match self.scan.small_integer(&ENDS) {
                Some(cell) => Ok(cell),
                None => self.number(),
            },
            b'n' => self.literal("null", Cell::NIL),
            b't' => self.literal("true", Cell::TRUE),
            b'f' => self.literal("false", Cell::FALSE),
            _ => self.scan.unexpected("a value"),
        }
    }

    fn literal(&mut self, word: &str, cell: Cell) -> Result<Cell, Halt> {
        if self.scan.word(word) {
            return Ok(cell);
        }
        if word.as_bytes().starts_with(&self.scan.bytes[self.scan.at..]) {
            return self.scan.end();
        }
        self.scan.unexpected("a value")
    }

    fn array(&mut self, depth: usize) -> Result<Cell, Halt> {
        self.scan.check_depth(depth)?;
        self.scan.at += 1;
        let opened = self.scan.open_list();
        if let Some(list) = self.scan.usual_list(opened, &Style::JSON) {
            return Ok(list);
        }
        let is_first = self.scan.is_at_start(opened);
        self.space(false);
        if self.scan.need()? == b']' && is_first {
            self.scan.at += 1;
            return Ok(self.scan.close_list(opened));
        }
        loop {
            let item = match self.scan.need()? {
                b'[' => self.array(depth + 1)?,
                _ => self.value(depth + 1)?,
            };
            self.scan.keep(item);
            if !self.scan.word(",") {
                self.space(false);
                match self.scan.need()? {
                    b',' => self.scan.at += 1,
                    b']' => {
                        self.scan.at += 1;
                        return Ok(self.scan.close_list(opened));
                    }
                    _ => return self.scan.unexpected("\",\" or \"]\""),
                }
            }
            self.space(false);
        }
    }

    fn object(&mut self, depth: usize) -> Result<Cell, Halt> {
        self.scan.check_depth(depth)?;
        self.scan.at += 1;
        let base = self.scan.stack.len();
        self.space(false);
        if self.scan.need()? == b'}' {
            self.scan.at += 1;
            return Ok(self.scan.collect(base, true));
        }
        loop {
            if self.scan.need()? != b'"' {
                return self.scan.unexpected("a name in quotes");
            }
            let name = self.value(depth + 1)?;
            self.scan.keep(name);
            self.space(false);
            self.expect(b':', "\":\"")?;
            self.space(false);
            let value = self.value(depth + 1)?;
            self.scan.keep(value);
            self.space(false);
            match self.scan.need()? {
                b',' => self.scan.at += 1,
                b'}' => {
                    self.scan.at += 1;
                    return Ok(self.scan.collect(base, true));
                }
                _ => return self.scan.unexpected("\",\" or \"}\""),
            }
            self.space(false);
        }
    }

    /// A number that is not just a few digits.
    #[cold]
    fn number(&mut self) -> Result<Cell, Halt> {
        let start = self.scan.at;
        self.scan.at += usize::from(self.scan.bytes[start] == b'-');
        let digits = self.scan.at;
        self.digits()?;
        if self.scan.at > digits + 1 && self.scan.bytes[digits] == b'0' {
            return self.scan.fail(start, "a number does not begin with 0", "");
        }
        if !matches!(self.scan.need()?, b'.' | b'e' | b'E') {
            let text = &self.scan.text[start..self.scan.at];
            return Ok(self.scan.integer_cell(text));
        }
        if self.scan.peek() == Some(b'.') {
            self.scan.at += 1;
            self.digits()?;
        }
        if matches!(self.scan.peek(), Some(b'e' | b'E')) {
            self.scan.at += 1;
            if matches!(self.scan.peek(), Some(b'+' | b'-')) {
                self.scan.at += 1;
            }
            self.digits()?;
        }
        let text = &self.scan.text[start..self.scan.at];
        Ok(self.scan.float_cell(text))
    }

    /// One digit or more.
    fn digits(&mut self) -> Result<(), Halt> {
        if !self.scan.need()?.is_ascii_digit() {
            return self.scan.unexpected("a digit");
        }
        while self.scan.need()?.is_ascii_digit() {
            self.scan.at += 1;
        }
        Ok(())
    }

    /// A string, opening quote at the cursor.
    #[inline]
    fn quoted(&mut self, wanted: &str) -> Result<Quoted, Halt> {
        self.expect(b'"', wanted)?;
        let start = self.scan.at;
        let bytes = self.scan.bytes;
        let mut at = start;
        while bytes.get(at).is_some_and(|&byte| !STOPS[usize::from(byte)]) {
            at += 1;
        }
        self.scan.at = at;
        match bytes.get(at) {
            Some(b'"') => {
                self.scan.at += 1;
                Ok(Quoted::Plain(start, at))
            }
            Some(b'\\') => self.escaped(start),
            Some(_) => self.control(),
            None => self.scan.end(),
        }
    }

    #[cold]
    fn control<T>(&mut self) -> Result<T, Halt> {
        let mend = "close the text, or write the character as an escape";
        self.scan.fail(self.scan.at, "a control character or line end inside text", mend)
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
                        b'"' | b'\\' | b'/' => char::from(escape),
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
                0..=0x1F => return self.control(),
                _ => {
                    let rest = &self.scan.bytes[self.scan.at..];
                    let run = rest.iter().position(|&b| matches!(b, b'"' | b'\\' | 0..=0x1F));
                    let end = self.scan.at + run.unwrap_or(rest.len());
                    self.scan.unescaped.push_str(&self.scan.text[self.scan.at..end]);
                    self.scan.at = end;
                }
            }
        }
    }
}
