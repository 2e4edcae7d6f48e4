//! Blocks on their way from the file into the history: read one after the other, parsed side by side,
//! appended in order, each by whichever thread is free.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::Scope;

use super::format::Layout;
use super::part::Part;
use super::source::{Block, Source};
use super::{Assembly, parse};

/// What the threads have in common.
pub(super) struct Pipeline<R> {
    layout: Layout,
    source: Mutex<Source<R>>,
    end: Mutex<End>,
}

/// Where blocks arrive.
struct End {
    assembly: Assembly,
    /// The number of the block that is to be appended next.
    next: usize,
    /// Blocks that are parsed, but not next, by number.
    waiting: BTreeMap<usize, (Part, Block)>,
    failed: Option<io::Error>,
}

impl<R: Read + Send> Pipeline<R> {
    /// One for all blocks but the first, which was appended already.
    pub(super) const fn new(layout: Layout, source: Source<R>, assembly: Assembly) -> Self {
        let end = End { assembly, next: 1, waiting: BTreeMap::new(), failed: None };
        Self { layout, source: Mutex::new(source), end: Mutex::new(end) }
    }

    /// The history when all blocks were appended, or as many as make sense.
    pub(super) fn run(self) -> io::Result<Assembly> {
        let pipeline = &self;
        // So many blocks are on their way at the same time.
        let blocks = 4 * rayon::current_num_threads();
        rayon::scope(|scope| (0..blocks).for_each(|_| scope.spawn(|scope| pipeline.step(scope))));
        let end = self.end.into_inner().unwrap_or_else(PoisonError::into_inner);
        match end.failed {
            Some(error) if !end.assembly.fatal => Err(error),
            _ => Ok(end.assembly),
        }
    }

    /// Takes a block as far as it gets now. When one has been appended, another one may set out.
    fn step<'s>(&'s self, scope: &Scope<'s>) {
        // Whoever parses a block also reads it: then it is in the cache of that processor.
        let read = lock(&self.source).block();
        let block = match read {
            Ok(Some(block)) => block,
            Ok(None) => return,
            Err(error) => {
                lock(&self.source).end();
                lock(&self.end).failed = Some(error);
                return;
            }
        };
        let part = parse(self.layout, &block);
        let mut end = lock(&self.end);
        end.waiting.insert(block.number, (part, block));
        while let Some((part, block)) = end.take_next() {
            let buffer = end.assembly.take(part, block);
            let mut source = lock(&self.source);
            source.recycle(buffer);
            if end.assembly.fatal {
                source.end();
            }
            scope.spawn(|scope| self.step(scope));
        }
    }
}

impl End {
    fn take_next(&mut self) -> Option<(Part, Block)> {
        let taken = self.waiting.remove(&self.next)?;
        self.next += 1;
        Some(taken)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
