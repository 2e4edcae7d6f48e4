//! Breadth-first search over the events of a register, with writes that cost nothing.
//!
//! Most writes are overwritten before anyone looks. So a write that has to return need not take
//! effect explicitly: since its invocation some other write took effect, just before which it can
//! have happened unseen, or the value was its own anyway. Such a write is *absorbed*. Only the
//! configurations of the current event are in memory, and of these only those that no other one
//! can do better than ([`Layer`]). The first event that no configuration gets past ends the
//! shortest prefix without a legal order.
//!
//! An illegal answer is confirmed by others before it is believed; a legal one needs no confirmation.

use super::search::RegisterAutomaton;
use super::{F, RegisterCall};
use crate::linearizable::NEVER;
use crate::linearizable::automaton::Automaton as _;
use crate::linearizable::dfs::{Found, GaveUp, Limits, Pace, Searched};
use crate::linearizable::mask::Mask;
use crate::linearizable::memory::Reservation;
use crate::linearizable::planted::{Bug, planted};
use crate::linearizable::timeline::{Event, Timeline};
use crate::linearizable::visited::{Head, Key, Lists, Visited};
use crate::{Budget, Exhausted};

/// Searches breadth first for a legal order.
pub(crate) fn frontier(register: &RegisterAutomaton, limits: Limits<'_>) -> Searched {
    let entries = register.entries();
    let timeline = match Timeline::new(&entries, |kind| register.likeness(kind), limits.budget) {
        Ok(timeline) => timeline,
        Err(exhausted) => {
            let found = Found::GaveUp { reached: 0, why: GaveUp::Budget(exhausted) };
            return Searched { found, nodes: 0 };
        }
    };
    match timeline.slots {
        0..=64 => Frontier::<1>::new(register, &timeline, limits).run(),
        65..=128 => Frontier::<2>::new(register, &timeline, limits).run(),
        129..=512 => Frontier::<8>::new(register, &timeline, limits).run(),
        slots => Searched {
            found: Found::GaveUp { reached: 0, why: GaveUp::TooManyOpen(slots) },
            nodes: 0,
        },
    }
}

/// What has been done so far, as far as it matters for what is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Configuration<const N: usize> {
    value: u32,
    /// Open calls that took effect: reads and failed cas that saw what they needed, cas, and
    /// writes whose value was current at some time.
    done: Mask<N>,
    /// Open writes that happened have a place where nobody would have noticed.
    absorbed: Mask<N>,
}

impl<const N: usize> Key for Configuration<N> {
    const FREE: Self = Self { value: NEVER, done: Mask::EMPTY, absorbed: Mask::EMPTY };

    #[inline]
    fn is_free(&self) -> bool {
        self.value == NEVER
    }

    #[inline]
    fn hash(&self) -> u64 {
        let absorbed = self.absorbed.hash_with(0, 0);
        self.done.hash_with(self.value, absorbed as u32)
    }
}

/// Classes of open calls, as sets of slots.
#[derive(Clone, Copy)]
struct Classes<const N: usize> {
    /// Cas that happened: done or not, that makes a difference.
    cas: Mask<N>,
    /// Reads and failed cas: the more are done, the better.
    looks: Mask<N>,
    /// Writes that happened.
    writes: Mask<N>,
}

/// Calls on each value that have not been invoked yet.
struct Future {
    /// Reads and cas that happened, and need the value.
    observers: Vec<u32>,
    /// Calls that lead to the value.
    writers: Vec<u32>,
    /// Optional cas from the value.
    optional_cas: Vec<u32>,
    /// Failed cas that expected the value.
    misses: Vec<u32>,
}

impl Future {
    fn new(register: &RegisterAutomaton) -> Self {
        let zeroes = || vec![0; register.known_states()];
        let mut future = Self {
            observers: zeroes(),
            writers: zeroes(),
            optional_cas: zeroes(),
            misses: zeroes(),
        };
        for call in register.calls() {
            future.count(call, 1);
        }
        future
    }

    fn count(&mut self, call: &RegisterCall, by: i32) {
        let add = |counts: &mut Vec<u32>, value: u32| {
            let count = &mut counts[value as usize];
            *count = count.wrapping_add_signed(by);
        };
        match call.f {
            F::Read => add(&mut self.observers, call.a),
            F::Miss => add(&mut self.misses, call.a),
            F::Write => add(&mut self.writers, call.a),
            F::Cas => {
                let from =
                    if call.is_optional() { &mut self.optional_cas } else { &mut self.observers };
                add(from, call.a);
                add(&mut self.writers, call.b);
            }
        }
    }
}

