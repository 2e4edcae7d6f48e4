//! Values of operations as an owned tree. Inside a history they are kept compactly and seen
//! through [`ValueRef`](crate::ValueRef).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A value as a client, a generator or a reader makes it.
///
/// Integers, floats, strings and keywords are kept apart: `1`, `1.0`, `"1"` and `:1` are different
/// values, and a format that can tell them apart gets them back as they were.
#[derive(Debug, Clone, Default)]
pub enum Value {
    /// Nothing: JSON `null`, EDN `nil`.
    #[default]
    Nil,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction. Compared by bits, so that equality is an equivalence.
    Float(f64),
    /// Text.
    Str(Arc<str>),
    /// An EDN keyword, without its colon. Written to JSON as text.
    Keyword(Arc<str>),
    /// An ordered list (EDN lists, vectors and sets too).
    List(Vec<Value>),
    /// Pairs in the order they were read.
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// Text.
    pub fn str(text: impl Into<Arc<str>>) -> Self {
        Self::Str(text.into())
    }

    /// A list of two: how keyed values are written.
    pub fn pair(key: impl Into<Value>, value: impl Into<Value>) -> Self {
        Self::List(vec![key.into(), value.into()])
    }

    /// The whole number, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// The text of a string or keyword.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(s) | Self::Keyword(s) => Some(s),
            _ => None,
        }
    }

    /// The elements, if it is a list.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// The value under a string or keyword key, if it is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Self::Map(pairs) => pairs.iter().find(|(k, _)| k.as_str() == Some(key)).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Whether it is nothing.
    pub const fn is_nil(&self) -> bool {
        matches!(self, Self::Nil)
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nil, Self::Nil) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Str(a), Self::Str(b)) | (Self::Keyword(a), Self::Keyword(b)) => a == b,
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Map(a), Self::Map(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Nil => {}
            Self::Bool(b) => b.hash(state),
            Self::Int(n) => n.hash(state),
            Self::Float(x) => x.to_bits().hash(state),
            Self::Str(s) | Self::Keyword(s) => s.hash(state),
            Self::List(items) => items.hash(state),
            Self::Map(pairs) => pairs.hash(state),
        }
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Self::Int(n)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Self::Str(s.into())
    }
}

impl From<String> for Value {
    fn from(s: String) -> Self {
        Self::Str(s.into())
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::List(items)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nil, Into::into)
    }
}

/// Whole numbers that do not fit 64 signed bits become floats; nothing else is lost.
impl From<serde_json::Value> for Value {
    fn from(json: serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Nil,
            serde_json::Value::Bool(b) => Self::Bool(b),
            serde_json::Value::Number(n) => {
                n.as_i64().map_or_else(|| Self::Float(n.as_f64().unwrap_or(f64::NAN)), Self::Int)
            }
            serde_json::Value::String(s) => Self::Str(s.into()),
            serde_json::Value::Array(items) => {
                Self::List(items.into_iter().map(Self::from).collect())
            }
            serde_json::Value::Object(pairs) => Self::Map(
                pairs.into_iter().map(|(k, v)| (Self::Str(k.into()), Self::from(v))).collect(),
            ),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::Int(n) => write!(f, "{n}"),
            Self::Float(x) => write!(f, "{x}"),
            Self::Str(s) => write!(f, "{s:?}"),
            Self::Keyword(s) => write!(f, ":{s}"),
            Self::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        f.write_str(" ")?;
                    }
                    write!(f, "{item}")?;
                }
                f.write_str("]")
            }
            Self::Map(pairs) => {
                f.write_str("{")?;
                for (i, (key, value)) in pairs.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{key} {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}
