//! Any model as an automaton: its operations and states are numbered as they are met, and every
//! step is asked of the model once.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::automaton::{Automaton, Entry, Likeness, REFUSED, Traits, Weaken};
use super::dfs::{Limits, Searched, search};
use super::model::{Leads, Model};

/// A model with what has been learnt of it.
pub(crate) struct TableAutomaton<'m, M: Model> {
    model: &'m M,
    kinds: Numbering<M::Op>,
    traits: Vec<Traits>,
    states: Numbering<M::State>,
    /// Of each state and kind that was met.
    steps: FxHashMap<(u32, u32), u32>,
    /// What [`Model::rules_out`] said of a state and kind.
    ruled_out: FxHashMap<(u32, u32), bool>,
    start: u32,
    init: u32,
    /// Set together with `relaxed`.
    anything: Option<u32>,
    /// Of each kind, once [weaker ones](Self::with_weaker) are there.
    relaxed: Vec<Option<u32>>,
    known_states: usize,
    /// Bytes that all states own.
    inside: u64,
}

/// Things numbered from 0 in the order they were met.
struct Numbering<T> {
    by_number: Vec<T>,
    numbers: FxHashMap<T, u32>,
}

impl<T: Clone + Eq + Hash> Numbering<T> {
    fn new() -> Self {
        Self { by_number: Vec::new(), numbers: FxHashMap::default() }
    }

    fn number(&mut self, thing: &T) -> u32 {
        if let Some(&number) = self.numbers.get(thing) {
            return number;
        }
        let number = self.by_number.len() as u32;
        self.by_number.push(thing.clone());
        self.numbers.insert(thing.clone(), number);
        number
    }
}

impl<'m, M: Model> TableAutomaton<'m, M> {
    /// An automaton that begins where the model does.
    pub(crate) fn new(model: &'m M) -> Self {
        let mut states = Numbering::new();
        let init = states.number(&model.init());
        Self {
            model,
            kinds: Numbering::new(),
            traits: Vec::new(),
            states,
            steps: FxHashMap::default(),
            ruled_out: FxHashMap::default(),
            start: init,
            init,
            anything: None,
            relaxed: Vec::new(),
            known_states: 1,
            inside: 0,
        }
    }

    /// The same with weaker forms of all operations that are numbered.
    pub(crate) fn with_weaker(mut self) -> Self {
        self.anything = self.model.anything().map(|state| self.states.number(&state));
        let kinds = self.kinds.by_number.len();
        self.relaxed = (0..kinds)
            .map(|kind| {
                let relaxed = self.model.relaxed(&self.kinds.by_number[kind])?;
                Some(self.kind(&relaxed))
            })
            .collect();
        self.known_states = self.states.by_number.len();
        self
    }

    /// The number of an operation. All operations of a search must be numbered before it begins.
    pub(crate) fn kind(&mut self, op: &M::Op) -> u32 {
        let kind = self.kinds.number(op);
        if kind as usize == self.traits.len() {
            let requires = self.model.requires(op).map(|state| self.states.number(&state));
            let leads = self.model.leads_to(op);
            let leads_to = match &leads {
                Leads::To(state) => Some(self.states.number(state)),
                _ => None,
            };
            self.traits.push(Traits {
                pure: self.model.is_pure(op),
                requires,
                leads_to,
                further: leads == Leads::Further,
                exact: self.model.is_exact(op),
            });
            self.known_states = self.states.by_number.len();
        }
        kind
    }
}

impl<M: Model> Automaton for TableAutomaton<'_, M> {
    fn start(&self) -> u32 {
        self.start
    }

    fn step(&mut self, state: u32, kind: u32) -> u32 {
        if let Some(&next) = self.steps.get(&(state, kind)) {
            return next;
        }
        let op = &self.kinds.by_number[kind as usize];
        let next = match self.model.step(&self.states.by_number[state as usize], op) {
            Some(next) => {
                let known = self.states.by_number.len();
                let number = self.states.number(&next);
                if self.states.by_number.len() > known {
                    self.inside += self.model.bytes_inside(&next) as u64;
                }
                number
            }
            None => REFUSED,
        };
        self.steps.insert((state, kind), next);
        next
    }

    fn traits(&self, kind: u32) -> Traits {
        self.traits[kind as usize]
    }

    fn rules_out(&mut self, state: u32, kind: u32) -> bool {
        if let Some(&known) = self.ruled_out.get(&(state, kind)) {
            return known;
        }
        let state_of = &self.states.by_number[state as usize];
        let out = self.model.rules_out(state_of, &self.kinds.by_number[kind as usize]);
        self.ruled_out.insert((state, kind), out);
        out
    }

    fn likeness(&self, kind: u32) -> Likeness {
        (0, kind, 0)
    }

    fn bytes(&self) -> u64 {
        let step = size_of::<((u32, u32), u32)>() + 1;
        let steps = with_growth(self.steps.len(), self.steps.capacity(), step);
        let out = with_growth(self.ruled_out.len(), self.ruled_out.capacity(), step);
        // Every state is kept twice.
        let Numbering { by_number, numbers } = &self.states;
        let state = size_of::<M::State>();
        let list = with_growth(by_number.len(), by_number.capacity(), state);
        let number = size_of::<(M::State, u32)>() + 1;
        let known = with_growth(numbers.len(), numbers.capacity(), number);
        (steps + out + list + known) as u64 + 2 * self.inside
    }

    fn known_states(&self) -> usize {
        self.known_states
    }
}

impl<M: Model> Weaken for TableAutomaton<'_, M> {
    fn search(&mut self, entries: &[Entry], limits: Limits<'_>) -> Searched {
        let mut this: &mut dyn Automaton = self;
        search(&mut this, entries, limits)
    }

    fn begin_in(&mut self, state: u32) {
        self.start = state;
    }

    fn init(&self) -> u32 {
        self.init
    }

    fn anything(&self) -> Option<u32> {
        self.anything
    }

    fn relaxed(&self, kind: u32) -> Option<u32> {
        self.relaxed.get(kind as usize).copied().flatten()
    }

    fn dispensable(&self, kind: u32, kept: &[u32]) -> bool {
        let op = |kind: u32| &self.kinds.by_number[kind as usize];
        let kept: Vec<&M::Op> = kept.iter().map(|&kind| op(kind)).collect();
        self.model.dispensable(op(kind), &kept)
    }
}

/// Bytes of a table whose entries take so many each: of the next, twice as large, too if it will be
/// needed soon, because then both exist side by side.
const fn with_growth(len: usize, capacity: usize, entry: usize) -> usize {
    // Tables are seven eighths full at most.
    let bytes = capacity * entry / 7 * 8;
    if len + capacity / 16 < capacity { bytes } else { 3 * bytes }
}
