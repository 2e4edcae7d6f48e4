//! All of the smallest histories.

use std::collections::HashSet;

use deposed_history::OpType;

use super::every_level::Truth;
use super::oracle::{Mop, Small, Txn};
use super::{disagreement, expected};

/// When two transactions run, and in which processes: one after the other in one process, or in two,
/// or at the same time.
const SHAPES: &[[(u32, usize, usize); 2]] =
    &[[(0, 0, 1), (0, 2, 3)], [(0, 0, 1), (1, 2, 3)], [(0, 0, 2), (1, 1, 3)]];

/// Two transactions of two micro-operations on two keys, at least one of them
/// acknowledged, reading everything
/// that was written, in any order, or nothing.
fn all(append: bool, mut visit: impl FnMut(&Small)) {
    use OpType::{Fail, Info, Ok};
    const KINDS: &[[OpType; 2]] = &[[Ok, Ok], [Ok, Info], [Info, Ok], [Ok, Fail], [Fail, Ok]];
    for shape in SHAPES {
        // Per micro-operation: one of two keys, and read or write. The first is on the first key.
        for choice in (0..256usize).filter(|choice| choice & 1 == 0) {
            for kinds in KINDS {
                let txns = [0, 1].map(|at| {
                    let (process, inv, ret) = shape[at];
                    let mops = [0, 1].map(|mop| {
                        let bits = choice >> (2 * (2 * at + mop));
                        let write = (bits & 2 != 0).then_some((1 + 2 * at + mop) as i64);
                        Mop { key: bits & 1, write, read: Vec::new() }
                    });
                    Txn { process, inv, ret, kind: kinds[at], mops: mops.to_vec() }
                });
                fill(&mut Small { append, txns: txns.to_vec() }, 0, &mut visit);
            }
        }
    }
}

/// Tries everything that the reads from some number on can have seen.
fn fill(small: &mut Small, from: usize, visit: &mut impl FnMut(&Small)) {
    let read = (from..4).find(|at| {
        let txn = &small.txns[at / 2];
        txn.kind == OpType::Ok && txn.mops[at % 2].write.is_none()
    });
    let Some(read) = read else { return visit(small) };
    let key = small.txns[read / 2].mops[read % 2].key;
    let mops = small.txns.iter().flat_map(|txn| &txn.mops).filter(|mop| mop.key == key);
    let written: Vec<i64> = mops.filter_map(|mop| mop.write).collect();
    for seen in sequences(&written, if small.append { written.len() } else { 1 }) {
        small.txns[read / 2].mops[read % 2].read = seen;
        fill(small, read + 1, visit);
    }
    small.txns[read / 2].mops[read % 2].read.clear();
}

/// When three transactions run: at the same time, or two of them after another one.
const TRIPLES: &[[(u32, usize, usize); 3]] =
    &[[(0, 0, 3), (1, 1, 4), (2, 2, 5)], [(0, 0, 1), (0, 2, 4), (1, 3, 5)]];

/// Three transactions of one micro-operation, one of them of two, on two keys; one may be indeterminate. What
/// the reads of a list show are beginnings of one order of all that was appended to it.
fn triples(append: bool, mut visit: impl FnMut(&Small)) {
    use OpType::{Info, Ok};
    const KINDS: &[[OpType; 3]] = &[[Ok, Ok, Ok], [Info, Ok, Ok], [Ok, Info, Ok], [Ok, Ok, Info]];
    // A micro-operation is a read or a write of one of two keys; the second may be missing.
    const CODES: usize = 4 * 5;
    for (shape, spans) in TRIPLES.iter().enumerate() {
        for choice in 0..CODES.pow(3) {
            let codes = [choice % CODES, choice / CODES % CODES, choice / CODES / CODES];
            // Those at the same time may be told apart by what they do only.
            let ordered = if shape == 0 { codes.is_sorted() } else { codes[1] <= codes[2] };
            let two = codes.iter().filter(|&&code| code / 4 < 4).count();
            if !ordered || codes[0] & 1 != 0 || two > 1 {
                continue;
            }
            for kinds in KINDS {
                let txns = [0, 1, 2].map(|at| {
                    let (process, inv, ret) = spans[at];
                    let mops = [codes[at] % 4, codes[at] / 4].into_iter().filter(|&bits| bits < 4);
                    let mops = mops.enumerate().map(|(number, bits)| {
                        let write = (bits & 2 != 0).then_some((1 + 2 * at + number) as i64);
                        Mop { key: bits & 1, write, read: Vec::new() }
                    });
                    Txn { process, inv, ret, kind: kinds[at], mops: mops.collect() }
                });
                let small = Small { append, txns: txns.to_vec() };
                each_reading(&small, &mut visit);
            }
        }
    }
}

