//! From a violation of the zones to the few calls that prove it, and the argument in steps.

use std::collections::BTreeMap;

use super::zone::{Values, Violation};
use super::{Compact, F, RegisterCall};
use crate::EdgeKind;

const NONE: u32 = u32::MAX;

/// The calls that cannot be ordered and why not. Numbers are indices into [`Compact::calls`].
#[derive(Debug)]
pub(crate) struct Proof {
    /// The anomaly's name.
    pub(crate) name: &'static str,
    /// The calls, in order of invocation, and whether the comparison of a cas does not matter.
    pub(crate) kept: Vec<(u32, bool)>,
    /// What is known of their order; together it is impossible.
    pub(crate) steps: Vec<Step>,
    /// Why it is impossible.
    pub(crate) conclusion: Conclusion,
}

/// `from` comes before `to`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) kind: EdgeKind,
}

/// How the argument ends. Values are those of the register.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Conclusion {
    /// Nobody can have written what the call saw.
    Unwritten { observer: u32, value: u32 },
    /// It was seen before its only writer began.
    Future { observer: u32, writer: u32 },
    /// Two calls changed the one value that was current only once.
    Fork { first: u32, second: u32, value: u32 },
    /// Each cas of a ring needs the value that another one wrote.
    Cycle,
    /// The second value came after the first, but had been seen before the call that saw the first.
    Backwards { earlier: u32, after: u32 },
    /// `value` was current before `other` and again after it, but was written only once.
    Again { call: u32, value: u32, other: u32 },
}

/// The proof of a violation that [`zone`](super::zone) found in `register`.
pub(crate) fn prove(register: &Compact, violation: &Violation) -> Option<Proof> {
    let mut values = Values::assign(register)?;
    values.link(register);
    let mut prover = Prover { register, values, kept: BTreeMap::new(), steps: Vec::new() };
    let (name, conclusion) = prover.argue(violation)?;
    prover.close();
    let Prover { kept, steps, .. } = prover;
    Some(Proof { name, kept: kept.into_iter().collect(), steps, conclusion })
}

struct Prover<'a> {
    register: &'a Compact,
    values: Values,
    /// Calls to keep; `true`: what a cas found does not matter.
    kept: BTreeMap<u32, bool>,
    steps: Vec<Step>,
}

/// A call of a chain, and how far down the chain its value stands.
#[derive(Debug, Clone, Copy)]
struct Member {
    call: u32,
    block: u32,
    inv: u32,
    ret: u32,
}

/// Stands for the initial value where a call is expected.
const INITIAL: Member = Member { call: NONE, block: 0, inv: 0, ret: 0 };

