//! The run loop: puts everything that happens into one order.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use deposed_core::generator::Threads;
use deposed_core::{
    ClientError, Generator, Invocation, NemesisEvent, Next, Node, NotRecorded, Thread,
};
use deposed_history::{Op, OpType, PRECONDITION, Process, Value};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::caught::{caught, caught_now};
use super::clock::nanos;
use super::inbox::Message;
use super::lanes::Lanes;
use super::stats::Stats;
use super::worker::{Completion, Reply, Worker, Workshop};
use super::{
    Clock, Ended, EventSink, Finals, Interrupt, Outcome, Phase, Recorder, Recovered, Recovery,
    RunEvent, RunSpec, Stamp, Urgency,
};

/// The longest wait before the loop looks at its interrupt.
const WAIT_NS_MAX: u64 = 100_000_000;

/// Time between two [`RunEvent::Progress`].
const PROGRESS_NS: u64 = 500_000_000;

/// A thread of the run, as the loop sees it.
struct Slot {
    node: Node,
    worker: Worker,
    in_flight: Option<InFlight>,
}

/// An operation that was recorded and has not ended.
struct InFlight {
    /// Unique in the run, so that a late completion of an abandoned worker is recognised.
    ticket: u64,
    op: Invocation,
    invoked_at: u64,
    deadline: u64,
}

/// What the generator had to say.
enum Answer {
    Wait(Option<u64>),
    Done,
}

/// The run loop.
pub(super) struct Interpreter {
    clock: Clock,
    workshop: Workshop,
    inbox: mpsc::Receiver<Message>,
    lanes: Lanes,
    recorder: Recorder,
    sink: EventSink,
    interrupt: Interrupt,
    stats: Stats,
    next_progress: u64,

    generator: Box<dyn Generator>,
    generator_failed: Option<String>,
    final_generator: Option<Box<dyn Generator>>,
    recovery: Option<Recovery>,
    recovered: Recovered,
    rng: ChaCha8Rng,
    threads: Threads,
    slots: Vec<Slot>,
    next_ticket: u64,
    op_deadline: Duration,
    /// No operation in flight has an earlier deadline.
    next_deadline: u64,
    /// Invocations taken by the recorder that wait to be dispatched until they are written.
    recorded: Vec<(Thread, Invocation)>,
    /// Likewise, events of lanes that wait to be answered.
    announced: Vec<NemesisEvent>,
    time_limit: u64,
    heal_limit: u64,
    final_limit: u64,
}

impl Interpreter {
    pub(super) fn new(
        spec: RunSpec,
        workshop: Workshop,
        inbox: mpsc::Receiver<Message>,
        lanes: Lanes,
        recorder: Recorder,
        sink: EventSink,
        interrupt: Interrupt,
    ) -> Self {
        assert!(spec.concurrency > 0, "a run needs a thread");
        assert!(!spec.nodes.is_empty(), "a run needs a node");
        let clock = recorder.clock();
        let now = clock.now();
        let slots = (0..spec.concurrency).map(|thread| {
            let node = spec.nodes[thread % spec.nodes.len()].clone();
            Slot { worker: Worker::start(&workshop, thread, node.clone()), node, in_flight: None }
        });
        Self {
            slots: slots.collect(),
            generator: match spec.rate {
                Some(rate) => spec.generator.stagger(rate).boxed(),
                None => spec.generator,
            },
            generator_failed: None,
            final_generator: spec.final_generator,
            recovery: spec.recovery,
            recovered: Recovered::Unknown,
            rng: ChaCha8Rng::seed_from_u64(spec.seed),
            threads: Threads::new(spec.concurrency),
            next_ticket: 0,
            op_deadline: spec.op_deadline,
            next_deadline: u64::MAX,
            recorded: Vec::new(),
            announced: Vec::new(),
            time_limit: nanos(spec.time_limit),
            heal_limit: nanos(spec.heal_limit),
            final_limit: nanos(spec.final_limit),
            stats: Stats::new(now),
            next_progress: now + PROGRESS_NS,
            clock,
            workshop,
            inbox,
            lanes,
            recorder,
            sink,
            interrupt,
        }
    }

