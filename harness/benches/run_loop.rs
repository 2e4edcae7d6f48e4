//! How fast the run loop is by itself: a client that does nothing, 20 processes, a history file on
//! the disk. An operation is an invocation and a completion: two lines of the file.
//!
//! `cargo bench --bench run_loop` measures operations a second.
//! `cargo bench --bench run_loop -- --memory 300` runs at 20,000 operations a second for 300
//! seconds and prints, as it goes, how much memory the process has: it must not grow with the
//! number of operations.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a bench, not the product")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use criterion::{Criterion, Throughput};
use deposed::run::{Interrupt, Outcome, Recorder, RunEvent, RunSpec, run};
use deposed_core::generator::{from_fn, independent, mix};
use deposed_core::{Client, ClientError, ClientFactory, Generator, Invocation, Node};
use deposed_history::{Header, Value};
use rand::RngExt;
use tokio::runtime::Runtime;

const PROCESSES: usize = 20;
const OPS_PER_RUN: usize = 200_000;

struct Idle;

#[async_trait]
impl Client for Idle {
    async fn invoke(&mut self, op: &Invocation) -> Result<Value, ClientError> {
        Ok(op.value.clone())
    }
}

#[async_trait]
impl ClientFactory for Idle {
    async fn connect(&self, _node: &Node, _process: u32) -> Result<Box<dyn Client>, ClientError> {
        Ok(Box::new(Self))
    }
}

/// Reads and unique writes on many keys, two threads a key: what a register workload asks for.
fn register() -> impl Generator + 'static {
    independent(2, (0_i64..).map(Value::from), |_key| {
        let (read, write): (Arc<str>, Arc<str>) = ("read".into(), "write".into());
        let reads =
            from_fn(move |_, _| Some(Invocation { f: Arc::clone(&read), value: Value::Nil }));
        let writes = from_fn(move |_, rng| {
            Some(Invocation { f: Arc::clone(&write), value: rng.random_range(0..i64::MAX).into() })
        });
        mix(vec![(1, reads.boxed()), (1, writes.boxed())]).limit(200).boxed()
    })
}

fn spec(generator: Box<dyn Generator>, time_limit: Duration) -> RunSpec {
    let node = |n: u8| Node { name: format!("n{n}").into(), addr: [127, 0, 0, n].into() };
    RunSpec {
        generator,
        recovery: None,
        final_generator: None,
        clients: Arc::new(Idle),
        nodes: (1..=5).map(node).collect(),
        concurrency: PROCESSES,
        rate: None,
        op_deadline: RunSpec::OP_DEADLINE,
        time_limit,
        heal_limit: RunSpec::HEAL_LIMIT,
        final_limit: RunSpec::FINAL_LIMIT,
        seed: 1,
    }
}

fn perform(
    runtime: &Runtime,
    spec: RunSpec,
    sink: impl FnMut(RunEvent) + Send + 'static,
) -> Outcome {
    let folder = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let recorder = Recorder::create(folder.path(), Header::default()).unwrap();
    runtime.block_on(run(spec, Vec::new(), recorder, Box::new(sink), Interrupt::new()))
}

fn main() {
    let runtime = Runtime::new().unwrap();
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--memory") {
        let seconds = args.get(at + 1).and_then(|n| n.parse().ok()).expect("--memory SECONDS");
        return memory(&runtime, Duration::from_secs(seconds));
    }
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let mut group = criterion.benchmark_group("run loop");
    group.throughput(Throughput::Elements(OPS_PER_RUN as u64));
    group.bench_function("a client that does nothing, 20 processes", |bencher| {
        bencher.iter_custom(|runs| {
            let mut took = Duration::ZERO;
            for _ in 0..runs {
                let generator = register().limit(OPS_PER_RUN).boxed();
                let start = Instant::now();
                let outcome = perform(&runtime, spec(generator, Duration::from_secs(600)), drop);
                took += start.elapsed();
                assert_eq!(outcome.events, 2 * OPS_PER_RUN as u64);
            }
            took
        });
    });
    group.finish();
    criterion.final_summary();
}

/// Runs for a time and prints operations and resident memory every few seconds.
fn memory(runtime: &Runtime, time: Duration) {
    let mut ticks = 0;
    let sink = move |event| {
        let RunEvent::Progress(progress) = event else { return };
        if ticks % 10 == 0 {
            let ops: u64 = progress.total.values().map(|counts| counts.total()).sum();
            let seconds = progress.time / 1_000_000_000;
            eprintln!(
                "{seconds:>4} s {ops:>12} ops {:>9.0} a second {:>8} KiB resident",
                progress.rate,
                resident_kib()
            );
        }
        ticks += 1;
    };
    let spec = RunSpec { rate: Some(20_000.0), ..spec(register().boxed(), time) };
    let outcome = perform(runtime, spec, sink);
    eprintln!("{:?} {:?}", outcome.totals.counts(), outcome.totals.latency);
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
