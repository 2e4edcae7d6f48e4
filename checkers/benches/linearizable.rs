//! How long it takes to decide linearizability, and how far reads lag.
//! `cargo bench -p deposed-checkers --bench linearizable`

mod histories;
#[path = "histories/lagging.rs"]
mod lagging;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use deposed_checkers::{Budget, Checker, Linearizable, ModelKind, Staleness, Verdict};
use histories::{Shape, registers};
use lagging::lagging;

/// No check may take longer.
const TIME_MAX: Duration = Duration::from_secs(60);

fn budget(threads: usize) -> Budget {
    let start = Instant::now();
    Budget::new(move || start.elapsed(), TIME_MAX, 8 << 30, threads)
}

fn few_values(c: &mut Criterion) {
    let mut group = c.benchmark_group("cas-register, 5 values");
    group.sample_size(10);
    for (processes, calls, info) in [
        (5, 10_000, 0),
        (10, 10_000, 0),
        (20, 1_000, 0),
        (20, 10_000, 0),
        (30, 10_000, 0),
        (20, 10_000, 10),
        (30, 10_000, 10),
        (30, 10_000, 50),
    ] {
        let shape = Shape { calls, processes, keys: 0, values: Some(5), cas: true, info };
        let history = registers(shape, 42);
        let checker = Linearizable::new(ModelKind::CasRegister);
        group.bench_function(
            format!("{processes} processes, {calls} calls, {info} info in 10k"),
            |b| {
                b.iter(|| {
                    let analysis = checker.check(black_box(&history), &budget(2));
                    assert_eq!(analysis.verdict, Verdict::Valid, "{analysis:?}");
                });
            },
        );
    }
}

fn unique_values(c: &mut Criterion) {
    let mut group = c.benchmark_group("unique values, 1M calls, 20 processes");
    group.sample_size(10);
    for (name, keys, cas, info) in [
        ("one key, cas, 50 info in 10k", 0, true, 50),
        ("100 keys, register", 100, false, 0),
        ("100 keys, cas, 50 info in 10k", 100, true, 50),
    ] {
        let shape = Shape { calls: 1_000_000, processes: 20, keys, values: None, cas, info };
        let history = registers(shape, 42);
        let checker = Linearizable::new(ModelKind::CasRegister);
        for threads in [1, 2] {
            group.bench_function(format!("{name}, {threads} threads"), |b| {
                b.iter(|| {
                    let analysis = checker.check(black_box(&history), &budget(threads));
                    assert_eq!(analysis.verdict, Verdict::Valid, "{analysis:?}");
                });
            });
        }
    }
}

fn lagging_reads(c: &mut Criterion) {
    let mut group = c.benchmark_group("staleness, 5 clients a key, nodes cut off for seconds");
    group.sample_size(10);
    for (name, keys, calls, values) in [
        ("27 keys, 60 calls each, unique values", 27, 60, None),
        ("27 keys, 300 calls each, unique values", 27, 300, None),
        ("1000 calls, 5 values", 1, 1_000, Some(5)),
        ("3000 calls, 5 values", 1, 3_000, Some(5)),
        ("3000 calls, 50 values", 1, 3_000, Some(50)),
    ] {
        let history = lagging(keys, calls, values, 42);
        group.bench_function(name, |b| {
            b.iter(|| {
                let analysis = Staleness::default().check(black_box(&history), &budget(2));
                let bound_ns = analysis.details["bound_ns"].as_u64();
                assert_eq!(analysis.verdict, Verdict::Valid, "{analysis:?}");
                assert!(bound_ns > Some(0), "{analysis:?}");
            });
        });
    }
}

criterion_group!(benches, few_values, unique_values, lagging_reads);
criterion_main!(benches);