    /// The whole run. Returns the workers too, to be dismissed.
    pub(super) fn run(mut self) -> (Outcome, Vec<Worker>) {
        self.enter(Phase::Main);
        let ended = self.ask_until(self.time_limit);
        self.enter(Phase::Heal);
        self.lanes.stop();
        self.settle();
        self.recover();
        let finals = self.finals();
        self.report_progress();
        let outcome = Outcome {
            ended,
            recovered: self.recovered,
            finals,
            lanes: self.lanes.outcomes(),
            record_error: self.recorder.finish().err().map(|error| error.to_string()),
            interrupts: self.interrupt.urgency() as u8,
            events: self.recorder.events(),
            totals: self.stats.totals(),
            time: self.clock.now(),
        };
        (self.sink)(RunEvent::Ended(outcome.clone()));
        (outcome, self.slots.into_iter().map(|slot| slot.worker).collect())
    }

    fn enter(&mut self, phase: Phase) {
        (self.sink)(RunEvent::Phase { time: self.clock.now(), phase });
    }

    /// Asks the generator until it is done and its operations have ended, or something else ends
    /// the phase: then operations may still be in flight.
    fn ask_until(&mut self, limit: u64) -> Ended {
        let end = self.clock.now().saturating_add(limit);
        loop {
            self.take_messages();
            self.expire();
            let ended = self.reason_to_end(end);
            let answer = if ended.is_none() { self.ask() } else { Answer::Wait(None) };
            if let Err(NotRecorded { reason }) = self.commit() {
                return Ended::NotRecorded { reason };
            }
            if let Some(ended) = ended {
                return ended;
            }
            match answer {
                Answer::Done if self.threads.idle() => return Ended::Exhausted,
                Answer::Done => self.wait(end),
                Answer::Wait(until) => self.wait(until.map_or(end, |until| until.min(end))),
            }
        }
    }

    fn reason_to_end(&self, end: u64) -> Option<Ended> {
        if let Some(reason) = self.generator_failed.clone() {
            return Some(Ended::GeneratorFailed { reason });
        }
        if self.interrupt.urgency() > Urgency::None {
            return Some(Ended::Interrupted);
        }
        (self.clock.now() >= end).then_some(Ended::TimeLimit)
    }

    /// Waits for the operations in flight and the lanes, each within its limit.
    fn settle(&mut self) {
        let end = self.clock.now().saturating_add(self.heal_limit);
        loop {
            self.drain_step();
            if self.lanes.ended() && self.threads.idle() {
                return;
            }
            if self.clock.now() >= end {
                let time = self.clock.now();
                for lane in self.lanes.abandon() {
                    (self.sink)(RunEvent::LaneEnded { time, lane: lane.lane, end: lane.end });
                }
            }
            self.wait(u64::MAX);
        }
    }

    /// Waits until the system serves again.
    fn recover(&mut self) {
        let Some(recovery) = self.recovery.take() else { return };
        let inbox = self.workshop.inbox.clone();
        let asking = self.workshop.runtime.spawn(async move {
            let _ = inbox.send(Message::Recovered(caught(recovery).await));
        });
        let end = self.clock.now().saturating_add(self.heal_limit);
        while self.recovered == Recovered::Unknown && self.interrupt.urgency() == Urgency::None {
            self.wait(end);
            self.drain_step();
            if self.clock.now() >= end && self.recovered == Recovered::Unknown {
                let limit = Duration::from_nanos(self.heal_limit);
                self.recovered = Recovered::No { reason: format!("not within {limit:?}") };
            }
        }
        asking.abort();
    }

    fn finals(&mut self) -> Finals {
        let Some(generator) = self.final_generator.take() else { return Finals::None };
        let cut_short = self.interrupt.urgency() > Urgency::None
            || self.generator_failed.is_some()
            || self.recorder.flush().is_err();
        if cut_short {
            return Finals::Skipped;
        }
        self.enter(Phase::Final);
        self.generator = generator;
        let ended = self.ask_until(self.final_limit);
        while !self.threads.idle() {
            self.drain_step();
            self.wait(u64::MAX);
        }
        // What the wait has brought in is still to be written.
        self.drain_step();
        if ended == Ended::Exhausted { Finals::Complete } else { Finals::CutShort }
    }

