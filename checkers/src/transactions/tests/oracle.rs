//! Small histories, and brute force on them: every order of starts and commits is tried.

use std::collections::HashSet;

use deposed_history::{Header, History, Op, OpType, Process, Value};

use super::simulator::Random;
use crate::transactions::isolation::Isolation;
use crate::transactions::level::OrderKind;

/// A micro-operation: a write if `write` is a value; `read` is what a read saw, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mop {
    pub(super) key: usize,
    pub(super) write: Option<i64>,
    pub(super) read: Vec<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Txn {
    pub(super) process: u32,
    pub(super) inv: usize,
    /// When its client heard of it.
    pub(super) ret: usize,
    pub(super) kind: OpType,
    pub(super) mops: Vec<Mop>,
}

/// A few transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Small {
    pub(super) append: bool,
    pub(super) txns: Vec<Txn>,
}

pub(super) const KEYS: usize = 3;

impl Small {
    pub(super) fn history(&self) -> History {
        let word = if self.append { "append" } else { "w" };
        let value = |txn: &Txn, seen: bool| {
            let mop = |mop: &Mop| {
                let key = Value::Int(mop.key as i64);
                let list = || Value::List(mop.read.iter().map(|&v| Value::Int(v)).collect());
                match mop.write {
                    Some(value) => Value::List(vec![word.into(), key, value.into()]),
                    None if !seen => Value::List(vec!["r".into(), key, Value::Nil]),
                    None if self.append => Value::List(vec!["r".into(), key, list()]),
                    None => {
                        let read = mop.read.last().map_or(Value::Nil, |&v| Value::Int(v));
                        Value::List(vec!["r".into(), key, read])
                    }
                }
            };
            Value::List(txn.mops.iter().map(mop).collect())
        };
        let mut events: Vec<(usize, Op)> = Vec::new();
        for txn in &self.txns {
            let op =
                |kind, seen| Op::new(kind, Process::Client(txn.process), "txn", value(txn, seen));
            events.push((txn.inv, op(OpType::Invoke, false)));
            events.push((txn.ret, op(txn.kind, txn.kind == OpType::Ok)));
        }
        events.sort_by_key(|(at, _)| *at);
        let ops: Vec<Op> = events.into_iter().map(|(_, op)| op).collect();
        History::from_ops(Header::default(), &ops)
    }

    /// Whether some order explains it.
    pub(super) fn is_explained(&self, isolation: Isolation, order: OrderKind) -> bool {
        let counted: Vec<&Txn> = self.txns.iter().filter(|txn| txn.kind != OpType::Fail).collect();
        let needed: u32 = mask(&counted, |txn| txn.kind == OpType::Ok);
        let before: Vec<u32> = counted
            .iter()
            .map(|txn| {
                mask(&counted, |other| {
                    let same = order == OrderKind::RealTime || other.process == txn.process;
                    order != OrderKind::Data
                        && other.kind == OpType::Ok
                        && other.ret < txn.inv
                        && same
                })
            })
            .collect();
        let mut seen = HashSet::new();
        let mut next = vec![(0u32, 0u32, vec![Vec::<i64>::new(); KEYS])];
        while let Some((started, committed, state)) = next.pop() {
            if committed & needed == needed {
                return true;
            }
            if !seen.insert((started, committed, state.clone())) {
                continue;
            }
            let open = started & !committed;
            for (at, txn) in counted.iter().enumerate() {
                let bit = 1u32 << at;
                if started & bit == 0 {
                    let alone = isolation == Isolation::Snapshot || open == 0;
                    if alone && before[at] & !committed & needed == 0 && self.fits(txn, &state) {
                        next.push((started | bit, committed, state.clone()));
                    }
                } else if open & bit != 0 {
                    let rival = |(other, rival): (usize, &&Txn)| {
                        other != at && open & (1 << other) != 0 && share_a_write(txn, rival)
                    };
                    if !counted.iter().enumerate().any(rival) {
                        next.push((started, committed | bit, self.after(txn, &state)));
                    }
                }
            }
        }
        false
    }

    /// Whether a transaction reads what it read if it starts in a state. What an indeterminate one
    /// read is not known.
    fn fits(&self, txn: &Txn, state: &[Vec<i64>]) -> bool {
        let mut own = state.to_vec();
        txn.mops.iter().all(|mop| match mop.write {
            Some(value) => {
                self.write(&mut own[mop.key], value);
                true
            }
            None => txn.kind != OpType::Ok || own[mop.key] == mop.read,
        })
    }

