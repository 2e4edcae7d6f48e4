//! One value that can be read, written and, perhaps, compared and set.

use deposed_history::{Outcome, Value};

use crate::linearizable::model::{CallView, Leads, Malformed, Model};

/// A register: `read`, `write v`, and with `cas` also `cas [from to]`. Initially nil.
///
/// A cas that failed with the error `precondition` is an observation: the value was not `from`.
#[derive(Debug, Clone, Copy)]
pub struct Register {
    /// Whether it can be compared and set.
    pub cas: bool,
}

/// What a call on a register says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RegisterOp {
    /// The value was this.
    Read(Value),
    /// The value is this from now on.
    Write(Value),
    /// The value was the first and is the second from now on.
    Cas(Value, Value),
    /// The value was not this: a cas that found its comparison false.
    Miss(Value),
}

impl RegisterOp {
    /// Whether it can happen at `value`, if it depends on the value at all.
    fn observes(&self, value: &Value) -> bool {
        match self {
            Self::Read(v) | Self::Cas(v, _) => v == value,
            Self::Miss(v) => v != value,
            Self::Write(_) => false,
        }
    }
}

impl Model for Register {
    /// `None`: any value.
    type State = Option<Value>;
    type Op = RegisterOp;

    fn name(&self) -> &str {
        if self.cas { "cas-register" } else { "register" }
    }

    fn parse(&self, call: &CallView<'_>) -> Result<Option<RegisterOp>, Malformed> {
        match (call.f(), call.outcome()) {
            ("read", Outcome::Ok) => Ok(Some(RegisterOp::Read(call.owned()))),
            ("read", _) | ("write", Outcome::Fail) => Ok(None),
            ("write", _) => Ok(Some(RegisterOp::Write(call.owned()))),
            ("cas", outcome) if self.cas => {
                let pair = call.value().as_list().filter(|pair| pair.len() == 2);
                let (Some(from), Some(to)) =
                    (pair.and_then(|p| p.get(0)), pair.and_then(|p| p.get(1)))
                else {
                    return Err(call.bad_value("[expected new]"));
                };
                Ok(Some(match outcome {
                    Outcome::Fail => RegisterOp::Miss(from.to_value()),
                    _ => RegisterOp::Cas(from.to_value(), to.to_value()),
                }))
            }
            _ if self.cas => Err(call.unknown_function("cas-register", "read, write, cas")),
            _ => Err(call.unknown_function("register", "read, write")),
        }
    }

    fn init(&self) -> Option<Value> {
        Some(Value::Nil)
    }

    fn step(&self, state: &Option<Value>, op: &RegisterOp) -> Option<Option<Value>> {
        let fits = |wanted: &Value| state.as_ref().is_none_or(|value| value == wanted);
        match op {
            RegisterOp::Read(v) => fits(v).then(|| Some(v.clone())),
            RegisterOp::Write(v) => Some(Some(v.clone())),
            RegisterOp::Cas(from, to) => fits(from).then(|| Some(to.clone())),
            RegisterOp::Miss(v) => (state.as_ref() != Some(v)).then(|| state.clone()),
        }
    }

    fn describe(&self, op: &RegisterOp) -> String {
        match op {
            RegisterOp::Read(v) => format!("read {v}"),
            RegisterOp::Write(v) => format!("wrote {v}"),
            RegisterOp::Cas(from, to) => format!("changed {from} to {to}"),
            RegisterOp::Miss(v) => format!("found the value not to be {v}"),
        }
    }

    fn describe_state(&self, state: &Option<Value>) -> String {
        match state {
            Some(value) => format!("the value is {value}"),
            None => "the value could be anything".into(),
        }
    }

    fn is_pure(&self, op: &RegisterOp) -> bool {
        match op {
            RegisterOp::Read(_) | RegisterOp::Miss(_) => true,
            RegisterOp::Cas(from, to) => from == to,
            RegisterOp::Write(_) => false,
        }
    }

    fn requires(&self, op: &RegisterOp) -> Option<Option<Value>> {
        match op {
            RegisterOp::Read(v) | RegisterOp::Cas(v, _) => Some(Some(v.clone())),
            _ => None,
        }
    }

    fn leads_to(&self, op: &RegisterOp) -> Leads<Option<Value>> {
        match op {
            RegisterOp::Write(v) | RegisterOp::Cas(_, v) => Leads::To(Some(v.clone())),
            _ => Leads::Nowhere,
        }
    }

    fn is_exact(&self, op: &RegisterOp) -> bool {
        !matches!(op, RegisterOp::Miss(_))
    }

    fn fork_name(&self) -> Option<&'static str> {
        Some("lost-update")
    }

    fn anything(&self) -> Option<Option<Value>> {
        Some(None)
    }

    fn relaxed(&self, op: &RegisterOp) -> Option<RegisterOp> {
        match op {
            RegisterOp::Cas(_, to) => Some(RegisterOp::Write(to.clone())),
            _ => None,
        }
    }

    fn dispensable(&self, op: &RegisterOp, kept: &[&RegisterOp]) -> bool {
        match op {
            RegisterOp::Write(v) | RegisterOp::Cas(_, v) => !kept.iter().any(|k| k.observes(v)),
            _ => true,
        }
    }
}
