//! The same payloads for who reads all of a long history: names of fields and functions are
//! compared as numbers, texts stay [`Symbol`]s, and nothing is copied.

use super::{Grant, Stamp, Token};
use crate::arena::{Arena, Cell};
use crate::narrow::Cells;
use crate::{History, Process, Symbol};

/// What a client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// `acquire`.
    Acquire,
    /// `renew`.
    Renew(Token),
    /// `release`.
    Release(Token),
    /// `fenced-write` or `append`.
    Write(Write),
    /// `read`.
    Read,
}

/// The argument of a write: a [`FencedWrite`](super::FencedWrite) without its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// The token it is made under, if any.
    pub token: Option<i64>,
    /// Its id.
    pub id: Symbol,
    /// The client had looked just before, and held its lease for valid.
    pub believed_valid: bool,
}

/// Who served a call: a [`Served`](super::Served) without its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// The node.
    pub node: Symbol,
    /// The term, generation or token it served under.
    pub epoch: i64,
    /// Whether as a leader.
    pub leader: bool,
}

/// What was seen of a resource: a [`Seen`](super::Seen) in symbols.
#[derive(Debug, Clone, Copy)]
pub enum Sighting<'h> {
    /// The ids of all writes that took effect, in order.
    Every(Ids<'h>),
    /// The id of the last one.
    Last(Option<Symbol>),
}

/// A list of ids.
#[derive(Debug, Clone, Copy)]
pub struct Ids<'h>(Cells<'h>);

impl<'h> Ids<'h> {
    /// The ids in order.
    pub fn iter(self) -> impl Iterator<Item = Symbol> + 'h {
        // All of them are texts: that was looked at when this was made.
        self.0.iter().filter_map(|cell| cell.symbol())
    }
}

/// One line of a collected log: a [`LogEvent`](super::LogEvent) without its value.
#[derive(Debug, Clone, Copy)]
pub enum Line<'h> {
    /// `resource-write`.
    Write {
        /// The resource.
        resource: Symbol,
        /// Its place in the order of this resource.
        seq: u64,
        /// The token it came with.
        token: Option<i64>,
        /// Its id.
        id: Option<Symbol>,
        /// Whether it took effect.
        accepted: bool,
        /// When.
        at: Option<Stamp>,
    },
    /// `snapshot`.
    Snapshot {
        /// The resource.
        resource: Symbol,
        /// The epoch it is of.
        epoch: Option<i64>,
        /// The writes in it.
        seen: Sighting<'h>,
    },
    /// `granted`.
    Granted {
        /// The resource.
        resource: Symbol,
        /// The token.
        token: i64,
        /// When.
        at: Option<Stamp>,
    },
    /// `expired` or `revoked`.
    Ended {
        /// The resource.
        resource: Symbol,
        /// The token.
        token: i64,
        /// When.
        at: Option<Stamp>,
    },
    /// `led`.
    Led {
        /// The node.
        node: Symbol,
        /// Its epoch.
        epoch: i64,
        /// From when, nanoseconds since the start of the run.
        from_ns: u64,
        /// Until when.
        to_ns: u64,
        /// Both bounds are at most so far off.
        error_ns: u64,
    },
}

/// Declares names with the symbol each has in a history.
macro_rules! names {
    ($($field:ident = $text:literal),* $(,)?) => {
        #[derive(Debug, Clone, Copy)]
        struct Names { $($field: Symbol),* }

        impl Names {
            fn of(history: &History) -> Self {
                // What occurs nowhere has a number that nothing has.
                let symbol = |text| history.symbol(text).unwrap_or(Symbol(u32::MAX));
                Self { $($field: symbol($text)),* }
            }
        }
    };
}

names! {
    acquire = "acquire", renew = "renew", release = "release", fenced_write = "fenced-write",
    append = "append", read = "read", resource_write = "resource-write", snapshot = "snapshot",
    granted = "granted", expired = "expired", revoked = "revoked", led = "led",
    accepted = "accepted", applied = "applied", at_ns = "at_ns", believed_valid = "believed_valid",
    epoch = "epoch", error_ns = "error_ns", from_ns = "from_ns", id = "id", last = "last",
    leader = "leader", lease_ms = "lease_ms", node = "node", resource = "resource", role = "role",
    seq = "seq", to_ns = "to_ns", token = "token", valid_until_ns = "valid_until_ns",
    values = "values",
}

