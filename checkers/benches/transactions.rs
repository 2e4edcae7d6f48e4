//! How long it takes to read and to judge transactions.
//! `cargo bench -p deposed-checkers --bench transactions`
//!
//! `DEPOSED_BENCH_LARGE=1` adds the histories of 10 million invocations.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use deposed_checkers::{Budget, Checker, Consistency, ListAppend, RwRegister, Verdict};
use deposed_history::{History, ReadOptions, jsonl, read};
use simulator::{Isolation, Simulation};

#[path = "../tests/simulator/mod.rs"]
mod simulator;

/// No check may take longer, or more memory.
const TIME_MAX: Duration = Duration::from_secs(120);
const MEMORY_MAX: u64 = 8 << 30;

/// What is simulated, at which level it is judged, and what the answer is.
struct Case {
    isolation: Isolation,
    append: bool,
    info_percent: u64,
    level: &'static str,
    verdict: Verdict,
}

const fn case(isolation: Isolation, append: bool, level: &'static str, verdict: Verdict) -> Case {
    Case { isolation, append, info_percent: 0, level, verdict }
}

const CASES: &[Case] = &[
    case(Isolation::StrictSerializable, true, "strict-serializable", Verdict::Valid),
    Case {
        info_percent: 2,
        ..case(Isolation::StrictSerializable, true, "strict-serializable", Verdict::Valid)
    },
    case(Isolation::Snapshot, true, "strict-serializable", Verdict::Invalid),
    case(Isolation::Snapshot, true, "snapshot-isolation", Verdict::Valid),
    case(Isolation::ReadCommitted, true, "read-committed", Verdict::Valid),
    case(Isolation::ReadUncommitted, true, "strict-serializable", Verdict::Invalid),
    case(Isolation::StrictSerializable, false, "strict-serializable", Verdict::Valid),
    case(Isolation::Snapshot, false, "snapshot-isolation", Verdict::Valid),
];

fn sizes() -> Vec<usize> {
    let mut sizes = vec![10_000, 100_000, 1_000_000];
    if std::env::var_os("DEPOSED_BENCH_LARGE").is_some() {
        sizes.push(10_000_000);
    }
    sizes
}

impl Case {
    fn name(&self) -> String {
        let Self { isolation, append, info_percent, .. } = self;
        let workload = if *append { "list-append" } else { "rw-register" };
        format!("{workload}, {isolation:?} store, {info_percent} % info")
    }

    /// The file of a history with so many invocations.
    fn file(&self, invocations: usize) -> Vec<u8> {
        let &Self { isolation, append, info_percent, .. } = self;
        let simulation =
            Simulation { isolation, append, invocations, info_percent, ..Simulation::default() };
        let mut file = Vec::new();
        jsonl::write(&mut file, &simulation.run()).unwrap_or_else(|e| panic!("{e}"));
        file
    }

    fn check(&self, history: &History, threads: usize) {
        let start = Instant::now();
        let budget = Budget::new(move || start.elapsed(), TIME_MAX, MEMORY_MAX, threads);
        let consistency = Consistency::parse(self.level).unwrap_or_else(|e| panic!("{e}"));
        let analysis = if self.append {
            ListAppend { consistency }.check(history, &budget)
        } else {
            RwRegister { consistency }.check(history, &budget)
        };
        assert_eq!(analysis.verdict, self.verdict, "{}", analysis.summary);
    }
}

fn parsed(file: &[u8]) -> History {
    read(file, &ReadOptions::default()).unwrap_or_else(|e| panic!("{e}")).history
}

fn transactions(c: &mut Criterion) {
    for invocations in sizes() {
        let mut group = c.benchmark_group(format!("{invocations} transactions"));
        group.sample_size(10);
        for case in CASES {
            let name = case.name();
            let file = std::cell::OnceCell::new();
            let file = || file.get_or_init(|| case.file(invocations));
            if case.level == "strict-serializable" {
                group.bench_function(format!("read {name}"), |b| {
                    b.iter(|| black_box(parsed(file())));
                });
            }
            let history = std::cell::OnceCell::new();
            for threads in [1, 2] {
                group.bench_function(format!("{}, {name}, {threads} threads", case.level), |b| {
                    let history = history.get_or_init(|| parsed(file()));
                    b.iter(|| case.check(black_box(history), threads));
                });
            }
        }
    }
}

criterion_group!(benches, transactions);
criterion_main!(benches);
