//! Things that grow: sets, lists and counters.

use std::collections::BTreeMap;

use deposed_history::{Outcome, Value};

use crate::linearizable::model::{CallView, Leads, Malformed, Model};

/// A set: `add v`, `read` of all its elements. Initially empty.
#[derive(Debug, Clone, Copy)]
pub struct Set;

/// What a call on a set says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SetOp {
    /// This is an element from now on.
    Add(Value),
    /// These, in a fixed order, were the elements.
    Read(Vec<Value>),
}

/// The elements of a set, in a fixed order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SetState {
    elements: BTreeMap<String, Value>,
    /// Whether there are no others.
    whole: bool,
}

impl SetState {
    fn of(elements: &[Value]) -> Self {
        let elements = elements.iter().map(|v| (exactly(v), v.clone())).collect();
        Self { elements, whole: true }
    }
}

/// Bytes that an element takes.
fn inside(value: &Value) -> usize {
    let own = match value {
        Value::Str(text) | Value::Keyword(text) => text.len(),
        Value::List(items) => items.iter().map(inside).sum(),
        Value::Map(pairs) => pairs.iter().map(|(k, v)| inside(k) + inside(v)).sum(),
        _ => 0,
    };
    size_of::<Value>() + own
}

impl Model for Set {
    type State = SetState;
    type Op = SetOp;

    fn name(&self) -> &str {
        "set"
    }

    fn parse(&self, call: &CallView<'_>) -> Result<Option<SetOp>, Malformed> {
        match (call.f(), call.outcome()) {
            ("read", Outcome::Ok) => {
                let elements = SetState::of(&elements(call)?).elements;
                Ok(Some(SetOp::Read(elements.into_values().collect())))
            }
            ("read", _) | ("add", Outcome::Fail) => Ok(None),
            ("add", _) => Ok(Some(SetOp::Add(call.owned()))),
            _ => Err(call.unknown_function(self.name(), "add, read")),
        }
    }

    fn init(&self) -> SetState {
        SetState::of(&[])
    }

    fn step(&self, state: &SetState, op: &SetOp) -> Option<SetState> {
        match op {
            SetOp::Add(v) => {
                let mut state = state.clone();
                state.elements.insert(exactly(v), v.clone());
                Some(state)
            }
            SetOp::Read(elements) => {
                let read = SetState::of(elements);
                let fits = if state.whole {
                    read.elements == state.elements
                } else {
                    state.elements.keys().all(|known| read.elements.contains_key(known))
                };
                fits.then_some(read)
            }
        }
    }

    fn bytes_inside(&self, state: &SetState) -> usize {
        state.elements.iter().map(|(key, v)| key.len() + 2 * inside(v) + 48).sum()
    }

    fn describe(&self, op: &SetOp) -> String {
        match op {
            SetOp::Add(v) => format!("added {v}"),
            SetOp::Read(elements) => format!("read {{{}}}", joined(elements.iter())),
        }
    }

    fn describe_state(&self, state: &SetState) -> String {
        let elements = joined(state.elements.values());
        if state.whole {
            format!("the set is {{{elements}}}")
        } else {
            format!("the set has at least {{{elements}}}")
        }
    }

    fn is_pure(&self, op: &SetOp) -> bool {
        matches!(op, SetOp::Read(_))
    }

    fn requires(&self, op: &SetOp) -> Option<SetState> {
        match op {
            SetOp::Read(elements) => Some(SetState::of(elements)),
            SetOp::Add(_) => None,
        }
    }

    fn leads_to(&self, op: &SetOp) -> Leads<SetState> {
        if self.is_pure(op) { Leads::Nowhere } else { Leads::Further }
    }

    /// Elements stay.
    fn rules_out(&self, state: &SetState, op: &SetOp) -> bool {
        match op {
            SetOp::Read(elements) => {
                state.elements.len() > elements.len()
                    || !state.elements.values().all(|v| elements.contains(v))
            }
            SetOp::Add(_) => false,
        }
    }

