//! Adya's phenomena ("Weak consistency: a generalized theory and optimistic implementations", MIT,
//! 1999) by brute force: every order of versions is tried, and every choice of indeterminate
//! transactions that happened.
//!
//! Of the phenomena that need to know when transactions started, nothing remains here but what
//! holds whenever that was: all of them may have been under way at the same time. So a forward consistent view is a
//! consistent view, and a monotonic snapshot read a monotonic view.

use deposed_history::OpType;

use super::oracle::{KEYS, Mop, Small, Txn, mask, permutations, written};
use crate::transactions::level::OrderKind;

/// What a level forbids besides G1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forbids {
    /// Nothing.
    Nothing,
    /// G-cursor: somebody wrote between a read of a key and the same transaction's write to it.
    Cursor,
    /// G-monotonic: a read missed what the same transaction had seen by then.
    Monotonic,
    /// Observed transaction vanishes (Bailis et al., "Highly available transactions", VLDB 2013): a read
    /// missed a write of a transaction from which the same transaction had read before.
    Vanishing,
    /// G-single: a cycle with one rw.
    Single,
    /// G-update: a cycle with a rw, of transactions that write and one that does not.
    Update,
    /// G2-item: a cycle with a rw.
    Any,
}

/// A direct dependency between two transactions, by their numbers.
struct Edge {
    from: usize,
    to: usize,
    kind: Kind,
    key: usize,
    /// Which micro-operation of the transaction that it leads from (rw) or to (ww, wr).
    mop: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ww,
    Wr,
    Rw,
}

impl Small {
    /// Of each level, whether some version orders avoid all that it forbids. `None` if a transaction
    /// does not see its own writes, or one thing twice, of which the phenomena say nothing; or if there
    /// are too many orders.
    pub(super) fn avoids(&self, levels: &[(Forbids, OrderKind)]) -> Option<Vec<bool>> {
        let acknowledged = |txn: &&Txn| txn.kind == OpType::Ok;
        let itself = |txn: &Txn| agrees_with_itself(self.append, txn);
        if !self.txns.iter().filter(acknowledged).all(itself) {
            return None;
        }
        let counted: Vec<&Txn> = self.txns.iter().filter(|t| t.kind != OpType::Fail).collect();
        if !self.append && counted.len() > REGISTERS_MAX {
            return None;
        }
        let needed = mask(&counted, |txn| txn.kind == OpType::Ok);
        let mut avoided = vec![false; levels.len()];
        for set in (0..1u32 << counted.len()).filter(|set| set & needed == needed) {
            let txns: Vec<&Txn> =
                (0..counted.len()).filter(|at| set >> at & 1 == 1).map(|at| counted[at]).collect();
            each_order(self.append, &txns, &mut Vec::new(), &mut |orders| {
                if avoided.iter().all(|&avoided| avoided) {
                    return;
                }
                let graph = Graph::of(self.append, &txns, orders);
                for (avoided, &(forbids, order)) in avoided.iter_mut().zip(levels) {
                    *avoided = *avoided || !graph.shows(forbids, order, orders);
                }
            });
        }
        Some(avoided)
    }
}

/// Transactions on registers, of which reads tell little of the order.
const REGISTERS_MAX: usize = 4;

/// Whether each read of a key shows the transaction's own writes last, and after the first one
/// nothing else that is new.
pub(super) fn agrees_with_itself(append: bool, txn: &Txn) -> bool {
    (0..KEYS).all(|key| {
        let mut own: Vec<i64> = Vec::new();
        let mut known: Option<Vec<i64>> = None;
        txn.mops.iter().filter(|mop| mop.key == key).all(|mop| {
            if let Some(value) = mop.write {
                own.push(value);
                if append {
                    known.iter_mut().for_each(|known| known.push(value));
                } else {
                    known = Some(vec![value]);
                }
                return true;
            }
            let agrees = match &known {
                Some(known) => *known == mop.read,
                None => mop.read.ends_with(&own),
            };
            known = Some(mop.read.clone());
            agrees
        })
    })
}

