//! Several registers that are read and written together.

use std::collections::BTreeMap;

use deposed_history::{Outcome, Value, ValueRef};

use crate::linearizable::model::{CallView, Leads, Malformed, Model};

/// Registers by name: `txn [[f register value] ...]` with `f` one of `r`, `read`, `w`, `write`.
/// Each is initially nil.
#[derive(Debug, Clone, Copy)]
pub struct MultiRegister;

/// What one call says, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MultiRegisterOp(pub Vec<Access>);

/// One access to one register.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Access {
    /// The register's value was this.
    Read(Value, Value),
    /// The register's value is this from now on.
    Write(Value, Value),
}

/// The registers that are not nil, or what is known of them. By a text that tells all
/// names apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MultiRegisterState {
    known: BTreeMap<String, Value>,
    /// Whether registers that are not in `known` are nil.
    whole: bool,
}

impl MultiRegisterOp {
    fn is_read_only(&self) -> bool {
        self.0.iter().all(|access| matches!(access, Access::Read(..)))
    }
}

fn access(item: ValueRef<'_>) -> Option<Access> {
    let items = item.as_list().filter(|items| items.len() == 3)?;
    let (f, register, value) = (items.get(0)?, items.get(1)?.to_value(), items.get(2)?.to_value());
    match f.as_str()? {
        "r" | "read" => Some(Access::Read(register, value)),
        "w" | "write" => Some(Access::Write(register, value)),
        _ => None,
    }
}

impl Model for MultiRegister {
    type State = MultiRegisterState;
    type Op = MultiRegisterOp;

    fn name(&self) -> &str {
        "multi-register"
    }

    fn parse(&self, call: &CallView<'_>) -> Result<Option<MultiRegisterOp>, Malformed> {
        if call.f() != "txn" {
            return Err(call.unknown_function(self.name(), "txn"));
        }
        if call.outcome() == Outcome::Fail {
            return Ok(None);
        }
        let accesses: Option<Vec<Access>> =
            call.value().as_list().and_then(|items| items.iter().map(access).collect());
        let mut op = MultiRegisterOp(
            accesses.ok_or_else(|| call.bad_value("[[\"r\" or \"w\" register value] ...]"))?,
        );
        if call.outcome() == Outcome::Info {
            op.0.retain(|access| matches!(access, Access::Write(..)));
        }
        Ok(Some(op).filter(|op| !op.0.is_empty()))
    }

    fn init(&self) -> MultiRegisterState {
        MultiRegisterState { known: BTreeMap::new(), whole: true }
    }

    fn step(&self, state: &MultiRegisterState, op: &MultiRegisterOp) -> Option<MultiRegisterState> {
        let mut state = state.clone();
        for access in &op.0 {
            match access {
                Access::Write(register, value) => {
                    state.set(register, value);
                }
                Access::Read(register, value) => match state.known.get(&exactly(register)) {
                    Some(known) if known == value => {}
                    Some(_) => return None,
                    None if !state.whole => state.set(register, value),
                    None if value.is_nil() => {}
                    None => return None,
                },
            }
        }
        Some(state)
    }

    fn bytes_inside(&self, state: &MultiRegisterState) -> usize {
        state.known.keys().map(|key| key.len() + size_of::<(String, Value)>() + 16).sum()
    }

    fn describe(&self, op: &MultiRegisterOp) -> String {
        let parts: Vec<String> =
            op.0.iter()
                .map(|access| match access {
                    Access::Read(register, value) => format!("read {register} = {value}"),
                    Access::Write(register, value) => format!("wrote {register} = {value}"),
                })
                .collect();
        parts.join(" and ")
    }

    fn describe_state(&self, state: &MultiRegisterState) -> String {
        let known: Vec<String> =
            state.known.iter().map(|(register, value)| format!("{register} = {value}")).collect();
        match (known.is_empty(), state.whole) {
            (true, true) => "all registers are nil".into(),
            (true, false) => "the registers could be anything".into(),
            (false, _) => format!("the registers are {}", known.join(", ")),
        }
    }

    fn is_pure(&self, op: &MultiRegisterOp) -> bool {
        op.is_read_only()
    }

    fn leads_to(&self, op: &MultiRegisterOp) -> Leads<MultiRegisterState> {
        if op.is_read_only() { Leads::Nowhere } else { Leads::Anywhere }
    }

    fn anything(&self) -> Option<MultiRegisterState> {
        Some(MultiRegisterState { known: BTreeMap::new(), whole: false })
    }

    /// The writes alone.
    fn relaxed(&self, op: &MultiRegisterOp) -> Option<MultiRegisterOp> {
        let mut writes = op.clone();
        writes.0.retain(|access| matches!(access, Access::Write(..)));
        (!writes.0.is_empty() && writes != *op).then_some(writes)
    }

    /// Writes matter only to reads of what they wrote.
    fn dispensable(&self, op: &MultiRegisterOp, kept: &[&MultiRegisterOp]) -> bool {
        op.0.iter().all(|access| match access {
            Access::Read(..) => true,
            Access::Write(register, value) => !kept.iter().any(|other| {
                other.0.iter().any(
                    |access| matches!(access, Access::Read(r, v) if r == register && v == value),
                )
            }),
        })
    }
}

impl MultiRegisterState {
    /// Nil registers are left out of whole states, so that equal states look equal.
    fn set(&mut self, register: &Value, value: &Value) {
        if self.whole && value.is_nil() {
            self.known.remove(&exactly(register));
        } else {
            self.known.insert(exactly(register), value.clone());
        }
    }
}

/// A text that tells all values apart: 1 and 1.0 too.
fn exactly(value: &Value) -> String {
    format!("{value:?}")
}
