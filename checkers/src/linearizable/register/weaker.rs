//! A register as those see it who make a violation small: all of its calls, and weaker forms of them.

use super::{Compact, F, RegisterCall};
use crate::linearizable::automaton::{Automaton, Entry, Likeness, REFUSED, Traits, Weaken};
use crate::linearizable::dfs::{Limits, Searched, search};

/// A register's calls as an automaton that can be weakened: a kind is the index of a call, or that
/// and the number of calls for what the call does without its comparison.
pub(crate) struct RegisterKinds<'c> {
    calls: &'c [RegisterCall],
    /// The state that stands for any; those below are values.
    anything: u32,
    start: u32,
}

impl<'c> RegisterKinds<'c> {
    /// Of all calls, and these as entries.
    pub(crate) fn of(register: &'c Compact) -> (Self, Vec<Entry>) {
        let Compact { calls, values } = register;
        let entry =
            |(call, kind): (&RegisterCall, u32)| Entry { kind, inv: call.inv, ret: call.ret };
        let entries = calls.iter().zip(0..).map(entry).collect();
        (Self { calls, anything: *values, start: 0 }, entries)
    }

    fn call(&self, kind: u32) -> RegisterCall {
        let kind = kind as usize;
        self.calls.get(kind).copied().unwrap_or_else(|| {
            let cas = self.calls[kind - self.calls.len()];
            RegisterCall { f: F::Write, a: cas.b, b: 0, ..cas }
        })
    }
}

impl Automaton for RegisterKinds<'_> {
    fn start(&self) -> u32 {
        self.start
    }

    fn step(&mut self, state: u32, kind: u32) -> u32 {
        let RegisterCall { f, a, b, .. } = self.call(kind);
        let fits = a == state || state == self.anything;
        match f {
            F::Write => a,
            F::Read if fits => a,
            F::Cas if fits => b,
            F::Miss if a != state => state,
            F::Read | F::Cas | F::Miss => REFUSED,
        }
    }

    fn traits(&self, kind: u32) -> Traits {
        let call = self.call(kind);
        Traits {
            pure: call.product().is_none(),
            requires: call.observed(),
            leads_to: call.product(),
            further: false,
            exact: call.f != F::Miss,
        }
    }

    fn likeness(&self, kind: u32) -> Likeness {
        let call = self.call(kind);
        (call.f as u8, call.a, call.b)
    }

    fn known_states(&self) -> usize {
        self.anything as usize + 1
    }
}

impl Weaken for RegisterKinds<'_> {
    fn search(&mut self, entries: &[Entry], limits: Limits<'_>) -> Searched {
        search(self, entries, limits)
    }

    fn begin_in(&mut self, state: u32) {
        self.start = state;
    }

    fn init(&self) -> u32 {
        0
    }

    fn anything(&self) -> Option<u32> {
        Some(self.anything)
    }

    fn relaxed(&self, kind: u32) -> Option<u32> {
        (self.call(kind).f == F::Cas).then_some(kind + self.calls.len() as u32)
    }

    fn dispensable(&self, kind: u32, kept: &[u32]) -> bool {
        let observes = |value: u32| {
            kept.iter().map(|&other| self.call(other)).any(|call| match call.f {
                F::Miss => call.a != value,
                _ => call.observed() == Some(value),
            })
        };
        !self.call(kind).product().is_some_and(observes)
    }
}
