//! Generators in simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use deposed_history::{Op, OpType, Process, Value};
use proptest::prelude::*;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// An endless generator of one function.
fn calls(f: &'static str) -> Box<dyn Generator> {
    from_fn(move |_, _| Some(Invocation::new(f, Value::Nil))).boxed()
}

/// Answers everything with success after this long.
fn ok_after(ms: u64) -> impl FnMut(&Invocation, &mut ChaCha8Rng) -> Reply {
    move |op, _| Reply {
        after: Duration::from_millis(ms),
        kind: OpType::Ok,
        value: op.value.clone(),
    }
}

/// Answers anything, after anything up to 50 ms.
fn anything(op: &Invocation, rng: &mut ChaCha8Rng) -> Reply {
    Reply {
        after: Duration::from_micros(rng.random_range(0..50_000)),
        kind: [OpType::Ok, OpType::Fail, OpType::Info][rng.random_range(0..3)],
        value: op.value.clone(),
    }
}

fn simulation(threads: usize, ops_max: usize) -> Simulation {
    Simulation { threads, seed: 7, ops_max }
}

fn invocations(history: &[Op]) -> impl Iterator<Item = &Op> {
    history.iter().filter(|op| op.kind == OpType::Invoke)
}

fn count(history: &[Op], f: &str) -> usize {
    invocations(history).filter(|op| &*op.f == f).count()
}

/// The thread of an event: re-incarnation adds the concurrency.
fn thread(op: &Op, threads: usize) -> usize {
    op.process.client().unwrap() as usize % threads
}

/// What every history must be, whatever made it: times do not go back, a process has one operation
/// at a time and none after an `info`, and its thread goes on as process + concurrency.
fn check_order(history: &[Op], threads: usize) {
    let mut open: BTreeSet<Process> = BTreeSet::new();
    let mut process_of: Vec<u32> = (0..threads as u32).collect();
    let mut time = 0;
    for (index, op) in history.iter().enumerate() {
        assert_eq!(op.index, index as u64);
        assert!(op.time >= time);
        time = op.time;
        let process = &mut process_of[thread(op, threads)];
        assert_eq!(op.process, Process::Client(*process), "the process its thread runs now");
        if op.kind == OpType::Invoke {
            assert!(open.insert(op.process), "{} was busy", op.process);
        } else {
            assert!(open.remove(&op.process), "{} had nothing to end", op.process);
            if op.kind == OpType::Info {
                *process += threads as u32;
            }
        }
    }
    assert!(open.is_empty(), "every operation has ended");
}

