//! Reading histories: our own, Jepsen's, Knossos's, elle-cli's and Porcupine's, compressed or not.
//!
//! A file is cut into blocks where events seem to end; blocks are parsed in parallel, and their
//! events appended in order. Where a guess was wrong the two blocks are joined and parsed again,
//! so the result never depends on the cuts.
//!
//! A file is taken whole or not at all. Only an unfinished event on its very last line, which a
//! killed recorder leaves, is passed over with a warning; anything else that is wrong is an error
//! with line and column.

mod asked;
mod draft;
mod echo;
mod edn;
mod format;
mod json;
mod lists;
mod log;
mod memo;
mod part;
mod pipeline;
mod scan;
mod source;

use std::io::Read;

pub(crate) use edn::KEYWORD_TAG;
pub(crate) use format::EDN_HEADER;
pub use format::{Format, UnknownFormat};
pub use scan::NESTING_MAX;

use crate::columns::EVENTS_MAX;
use crate::pairing::Pairing;
use crate::validate::{Rules, look};
use crate::{Flaw, Flaws, Header, History, HistoryBuilder, ReadError};
use format::{Layout, open};
use part::{Part, Presence};
use pipeline::Pipeline;
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
    let mut beginning = source.beginning()?;
    let (layout, header) = open(&mut beginning, options.format)?;
    let mut assembly = Assembly::new(layout, header, options);
    source.resume(beginning);
    let Some(first) = source.block()? else { return assembly.finish() };
    let last = first.last;
    // Small files are not worth waking other threads.
    source.recycle(assembly.take(parse(layout, &first), first));
    if last || assembly.fatal {
        return assembly.finish();
    }
    Pipeline::new(layout, source, assembly).run()?.finish()
}

fn parse(layout: Layout, block: &Block) -> Part {
    let (text, invalid) = match std::str::from_utf8(&block.bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let valid = error.valid_up_to();
            let text = str::from_utf8(&block.bytes[..valid]).unwrap_or_default();
            // A character cut short is a torn line like any other.
            (text, (error.error_len().is_some() || !block.last).then_some(valid))
        }
    };
    let mut part = match layout.format {
        Format::Jsonl | Format::Json => json::parse(block, text, layout.close.is_some()),
        Format::Edn => edn::parse(block, text, layout.close),
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
    layout: Layout,
    builder: HistoryBuilder,
    pairing: Pairing,
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
    fn new(layout: Layout, header: Option<Header>, options: &ReadOptions) -> Self {
        let own = header.is_some();
        let mut header = header.unwrap_or_default();
        header.keyed |= options.keyed;
        Self {
            keyed: header.keyed,
            builder: HistoryBuilder::new(header),
            pairing: Pairing::default(),
            layout,
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

    /// Takes the next block and what it was parsed to; gives back its buffer. If the block does not
    /// begin with an event, the part is of no use.
    fn take(&mut self, mut part: Part, mut block: Block) -> Vec<u8> {
        if self.fatal {
            return block.bytes;
        }
        if let Some(mut carry) = self.carry.take() {
            carry.join(&block);
            // Doubling before each try keeps the work in proportion to the length.
            if carry.bytes.len() < 2 * self.tried && !carry.last {
                self.carry = Some(carry);
                return block.bytes;
            }
            block = carry;
            part = parse(self.layout, &block);
        }
        self.append(&block, &mut part);
        let Some(open) = part.open.filter(|_| !part.fatal) else { return block.bytes };
        if block.last {
            self.unfinished(&block, open);
            return block.bytes;
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
        Vec::new()
    }

    fn append(&mut self, block: &Block, part: &mut Part) {
        self.flaws.extend(std::mem::take(&mut part.flaws));
        self.fatal |= part.fatal;
        self.process.merge(part.process);
        self.key.merge(part.key);
        self.passed_over += part.passed_over;
        let events = part.columns.len();
        if self.closed && events > 0 {
            let what = "there is more after the end of the list";
            self.flaws.push(Flaw::of_line(
                part.columns.line(0),
                what,
                "one file holds one history",
            ));
            self.fatal = true;
        }
        self.closed |= part.closed;
        let builder = &mut self.builder;
        if builder.columns.len() + events > EVENTS_MAX
            || !builder.arena.has_room_for(&part.arena, events)
        {
            let what = "the history is longer than 2^30 events, or has 2^30 different strings or 2^28 \
                        values that are too big for 32 bits";
            self.flaws.push(Flaw::of_line(block.line, what, "check it in pieces"));
            self.fatal = true;
        }
        if self.fatal || !self.flaws.is_empty() {
            return;
        }
        let moved = builder.arena.append(&part.arena);
        builder.columns.append(&part.columns, &moved, &mut builder.arena);
        self.pairing.go_on(&builder.columns);
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
        if self.layout.close.is_some() && !self.closed {
            let what = "the list that the file is has no end";
            self.warnings.push(Flaw::of_line(0, what, "see that nothing was cut off"));
        }
        if self.passed_over > 0 {
            let what =
                format!("{} lines that are no operations were passed over", self.passed_over);
            self.warnings.push(Flaw::of_line(0, what, ""));
        }
        self.builder.set_keyed(self.keyed || key.with);
        let rules = if self.own { Rules::Own } else { Rules::Foreign };
        let orderly = self.pairing.is_orderly();
        let history = self.builder.paired(self.pairing);
        let (flaws, warnings) = look(&history, rules, orderly);
        if !flaws.is_empty() {
            return Err(ReadError::Flawed(flaws));
        }
        self.warnings.extend(warnings);
        Ok(Loaded { history, format: self.layout.format, warnings: self.warnings })
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
    let mut beginning = Source::new(decompress(input)?).beginning()?;
    Ok(open(&mut beginning, None)?.1)
}

#[cfg(test)]
mod tests;
