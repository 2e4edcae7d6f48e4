//! Each algorithm alone against brute force, with and without planted bugs, and what the verifier
//! refuses.

use deposed_history::{Header, History, Op, OpType, Process, Value};

use super::NEVER;
use super::case::{Begin, Case, Kept};
use super::checker::Linearizable;
use super::dfs::{Limits, search};
use super::judge::{Effort, Judge, Judged, Scope, conclude};
use super::model::Model as _;
use super::models::{Register, RegisterOp};
use super::planted::{Bug, plant};
use super::register::{RegisterKinds, compact, frontier, searchable};
use super::verify::{Flaw, verify};
use crate::{Analysis, Budget, Checker, Verdict};

mod exhaustive;
mod lagging;
mod oracle;
mod other_models;
mod registers;
mod weakened;
mod witness;

use oracle::{End, Random, Spec, TestCall, history, is_linearizable, random_calls};
use other_models::product;
use registers::{RegisterOp as TestOp, RegisterSpec};

/// A search alone, without zones.
struct Alone {
    breadth: bool,
}

impl Judge for Alone {
    fn model_name(&self) -> &str {
        "cas-register"
    }

    fn judge(&self, scope: Scope<'_>, _effort: Effort) -> Judged {
        let model = Register { cas: true };
        let register = compact(scope.history, scope.calls, scope.keyed, model).expect("a register");
        let mut automaton = searchable(&register);
        let limits = Limits { budget: scope.budget, nodes_max: u64::MAX, cancelled: None };
        let searched = if self.breadth {
            frontier(&automaton, limits)
        } else {
            let entries = automaton.entries();
            search(&mut automaton, &entries, limits)
        };
        conclude(&model, scope, searched, || RegisterKinds::of(&register))
    }
}

fn alone(breadth: bool) -> Box<dyn Checker> {
    Box::new(Linearizable::judged_by(Box::new(Alone { breadth })))
}

const SPECS: [RegisterSpec; 4] = [
    RegisterSpec { cas: true, values: None, observes: false },
    RegisterSpec { cas: true, values: None, observes: true },
    RegisterSpec { cas: true, values: Some(3), observes: false },
    RegisterSpec { cas: true, values: Some(3), observes: true },
];

/// Depth first, without zones, agrees with brute force.
#[test]
fn depth_first_agrees_with_brute_force() {
    for spec in SPECS {
        oracle::fuzz("depth first", &spec, &[("depth first", alone(false))], 9);
    }
}

/// Breadth first agrees with brute force.
#[test]
fn breadth_first_agrees_with_brute_force() {
    for spec in SPECS {
        oracle::fuzz("breadth first", &spec, &[("breadth first", alone(true))], 9);
    }
}

/// Histories for bugs of the search breadth first that random ones show once in 200,000, if at all.
fn seldom() -> [(Bug, Vec<TestCall<TestOp>>); 2] {
    let call = |process, op, inv, ret, end| TestCall { process, op, inv, ret, end };
    // The write of 6 has to come after the read of 5, so that the last cas misses 5. When it returns
    // the value may still be 3, which nothing misses; but the first cas may lead to 5.
    let missed = vec![
        call(1, TestOp::Write(Some(3)), 0, 4, End::Ok),
        call(0, TestOp::Cas(Some(3), Some(5)), 1, 3, End::Info),
        call(2, TestOp::Write(Some(6)), 2, 6, End::Ok),
        call(1, TestOp::Read(Some(5)), 5, 7, End::Ok),
        call(1, TestOp::Cas(Some(5), Some(8)), 8, 9, End::Precondition),
    ];
    // The write of 2 has to hide before the second write of 1, which changes nothing.
    let hidden = vec![
        call(0, TestOp::Write(Some(1)), 0, 1, End::Ok),
        call(0, TestOp::Write(Some(2)), 2, 7, End::Ok),
        call(1, TestOp::Write(Some(1)), 3, 9, End::Ok),
        call(2, TestOp::Cas(Some(1), Some(4)), 4, 8, End::Ok),
        call(3, TestOp::Read(Some(4)), 5, 6, End::Ok),
        call(3, TestOp::Read(Some(4)), 10, 11, End::Ok),
    ];
    [(Bug::MissesOfTheMoment, missed), (Bug::NothingHides, hidden)]
}