    fn anything(&self) -> Option<SetState> {
        Some(SetState { elements: BTreeMap::new(), whole: false })
    }

    /// An element matters to reads that saw it.
    fn dispensable(&self, op: &SetOp, kept: &[&SetOp]) -> bool {
        match op {
            SetOp::Read(_) => true,
            SetOp::Add(v) => {
                !kept.iter().any(|k| matches!(k, SetOp::Read(seen) if seen.contains(v)))
            }
        }
    }
}

/// A list: `append v`, `read` of all of it. Initially empty.
#[derive(Debug, Clone, Copy)]
pub struct List;

/// What a call on a list says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListOp {
    /// This is the last element from now on.
    Append(Value),
    /// This was the list.
    Read(Vec<Value>),
}

/// A list, or what is known of its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListState {
    items: Vec<Value>,
    /// Whether `items` is all of it.
    whole: bool,
}

impl Model for List {
    type State = ListState;
    type Op = ListOp;

    fn name(&self) -> &str {
        "list"
    }

    fn parse(&self, call: &CallView<'_>) -> Result<Option<ListOp>, Malformed> {
        match (call.f(), call.outcome()) {
            ("read", Outcome::Ok) => Ok(Some(ListOp::Read(elements(call)?))),
            ("read", _) | ("append", Outcome::Fail) => Ok(None),
            ("append", _) => Ok(Some(ListOp::Append(call.owned()))),
            _ => Err(call.unknown_function(self.name(), "append, read")),
        }
    }

    fn init(&self) -> ListState {
        ListState { items: Vec::new(), whole: true }
    }

    fn step(&self, state: &ListState, op: &ListOp) -> Option<ListState> {
        match op {
            ListOp::Append(v) => {
                let mut state = state.clone();
                state.items.push(v.clone());
                Some(state)
            }
            ListOp::Read(items) => {
                let fits =
                    if state.whole { *items == state.items } else { items.ends_with(&state.items) };
                fits.then(|| ListState { items: items.clone(), whole: true })
            }
        }
    }

    fn bytes_inside(&self, state: &ListState) -> usize {
        state.items.iter().map(inside).sum()
    }

    fn describe(&self, op: &ListOp) -> String {
        match op {
            ListOp::Append(v) => format!("appended {v}"),
            ListOp::Read(items) => format!("read [{}]", joined(items.iter())),
        }
    }

    fn describe_state(&self, state: &ListState) -> String {
        let items = joined(state.items.iter());
        match (state.items.is_empty(), state.whole) {
            (true, false) => "the list could be anything".into(),
            (_, true) => format!("the list is [{items}]"),
            (_, false) => format!("the list ends with [{items}]"),
        }
    }

    fn is_pure(&self, op: &ListOp) -> bool {
        matches!(op, ListOp::Read(_))
    }

    fn requires(&self, op: &ListOp) -> Option<ListState> {
        match op {
            ListOp::Read(items) => Some(ListState { items: items.clone(), whole: true }),
            ListOp::Append(_) => None,
        }
    }

    fn leads_to(&self, op: &ListOp) -> Leads<ListState> {
        if self.is_pure(op) { Leads::Nowhere } else { Leads::Further }
    }

    /// Elements stay where they are.
    fn rules_out(&self, state: &ListState, op: &ListOp) -> bool {
        match op {
            ListOp::Read(items) if state.whole => !items.starts_with(&state.items),
            ListOp::Read(items) => {
                let known = &state.items;
                !known.is_empty() && !items.windows(known.len()).any(|some| some == known)
            }
            ListOp::Append(_) => false,
        }
    }

    fn anything(&self) -> Option<ListState> {
        Some(ListState { items: Vec::new(), whole: false })
    }

    /// An element matters to reads that saw it.
    fn dispensable(&self, op: &ListOp, kept: &[&ListOp]) -> bool {
        match op {
            ListOp::Read(_) => true,
            ListOp::Append(v) => {
                !kept.iter().any(|k| matches!(k, ListOp::Read(seen) if seen.contains(v)))
            }
        }
    }
}