struct Frontier<'a, const N: usize> {
    calls: &'a [RegisterCall],
    timeline: &'a Timeline<'a>,
    budget: &'a Budget,
    pace: Pace<'a>,
    /// Open calls by the time of their return, optional ones last in the order of invocation.
    open: Vec<u32>,
    classes: Classes<N>,
    future: Future,
    layer: Vec<Configuration<N>>,
    nodes: u64,
    /// Of the layer.
    memory: Reservation<'a>,
}

impl<'a, const N: usize> Frontier<'a, N> {
    fn new(
        register: &'a RegisterAutomaton,
        timeline: &'a Timeline<'a>,
        limits: Limits<'a>,
    ) -> Self {
        let empty = Mask::EMPTY;
        Self {
            calls: register.calls(),
            timeline,
            budget: limits.budget,
            pace: Pace::new(limits),
            open: Vec::new(),
            classes: Classes { cas: empty, looks: empty, writes: empty },
            future: Future::new(register),
            layer: vec![Configuration { value: 0, done: empty, absorbed: empty }],
            nodes: 0,
            memory: Reservation::new(limits.budget),
        }
    }

    fn run(mut self) -> Searched {
        let mut found = Found::Legal;
        for &Event { entry, is_return } in &self.timeline.events {
            if !is_return {
                self.invoke(entry);
                continue;
            }
            let reached = self.calls[entry as usize].ret;
            if let Err(why) = self.finish(entry) {
                found = Found::GaveUp { reached, why };
                break;
            }
            if self.layer.is_empty() {
                found = Found::Illegal { reached };
                break;
            }
        }
        Searched { found, nodes: self.nodes }
    }

