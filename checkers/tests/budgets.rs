//! Budgets hold, and say so; output does not depend on chance. Time is the thread's own processor
//! time, and memory is that of the process as the kernel counts it, so that a busy machine changes
//! nothing.

#[path = "../benches/histories/mod.rs"]
mod histories;
#[path = "simulator/mod.rs"]
mod simulator;

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deposed_checkers::{
    Analysis, Bank, Budget, Checker, Consistency, CounterBounds, LeaseExpiry, Linearizable,
    ListAppend, LongFork, ModelKind, RwRegister, SetFull, Staleness, TotalQueue, UniqueIds,
    Verdict,
};
use deposed_history::{Header, History, Op, OpType, Process, Value};
use histories::{Shape, registers};
use simulator::{Isolation, Simulation};

/// One test at a time: memory is that of the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls that are all open at once while one looks, and finds what none of their orders explains.
fn hard(calls: &[(&str, Value)], look: (&str, Value), info: bool) -> History {
    let op = |process: usize, kind, f: &str, value: &Value| {
        Op::new(kind, Process::Client(process as u32), f, value.clone())
    };
    let looker = calls.len();
    let mut ops: Vec<Op> = (calls.iter().enumerate())
        .map(|(process, (f, value))| op(process, OpType::Invoke, f, value))
        .collect();
    ops.push(op(looker, OpType::Invoke, look.0, &Value::Nil));
    ops.push(op(looker, OpType::Ok, look.0, &look.1));
    let end = if info { OpType::Info } else { OpType::Ok };
    ops.extend(calls.iter().enumerate().map(|(process, (f, value))| op(process, end, f, value)));
    History::from_ops(Header::default(), &ops)
}

/// Compare-and-sets in circles, and a read of what two more write, but from a value that nobody
/// writes. Later reads see what the others write, so that they matter.
fn hard_register() -> History {
    let cas = |from: i64, to: i64| ("cas", Value::List(vec![Value::Int(from), Value::Int(to)]));
    let mut calls = vec![("write", Value::Int(0)), ("write", Value::Int(0))];
    calls.extend((0..36).map(|i| cas(i % 5, (i * 3 + 1 + i / 5) % 5)));
    calls.extend([cas(8, 7), cas(8, 7)]);
    let history = hard(&calls, ("read", Value::Int(7)), false);
    let mut ops: Vec<Op> = history.ops().map(|op| op.to_op()).collect();
    for value in 0..5 {
        for kind in [OpType::Invoke, OpType::Ok] {
            ops.push(Op::new(kind, Process::Client(99), "read", Value::Int(value)));
        }
    }
    History::from_ops(Header::default(), &ops)
}

/// Even numbers, and an odd sum.
fn hard_counter(info: bool) -> History {
    let calls: Vec<(&str, Value)> = (1..40).map(|i| ("add", Value::Int(1 << i))).collect();
    hard(&calls, ("read", Value::Int((1 << 41) - 1)), info)
}

/// Histories that no search is done with in any time.
fn hard_ones() -> Vec<(&'static str, Box<dyn Checker>, History)> {
    let linearizable = |kind| -> Box<dyn Checker> { Box::new(Linearizable::new(kind)) };
    let staleness: Box<dyn Checker> = Box::new(Staleness::default());
    vec![
        ("register", linearizable(ModelKind::CasRegister), hard_register()),
        ("counter", linearizable(ModelKind::Counter), hard_counter(false)),
        ("counter, open calls", linearizable(ModelKind::Counter), hard_counter(true)),
        ("staleness", staleness, hard_register()),
    ]
}

/// What an undecided history is said to be, and nothing else of it.
fn reason(analysis: &Analysis) -> &str {
    assert_eq!(analysis.verdict, Verdict::Unknown, "{analysis:?}");
    assert_eq!(analysis.undecided.len(), 1, "{analysis:?}");
    &analysis.undecided[0].reason
}

/// The processor time this thread has used.
fn thread_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("a number");
    Duration::from_nanos(nanos)
}

/// The kernel's count is behind by a tick, at most.
const TICK: Duration = Duration::from_millis(10);

/// A search ends within a tenth of its time after the time is up.
#[test]
fn time_limits_hold() {
    let _alone = alone();
    for (name, checker, history) in hard_ones() {
        let time_max = Duration::from_millis(400);
        let start = thread_time();
        let budget = Budget::new(move || thread_time() - start, time_max, u64::MAX, 1);
        let analysis = checker.check(&history, &budget);
        let took = thread_time() - start;
        assert_eq!(reason(&analysis), "the time budget of 400ms ran out", "{name}");
        assert!(took < time_max.mul_f64(1.1) + TICK, "{name}: {took:?}");
    }
}

/// The most memory that this process has had in memory, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// What threads and the allocator take, whatever the budget.
const OVERHEAD: u64 = 4 << 20;