impl Names {
    #[inline]
    fn is_write(&self, f: Symbol) -> bool {
        f == self.fenced_write || f == self.append
    }
}

/// The payloads of one history.
#[derive(Debug, Clone, Copy)]
pub struct Payloads<'h> {
    history: &'h History,
    names: Names,
}

/// The fields of a map: names and values alternate.
#[derive(Clone, Copy)]
struct Fields<'h> {
    arena: &'h Arena,
    cells: Cells<'h>,
}

impl<'h> Fields<'h> {
    #[inline]
    fn get(self, name: Symbol) -> Option<Cell> {
        self.cells.after(|key| key.symbol() == Some(name))
    }

    #[inline]
    fn int(self, name: Symbol) -> Option<i64> {
        let cell = self.get(name)?;
        cell.small_int().or_else(|| self.arena.view(cell).as_int())
    }

    fn natural(self, name: Symbol) -> Option<u64> {
        self.int(name).and_then(|n| u64::try_from(n).ok())
    }

    #[inline]
    fn text(self, name: Symbol) -> Option<Symbol> {
        self.get(name)?.symbol()
    }

    fn is(self, name: Symbol, cell: Cell) -> bool {
        self.get(name) == Some(cell)
    }
}

impl<'h> Payloads<'h> {
    /// Those of a history.
    pub fn of(history: &'h History) -> Self {
        Self { history, names: Names::of(history) }
    }

    /// Whether an invocation asks for a write.
    pub fn is_write(&self, position: u32) -> bool {
        self.names.is_write(self.history.op(position).f_symbol())
    }

    /// Whether an event is a line of a log.
    pub fn is_line(&self, position: u32) -> bool {
        self.history.op(position).process() == Process::Log
    }

    /// The resource and what is asked of it, by an invocation: `None` if it is no function of ours,
    /// and `Some(None)` if it is in no known shape.
    #[inline]
    pub fn asked(&self, position: u32) -> Option<Option<(Symbol, Asked)>> {
        let (op, names) = (self.history.op(position), &self.names);
        let f = op.f_symbol();
        let is_write = names.is_write(f);
        let is_other = f == names.acquire || f == names.read;
        if !is_write && !is_other && f != names.renew && f != names.release {
            return None;
        }
        let asked = || {
            let (resource, payload) = self.history.arena().pair(op.cell())?;
            let resource = resource.symbol()?;
            if is_other {
                let asked = if f == names.read { Asked::Read } else { Asked::Acquire };
                return Some((resource, asked));
            }
            let fields = self.fields(payload)?;
            let token = fields.int(names.token);
            if is_write {
                let id = fields.text(names.id)?;
                let believed_valid = fields.is(names.believed_valid, Cell::TRUE);
                return Some((resource, Asked::Write(Write { token, id, believed_valid })));
            }
            let token = Token(token?);
            let renews = f == names.renew;
            Some((resource, if renews { Asked::Renew(token) } else { Asked::Release(token) }))
        };
        Some(asked())
    }

    /// What an `acquire` or `renew` got, by its completion.
    pub fn grant(&self, position: u32) -> Option<Grant> {
        let fields = self.answer(position)?;
        Some(Grant {
            token: fields.int(self.names.token)?,
            lease_ms: fields.natural(self.names.lease_ms),
            valid_until_ns: fields.natural(self.names.valid_until_ns),
        })
    }

    /// Who served a call, by its completion.
    #[inline]
    pub fn server(&self, position: u32) -> Option<Server> {
        self.server_in(self.answer(position)?)
    }

    /// What a `read` saw and who served it, by its completion.
    pub fn observation(&self, position: u32) -> Option<(Sighting<'h>, Option<Server>)> {
        let fields = self.answer(position)?;
        Some((self.seen(fields, self.names.values)?, self.server_in(fields)))
    }

