//! What the version orders say of the order of transactions.
//!
//! Per key: the writer of a version precedes the writer of the next (ww) and those who read it (wr),
//! and who read it precedes the writer of the next (rw). A committed append that nobody saw comes
//! after the longest read: its *tail*. Appends by transactions that failed, or are not known, are
//! passed over: a version order is transitive.

use super::super::fan::join;
use super::super::graph::{Edges, Rel, Stop};
use super::super::interner::NONE;
use super::super::order::Times;
use super::super::planted::{Bug, planted};
use super::super::txns::Txns;
use super::versions::Versions;
use crate::budget::{Budget, Held};

/// The edges of the data, and what is needed to explain them.
#[derive(Debug, Default)]
pub(crate) struct Data {
    /// By place in the orders of all keys.
    places: Vec<Place>,
    /// Committed appends of each key that nobody saw, by their transaction: (key, writer, value).
    tails: Vec<(u32, u32, u32)>,
    /// The memory it takes.
    #[expect(dead_code, reason = "it is given back when this is dropped")]
    held: Option<Held>,
}

/// Who wrote a version, in one word; if that is not known, how far the next version of the key is of
/// which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place(u32);

impl Place {
    /// Nobody is known who wrote this version or a later one.
    const LAST: Self = Self(NONE);

    const UNKNOWN: u32 = 1 << 31;

    /// Transactions are fewer than a graph can have nodes.
    const fn by(writer: u32) -> Self {
        Self(writer)
    }

    /// One place before another.
    const fn before(next: Self) -> Self {
        match next {
            Self::LAST => Self::LAST,
            Self(distance) if distance & Self::UNKNOWN != 0 => Self(distance + 1),
            _ => Self(Self::UNKNOWN | 1),
        }
    }

    #[inline]
    fn writer(self) -> Option<u32> {
        (self.0 & Self::UNKNOWN == 0).then_some(self.0)
    }

    /// How far on a version is of which the writer is known.
    #[inline]
    fn distance(self) -> Option<usize> {
        match self {
            Self::LAST => None,
            Self(distance) if distance & Self::UNKNOWN != 0 => {
                Some((distance & !Self::UNKNOWN) as usize)
            }
            _ => Some(0),
        }
    }
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
        let held = budget.hold((length * size_of::<Place>()) as u64)?;
        let mut data =
            Self { places: vec![Place::LAST; length], tails: Vec::new(), held: Some(held) };
        for key in 0..txns.key_count() as u32 {
            let order = versions.order(key);
            let base = versions.first(key);
            let mut next = Place::LAST;
            for (at, &value) in order.iter().enumerate().rev() {
                // A value that occurs twice has the place of its first occurrence.
                let first = versions.place(value) as usize == at + 1;
                let writer = txns.writer(value).filter(|_| first);
                next = writer.map_or(Place::before(next), Place::by);
                data.places[base + at] = next;
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

    /// The first version whose writer is known after the first `length` elements of a key's order: its
    /// writer and its place in the orders of all keys, from 0.
    #[inline]
    fn next(&self, versions: &Versions, key: u32, length: u32) -> Option<(u32, usize)> {
        if length as usize >= versions.order(key).len() {
            return None;
        }
        let place = versions.first(key) + length as usize;
        let place = place + self.places[place].distance()?;
        Some((self.places[place].writer()?, place))
    }

    /// Who wrote the version of the first `length` elements of a key's order, if that is known.
    #[inline]
    fn writer(&self, versions: &Versions, key: u32, length: u32) -> Option<u32> {
        let place = versions.first(key) + (length as usize).checked_sub(1)?;
        self.places[place].writer()
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
        let next = next.map(|(writer, place)| (writer, versions.at(place)));
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
            let mut before = NONE;
            for length in 1..=versions.order(key).len() as u32 {
                let Some(writer) = self.writer(versions, key, length) else { continue };
                if ![NONE, writer].contains(&before) && !planted(Bug::NoWriteWrite) {
                    edges.push(before, writer, Rel::WW);
                }
                before = writer;
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
                let writer = match Versions::stray(mop.what) {
                    None => self.writer(versions, key, mop.what),
                    Some(_) => versions.seen(key, mop.what).last().and_then(|&v| txns.writer(v)),
                };
                if let Some(writer) = writer
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
        let ret = txns.ret(writer);
        if ret == NONE { txns.invoke(writer) } else { ret }
    });
    for pair in writers.windows(2) {
        edges.push(pair[0], pair[1], Rel::GUESS);
    }
}
