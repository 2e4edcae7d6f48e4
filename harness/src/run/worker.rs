//! Performs the operations of one thread of the run, with one client at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use deposed_core::{Client, ClientError, ClientFactory, Invocation, Node, Thread};
use deposed_history::Value;
use tokio::runtime::Handle;
use tokio::sync::mpsc as orders;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::caught::caught;
use super::inbox::Message;
use super::{Clock, Stamp};

/// A worker whose last attempt to connect failed waits this long, from that attempt, before the
/// next, so that a closed loop does not fill the history with refused connections.
const CONNECT_SPACING: Duration = Duration::from_millis(100);

/// How long a client may take to close.
pub(super) const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// What an operation came to.
#[derive(Debug)]
pub(super) enum Reply {
    /// It was performed.
    Done(Result<Value, ClientError>),
    /// There was no client to perform it: it certainly did not happen.
    NoClient(String),
    /// The client panicked while performing it.
    Panicked(String),
}

/// The end of an operation.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) thread: Thread,
    /// The operation's.
    pub(super) ticket: u64,
    /// Taken just after the client returned.
    pub(super) at: Stamp,
    pub(super) reply: Reply,
}

/// An operation to perform.
#[derive(Debug)]
struct Order {
    ticket: u64,
    process: u32,
    op: Invocation,
}

/// Who decides whether an operation is performed: the worker, when it has a client, or the run
/// loop, when the deadline passes first. The winner is the one that moves it from `WAITING`.
#[derive(Debug, Default)]
struct Gate(AtomicU8);

impl Gate {
    const WAITING: u8 = 0;
    const PASSED: u8 = 1;
    const SHUT: u8 = 2;

    fn reset(&self) {
        self.0.store(Self::WAITING, Ordering::Release);
    }

    fn try_move(&self, to: u8) -> bool {
        self.0.compare_exchange(Self::WAITING, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// What all workers share.
pub(super) struct Workshop {
    pub(super) runtime: Handle,
    pub(super) clients: Arc<dyn ClientFactory>,
    pub(super) clock: Clock,
    pub(super) inbox: mpsc::Sender<Message>,
}

/// The run loop's hold on a worker.
#[derive(Debug)]
pub(super) struct Worker {
    orders: orders::Sender<Order>,
    gate: Arc<Gate>,
    task: JoinHandle<()>,
}

impl Worker {
    /// Starts a worker. It connects when it gets its first operation.
    pub(super) fn start(workshop: &Workshop, thread: Thread, node: Node) -> Self {
        let (orders, receiver) = orders::channel(1);
        let gate = Arc::new(Gate::default());
        let bench = Bench {
            thread,
            node,
            gate: Arc::clone(&gate),
            clients: Arc::clone(&workshop.clients),
            clock: workshop.clock,
            inbox: workshop.inbox.clone(),
            client: None,
            failed_at: None,
        };
        let task = workshop.runtime.spawn(bench.work(receiver));
        Self { orders, gate, task }
    }

    /// Gives it an operation. It has none.
    pub(super) fn dispatch(&self, ticket: u64, process: u32, op: Invocation) {
        self.gate.reset();
        // The worker ends only after this sender; a full queue would be a second operation.
        self.orders.try_send(Order { ticket, process, op }).expect("an idle worker takes an order");
    }

    /// Drops it with its client, in the middle of whatever it does. True if the operation it has
    /// was not and will never be given to the client.
    pub(super) fn abandon(self) -> bool {
        let untouched = self.gate.try_move(Gate::SHUT);
        self.task.abort();
        untouched
    }

    /// Lets it close its client and end.
    pub(super) fn dismiss(self) -> JoinHandle<()> {
        self.task
    }
}

/// The worker's own side.
struct Bench {
    thread: Thread,
    node: Node,
    gate: Arc<Gate>,
    clients: Arc<dyn ClientFactory>,
    clock: Clock,
    inbox: mpsc::Sender<Message>,
    client: Option<Box<dyn Client>>,
    failed_at: Option<Instant>,
}

impl Bench {
    async fn work(mut self, mut orders: orders::Receiver<Order>) {
        while let Some(order) = orders.recv().await {
            let Some(reply) = self.perform(&order).await else { return };
            let at = self.clock.stamp();
            let broken = match &reply {
                Reply::Done(Err(ClientError::Indefinite(_))) => self.client.take(),
                Reply::Panicked(_) => {
                    self.client = None;
                    None
                }
                Reply::Done(_) | Reply::NoClient(_) => None,
            };
            let completion = Completion { thread: self.thread, ticket: order.ticket, at, reply };
            if self.inbox.send(Message::Completed(completion)).is_err() {
                break; // The run is over.
            }
            if let Some(client) = broken {
                tokio::spawn(close(client));
            }
        }
        if let Some(client) = self.client {
            close(client).await;
        }
    }

    /// `None` if the run loop gave up on the operation before there was a client.
    async fn perform(&mut self, order: &Order) -> Option<Reply> {
        if let Err(reason) = self.connect(order.process).await {
            return Some(Reply::NoClient(reason));
        }
        let client = self.client.as_mut().expect("it is connected");
        if !self.gate.try_move(Gate::PASSED) {
            return None;
        }
        let result = caught(client.invoke(&order.op)).await;
        Some(result.map_or_else(Reply::Panicked, Reply::Done))
    }

    async fn connect(&mut self, process: u32) -> Result<(), String> {
        if self.client.is_none() {
            if let Some(failed_at) = self.failed_at {
                sleep_until(failed_at + CONNECT_SPACING).await;
            }
            self.failed_at = Some(Instant::now());
            let client = caught(self.clients.connect(&self.node, process)).await?;
            self.client = Some(client.map_err(|error| error.to_string())?);
            self.failed_at = None;
        }
        Ok(())
    }
}

async fn close(mut client: Box<dyn Client>) {
    // There is nobody to tell of a client that cannot be closed; dropping it is all that is left.
    let _ = timeout(CLOSE_LIMIT, caught(client.close())).await;
}
