//! The immutable sequence of events that checkers judge, in compact form.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::value::{Arena, Packed, Span};
use crate::{Header, Op, OpType, Process, Symbol, Value, ValueRef};

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

/// One event in compact form.
#[derive(Debug, Clone, Copy)]
struct Event {
    time: u64,
    value: Packed,
    process: Process,
    f: Symbol,
    kind: OpType,
}

/// What only some events have, by position.
#[derive(Debug, Default)]
struct Sparse {
    error: FxHashMap<u32, Packed>,
    node: Vec<Option<Symbol>>,
    wall: Vec<Option<i64>>,
    index: Vec<u64>,
}

/// Everything that happened in a run, in order.
///
/// Positions are dense from 0, whatever indices the file gave; [`OpRef::index`] has the latter.
#[derive(Debug, Default)]
pub struct History {
    header: Header,
    arena: Arena,
    events: Vec<Event>,
    sparse: Sparse,
    calls: Vec<Call>,
}

/// Collects events and freezes them into a [`History`].
#[derive(Debug, Default)]
pub struct HistoryBuilder {
    history: History,
    symbols: FxHashMap<Arc<str>, Symbol>,
}

/// One event inside a history.
#[derive(Debug, Clone, Copy)]
pub struct OpRef<'h> {
    history: &'h History,
    position: u32,
}

impl HistoryBuilder {
    /// An empty history with a header.
    pub fn new(header: Header) -> Self {
        Self { history: History { header, ..History::default() }, symbols: FxHashMap::default() }
    }

    /// Appends an event. Its `index` is kept for display; its position is the order of pushing.
    pub fn push(&mut self, op: &Op) {
        let position = u32::try_from(self.history.events.len()).expect("fewer than 2^32 events");
        let f = self.intern(&op.f);
        let value = self.pack(&op.value);
        if !op.error.is_nil() {
            let error = self.pack(&op.error);
            self.history.sparse.error.insert(position, error);
        }
        let node = op.node.as_ref().map(|node| self.intern(node));
        let history = &mut self.history;
        history.events.push(Event { time: op.time, value, process: op.process, f, kind: op.kind });
        history.sparse.node.push(node);
        history.sparse.wall.push(op.wall);
        history.sparse.index.push(op.index);
    }

    /// Pairs invocations with completions and freezes the history.
    pub fn finish(mut self) -> History {
        self.history.calls = pair(&self.history.events);
        self.history
    }

    fn intern(&mut self, text: &Arc<str>) -> Symbol {
        if let Some(&symbol) = self.symbols.get(text) {
            return symbol;
        }
        let strings = &mut self.history.arena.strings;
        let symbol = Symbol(u32::try_from(strings.len()).expect("fewer than 2^32 strings"));
        strings.push(Arc::clone(text));
        self.symbols.insert(Arc::clone(text), symbol);
        symbol
    }

    fn pack(&mut self, value: &Value) -> Packed {
        match value {
            Value::Nil => Packed::Nil,
            Value::Bool(b) => Packed::Bool(*b),
            Value::Int(n) => Packed::Int(*n),
            Value::Float(x) => Packed::Float(*x),
            Value::Str(s) => Packed::Str(self.intern(s)),
            Value::Keyword(s) => Packed::Keyword(self.intern(s)),
            Value::List(items) => {
                let packed: Vec<Packed> = items.iter().map(|v| self.pack(v)).collect();
                Packed::List(self.store(packed))
            }
            Value::Map(pairs) => {
                let packed: Vec<Packed> =
                    pairs.iter().flat_map(|(k, v)| [self.pack(k), self.pack(v)]).collect();
                Packed::Map(self.store(packed))
            }
        }
    }

    fn store(&mut self, items: Vec<Packed>) -> Span {
        let values = &mut self.history.arena.values;
        let start = u32::try_from(values.len()).expect("fewer than 2^32 values");
        values.extend_from_slice(&items);
        Span { start, len: items.len() as u32 }
    }
}

