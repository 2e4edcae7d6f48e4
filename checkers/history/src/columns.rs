//! The events of a history, a column for each thing known of them. What few events have, or what
//! can be told from the position, takes no room.

use crate::arena::{Arena, Cell, Moved};
use crate::few::Few;
use crate::narrow::Narrow;
use crate::near::Near;
use crate::strings::Symbol;
use crate::{OpType, Process};

/// How many events a history can hold: a call keeps a position in 30 bits, of which the highest one is
/// none.
pub(crate) const EVENTS_MAX: usize = (1 << 30) - 1;

/// The greatest number of a client.
pub(crate) const CLIENT_MAX: u32 = u32::MAX - 2;

/// Processes as numbers: clients come after the others.
const NEMESIS: u64 = 0;

const LOG: u64 = 1;

const CLIENTS: u64 = 2;

/// One event on its way into the columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) kind: OpType,
    pub(crate) process: Process,
    pub(crate) f: Symbol,
    pub(crate) value: Narrow,
    pub(crate) error: Cell,
    /// `None`: as the event before.
    pub(crate) time: Option<u64>,
    pub(crate) wall: Option<i64>,
    /// `None`: its position.
    pub(crate) index: Option<u64>,
    pub(crate) node: Option<Symbol>,
    /// The line it began on, from 1; 0 if it was not read from a file.
    pub(crate) line: u64,
}

/// A column in which most events have the same, at least towards the end.
#[derive(Debug)]
struct Sparse<T> {
    otherwise: T,
    values: Vec<T>,
}

impl<T: Copy + PartialEq> Sparse<T> {
    const fn new(otherwise: T) -> Self {
        Self { otherwise, values: Vec::new() }
    }

    #[inline]
    fn set(&mut self, position: usize, value: T) {
        if value != self.otherwise {
            self.values.resize(position, self.otherwise);
            self.values.push(value);
        }
    }

    #[inline]
    fn get(&self, position: usize) -> T {
        self.values.get(position).copied().unwrap_or(self.otherwise)
    }

    /// Appends values to the `len` that there are, the absent ones among them included.
    fn append(&mut self, len: usize, values: impl ExactSizeIterator<Item = T>) {
        if values.len() > 0 {
            self.values.resize(len, self.otherwise);
            self.values.extend(values);
        }
    }
}

/// A column that counts with the positions, from some start; spelt out only where it does not.
#[derive(Debug, Default)]
struct Counting {
    /// The value at position 0, wrapping.
    start: u64,
    /// Every value, once one did not fit.
    values: Vec<u64>,
}

impl Counting {
    #[inline]
    fn push(&mut self, position: usize, value: u64) {
        if position == 0 {
            self.start = value;
        }
        if self.values.is_empty() {
            if value == self.expected(position) {
                return;
            }
            self.values = (0..position).map(|p| self.expected(p)).collect();
        }
        self.values.push(value);
    }

    const fn expected(&self, position: usize) -> u64 {
        self.start.wrapping_add(position as u64)
    }

    fn get(&self, position: usize) -> u64 {
        if self.values.is_empty() { self.expected(position) } else { self.values[position] }
    }

    /// Appends the first `count` values of another column to the `len` that there are.
    fn append(&mut self, len: usize, other: &Self, count: usize) {
        let counts_on = len == 0 || other.start == self.expected(len);
        if self.values.is_empty() && other.values.is_empty() && counts_on {
            self.start = other.start.wrapping_sub(len as u64);
        } else {
            (0..count).for_each(|at| self.push(len + at, other.get(at)));
        }
    }
}

/// The events, in order.
#[derive(Debug)]
pub(crate) struct Columns {
    /// Function and kind: the symbol above, the kind in the two low bits.
    act: Few,
    process: Near<i16>,
    value: Vec<Narrow>,
    /// Empty as long as all are 0.
    time: Near<i32>,
    timed: bool,
    wall: Sparse<i64>,
    /// The symbol and 1; 0 for none.
    node: Sparse<u32>,
    index: Counting,
    line: Counting,
    /// Errors by position, ascending.
    error: Vec<(u32, Cell)>,
    /// How many events came before the first that had a time.
    untimed: usize,
    /// Positions of events that came without an index, ascending.
    unnumbered: Vec<u32>,
}

/// Stands for no wall clock: 1677, before any computer.
const NO_WALL: i64 = i64::MIN;

impl Default for Columns {
    fn default() -> Self {
        Self {
            act: Few::default(),
            process: Near::default(),
            value: Vec::new(),
            time: Near::default(),
            timed: false,
            wall: Sparse::new(NO_WALL),
            node: Sparse::new(0),
            index: Counting::default(),
            line: Counting::default(),
            error: Vec::new(),
            untimed: 0,
            unnumbered: Vec::new(),
        }
    }
}

