//! What an object is supposed to do: the sequential specification that histories are held against.

use std::fmt::Debug;
use std::hash::Hash;

use deposed_history::{Call, History, OpRef, Outcome, PRECONDITION, Value, ValueRef, Word};

/// A sequential object: which operations it knows and what each does to its state.
///
/// Only the required methods are needed for correct answers. The others let the search skip work and
/// the witness shrink; each says what it promises, and a wrong promise makes wrong verdicts.
pub trait Model: Send + Sync {
    /// What the object remembers.
    type State: Clone + Eq + Hash + Debug + Send + Sync;
    /// One operation with its argument and, if it is known, its result.
    type Op: Clone + Eq + Hash + Debug + Send + Sync;

    /// Its name: `cas-register`.
    fn name(&self) -> &str;

    /// What a call asks of the model: `None` if it says nothing (an indeterminate read).
    ///
    /// Called for calls that happened, may have happened, or failed with
    /// [`PRECONDITION`]; other failed calls are dropped before.
    fn parse(&self, call: &CallView<'_>) -> Result<Option<Self::Op>, Malformed>;

    /// The state before anything happened.
    fn init(&self) -> Self::State;

    /// The state after `op`, or `None` if `op` cannot happen (with its result) in this state.
    fn step(&self, state: &Self::State, op: &Self::Op) -> Option<Self::State>;

    /// Bytes that a state owns beside itself, such as the elements of a vector, more or less: what
    /// the memory budget of a check counts.
    fn bytes_inside(&self, _state: &Self::State) -> usize {
        0
    }

    /// An operation as the end of a sentence: `read 5`, `wrote 3`.
    fn describe(&self, op: &Self::Op) -> String;

    /// A state as the end of a sentence: `the value is 5`.
    fn describe_state(&self, state: &Self::State) -> String {
        format!("the state is {state:?}")
    }

    /// Whether `op` never changes a state: it only looks. States that [`Model::anything`] leads to
    /// may become more certain by it.
    fn is_pure(&self, _op: &Self::Op) -> bool {
        false
    }

    /// The only state, besides [`Model::anything`], in which `op` can happen.
    fn requires(&self, _op: &Self::Op) -> Option<Self::State> {
        None
    }

    /// The states `op` can lead to.
    fn leads_to(&self, _op: &Self::Op) -> Leads<Self::State> {
        Leads::Anywhere
    }

    /// Whether `op` can never happen from `state` on, unless an operation that leads
    /// [to a certain state](Leads::To), or anywhere, comes first.
    fn rules_out(&self, _state: &Self::State, _op: &Self::Op) -> bool {
        false
    }

    /// Whether `op` depends on the state only through [`Model::requires`]: it can happen in that
    /// state alone or, without one, in every state; and it leads to one state or changes none.
    fn is_exact(&self, _op: &Self::Op) -> bool {
        false
    }

    /// What it is called when two operations that need a state and leave it both happened, although
    /// the object was in that state only once.
    fn fork_name(&self) -> Option<&'static str> {
        None
    }

    /// A state that stands for any state: wherever some state allows an operation, this one does,
    /// and what it leads to again stands for (at least) the outcome. With it a witness can leave out
    /// the beginning of a history.
    fn anything(&self) -> Option<Self::State> {
        None
    }

    /// An operation that can do what `op` does, and in more states: a cas without its comparison.
    fn relaxed(&self, _op: &Self::Op) -> Option<Self::Op> {
        None
    }

    /// Whether `op`, which may or may not have happened, can be left out: if some of the operations
    /// `kept`, together with any that can be left out, have a legal order, then they have one
    /// without those.
    fn dispensable(&self, _op: &Self::Op, _kept: &[&Self::Op]) -> bool {
        false
    }
}

/// Where an operation can lead: see [`Model::leads_to`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leads<State> {
    /// It changes nothing.
    Nowhere,
    /// Always to this state, if it can happen at all.
    To(State),
    /// If it changes a state, then to one from which no operation that says so leads back.
    Further,
    /// Nothing is promised.
    Anywhere,
}

/// A call that no operation of the model fits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The model has no such function.
    #[error("the model {model} has no operation {f} (it has {known})")]
    UnknownFunction {
        /// The model.
        model: String,
        /// The function that was called.
        f: String,
        /// Those it has.
        known: &'static str,
    },
    /// The value is not what the function takes or returns.
    #[error("{f} needs {expected}, not {found}")]
    Value {
        /// The function that was called.
        f: String,
        /// What it takes.
        expected: &'static str,
        /// What was found.
        found: String,
    },
}

/// One call on one object: what a [`Model`] parses.
#[derive(Debug, Clone, Copy)]
pub struct CallView<'h> {
    invoke: OpRef<'h>,
    complete: Option<OpRef<'h>>,
    outcome: Outcome,
    keyed: bool,
}

impl<'h> CallView<'h> {
    /// A call of a history; `keyed`: its values are `[key, value]` pairs.
    pub fn new(history: &'h History, call: Call, keyed: bool) -> Self {
        Self {
            invoke: history.op(call.invoke),
            complete: call.complete().map(|position| history.op(position)),
            outcome: call.outcome(),
            keyed,
        }
    }

    /// Which function.
    pub fn f(&self) -> &'h str {
        self.invoke.f()
    }

    /// How it ended.
    pub const fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The client process.
    pub fn process(&self) -> u32 {
        self.invoke.process().client().unwrap_or(u32::MAX)
    }

    /// Whether it failed because its comparison was evaluated and found false.
    pub fn is_precondition(&self) -> bool {
        self.outcome == Outcome::Fail
            && self.complete.is_some_and(|op| op.error().as_str() == Some(PRECONDITION))
    }

    /// The value without its key: the completion's if it carries one, else the invocation's.
    pub fn value(&self) -> ValueRef<'h> {
        match self.complete.map(|op| self.unkeyed(op.value())) {
            Some(value) if !value.is_nil() => value,
            _ => self.argument(),
        }
    }

    /// [`CallView::value`] as a word of `history`, which is the one that the call is of.
    pub(crate) fn word(&self, history: &History) -> Word {
        let unkeyed = |op: OpRef<'_>| match history.word_pair(op.word()) {
            Some((_, value)) if self.keyed => Some(value),
            _ if self.keyed => None,
            _ => Some(op.word()),
        };
        let result = self.complete.and_then(unkeyed).filter(|value| !value.is_nil());
        result.or_else(|| unkeyed(self.invoke)).unwrap_or(Word::NIL)
    }

    /// The invocation's value without its key.
    pub fn argument(&self) -> ValueRef<'h> {
        self.unkeyed(self.invoke.value())
    }

    /// The value, owned.
    pub fn owned(&self) -> Value {
        self.value().to_value()
    }

    /// The error that says that the model has no such function.
    pub fn unknown_function(&self, model: &str, known: &'static str) -> Malformed {
        Malformed::UnknownFunction { model: model.to_owned(), f: self.f().to_owned(), known }
    }

    /// The error that says that the value is not what the function needs.
    pub fn bad_value(&self, expected: &'static str) -> Malformed {
        let found = self.value().to_string();
        Malformed::Value { f: self.f().to_owned(), expected, found }
    }

    fn unkeyed(&self, value: ValueRef<'h>) -> ValueRef<'h> {
        if !self.keyed {
            return value;
        }
        match value {
            ValueRef::List(pair) if pair.len() == 2 => pair.get(1).unwrap_or(ValueRef::Nil),
            _ => ValueRef::Nil,
        }
    }
}
