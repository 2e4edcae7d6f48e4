//! The immutable sequence of events that checkers judge, in compact form.

use std::sync::Arc;

use crate::arena::{Arena, Cell};
use crate::columns::{Columns, Event};
use crate::pairing::{Call, Pairing};
use crate::{Header, Op, OpType, Process, Symbol, ValueRef};

/// Everything that happened in a run, in order.
///
/// Positions are dense from 0, whatever indices the file gave; [`OpRef::index`] has the latter.
/// About 11 bytes an event, 16 a call, and 4 an element of a list.
#[derive(Debug, Default)]
pub struct History {
    header: Header,
    arena: Arc<Arena>,
    columns: Arc<Columns>,
    /// How many of the columns' events it has.
    len: usize,
    calls: Vec<Call>,
}

/// Collects events and freezes them into a [`History`].
#[derive(Debug, Default)]
pub struct HistoryBuilder {
    header: Header,
    pub(crate) arena: Arena,
    pub(crate) columns: Columns,
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
        Self { header, ..Self::default() }
    }

    /// Appends an event. Its `index` is kept for display; its position is the order of pushing.
    ///
    /// # Panics
    /// If there are 2^30 - 1 events already, or 2^28 values that are too big for 32 bits, or its client
    /// is above 2^32 - 3.
    pub fn push(&mut self, op: &Op) {
        let arena = &mut self.arena;
        let event = Event {
            kind: op.kind,
            process: op.process,
            f: arena.strings.intern(&op.f),
            value: arena.pack_narrow(&op.value),
            error: arena.pack(&op.error),
            time: Some(op.time),
            wall: op.wall,
            index: Some(op.index),
            node: op.node.as_ref().map(|node| arena.strings.intern(node)),
            line: 0,
        };
        self.columns.push(&event);
    }

    pub(crate) const fn set_keyed(&mut self, keyed: bool) {
        self.header.keyed = keyed;
    }

    /// Pairs invocations with completions and freezes the history.
    pub fn finish(self) -> History {
        let mut pairing = Pairing::default();
        pairing.go_on(&self.columns);
        self.paired(pairing)
    }

    /// Freezes the history; all of its events were paired.
    pub(crate) fn paired(self, pairing: Pairing) -> History {
        let Self { header, mut arena, mut columns } = self;
        arena.freeze();
        columns.freeze();
        let (len, calls) = (columns.len(), pairing.into_calls());
        History { header, arena: Arc::new(arena), columns: Arc::new(columns), len, calls }
    }
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

    /// Its first `len` events, as a history of their own: whatever is still open there is
    /// indeterminate. The events are shared, not copied.
    #[must_use]
    pub fn beginning(&self, len: u32) -> Self {
        let begun = self.calls.partition_point(|call| call.invoke < len);
        let cut = |call: &Call| match call.complete() {
            Some(position) if position >= len => Call::open(call.invoke),
            _ => *call,
        };
        Self {
            header: self.header.clone(),
            arena: self.arena.clone(),
            columns: self.columns.clone(),
            len: self.len.min(len as usize),
            calls: self.calls[..begun].iter().map(cut).collect(),
        }
    }

    /// What it says of itself.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// How many events.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing happened.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The event at a position.
    ///
    /// # Panics
    /// If there is none.
    pub fn op(&self, position: u32) -> OpRef<'_> {
        assert!((position as usize) < self.len(), "position {position} is past the end");
        OpRef { history: self, position }
    }

    /// Every event, in order.
    pub fn ops(&self) -> impl ExactSizeIterator<Item = OpRef<'_>> + DoubleEndedIterator {
        (0..self.len() as u32).map(|position| OpRef { history: self, position })
    }

    /// Client calls in the order of their invocations. Nemesis events are not calls.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The text of an interned string.
    pub fn text(&self, symbol: Symbol) -> &str {
        self.arena.strings.get(symbol)
    }

    /// The symbol of a text, if it occurs anywhere in this history: to compare functions as
    /// numbers, look up `"read"` once and compare [`OpRef::f_symbol`] with it.
    pub fn symbol(&self, text: &str) -> Option<Symbol> {
        self.arena.strings.find(text)
    }

    /// How many distinct strings there are: the size of a table indexed by symbol.
    pub fn symbol_count(&self) -> usize {
        self.arena.strings.len()
    }

    /// Whether any event came with a time. If none did, all times are 0.
    pub fn is_timed(&self) -> bool {
        self.columns.is_timed()
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }
}

impl<'h> OpRef<'h> {
    const fn at(self) -> usize {
        self.position as usize
    }