    fn after(&self, txn: &Txn, state: &[Vec<i64>]) -> Vec<Vec<i64>> {
        let mut after = state.to_vec();
        for mop in &txn.mops {
            if let Some(value) = mop.write {
                self.write(&mut after[mop.key], value);
            }
        }
        after
    }

    fn write(&self, held: &mut Vec<i64>, value: i64) {
        if !self.append {
            held.clear();
        }
        held.push(value);
    }
}

/// What each transaction has to see of the others, where it sees sets of them that committed before it
/// (Cerone, Bernardi & Gotsman, CONCUR 2015).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sees {
    /// All of a transaction, or nothing of it.
    Atomically,
    /// What those that it sees saw.
    Causally,
    /// All that committed before what it sees.
    Prefixes,
    /// Causally, and one of two that write the same key the other.
    Updates,
    /// Atomically, and one of two that write the same key the other.
    UpdatesAlone,
}

/// More transactions are too many for [`Small::is_seen`].
pub(super) const SEEN_MAX: usize = 4;

impl Small {
    /// Whether there are an order of commits, and sets of transactions that each one sees, that explain
    /// all reads: all of them are tried. `None` if there are too many.
    pub(super) fn is_seen(&self, sees: Sees) -> Option<bool> {
        self.is_seen_if(&|txns, seen| is_allowed(txns, seen, sees))
    }

    /// The same for sets of which something else is asked: given the transactions in the order of their
    /// commits, and what each one sees, as a set of earlier places.
    pub(super) fn is_seen_if(&self, allowed: &impl Fn(&[&Txn], &[u32]) -> bool) -> Option<bool> {
        let counted: Vec<&Txn> = self.txns.iter().filter(|t| t.kind != OpType::Fail).collect();
        if counted.len() > SEEN_MAX {
            return None;
        }
        let happened = (0..1u32 << counted.len()).filter(|set| {
            (0..counted.len()).all(|at| set >> at & 1 == 1 || counted[at].kind == OpType::Info)
        });
        let mut explained = false;
        for set in happened {
            let txns: Vec<&Txn> =
                (0..counted.len()).filter(|at| set >> at & 1 == 1).map(|at| counted[at]).collect();
            permutations(txns.len(), &mut Vec::new(), &mut |order| {
                let ordered: Vec<&Txn> = order.iter().map(|&at| txns[at]).collect();
                explained = explained || is_seen_in(self.append, &ordered, allowed);
            });
        }
        Some(explained)
    }
}

/// A random small history in which each transaction sees any set of those that committed before it. All
/// run at the same time.
pub(super) fn random_seen(random: &mut Random, append: bool) -> Small {
    let count = SEEN_MAX;
    let mut values = [0i64; KEYS];
    let keys = 2 + random.below(KEYS as u64 - 1);
    let mut txns: Vec<Txn> = Vec::new();
    for at in 0..count {
        let kind = if random.percent(8) { OpType::Info } else { OpType::Ok };
        let mut mops: Vec<Mop> = Vec::new();
        for _ in 0..2 + random.below(2) {
            let key = random.below(keys) as usize;
            let write = random.percent(40).then(|| {
                values[key] += 1;
                values[key]
            });
            mops.push(Mop { key, write, read: Vec::new() });
        }
        txns.push(Txn { process: at as u32, inv: at, ret: count + at, kind, mops });
    }
    // The order in which they committed is that of their numbers.
    for at in 0..count {
        let seen = random.below(1 << at) as u32;
        let before: Vec<&Txn> = txns.iter().collect();
        let mut mops = txns[at].mops.clone();
        for number in 0..mops.len() {
            let mut tried = txns[at].clone();
            tried.mops = mops[..=number].to_vec();
            if mops[number].write.is_none() {
                mops[number].read = what_is_seen(append, &before, &tried, at, seen);
            }
        }
        txns[at].mops = mops;
    }
    Small { append, txns }
}

pub(super) fn permutations(
    count: usize,
    chosen: &mut Vec<usize>,
    visit: &mut impl FnMut(&[usize]),
) {
    if chosen.len() == count {
        return visit(chosen);
    }
    for next in 0..count {
        if !chosen.contains(&next) {
            chosen.push(next);
            permutations(count, chosen, visit);
            chosen.pop();
        }
    }
}

/// Whether some sets of seen transactions are allowed, and explain all reads, in one order of commits.
fn is_seen_in(append: bool, txns: &[&Txn], allowed: &impl Fn(&[&Txn], &[u32]) -> bool) -> bool {
    let count = txns.len();
    let pairs: Vec<(usize, usize)> =
        (0..count).flat_map(|to| (0..to).map(move |from| (from, to))).collect();
    (0..1u32 << pairs.len()).any(|choice| {
        let mut seen = vec![0u32; count];
        for (bit, &(from, to)) in pairs.iter().enumerate() {
            seen[to] |= (choice >> bit & 1) << from;
        }
        allowed(txns, &seen) && (0..count).all(|at| reads_what_it_sees(append, txns, at, seen[at]))
    })
}