/// A generator that uses about everything.
fn everything() -> Box<dyn Generator> {
    let keyed = independent(2, (0_i64..).map(Value::from), |_| {
        mix(vec![(3, calls("read")), (1, calls("write"))]).limit(9).boxed()
    });
    let main = reserve(
        vec![(3, keyed.stagger(400.0).boxed()), (1, calls("cas").until_ok().boxed())],
        cycle_times(vec![
            (Duration::from_millis(30), calls("add")),
            (Duration::from_millis(20), silence().boxed()),
        ])
        .boxed(),
    );
    main.time_limit(Duration::from_secs(1))
        .then(sleep(Duration::from_millis(10)))
        .then(each_thread(|_| calls("last").limit(2).boxed()))
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the seed, the threads and the replies: no operation on a busy thread, a fresh
    /// process after an `info`, and the same seed makes the same history.
    #[test]
    fn a_simulated_history_is_well_formed_and_repeatable(seed: u64, threads in 1_usize..12) {
        let simulation = Simulation { threads, seed, ops_max: 2_000 };
        let history = simulate(&mut *everything(), simulation, anything);
        check_order(&history, threads);
        prop_assert_eq!(&history, &simulate(&mut *everything(), simulation, anything));
    }

    /// Stagger keeps its rate in total, whatever the number of threads, as long as some are free.
    #[test]
    fn a_staggered_rate_is_kept(seed: u64, threads in 5_usize..40, rate in 50_u32..2_000) {
        let mut generator = calls("read")
            .stagger(f64::from(rate))
            .time_limit(Duration::from_secs(4));
        let simulation = Simulation { threads, seed, ops_max: usize::MAX };
        let history = simulate(&mut generator, simulation, ok_after(1));
        let expected = f64::from(rate) * 4.0;
        let got = count(&history, "read") as f64;
        // Five standard deviations of a Poisson count.
        prop_assert!((got - expected).abs() < 5.0 * expected.sqrt(), "{got}, not {expected}");
    }

    /// A mix draws by weight.
    #[test]
    fn a_mix_draws_by_weight(seed: u64, a in 1_u32..9, b in 1_u32..9) {
        let mut generator = mix(vec![(a, calls("a")), (b, calls("b"))]);
        let simulation = Simulation { threads: 3, seed, ops_max: 4_000 };
        let history = simulate(&mut generator, simulation, ok_after(1));
        let share = f64::from(a) / f64::from(a + b);
        let got = count(&history, "a") as f64;
        let deviation = (4_000.0 * share * (1.0 - share)).sqrt();
        prop_assert!((got - 4_000.0 * share).abs() < 5.0 * deviation);
    }

    /// Reserved threads perform the operations of their own generator and no others.
    #[test]
    fn reserved_threads_keep_to_their_generator(seed: u64, threads in 1_usize..10) {
        let mut generator = reserve(vec![(2, calls("a")), (3, calls("b"))], calls("rest"));
        let simulation = Simulation { threads, seed, ops_max: 500 };
        for op in simulate(&mut generator, simulation, anything) {
            let expected = match thread(&op, threads) {
                0..2 => "a",
                2..5 => "b",
                _ => "rest",
            };
            prop_assert_eq!(&*op.f, expected);
        }
    }

    /// A key is used by the threads of one group only, for no more than its operations, and the
    /// keys are taken in order.
    #[test]
    fn keys_are_independent(seed: u64, threads in 1_usize..10, per_key in 1_usize..4) {
        let mut generator = independent(per_key, (0_i64..20).map(Value::from), |_| {
            calls("read").limit(6).boxed()
        });
        let simulation = Simulation { threads, seed, ops_max: usize::MAX };
        let history = simulate(&mut generator, simulation, anything);
        let mut ops_of: BTreeMap<i64, usize> = BTreeMap::new();
        let mut group_of: BTreeMap<i64, usize> = BTreeMap::new();
        for op in invocations(&history) {
            let key = op.value.as_list().unwrap()[0].as_int().unwrap();
            *ops_of.entry(key).or_default() += 1;
            let group = thread(op, threads) / per_key;
            prop_assert_eq!(*group_of.entry(key).or_insert(group), group);
        }
        prop_assert_eq!(ops_of, (0..20).map(|key| (key, 6)).collect());
    }
}

#[test]
fn operations_are_spread_over_the_free_threads() {
    let history =
        simulate(&mut *calls("read").stagger(10.0).boxed(), simulation(5, 500), ok_after(1));
    let mut by_thread = [0; 5];
    invocations(&history).for_each(|op| by_thread[thread(op, 5)] += 1);
    assert!(by_thread.iter().all(|&n| n > 50), "{by_thread:?}");
}

#[test]
fn a_source_ends_with_its_iterator() {
    let ops = ["a", "b", "c"].map(|f| Invocation::new(f, Value::Nil));
    let history = simulate(&mut from_iter(ops), simulation(1, 100), ok_after(1));
    let fs: Vec<&str> = invocations(&history).map(|op| &*op.f).collect();
    assert_eq!(fs, ["a", "b", "c"]);
}

#[test]
fn phases_wait_for_every_thread_and_sequences_do_not() {
    let parts = || vec![calls("first").limit(3).boxed(), calls("second").limit(3).boxed()];
    let start_of_second = |history: &[Op]| {
        invocations(history).find(|op| &*op.f == "second").map(|op| op.time).unwrap()
    };
    let slow_first = |op: &Invocation, _: &mut ChaCha8Rng| Reply {
        after: Duration::from_millis(if &*op.f == "first" { 100 } else { 1 }),
        kind: OpType::Ok,
        value: Value::Nil,
    };
    let phased = simulate(&mut phases(parts()), simulation(5, 100), slow_first);
    assert_eq!(start_of_second(&phased), 100 * MS);
    let sequenced = simulate(&mut sequence(parts()), simulation(5, 100), slow_first);
    assert_eq!(start_of_second(&sequenced), 0);
}