    /// Where it stands in this history, from 0.
    pub const fn position(self) -> u32 {
        self.position
    }

    /// The index the recorder gave it, or its position if it gave none.
    pub fn index(self) -> u64 {
        self.history.columns.index(self.at())
    }

    /// The line of the file it began on, from 1; `None` if it was not read from a file.
    pub fn line(self) -> Option<u64> {
        Some(self.history.columns.line(self.at())).filter(|&line| line > 0)
    }

    /// Nanoseconds since the start of the run. An event that came without has the time of the one
    /// before it.
    #[inline]
    pub fn time(self) -> u64 {
        self.history.columns.time(self.at())
    }

    /// Wall clock, nanoseconds since the Unix epoch.
    pub fn wall(self) -> Option<i64> {
        self.history.columns.wall(self.at())
    }

    /// Invocation or completion.
    #[inline]
    pub fn kind(self) -> OpType {
        self.history.columns.kind(self.at())
    }

    /// Who.
    #[inline]
    pub fn process(self) -> Process {
        self.history.columns.process(self.at())
    }

    /// Which function.
    pub fn f(self) -> &'h str {
        self.history.text(self.f_symbol())
    }

    /// Which function, as a number.
    #[inline]
    pub fn f_symbol(self) -> Symbol {
        self.history.columns.f(self.at())
    }

    /// Its value.
    #[inline]
    pub fn value(self) -> ValueRef<'h> {
        self.history.arena.view(self.cell())
    }

    /// The two elements of its value, if that is a list of two: `[key, value]` in a keyed history,
    /// `[old, new]` of a compare-and-set.
    #[inline]
    pub fn pair(self) -> Option<(ValueRef<'h>, ValueRef<'h>)> {
        self.value().as_pair()
    }

    pub(crate) fn cell(self) -> Cell {
        self.history.arena.far.widen(self.history.columns.value(self.at()))
    }

    /// Why it failed or is indeterminate.
    pub fn error(self) -> ValueRef<'h> {
        self.history.arena.view(self.history.columns.error(self.at()))
    }

    /// The node the client was talking to.
    pub fn node(self) -> Option<&'h str> {
        self.history.columns.node(self.at()).map(|node| self.history.text(node))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, Value};

    /// What was pushed comes back, whichever columns it uses, and late ones do not shift.
    #[test]
    fn ops_come_back() {
        let plain = |i: u64, kind| Op {
            index: i,
            time: i * 3,
            ..Op::new(kind, Process::Client(5), "write", Value::pair("k", i as i64))
        };
        let mut ops = vec![plain(0, OpType::Invoke), plain(1, OpType::Info)];
        ops.push(Op {
            index: 9,
            time: 0,
            wall: Some(-7),
            error: Value::str("timeout"),
            node: Some("n1".into()),
            ..Op::new(OpType::Info, Process::Nemesis, "kill", Value::Float(0.5))
        });
        ops.push(Op { process: Process::Client(70_000), ..plain(2, OpType::Invoke) });
        let history = History::from_ops(Header::default(), &ops);
        let back: Vec<Op> = history.ops().map(OpRef::to_op).collect();
        assert_eq!(back, ops);
        assert_eq!(history.calls(), [Call::completed(0, 1, Outcome::Info), Call::open(3),]);
        assert_eq!(history.symbol("write"), Some(history.op(0).f_symbol()));
        assert_eq!(history.symbol("read"), None);
        assert_eq!(history.op(0).line(), None);
    }

    /// A beginning has the first events, and what had not returned by then is open.
    #[test]
    fn a_beginning_is_cut_off() {
        let op = |kind, client| Op::new(kind, Process::Client(client), "write", Value::Nil);
        use OpType::{Invoke, Ok};
        let ops = [op(Invoke, 0), op(Invoke, 1), op(Ok, 0), op(Ok, 1), op(Invoke, 0), op(Ok, 0)];
        let history = History::from_ops(Header::default(), &ops);
        let open = Call::open;
        let done = |invoke, at| Call::completed(invoke, at, Outcome::Ok);
        assert_eq!(history.beginning(3).calls(), [done(0, 2), open(1)]);
        assert_eq!(history.beginning(5).calls(), [done(0, 2), done(1, 3), open(4)]);
        assert_eq!(history.beginning(5).ops().len(), 5);
        assert_eq!(history.beginning(99).calls(), history.calls());
        assert!(history.beginning(0).is_empty());
    }

    /// The size the documentation promises.
    #[test]
    fn an_event_is_small() {
        assert_eq!(size_of::<Cell>(), 8);
        assert_eq!(size_of::<Call>(), 8);
    }
}
