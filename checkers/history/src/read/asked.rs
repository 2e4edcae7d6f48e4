//! What each process asked for last. A completion mostly repeats the value of its invocation, letter by
//! letter: whatever failed does, and whatever only writes. What is the same need not be parsed again.

use std::ops::Range;

use super::draft::Draft;
use crate::arena::Cell;
use crate::{OpType, Process};

/// The last invocations, by process.
#[derive(Debug)]
pub(super) struct Asked {
    known: [Option<Known>; SLOTS],
}

/// An invocation whose value is a list: only of a list it is plain where it ends.
#[derive(Debug, Clone, Copy)]
struct Known {
    process: Process,
    /// The text of its value.
    start: usize,
    end: usize,
    value: Cell,
}

const SLOTS: usize = 64;

impl Asked {
    pub(super) const fn new() -> Self {
        Self { known: [None; SLOTS] }
    }

    fn slot(process: Process) -> usize {
        process.client().unwrap_or_default() as usize % SLOTS
    }

    /// The value at the byte `at` and its end, if the event completes an invocation whose value has the
    /// same text.
    #[inline]
    pub(super) fn repeated(&self, draft: &Draft, bytes: &[u8], at: usize) -> Option<(Cell, usize)> {
        let process = draft.process.filter(|_| draft.kind != Some(OpType::Invoke))?;
        let known = self.known[Self::slot(process)].filter(|known| known.process == process)?;
        let text = &bytes[known.start..known.end];
        bytes[at..].starts_with(text).then_some((known.value, at + text.len()))
    }

    /// Notes the value of an event, if it is an invocation.
    #[inline]
    pub(super) fn note(&mut self, draft: &Draft, bytes: &[u8], text: Range<usize>) {
        if let Some(process) = draft.process.filter(|_| draft.kind == Some(OpType::Invoke)) {
            let Range { start, end } = text;
            let is_list = bytes.get(start) == Some(&b'[');
            let known = Known { process, start, end, value: draft.value };
            self.known[Self::slot(process)] = is_list.then_some(known);
        }
    }
}