/// A search takes no more than its memory, by a tenth, and does not give up long before.
#[test]
fn memory_limits_hold() {
    let _alone = alone();
    for (name, checker, history) in hard_ones() {
        for (memory_max, threads) in [(48 << 20, 1), (96 << 20, 2)] {
            // From here on the peak is that of what follows.
            fs::write("/proc/self/clear_refs", "5").expect("Linux");
            let before = peak();
            let budget = Budget::new(|| Duration::ZERO, Duration::MAX, memory_max, threads);
            let analysis = checker.check(&history, &budget);
            // The kernel counts in batches: what looks like less than before is nothing.
            let took = peak().saturating_sub(before);
            let said = format!("the memory budget of {} MiB ran out", memory_max >> 20);
            assert_eq!(reason(&analysis), said, "{name}");
            let most = memory_max + memory_max / 10 + OVERHEAD;
            assert!(took < most, "{name}: {took} of {memory_max} bytes on {threads} threads");
            // All of it is given back.
            assert_eq!(budget.reserve(memory_max), Ok(()), "{name}");
        }
    }
}

/// Transactions take no more than their memory either, whether it is enough or not.
#[test]
fn memory_limits_of_transactions_hold() {
    let _alone = alone();
    let level = |name: &str| Consistency::parse(name).expect("a level");
    for (isolation, append, name) in [
        (Isolation::StrictSerializable, true, "strict-serializable"),
        (Isolation::Snapshot, true, "snapshot-isolation"),
        (Isolation::ReadCommitted, true, "read-committed"),
        (Isolation::ReadUncommitted, true, "read-committed"),
        (Isolation::StrictSerializable, false, "strict-serializable"),
    ] {
        let invocations = 200_000;
        let history = Simulation { isolation, append, invocations, ..Simulation::default() }.run();
        let consistency = level(name);
        let checker: Box<dyn Checker> = match append {
            true => Box::new(ListAppend { consistency }),
            false => Box::new(RwRegister { consistency }),
        };
        let (mut refused, mut decided) = (0, 0);
        for (memory_max, threads) in
            [(4 << 20, 1), (8 << 20, 2), (12 << 20, 1), (24 << 20, 2), (256 << 20, 2)]
        {
            fs::write("/proc/self/clear_refs", "5").expect("Linux");
            let before = peak();
            let budget = Budget::new(|| Duration::ZERO, Duration::MAX, memory_max, threads);
            let analysis = checker.check(&history, &budget);
            // The kernel counts in batches: what looks like less than before is nothing.
            let took = peak().saturating_sub(before);
            if analysis.verdict == Verdict::Unknown {
                let said = format!("the memory budget of {} MiB ran out", memory_max >> 20);
                assert!(reason(&analysis).starts_with(&said), "{analysis:?}");
                refused += 1;
            } else {
                decided += 1;
            }
            let most = memory_max + memory_max / 10 + OVERHEAD;
            assert!(took < most, "{name}: {took} of {memory_max} bytes on {threads} threads");
            assert_eq!(budget.reserve(memory_max), Ok(()), "{name}: all of it is given back");
        }
        assert!(refused > 0 && decided > 0, "{name}: {refused} refused, {decided} decided");
    }
}

