//! Which format a file is in, told from how it begins.

use std::fmt;
use std::str::FromStr;

use super::source::Block;
use crate::{Flaw, Header, SCHEMA_VERSION};

/// A format of histories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Ours: a header, then one JSON object a line.
    Jsonl,
    /// elle-cli's: an array of JSON objects, or a stream of them.
    Json,
    /// Jepsen's, Knossos's and Porcupine's key-value data: a stream of EDN maps, or a list of them.
    Edn,
    /// The lines Jepsen logs, as Porcupine's etcd data keeps them.
    Log,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::Jsonl, Self::Json, Self::Edn, Self::Log];

    /// `jsonl`, `json`, `edn`, `log`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Json => "json",
            Self::Edn => "edn",
            Self::Log => "log",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is no format's.
#[derive(Debug, Clone, thiserror::Error)]
#[error("there is no format {0:?}; there are jsonl, json, edn and log")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let found = Self::ALL.into_iter().find(|format| format.as_str() == name);
        found.ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

/// What every block of a file has in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) format: Format,
    /// The file is one list, which this closes.
    pub(super) close: Option<u8>,
}

/// The comment in which EDN keeps our header, as JSON.
pub(crate) const EDN_HEADER: &str = ";; deposed-history ";

/// Reads what stands before the first event, and takes it off the block.
pub(super) fn open(
    block: &mut Block,
    wanted: Option<Format>,
) -> Result<(Layout, Option<Header>), Flaw> {
    if block.bytes.starts_with(b"\xEF\xBB\xBF") {
        block.advance(3);
    }
    let found = wanted.map_or_else(|| detect(&block.bytes), Ok);
    let format = found.map_err(|(what, mend)| Flaw::of_line(block.line, what, mend))?;
    let mut layout = Layout { format, close: None };
    let blank = |block: &Block| {
        block.bytes.iter().position(|&byte| !is_blank(byte)).unwrap_or(block.bytes.len())
    };
    if format == Format::Log {
        return Ok((layout, None));
    }
    block.advance(blank(block));
    let line_end = memchr::memchr(b'\n', &block.bytes).unwrap_or(block.bytes.len());
    let line = &block.bytes[..line_end];
    let header = match format {
        Format::Edn => line.strip_prefix(EDN_HEADER.as_bytes()),
        _ => Some(line).filter(|line| is_header(line)),
    };
    let header = header.map(|json| parse_header(json, block.line)).transpose()?;
    if header.is_some() {
        layout.format = if format == Format::Json { Format::Jsonl } else { format };
        block.advance(line_end);
    }
    // Comments may stand before the list.
    loop {
        block.advance(blank(block));
        let comment = format == Format::Edn && block.bytes.first() == Some(&b';');
        let Some(end) = memchr::memchr(b'\n', &block.bytes).filter(|_| comment) else { break };
        block.advance(end);
    }
    layout.close = match (format, block.bytes.first()) {
        (Format::Log, _) => None,
        (_, Some(b'[')) => Some(b']'),
        (Format::Edn, Some(b'(')) => Some(b')'),
        _ => None,
    };
    if layout.close.is_some() {
        block.advance(1);
    }
    Ok((layout, header))
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',')
}

/// What the bytes look like; what is wrong and how to mend it if like nothing known.
fn detect(bytes: &[u8]) -> Result<Format, (&'static str, &'static str)> {
    let mut rest = bytes.iter().copied().filter(|&byte| !is_blank(byte));
    match rest.next() {
        None => Ok(Format::Jsonl),
        Some(b'{' | b'[') => Ok(match rest.find(|byte| !matches!(byte, b'{' | b'[')) {
            Some(b'"') => Format::Json,
            // Nothing but brackets: an empty list, or a torn first line.
            None | Some(b']' | b'}') => Format::Json,
            Some(_) => Format::Edn,
        }),
        Some(b'(' | b';' | b'#') => Ok(Format::Edn),
        _ if bytes.starts_with(b"JEPSEN") => {
            Err(("this is Jepsen's own binary store", "give the history.edn that lies beside it"))
        }
        _ if memchr::memmem::find(bytes, b"jepsen.util").is_some() => Ok(Format::Log),
        _ => Err((
            "this is no history: it begins neither as JSON, nor as EDN, nor as a Jepsen log",
            "name its format if it is one all the same",
        )),
    }
}

fn is_header(line: &[u8]) -> bool {
    let has = |name: &[u8]| memchr::memmem::find(line, name).is_some();
    line.starts_with(b"{") && has(b"\"schema\"") && !has(b"\"type\"")
}

fn parse_header(json: &[u8], line: u64) -> Result<Header, Flaw> {
    #[derive(serde::Deserialize)]
    struct Schema {
        schema: u32,
    }
    let flaw = |error: serde_json::Error| Flaw {
        column: Some(error.column() as u64),
        ..Flaw::of_line(line, format!("the header cannot be read: {error}"), "")
    };
    let Schema { schema } = serde_json::from_slice(json).map_err(flaw)?;
    if schema > SCHEMA_VERSION {
        let what = format!("the history has schema {schema}, this reads up to {SCHEMA_VERSION}");
        return Err(Flaw::of_line(line, what, "use the version that wrote it, or a newer one"));
    }
    serde_json::from_slice(json).map_err(flaw)
}