/// A number: `add n` (n may be negative), `read`. Initially 0.
#[derive(Debug, Clone, Copy)]
pub struct Counter;

/// What a call on a counter says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CounterOp {
    /// It is more by this from now on.
    Add(i64),
    /// It was this.
    Read(i64),
}

impl Model for Counter {
    /// `None`: any number.
    type State = Option<i64>;
    type Op = CounterOp;

    fn name(&self) -> &str {
        "counter"
    }

    fn parse(&self, call: &CallView<'_>) -> Result<Option<CounterOp>, Malformed> {
        match (call.f(), call.outcome()) {
            ("read", Outcome::Ok) => match call.owned() {
                Value::Nil => Ok(Some(CounterOp::Read(0))),
                Value::Int(n) => Ok(Some(CounterOp::Read(n))),
                _ => Err(call.bad_value("a whole number")),
            },
            ("read", _) | ("add", Outcome::Fail) => Ok(None),
            ("add", _) => match call.value().as_int() {
                Some(n) => Ok(Some(CounterOp::Add(n))),
                None => Err(call.bad_value("a whole number")),
            },
            _ => Err(call.unknown_function(self.name(), "add, read")),
        }
    }

    fn init(&self) -> Option<i64> {
        Some(0)
    }

    fn step(&self, state: &Option<i64>, op: &CounterOp) -> Option<Option<i64>> {
        match (*op, *state) {
            (CounterOp::Add(n), state) => Some(state.map(|value| value.wrapping_add(n))),
            (CounterOp::Read(n), Some(value)) => (n == value).then_some(Some(value)),
            (CounterOp::Read(n), None) => Some(Some(n)),
        }
    }

    fn describe(&self, op: &CounterOp) -> String {
        match op {
            CounterOp::Add(n) => format!("added {n}"),
            CounterOp::Read(n) => format!("read {n}"),
        }
    }

    fn describe_state(&self, state: &Option<i64>) -> String {
        match state {
            Some(value) => format!("the counter is {value}"),
            None => "the counter could be anything".into(),
        }
    }

    fn is_pure(&self, op: &CounterOp) -> bool {
        matches!(op, CounterOp::Read(_) | CounterOp::Add(0))
    }

    fn requires(&self, op: &CounterOp) -> Option<Option<i64>> {
        match op {
            CounterOp::Read(n) => Some(Some(*n)),
            CounterOp::Add(_) => None,
        }
    }

    fn leads_to(&self, op: &CounterOp) -> Leads<Option<i64>> {
        match op {
            CounterOp::Add(n) if *n > 0 => Leads::Further,
            CounterOp::Add(n) if *n < 0 => Leads::Anywhere,
            CounterOp::Add(_) | CounterOp::Read(_) => Leads::Nowhere,
        }
    }

    /// It grows.
    fn rules_out(&self, state: &Option<i64>, op: &CounterOp) -> bool {
        matches!((state, op), (Some(value), CounterOp::Read(n)) if value > n)
    }

    fn anything(&self) -> Option<Option<i64>> {
        Some(None)
    }

    fn dispensable(&self, op: &CounterOp, kept: &[&CounterOp]) -> bool {
        self.is_pure(op) || !kept.iter().any(|k| matches!(k, CounterOp::Read(_)))
    }
}

/// The list that a read returned; nil is empty.
fn elements(call: &CallView<'_>) -> Result<Vec<Value>, Malformed> {
    match call.owned() {
        Value::Nil => Ok(Vec::new()),
        Value::List(items) => Ok(items),
        _ => Err(call.bad_value("a list")),
    }
}

/// A text that tells all values apart: 1 and 1.0 too.
fn exactly(value: &Value) -> String {
    format!("{value:?}")
}

fn joined<'v>(values: impl Iterator<Item = &'v Value>) -> String {
    let texts: Vec<String> = values.map(ToString::to_string).collect();
    texts.join(", ")
}