/// Calls that succeed one after the other: what they do, ask for, and are told.
fn history_of(calls: impl Iterator<Item = (&'static str, Value, Value)>) -> History {
    let op = |kind, f, value| Op::new(kind, Process::Client(0), f, value);
    let both = |(f, asked, told)| [op(OpType::Invoke, f, asked), op(OpType::Ok, f, told)];
    let ops = (0..).zip(calls.flat_map(both)).map(|(index, op)| Op { index, time: index, ..op });
    History::from_ops(Header::default(), &ops.collect::<Vec<Op>>())
}

/// Histories that are looked at from one end to the other, and how they are judged.
fn long_ones() -> Vec<(Box<dyn Checker>, History)> {
    let numbers = || (0..100_000).map(Value::Int);
    let list = |values: &[Value]| Value::List(values.to_vec());
    let up_to = |last: i64| Value::List((0..last).map(Value::Int).collect());
    let mop = |f: &str, key: i64, value| list(&[f.into(), Value::Int(key), value]);
    let added = |f| numbers().map(move |n| (f, n.clone(), n));
    let ids = numbers().map(|n| ("generate", Value::Nil, n));
    let taken = numbers().map(|n| ("dequeue", Value::Nil, n));
    let sums = (1..100_000).map(|n| ("read", Value::Nil, Value::Int(n)));
    let counted = sums.flat_map(|sum| [("add", Value::Int(1), Value::Int(1)), sum]);
    let sets = (0..5_000).flat_map(|n| {
        let add = ("add", Value::Int(n), Value::Int(n));
        let read = ("read", Value::Nil, up_to(n + 1));
        [Some(add), (n % 20 == 0).then_some(read)]
    });
    let balances = || Value::Map([("a".into(), Value::Int(1))].into());
    let read = || ("read", Value::Nil, balances());
    let lease = || Value::Map([("lease_ms".into(), Value::Int(0))].into());
    let leases = numbers().flat_map(|key| {
        let (put, gone) = (list(&[key.clone(), lease()]), list(&[key, Value::Nil]));
        [("put-leased", put.clone(), put), ("read", gone.clone(), gone)]
    });
    let forks = (0..50_000).flat_map(|key| {
        let of = |f, value: Value| list(&[mop(f, key, value)]);
        let (write, read) = (of("w", Value::Int(1)), of("r", Value::Int(1)));
        [("txn", write.clone(), write), ("txn", of("r", Value::Nil), read)]
    });
    vec![
        (Box::new(UniqueIds), history_of(ids)),
        (Box::new(TotalQueue), history_of(added("enqueue").chain(taken))),
        (Box::new(CounterBounds), history_of(counted)),
        (Box::new(SetFull::default()), history_of(sets.flatten())),
        (Box::new(Bank::default()), history_of((0..100_000).map(|_| read()))),
        (Box::new(LeaseExpiry { late_max_ns: 0 }), history_of(leases)),
        (Box::new(LongFork), history_of(forks)),
    ]
}

/// What does not search keeps to its time and memory too, and says so.
#[test]
fn limits_hold_where_nothing_is_searched() {
    let _alone = alone();
    for (checker, history) in long_ones() {
        let name = checker.name();
        let mut verdicts = Vec::new();
        for memory_max in [1 << 10, 2 << 20, 8 << 20, 256 << 20] {
            fs::write("/proc/self/clear_refs", "5").expect("Linux");
            let before = peak();
            let budget = Budget::new(|| Duration::ZERO, Duration::MAX, memory_max, 1);
            let analysis = checker.check(&history, &budget);
            let took = peak().saturating_sub(before);
            if analysis.verdict == Verdict::Unknown && memory_max < 256 << 20 {
                let said = format!("the memory budget of {} MiB ran out", memory_max >> 20);
                assert!(reason(&analysis).starts_with(&said), "{analysis:?}");
            }
            let most = memory_max + memory_max / 10 + OVERHEAD;
            assert!(took < most, "{name}: {took} of {memory_max} bytes");
            assert_eq!(budget.reserve(memory_max), Ok(()), "{name}");
            verdicts.push(analysis.verdict);
        }
        // A bank has one total, and so needs no memory.
        let least = if name == "bank" { Verdict::Valid } else { Verdict::Unknown };
        assert_eq!((verdicts[0], verdicts[3]), (least, Verdict::Valid), "{name}");

        let time_max = Duration::from_millis(1);
        let start = thread_time();
        let budget = Budget::new(move || thread_time() - start, time_max, u64::MAX, 1);
        let analysis = checker.check(&history, &budget);
        let took = thread_time() - start;
        assert!(reason(&analysis).starts_with("the time budget of 1ms ran out"), "{analysis:?}");
        assert!(took < time_max.mul_f64(1.1) + TICK, "{name}: {took:?}");
    }
}

/// However small a budget is, it is kept: large histories are not even begun with.
#[test]
fn tiny_budgets_are_kept() {
    let _alone = alone();
    let shape = Shape { calls: 200_000, processes: 20, keys: 0, values: None, cas: true, info: 50 };
    let history = registers(shape, 1);
    let checker = Linearizable::new(ModelKind::CasRegister);
    for threads in [1, 2] {
        let little = Budget::new(|| Duration::ZERO, Duration::MAX, 1 << 20, threads);
        let analysis = checker.check(&history, &little);
        assert_eq!(reason(&analysis), "the memory budget of 1 MiB ran out");
        let last = history.len() as u32 - 1;
        assert_eq!(analysis.undecided[0].window, (0, last));
        let late = Duration::from_secs(1);
        let short = Budget::new(move || late, Duration::from_millis(1), u64::MAX, threads);
        assert_eq!(reason(&checker.check(&history, &short)), "the time budget of 1ms ran out");
    }
}

/// What is fine is told of a history that was not decided: how far a search came.
#[test]
fn a_prefix_is_known_to_be_fine() {
    let _alone = alone();
    let op = |kind, f, value| Op::new(kind, Process::Client(100), f, value);
    let mut ops = Vec::new();
    for _ in 0..50 {
        ops.push(op(OpType::Invoke, "write", Value::Int(3)));
        ops.push(op(OpType::Ok, "write", Value::Int(3)));
    }
    let hard: Vec<Op> = hard_register().ops().map(|op| op.to_op()).collect();
    ops.extend(hard);
    let ops: Vec<Op> = (0..).zip(ops).map(|(index, op)| Op { index, ..op }).collect();
    let history = History::from_ops(Header::default(), &ops);
    let budget = Budget::new(|| Duration::ZERO, Duration::MAX, 8 << 20, 1);
    let analysis = Linearizable::new(ModelKind::CasRegister).check(&history, &budget);
    assert_eq!(reason(&analysis), "the memory budget of 8 MiB ran out");
    let undecided = &analysis.undecided[0];
    assert_eq!(undecided.window, (141, history.len() as u32 - 1));
    let known = "the 50 calls that returned before op 141 have a legal order";
    assert_eq!(undecided.known.as_deref(), Some(known));
}

/// The same history has the same analysis, to the letter, however often and on however many threads.
#[test]
fn output_does_not_depend_on_chance() {
    let _alone = alone();
    let few = |calls, processes, keys| Shape {
        calls,
        processes,
        keys,
        values: Some(5),
        cas: true,
        info: 20,
    };
    for (shape, wrong) in
        [(few(1_000, 15, 0), false), (few(800, 12, 0), true), (few(2_400, 10, 4), true)]
    {
        let mut ops: Vec<Op> = registers(shape, 3).ops().map(|op| op.to_op()).collect();
        if wrong {
            let read = |op: &&mut Op| op.kind == OpType::Ok && &*op.f == "read";
            let keyed = shape.keys > 0;
            for op in ops.iter_mut().filter(read).skip(60).step_by(2) {
                let value = Value::Int(1 + (op.index as i64) % 5);
                op.value = match &op.value {
                    Value::List(pair) if keyed => Value::List(vec![pair[0].clone(), value]),
                    _ => value,
                };
            }
        }
        let header = Header { keyed: shape.keys > 0, ..Header::default() };
        let history = History::from_ops(header, &ops);
        let analyses: Vec<String> = [1, 2, 2, 3, 2]
            .into_iter()
            .map(|threads| {
                let budget = Budget::new(|| Duration::ZERO, Duration::MAX, u64::MAX, threads);
                let analysis = Linearizable::new(ModelKind::CasRegister).check(&history, &budget);
                let expected = if wrong { Verdict::Invalid } else { Verdict::Valid };
                assert_eq!(analysis.verdict, expected);
                serde_json::to_string(&analysis).expect("JSON")
            })
            .collect();
        for other in &analyses[2..] {
            assert_eq!(*other, analyses[1]);
        }
        // With one thread searches take turns instead of racing; the evidence is the same.
        let evidence = |text: &str| {
            let analysis: Analysis = serde_json::from_str(text).expect("JSON");
            (analysis.verdict, analysis.summary, analysis.anomalies)
        };
        assert_eq!(evidence(&analyses[0]), evidence(&analyses[1]));
    }
}

/// How long a chain is: `DEPOSED_CHAIN`, or a million calls.
fn chain_len() -> i64 {
    let len = std::env::var("DEPOSED_CHAIN").ok().and_then(|n| n.parse().ok());
    len.unwrap_or(1_000_000)
}

/// Runs on a stack of 2 MiB.
fn on_a_small_stack(judge: impl FnOnce() -> Analysis + Send + 'static) -> Analysis {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(judge);
    thread.expect("a thread").join().expect("no panic")
}

/// A chain of compare-and-sets, each needing the one before, of any length.
#[test]
fn long_chains_need_no_stack() {
    let _alone = alone();
    let chain = |len: i64, values: i64| {
        let mut builder = deposed_history::HistoryBuilder::new(Header::default());
        for i in 0..len {
            let from = if i == 0 { Value::Nil } else { Value::Int(i % values) };
            let value = Value::List(vec![from, Value::Int((i + 1) % values)]);
            let process = Process::Client((i % 5) as u32);
            for kind in [OpType::Invoke, OpType::Ok] {
                builder.push(&Op::new(kind, process, "cas", value.clone()));
            }
        }
        builder.finish()
    };
    let unlimited = || Budget::new(|| Duration::ZERO, Duration::MAX, u64::MAX, 2);
    // One chain of values.
    let analysis = on_a_small_stack(move || {
        let history = chain(chain_len(), i64::MAX);
        Linearizable::new(ModelKind::CasRegister).check(&history, &unlimited())
    });
    assert_eq!(analysis.verdict, Verdict::Valid);
    assert_eq!(analysis.details["without_search"], 1);
    // One path through a search.
    let analysis = on_a_small_stack(move || {
        let history = chain(chain_len() / 4, 3);
        Linearizable::new(ModelKind::CasRegister).check(&history, &unlimited())
    });
    assert_eq!(analysis.verdict, Verdict::Valid);
    assert_eq!(analysis.details["searched"], 1);
}
