//! Ops of which a checker can make nothing: what came before is judged all the same, and nothing that
//! they may explain is held against anybody.

use deposed_checkers::{
    Analysis, Budget, Checker, Consistency, Linearizable, ListAppend, ModelKind, RwRegister,
    Undecided, Verdict,
};
use deposed_history::{Header, History, Op, OpType, Process, Value};

/// Events: process, kind, function, value.
type Events<'a> = &'a [(u32, OpType, &'a str, Value)];

fn history(events: Events<'_>) -> History {
    let ops: Vec<Op> = (0..)
        .zip(events)
        .map(|(index, (process, kind, f, value))| Op {
            index,
            ..Op::new(*kind, Process::Client(*process), f, value.clone())
        })
        .collect();
    History::from_ops(Header::default(), &ops)
}

/// A call of one process, alone.
fn call(f: &str, value: Value) -> [(u32, OpType, &str, Value); 2] {
    [(0, OpType::Invoke, f, value.clone()), (0, OpType::Ok, f, value)]
}

fn linearizable(events: Events<'_>) -> Analysis {
    Linearizable::new(ModelKind::CasRegister).check(&history(events), &Budget::unlimited())
}

fn undecided(analysis: &Analysis) -> &Undecided {
    assert_eq!(analysis.verdict, Verdict::Unknown, "{analysis:#?}");
    &analysis.undecided[0]
}

/// A register: the window begins with the op, and what returned before is known to be fine.
#[test]
fn a_register_is_judged_up_to_the_op() {
    let (one, two) = (Value::Int(1), Value::Int(2));
    let before = [call("write", one.clone()), call("read", one.clone())].concat();
    let odd = [call("frobnicate", Value::Nil), call("read", two.clone())].concat();
    let analysis = linearizable(&[before.clone(), odd.clone()].concat());
    let open = undecided(&analysis);
    assert_eq!(open.window, (4, 7));
    assert!(open.reason.starts_with("op 4: "), "{open:?}");
    let known = "the 2 calls that returned before op 4 have a legal order";
    assert_eq!(open.known.as_deref(), Some(known));
    // A violation before the op stands whatever the op is.
    let stale = [call("write", two.clone()), call("read", one)].concat();
    let analysis = linearizable(&[before, stale, odd.clone()].concat());
    assert_eq!(analysis.verdict, Verdict::Invalid, "{analysis:#?}");
    // What was open when it was invoked may have seen what it did.
    let open = [(1, OpType::Invoke, "read", Value::Nil)];
    let end = [(1, OpType::Ok, "read", Value::Int(9))];
    let analysis = linearizable(&[&open[..], &odd, &end].concat());
    assert_eq!(undecided(&analysis).window.0, 1);
}

/// Transactions: the same.
#[test]
fn transactions_are_judged_up_to_the_op() {
    let consistency = Consistency::default();
    let list = |values: &[i64]| Value::List(values.iter().map(|&v| Value::Int(v)).collect());
    for append in [true, false] {
        let checker: Box<dyn Checker> = match append {
            true => Box::new(ListAppend { consistency }),
            false => Box::new(RwRegister { consistency }),
        };
        let word = if append { "append" } else { "w" };
        let seen = |values: &[i64]| match values.last() {
            Some(&last) if !append => Value::Int(last),
            _ => list(values),
        };
        let mop = |f: &str, value| {
            call("txn", Value::List(vec![Value::List(vec![f.into(), "x".into(), value])]))
        };
        let before = [mop(word, Value::Int(1)), mop("r", seen(&[1]))].concat();
        let after = [mop("pop", Value::Nil), mop("r", seen(&[1, 2]))].concat();
        let events = [before, after].concat();
        let analysis = checker.check(&history(&events), &Budget::unlimited());
        assert_eq!(analysis.verdict, Verdict::Unknown, "{analysis:#?}");
        for open in &analysis.undecided {
            assert_eq!(open.window, (4, 7), "{open:?}");
            let known = "the 2 calls that succeeded before op 4, taken alone, keep to \
                         strict-serializable";
            assert_eq!(open.known.as_deref(), Some(known));
        }
        // A value that was written twice tells nothing from the second time on.
        let twice = [mop(word, Value::Int(1)), mop("r", seen(&[1])), mop(word, Value::Int(1))];
        let analysis = checker.check(&history(&twice.concat()), &Budget::unlimited());
        assert_eq!(undecided(&analysis).window.0, 4, "{analysis:#?}");
    }
}
