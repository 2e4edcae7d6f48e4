//! `fenced-register` and `external-calls`: writes that a leader passes on to something that is not
//! replicated.
//!
//! Clients send writes to whoever leads; the leader writes them to the resource under its token.
//! What the resource accepted, and in which order, is in its own log, which is collected as a second
//! history. What clients were told is compared with it.

use deposed_checkers::{Checker, Claims, Fencing};
use deposed_core::generator::{Generator, from_fn};
use deposed_core::{Invocation, OpSet};
use deposed_history::Value;
use deposed_history::fencing::FencedWrite;
use rand::RngExt;

use crate::last_reads::LastReads;
use crate::{Generators, Workload, WorkloadOptions};

/// Of ten operations on a resource that can be read, so many are reads.
const READS_OF_TEN: u32 = 2;

/// One of the two workloads.
#[derive(Debug, Clone, Copy)]
pub struct FencedRegister {
    name: &'static str,
    about: &'static str,
    resource: &'static str,
    readable: bool,
}

impl FencedRegister {
    /// A shared volume, which may check tokens.
    pub const VOLUME: Self = Self {
        name: "fenced-register",
        about: "writes of the leader to a shared volume, compared with the volume's own log",
        resource: "volume",
        readable: true,
    };

    /// A service that accepts whatever comes.
    pub const EXTERNAL: Self = Self {
        name: "external-calls",
        about: "calls of the leader to a service that knows no tokens, compared with its log",
        resource: "external",
        readable: false,
    };
}

impl Workload for FencedRegister {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn requires(&self) -> OpSet {
        let reads = self.readable.then_some("read");
        reads.into_iter().chain(["fenced-write"]).map(str::to_owned).collect()
    }

    fn keyed(&self) -> bool {
        true
    }

    fn generators(&self, _options: &WorkloadOptions) -> Generators {
        let Self { resource, readable, .. } = *self;
        let mut written = 0_i64;
        let main = from_fn(move |_, rng| {
            if readable && rng.random_range(0..10) < READS_OF_TEN {
                return Some(Invocation::new("read", Value::pair(resource, Value::Nil)));
            }
            written += 1;
            let id = format!("w{written}");
            // The token is the leader's; the client knows of none.
            let write =
                FencedWrite { token: None, id: &id, value: written.into(), believed_valid: false };
            Some(Invocation::new("fenced-write", Value::pair(resource, write.to_value())))
        });
        let last = readable.then(|| LastReads::of(resource).boxed());
        Generators { main: main.boxed(), last }
    }

    fn checkers(&self, claims: &Claims) -> Vec<Box<dyn Checker>> {
        // Whatever the system does, a service that knows no tokens accepts old ones.
        let fencing = claims.fencing && self.readable;
        vec![Box::new(Fencing { claims: Claims { fencing, ..*claims } })]
    }
}
