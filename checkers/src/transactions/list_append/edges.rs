//! What the version orders say of the order of transactions.
//!
//! Per key: the writer of a version precedes the writer of the next (ww) and those who read it (wr),
//! and who read it precedes the writer of the next (rw). A committed append that nobody saw comes
//! after the longest read: its *tail*. Appends by transactions that failed, or are not known, are
//! passed over: a version order is transitive.

use super::super::fan::join;
use super::super::graph::{Edges, Rel, Stop};
use super::super::interner::NONE;
use super::super::order::Span;
use super::super::planted::{Bug, planted};
use super::super::txns::Txns;
use super::versions::Versions;
use crate::budget::{Budget, Held};

/// The edges of the data, and what is needed to explain them.
#[derive(Debug, Default)]
pub(crate) struct Data {
    /// By place in the orders: the first known writer at or after it, and its place.
    next: Vec<Option<(u32, u32)>>,
    /// Committed appends of each key that nobody saw, by their transaction: (key, writer, value).
    tails: Vec<(u32, u32, u32)>,
    /// The memory it takes.
    #[expect(dead_code, reason = "it is given back when this is dropped")]
    held: Option<Held>,
}

/// What the graph is once edges were added.
pub(crate) struct Added {
    /// How many nodes it has.
    pub(crate) nodes: u32,
    /// Whether edges of a guess are among them.
    pub(crate) guessed: bool,
}

impl Data {
    pub(crate) fn of(txns: &Txns<'_>, versions: &Versions, budget: &Budget) -> Result<Self, Stop> {
        let length = versions.length();
        let held = budget.hold((length * size_of::<Option<(u32, u32)>>()) as u64)?;
        let mut data = Self { held: Some(held), ..Self::default() };
        data.next.reserve_exact(length);
        for key in 0..txns.key_count() as u32 {
            let order = versions.order(key);
            let base = data.next.len();
            data.next.resize(base + order.len(), None);
            let mut next = None;
            for (at, &value) in order.iter().enumerate().rev() {
                // A value that occurs twice has the place of its first occurrence.
                if versions.place(value) as usize == at + 1
                    && let Some(writer) = txns.writer(value)
                {
                    next = Some((writer, value));
                }
                data.next[base + at] = next;
            }
        }
        for txn in (0..txns.len() as u32).filter(|&txn| txns.is_committed(txn)) {
            for mop in txns.mops(txn).iter().filter(|mop| mop.is_write()) {
                let seen = versions.is_seen(mop.what) || planted(Bug::TailForgotten);
                if !seen && txns.writer(mop.what).is_some() {
                    data.tails.push((mop.key(), txn, mop.what));
                }
            }
        }
        data.tails.sort_by_key(|&(key, ..)| key);
        Ok(data)
    }

    /// Who wrote the next version after the first `length` elements of a key's order, and which
    /// value.
    #[inline]
    fn next(&self, versions: &Versions, key: u32, length: u32) -> Option<(u32, u32)> {
        if length as usize >= versions.order(key).len() {
            return None;
        }
        self.next[versions.first(key) + length as usize]
    }

    /// Committed appends to a key that nobody saw.
    pub(crate) fn tail(&self, key: u32) -> &[(u32, u32, u32)] {
        let from = self.tails.partition_point(|&(k, ..)| k < key);
        let to = self.tails.partition_point(|&(k, ..)| k <= key);
        &self.tails[from..to]
    }

    /// The last known writer in a key's order, with its value.
    pub(crate) fn last(
        &self,
        txns: &Txns<'_>,
        versions: &Versions,
        key: u32,
    ) -> Option<(u32, u32)> {
        let order = versions.order(key);
        order.iter().rev().find_map(|&value| Some((txns.writer(value)?, value)))
    }

    /// How far a read got in its key's order: the place of its last element, if that has one.
    #[inline]
    fn length(versions: &Versions, key: u32, what: u32) -> Option<u32> {
        match Versions::stray(what) {
            None => Some(what),
            Some(_) => match versions.seen(key, what).last() {
                Some(&last) => Some(versions.place(last)).filter(|&place| place > 0),
                None => Some(0),
            },
        }
    }

