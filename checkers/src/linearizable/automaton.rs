//! What the searches see of a model: operations and states as numbers.

use super::NEVER;
use super::dfs::{Limits, Searched};

/// No state: the operation cannot happen.
pub(crate) const REFUSED: u32 = u32::MAX;

/// One call in a search. Searches take them in the order of their invocations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// What it does: a number that the automaton understands.
    pub(crate) kind: u32,
    /// Time of the invocation.
    pub(crate) inv: u32,
    /// Time of the return, [`NEVER`] if it may or may not have happened.
    pub(crate) ret: u32,
}

impl Entry {
    /// Whether nobody knows if it happened.
    pub(crate) const fn is_optional(&self) -> bool {
        self.ret == NEVER
    }
}

/// What a kind of operation promises to the search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits {
    /// It never changes a state, but for the one that stands for any.
    pub(crate) pure: bool,
    /// The only state that allows it.
    pub(crate) requires: Option<u32>,
    /// The only state it can lead to.
    pub(crate) leads_to: Option<u32>,
    /// No sequence of kinds that say so leads back to a state that one of them changed.
    pub(crate) further: bool,
    /// It depends on the state through `requires` alone and changes it through `leads_to` alone.
    pub(crate) exact: bool,
}

/// What an operation does, as far as two of them can do the same.
pub(crate) type Likeness = (u8, u32, u32);

/// A model over numbers. States and kinds are dense from 0.
pub(crate) trait Automaton {
    /// The state in the beginning.
    fn start(&self) -> u32;

    /// The state after an operation of `kind`, or [`REFUSED`].
    fn step(&mut self, state: u32, kind: u32) -> u32;

    /// What is promised of a kind.
    fn traits(&self, kind: u32) -> Traits;

    /// Whether a kind cannot happen after a state, unless one comes that leads to a certain state
    /// or anywhere.
    fn rules_out(&mut self, _state: u32, _kind: u32) -> bool {
        false
    }

    /// Equal for kinds that do the same in every state.
    fn likeness(&self, kind: u32) -> Likeness;

    /// Bytes that what was learnt during the search takes.
    fn bytes(&self) -> u64 {
        0
    }

    /// How many states [`Traits`] speak of; `step` may yield higher ones.
    fn known_states(&self) -> usize;
}

/// Searches are compiled once for all models but registers: asking through a pointer costs little
/// beside looking up a step.
impl Automaton for &mut dyn Automaton {
    fn start(&self) -> u32 {
        (**self).start()
    }

    fn step(&mut self, state: u32, kind: u32) -> u32 {
        (**self).step(state, kind)
    }

    fn traits(&self, kind: u32) -> Traits {
        (**self).traits(kind)
    }

    fn rules_out(&mut self, state: u32, kind: u32) -> bool {
        (**self).rules_out(state, kind)
    }

    fn likeness(&self, kind: u32) -> Likeness {
        (**self).likeness(kind)
    }

    fn bytes(&self) -> u64 {
        (**self).bytes()
    }

    fn known_states(&self) -> usize {
        (**self).known_states()
    }
}

/// An automaton whose operations can be weakened: what [minimising](super::minimise) and
/// [naming](super::naming) ask of it.
pub(crate) trait Weaken: Automaton {
    /// Searches for a legal order of entries, which are in the order of their invocations.
    fn search(&mut self, entries: &[Entry], limits: Limits<'_>) -> Searched;

    /// Begins in a state from now on.
    fn begin_in(&mut self, state: u32);

    /// The state before anything happened.
    fn init(&self) -> u32;

    /// The state that stands for any: see [`Model::anything`](super::model::Model::anything).
    fn anything(&self) -> Option<u32>;

    /// A kind that can do what `kind` does, and in more states.
    fn relaxed(&self, kind: u32) -> Option<u32>;

    /// Whether a kind that may or may not have happened can be left out: see
    /// [`Model::dispensable`](super::model::Model::dispensable).
    fn dispensable(&self, kind: u32, kept: &[u32]) -> bool;
}