/// Tries what all reads can have seen of one order of versions.
fn each_reading(small: &Small, visit: &mut impl FnMut(&Small)) {
    let mut readings = vec![small.clone()];
    for key in [0, 1] {
        let mops = small.txns.iter().flat_map(|txn| &txn.mops).filter(|mop| mop.key == key);
        let written: Vec<i64> = mops.filter_map(|mop| mop.write).collect();
        let mut more: Vec<Small> = Vec::new();
        let mut known: HashSet<Vec<Vec<i64>>> = HashSet::new();
        let length = if small.append { written.len() } else { 0 };
        let orders = sequences(&written, length).into_iter().filter(|order| order.len() == length);
        for order in orders {
            let versions: Vec<Vec<i64>> = match small.append {
                true => (0..=length).map(|end| order[..end].to_vec()).collect(),
                false => sequences(&written, 1),
            };
            let mut of_order: Vec<Vec<Vec<i64>>> = vec![Vec::new()];
            for _ in reads_of(small, key) {
                let longer = |seen: &Vec<Vec<i64>>| {
                    let seen = seen.clone();
                    let with =
                        move |v: &Vec<i64>| [seen.as_slice(), std::slice::from_ref(v)].concat();
                    versions.iter().map(with).collect::<Vec<_>>()
                };
                of_order = of_order.iter().flat_map(longer).collect();
            }
            known.extend(of_order);
        }
        let mut known: Vec<Vec<Vec<i64>>> = known.into_iter().collect();
        known.sort_unstable();
        for small in &readings {
            for seen in &known {
                let mut read = small.clone();
                for (at, value) in reads_of(small, key).zip(seen) {
                    read.txns[at.0].mops[at.1].read.clone_from(value);
                }
                more.push(read);
            }
        }
        readings = more;
    }
    readings.iter().for_each(visit);
}

/// The reads of a key of which the result is known: by which transaction, and its micro-operation.
fn reads_of(small: &Small, key: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
    let acknowledged = small.txns.iter().enumerate().filter(|(_, txn)| txn.kind == OpType::Ok);
    acknowledged.flat_map(move |(at, txn)| {
        let reads = txn.mops.iter().enumerate();
        let reads = reads.filter(move |(_, mop)| mop.key == key && mop.write.is_none());
        reads.map(move |(number, _)| (at, number))
    })
}

/// All sequences of different values up to a length.
fn sequences(values: &[i64], length: usize) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    let mut at = 0;
    while at < all.len() {
        let sequence: Vec<i64> = all[at].clone();
        at += 1;
        if sequence.len() < length {
            for &value in values.iter().filter(|value| !sequence.contains(value)) {
                let mut longer = sequence.clone();
                longer.push(value);
                all.push(longer);
            }
        }
    }
    all
}

fn agree(append: bool, at_least: u64, histories: impl FnOnce(bool, &mut dyn FnMut(&Small))) {
    let mut count = 0;
    histories(append, &mut |small| {
        count += 1;
        if let Some((name, analysis)) = disagreement(small, &expected(small)) {
            panic!("{name}: {small:#?}\n{analysis:#?}");
        }
    });
    assert!(count > at_least, "{count}");
}

#[test]
fn all_pairs_of_transactions_on_lists() {
    agree(true, 3_000, |append, visit| all(append, visit));
}

#[test]
fn all_pairs_of_transactions_on_registers() {
    agree(false, 3_000, |append, visit| all(append, visit));
}

#[test]
fn all_triples_of_transactions_on_lists() {
    agree(true, 2_000, |append, visit| triples(append, visit));
}

#[test]
fn all_triples_of_transactions_on_registers() {
    agree(false, 2_000, |append, visit| triples(append, visit));
}

/// Every level, of every one of so many pairs.
const EVERY: u64 = 5;

/// All that brute force knows of every level.
#[test]
fn all_pairs_of_transactions_at_every_level() {
    for append in [true, false] {
        let mut count = 0;
        all(append, |small| {
            count += 1;
            if count % EVERY != 0 {
                return;
            }
            if let Some((name, why, analysis)) = Truth::of(small).contradiction(small) {
                panic!("{name}: {why}: {small:#?}\n{analysis:#?}");
            }
        });
    }
}
