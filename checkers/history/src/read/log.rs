//! Jepsen's log lines, as Porcupine's test data keeps them: `INFO  jepsen.util - 3⇥:ok⇥:read⇥nil`.
//!
//! These logs put what went wrong where the value stands (`:info⇥:write⇥:timed-out`), and their
//! client fails a compare-and-set only when the store found the value to be another.

use super::draft::{Draft, Field, KEYWORDS};
use super::edn::Edn;
use super::part::Part;
use super::scan::Scan;
use super::source::Block;
use crate::arena::Cell;
use crate::{OpType, PRECONDITION};

const LOGGER: &[u8] = b"jepsen.util";

/// Parses a block. Its last line may be unfinished only if the file ends there.
pub(super) fn parse(block: &Block, text: &str) -> Part {
    let mut log = Log { edn: Edn::of_values(Scan::new(block, text)), text };
    let mut part = Part::for_text(text);
    let mut start = 0;
    let mut line = block.line;
    while start < text.len() {
        let end = memchr::memchr(b'\n', &text.as_bytes()[start..]).map(|length| start + length);
        if end.is_none() && !block.last {
            part.open = Some(start);
            break;
        }
        log.edn.scan.line = line;
        log.line(start, end.unwrap_or(text.len()), &mut part);
        start = end.map_or(text.len(), |end| end + 1);
        line += 1;
    }
    part.arena = log.edn.scan.arena;
    part
}

struct Log<'t> {
    edn: Edn<'t>,
    text: &'t str,
}

impl<'t> Log<'t> {
    fn line(&mut self, start: usize, end: usize, part: &mut Part) {
        let scan = &mut self.edn.scan;
        // No value may run past its line.
        (scan.text, scan.bytes) = (&self.text[..end], &self.text.as_bytes()[..end]);
        scan.at = start;
        scan.anchor();
        let line = &scan.bytes[start..];
        let is_blank = line.trim_ascii().is_empty();
        let mut draft = Draft::new(scan.line);
        let logger = memchr::memmem::find(line, LOGGER);
        if let Some(at) = logger {
            scan.at = start + at + LOGGER.len();
            while matches!(scan.peek(), Some(b' ' | b'\t' | b'-' | b':'))
                && !scan.bytes[scan.at..].starts_with(b":nemesis")
            {
                scan.at += 1;
            }
            if draft.plain(Field::Process, scan, &KEYWORDS) && self.gap() && self.kind(&mut draft) {
                match self.rest(&mut draft) {
                    Ok(()) => draft.finish(&mut self.edn.scan.arena, part),
                    Err(what) => {
                        // What is cut off in the middle may have been looked for past its line.
                        let at = self.edn.scan.at.min(end);
                        let flaw = self.edn.scan.flaw(at, what, "");
                        part.flaws.push(flaw);
                    }
                }
                return;
            }
        }
        let scan = &self.edn.scan;
        let names_kind = |kind: &&[u8]| memchr::memmem::find(line, kind).is_some();
        let kinds: [&[u8]; 4] = [b":invoke", b":ok", b":fail", b":info"];
        if kinds.iter().any(names_kind) {
            let mend = "an operation is logged as: INFO  jepsen.util - PROCESS :TYPE :F VALUE";
            part.flaws.push(scan.flaw(start, "this names an operation, but not as one", mend));
        } else if !is_blank {
            part.passed_over += 1;
        }
    }

    fn gap(&mut self) -> bool {
        let start = self.edn.scan.at;
        while matches!(self.edn.scan.peek(), Some(b' ' | b'\t' | b'\r')) {
            self.edn.scan.at += 1;
        }
        self.edn.scan.at > start || self.edn.scan.peek().is_none()
    }

    fn kind(&mut self, draft: &mut Draft) -> bool {
        draft.plain(Field::Type, &mut self.edn.scan, &KEYWORDS) && self.gap()
    }

    /// Function, value and error; what is wrong with them otherwise.
    fn rest(&mut self, draft: &mut Draft) -> Result<(), &'static str> {
        draft.f = self.word()?.symbol();
        if draft.f.is_none() {
            return Err("the function is not a name");
        }
        draft.value = self.word()?;
        draft.error = self.error();
        let arena = &mut self.edn.scan.arena;
        if matches!(draft.kind, Some(OpType::Fail | OpType::Info)) && draft.error == Cell::NIL {
            let cas = draft.f == arena.strings.find("cas");
            if draft.value.is_keyword() {
                (draft.value, draft.error) = (Cell::NIL, draft.value);
            } else if cas && draft.kind == Some(OpType::Fail) {
                draft.error = arena.str(PRECONDITION);
            }
        }
        Ok(())
    }

    /// The rest of the line: one value, or any text.
    fn error(&mut self) -> Cell {
        let rest = self.edn.scan.text[self.edn.scan.at..].trim();
        match self.word() {
            Ok(cell) if self.edn.scan.peek().is_none() => cell,
            _ => self.edn.scan.arena.str(rest),
        }
    }

    /// The next value on the line; nil at its end.
    fn word(&mut self) -> Result<Cell, &'static str> {
        if self.edn.scan.peek().is_none() {
            return Ok(Cell::NIL);
        }
        let cell = self.edn.value(0).map_err(|_| "not a value")?;
        self.gap();
        Ok(cell)
    }
}