impl Columns {
    /// Empty columns with room for so many events.
    pub(crate) fn with_capacity(events: usize) -> Self {
        Self {
            act: Few::with_capacity(events),
            process: Near::with_capacity(events),
            value: Vec::with_capacity(events),
            ..Self::default()
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.value.len()
    }

    /// Appends an event.
    ///
    /// # Panics
    /// If there are [`EVENTS_MAX`] already, or its client is above [`CLIENT_MAX`].
    #[inline]
    pub(crate) fn push(&mut self, event: &Event) {
        let at = self.len();
        assert!(at < EVENTS_MAX, "fewer than 2^30 events");
        let process = match event.process {
            Process::Client(id) => {
                assert!(id <= CLIENT_MAX, "a client is below 2^32 - 2");
                CLIENTS + u64::from(id)
            }
            Process::Nemesis => NEMESIS,
            Process::Log => LOG,
        };
        self.act.push(event.f.0 << 2 | event.kind as u32);
        self.process.push(process);
        self.value.push(event.value);
        self.timed |= event.time.is_some();
        self.untimed += usize::from(!self.timed);
        let time = event.time;
        let before = |columns: &Self| at.checked_sub(1).map_or(0, |before| columns.time(before));
        self.set_time(at, time.unwrap_or_else(|| before(self)));
        self.wall.set(at, event.wall.unwrap_or(NO_WALL));
        self.node.set(at, event.node.map_or(0, |node| node.0 + 1));
        self.index.push(at, event.index.unwrap_or(at as u64));
        if event.index.is_none() {
            self.unnumbered.push(at as u32);
        }
        self.line.push(at, event.line);
        if event.error != Cell::NIL {
            self.error.push((at as u32, event.error));
        }
    }

    #[inline]
    fn set_time(&mut self, at: usize, time: u64) {
        if time != 0 || self.time.len() > 0 {
            while self.time.len() < at {
                self.time.push(0);
            }
            self.time.push(time);
        }
    }

    /// Appends the events of columns whose cells and symbols have moved to an arena. What they took from the
    /// event before, or from their position, they take anew.
    ///
    /// # Panics
    /// If there are more than [`EVENTS_MAX`] then.
    pub(crate) fn append(&mut self, other: &Self, moved: &Moved, arena: &mut Arena) {
        let (len, count) = (self.len(), other.len());
        assert!(count <= EVENTS_MAX - len, "fewer than 2^30 events");
        let act = |act: u32| moved.symbol(Symbol(act >> 2)).0 << 2 | act & 3;
        let node = |&node: &u32| node.checked_sub(1).map_or(0, |n| moved.symbol(Symbol(n)).0 + 1);
        let before = len.checked_sub(1).map_or(0, |before| self.time(before));
        for at in 0..other.untimed {
            self.set_time(len + at, before);
        }
        if other.time.len() > other.untimed {
            while self.time.len() < len + other.untimed {
                self.time.push(0);
            }
            self.time.append(&other.time, other.untimed);
        } else {
            // They came with a time, and it was 0.
            (other.untimed..count).for_each(|at| self.set_time(len + at, 0));
        }
        if !self.timed {
            self.untimed += other.untimed;
        }
        self.timed |= other.timed;
        self.act.append(&other.act, act);
        self.process.append(&other.process, 0);
        self.value.extend(other.value.iter().map(|&cell| moved.narrow(cell, &mut arena.far)));
        self.wall.append(len, other.wall.values.iter().copied());
        self.node.append(len, other.node.values.iter().map(node));
        if other.unnumbered.is_empty() {
            self.index.append(len, &other.index, count);
        } else {
            let mut unnumbered = other.unnumbered.iter().peekable();
            for at in 0..count {
                let has_none = unnumbered.next_if(|&&next| next as usize == at).is_some();
                let position = (len + at) as u64;
                let index = if has_none { position } else { other.index.get(at) };
                self.index.push(len + at, index);
            }
            self.unnumbered.extend(other.unnumbered.iter().map(|&at| len as u32 + at));
        }
        self.line.append(len, &other.line, count);
        let error = |&(at, cell): &(u32, Cell)| (len as u32 + at, moved.cell(cell));
        self.error.extend(other.error.iter().map(error));
    }

    #[inline]
    pub(crate) fn kind(&self, at: usize) -> OpType {
        match self.act.get(at) & 3 {
            0 => OpType::Invoke,
            1 => OpType::Ok,
            2 => OpType::Fail,
            _ => OpType::Info,
        }
    }

    #[inline]
    pub(crate) fn f(&self, at: usize) -> Symbol {
        Symbol(self.act.get(at) >> 2)
    }

    #[inline]
    pub(crate) fn process(&self, at: usize) -> Process {
        match self.process.get(at) {
            NEMESIS => Process::Nemesis,
            LOG => Process::Log,
            client => Process::Client((client - CLIENTS) as u32),
        }
    }

    #[inline]
    pub(crate) fn value(&self, at: usize) -> Narrow {
        self.value[at]
    }

    pub(crate) fn error(&self, at: usize) -> Cell {
        let found = self.error.binary_search_by_key(&(at as u32), |&(position, _)| position);
        found.map_or(Cell::NIL, |i| self.error[i].1)
    }

    #[inline]
    pub(crate) fn time(&self, at: usize) -> u64 {
        if self.time.len() == 0 { 0 } else { self.time.get(at) }
    }

    pub(crate) const fn is_timed(&self) -> bool {
        self.timed
    }

    pub(crate) fn wall(&self, at: usize) -> Option<i64> {
        Some(self.wall.get(at)).filter(|&wall| wall != NO_WALL)
    }

    pub(crate) fn node(&self, at: usize) -> Option<Symbol> {
        self.node.get(at).checked_sub(1).map(Symbol)
    }

    pub(crate) fn index(&self, at: usize) -> u64 {
        self.index.get(at)
    }

    /// Whether indices can repeat at all: not if they count up.
    pub(crate) const fn has_own_indices(&self) -> bool {
        !self.index.values.is_empty()
    }

    pub(crate) fn line(&self, at: usize) -> u64 {
        self.line.get(at)
    }

    /// Gives back room that was kept for more events.
    pub(crate) fn freeze(&mut self) {
        self.act.freeze();
        self.process.freeze();
        self.value.shrink_to_fit();
        self.time.freeze();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    /// All that is known of an event.
    fn row(columns: &Columns, at: usize) -> impl PartialEq + std::fmt::Debug {
        let what = (columns.kind(at), columns.process(at), columns.f(at), columns.value(at));
        let when = (columns.time(at), columns.wall(at), columns.index(at), columns.line(at));
        (what, when, columns.node(at), columns.error(at))
    }

    /// Columns that are appended piece by piece are those of all their events, wherever the cuts are:
    /// also where an event has no time or no index of its own, or is the first that has something.
    #[test]
    fn pieces_make_a_whole() {
        let mut arena = Arena::default();
        let mut other = Arena::default();
        let [f, node] = ["f", "n1"].map(|text| arena.strings.intern(text));
        // The same strings, but under other symbols.
        let [other_node, other_f] = ["n1", "f"].map(|text| other.strings.intern(text));
        // One that fits into half a word, and one that does not; the latter moves.
        let text = other.far.narrow(Cell::str(other_f));
        let wide = other.pack_narrow(&Value::Int(1 << 40));
        arena.pack_narrow(&Value::Int(1 << 50));
        let moved = arena.append(&other);
        let events: Vec<Event> = (0..12)
            .map(|at| Event {
                kind: [OpType::Invoke, OpType::Ok, OpType::Fail, OpType::Info][at % 4],
                process: if at == 5 { Process::Nemesis } else { Process::Client(at as u32) },
                f: other_f,
                value: [Narrow::NIL, text, wide][at % 3],
                error: if at == 6 { Cell::str(other_node) } else { Cell::NIL },
                time: [None, None, Some(7), None, Some(9), None][at % 6],
                wall: (at == 3).then_some(-1),
                index: (at % 5 != 4).then_some(20 + at as u64),
                node: (at == 7).then_some(other_node),
                line: [at as u64 + 2, at as u64 + 3][usize::from(at > 8)],
            })
            .collect();
        let here = |event: &Event, arena: &mut Arena| Event {
            f,
            value: moved.narrow(event.value, &mut arena.far),
            error: moved.cell(event.error),
            node: event.node.map(|_| node),
            ..*event
        };
        let mut whole = Columns::default();
        events.iter().for_each(|event| whole.push(&here(event, &mut arena)));
        for one in 0..=events.len() {
            for two in one..=events.len() {
                let mut columns = Columns::default();
                for piece in [&events[..one], &events[one..two], &events[two..]] {
                    let mut part = Columns::default();
                    piece.iter().for_each(|event| part.push(event));
                    columns.append(&part, &moved, &mut arena);
                }
                assert_eq!(columns.len(), whole.len());
                assert_eq!(columns.is_timed(), whole.is_timed());
                for at in 0..events.len() {
                    assert_eq!(row(&columns, at), row(&whole, at), "{at} of cuts {one}, {two}");
                }
            }
        }
    }
}
