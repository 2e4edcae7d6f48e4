//! Performs a run: asks generators, gives operations to workers, records what happens, lets fault
//! lanes do their worst, and always comes to an end.
//!
//! # One line of events
//!
//! One thread, the run loop, takes everything that happens in one order: completions first, then
//! the generator. An invocation is stamped, recorded and handed to the operating system before its
//! worker hears of it; a completion is stamped by its worker just after the client returned, and
//! recorded later. So the order of the file and the times in it can only make an operation's
//! interval too wide, and the times in the file never go backwards ([`Recorder::append`]).
//!
//! The loop has a thread of its own and needs nothing of the async runtime on which workers and
//! lanes run: a client that blocks cannot hold it up.
//!
//! # A run always ends
//!
//! [`RunSpec::time_limit`] bounds the main phase, the deadline of each operation bounds the wait
//! for those in flight, [`RunSpec::heal_limit`] bounds the lanes and the recovery,
//! [`RunSpec::final_limit`] the final operations. Code of others that panics ends an operation, a lane, or the phase, never the
//! run.

mod caught;
mod clock;
mod event;
mod inbox;
mod interpreter;
mod interrupt;
mod lanes;
mod recorder;
mod seal;
mod stats;
#[cfg(test)]
mod tests;
mod worker;

use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use deposed_core::{ClientFactory, Generator, Lane, Node};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use interpreter::Interpreter;
use lanes::Lanes;
use worker::{CLOSE_LIMIT, Workshop};

pub use clock::{Clock, Stamp};
pub use event::{EventSink, Phase, RunEvent};
pub use interrupt::{Interrupt, Urgency};
pub use lanes::{LaneEnd, LaneOutcome};
pub use recorder::{HISTORY, RecordError, Recorder};
pub use seal::{SEALED, SealError, seal};
pub use stats::{Counts, Latency, Progress, Totals};

/// Comes to an end when the system serves again, with an error if it never will.
pub type Recovery = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Everything that decides how a run is performed.
pub struct RunSpec {
    /// Operations of the main phase.
    pub generator: Box<dyn Generator>,
    /// Awaited when everything was healed, before the final operations.
    pub recovery: Option<Recovery>,
    /// Operations after everything was healed: final reads.
    pub final_generator: Option<Box<dyn Generator>>,
    /// Makes clients, one for each process.
    pub clients: Arc<dyn ClientFactory>,
    /// Whom they talk to: thread t to node t mod so many. At least one.
    pub nodes: Vec<Node>,
    /// How many operations may be in flight. At least one.
    pub concurrency: usize,
    /// Operations of the main phase a second, in total. `None`: each thread begins its next as
    /// soon as its last has ended.
    pub rate: Option<f64>,
    /// How long an operation may take before it counts as indeterminate.
    pub op_deadline: Duration,
    /// How long the main phase may take.
    pub time_limit: Duration,
    /// How long lanes may take to heal, and after that the system to recover.
    pub heal_limit: Duration,
    /// How long the final operations may take.
    pub final_limit: Duration,
    /// Of the generators' choices.
    pub seed: u64,
}

impl RunSpec {
    /// [`RunSpec::op_deadline`] unless somebody says otherwise.
    pub const OP_DEADLINE: Duration = Duration::from_secs(5);
    /// [`RunSpec::heal_limit`] unless somebody says otherwise.
    pub const HEAL_LIMIT: Duration = Duration::from_secs(60);
    /// [`RunSpec::final_limit`] unless somebody says otherwise.
    pub const FINAL_LIMIT: Duration = Duration::from_secs(30);
}

/// Why the main phase ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum Ended {
    /// The generator had nothing more to do.
    Exhausted,
    /// Its time was over.
    TimeLimit,
    /// Somebody cut it short.
    Interrupted,
    /// The history could not be recorded any further.
    NotRecorded {
        /// What went wrong and what to do about it.
        reason: String,
    },
    /// The generator panicked or broke its contract: a bug in a workload.
    GeneratorFailed {
        /// What it said.
        reason: String,
    },
}

/// Whether the system served again after everything was healed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "recovered", rename_all = "kebab-case")]
pub enum Recovered {
    /// Nobody asked, or the run was cut short before.
    Unknown,
    /// It did.
    Yes,
    /// It did not, within its limit.
    No {
        /// What was seen.
        reason: String,
    },
}

/// What became of the final operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finals {
    /// The workload has none.
    None,
    /// All were performed.
    Complete,
    /// They were begun and did not come to their end.
    CutShort,
    /// They were not begun, because the run was cut short.
    Skipped,
}

/// How a run went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Why the main phase ended.
    pub ended: Ended,
    /// Whether the system served again.
    pub recovered: Recovered,
    /// What became of the final operations.
    pub finals: Finals,
    /// How each lane ended.
    pub lanes: Vec<LaneOutcome>,
    /// If recording failed, at whatever time: why. What is there is sound, and is not all.
    pub record_error: Option<String>,
    /// How urgently it was interrupted, from 0 (not at all) to 2.
    pub interrupts: u8,
    /// Events recorded.
    pub events: u64,
    /// Counts and latencies.
    pub totals: Totals,
    /// Nanoseconds from the start of the run to its end.
    pub time: u64,
}

/// Performs a run, on the tokio runtime it is called on. Recording goes on until the lanes have
/// healed and the final operations have ended; then the history is on the disk, and [`seal`] may
/// compress it. If this is dropped before it is ready, operations are abandoned and the lanes heal.
///
/// # Panics
/// If there is no node or no thread, or on a bug of the run loop.
pub async fn run(
    spec: RunSpec,
    lanes: Vec<Box<dyn Lane>>,
    recorder: Recorder,
    sink: EventSink,
    interrupt: Interrupt,
) -> Outcome {
    let runtime = Handle::current();
    let (sender, inbox) = mpsc::channel();
    let lanes = Lanes::start(&runtime, lanes, &sender);
    let workshop = Workshop {
        runtime,
        clients: Arc::clone(&spec.clients),
        clock: recorder.clock(),
        inbox: sender,
    };
    let orphan = Orphan(Some(interrupt.clone()));
    let (tell, told) = oneshot::channel();
    let looping = std::thread::Builder::new().name("run-loop".into()).spawn(move || {
        let interpreter = Interpreter::new(spec, workshop, inbox, lanes, recorder, sink, interrupt);
        // The receiver is gone only if the caller was dropped: then nobody wants to know.
        let _ = tell.send(interpreter.run());
    });
    let looping = looping.expect("the system can start a thread");
    let Ok((outcome, workers)) = told.await else {
        match looping.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("the run loop sends its outcome before it ends"),
        }
    };
    orphan.released();
    let deadline = Instant::now() + CLOSE_LIMIT;
    for worker in workers {
        let task = worker.dismiss();
        let abort = task.abort_handle();
        if timeout_at(deadline, task).await.is_err() {
            abort.abort();
        }
    }
    outcome
}

/// Ends the run loop, in haste, if nobody waits for it any more.
struct Orphan(Option<Interrupt>);

impl Orphan {
    /// The run loop has ended by itself.
    fn released(mut self) {
        self.0 = None;
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        while let Some(interrupt) = &self.0
            && interrupt.urgency() < Urgency::HealOnly
        {
            interrupt.raise("the end of whoever waited for the run");
        }
    }
}