fn is_allowed(txns: &[&Txn], seen: &[u32], sees: Sees) -> bool {
    let each = |to: usize| (0..to).filter(move |from| seen[to] >> from & 1 == 1);
    let causal = |to: usize| each(to).all(|from| seen[from] & !seen[to] == 0);
    let updates = |to: usize| {
        (0..to).all(|from| seen[to] >> from & 1 == 1 || !share_a_write(txns[from], txns[to]))
    };
    (0..txns.len()).all(|to| match sees {
        Sees::Atomically => true,
        Sees::Causally => causal(to),
        Sees::Prefixes => each(to).next_back().is_none_or(|last| seen[to] == (1 << (last + 1)) - 1),
        Sees::Updates => causal(to) && updates(to),
        Sees::UpdatesAlone => updates(to),
    })
}

/// What a transaction wrote to a key.
pub(super) fn written(txn: &Txn, key: usize) -> impl Iterator<Item = i64> + '_ {
    txn.mops.iter().filter(move |mop| mop.key == key).filter_map(|mop| mop.write)
}

/// What the last read of a transaction, the one at a place in the order of commits, shows if it sees a set of others:
/// the version of the last writer that it sees, or what it read before, and its own writes.
fn what_is_seen(append: bool, order: &[&Txn], txn: &Txn, at: usize, seen: u32) -> Vec<i64> {
    let Some((last, before)) = txn.mops.split_last() else { return Vec::new() };
    let key = last.key;
    let before: Vec<&Mop> = before.iter().filter(|mop| mop.key == key).collect();
    if !append {
        let own = before.last().map(|mop| mop.write.map_or(mop.read.clone(), |v| vec![v]));
        return own.unwrap_or_else(|| {
            let seen = (0..at).rev().filter(|from| seen >> from & 1 == 1);
            seen.filter_map(|from| written(order[from], key).last()).next().into_iter().collect()
        });
    }
    let own_since = |from: usize| before[from..].iter().filter_map(|mop| mop.write);
    if let Some(read) = before.iter().rposition(|mop| mop.write.is_none()) {
        return before[read].read.iter().copied().chain(own_since(read)).collect();
    }
    // A version holds everything that was committed before it too, seen or not; own appends stand on all.
    let sees_all = own_since(0).next().is_some();
    let source = (0..at).rev().find(|&from| {
        sees_all || seen >> from & 1 == 1 && written(order[from], key).next().is_some()
    });
    let below = order[..source.map_or(0, |source| source + 1)].iter();
    below.flat_map(|txn| written(txn, key)).chain(own_since(0)).collect()
}

/// Whether a transaction's reads are those of what it sees, and its own appends stand on all that was
/// committed before them.
fn reads_what_it_sees(append: bool, order: &[&Txn], at: usize, seen: u32) -> bool {
    let txn = order[at];
    if txn.kind != OpType::Ok {
        return true;
    }
    (0..txn.mops.len()).filter(|&number| txn.mops[number].write.is_none()).all(|number| {
        let read = &txn.mops[number];
        let mut upto = txn.clone();
        upto.mops.truncate(number + 1);
        let own: Vec<i64> = written(&upto, read.key).collect();
        let all = order[..at].iter().flat_map(|txn| written(txn, read.key)).chain(own.clone());
        what_is_seen(append, order, &upto, at, seen) == read.read
            && (!append || own.is_empty() || all.eq(read.read.iter().copied()))
    })
}

pub(super) fn mask(txns: &[&Txn], of: impl Fn(&Txn) -> bool) -> u32 {
    (0..).zip(txns).filter(|(_, txn)| of(txn)).map(|(at, _)| 1 << at).sum()
}

fn share_a_write(a: &Txn, b: &Txn) -> bool {
    let writes =
        |txn: &Txn, key: usize| txn.mops.iter().any(|mop| mop.write.is_some() && mop.key == key);
    (0..KEYS).any(|key| writes(a, key) && writes(b, key))
}