    fn call(&self, entry: u32) -> &'a RegisterCall {
        &self.calls[entry as usize]
    }

    fn slot(&self, entry: u32) -> u32 {
        self.timeline.slot[entry as usize]
    }

    fn invoke(&mut self, entry: u32) {
        let (call, slot) = (self.call(entry), self.slot(entry));
        self.future.count(call, -1);
        match call.f {
            F::Read | F::Miss => self.classes.looks.set(slot),
            F::Write if !call.is_optional() => self.classes.writes.set(slot),
            F::Cas if !call.is_optional() => self.classes.cas.set(slot),
            F::Write | F::Cas => {}
        }
        let at = self.open.partition_point(|other| self.call(*other).ret <= call.ret);
        self.open.insert(at, entry);
        for configuration in &mut self.layer {
            let same = configuration.value == call.a;
            match call.f {
                F::Read if same => configuration.done.set(slot),
                F::Miss if !same => configuration.done.set(slot),
                F::Write if same && !planted(Bug::NotAbsorbedAtOnce) => {
                    configuration.absorbed.set(slot);
                }
                F::Write if planted(Bug::AbsorbedForEver) => configuration.absorbed.set(slot),
                _ => {}
            }
        }
    }

    /// Lets a call return in every configuration.
    fn finish(&mut self, entry: u32) -> Result<(), GaveUp> {
        let slot = self.slot(entry);
        let mut classes = self.classes;
        classes.cas.clear(slot);
        classes.looks.clear(slot);
        classes.writes.clear(slot);
        if self.layer.iter().all(|configuration| configuration.done.has(slot)) {
            for configuration in &mut self.layer {
                configuration.done.clear(slot);
                configuration.absorbed.clear(slot);
            }
        } else {
            let layer = std::mem::take(&mut self.layer);
            let mut out = Layer::new(slot, classes, self.budget);
            let mut seen = Visited::new(self.budget);
            for configuration in &layer {
                self.continue_from(configuration, entry, &mut out, &mut seen)?;
            }
            drop(seen);
            self.layer = layer;
            self.layer.clear();
            self.memory.grow(&mut self.layer, out.len).map_err(GaveUp::Budget)?;
            out.pour_into(&mut self.layer);
        }
        self.classes = classes;
        self.open.retain(|other| *other != entry);
        Ok(())
    }

    /// Finds the ways in which `entry` can have happened before it returns.
    fn continue_from(
        &mut self,
        configuration: &Configuration<N>,
        entry: u32,
        out: &mut Layer<'_, N>,
        seen: &mut Visited<'_, Configuration<N>, ()>,
    ) -> Result<(), GaveUp> {
        let slot = self.slot(entry);
        let is_write = self.call(entry).f == F::Write;
        if configuration.done.has(slot) {
            return self.put(out, *configuration);
        }
        if is_write && configuration.absorbed.has(slot) {
            let needed = self.is_awaited(configuration, entry);
            // Otherwise whoever awaits it would wait in vain.
            if !needed || self.has_other_writer(configuration, self.call(entry).a, entry) {
                self.put(out, *configuration)?;
            }
            if !needed && !self.is_explicit_useful(configuration, entry) {
                return Ok(());
            }
        }
        let mut pending = vec![*configuration];
        while let Some(from) = pending.pop() {
            for at in 0..self.open.len() {
                if self.pace.work(self.open.len()) {
                    self.pace.look()?;
                }
                let Some(step) = self.step(&from, at, entry) else { continue };
                self.nodes += 1;
                self.pace.visit(self.nodes)?;
                let to = step.to;
                if to.done.has(slot) {
                    self.put(out, to)?;
                    continue;
                }
                if is_write && to.absorbed.has(slot) && !step.optional {
                    self.put(out, to)?;
                }
                if (!step.write || step.useful) && seen.entry(to).map_err(GaveUp::Budget)?.1 {
                    pending.push(to);
                }
            }
        }
        Ok(())
    }

    /// Puts a configuration into the next layer.
    fn put(&mut self, out: &mut Layer<'_, N>, new: Configuration<N>) -> Result<(), GaveUp> {
        let compared = out.insert(new).map_err(GaveUp::Budget)?;
        if self.pace.work(4 * compared) { self.pace.look() } else { Ok(()) }
    }

    /// Whether a call that happened needs the value of a write, which is not the current one.
    fn is_awaited(&self, configuration: &Configuration<N>, write: u32) -> bool {
        let value = self.call(write).a;
        configuration.value != value
            && (self.future.observers[value as usize] > 0
                || self.undone(configuration).any(|other| {
                    let call = self.call(other);
                    other != write && !call.is_optional() && call.observed() == Some(value)
                }))
    }

    fn has_other_writer(&self, configuration: &Configuration<N>, value: u32, except: u32) -> bool {
        self.future.writers[value as usize] > 0
            || self
                .undone(configuration)
                .any(|other| other != except && self.call(other).product() == Some(value))
    }

    /// Whether a write that could be absorbed, and that nobody awaits, may be of use as the current
    /// value all the same: to an optional cas, to let other writes be absorbed, or to a failed cas that
    /// could not be while the value is what it is, or what it may become before the write.
    fn is_explicit_useful(&self, configuration: &Configuration<N>, write: u32) -> bool {
        let value = self.call(write).a;
        if planted(Bug::ExplicitUseless) {
            return false;
        }
        let is_missed = |value: u32| self.future.misses[value as usize] > 0;
        configuration.value == value
            || self.future.optional_cas[value as usize] > 0
            || is_missed(configuration.value)
            || self.undone(configuration).filter(|other| *other != write).any(|other| {
                let call = self.call(other);
                if call.product().is_some_and(is_missed) && !planted(Bug::MissesOfTheMoment) {
                    return true;
                }
                match call.f {
                    F::Miss => true,
                    F::Cas => call.is_optional() && call.a == value,
                    F::Write => {
                        !call.is_optional() && !configuration.absorbed.has(self.slot(other))
                    }
                    F::Read => false,
                }
            })
    }

    /// Open calls that have not taken effect.
    fn undone<'s>(&'s self, configuration: &'s Configuration<N>) -> impl Iterator<Item = u32> + 's {
        self.open.iter().copied().filter(|open| !configuration.done.has(self.slot(*open)))
    }

    /// What follows when the open call at `at` takes effect now, unless that is pointless.
    fn step(&self, from: &Configuration<N>, at: usize, returning: u32) -> Option<Step<N>> {
        let entry = self.open[at];
        let (call, slot) = (self.call(entry), self.slot(entry));
        if from.done.has(slot) {
            return None;
        }
        let value = match call.f {
            F::Write => call.a,
            F::Cas if call.a == from.value => call.b,
            _ => return None,
        };
        let write = call.f == F::Write;
        if value == from.value {
            // It changes nothing, but other writes can hide behind it.
            let mut hiding = self.classes.writes.without(&from.done).without(&from.absorbed);
            hiding.clear(slot);
            let hides = !hiding.is_empty() && !planted(Bug::NothingHides);
            if call.is_optional() || entry != returning && !hides {
                return None;
            }
        }
        let twin = self.open[..at]
            .iter()
            .any(|other| self.timeline.same(*other, entry) && !from.done.has(self.slot(*other)));
        if twin || value != from.value && self.strands(from, entry) {
            return None;
        }
        let mut to = Configuration { value, ..*from };
        to.done.set(slot);
        if write {
            to.absorbed = to.absorbed.or(&self.classes.writes);
        }
        let mut useful = false;
        for &other in &self.open {
            let (that, slot) = (self.call(other), self.slot(other));
            if to.done.has(slot) {
                continue;
            }
            match that.f {
                F::Read if that.a == value => {
                    to.done.set(slot);
                    useful = true;
                }
                F::Miss if that.a != value => {
                    to.done.set(slot);
                    useful = true;
                }
                F::Cas if that.a == value => useful = true,
                F::Write if that.a == value && !that.is_optional() => to.absorbed.set(slot),
                _ => {}
            }
        }
        Some(Step { to, write, optional: write && call.is_optional(), useful })
    }

    /// Whether `entry` leaves the current value for good while a call that happened needs it.
    fn strands(&self, from: &Configuration<N>, entry: u32) -> bool {
        let value = from.value;
        let needed = self.future.observers[value as usize] > 0
            || self.undone(from).any(|other| {
                let call = self.call(other);
                other != entry && !call.is_optional() && call.observed() == Some(value)
            });
        needed && !self.has_other_writer(from, value, entry)
    }
}

