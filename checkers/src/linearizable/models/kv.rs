//! One key of a store of strings.

use std::sync::Arc;

use deposed_history::{Outcome, ValueRef};

use crate::linearizable::model::{CallView, Leads, Malformed, Model};

/// A string: `get`, `put s`, `append s` (also `read` and `write`). Initially empty; nil is empty.
/// Histories of a store are keyed: each key is an object of its own.
#[derive(Debug, Clone, Copy)]
pub struct Kv;

/// What a call on a key says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KvOp {
    /// The string was this.
    Get(Arc<str>),
    /// The string is this from now on.
    Put(Arc<str>),
    /// The string goes on with this from now on.
    Append(Arc<str>),
}

/// A string, or what is known of its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KvState {
    text: Arc<str>,
    /// Whether `text` is all of it.
    whole: bool,
}

impl KvState {
    fn whole(text: &Arc<str>) -> Self {
        Self { text: Arc::clone(text), whole: true }
    }
}

fn text(value: ValueRef<'_>) -> Arc<str> {
    match value {
        ValueRef::Nil => "".into(),
        ValueRef::Str(text) | ValueRef::Keyword(text) => text.into(),
        other => other.to_string().into(),
    }
}

impl Model for Kv {
    type State = KvState;
    type Op = KvOp;

    fn name(&self) -> &str {
        "kv"
    }

    fn parse(&self, call: &CallView<'_>) -> Result<Option<KvOp>, Malformed> {
        let value = || text(call.value());
        match (call.f(), call.outcome()) {
            ("get" | "read", Outcome::Ok) => Ok(Some(KvOp::Get(value()))),
            ("get" | "read", _) | ("put" | "write" | "append", Outcome::Fail) => Ok(None),
            ("put" | "write", _) => Ok(Some(KvOp::Put(value()))),
            ("append", _) => Ok(Some(KvOp::Append(value()))),
            _ => Err(call.unknown_function(self.name(), "get, put, append")),
        }
    }

    fn init(&self) -> KvState {
        KvState { text: "".into(), whole: true }
    }

    fn step(&self, state: &KvState, op: &KvOp) -> Option<KvState> {
        match op {
            KvOp::Get(v) if state.whole => (*v == state.text).then(|| state.clone()),
            KvOp::Get(v) => v.ends_with(&*state.text).then(|| KvState::whole(v)),
            KvOp::Put(v) => Some(KvState::whole(v)),
            KvOp::Append(v) => {
                Some(KvState { text: format!("{}{v}", state.text).into(), whole: state.whole })
            }
        }
    }

    fn bytes_inside(&self, state: &KvState) -> usize {
        state.text.len()
    }

    fn describe(&self, op: &KvOp) -> String {
        match op {
            KvOp::Get(v) => format!("got {v:?}"),
            KvOp::Put(v) => format!("put {v:?}"),
            KvOp::Append(v) => format!("appended {v:?}"),
        }
    }

    fn describe_state(&self, state: &KvState) -> String {
        match state {
            KvState { text, whole: true } => format!("the value is {text:?}"),
            KvState { text, whole: false } => format!("the value ends with {text:?}"),
        }
    }

    fn is_pure(&self, op: &KvOp) -> bool {
        matches!(op, KvOp::Get(_))
    }

    fn requires(&self, op: &KvOp) -> Option<KvState> {
        match op {
            KvOp::Get(v) => Some(KvState::whole(v)),
            _ => None,
        }
    }

    fn leads_to(&self, op: &KvOp) -> Leads<KvState> {
        match op {
            KvOp::Get(_) => Leads::Nowhere,
            KvOp::Put(v) => Leads::To(KvState::whole(v)),
            KvOp::Append(_) => Leads::Further,
        }
    }

    /// Appends keep what is there.
    fn rules_out(&self, state: &KvState, op: &KvOp) -> bool {
        match op {
            KvOp::Get(v) if state.whole => !v.starts_with(&*state.text),
            KvOp::Get(v) => !v.contains(&*state.text),
            _ => false,
        }
    }

    fn is_exact(&self, op: &KvOp) -> bool {
        !matches!(op, KvOp::Append(_))
    }

    fn anything(&self) -> Option<KvState> {
        Some(KvState { text: "".into(), whole: false })
    }

    /// A put matters only to gets of what begins with it; an append only to gets that contain it.
    fn dispensable(&self, op: &KvOp, kept: &[&KvOp]) -> bool {
        let seen =
            |test: &dyn Fn(&str) -> bool| kept.iter().any(|k| matches!(k, KvOp::Get(v) if test(v)));
        match op {
            KvOp::Get(_) => true,
            KvOp::Put(v) => !seen(&|text| text.starts_with(&**v)),
            KvOp::Append(v) => v.is_empty() || !seen(&|text| text.contains(&**v)),
        }
    }
}
