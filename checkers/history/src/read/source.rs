//! Bytes into blocks: decompressed, and cut where an event probably ends.

use std::io::{self, BufReader, Read};

/// How much is parsed at a time. Small enough to stay in a core's own cache. In unit tests so
/// small that cuts fall everywhere.
const BLOCK: usize = if cfg!(test) { 64 } else { 1 << 19 };

/// How much is looked at to tell the format.
const BEGINNING: u64 = 1 << 16;

/// Some of the bytes of a file, and where they stand in it.
#[derive(Debug)]
pub(super) struct Block {
    /// Its place among the blocks.
    pub(super) number: usize,
    pub(super) bytes: Vec<u8>,
    /// The line its first byte is on, from 1.
    pub(super) line: u64,
    /// Characters of that line before the first byte.
    column: u64,
    /// Nothing follows.
    pub(super) last: bool,
}

impl Block {
    /// Line and column, both from 1, of a byte.
    pub(super) fn place(&self, at: usize) -> (u64, u64) {
        let lines = memchr::memchr_iter(b'\n', &self.bytes[..at]).count() as u64;
        (self.line + lines, self.column(at))
    }

    /// The column, from 1, of a byte.
    pub(super) fn column(&self, at: usize) -> u64 {
        let before = &self.bytes[..at];
        match memchr::memrchr(b'\n', before) {
            Some(end) => characters(&before[end + 1..]) + 1,
            None => self.column + characters(before) + 1,
        }
    }

    /// Drops what stands before `at`.
    pub(super) fn advance(&mut self, at: usize) {
        let (line, column) = self.place(at);
        (self.line, self.column) = (line, column - 1);
        self.bytes.drain(..at);
    }

    /// Appends the block that follows.
    pub(super) fn join(&mut self, next: &Self) {
        self.bytes.extend_from_slice(&next.bytes);
        self.last = next.last;
    }
}

fn characters(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte & 0xC0 != 0x80).count() as u64
}

/// The file, block by block.
pub(super) struct Source<R> {
    input: R,
    /// Bytes that belong to the next block.
    carry: Vec<u8>,
    /// Buffers of blocks that are done with.
    spare: Vec<Vec<u8>>,
    /// How many blocks were taken.
    taken: usize,
    line: u64,
    column: u64,
    ended: bool,
}

impl<R: Read> Source<R> {
    pub(super) const fn new(input: R) -> Self {
        Self {
            input,
            carry: Vec::new(),
            spare: Vec::new(),
            taken: 0,
            line: 1,
            column: 0,
            ended: false,
        }
    }

    /// The beginning of the file, or all of it if it is short. What is not used of it is to be
    /// given back to [`Source::resume`].
    pub(super) fn beginning(&mut self) -> io::Result<Block> {
        let mut bytes = Vec::new();
        (&mut self.input).take(BEGINNING).read_to_end(&mut bytes)?;
        let last = (bytes.len() as u64) < BEGINNING;
        Ok(Block { number: 0, bytes, line: 1, column: 0, last })
    }

    /// Goes on from what is left of the beginning.
    pub(super) fn resume(&mut self, left: Block) {
        (self.carry, self.line, self.column) = (left.bytes, left.line, left.column);
    }

    /// Takes back the buffer of a block, to be used again.
    pub(super) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > BLOCK {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// No more blocks are wanted.
    pub(super) const fn end(&mut self) {
        self.ended = true;
    }

    /// The next block; the last may be empty. None only after the last.
    pub(super) fn block(&mut self) -> io::Result<Option<Block>> {
        if self.ended {
            return Ok(None);
        }
        let mut bytes = std::mem::take(&mut self.carry);
        // One byte more than a block: it shows whether this is the last.
        let want = (BLOCK + 1).saturating_sub(bytes.len()) as u64;
        let got = (&mut self.input).take(want).read_to_end(&mut bytes)? as u64;
        self.ended = got < want;
        if !self.ended {
            let cut = cut(&bytes[..BLOCK]);
            self.carry = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK + 1));
            self.carry.extend_from_slice(&bytes[cut..]);
            bytes.truncate(cut);
        }
        let Self { taken: number, line, column, ended: last, .. } = *self;
        let block = Block { number, bytes, line, column, last };
        let (line, column) = block.place(block.bytes.len());
        (self.taken, self.line, self.column) = (number + 1, line, column - 1);
        Ok(Some(block))
    }
}

/// Where to cut: before a line that looks like the beginning of an event; else after any line;
/// else between two maps; else anywhere between two characters. It is a guess: the parser finds
/// out whether an event ended there, and if not, the halves are joined and parsed again.
fn cut(bytes: &[u8]) -> usize {
    let begins = |rest: &[u8]| {
        let first = rest.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b',' | b'['));
        first.is_some_and(|byte| matches!(byte, b'{' | b'#' | b'I'))
    };
    let lines = || memchr::memrchr_iter(b'\n', bytes).map(|end| end + 1);
    let between_maps =
        || memchr::memrchr_iter(b'}', bytes).map(|end| end + 1).find(|&end| begins(&bytes[end..]));
    let character = || (1..bytes.len()).rev().find(|&i| bytes[i] & 0xC0 != 0x80);
    // An event seldom has more lines than this.
    const LINES: usize = 100;
    (lines().take(LINES).find(|&end| begins(&bytes[end..])))
        .or_else(|| lines().next())
        .or_else(between_maps)
        .or_else(character)
        .unwrap_or(bytes.len())
}

/// Undoes zstd or gzip if the first bytes say so, whatever the file is called.
pub(super) fn decompress<'r>(
    mut input: impl Read + Send + 'r,
) -> io::Result<Box<dyn Read + Send + 'r>> {
    let mut magic = Vec::with_capacity(4);
    (&mut input).take(4).read_to_end(&mut magic)?;
    let zstd = magic == [0x28, 0xB5, 0x2F, 0xFD];
    let gzip = magic.starts_with(&[0x1F, 0x8B]);
    let whole = io::Cursor::new(magic).chain(input);
    Ok(if zstd {
        Box::new(Named { name: "zstd", input: zstd::Decoder::new(whole)? })
    } else if gzip {
        let input = flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(1 << 16, whole));
        Box::new(Named { name: "gzip", input })
    } else {
        Box::new(whole)
    })
}

/// A decompressor whose errors say that they are about compression.
struct Named<R> {
    name: &'static str,
    input: R,
}

impl<R: Read> Read for Named<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer).map_err(|error| {
            let name = self.name;
            io::Error::new(
                error.kind(),
                format!(
                    "the {name} stream is damaged or cut short ({error}); if what is left of it is \
                     enough, decompress it by hand and read that"
                ),
            )
        })
    }
}
