//! Which completion belongs to which invocation.

use rustc_hash::FxHashMap;

use crate::columns::Columns;
use crate::{OpType, Process};

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It happened.
    Ok,
    /// It did not happen.
    Fail,
    /// It may have happened, or may still: an `info`, or no completion at all.
    Info,
}

/// An invocation and its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Position of the invocation.
    pub invoke: u32,
    /// Position of the completion, if it has one.
    pub complete: Option<u32>,
    /// How it ended.
    pub outcome: Outcome,
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
                    self.calls.push(Call { invoke, complete: None, outcome: Outcome::Info });
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
                    call.complete = Some(position as u32);
                    call.outcome = outcome;
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
