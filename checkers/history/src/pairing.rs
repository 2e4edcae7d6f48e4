//! Which completion belongs to which invocation.

use std::fmt;

use rustc_hash::FxHashMap;

use crate::columns::{Columns, EVENTS_MAX};
use crate::{OpType, Process};

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Outcome {
    /// It happened.
    Ok,
    /// It did not happen.
    Fail,
    /// It may have happened, or may still: an `info`, or no completion at all.
    Info,
}

/// An invocation and its completion, in two words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Position of the invocation.
    pub invoke: u32,
    /// Position of the completion and how it ended: [`EVENTS_MAX`] leaves room for both.
    end: u32,
}

impl Call {
    const OUTCOME_BITS: u32 = 2;

    /// Stands for the position of the completion of a call that has none.
    const NEVER: u32 = EVENTS_MAX as u32;

    const fn new(invoke: u32, complete: u32, outcome: Outcome) -> Self {
        Self { invoke, end: complete << Self::OUTCOME_BITS | outcome as u32 }
    }

    /// A call without a completion.
    pub const fn open(invoke: u32) -> Self {
        Self::new(invoke, Self::NEVER, Outcome::Info)
    }

    /// A call that was completed.
    ///
    /// # Panics
    /// If the position of the completion is 2^30 - 1 or above.
    pub const fn completed(invoke: u32, complete: u32, outcome: Outcome) -> Self {
        const { assert!(Self::NEVER == u32::MAX >> Self::OUTCOME_BITS) };
        assert!(complete < Self::NEVER, "fewer than 2^30 events");
        Self::new(invoke, complete, outcome)
    }

    /// Position of the completion, if it has one.
    #[inline]
    pub const fn complete(self) -> Option<u32> {
        match self.end >> Self::OUTCOME_BITS {
            Self::NEVER => None,
            position => Some(position),
        }
    }

    /// How it ended.
    #[inline]
    pub const fn outcome(self) -> Outcome {
        match self.end & ((1 << Self::OUTCOME_BITS) - 1) {
            0 => Outcome::Ok,
            1 => Outcome::Fail,
            _ => Outcome::Info,
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("invoke", &self.invoke)
            .field("complete", &self.complete())
            .field("outcome", &self.outcome())
            .finish()
    }
}

/// A number for each client: in a table if the client's own number is small, as most are.
#[derive(Debug, Default)]
pub(crate) struct PerClient {
    near: Vec<u32>,
    far: FxHashMap<u32, u32>,
}

impl PerClient {
    const NEAR: u32 = 1 << 16;
    const NONE: u32 = u32::MAX;

    /// Takes the client's number away.
    pub(crate) fn take(&mut self, client: u32) -> Option<u32> {
        if client >= Self::NEAR {
            return self.far.remove(&client);
        }
        let slot = self.near.get_mut(client as usize)?;
        Some(std::mem::replace(slot, Self::NONE)).filter(|&n| n != Self::NONE)
    }

    /// Gives the client a number; says which it had.
    pub(crate) fn insert(&mut self, client: u32, number: u32) -> Option<u32> {
        if client >= Self::NEAR {
            return self.far.insert(client, number);
        }
        let at = client as usize;
        if at >= self.near.len() {
            self.near.resize(at + 1, Self::NONE);
        }
        Some(std::mem::replace(&mut self.near[at], number)).filter(|&n| n != Self::NONE)
    }
}

/// Pairs events as they come. One outstanding call a client: a completion belongs to the last invocation
/// of its client.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    calls: Vec<Call>,
    /// Of each client the call that is open, or [`LOST`].
    open: PerClient,
    /// How many events were paired.
    done: usize,
    disorderly: bool,
}

/// Stands for a client whose last operation ended in an info. It is the number of no call that has a
/// completion.
const LOST: u32 = u32::MAX - 1;

impl Pairing {
    /// Goes on with the events that columns have more than they had.
    pub(crate) fn go_on(&mut self, columns: &Columns) {
        for position in self.done..columns.len() {
            let Process::Client(client) = columns.process(position) else { continue };
            let outcome = match columns.kind(position) {
                OpType::Invoke => {
                    let before = self.open.insert(client, self.calls.len() as u32);
                    self.disorderly |= before.is_some();
                    let invoke = position as u32;
                    self.calls.push(Call::open(invoke));
                    continue;
                }
                OpType::Ok => Outcome::Ok,
                OpType::Fail => Outcome::Fail,
                OpType::Info => Outcome::Info,
            };
            match self.open.take(client).filter(|&call| call != LOST) {
                Some(call) => {
                    let call = &mut self.calls[call as usize];
                    self.disorderly |= columns.f(call.invoke as usize) != columns.f(position);
                    *call = Call::completed(call.invoke, position as u32, outcome);
                }
                None => self.disorderly = true,
            }
            if outcome == Outcome::Info {
                self.open.insert(client, LOST);
            }
        }
        self.done = columns.len();
    }

    /// Whether every client did one thing at a time, completed what it had invoked, and was not heard of
    /// again after an info.
    pub(crate) const fn is_orderly(&self) -> bool {
        !self.disorderly
    }

    /// The calls, in the order of their invocations.
    pub(crate) fn into_calls(mut self) -> Vec<Call> {
        self.calls.shrink_to_fit();
        self.calls
    }
}
