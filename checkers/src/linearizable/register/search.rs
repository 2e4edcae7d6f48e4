//! A register as the searches see it, without the calls that cannot matter.

use super::{Compact, F, RegisterCall};
use crate::linearizable::automaton::{Automaton, Entry, Likeness, REFUSED, Traits};
use crate::linearizable::planted::{Bug, planted};

/// A register's calls as an automaton: a kind is the index of a call.
#[derive(Debug, Clone)]
pub(crate) struct RegisterAutomaton {
    calls: Vec<RegisterCall>,
    values: u32,
}

/// Leaves out the optional calls that cannot make a difference (rule R5): those whose value no call
/// that happened can still see, directly or through other optional calls. As long as there are
/// failed cas that such a call could make true, it stays, but as one of many that are all alike.
pub(crate) fn searchable(register: &Compact) -> RegisterAutomaton {
    let n = register.values as usize;
    let mut seen_until = vec![0u32; n];
    let mut referenced = vec![false; n];
    let mut miss_until = 0;
    for call in &register.calls {
        match call.f {
            F::Miss => miss_until = miss_until.max(call.ret),
            F::Read | F::Cas if !call.is_optional() => {
                let until = &mut seen_until[call.a as usize];
                *until = (*until).max(call.ret);
            }
            _ => {}
        }
        if call.f != F::Write {
            referenced[call.a as usize] = true;
        }
    }
    let links: Vec<&RegisterCall> =
        register.calls.iter().filter(|call| call.is_optional() && call.f == F::Cas).collect();
    loop {
        let mut changed = false;
        for cas in &links {
            let until = seen_until[cas.b as usize];
            if until > cas.inv && seen_until[cas.a as usize] < until {
                seen_until[cas.a as usize] = until;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let other = register.values;
    let calls = register.calls.iter().filter_map(|call| {
        let mut call = *call;
        if call.is_optional() && planted(Bug::NothingOptional) {
            return None;
        }
        if let (true, Some(v)) = (call.is_optional(), call.product())
            && seen_until[v as usize] <= call.inv
        {
            if miss_until <= call.inv || planted(Bug::NoSeparators) {
                return None;
            }
            if !referenced[v as usize] {
                match call.f {
                    F::Cas => call.b = other,
                    _ => call.a = other,
                }
            }
        }
        Some(call)
    });
    RegisterAutomaton { calls: calls.collect(), values: register.values + 1 }
}

impl RegisterAutomaton {
    /// The calls left, in the order of their invocations.
    pub(crate) fn calls(&self) -> &[RegisterCall] {
        &self.calls
    }

    /// The calls left, as the searches take them.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let entry = |(kind, call): (usize, &RegisterCall)| Entry {
            kind: kind as u32,
            inv: call.inv,
            ret: call.ret,
        };
        self.calls.iter().enumerate().map(entry).collect()
    }
}

impl Automaton for RegisterAutomaton {
    fn start(&self) -> u32 {
        0
    }

    fn step(&mut self, state: u32, kind: u32) -> u32 {
        let call = &self.calls[kind as usize];
        match call.f {
            F::Read if call.a == state => state,
            F::Write => call.a,
            F::Cas if call.a == state => call.b,
            F::Miss if call.a != state => state,
            F::Read | F::Cas | F::Miss => REFUSED,
        }
    }

    fn traits(&self, kind: u32) -> Traits {
        let call = &self.calls[kind as usize];
        Traits {
            pure: matches!(call.f, F::Read | F::Miss),
            requires: call.observed(),
            leads_to: call.product(),
            further: false,
            exact: call.f != F::Miss,
        }
    }

    fn likeness(&self, kind: u32) -> Likeness {
        let call = &self.calls[kind as usize];
        (call.f as u8, call.a, call.b)
    }

    fn known_states(&self) -> usize {
        self.values as usize
    }
}