#[test]
fn a_time_limit_ends_even_what_is_pending_for_ever() {
    let mut generator = silence().time_limit(Duration::from_secs(3)).then(calls("after").limit(1));
    let history = simulate(&mut generator, simulation(2, 100), ok_after(1));
    assert_eq!(history[0].time, 3 * SECOND);
}

#[test]
fn until_ok_goes_on_after_failures_and_ends_with_a_success() {
    let mut replies = [OpType::Fail, OpType::Info, OpType::Fail, OpType::Ok].into_iter();
    let store = |_: &Invocation, _: &mut ChaCha8Rng| Reply {
        after: Duration::from_millis(1),
        kind: replies.next().unwrap(),
        value: Value::Nil,
    };
    let history = simulate(&mut calls("read").until_ok(), simulation(1, 100), store);
    assert_eq!(invocations(&history).count(), 4);
}

#[test]
fn until_ok_is_not_ended_by_the_success_of_others() {
    let mut generator =
        mix(vec![(1, calls("mine").until_ok().boxed()), (1, calls("others").limit(50).boxed())]);
    let store = |op: &Invocation, _: &mut ChaCha8Rng| Reply {
        after: Duration::from_millis(1),
        kind: if &*op.f == "mine" { OpType::Fail } else { OpType::Ok },
        value: Value::Nil,
    };
    let history = simulate(&mut generator, simulation(3, 300), store);
    assert_eq!(count(&history, "others"), 50);
    assert_eq!(count(&history, "mine"), 250);
}

#[test]
fn a_mix_is_not_held_up_by_a_part_that_is_pending() {
    let mut generator = mix(vec![(1000, silence().boxed()), (1, calls("read").limit(10).boxed())]);
    let history = simulate(&mut generator, simulation(1, 100), ok_after(1));
    assert_eq!(count(&history, "read"), 10);
    assert_eq!(history.last().unwrap().time, 10 * MS);
}

#[test]
fn quiet_periods_are_quiet_and_come_back() {
    let mut generator = cycle_times(vec![
        (Duration::from_secs(2), calls("read").stagger(100.0).boxed()),
        (Duration::from_secs(1), silence().boxed()),
    ])
    .time_limit(Duration::from_secs(9));
    let history = simulate(&mut generator, simulation(3, usize::MAX), ok_after(1));
    let mut by_second = [0; 9];
    invocations(&history).for_each(|op| by_second[(op.time / SECOND) as usize] += 1);
    for (second, &ops) in by_second.iter().enumerate() {
        assert_eq!(ops == 0, second % 3 == 2, "{by_second:?}");
    }
}

#[test]
fn a_stall_is_not_made_up_by_a_burst() {
    // The only thread is held for a second: 1,000 operations that were due are not performed.
    let mut first = true;
    let store = |_: &Invocation, _: &mut ChaCha8Rng| {
        let after = if std::mem::take(&mut first) { 1_000 } else { 0 };
        Reply { after: Duration::from_millis(after), kind: OpType::Ok, value: Value::Nil }
    };
    let mut generator = calls("read").stagger(1_000.0).time_limit(Duration::from_secs(2));
    let history = simulate(&mut generator, simulation(1, usize::MAX), store);
    let after_stall = count(&history, "read") as f64 - 1.0;
    assert!((after_stall - 1_000.0).abs() < 200.0, "{after_stall}");
}

#[test]
fn each_thread_has_a_generator_of_its_own() {
    let mut generator = each_thread(|_| calls("read").limit(2).boxed());
    let history = simulate(&mut generator, simulation(4, 100), ok_after(1));
    let mut by_thread = [0; 4];
    invocations(&history).for_each(|op| by_thread[thread(op, 4)] += 1);
    assert_eq!(by_thread, [2; 4]);
}

#[test]
#[should_panic(expected = "1000 keys in a row have no operation at all")]
fn keys_with_nothing_to_do_are_a_bug() {
    let mut generator =
        independent(1, (0_i64..).map(Value::from), |_| calls("read").limit(0).boxed());
    simulate(&mut generator, simulation(1, 10), ok_after(1));
}
