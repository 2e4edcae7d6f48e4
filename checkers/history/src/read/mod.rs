//! Reading histories: our own, Jepsen's, Knossos's, elle-cli's and Porcupine's, compressed or not.
//!
//! A file is cut into blocks where events seem to end; blocks are parsed in parallel, and their
//! events appended in order. Where a guess was wrong the two blocks are joined and parsed again,
//! so the result never depends on the cuts.
//!
//! A file is taken whole or not at all. Only an unfinished event on its very last line, which a
//! killed recorder leaves, is passed over with a warning; anything else that is wrong is an error
//! with line and column.

mod draft;
mod edn;
mod format;
mod json;
mod log;
mod part;
mod scan;
mod source;

use std::io::Read;

use rayon::prelude::*;

pub(crate) use edn::KEYWORD_TAG;
pub(crate) use format::EDN_HEADER;
pub use format::{Format, UnknownFormat};
pub use scan::NESTING_MAX;

use crate::columns::{EVENTS_MAX, Event};
use crate::validate::{Rules, validate};
use crate::{Flaw, Flaws, Header, History, HistoryBuilder, ReadError};
use format::{Opening, open};
use part::{Part, Presence};
use source::{Block, Source, decompress};

/// The longest event, in bytes.
pub const EVENT_BYTES_MAX: usize = 64 << 20;

/// How to read a file.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOptions {
    /// The format, if it is not to be told from the contents.
    pub format: Option<Format>,
    /// Values are `[key, value]` pairs. Only our own header and Porcupine's `:key` say so by
    /// themselves.
    pub keyed: bool,
}

/// A history that was read.
#[derive(Debug)]
pub struct Loaded {
    /// What happened.
    pub history: History,
    /// The format it was in.
    pub format: Format,
    /// What is odd about the file, though it can be judged.
    pub warnings: Flaws,
}

/// Reads a history and [validates](crate::validate()) it.
///
/// # Errors
/// [`ReadError::Io`] if the bytes cannot be had or decompressed; [`ReadError::Flawed`], with every
/// flaw, if they are not a history.
pub fn read(input: impl Read + Send, options: &ReadOptions) -> Result<Loaded, ReadError> {
    let mut source = Source::new(decompress(input)?);
    let threads = rayon::current_num_threads();
    let mut batch = source.batch(1)?;
    let opening = match batch.first_mut() {
        Some(block) => open(block, options.format)?,
        None => Opening { format: Format::Jsonl, header: None, close: None },
    };
    let mut assembly = Assembly::new(opening, options);
    while !batch.is_empty() && !assembly.fatal {
        // Two rounds of work for each thread, so that one slow block does not hold up all.
        let (parts, next) = if batch.len() == 1 && batch[0].last {
            (vec![assembly.parse(&batch[0])], Ok(Vec::new()))
        } else {
            let opening = &assembly.opening;
            rayon::join(
                || batch.par_iter().map(|block| parse(opening, block)).collect(),
                || source.batch(2 * threads),
            )
        };
        for (block, part) in batch.drain(..).zip(parts) {
            assembly.take(block, part);
        }
        batch = next?;
    }
    assembly.finish()
}

fn parse(opening: &Opening, block: &Block) -> Part {
    let (text, invalid) = match std::str::from_utf8(&block.bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let valid = error.valid_up_to();
            let text = str::from_utf8(&block.bytes[..valid]).unwrap_or_default();
            // A character cut short is a torn line like any other.
            (text, (error.error_len().is_some() || !block.last).then_some(valid))
        }
    };
    let mut part = match opening.format {
        Format::Jsonl | Format::Json => json::parse(block, text, opening.close.is_some()),
        Format::Edn => edn::parse(block, text, opening.close),
        Format::Log => log::parse(block, text),
    };
    if let Some(at) = invalid {
        let (line, column) = block.place(at);
        part.flaws.push(Flaw {
            line,
            column: Some(column),
            what: "this is not UTF-8".into(),
            mend: "convert the file first, for example with iconv".into(),
        });
        part.fatal = true;
    }
    part
}

/// The history so far.
struct Assembly {
    opening: Opening,
    builder: HistoryBuilder,
    own: bool,
    keyed: bool,
    /// The beginning of an event whose end is in a later block.
    carry: Option<Block>,
    /// How long the carry was when it was last parsed in vain.
    tried: usize,
    closed: bool,
    fatal: bool,
    process: Presence,
    key: Presence,
    passed_over: u64,
    flaws: Flaws,
    warnings: Flaws,
}

impl Assembly {
    fn new(mut opening: Opening, options: &ReadOptions) -> Self {
        let own = opening.header.is_some();
        let mut header = opening.header.take().unwrap_or_default();
        header.keyed |= options.keyed;
        Self {
            keyed: header.keyed,
            builder: HistoryBuilder::new(header),
            opening,
            own,
            carry: None,
            tried: 0,
            closed: false,
            fatal: false,
            process: Presence::default(),
            key: Presence::default(),
            passed_over: 0,
            flaws: Flaws::default(),
            warnings: Flaws::default(),
        }
    }

    fn parse(&self, block: &Block) -> Part {
        parse(&self.opening, block)
    }

