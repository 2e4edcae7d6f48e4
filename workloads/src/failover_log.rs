//! `failover-log` and `lease-reads`: appends through whoever leads, and reads of the whole list.
//!
//! In `failover-log` lists are long and read rarely: what was acknowledged is compared with what
//! survives. In `lease-reads` they are short and read often, by every client from its own node: a
//! read that misses what was acknowledged before it began is stale. There some clients append and the
//! others only read, so that writes that wait for a deposed leader keep nobody from reading.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deposed_checkers::{Checker, Claims, Fencing};
use deposed_core::generator::{Generator, from_fn, independent, reserve};
use deposed_core::{Invocation, OpSet};
use deposed_history::Value;
use rand::RngExt;

use crate::last_reads::{LastReads, Numbered};
use crate::{Generators, Workload, WorkloadOptions};

/// One of the two workloads.
#[derive(Debug, Clone, Copy)]
pub struct FailoverLog {
    name: &'static str,
    about: &'static str,
    /// Operations on one list before the next is begun.
    ops_per_list: usize,
    /// Of a hundred operations of a client that appends, so many are reads.
    reads_of_hundred: u32,
    /// Of so many clients one appends, and the others read.
    clients_per_writer: usize,
}

impl FailoverLog {
    /// Long lists, read at the end.
    pub const DURABILITY: Self = Self {
        name: "failover-log",
        about: "appends through whoever leads; acknowledged ones compared with what survives",
        ops_per_list: 500,
        reads_of_hundred: 3,
        clients_per_writer: 1,
    };

    /// Short lists, read all the time.
    pub const READS: Self = Self {
        name: "lease-reads",
        about: "appends through the leader, reads from every node: how stale may they be?",
        ops_per_list: 60,
        reads_of_hundred: 0,
        clients_per_writer: 3,
    };
}

impl Workload for FailoverLog {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn requires(&self) -> OpSet {
        ["append", "read"].map(str::to_owned).into()
    }

    fn keyed(&self) -> bool {
        true
    }

    fn generators(&self, options: &WorkloadOptions) -> Generators {
        let Self { ops_per_list, reads_of_hundred, clients_per_writer, .. } = *self;
        let writers = options.concurrency.div_ceil(clients_per_writer);
        let lists = Numbered::new("log-");
        let appended = Arc::new(AtomicU64::new(0));
        // All threads share a list, so that clients of all nodes meet on it.
        let main = independent(options.concurrency.max(1), lists.fresh(), move |_list| {
            let appended = appended.clone();
            let ops = from_fn(move |_, rng| {
                if rng.random_range(0..100) < reads_of_hundred {
                    return Some(Invocation::new("read", Value::Nil));
                }
                let number = appended.fetch_add(1, Ordering::Relaxed);
                let id = ("id".into(), format!("a{number}").into());
                let value = ("value".into(), i64::try_from(number).unwrap_or(i64::MAX).into());
                Some(Invocation::new("append", Value::Map(vec![id, value])))
            });
            let reads = from_fn(|_, _| Some(Invocation::new("read", Value::Nil)));
            reserve(vec![(writers, ops.boxed())], reads.boxed()).limit(ops_per_list).boxed()
        });
        Generators { main: main.boxed(), last: Some(LastReads::of_all(lists).boxed()) }
    }

    fn checkers(&self, claims: &Claims) -> Vec<Box<dyn Checker>> {
        vec![Box::new(Fencing { claims: *claims })]
    }
}