/// They are legal, the search says so, and with the bug it does not.
#[test]
fn seldom_bugs_are_found() {
    let spec = RegisterSpec { cas: true, values: None, observes: true };
    for (bug, calls) in seldom() {
        assert!(is_linearizable(&spec, &calls), "{bug:?}");
        let history = history(&spec, &calls);
        let verdict = || alone(true).check(&history, &Budget::unlimited()).verdict;
        assert_eq!(verdict(), Verdict::Valid, "{bug:?}");
        plant(Some(bug));
        assert_ne!(verdict(), Verdict::Valid, "{bug:?}");
        plant(None);
    }
}

/// How many random histories of each kind a bug may survive.
const SURVIVED_MAX: u64 = 60_000;

/// Rounds in which bugs were found that take long to find. They are tried first; should histories be
/// made in another way one day, the others are still tried from the first on.
const FOUND: [(Bug, u64); 7] = [
    (Bug::BeginsTooLate, 8_279),
    (Bug::TwinsForgotten, 15_085),
    (Bug::StateForgotten, 8_088),
    (Bug::MoreIsBetter, 1_903),
    (Bug::NotAbsorbedAtOnce, 6_447),
    (Bug::ExplicitUseless, 1_925),
    (Bug::DebtsForgotten, 4_302),
];

/// Makes a checker.
type Make<'a> = &'a dyn Fn() -> Box<dyn Checker>;

/// In which round brute force finds a checker wrong, if it does.
fn wrong_at<S: Spec>(bug: Bug, specs: &[S], checker: &dyn Checker) -> Option<u64> {
    let first = FOUND.iter().find(|found| found.0 == bug).map(|found| found.1);
    for round in first.into_iter().chain(0..SURVIVED_MAX) {
        for spec in specs {
            let mut random = Random::new(round);
            let size = 2 + random.below(8) as usize;
            let info = [0, 10, 30, 50][random.below(4) as usize];
            let calls = random_calls(spec, &mut random, size, info);
            if !calls.iter().any(|call| call.end == End::Ok) {
                continue;
            }
            let verdict = checker.check(&history(spec, &calls), &Budget::unlimited()).verdict;
            let expected =
                if is_linearizable(spec, &calls) { Verdict::Valid } else { Verdict::Invalid };
            if verdict != expected {
                return Some(round);
            }
        }
    }
    None
}