    /// Takes and records what has happened, with no new operations.
    fn drain_step(&mut self) {
        self.take_messages();
        if self.interrupt.urgency() == Urgency::HealOnly {
            self.give_up_where(|_| true, "before the run was interrupted");
        }
        self.expire();
        // A history that takes no more is reported at the end; waiting and healing go on.
        let _ = self.commit();
    }

    /// Waits for a message, until a time, a deadline, or the next look at the interrupt.
    fn wait(&mut self, until: u64) {
        let now = self.clock.now();
        if now >= self.next_progress {
            self.report_progress();
        }
        let until = until.min(self.next_deadline).min(self.next_progress).min(now + WAIT_NS_MAX);
        if until > now
            && let Ok(message) = self.inbox.recv_timeout(Duration::from_nanos(until - now))
        {
            self.take(message);
        }
    }

    fn report_progress(&mut self) {
        let now = self.clock.now();
        self.next_progress = now + PROGRESS_NS;
        let progress = self.stats.progress(now, self.threads.busy());
        (self.sink)(RunEvent::Progress(progress));
    }

    fn take_messages(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            self.take(message);
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Completed(completion) => self.completed(completion),
            Message::Nemesis(event) => self.announce(event),
            Message::Recovered(result) => {
                self.recovered = match result.and_then(|inner| inner) {
                    Ok(()) => Recovered::Yes,
                    Err(reason) => Recovered::No { reason },
                };
            }
            Message::LaneEnded { lane, result } => {
                let lane = self.lanes.end(lane, result);
                let time = self.clock.now();
                (self.sink)(RunEvent::LaneEnded { time, lane: lane.lane, end: lane.end });
            }
        }
    }

    /// Records an event of a lane; it is answered when it was written.
    fn announce(&mut self, event: NemesisEvent) {
        let Stamp { time, wall } = self.clock.stamp();
        let mut op = Op {
            time,
            wall: Some(wall),
            ..Op::new(event.kind, Process::Nemesis, &event.f, event.value.clone())
        };
        self.recorder.append(&mut op);
        (self.sink)(RunEvent::Fault { op });
        self.announced.push(event);
    }

    fn completed(&mut self, Completion { thread, ticket, at, reply }: Completion) {
        let current = &self.slots[thread].in_flight;
        if current.as_ref().is_none_or(|flight| flight.ticket != ticket) {
            return; // Of a worker that was abandoned: its operation has ended already.
        }
        let (kind, value, error) = match reply {
            Reply::Done(Ok(value)) => (OpType::Ok, Some(value), Value::Nil),
            Reply::Done(Err(ClientError::Definite(why))) => (OpType::Fail, None, why.into()),
            Reply::Done(Err(ClientError::Precondition)) => {
                (OpType::Fail, None, PRECONDITION.into())
            }
            Reply::Done(Err(ClientError::Indefinite(why))) => (OpType::Info, None, why.into()),
            Reply::NoClient(why) => (OpType::Fail, None, format!("no client: {why}").into()),
            Reply::Panicked(why) => (OpType::Info, None, format!("the client {why}").into()),
        };
        self.end(thread, at, kind, value, error);
    }

    /// Gives up on operations whose deadline has passed.
    fn expire(&mut self) {
        let now = self.clock.now();
        if now < self.next_deadline {
            return;
        }
        let limit = format!("within {:?}", self.op_deadline);
        self.give_up_where(|flight| flight.deadline <= now, &limit);
        let in_flight = self.slots.iter().filter_map(|slot| slot.in_flight.as_ref());
        self.next_deadline = in_flight.map(|flight| flight.deadline).min().unwrap_or(u64::MAX);
    }

    /// Gives up on operations for which `over` holds, and on their workers.
    fn give_up_where(&mut self, over: impl Fn(&InFlight) -> bool, limit: &str) {
        for thread in 0..self.slots.len() {
            let slot = &mut self.slots[thread];
            if !slot.in_flight.as_ref().is_some_and(&over) {
                continue;
            }
            let fresh = Worker::start(&self.workshop, thread, slot.node.clone());
            let untouched = std::mem::replace(&mut slot.worker, fresh).abandon();
            let (kind, error) = if untouched {
                (OpType::Fail, format!("no client: not connected and ready {limit}"))
            } else {
                (OpType::Info, format!("no answer {limit}"))
            };
            self.end(thread, self.clock.stamp(), kind, None, error.into());
        }
    }

    /// Records the completion of the operation in flight. Without a value of its own it has that
    /// of its invocation.
    fn end(&mut self, thread: Thread, at: Stamp, kind: OpType, value: Option<Value>, error: Value) {
        let slot = &mut self.slots[thread];
        let flight = slot.in_flight.take().expect("an operation that ends was in flight");
        let mut op = Op {
            index: 0,
            time: at.time,
            wall: Some(at.wall),
            kind,
            process: Process::Client(self.threads.process(thread)),
            f: flight.op.f,
            value: value.unwrap_or(flight.op.value),
            error,
            node: Some(Arc::clone(&slot.node.name)),
        };
        self.threads.end(thread, kind);
        self.recorder.append(&mut op);
        self.stats.completed(&op, op.time.saturating_sub(flight.invoked_at));
        self.tell(thread, &op);
    }

    /// Tells the generator of an event.
    fn tell(&mut self, thread: Thread, event: &Op) {
        if self.generator_failed.is_none() {
            let cx = self.threads.context(event.time);
            let told = caught_now(|| self.generator.update(&cx, thread, event));
            self.generator_failed = told.err();
        }
    }

    /// Lets the generator fill the free threads.
    fn ask(&mut self) -> Answer {
        let at = self.clock.stamp();
        loop {
            let cx = self.threads.context(at.time);
            if cx.free.is_empty() || self.generator_failed.is_some() {
                return Answer::Wait(None);
            }
            match caught_now(|| self.generator.next(&cx, &mut self.rng)) {
                Ok(Next::Op { op, thread }) if cx.free.binary_search(&thread).is_ok() => {
                    self.invoke(thread, at, op);
                }
                Ok(Next::Op { thread, .. }) => {
                    self.generator_failed = Some(format!("used thread {thread}, which is busy"));
                }
                Ok(Next::Pending { until }) => return Answer::Wait(until),
                Ok(Next::Done) => return Answer::Done,
                Err(panic) => self.generator_failed = Some(panic),
            }
        }
    }

    /// Records an invocation; it is dispatched when it was written.
    fn invoke(&mut self, thread: Thread, at: Stamp, invocation: Invocation) {
        self.threads.begin(thread);
        let mut op = Op {
            index: 0,
            time: at.time,
            wall: Some(at.wall),
            kind: OpType::Invoke,
            process: Process::Client(self.threads.process(thread)),
            f: invocation.f,
            value: invocation.value,
            error: Value::Nil,
            node: Some(Arc::clone(&self.slots[thread].node.name)),
        };
        self.recorder.append(&mut op);
        self.tell(thread, &op);
        let deadline = at.time.saturating_add(nanos(self.op_deadline));
        self.next_deadline = self.next_deadline.min(deadline);
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let Op { time: invoked_at, f, value, .. } = op;
        let op = Invocation { f, value };
        self.recorded.push((thread, op.clone()));
        self.slots[thread].in_flight = Some(InFlight { ticket, op, invoked_at, deadline });
    }

    /// Hands what was recorded to the operating system; then, and only then, lets it happen.
    fn commit(&mut self) -> Result<(), NotRecorded> {
        let written =
            self.recorder.flush().map_err(|error| NotRecorded { reason: error.to_string() });
        for event in self.announced.drain(..) {
            event.answer(written.clone());
        }
        for (thread, op) in self.recorded.drain(..) {
            let slot = &mut self.slots[thread];
            match &slot.in_flight {
                Some(flight) if written.is_ok() => {
                    slot.worker.dispatch(flight.ticket, self.threads.process(thread), op);
                }
                _ => {
                    // It was not dispatched and never will be.
                    slot.in_flight = None;
                    self.threads.end(thread, OpType::Fail);
                }
            }
        }
        written
    }
}
