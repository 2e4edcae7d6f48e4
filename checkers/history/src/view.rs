//! A borrowed view of a value inside a history.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::Value;
use crate::arena::Arena;
use crate::narrow::Cells;

/// A value inside a [`History`](crate::History), without copying it.
#[derive(Debug, Clone, Copy)]
pub enum ValueRef<'h> {
    /// Nothing.
    Nil,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// Text.
    Str(&'h str),
    /// A keyword, without its colon.
    Keyword(&'h str),
    /// A list.
    List(ListRef<'h>),
    /// A map.
    Map(MapRef<'h>),
}

/// The elements of a list inside a history.
#[derive(Clone, Copy)]
pub struct ListRef<'h> {
    pub(crate) arena: &'h Arena,
    pub(crate) items: Cells<'h>,
}

/// The pairs of a map inside a history.
#[derive(Clone, Copy)]
pub struct MapRef<'h> {
    pub(crate) arena: &'h Arena,
    pub(crate) items: Cells<'h>,
}

impl<'h> ListRef<'h> {
    /// How many elements.
    pub const fn len(self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.items.is_empty()
    }

    /// The element at a position.
    pub fn get(self, position: usize) -> Option<ValueRef<'h>> {
        self.items.get(position).map(|cell| self.arena.view(cell))
    }

    /// Whether it begins with all elements of another list.
    pub fn starts_with(self, prefix: Self) -> bool {
        let Some(head) = self.items.first(prefix.items.len()) else { return false };
        // Equal cells of one arena are equal values, and mostly that decides.
        head.same(prefix.items)
            || (head.iter().zip(prefix.items.iter()))
                .all(|(a, b)| self.arena.view(a) == prefix.arena.view(b))
    }

    /// The elements in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = ValueRef<'h>> + DoubleEndedIterator {
        self.items.iter().map(move |cell| self.arena.view(cell))
    }
}

impl<'h> MapRef<'h> {
    /// How many pairs.
    pub const fn len(self) -> usize {
        self.items.len() / 2
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.items.is_empty()
    }

    /// The pairs in the order they were read.
    pub fn iter(self) -> impl ExactSizeIterator<Item = (ValueRef<'h>, ValueRef<'h>)> {
        self.items.pairs().map(move |(key, value)| (self.arena.view(key), self.arena.view(value)))
    }

    /// The value under a string or keyword key.
    pub fn get(self, key: &str) -> Option<ValueRef<'h>> {
        self.iter().find(|(k, _)| k.as_str() == Some(key)).map(|(_, v)| v)
    }
}

impl fmt::Debug for ListRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for MapRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'h> ValueRef<'h> {
    /// The whole number, if it is one.
    pub const fn as_int(self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(n),
            _ => None,
        }
    }

    /// The text of a string or keyword.
    pub const fn as_str(self) -> Option<&'h str> {
        match self {
            Self::Str(s) | Self::Keyword(s) => Some(s),
            _ => None,
        }
    }

    /// The elements, if it is a list.
    pub const fn as_list(self) -> Option<ListRef<'h>> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// The two elements, if it is a list of two.
    #[inline]
    pub fn as_pair(self) -> Option<(Self, Self)> {
        match self {
            Self::List(ListRef { arena, items }) if items.len() == 2 => {
                items.pairs().next().map(|(a, b)| (arena.view(a), arena.view(b)))
            }
            _ => None,
        }
    }

    /// The pairs, if it is a map.
    pub const fn as_map(self) -> Option<MapRef<'h>> {
        match self {
            Self::Map(pairs) => Some(pairs),
            _ => None,
        }
    }

    /// Whether it is nothing.
    pub const fn is_nil(self) -> bool {
        matches!(self, Self::Nil)
    }

    /// A copy that owns itself.
    pub fn to_value(self) -> Value {
        match self {
            Self::Nil => Value::Nil,
            Self::Bool(b) => Value::Bool(b),
            Self::Int(n) => Value::Int(n),
            Self::Float(x) => Value::Float(x),
            Self::Str(s) => Value::Str(s.into()),
            Self::Keyword(s) => Value::Keyword(s.into()),
            Self::List(items) => Value::List(items.iter().map(Self::to_value).collect()),
            Self::Map(pairs) => {
                Value::Map(pairs.iter().map(|(k, v)| (k.to_value(), v.to_value())).collect())
            }
        }
    }
}

impl PartialEq for ValueRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::Nil, Self::Nil) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Str(a), Self::Str(b)) | (Self::Keyword(a), Self::Keyword(b)) => a == b,
            (Self::List(a), Self::List(b)) => a.len() == b.len() && a.iter().eq(b.iter()),
            (Self::Map(a), Self::Map(b)) => a.len() == b.len() && a.iter().eq(b.iter()),
            _ => false,
        }
    }
}

impl Eq for ValueRef<'_> {}

impl Hash for ValueRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match *self {
            Self::Nil => {}
            Self::Bool(b) => b.hash(state),
            Self::Int(n) => n.hash(state),
            Self::Float(x) => x.to_bits().hash(state),
            Self::Str(s) | Self::Keyword(s) => s.hash(state),
            Self::List(items) => items.iter().for_each(|v| v.hash(state)),
            Self::Map(pairs) => pairs.iter().for_each(|(k, v)| {
                k.hash(state);
                v.hash(state);
            }),
        }
    }
}

impl fmt::Display for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}
