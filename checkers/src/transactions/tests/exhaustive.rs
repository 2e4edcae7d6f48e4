//! All of the smallest histories.

use deposed_history::OpType;

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

fn agree(append: bool) {
    let mut count = 0;
    all(append, |small| {
        count += 1;
        if let Some((name, analysis)) = disagreement(small, &expected(small)) {
            panic!("{name}: {small:#?}\n{analysis:#?}");
        }
    });
    assert!(count > 3_000, "{count}");
}

#[test]
fn all_pairs_of_transactions_on_lists() {
    agree(true);
}

#[test]
fn all_pairs_of_transactions_on_registers() {
    agree(false);
}
