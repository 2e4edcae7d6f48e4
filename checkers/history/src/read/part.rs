//! What one block of a file holds, parsed apart from all others.

use crate::Flaws;
use crate::arena::Arena;
use crate::columns::Columns;

/// Events of a block, with symbols and cells of their own.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) arena: Arena,
    pub(super) columns: Columns,
    pub(super) flaws: Flaws,
    /// Where the first event begins that the block does not hold to its end.
    pub(super) open: Option<usize>,
    /// The list that the whole file is ended here.
    pub(super) closed: bool,
    /// Reading on makes no sense.
    pub(super) fatal: bool,
    pub(super) process: Presence,
    pub(super) key: Presence,
    /// Lines that are not about operations.
    pub(super) passed_over: u64,
}

impl Part {
    /// An empty part with room for the events that a text of this length probably has.
    pub(super) fn for_text(text: &str) -> Self {
        const EVENT_BYTES: usize = 80;
        Self { columns: Columns::with_capacity(text.len() / EVENT_BYTES), ..Self::default() }
    }
}

/// Whether events have something, and the first line of one that has not.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Presence {
    pub(super) with: bool,
    pub(super) without: Option<u64>,
}

impl Presence {
    #[inline]
    pub(super) fn note(&mut self, has: bool, line: u64) {
        if has {
            self.with = true;
        } else if self.without.is_none() {
            self.without = Some(line);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.with |= other.with;
        self.without = self.without.or(other.without);
    }
}
