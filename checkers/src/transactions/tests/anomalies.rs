//! Anomalies that are no cycles, as they are defined: what single transactions, and pairs of them, show.

use std::collections::BTreeSet;

use deposed_history::OpType;

use super::every_level;
use super::oracle::{Mop, Small, Txn, written};
use super::phenomena::agrees_with_itself;
use super::simulator::Random;
use super::{check, fuzz};

/// All that are looked for here.
const NAMES: &[&str] = &[
    "G1a",
    "G1b",
    "dirty-update",
    "duplicate-elements",
    "future-read",
    "garbage-read",
    "incompatible-order",
    "internal",
    "lost-update",
];

/// Histories of all kinds, in some of which a transaction failed after all.
pub(super) fn random(random: &mut Random, append: bool) -> Small {
    let mut small = every_level::random(random, append);
    if random.percent(30) {
        let at = random.below(small.txns.len() as u64) as usize;
        small.txns[at].kind = OpType::Fail;
    }
    small
}

/// A key, and what a transaction saw of it before it wrote it.
fn updated(txn: &Txn) -> Vec<(usize, &[i64])> {
    let first = |at: usize, mop: &Mop| txn.mops[..at].iter().all(|other| other.key != mop.key);
    let mops = txn.mops.iter().enumerate();
    let reads = mops.filter(|(at, mop)| mop.write.is_none() && first(*at, mop));
    let wrote = |mop: &&Mop| written(txn, mop.key).next().is_some();
    reads.map(|(_, mop)| mop).filter(wrote).map(|mop| (mop.key, mop.read.as_slice())).collect()
}

/// Whether two transactions read one version and both wrote over it.
pub(super) fn loses_an_update(small: &Small) -> bool {
    let acknowledged: Vec<&Txn> = small.txns.iter().filter(|t| t.kind == OpType::Ok).collect();
    let updates: Vec<(usize, &[i64])> = acknowledged.iter().flat_map(|t| updated(t)).collect();
    updates.iter().enumerate().any(|(at, update)| updates[..at].contains(update))
}

/// The names of those that a history shows.
fn shown(small: &Small) -> BTreeSet<&'static str> {
    let mut names = BTreeSet::new();
    let mut note = |holds: bool, name| {
        if holds {
            names.insert(name);
        }
    };
    let acknowledged = || small.txns.iter().filter(|txn| txn.kind == OpType::Ok);
    let reads = || {
        let of = |txn| move |mop| (txn, mop);
        acknowledged()
            .flat_map(move |txn| txn.mops.iter().map(of(txn)))
            .filter(|(_, mop): &(&Txn, &Mop)| mop.write.is_none())
    };
    let writer = |key: usize, value: i64| {
        small.txns.iter().find(|txn| written(txn, key).any(|v| v == value))
    };
    let failed = |key: usize, value: i64| {
        writer(key, value).is_some_and(|writer| writer.kind == OpType::Fail)
    };
    for (txn, mop) in reads() {
        let key = mop.key;
        let each = || mop.read.iter().copied();
        note(each().any(|value| failed(key, value)), "G1a");
        note(each().any(|value| writer(key, value).is_none()), "garbage-read");
        note(each().enumerate().any(|(at, v)| mop.read[..at].contains(&v)), "duplicate-elements");
        let at = txn.mops.iter().position(|other| std::ptr::eq(other, mop)).unwrap_or_default();
        let later = |value| txn.mops[at..].iter().any(|m| m.key == key && m.write == Some(value));
        note(each().any(later), "future-read");
        let newest = each().last().and_then(|value| Some((value, writer(key, value)?)));
        let intermediate = newest.is_some_and(|(value, by)| {
            by != txn && by.kind != OpType::Fail && written(by, key).last() != Some(value)
        });
        note(intermediate, "G1b");
        let over = each().enumerate().any(|(at, value)| {
            let by = writer(key, value).is_some_and(|writer| writer.kind == OpType::Ok);
            by && mop.read[..at].iter().any(|&below| failed(key, below))
        });
        note(over, "dirty-update");
        let disagrees = |other: &Mop| {
            let (a, b) = (&mop.read, &other.read);
            other.key == key && !a.starts_with(b) && !b.starts_with(a)
        };
        note(small.append && reads().any(|(_, other)| disagrees(other)), "incompatible-order");
    }
    note(!acknowledged().all(|txn| agrees_with_itself(small.append, txn)), "internal");
    note(loses_an_update(small), "lost-update");
    names
}

/// What the checker says of them, and what brute force does, if they differ.
pub(super) fn difference(small: &Small) -> Option<String> {
    let expected = shown(small);
    let analysis = check(small.append, &small.history(), "serializable");
    let types = analysis.details["anomaly-types"].as_array().cloned().unwrap_or_default();
    let types: BTreeSet<&str> =
        types.iter().filter_map(|name| name.as_str()).filter(|n| NAMES.contains(n)).collect();
    // Where reads disagree, what is written over is looked for in the longest one only, and of what is
    // there twice the first counts.
    let disagree =
        ["incompatible-order", "duplicate-elements"].iter().any(|name| expected.contains(name));
    let differ = |name: &&&str| !(disagree && **name == "dirty-update");
    let differs = types.symmetric_difference(&expected).any(|name| differ(&name));
    differs.then(|| format!("{types:?}, in truth {expected:?}: {small:#?}"))
}

#[test]
fn what_transactions_show_is_named_as_by_brute_force() {
    for append in [true, false] {
        let mut random = Random(if append { 41 } else { 42 });
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for _ in 0..2 * fuzz() {
            let small = self::random(&mut random, append);
            assert_eq!(difference(&small), None);
            seen.extend(shown(&small));
        }
        let names = NAMES.iter().copied().filter(|name| {
            let of_lists = ["dirty-update", "duplicate-elements", "incompatible-order"];
            append || !of_lists.contains(name)
        });
        assert_eq!(seen, names.collect());
    }
}