/// Visits all orders of the versions of all keys in which every read saw a version. (Otherwise it saw
/// what was not committed: G1a or G1b.)
fn each_order(
    append: bool,
    txns: &[&Txn],
    chosen: &mut Vec<Vec<usize>>,
    visit: &mut impl FnMut(&[Vec<usize>]),
) {
    let version = if append { list_version } else { register_version };
    let key = chosen.len();
    if key == KEYS {
        return visit(chosen);
    }
    let writers: Vec<usize> =
        (0..txns.len()).filter(|&at| written(txns[at], key).next().is_some()).collect();
    let mut orders: Vec<Vec<usize>> = Vec::new();
    permutations(writers.len(), &mut Vec::new(), &mut |order| {
        let order: Vec<usize> = order.iter().map(|&at| writers[at]).collect();
        if reads(txns, key).all(|(at, mop)| version(txns, &order, at, mop).is_some()) {
            orders.push(order);
        }
    });
    for order in orders {
        chosen.push(order);
        each_order(append, txns, chosen, visit);
        chosen.pop();
    }
}

/// The reads of a key of which the result is known: by which transaction, and which of its
/// micro-operations.
fn reads<'a>(txns: &'a [&Txn], key: usize) -> impl Iterator<Item = (usize, usize)> + 'a {
    let acknowledged = txns.iter().enumerate().filter(|(_, txn)| txn.kind == OpType::Ok);
    acknowledged.flat_map(move |(at, txn)| {
        let mops = txn.mops.iter().enumerate();
        mops.filter(move |(_, mop)| mop.key == key && mop.write.is_none())
            .map(move |(number, _)| (at, number))
    })
}

/// Which version a read of a list saw, by how many writers made it before the reader's own appends.
fn list_version(txns: &[&Txn], order: &[usize], reader: usize, number: usize) -> Option<usize> {
    let Mop { key, read, .. } = &txns[reader].mops[number];
    let own = written_before(txns[reader], number);
    // What others wrote before it is below its own appends, all of it.
    let others = order.iter().take_while(|&&writer| writer != reader);
    let mut elements: Vec<i64> = Vec::new();
    let mut place = 0;
    for &writer in others {
        if own.is_empty() && elements.len() >= read.len() {
            break;
        }
        elements.extend(written(txns[writer], *key));
        place += 1;
    }
    elements.extend(own);
    (elements == *read).then_some(place)
}

/// Which version a read of a register saw, by the place of its writer, from 1; it has to be the last
/// that the writer wrote. What the reader wrote itself is a version of nobody.
fn register_version(txns: &[&Txn], order: &[usize], reader: usize, number: usize) -> Option<usize> {
    let Mop { key, read, .. } = &txns[reader].mops[number];
    match read.last() {
        Some(_) if !written_before(txns[reader], number).is_empty() => Some(0),
        None => Some(0),
        last => {
            let wrote = |&writer: &usize| written(txns[writer], *key).last() == last.copied();
            Some(order.iter().position(wrote)? + 1)
        }
    }
}

/// What a transaction wrote, before a micro-operation, to the key of that.
fn written_before(txn: &Txn, number: usize) -> Vec<i64> {
    let key = txn.mops[number].key;
    txn.mops[..number].iter().filter(|mop| mop.key == key).filter_map(|mop| mop.write).collect()
}

/// Adya's direct serialization graph.
struct Graph<'a> {
    txns: &'a [&'a Txn],
    edges: Vec<Edge>,
}

