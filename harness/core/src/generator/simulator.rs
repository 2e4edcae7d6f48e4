//! Runs a generator with no cluster and no clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use deposed_history::{Op, OpType, Process, Value};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{Generator, Next, Thread, Threads, nanos, sooner};
use crate::Invocation;

/// What a simulated store answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// How long after the invocation.
    pub after: Duration,
    /// `Ok`, `Fail` or `Info`.
    pub kind: OpType,
    /// The completed value.
    pub value: Value,
}

/// How a simulation is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Simulation {
    /// How many threads.
    pub threads: usize,
    /// Of the generator's and the store's choices.
    pub seed: u64,
    /// No invocation after so many.
    pub ops_max: usize,
}

/// Runs a generator against a function that answers each operation, and returns what would have
/// been recorded. Ends when the generator is done, waits for something that can never happen, or
/// has made `ops_max` operations; those in flight are completed.
///
/// Completions are taken before the generator is asked, as by the run loop. Nothing takes time but
/// the replies, so the same arguments give the same events.
///
/// # Panics
/// If the generator uses a thread that is not free, or waits for a time that has passed.
pub fn simulate(
    generator: &mut dyn Generator,
    simulation: Simulation,
    mut store: impl FnMut(&Invocation, &mut ChaCha8Rng) -> Reply,
) -> Vec<Op> {
    let mut rng = ChaCha8Rng::seed_from_u64(simulation.seed);
    let mut threads = Threads::new(simulation.threads);
    let mut in_flight: BinaryHeap<Reverse<(u64, u64, Thread)>> = BinaryHeap::new();
    let mut replies: Vec<Option<Op>> = vec![None; simulation.threads];
    let mut history: Vec<Op> = Vec::new();
    let mut time = 0;
    let mut invoked = 0;
    loop {
        while let Some(&Reverse((at, _, thread))) = in_flight.peek()
            && at <= time
        {
            in_flight.pop();
            let op = replies[thread].take().expect("a busy thread has a reply");
            let op = Op { index: history.len() as u64, ..op };
            threads.end(thread, op.kind);
            generator.update(&threads.context(time), thread, &op);
            history.push(op);
        }
        let next = if invoked == simulation.ops_max {
            Next::Done
        } else if threads.context(time).free.is_empty() {
            Next::Pending { until: None }
        } else {
            generator.next(&threads.context(time), &mut rng)
        };
        let until = match next {
            Next::Op { op, thread } => {
                invoked += 1;
                threads.begin(thread);
                let process = Process::Client(threads.process(thread));
                let reply = store(&op, &mut rng);
                let event = |time, kind, value| Op {
                    index: history.len() as u64,
                    time,
                    ..Op::new(kind, process, &op.f, value)
                };
                let done = time.saturating_add(nanos(reply.after));
                replies[thread] = Some(event(done, reply.kind, reply.value));
                in_flight.push(Reverse((done, invoked as u64, thread)));
                let invocation = event(time, OpType::Invoke, op.value);
                generator.update(&threads.context(time), thread, &invocation);
                history.push(invocation);
                continue;
            }
            Next::Pending { until } => until,
            Next::Done => None,
        };
        let completion = in_flight.peek().map(|Reverse((at, ..))| *at);
        match sooner(until, completion) {
            Some(at) => {
                assert!(at > time, "the generator waits for {at}, which has passed");
                time = at;
            }
            None => return history,
        }
    }
}
