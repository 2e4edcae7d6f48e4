//! Witnesses that do not hold: what a checker that is wrong would show. They are reported as what they are, and
//! nothing is called invalid because of them.

use deposed_history::{History, ValueRef, Word};

use super::every_level::{self, Truth};
use super::oracle::Small;
use super::simulator::Random;
use super::{fuzz, level};
use crate::analysis::with_beginning;
use crate::transactions::certificate::{Because, Certificate, Found, Happened, Proof, Step};
use crate::transactions::decode::Reads;
use crate::transactions::isolation::Isolation;
use crate::transactions::level::OrderKind;
use crate::transactions::report::Report;
use crate::transactions::txns::Txns;
use crate::transactions::verify::Workload;
use crate::{Analysis, Budget, Verdict};

/// Takes no note of anything.
#[derive(Debug, Default)]
struct Blind<const APPEND: bool>;

impl<'h, const APPEND: bool> Reads<'h> for Blind<APPEND> {
    const WRITE: &'static str = if APPEND { "append" } else { "w" };

    fn see(&mut self, _call: u32, _key: u32, _seen: ValueRef<'h>) -> bool {
        true
    }
}

/// What a checker says that finds what it is told to.
fn judge(small: &Small, history: &History, name: &str, lies: &[Certificate<'_>]) -> Analysis {
    // It finds what is in the part of the history that it is shown.
    let judge = |shown: &History| {
        let nothing = |_: &mut Txns<'_>, _: u32, _: Word| 0;
        let budget = Budget::unlimited();
        let txns = match small.append {
            true => Txns::of::<Blind<true>>(shown, &budget, nothing).map(|(txns, _)| txns),
            false => Txns::of::<Blind<false>>(shown, &budget, nothing).map(|(txns, _)| txns),
        };
        let txns = txns.unwrap_or_else(|stop| panic!("{stop}"));
        let mut found = Found::default();
        let whole = shown.len() == history.len();
        for Certificate { name, proof, happened } in lies.iter().filter(|_| whole) {
            found.add(name, || proof.clone());
            for shown in found.shown.get_mut(name).into_iter().flat_map(|all| all.last_mut()) {
                shown.happened.clone_from(happened);
            }
        }
        Report::new("liar", level(name), workload(small)).conclude(&txns, found)
    };
    with_beginning(history, format!("keep to {}", level(name)), judge)
}

const fn workload(small: &Small) -> Workload {
    if small.append { Workload::Append } else { Workload::Register }
}

/// Makes up proofs about a history.
struct Liar<'r> {
    random: &'r mut Random,
    invocations: Vec<u32>,
    values: i64,
}