impl<'a> Graph<'a> {
    fn of(append: bool, txns: &'a [&'a Txn], orders: &[Vec<usize>]) -> Self {
        let version = if append { list_version } else { register_version };
        let mut edges = Vec::new();
        for (key, order) in orders.iter().enumerate() {
            for pair in order.windows(2) {
                let mut mops = txns[pair[1]].mops.iter();
                let mop = mops.rposition(|mop| mop.key == key && mop.write.is_some());
                let mop = mop.unwrap_or_default();
                edges.push(Edge { from: pair[0], to: pair[1], kind: Kind::Ww, key, mop });
            }
            let of_others = |&(reader, mop): &(usize, usize)| {
                let own: &Txn = txns[reader];
                written_before(own, mop).is_empty()
            };
            for (reader, mop) in reads(txns, key).filter(of_others) {
                let Some(place) = version(txns, order, reader, mop) else { continue };
                if let Some(&from) = place.checked_sub(1).and_then(|before| order.get(before)) {
                    edges.push(Edge { from, to: reader, kind: Kind::Wr, key, mop });
                }
                if let Some(&to) = order.get(place).filter(|&&next| next != reader) {
                    edges.push(Edge { from: reader, to, kind: Kind::Rw, key, mop });
                }
            }
        }
        Self { txns, edges }
    }

    /// What is reached from each transaction in at least one step.
    fn reach(&self, keep: impl Fn(&Edge) -> bool, order: OrderKind) -> Vec<u32> {
        let count = self.txns.len();
        let mut reach: Vec<u32> = (0..count)
            .map(|from| {
                let edges = self.edges.iter().filter(|edge| edge.from == from && keep(edge));
                let ordered = (0..count).filter(|&to| is_before(self.txns, from, to, order));
                edges.map(|edge| edge.to).chain(ordered).fold(0, |set, to| set | 1 << to)
            })
            .collect();
        for via in 0..count {
            for from in 0..count {
                if reach[from] >> via & 1 == 1 {
                    reach[from] |= reach[via];
                }
            }
        }
        reach
    }

    /// Whether it shows G1c, or what else is forbidden.
    fn shows(&self, forbids: Forbids, order: OrderKind, orders: &[Vec<usize>]) -> bool {
        let flow = self.reach(|edge| edge.kind != Kind::Rw, order);
        if (0..self.txns.len()).any(|txn| flow[txn] >> txn & 1 == 1) {
            return true;
        }
        let comes_back = |reach: &[u32], edge: &Edge| reach[edge.to] >> edge.from & 1 == 1;
        let mut rw = self.edges.iter().filter(|edge| edge.kind == Kind::Rw);
        match forbids {
            Forbids::Nothing => false,
            Forbids::Cursor => rw.any(|edge| {
                let place = |txn| orders[edge.key].iter().position(|&writer| writer == txn);
                place(edge.from).is_some_and(|own| Some(own) > place(edge.to))
            }),
            Forbids::Vanishing => rw.any(|missed| {
                self.edges.iter().any(|seen| {
                    let place = |txn| orders[missed.key].iter().position(|&writer| writer == txn);
                    let wr = seen.kind == Kind::Wr && seen.to == missed.from;
                    wr && seen.mop < missed.mop && place(seen.from) >= place(missed.to)
                })
            }),
            Forbids::Monotonic => rw.any(|edge| {
                self.edges.iter().any(|seen| {
                    let source = edge.to == seen.from || flow[edge.to] >> seen.from & 1 == 1;
                    seen.kind != Kind::Rw && seen.to == edge.from && seen.mop <= edge.mop && source
                })
            }),
            Forbids::Single => rw.any(|edge| comes_back(&flow, edge)),
            Forbids::Any => {
                let all = self.reach(|_| true, order);
                rw.any(|edge| comes_back(&all, edge))
            }
            Forbids::Update => (0..self.txns.len()).any(|guest| {
                let writes = |txn: usize| (0..KEYS).any(|k| written(self.txns[txn], k).count() > 0);
                let is_in = |edge: &Edge| {
                    [edge.from, edge.to].into_iter().all(|txn| txn == guest || writes(txn))
                };
                let some = self.reach(is_in, order);
                rw.clone().any(|edge| is_in(edge) && comes_back(&some, edge))
            }),
        }
    }
}

/// Whether time, or a process, puts one transaction before another.
pub(super) fn is_before(txns: &[&Txn], from: usize, to: usize, order: OrderKind) -> bool {
    let (one, other) = (txns[from], txns[to]);
    let asked = match order {
        OrderKind::Data => false,
        OrderKind::Process => one.process == other.process,
        OrderKind::RealTime => true,
    };
    asked && one.kind == OpType::Ok && one.ret < other.inv
}
