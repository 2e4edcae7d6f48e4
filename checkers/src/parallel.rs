//! Work on several threads, with results that do not depend on how many there are.

use std::panic::resume_unwind;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Does something with each item, on up to so many threads; the results are in order.
pub(crate) fn in_parallel<T: Send, R: Send>(
    threads: usize,
    items: Vec<T>,
    act: impl Fn(T) -> R + Send + Sync,
) -> Vec<R> {
    match pool(threads.min(items.len())) {
        Some(pool) => pool.install(|| items.into_par_iter().map(act).collect()),
        None => items.into_iter().map(act).collect(),
    }
}

/// Does two things, at the same time if there are two threads: the first on this one, whose memory is warm.
pub(crate) fn both<A: Send, B: Send>(
    threads: usize,
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    if threads < 2 {
        return (one(), other());
    }
    std::thread::scope(|scope| {
        let other = scope.spawn(other);
        let one = one();
        (one, other.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Threads to share work, if it can be shared.
fn pool(threads: usize) -> Option<ThreadPool> {
    (threads > 1).then(|| ThreadPoolBuilder::new().num_threads(threads).build().ok()).flatten()
}