impl Liar<'_> {
    fn below(&mut self, below: usize) -> usize {
        self.random.below(below as u64) as usize
    }

    fn txn(&mut self) -> u32 {
        let at = self.below(self.invocations.len());
        self.invocations[at]
    }

    fn key(&mut self) -> ValueRef<'static> {
        ValueRef::Int(self.below(3) as i64)
    }

    fn value(&mut self) -> ValueRef<'static> {
        ValueRef::Int(1 + self.below(self.values as usize) as i64)
    }

    fn step(&mut self, from: u32, to: u32) -> Step<'static> {
        let (key, value) = (self.key(), self.value());
        let because = match self.below(5) {
            0 => Because::RealTime,
            1 => Because::Process,
            2 => Because::Saw { key, value },
            3 => Because::Missed { key, mop: self.below(3) as u32, after: value },
            _ => {
                let (after, reader, seen) = (self.value(), self.txn(), self.below(2) == 0);
                Because::Wrote { key, before: value, after, reader, seen }
            }
        };
        Step { from, to, because }
    }

    fn cycle(&mut self) -> Proof<'static> {
        let txns: Vec<u32> = (0..2 + self.below(2)).map(|_| self.txn()).collect();
        let next = txns.iter().cycle().skip(1);
        Proof::Cycle(txns.iter().zip(next).map(|(&from, &to)| self.step(from, to)).collect())
    }

    fn proof(&mut self) -> Proof<'static> {
        let (reader, writer, key, value) = (self.txn(), self.txn(), self.key(), self.value());
        let (other, mop) = (self.value(), self.below(3) as u32);
        match self.below(20) {
            0 => Proof::Aborted { reader, writer, key, value },
            1 => Proof::Intermediate { reader, writer, key, value, next: other },
            2 => Proof::Internal { txn: reader, mop },
            3 => Proof::Future { txn: reader, mop, key, value },
            4 => {
                let (failed, txn) = (writer, self.txn());
                Proof::DirtyUpdate { failed, txn, reader, key, value, after: other }
            }
            5 => Proof::LostUpdate { one: reader, other: writer, key },
            6 => Proof::Duplicate { reader, key, value },
            7 => Proof::Incompatible { one: reader, other: writer, key },
            8 => Proof::Garbage { reader, key, value },
            9 => Proof::OwnOrder { txn: writer, reader, key, first: value, second: other },
            10..13 => {
                let mut txns = self.invocations.clone();
                txns.retain(|_| self.random.percent(60));
                let isolation = [Isolation::Serial, Isolation::Snapshot][self.below(2)];
                Proof::NoOrder { txns, isolation, order: self.order(), known: Vec::new() }
            }
            _ => self.cycle(),
        }
    }

    fn order(&mut self) -> OrderKind {
        [OrderKind::Data, OrderKind::Process, OrderKind::RealTime][self.below(3)]
    }

    /// A proof under some name, often one that it could have.
    fn lie(&mut self) -> Certificate<'static> {
        let proof = self.proof();
        let likely: &[&'static str] = match proof {
            Proof::Cycle(_) => CYCLES,
            Proof::NoOrder { .. } => ORDERS,
            _ => OTHERS,
        };
        let names = if self.random.percent(90) { likely } else { OTHERS };
        let name = names[self.below(names.len())];
        let happened = (0..self.below(4))
            .map(|_| Happened {
                txn: self.txn(),
                key: self.key(),
                value: self.value(),
                reader: self.txn(),
            })
            .collect();
        Certificate { name, proof, happened }
    }
}

const CYCLES: &[&str] = &[
    "G0",
    "G1c",
    "G-single-item",
    "G-nonadjacent-item",
    "G2-item",
    "G0-process",
    "G1c-process",
    "G-single-item-process",
    "G0-realtime",
    "G1c-realtime",
    "G-single-item-realtime",
    "G2-item-realtime",
    "read-atomic-cycle-exists",
    "causal-cerone-cycle-exists",
    "prefix-cycle-exists",
    "parallel-snapshot-isolation-cycle-exists",
    "view-serializable-cycle-exists",
    "1SR-cycle-exists",
    "monotonic-reads-cycle-exists",
    "monotonic-writes-cycle-exists",
    "read-your-writes-cycle-exists",
    "writes-follow-reads-cycle-exists",
];

const ORDERS: &[&str] = &[
    "PL-2.99-cycle-exists",
    "PL-3-cycle-exists",
    "PL-SI-cycle-exists",
    "strong-session-serializable-cycle-exists",
    "strong-session-snapshot-isolation-cycle-exists",
    "strong-snapshot-isolation-cycle-exists",
    "PL-SS-cycle-exists",
    "view-serializable-cycle-exists",
    "1SR-cycle-exists",
];

const OTHERS: &[&str] = &[
    "G1a",
    "G1b",
    "internal",
    "future-read",
    "dirty-update",
    "lost-update",
    "duplicate-elements",
    "incompatible-order",
    "garbage-read",
    "cyclic-versions",
    "1SR-cycle-exists",
];

/// Whatever is shown, no level is ruled out that holds; what does not stand up is said to be a fault of
/// the checker.
#[test]
fn no_lie_rules_out_a_level_that_holds() {
    const LIES: usize = 400;
    for append in [true, false] {
        let mut random = Random(if append { 31 } else { 32 });
        let (mut refused, mut believed) = (0, 0);
        for _ in 0..fuzz() / 20 {
            let small = every_level::random(&mut random, append);
            let truth = Truth::of(&small);
            let history = small.history();
            let invocations: Vec<u32> = history.calls().iter().map(|call| call.invoke).collect();
            let mut liar = Liar { random: &mut random, invocations, values: 4 };
            for _ in 0..LIES {
                let lie = liar.lie();
                for name in truth.holding().filter(|name| level(name).is_ruled_out_by(lie.name)) {
                    let analysis = judge(&small, &history, name, std::slice::from_ref(&lie));
                    let said = || format!("{name}: {lie:#?} of {small:#?}\n{analysis:#?}");
                    assert_eq!(analysis.verdict, Verdict::Unknown, "{}", said());
                    assert!(analysis.anomalies.is_empty(), "{}", said());
                    let reason = &analysis.undecided[0].reason;
                    assert!(reason.contains("this is a fault of the checker"), "{}", said());
                    refused += 1;
                }
                let not = truth.failing().find(|name| level(name).is_ruled_out_by(lie.name));
                if let Some(name) = not {
                    let analysis = judge(&small, &history, name, &[lie]);
                    believed += u64::from(analysis.verdict == Verdict::Invalid);
                }
            }
        }
        assert!(refused > 1_000 && believed > 10, "{refused} {believed}");
    }
}

