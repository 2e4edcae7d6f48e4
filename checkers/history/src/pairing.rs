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

/// One outstanding call a client: a completion belongs to the last invocation of its client.
pub(crate) fn pair(columns: &Columns) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::with_capacity(columns.len() / 2);
    let mut open = PerClient::default();
    for position in 0..columns.len() {
        let Process::Client(client) = columns.process(position) else { continue };
        let outcome = match columns.kind(position) {
            OpType::Invoke => {
                open.insert(client, calls.len() as u32);
                let invoke = position as u32;
                calls.push(Call { invoke, complete: None, outcome: Outcome::Info });
                continue;
            }
            OpType::Ok => Outcome::Ok,
            OpType::Fail => Outcome::Fail,
            OpType::Info => Outcome::Info,
        };
        if let Some(call) = open.take(client) {
            let call = &mut calls[call as usize];
            call.complete = Some(position as u32);
            call.outcome = outcome;
        }
    }
    calls
}
