//! What a history says of versions, in a form common to lists and registers.
//!
//! The versions of a key are those of its writers. Some of them, the *chain*, come first in a known
//! order; the *loose* ones come after, in an order that is not known. For lists the loose ones are
//! the appends that nobody saw; for registers all of them are loose.

use super::fan::join;
use super::graph::{Edges, Graph, Rel, Stop};
use super::interner::NONE;
use super::level::OrderKind;
use super::order::{Span, add_order};
use super::planted::{Bug, planted};
use crate::budget::{Budget, Held};

/// The writers of a key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Writers {
    /// In the order of their versions.
    pub(crate) chain: Vec<u32>,
    /// In ascending order.
    pub(crate) loose: Vec<u32>,
}

/// A transaction read the version of a writer, or the initial one ([`NONE`]), of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Read {
    pub(crate) key: u32,
    pub(crate) writer: u32,
    pub(crate) reader: u32,
}

/// All of a history's transactions and versions, or those of some of its transactions.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// When each transaction ran; its node is its place in this list.
    pub(crate) spans: Vec<Span>,
    pub(crate) keys: Vec<Writers>,
    /// Sorted, without repetition.
    pub(crate) reads: Vec<Read>,
    /// The memory it takes, if it is much.
    #[expect(dead_code, reason = "it is given back when this is dropped")]
    pub(crate) held: Option<Held>,
}

impl Facts {
    /// The facts of some of the transactions, given in ascending order and numbered anew.
    ///
    /// A read of a version that is left out becomes one of the last version of the chain before
    /// it that is not, or is left out too if that is not known. What remains holds of the rest in
    /// every order of the whole: to leave out transactions can only make a history more legal.
    pub(crate) fn only(&self, kept: &[u32]) -> Self {
        let mut number = vec![NONE; self.spans.len()];
        for (new, &txn) in (0..).zip(kept) {
            number[txn as usize] = new;
        }
        let spans = kept.iter().map(|&txn| self.spans[txn as usize]).collect();
        let mut keys = Vec::with_capacity(self.keys.len());
        let mut reads = Vec::new();
        // By transaction: the version that a read of its version becomes; `None`: no read at all.
        let mut becomes: Vec<Option<u32>> = vec![None; self.spans.len()];
        let mut rest = self.reads.as_slice();
        for (key, writers) in (0..).zip(&self.keys) {
            let numbers = |of: &[u32]| -> Vec<u32> {
                of.iter().map(|&txn| number[txn as usize]).filter(|&new| new != NONE).collect()
            };
            keys.push(Writers { chain: numbers(&writers.chain), loose: numbers(&writers.loose) });
            let mut last = NONE;
            for &writer in &writers.loose {
                becomes[writer as usize] = Some(number[writer as usize]).filter(|&new| new != NONE);
            }
            for &writer in &writers.chain {
                if number[writer as usize] != NONE {
                    last = number[writer as usize];
                }
                becomes[writer as usize] = Some(last);
            }
            let (of_key, after) = rest.split_at(rest.partition_point(|read| read.key <= key));
            rest = after;
            for read in of_key {
                let reader = number[read.reader as usize];
                let known =
                    if read.writer == NONE { Some(NONE) } else { becomes[read.writer as usize] };
                if let Some(writer) = known.filter(|&writer| reader != NONE && writer != reader) {
                    reads.push(Read { key, writer, reader });
                }
            }
        }
        reads.sort_unstable();
        reads.dedup();
        Self { spans, keys, reads, held: None }
    }

    /// The graph of all that is certain.
    pub(crate) fn graph(&self, order: OrderKind, budget: &Budget) -> Result<Graph, Stop> {
        // By writer: the next one in the chain of the key at hand.
        let mut next_in_chain = vec![NONE; self.spans.len()];
        Graph::of(2 * self.spans.len(), budget, |edges| {
            let nodes = self.add_edges(&mut next_in_chain, edges);
            add_order(order, &self.spans[..], nodes, edges)
        })
    }

    /// Adds what is certain of the data. `next_in_chain` is empty, and will be again.
    fn add_edges(&self, next_in_chain: &mut [u32], edges: &mut Edges<'_>) -> u32 {
        let mut nodes = self.spans.len() as u32;
        let mut rest = self.reads.as_slice();
        for (key, writers) in (0..).zip(&self.keys) {
            let (reads, after) = rest.split_at(rest.partition_point(|read| read.key <= key));
            rest = after;
            for pair in writers.chain.windows(2) {
                edges.push(pair[0], pair[1], Rel::WW);
                next_in_chain[pair[0] as usize] = pair[1];
            }
            if let Some(&last) = writers.chain.last() {
                for &writer in writers.loose.iter().filter(|&&writer| writer != last) {
                    edges.push(last, writer, Rel::WW);
                }
            }
            let last = writers.chain.last().copied().unwrap_or(NONE);
            for of_version in reads.chunk_by(|a, b| a.writer == b.writer) {
                let writer = of_version[0].writer;
                let wr = writer != NONE && !planted(Bug::NoWriteRead);
                for read in of_version.iter().filter(|_| wr) {
                    edges.push(writer, read.reader, Rel::WR);
                }
                if writer == last {
                    let readers = of_version.iter().map(|read| read.reader);
                    if !writers.loose.is_empty() && !planted(Bug::NoReadWrite) {
                        nodes = join(readers, &writers.loose, nodes, edges);
                    }
                    continue;
                }
                let first = writers.chain.first().copied().unwrap_or(NONE);
                let next = if writer == NONE { first } else { next_in_chain[writer as usize] };
                for read in of_version.iter().filter(|read| next != NONE && read.reader != next) {
                    edges.push(read.reader, next, Rel::RW);
                }
            }
            for &writer in &writers.chain {
                next_in_chain[writer as usize] = NONE;
            }
        }
        nodes
    }
}