    /// What was written next after the version that a read saw: `Some(None)` if nothing that is
    /// known, `None` if the read is a stray whose version has no place, or saw what came next too.
    #[inline]
    pub(crate) fn next_after_read(
        &self,
        versions: &Versions,
        key: u32,
        what: u32,
    ) -> Option<Option<(u32, u32)>> {
        let length = Self::length(versions, key, what)?;
        let next = self.next(versions, key, length);
        let saw =
            |value| Versions::stray(what).is_some() && versions.seen(key, what).contains(&value);
        next.is_none_or(|(_, value)| !saw(value)).then_some(next)
    }

    /// Adds all edges. Auxiliary nodes are numbered from `nodes`.
    pub(crate) fn add_edges(
        &self,
        txns: &Txns<'_>,
        versions: &Versions,
        nodes: u32,
        edges: &mut Edges<'_>,
    ) -> Added {
        for key in 0..txns.key_count() as u32 {
            let mut before = None;
            for (at, &value) in versions.order(key).iter().enumerate() {
                if versions.place(value) as usize != at + 1 {
                    continue;
                }
                let Some(writer) = txns.writer(value) else { continue };
                let keep = |&before: &u32| before != writer && !planted(Bug::NoWriteWrite);
                if let Some(before) = before.filter(keep) {
                    edges.push(before, writer, Rel::WW);
                }
                before = Some(writer);
            }
        }
        // Readers of whole orders that have a tail: (key, reader).
        let mut whole: Vec<(u32, u32)> = Vec::new();
        let mut has_tail = vec![false; txns.key_count()];
        for &(key, ..) in &self.tails {
            has_tail[key as usize] = true;
        }
        for txn in (0..txns.len() as u32).filter(|&txn| txns.is_committed(txn)) {
            for mop in txns.mops(txn).iter().filter(|mop| !mop.is_write()) {
                let key = mop.key();
                let seen = versions.seen(key, mop.what);
                if let Some(writer) = seen.last().and_then(|&last| txns.writer(last))
                    && writer != txn
                    && !planted(Bug::NoWriteRead)
                {
                    edges.push(writer, txn, Rel::WR);
                }
                match self.next_after_read(versions, key, mop.what) {
                    Some(Some((writer, _))) if writer != txn && !planted(Bug::NoReadWrite) => {
                        edges.push(txn, writer, Rel::RW)
                    }
                    Some(None) if has_tail[key as usize] => whole.push((key, txn)),
                    _ => {}
                }
            }
        }
        self.add_tails(txns, versions, &mut whole, nodes, edges)
    }

    fn add_tails(
        &self,
        txns: &Txns<'_>,
        versions: &Versions,
        whole: &mut Vec<(u32, u32)>,
        nodes: u32,
        edges: &mut Edges<'_>,
    ) -> Added {
        whole.sort_unstable();
        whole.dedup();
        let mut nodes = nodes;
        let mut guessed = false;
        let mut rest = self.tails.as_slice();
        while let Some(&(key, ..)) = rest.first() {
            let (tail, after) = rest.split_at(rest.partition_point(|&(k, ..)| k == key));
            rest = after;
            let mut writers: Vec<u32> = tail.iter().map(|&(_, writer, _)| writer).collect();
            writers.dedup();
            if let Some((last, _)) = self.last(txns, versions, key) {
                for &writer in writers.iter().filter(|&&writer| writer != last) {
                    edges.push(last, writer, Rel::WW);
                }
            }
            let from = whole.partition_point(|&(k, _)| k < key);
            let to = whole.partition_point(|&(k, _)| k <= key);
            let readers = whole[from..to].iter().map(|&(_, reader)| reader);
            nodes = join(readers, &writers, nodes, edges);
            if writers.len() > 1 {
                guessed = true;
                guess(txns, &mut writers, edges);
            }
        }
        Added { nodes, guessed }
    }
}

/// Orders writers of which nobody knows the order by when they ended, for one that did not: began.
fn guess(txns: &Txns<'_>, writers: &mut [u32], edges: &mut Edges<'_>) {
    writers.sort_by_key(|&writer| {
        let Span { invoke, ret, .. } = Span::of(txns, writer, writer);
        if ret == NONE { invoke } else { ret }
    });
    for pair in writers.windows(2) {
        edges.push(pair[0], pair[1], Rel::GUESS);
    }
}
