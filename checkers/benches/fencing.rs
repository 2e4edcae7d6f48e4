//! How long it takes to judge fencing. `cargo bench -p deposed-checkers --bench fencing`

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use deposed_checkers::{Budget, Checker, Fencing, Verdict};
use simulated::{Mistake, history};

#[path = "../src/fencing/tests/simulated.rs"]
mod simulated;

const EVENTS: usize = 1_000_000;

fn a_million_events(c: &mut Criterion) {
    let mut group = c.benchmark_group("fencing, 1M events");
    group.sample_size(10);
    let cases = [
        ("right", Mistake::Nothing, Verdict::Valid),
        ("resources that look at no token", Mistake::ComparesNothing, Verdict::Invalid),
        ("tokens that restart", Mistake::TokensRestart, Verdict::Invalid),
    ];
    for (name, mistake, verdict) in cases {
        let history = history(EVENTS, mistake, 42);
        group.bench_function(name, |b| {
            b.iter(|| {
                let analysis = Fencing::default().check(black_box(&history), &Budget::unlimited());
                assert_eq!(analysis.verdict, verdict, "{}", analysis.summary);
            });
        });
    }
}

criterion_group!(benches, a_million_events);
criterion_main!(benches);