/// Every rule that is broken on purpose is found by comparison with brute force.
#[test]
fn planted_bugs_are_found() {
    use Bug::*;
    let zones =
        || -> Box<dyn Checker> { Box::new(Linearizable::new(crate::ModelKind::CasRegister)) };
    let cases: [(Make<'_>, &[Bug]); 3] = [
        (
            &zones,
            &[
                NoOptionalCounts,
                NoClosure,
                SecondWriterIgnored,
                FutureIgnored,
                ChainOrderIgnored,
                ReadsOutsideZones,
                ForwardOverlapIgnored,
                BackwardInsideIgnored,
                MissesIgnored,
                EndsTooSoon,
                BeginsTooLate,
            ],
        ),
        (
            &|| alone(false),
            &[
                WritesLook,
                NoWayBack,
                TwinsForgotten,
                NothingOptional,
                NoSeparators,
                MoreIsBetter,
                StateForgotten,
                OptionalCasForgotten,
            ],
        ),
        (
            &|| alone(true),
            &[NotAbsorbedAtOnce, AbsorbedForEver, ExplicitUseless, LooksForgotten, DebtsForgotten],
        ),
    ];
    let kv: &dyn Fn() -> Box<dyn Checker> = &|| Box::new(Linearizable::new(crate::ModelKind::Kv));
    let mut survivors = Vec::new();
    let mut try_bug = |bug, found: &dyn Fn() -> Option<u64>| {
        plant(Some(bug));
        if found().is_none() {
            survivors.push(bug);
        }
        plant(None);
    };
    for (checker, bugs) in cases {
        for &bug in bugs {
            try_bug(bug, &|| wrong_at(bug, &SPECS, &*checker()));
        }
    }
    let spec = [other_models::KvSpec { unique: false, puts: true }];
    try_bug(NothingStartsAnew, &|| wrong_at(NothingStartsAnew, &spec, &*kv()));
    try_bug(RuledOutForEver, &|| wrong_at(RuledOutForEver, &spec, &*kv()));
    let queue: Make<'_> = &|| Box::new(Linearizable::new(crate::ModelKind::FifoQueue));
    let spec = [other_models::QueueSpec { unique: true, both: false }];
    for bug in [OvertakingIgnored, FalseEmptyIgnored] {
        try_bug(bug, &|| wrong_at(bug, &spec, &*queue()));
    }
    assert!(survivors.is_empty(), "{survivors:?} survive {SURVIVED_MAX} rounds");
}

/// A write of 1, a write of 2 after it, a read of 1 after that.
fn stale() -> History {
    let op = |kind, process, f, value: i64| {
        Op::new(kind, Process::Client(process), f, Value::Int(value))
    };
    let ops = [("write", 1), ("write", 2), ("read", 1)]
        .map(|(f, value)| [op(OpType::Invoke, 0, f, value), op(OpType::Ok, 0, f, value)]);
    History::from_ops(Header::default(), &ops.concat())
}

fn kept(call: u32, op: RegisterOp) -> Kept<RegisterOp> {
    Kept { call, op, inv: 2 * call + 1, ret: 2 * call + 2 }
}

fn proof() -> Case<RegisterOp> {
    let kept = vec![
        kept(0, RegisterOp::Write(Value::Int(1))),
        kept(1, RegisterOp::Write(Value::Int(2))),
        kept(2, RegisterOp::Read(Value::Int(1))),
    ];
    Case { begin: Begin::Initially, until: NEVER, kept }
}

fn flaw(case: &Case<RegisterOp>) -> Option<Flaw> {
    let model = Register { cas: true };
    verify(&model, &stale(), &[0, 1, 2], false, case, &Budget::unlimited()).err()
}

/// The verifier accepts a witness, and refuses one that leaves out what matters, that says what
/// the history does not, or that has a legal order.
#[test]
fn the_verifier_refuses_what_proves_nothing() {
    assert_eq!(flaw(&proof()), None);
    let change = |change: &dyn Fn(&mut Case<RegisterOp>)| {
        let mut case = proof();
        change(&mut case);
        flaw(&case)
    };
    // The write of what was read matters.
    assert_eq!(change(&|case| drop(case.kept.remove(0))), Some(Flaw::Missing(0)));
    // Without the write in between there is an order.
    assert_eq!(change(&|case| drop(case.kept.remove(1))), Some(Flaw::Legal));
    // Nobody read 3.
    let other = RegisterOp::Read(Value::Int(3));
    assert_eq!(change(&|case| case.kept[2].op = other.clone()), Some(Flaw::Altered(2)));
    // A shorter interval is no weakening.
    assert_eq!(change(&|case| case.kept[2].inv += 1), Some(Flaw::Altered(2)));
    assert_eq!(change(&|case| case.kept[0].ret -= 1), Some(Flaw::Altered(0)));
    // What happened may be taken not to have; then there is an order.
    assert_eq!(change(&|case| case.kept[1].ret = NEVER), Some(Flaw::Legal));
    // A window must not take for certain what was open at its beginning.
    assert_eq!(
        change(&|case| {
            case.begin = Begin::Anyhow(4);
            case.kept.remove(0);
            case.kept[0].inv = 4;
        }),
        Some(Flaw::Altered(1))
    );
    // A window that begins after the first write is proof enough.
    assert_eq!(
        change(&|case| {
            case.begin = Begin::Anyhow(3);
            case.kept.remove(0);
        }),
        None
    );
    // A call that is not the history's.
    assert_eq!(change(&|case| case.kept[2].call = 7), Some(Flaw::Altered(7)));
    let model = Register { cas: true };
    assert!(model.anything().is_some());
}

/// What a checker says whose search, or whose witness, is wrong.
fn with_bug(bug: Bug, checker: &dyn Checker, history: &History) -> Analysis {
    plant(Some(bug));
    let analysis = checker.check(history, &Budget::unlimited());
    plant(None);
    analysis
}

/// Where a search denies an order that exists, or shows too little, that is said, with what was fine until
/// then; nothing is called invalid.
#[test]
fn a_witness_that_does_not_hold_is_told_as_that() {
    let spec = RegisterSpec { cas: true, values: None, observes: true };
    let call = |process, op, inv, ret, end| TestCall { process, op, inv, ret, end };
    let calls = vec![
        call(0, TestOp::Write(Some(1)), 0, 1, End::Ok),
        call(0, TestOp::Read(Some(1)), 2, 3, End::Ok),
        call(1, TestOp::Write(Some(2)), 4, 5, End::Ok),
        call(0, TestOp::Read(Some(2)), 6, 7, End::Ok),
    ];
    for breadth in [false, true] {
        let analysis = with_bug(Bug::OrderDenied, &*alone(breadth), &history(&spec, &calls));
        assert_eq!(analysis.verdict, Verdict::Unknown, "{analysis:#?}");
        assert!(analysis.anomalies.is_empty() && analysis.anomaly_count == 0, "{analysis:#?}");
        let open = &analysis.undecided[0];
        assert_eq!(
            open.reason,
            "a violation was found, but its witness did not hold (the calls of the witness have a \
             legal order): this is a bug of the checker, please report it with the history"
        );
        assert_eq!(open.window, (6, 7));
        let known = "the 3 calls that returned before op 6 have a legal order";
        assert_eq!(open.known.as_deref(), Some(known));
    }
    for checker in
        [alone(false), alone(true), Box::new(Linearizable::new(crate::ModelKind::CasRegister))]
    {
        assert_eq!(checker.check(&stale(), &Budget::unlimited()).verdict, Verdict::Invalid);
        let analysis = with_bug(Bug::WitnessIncomplete, &*checker, &stale());
        assert_eq!(analysis.verdict, Verdict::Unknown, "{analysis:#?}");
        let reason = &analysis.undecided[0].reason;
        assert!(reason.contains("its witness did not hold"), "{reason}");
    }
}

/// However wrong searches and witnesses are, no legal history is called invalid.
#[test]
fn wrong_witnesses_make_nothing_invalid() {
    let zones: Box<dyn Checker> = Box::new(Linearizable::new(crate::ModelKind::CasRegister));
    for (bug, checker) in [
        (Bug::OrderDenied, alone(false)),
        (Bug::OrderDenied, alone(true)),
        (Bug::WitnessIncomplete, alone(false)),
        (Bug::WitnessIncomplete, alone(true)),
        (Bug::WitnessIncomplete, zones),
    ] {
        let mut told = 0;
        for spec in &SPECS {
            for round in 0..500 {
                let mut random = Random::new(round);
                let size = 2 + random.below(6) as usize;
                let calls = random_calls(spec, &mut random, size, 20);
                let legal = is_linearizable(spec, &calls);
                let analysis = with_bug(bug, &*checker, &history(spec, &calls));
                let wrong = match analysis.verdict {
                    Verdict::Valid => !legal,
                    Verdict::Invalid => legal,
                    Verdict::Unknown => false,
                };
                assert!(!wrong, "{bug:?}: {calls:#?}\n{analysis:#?}");
                told += u64::from(analysis.verdict == Verdict::Unknown);
            }
        }
        assert!(told > 100, "{bug:?}: {told}");
    }
}