impl Prover<'_> {
    fn argue(&mut self, violation: &Violation) -> Option<(&'static str, Conclusion)> {
        Some(match *violation {
            Violation::Unwritten { observer } => {
                self.keep(observer);
                let value = self.call(observer).a;
                ("read-of-unwritten-value", Conclusion::Unwritten { observer, value })
            }
            Violation::Future { observer, writer } => {
                self.keep(observer);
                self.keep_writer(writer);
                self.step(observer, writer, EdgeKind::RealTime);
                self.step(writer, observer, EdgeKind::WriteRead);
                ("future-read", Conclusion::Future { observer, writer })
            }
            Violation::Fork { first, second } => {
                let value = self.call(first).a;
                self.keep(first);
                self.keep(second);
                let writer = self.values.writer(value);
                if writer != NONE {
                    self.keep_writer(writer);
                    self.step(writer, first, EdgeKind::WriteRead);
                    self.step(writer, second, EdgeKind::WriteRead);
                }
                self.step(first, second, EdgeKind::ReadWrite);
                self.step(second, first, EdgeKind::ReadWrite);
                ("lost-update", Conclusion::Fork { first, second, value })
            }
            Violation::Cycle { value } => {
                let mut at = value;
                loop {
                    let next = self.values.next(at);
                    let writer = self.values.writer(at);
                    if next == NONE {
                        return None;
                    }
                    let follower = self.values.writer(next);
                    self.keep(writer);
                    self.step(writer, follower, EdgeKind::WriteRead);
                    at = next;
                    if at == value {
                        break;
                    }
                }
                ("future-read", Conclusion::Cycle)
            }
            Violation::Backwards { earlier, later } => self.backwards(earlier, later),
            Violation::Overlap { one, other } => self.overlap(one, other)?,
        })
    }

    /// Two values of one chain, seen in the wrong order.
    fn backwards(&mut self, earlier: u32, later: u32) -> (&'static str, Conclusion) {
        let (value, after) = (self.value_of(earlier), self.value_of(later));
        self.keep(earlier);
        self.keep(later);
        let mut link = value;
        let first = self.values.writer(value);
        if first != NONE {
            self.keep_writer(first);
            if first != earlier {
                self.step(first, earlier, EdgeKind::WriteRead);
            }
        }
        let mut from = earlier;
        while link != after {
            link = self.values.next(link);
            if link == NONE {
                break;
            }
            let cas = self.values.writer(link);
            self.keep(cas);
            self.step(from, cas, EdgeKind::ReadWrite);
            from = cas;
        }
        if from != later {
            self.step(from, later, EdgeKind::WriteRead);
        }
        self.step(later, earlier, EdgeKind::RealTime);
        let name = if self.call(earlier).f == F::Read { "stale-read" } else { "future-read" };
        (name, Conclusion::Backwards { earlier, after })
    }

    /// Two chains, each of which would have to come wholly before the other (lemma Z4).
    fn overlap(&mut self, one: u32, other: u32) -> Option<(&'static str, Conclusion)> {
        let (ones, others) = (self.members(one), self.members(other));
        let ((a1, a2), (b1, b2), (a, b)) = match (between(&ones, &others), between(&others, &ones))
        {
            (Some(inner), _) => (around(&ones, inner, inner)?, (inner, inner), (one, other)),
            (None, Some(inner)) => (around(&others, inner, inner)?, (inner, inner), (other, one)),
            (None, None) => {
                let (b1, b2) = (latest(&others)?, soonest(&others)?);
                (around(&ones, b1, b2)?, (b1, b2), (one, other))
            }
        };
        self.keep_stretch(a, a1, a2);
        self.keep_stretch(b, b1, b2);
        if a1.call != NONE {
            self.step(a1.call, b1.call, EdgeKind::RealTime);
        }
        let replaced = self.block_writer(b, b1.block.min(b2.block));
        if replaced != NONE && replaced != b2.call {
            self.step(replaced, b2.call, EdgeKind::WriteRead);
        }
        if b1.call != b2.call && replaced != NONE && replaced != b1.call {
            self.step(replaced, b1.call, EdgeKind::WriteRead);
        }
        self.step(b2.call, a2.call, EdgeKind::RealTime);
        let target = if replaced == NONE { b2.call } else { replaced };
        self.step(a2.call, target, EdgeKind::ReadWrite);
        let name = match self.call(a2.call).f {
            F::Read => "stale-read",
            F::Cas => "lost-update",
            F::Write | F::Miss => "not-linearizable",
        };
        let (value, other) = (self.seen_by(a2.call), self.value_of(b2.call));
        Some((name, Conclusion::Again { call: a2.call, value, other }))
    }

    /// The calls of a chain, by the first value of it.
    fn members(&self, head: u32) -> Vec<Member> {
        let mut block_of = BTreeMap::new();
        let mut value = head;
        while value != NONE {
            block_of.insert(value, block_of.len() as u32);
            value = self.values.next(value);
        }
        let mut members = if head == 0 { vec![INITIAL] } else { Vec::new() };
        for (index, call) in self.register.calls.iter().enumerate() {
            let index = index as u32;
            if call.f == F::Miss || !self.values.counts(index, call) {
                continue;
            }
            if let Some(&block) = block_of.get(&self.value_of(index)) {
                members.push(Member { call: index, block, inv: call.inv, ret: call.ret });
            }
        }
        members
    }

    /// Keeps two calls of a chain and what ties their values together.
    fn keep_stretch(&mut self, head: u32, one: Member, other: Member) {
        for member in [one, other] {
            if member.call != NONE {
                self.keep(member.call);
            }
        }
        let (low, high) = (one.block.min(other.block), one.block.max(other.block));
        let first = self.block_writer(head, low);
        if first != NONE {
            self.keep_writer(first);
        }
        for block in low + 1..=high {
            let writer = self.block_writer(head, block);
            self.keep(writer);
        }
    }

    /// The writer of the value that stands `block` steps down a chain.
    fn block_writer(&self, head: u32, block: u32) -> u32 {
        let value = (0..block).fold(head, |value, _| self.values.next(value));
        self.values.writer(value)
    }

    /// The value to whose cluster a call belongs: what it left behind, or saw and left alone.
    fn value_of(&self, index: u32) -> u32 {
        let call = self.call(index);
        call.product().unwrap_or(call.a)
    }

    /// The value that a call saw, or else wrote.
    fn seen_by(&self, index: u32) -> u32 {
        self.call(index).a
    }

    fn call(&self, index: u32) -> &RegisterCall {
        &self.register.calls[index as usize]
    }

    fn keep(&mut self, index: u32) {
        self.kept.insert(index, false);
    }

    /// Keeps the writer of a value for the value's sake alone.
    fn keep_writer(&mut self, index: u32) {
        let relaxed = self.call(index).f == F::Cas;
        self.kept.entry(index).or_insert(relaxed);
    }

    fn step(&mut self, from: u32, to: u32, kind: EdgeKind) {
        self.steps.push(Step { from, to, kind });
    }

    /// Adds what the kept calls rest on: the writers of what they saw, and for calls that may not
    /// have happened the observers because of which they must have (lemma Z1).
    fn close(&mut self) {
        let witnesses = self.witnesses();
        let mut pending: Vec<u32> = self.kept.keys().copied().collect();
        while let Some(index) = pending.pop() {
            let call = *self.call(index);
            if let (false, Some(u)) = (self.kept[&index], call.observed()) {
                let writer = self.values.writer(u);
                if writer != NONE && !self.kept.contains_key(&writer) {
                    self.keep_writer(writer);
                    pending.push(writer);
                }
            }
            if let (true, Some(v)) = (call.is_optional(), call.product()) {
                let witness = witnesses[v as usize];
                if witness != NONE && self.kept.get(&witness) != Some(&false) {
                    self.keep(witness);
                    pending.push(witness);
                }
            }
        }
    }

    /// For each value an observer because of which its optional writer must have happened: one that
    /// happened, or that must have for the same reason.
    fn witnesses(&self) -> Vec<u32> {
        let mut witnesses = vec![NONE; self.register.values as usize];
        let mut pending = Vec::new();
        let mut note = |witness: u32, value: Option<u32>, pending: &mut Vec<u32>| {
            if let Some(value) = value
                && witnesses[value as usize] == NONE
            {
                witnesses[value as usize] = witness;
                pending.push(value);
            }
        };
        for (index, call) in (0..).zip(&self.register.calls) {
            if !call.is_optional() {
                note(index, call.observed(), &mut pending);
            }
        }
        while let Some(value) = pending.pop() {
            let writer = self.values.writer(value);
            if writer != NONE && self.call(writer).is_optional() {
                note(writer, self.call(writer).observed(), &mut pending);
            }
        }
        witnesses
    }
}