    /// The line of a log: `None` if the event is of no log, and `Some(None)` if it is in no known
    /// shape.
    #[inline]
    pub fn line(&self, position: u32) -> Option<Option<Line<'h>>> {
        self.is_line(position).then(|| self.known_line(position))
    }

    fn known_line(&self, position: u32) -> Option<Line<'h>> {
        let (op, names) = (self.history.op(position), &self.names);
        let fields = self.fields(op.cell())?;
        let resource = || fields.text(names.resource);
        let at = || {
            let at_ns = fields.natural(names.at_ns)?;
            Some(Stamp { at_ns, error_ns: fields.natural(names.error_ns).unwrap_or(0) })
        };
        let f = op.f_symbol();
        Some(if f == names.resource_write {
            Line::Write {
                resource: resource()?,
                seq: fields.natural(names.seq)?,
                token: fields.int(names.token),
                id: fields.text(names.id),
                accepted: match fields.get(names.accepted)? {
                    Cell::TRUE => true,
                    Cell::FALSE => false,
                    _ => return None,
                },
                at: at(),
            }
        } else if f == names.snapshot {
            let seen = self.seen(fields, names.applied)?;
            Line::Snapshot { resource: resource()?, epoch: fields.int(names.epoch), seen }
        } else if f == names.granted {
            Line::Granted { resource: resource()?, token: fields.int(names.token)?, at: at() }
        } else if f == names.expired || f == names.revoked {
            Line::Ended { resource: resource()?, token: fields.int(names.token)?, at: at() }
        } else if f == names.led {
            Line::Led {
                node: fields.text(names.node)?,
                epoch: fields.int(names.epoch)?,
                from_ns: fields.natural(names.from_ns)?,
                to_ns: fields.natural(names.to_ns)?,
                error_ns: fields.natural(names.error_ns).unwrap_or(0),
            }
        } else {
            return None;
        })
    }

    fn fields(&self, cell: Cell) -> Option<Fields<'h>> {
        let arena = self.history.arena();
        Some(Fields { arena, cells: arena.map_of(cell)? })
    }

    #[inline]
    fn answer(&self, position: u32) -> Option<Fields<'h>> {
        let (_, answer) = self.history.arena().pair(self.history.op(position).cell())?;
        self.fields(answer)
    }

    fn server_in(&self, fields: Fields<'h>) -> Option<Server> {
        let names = &self.names;
        let role = fields.text(names.role);
        Some(Server {
            node: fields.text(names.node)?,
            epoch: fields.int(names.epoch)?,
            leader: role.is_none_or(|role| role == names.leader),
        })
    }

    fn seen(&self, fields: Fields<'h>, every: Symbol) -> Option<Sighting<'h>> {
        let list = fields.get(every).and_then(|cell| fields.arena.list_of(cell));
        if let Some(cells) = list {
            let all_texts = cells.iter().all(|cell| cell.symbol().is_some());
            return all_texts.then_some(Sighting::Every(Ids(cells)));
        }
        match fields.get(self.names.last)? {
            Cell::NIL => Some(Sighting::Last(None)),
            id => id.symbol().map(|id| Sighting::Last(Some(id))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{events, payloads};
    use super::super::{FencedWrite, LogEvent, Observation, Seen, Served};
    use super::*;
    use crate::{Header, Op, OpType, Value};

    fn text<'h>(history: &'h History, seen: Sighting<'h>) -> Seen<'h> {
        match seen {
            Sighting::Every(ids) => Seen::Every(ids.iter().map(|id| history.text(id)).collect()),
            Sighting::Last(id) => Seen::Last(id.map(|id| history.text(id))),
        }
    }

    /// Every payload, in every function, is read as it is where texts are compared: the same is
    /// seen, and the same is in no known shape.
    #[test]
    fn both_ways_of_reading_agree() {
        let functions = ["acquire", "renew", "release", "fenced-write", "append", "read", "x"];
        let mut shapes = payloads();
        shapes.extend(events().iter().map(|event| event.to_op().value));
        shapes.extend([Value::Nil, Value::Int(1), Value::Map(vec![("id".into(), Value::Int(1))])]);
        let mut ops = Vec::new();
        for payload in &shapes {
            for f in functions {
                let value = Value::pair("r", payload.clone());
                ops.push(Op::new(OpType::Invoke, Process::Client(0), f, value));
            }
            for f in ["resource-write", "snapshot", "granted", "expired", "revoked", "led", "x"] {
                ops.push(Op::new(OpType::Info, Process::Log, f, payload.clone()));
            }
        }
        let history = History::from_ops(Header::default(), &ops);
        let fast = Payloads::of(&history);
        let mut known = 0;
        for op in history.ops() {
            let at = op.position();
            if let Some(line) = fast.line(at) {
                let slow = LogEvent::parse(op);
                assert_eq!(line.is_some(), slow.is_some(), "{op:?}");
                let (Some(line), Some(slow)) = (line, slow) else { continue };
                known += 1;
                let name = |symbol: Symbol| history.text(symbol);
                match (line, slow) {
                    (
                        Line::Write { resource, seq, token, id, accepted, at },
                        LogEvent::Write {
                            resource: r,
                            seq: s,
                            token: t,
                            id: i,
                            accepted: a,
                            at: w,
                            ..
                        },
                    ) => assert_eq!(
                        (name(resource), seq, token, id.map(name), accepted, at),
                        (r, s, t, i, a, w)
                    ),
                    (
                        Line::Snapshot { resource, epoch, seen },
                        LogEvent::Snapshot { resource: r, epoch: e, seen: s, .. },
                    ) => {
                        assert_eq!((name(resource), epoch, text(&history, seen)), (r, e, s));
                    }
                    (
                        Line::Granted { resource, token, at },
                        LogEvent::Granted { resource: r, token: t, at: w },
                    )
                    | (
                        Line::Ended { resource, token, at },
                        LogEvent::Ended { resource: r, token: t, at: w, .. },
                    ) => assert_eq!((name(resource), token, at), (r, t, w)),
                    (
                        Line::Led { node, epoch, from_ns, to_ns, error_ns },
                        LogEvent::Led { node: n, epoch: e, from_ns: f, to_ns: t, error_ns: x },
                    ) => assert_eq!((name(node), epoch, from_ns, to_ns, error_ns), (n, e, f, t, x)),
                    both => panic!("{both:?}"),
                }
                continue;
            }
            let (_, payload) = op.pair().unwrap();
            assert_eq!(fast.grant(at), Grant::parse(payload));
            let served = fast.server(at).map(|s| (history.text(s.node), s.epoch, s.leader));
            assert_eq!(served, Served::parse(payload).map(|s| (s.node, s.epoch, s.leader)));
            let seen = fast.observation(at).map(|(seen, _)| text(&history, seen));
            assert_eq!(seen, Observation::parse(payload).map(|read| read.seen));
            let write = FencedWrite::parse(payload);
            let write = write.map(|w| (w.token, w.id, w.believed_valid));
            match (op.f(), fast.asked(at)) {
                ("x", asked) => assert_eq!(asked, None),
                ("acquire", asked) => assert!(matches!(asked, Some(Some((_, Asked::Acquire))))),
                ("read", asked) => assert!(matches!(asked, Some(Some((_, Asked::Read))))),
                ("renew" | "release", asked) => {
                    let token = asked.unwrap().map(|(_, asked)| match asked {
                        Asked::Renew(token) | Asked::Release(token) => token,
                        other => panic!("{other:?}"),
                    });
                    assert_eq!(token, Token::parse(payload));
                }
                (_, asked) => {
                    let asked = asked.unwrap().map(|(_, asked)| match asked {
                        Asked::Write(w) => (w.token, history.text(w.id), w.believed_valid),
                        other => panic!("{other:?}"),
                    });
                    known += usize::from(asked.is_some());
                    assert_eq!(asked, write);
                }
            }
        }
        assert!(known > 10, "{known}");
    }
}
