//! How long a history takes from bytes to [`deposed_history::History`], validated and paired.
//! `cargo bench -p deposed-history`; `RAYON_NUM_THREADS=1` for one thread.

mod histories;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use deposed_history::{ReadOptions, jsonl, read};

const CALLS: u64 = 100_000;

fn reading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read");
    group.sample_size(20);
    for kind in histories::KINDS {
        let mut bytes = Vec::new();
        histories::write(&mut bytes, kind, CALLS).expect("a Vec takes it");
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(kind, |bencher| {
            bencher.iter(|| read(bytes.as_slice(), &ReadOptions::default()).expect("it is whole"));
        });
    }
    group.finish();
}

fn writing(criterion: &mut Criterion) {
    let mut bytes = Vec::new();
    histories::write(&mut bytes, "keyed-register", CALLS).expect("a Vec takes it");
    let loaded = read(bytes.as_slice(), &ReadOptions::default()).expect("it is whole");
    let ops: Vec<_> = loaded.history.ops().map(|op| op.to_op()).collect();
    let mut group = criterion.benchmark_group("write");
    group.throughput(Throughput::Elements(ops.len() as u64));
    group.bench_function("jsonl::write_op", |bencher| {
        let mut line = Vec::new();
        bencher.iter(|| {
            for op in &ops {
                line.clear();
                jsonl::write_op(&mut line, op);
            }
        });
    });
    group.finish();
}

criterion_group!(benches, reading, writing);
criterion_main!(benches);