/// A call of `inner` that begins after some call of `outer` returned and returns before another one
/// of `outer` begins: the writer of its value, if that will do.
fn between(outer: &[Member], inner: &[Member]) -> Option<Member> {
    let first = outer.iter().map(|m| m.ret).min()?;
    let last = outer.iter().map(|m| m.inv).max()?;
    inner.iter().copied().find(|m| m.call != NONE && first < m.inv && m.ret < last)
}

fn latest(members: &[Member]) -> Option<Member> {
    members.iter().copied().filter(|m| m.call != NONE).max_by_key(|m| m.inv)
}

fn soonest(members: &[Member]) -> Option<Member> {
    members.iter().copied().filter(|m| m.call != NONE).min_by_key(|m| m.ret)
}

/// A call that returned before `begin` was invoked and one invoked after `end` returned, as near to
/// each other in the chain as there are.
fn around(members: &[Member], begin: Member, end: Member) -> Option<(Member, Member)> {
    let mut before: Vec<Member> = members.iter().copied().filter(|m| m.ret < begin.inv).collect();
    let after = members.iter().filter(|m| m.call != NONE && m.inv > end.ret);
    // In order of blocks, the first member of a block (its writer, or the initial value) first.
    before.sort_by_key(|m| m.block);
    after
        .filter_map(|&a| {
            let at = before.partition_point(|m| m.block < a.block);
            let near =
                [at.checked_sub(1).map(|i| before[i].block), before.get(at).map(|m| m.block)];
            near.into_iter()
                .flatten()
                .map(|block| before[before.partition_point(|m| m.block < block)])
                .map(|b| (b, a))
                .min_by_key(|(b, a)| b.block.abs_diff(a.block))
        })
        .min_by_key(|(b, a)| (b.block.abs_diff(a.block), a.inv))
}
