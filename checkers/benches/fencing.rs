//! How long it takes to judge fencing. `cargo bench -p deposed-checkers --bench fencing`

use std::hint::black_box;
use std::thread::available_parallelism;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use deposed_checkers::{Budget, Checker, Fencing, Verdict};
use simulated::{Mistake, history};

#[path = "../src/fencing/tests/simulated.rs"]
mod simulated;

const EVENTS: usize = 1_000_000;

fn a_million_events(c: &mut Criterion) {
    let mut group = c.benchmark_group("fencing, 1M events");
    let all = available_parallelism().map_or(2, usize::from).max(2);
    group.sample_size(10);
    let cases = [
        ("right", Mistake::Nothing, Verdict::Valid),
        ("resources that look at no token", Mistake::ComparesNothing, Verdict::Invalid),
        ("tokens that restart", Mistake::TokensRestart, Verdict::Invalid),
    ];
    for (name, mistake, verdict) in cases {
        let history = history(EVENTS, mistake, 42);
        for threads in [1, all] {
            let budget = Budget::new(|| Duration::ZERO, Duration::MAX, u64::MAX, threads);
            group.bench_function(format!("{name}, {threads} threads"), |b| {
                b.iter(|| {
                    let analysis = Fencing::default().check(black_box(&history), &budget);
                    assert_eq!(analysis.verdict, verdict, "{}", analysis.summary);
                });
            });
        }
    }
}

criterion_group!(benches, a_million_events);
criterion_main!(benches);
