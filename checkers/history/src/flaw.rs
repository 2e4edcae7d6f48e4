//! What is wrong with a history file, where, and how to mend it.

use std::fmt;
use std::io;

/// How many flaws are kept in full; the rest are only counted.
pub const FLAWS_LISTED_MAX: usize = 20;

/// One thing wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// The line, from 1; 0 if the history did not come from a file.
    pub line: u64,
    /// The column in characters, from 1, if the flaw is at one place of the line.
    pub column: Option<u64>,
    /// What is wrong.
    pub what: String,
    /// What to do about it; empty where `what` says it all.
    pub mend: String,
}

impl Flaw {
    /// A flaw of a whole line.
    pub(crate) fn of_line(line: u64, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { line, column: None, what: what.into(), mend: mend.into() }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => {}
            (line, None) => write!(f, "line {line}: ")?,
            (line, Some(column)) => write!(f, "line {line}, column {column}: ")?,
        }
        f.write_str(&self.what)?;
        if !self.mend.is_empty() {
            write!(f, "; {}", self.mend)?;
        }
        Ok(())
    }
}

/// Flaws in the order they were found: the first [`FLAWS_LISTED_MAX`], and how many in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flaws {
    listed: Vec<Flaw>,
    count: u64,
}

impl Flaws {
    pub(crate) fn push(&mut self, flaw: Flaw) {
        self.count += 1;
        if self.listed.len() < FLAWS_LISTED_MAX {
            self.listed.push(flaw);
        }
    }

    pub(crate) fn extend(&mut self, others: Self) {
        self.count += others.count - others.listed.len() as u64;
        others.listed.into_iter().for_each(|flaw| self.push(flaw));
    }

    /// The first of them.
    pub fn listed(&self) -> &[Flaw] {
        &self.listed
    }

    /// How many there are, listed or not.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl fmt::Display for Flaws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, flaw) in self.listed.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{flaw}")?;
        }
        match self.count - self.listed.len() as u64 {
            0 => Ok(()),
            more => write!(f, "\n... and {more} more"),
        }
    }
}

/// Why a history could not be read. It does not know the path: the caller does.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes could not be had, or not be decompressed.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The bytes are not a history. One flaw a line.
    #[error("{0}")]
    Flawed(Flaws),
}

impl ReadError {
    /// What is wrong, if it is wrong with the contents.
    pub const fn flaws(&self) -> Option<&Flaws> {
        match self {
            Self::Io(_) => None,
            Self::Flawed(flaws) => Some(flaws),
        }
    }
}

impl From<Flaw> for ReadError {
    fn from(flaw: Flaw) -> Self {
        let mut flaws = Flaws::default();
        flaws.push(flaw);
        Self::Flawed(flaws)
    }
}
