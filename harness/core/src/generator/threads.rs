//! Which threads are free and which process each of them runs.

use deposed_history::OpType;

use super::{Context, Thread};

/// The threads of a run, for whoever asks generators: the run loop or the simulator.
#[derive(Debug, Clone)]
pub struct Threads {
    all: Vec<Thread>,
    free: Vec<Thread>,
    processes: Vec<u32>,
}

impl Threads {
    /// So many threads, all free, running the processes of the same numbers.
    pub fn new(concurrency: usize) -> Self {
        let all: Vec<Thread> = (0..concurrency).collect();
        let processes = (0..u32::try_from(concurrency).expect("fewer than 2^32 threads")).collect();
        Self { free: all.clone(), all, processes }
    }

    /// What a generator may know of them at a time, in nanoseconds since the start of the run.
    pub fn context(&self, time: u64) -> Context<'_> {
        Context { time, free: &self.free, threads: &self.all, processes: &self.processes }
    }

    /// The process a thread runs.
    pub fn process(&self, thread: Thread) -> u32 {
        self.processes[thread]
    }

    /// Whether every thread is free.
    pub fn idle(&self) -> bool {
        self.free.len() == self.all.len()
    }

    /// How many are busy.
    pub fn busy(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// A free thread begins an operation.
    ///
    /// # Panics
    /// If it is not free: a generator broke its promise.
    pub fn begin(&mut self, thread: Thread) {
        match self.free.binary_search(&thread) {
            Ok(position) => drop(self.free.remove(position)),
            Err(_) => panic!("thread {thread} is not free"),
        }
    }

    /// A busy thread's operation has ended. After an `info` the process is never used again: the
    /// thread goes on as process + concurrency.
    ///
    /// # Panics
    /// If the thread is free.
    pub fn end(&mut self, thread: Thread, kind: OpType) {
        match self.free.binary_search(&thread) {
            Ok(_) => panic!("thread {thread} has nothing to end"),
            Err(position) => self.free.insert(position, thread),
        }
        if kind == OpType::Info {
            self.processes[thread] += self.all.len() as u32;
        }
    }
}