/// One outstanding call a process: a completion belongs to the last invocation of its process.
fn pair(events: &[Event]) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::with_capacity(events.len() / 2);
    let mut open: FxHashMap<u32, u32> = FxHashMap::default();
    for (position, event) in events.iter().enumerate() {
        let Some(client) = event.process.client() else { continue };
        let position = position as u32;
        let outcome = match event.kind {
            OpType::Invoke => {
                open.insert(client, calls.len() as u32);
                calls.push(Call { invoke: position, complete: None, outcome: Outcome::Info });
                continue;
            }
            OpType::Ok => Outcome::Ok,
            OpType::Fail => Outcome::Fail,
            OpType::Info => Outcome::Info,
        };
        if let Some(call) = open.remove(&client) {
            let call = &mut calls[call as usize];
            call.complete = Some(position);
            call.outcome = outcome;
        }
    }
    calls
}

impl History {
    /// A history of owned events, in order.
    pub fn from_ops<'a>(header: Header, ops: impl IntoIterator<Item = &'a Op>) -> Self {
        let mut builder = HistoryBuilder::new(header);
        for op in ops {
            builder.push(op);
        }
        builder.finish()
    }

    /// What it says of itself.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// How many events.
    pub const fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing happened.
    pub const fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The event at a position.
    ///
    /// # Panics
    /// If there is none.
    pub fn op(&self, position: u32) -> OpRef<'_> {
        assert!((position as usize) < self.events.len(), "position {position} is past the end");
        OpRef { history: self, position }
    }

    /// Every event, in order.
    pub fn ops(&self) -> impl ExactSizeIterator<Item = OpRef<'_>> + DoubleEndedIterator {
        (0..self.events.len() as u32).map(|position| OpRef { history: self, position })
    }

    /// Client calls in the order of their invocations. Nemesis events are not calls.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The text of an interned string.
    pub fn text(&self, symbol: Symbol) -> &str {
        &self.arena.strings[symbol.index()]
    }
}

impl<'h> OpRef<'h> {
    fn event(self) -> &'h Event {
        &self.history.events[self.position as usize]
    }

    /// Where it stands in this history, from 0.
    pub const fn position(self) -> u32 {
        self.position
    }

    /// The index the recorder gave it.
    pub fn index(self) -> u64 {
        self.history.sparse.index[self.position as usize]
    }

    /// Nanoseconds since the start of the run.
    pub fn time(self) -> u64 {
        self.event().time
    }

    /// Wall clock, nanoseconds since the Unix epoch.
    pub fn wall(self) -> Option<i64> {
        self.history.sparse.wall[self.position as usize]
    }

    /// Invocation or completion.
    pub fn kind(self) -> OpType {
        self.event().kind
    }

    /// Who.
    pub fn process(self) -> Process {
        self.event().process
    }

    /// Which function.
    pub fn f(self) -> &'h str {
        self.history.text(self.event().f)
    }

    /// Which function, as a number.
    pub fn f_symbol(self) -> Symbol {
        self.event().f
    }

    /// Its value.
    pub fn value(self) -> ValueRef<'h> {
        self.history.arena.view(self.event().value)
    }

    /// Why it failed or is indeterminate.
    pub fn error(self) -> ValueRef<'h> {
        self.history
            .sparse
            .error
            .get(&self.position)
            .map_or(ValueRef::Nil, |&packed| self.history.arena.view(packed))
    }

    /// The node the client was talking to.
    pub fn node(self) -> Option<&'h str> {
        self.history.sparse.node[self.position as usize].map(|node| self.history.text(node))
    }

    /// A copy that owns itself.
    pub fn to_op(self) -> Op {
        Op {
            index: self.index(),
            time: self.time(),
            wall: self.wall(),
            kind: self.kind(),
            process: self.process(),
            f: self.f().into(),
            value: self.value().to_value(),
            error: self.error().to_value(),
            node: self.node().map(Into::into),
        }
    }
}
