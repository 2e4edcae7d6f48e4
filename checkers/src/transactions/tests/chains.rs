//! Histories that are one long chain: the thread's stack does not grow with them.

use deposed_history::{Header, History, HistoryBuilder, Op, OpType, Process, Value};

use super::check;
use crate::{Analysis, Verdict};

/// Transactions: `DEPOSED_CHAIN`, or few enough for every run.
fn length() -> i64 {
    std::env::var("DEPOSED_CHAIN").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000)
}

/// Each transaction reads what the one before it wrote, and the first one, if it is a ring, what
/// the last one wrote. All are open at the same time.
fn chain(append: bool, ring: bool) -> History {
    let mut builder = HistoryBuilder::new(Header::default());
    let length = length();
    for kind in [OpType::Invoke, OpType::Ok] {
        for number in 0..length {
            let before = if number > 0 { number - 1 } else { length - 1 };
            let one = if append { Value::List(vec![1.into()]) } else { 1.into() };
            let saw = if number > 0 || ring { one } else { Value::Nil };
            let read = Value::List(vec!["r".into(), before.into(), saw]);
            let word = if append { "append" } else { "w" };
            let write = Value::List(vec![word.into(), number.into(), 1.into()]);
            let value = Value::List(vec![read, write]);
            builder.push(&Op::new(kind, Process::Client(number as u32), "txn", value));
        }
    }
    builder.finish()
}

/// Judges on a stack of 2 MiB.
fn on_a_small_stack(append: bool, ring: bool, name: &'static str) -> Option<Analysis> {
    let work = move || check(append, &chain(append, ring), name);
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work);
    thread.ok().and_then(|thread| thread.join().ok())
}

#[test]
fn a_chain_of_any_length_is_judged_on_a_small_stack() {
    for append in [true, false] {
        for name in ["serializable", "snapshot-isolation"] {
            let verdict = on_a_small_stack(append, false, name).map(|analysis| analysis.verdict);
            assert_eq!(verdict, Some(Verdict::Valid), "{append} {name}");
        }
    }
}

#[test]
fn a_ring_of_any_length_is_shown_on_a_small_stack() {
    for append in [true, false] {
        let analysis = on_a_small_stack(append, true, "serializable").expect("an analysis");
        assert_eq!(analysis.verdict, Verdict::Invalid);
        let anomaly = &analysis.anomalies[0];
        assert_eq!((anomaly.name.as_str(), anomaly.edges.len() as i64), ("G1c", length()));
        assert!(anomaly.sentences.len() < 300, "{} sentences", anomaly.sentences.len());
    }
}