/// It says what does not hold and why, from which op on nothing is known, and that what came before is
/// fine; a witness that holds is shown all the same.
#[test]
fn a_witness_that_does_not_hold_is_told_as_that() {
    use super::oracle::{Mop, Txn};
    use deposed_history::OpType;
    let mop = |write, read: &[i64]| Mop { key: 0, write, read: read.to_vec() };
    let txn = |at: usize, mop| Txn {
        process: 0,
        inv: 2 * at,
        ret: 2 * at + 1,
        kind: OpType::Ok,
        mops: vec![mop],
    };
    for append in [true, false] {
        let small =
            Small { append, txns: vec![txn(0, mop(Some(1), &[])), txn(1, mop(None, &[1]))] };
        let history = small.history();
        let (key, value) = (ValueRef::Int(0), ValueRef::Int(1));
        let proof = Proof::Garbage { reader: 2, key, value };
        let lie = Certificate { name: "garbage-read", proof, happened: Vec::new() };
        let analysis = judge(&small, &history, "serializable", std::slice::from_ref(&lie));
        assert_eq!(analysis.verdict, Verdict::Unknown, "{analysis:#?}");
        assert_eq!(analysis.anomaly_count, 0);
        assert_eq!(analysis.details["anomaly-counts"], serde_json::json!({}));
        let open = &analysis.undecided[0];
        assert_eq!(
            open.reason,
            "a garbage-read that was found did not stand up to its verification (1 was written to \
             0): this is a fault of the checker, please report it with the history"
        );
        assert_eq!(open.window, (2, 3));
        let known = open.known.as_deref().unwrap_or_default();
        assert!(known.starts_with("the 1 calls that succeeded before op"), "{open:?}");
        assert!(known.ends_with("taken alone, keep to serializable"), "{open:?}");
        // A second one, that is true only if 7 was read.
        let proof = Proof::Garbage { reader: 2, key, value: ValueRef::Int(7) };
        let other = Certificate { name: "garbage-read", proof, happened: Vec::new() };
        let analysis = judge(&small, &history, "serializable", &[lie.clone(), other.clone()]);
        assert_eq!(analysis.verdict, Verdict::Unknown, "7 was not read");
        let mut read = small.clone();
        read.txns[1].mops[0].read = vec![7];
        let history = read.history();
        let analysis = judge(&read, &history, "serializable", &[lie, other]);
        assert_eq!(analysis.verdict, Verdict::Invalid, "{analysis:#?}");
        assert_eq!((analysis.anomalies.len(), analysis.undecided.len()), (1, 1));
    }
}

/// A read of a register does not show what was there before, as that of a list does.
#[test]
fn what_lists_show_is_not_believed_of_registers() {
    use super::oracle::{Mop, Txn};
    use deposed_history::OpType;
    let mop = |write, read: &[i64]| Mop { key: 0, write, read: read.to_vec() };
    let mops = vec![mop(Some(1), &[]), mop(Some(2), &[]), mop(None, &[2])];
    let txns = vec![Txn { process: 0, inv: 0, ret: 1, kind: OpType::Ok, mops }];
    let [key, first, second] = [0, 1, 2].map(ValueRef::Int);
    let proof = Proof::OwnOrder { txn: 0, reader: 0, key, first, second };
    let claim = Certificate { name: "cyclic-versions", proof, happened: Vec::new() };
    for (append, verdict) in [(true, Verdict::Invalid), (false, Verdict::Unknown)] {
        let small = Small { append, txns: txns.clone() };
        let claims = std::slice::from_ref(&claim);
        let analysis = judge(&small, &small.history(), "read-uncommitted", claims);
        assert_eq!(analysis.verdict, verdict, "{analysis:#?}");
    }
}