/// A random small history: transactions of a store of random isolation, with some lies.
pub(super) fn random(random: &mut Random, append: bool) -> Small {
    let mut txns = schedule(random);
    let mut values = [0i64; KEYS];
    let keys = 1 + random.below(KEYS as u64);
    let writes_percent = 30 + random.below(50);
    for txn in &mut txns {
        for _ in 0..1 + random.below(3) {
            let key = random.below(keys) as usize;
            let write = random.percent(writes_percent).then(|| {
                values[key] += 1;
                values[key]
            });
            txn.mops.push(Mop { key, write, read: Vec::new() });
        }
    }
    let mut small = Small { append, txns };
    fill_reads(random, &mut small);
    if random.percent(25) {
        lie(random, &mut small, &values);
    }
    small
}

/// Up to six transactions of up to three processes.
fn schedule(random: &mut Random) -> Vec<Txn> {
    let count = 1 + random.below(6) as usize;
    let mut processes: Vec<(u32, Option<usize>)> =
        (0..1 + random.below(3) as u32).map(|process| (process, None)).collect();
    let mut txns: Vec<Txn> = Vec::new();
    let mut now = 0;
    while txns.len() < count || processes.iter().any(|(_, open)| open.is_some()) {
        let at = random.below(processes.len() as u64) as usize;
        let (process, open) = &mut processes[at];
        match open.take() {
            Some(txn) => {
                txns[txn].ret = now;
                txns[txn].kind = match random.below(100) {
                    0..12 => OpType::Info,
                    12..18 => OpType::Fail,
                    _ => OpType::Ok,
                };
                // Some clients go on under their number all the same.
                if txns[txn].kind == OpType::Info && random.percent(70) {
                    *process += 10;
                }
            }
            None if txns.len() < count => {
                *open = Some(txns.len());
                let (process, mops) = (*process, Vec::new());
                txns.push(Txn { process, inv: now, ret: usize::MAX, kind: OpType::Info, mops });
            }
            None => continue,
        }
        now += 1;
    }
    txns
}

/// What the reads saw, if each transaction took a snapshot and committed some time.
fn fill_reads(random: &mut Random, small: &mut Small) {
    let mode = random.below(4);
    // In units of a hundredth of a position.
    let mut times: Vec<(u64, u64)> = Vec::new();
    for txn in &small.txns {
        let (inv, ret) = (txn.inv as u64 * 100, txn.ret as u64 * 100);
        let commit = inv + 1 + random.below(ret - inv);
        let start = match mode {
            0 => commit,
            1 => inv + 1 + random.below(commit - inv),
            2 => 1 + random.below(commit),
            _ if random.percent(80) => commit,
            _ => inv + 1 + random.below(commit - inv),
        };
        times.push((start, commit));
    }
    let happened: Vec<bool> = small
        .txns
        .iter()
        .map(|txn| txn.kind == OpType::Ok || txn.kind == OpType::Info && random.percent(50))
        .collect();
    let mut order: Vec<usize> = (0..small.txns.len()).filter(|&at| happened[at]).collect();
    order.sort_by_key(|&at| times[at].1);
    for at in 0..small.txns.len() {
        let mut state = vec![Vec::new(); KEYS];
        for &other in order.iter().filter(|&&other| other != at && times[other].1 <= times[at].0) {
            state = small.after(&small.txns[other], &state);
        }
        for mop in 0..small.txns[at].mops.len() {
            let Mop { key, write, .. } = small.txns[at].mops[mop];
            match write {
                Some(value) => small.write(&mut state[key], value),
                None => small.txns[at].mops[mop].read = state[key].clone(),
            }
        }
    }
}

/// Makes one read show something else.
fn lie(random: &mut Random, small: &mut Small, values: &[i64; KEYS]) {
    let reads: Vec<(usize, usize)> = (0..small.txns.len())
        .flat_map(|txn| (0..small.txns[txn].mops.len()).map(move |mop| (txn, mop)))
        .filter(|&(txn, mop)| small.txns[txn].mops[mop].write.is_none())
        .collect();
    if reads.is_empty() {
        return;
    }
    let (txn, mop) = reads[random.below(reads.len() as u64) as usize];
    let mop = &mut small.txns[txn].mops[mop];
    // Beyond the last value: one that nobody wrote.
    let any = |random: &mut Random| 1 + random.below(values[mop.key] as u64 + 1) as i64;
    match random.below(5) {
        0 => {
            mop.read.pop();
        }
        1 if small.append && mop.read.len() > 1 => {
            let at = random.below(mop.read.len() as u64) as usize;
            let last = mop.read.len() - 1;
            mop.read.swap(at, last);
        }
        2 => mop.read = vec![any(random)],
        _ => {
            let value = any(random);
            small_write(small.append, &mut mop.read, value);
        }
    }
}

fn small_write(append: bool, held: &mut Vec<i64>, value: i64) {
    if !append {
        held.clear();
    }
    held.push(value);
}