    /// Takes the next block and what it was parsed to. If it does not begin with an event, the
    /// latter is of no use.
    fn take(&mut self, mut block: Block, mut part: Part) {
        if self.fatal {
            return;
        }
        if let Some(mut carry) = self.carry.take() {
            carry.join(&block);
            // Doubling before each try keeps the work in proportion to the length.
            if carry.bytes.len() < 2 * self.tried && !carry.last {
                self.carry = Some(carry);
                return;
            }
            block = carry;
            part = self.parse(&block);
        }
        self.append(&block, &mut part);
        let Some(open) = part.open else { return };
        if part.fatal {
            return;
        }
        if block.last {
            self.unfinished(&block, open);
            return;
        }
        block.advance(open);
        self.tried = block.bytes.len();
        if self.tried > EVENT_BYTES_MAX {
            let what = format!("the event that begins here is longer than {EVENT_BYTES_MAX} bytes");
            let (line, column) = block.place(0);
            let mend = "a quote or bracket may be missing in it".into();
            self.flaws.push(Flaw { line, column: Some(column), what, mend });
            self.fatal = true;
        }
        self.carry = Some(block);
    }

    fn append(&mut self, block: &Block, part: &mut Part) {
        self.flaws.extend(std::mem::take(&mut part.flaws));
        self.fatal |= part.fatal;
        self.process.merge(part.process);
        self.key.merge(part.key);
        self.passed_over += part.passed_over;
        if self.closed && !part.events.is_empty() {
            let what = "there is more after the end of the list";
            self.flaws.push(Flaw::of_line(part.events[0].line, what, "one file holds one history"));
            self.fatal = true;
        }
        self.closed |= part.closed;
        let builder = &mut self.builder;
        if builder.columns.len() + part.events.len() > EVENTS_MAX
            || !builder.arena.has_room_for(&part.arena)
        {
            let what = "the history is longer than 2^32 events or has 2^30 different strings";
            self.flaws.push(Flaw::of_line(block.line, what, "check it in pieces"));
            self.fatal = true;
        }
        if self.fatal || !self.flaws.is_empty() {
            return;
        }
        let moved = builder.arena.append(&part.arena);
        for event in &part.events {
            builder.columns.push(&Event {
                f: moved.symbol(event.f),
                value: moved.cell(event.value),
                error: moved.cell(event.error),
                node: event.node.map(|node| moved.symbol(node)),
                ..*event
            });
        }
    }

    /// The file ends inside an event.
    fn unfinished(&mut self, block: &Block, open: usize) {
        let rest = &block.bytes[open..];
        let (line, column) = block.place(open);
        let last_line =
            memchr::memchr(b'\n', rest).is_none_or(|end| rest[end..].trim_ascii().is_empty());
        let (what, mend, list) = if last_line {
            let what = "the last line is cut short and was passed over";
            (what, "whoever wrote the file was stopped", &mut self.warnings)
        } else {
            let what = "the file ends inside the event that begins here";
            let mend = "close it, or remove all from here on if the file was cut short";
            (what, mend, &mut self.flaws)
        };
        list.push(Flaw { line, column: Some(column), what: what.into(), mend: mend.into() });
        // One word about it is enough.
        self.closed |= last_line;
    }

    fn finish(mut self) -> Result<Loaded, ReadError> {
        let Self { process, key, .. } = self;
        if let (true, Some(line)) = (process.with, process.without) {
            let what = "this event has no process, though others have";
            self.flaws.push(Flaw::of_line(line, what, "say for each event whose it is"));
        }
        if let (true, Some(line)) = (key.with, key.without) {
            let what = "this event has no key, though others have";
            self.flaws.push(Flaw::of_line(line, what, "give every event a key, or none"));
        }
        if !self.flaws.is_empty() {
            return Err(ReadError::Flawed(self.flaws));
        }
        if self.opening.close.is_some() && !self.closed {
            let what = "the list that the file is has no end";
            self.warnings.push(Flaw::of_line(0, what, "see that nothing was cut off"));
        }
        if self.passed_over > 0 {
            let what =
                format!("{} lines that are no operations were passed over", self.passed_over);
            self.warnings.push(Flaw::of_line(0, what, ""));
        }
        self.builder.set_keyed(self.keyed || key.with);
        let history = self.builder.finish();
        let rules = if self.own { Rules::Own } else { Rules::Foreign };
        let (flaws, warnings) = validate(&history, rules);
        if !flaws.is_empty() {
            return Err(ReadError::Flawed(flaws));
        }
        self.warnings.extend(warnings);
        Ok(Loaded { history, format: self.opening.format, warnings: self.warnings })
    }
}

/// A history in memory, read as [`read`] reads a file: for tests and small examples.
///
/// # Errors
/// As [`read`].
pub fn read_str(text: &str) -> Result<Loaded, ReadError> {
    read(text.as_bytes(), &ReadOptions::default())
}

/// The header a file begins with, if it is one of ours, without reading on.
///
/// # Errors
/// [`ReadError::Io`] if the bytes cannot be had; [`ReadError::Flawed`] if the header is damaged or
/// too new.
pub fn read_header(input: impl Read + Send) -> Result<Option<Header>, ReadError> {
    let mut source = Source::new(decompress(input)?);
    let mut batch = source.batch(1)?;
    let Some(block) = batch.first_mut() else { return Ok(None) };
    Ok(open(block, None)?.header)
}