/// A step from one configuration to another.
struct Step<const N: usize> {
    to: Configuration<N>,
    /// It was a write.
    write: bool,
    /// It was an optional write.
    optional: bool,
    /// Somebody saw the new value, or can change it by cas.
    useful: bool,
}

/// The configurations after a return, without those that another one is at least as good as.
struct Layer<'b, const N: usize> {
    /// The slot of the call that returned.
    slot: u32,
    classes: Classes<N>,
    /// Where the configurations of the same value and the same cas are in `heads`.
    groups: Visited<'b, Group<N>, u32>,
    /// Of each group, in the order in which they came up.
    heads: Vec<Head>,
    configurations: Lists<'b, Configuration<N>>,
    /// How many configurations there are.
    len: usize,
    /// Of the heads.
    memory: Reservation<'b>,
}

/// Configurations are compared with those of the same value and the same cas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group<const N: usize> {
    value: u32,
    cas: Mask<N>,
}

impl<const N: usize> Key for Group<N> {
    const FREE: Self = Self { value: NEVER, cas: Mask::EMPTY };

    #[inline]
    fn is_free(&self) -> bool {
        self.value == NEVER
    }

    #[inline]
    fn hash(&self) -> u64 {
        self.cas.hash_with(self.value, 0)
    }
}

impl<'b, const N: usize> Layer<'b, N> {
    const fn new(slot: u32, classes: Classes<N>, budget: &'b Budget) -> Self {
        Self {
            slot,
            classes,
            groups: Visited::new(budget),
            heads: Vec::new(),
            configurations: Lists::new(budget),
            len: 0,
            memory: Reservation::new(budget),
        }
    }

    /// Takes a configuration in, unless another one is as good. Says how many it was compared with.
    fn insert(&mut self, mut new: Configuration<N>) -> Result<usize, Exhausted> {
        new.done.clear(self.slot);
        new.absorbed = new.absorbed.and(&self.classes.writes);
        let group = Group { value: new.value, cas: new.done.and(&self.classes.cas) };
        let (at, is_new) = self.groups.entry(group)?;
        if is_new {
            *at = self.heads.len() as u32;
            self.memory.grow(&mut self.heads, 1)?;
            self.heads.push(Head::default());
        }
        let head = &mut self.heads[*at as usize];
        let classes = self.classes;
        let mut compared = 1;
        for old in self.configurations.iter(*head) {
            compared += 1;
            if is_as_good(old, &new, &classes) {
                return Ok(compared);
            }
        }
        let removed = self.configurations.retain(head, |old| !is_as_good(&new, old, &classes));
        self.configurations.push(head, new)?;
        self.len = self.len + 1 - removed;
        Ok(compared * 2)
    }

    /// Appends all configurations, which there must be room for.
    fn pour_into(self, layer: &mut Vec<Configuration<N>>) {
        for head in self.heads {
            layer.extend(self.configurations.iter(head));
        }
    }
}

/// Whether `one` can do whatever `other` can, when they agree in value and cas: it used no other
/// writes and optional calls, has seen at least as much, and has no write to do that `other` is
/// free of.
fn is_as_good<const N: usize>(
    one: &Configuration<N>,
    other: &Configuration<N>,
    classes: &Classes<N>,
) -> bool {
    let used = |c: &Configuration<N>| c.done.without(&classes.cas).without(&classes.looks);
    let owed = |c: &Configuration<N>| classes.writes.without(&c.done).without(&c.absorbed);
    used(one).within(&used(other))
        && (other.done.and(&classes.looks).within(&one.done) || planted(Bug::LooksForgotten))
        && (owed(one).within(&owed(other)) || planted(Bug::DebtsForgotten))
}
