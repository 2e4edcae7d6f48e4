//! Registers against brute force.

use super::oracle::{End, Random, Spec, fuzz};
use crate::linearizable::models::Register;
use crate::{Checker, Linearizable, ModelKind};
use deposed_history::Value;

#[derive(Debug, Clone)]
pub(crate) enum RegisterOp {
    Read(Option<i64>),
    Write(Option<i64>),
    Cas(Option<i64>, Option<i64>),
}

pub(crate) struct RegisterSpec {
    pub(crate) cas: bool,
    /// Values are drawn from so many, or are all different.
    pub(crate) values: Option<u64>,
    /// Whether a refused cas says so.
    pub(crate) observes: bool,
}

impl RegisterSpec {
    fn value(&self, random: &mut Random, serial: i64) -> Option<i64> {
        match self.values {
            Some(0) => Some(1),
            Some(n) => Some(random.below(n) as i64).filter(|_| !random.chance(3)),
            None => Some(serial),
        }
    }

    fn guess(&self, random: &mut Random, serial: i64) -> Option<i64> {
        match self.values {
            Some(n) => Some(random.below(n + 1) as i64),
            None => Some(serial - 1 - random.below(3) as i64).filter(|v| *v > 0),
        }
    }
}

impl Spec for RegisterSpec {
    type Op = RegisterOp;
    type State = Option<i64>;

    fn init(&self) -> Option<i64> {
        None
    }

    fn random(&self, random: &mut Random, serial: i64, _process: u32) -> RegisterOp {
        match random.below(if self.cas { 3 } else { 2 }) {
            0 => RegisterOp::Read(None),
            1 => RegisterOp::Write(self.value(random, serial)),
            _ => RegisterOp::Cas(self.guess(random, serial), self.value(random, serial)),
        }
    }

    fn execute(&self, state: &mut Option<i64>, op: &mut RegisterOp) -> bool {
        match op {
            RegisterOp::Read(v) => *v = *state,
            RegisterOp::Write(v) => *state = *v,
            RegisterOp::Cas(from, to) if from == state => *state = *to,
            RegisterOp::Cas(..) => return false,
        }
        true
    }

    fn replay(&self, state: &mut Option<i64>, op: &RegisterOp, _process: u32, end: End) -> bool {
        match op {
            // An indeterminate read saw nobody knows what.
            RegisterOp::Read(v) => end != End::Ok || v == state,
            RegisterOp::Write(v) => {
                *state = *v;
                true
            }
            RegisterOp::Cas(from, _) if end == End::Precondition => from != state,
            RegisterOp::Cas(from, to) => {
                let fits = from == state;
                if fits {
                    *state = *to;
                }
                fits
            }
        }
    }

    fn corrupt(&self, op: &mut RegisterOp, random: &mut Random) {
        let other = Some(random.below(self.values.unwrap_or(8) + 1) as i64).filter(|v| *v > 0);
        match op {
            RegisterOp::Read(v) => *v = other,
            RegisterOp::Cas(from, _) => *from = other,
            RegisterOp::Write(v) if self.values.is_some() => *v = other,
            RegisterOp::Write(_) => {}
        }
    }

    fn refusal(&self, random: &mut Random) -> End {
        if self.observes && random.chance(70) { End::Precondition } else { End::Fail }
    }

    fn events(&self, op: &RegisterOp) -> (&'static str, Value, Value) {
        let value = |v: &Option<i64>| v.map_or(Value::Nil, Value::Int);
        match op {
            RegisterOp::Read(v) => ("read", Value::Nil, value(v)),
            // A completion without a value: the invocation's counts.
            RegisterOp::Write(v) => ("write", value(v), Value::Nil),
            RegisterOp::Cas(from, to) => {
                let pair = Value::List(vec![value(from), value(to)]);
                ("cas", pair.clone(), pair)
            }
        }
    }
}

fn checkers(cas: bool) -> Vec<(&'static str, Box<dyn Checker>)> {
    let kind = if cas { ModelKind::CasRegister } else { ModelKind::Register };
    vec![
        ("product", Box::new(Linearizable::new(kind)) as Box<dyn Checker>),
        ("search", Box::new(Linearizable::with_model(Register { cas }))),
    ]
}

/// Unique values: the zone algorithm agrees with brute force.
#[test]
fn unique_registers_agree_with_brute_force() {
    let spec = RegisterSpec { cas: false, values: None, observes: false };
    fuzz("unique register", &spec, &checkers(false), 9);
}

/// Unique values with cas: the zone algorithm agrees with brute force.
#[test]
fn unique_cas_registers_agree_with_brute_force() {
    let spec = RegisterSpec { cas: true, values: None, observes: false };
    fuzz("unique cas-register", &spec, &checkers(true), 9);
}

/// Unique values with cas that observe when they fail.
#[test]
fn unique_cas_registers_with_misses_agree_with_brute_force() {
    let spec = RegisterSpec { cas: true, values: None, observes: true };
    fuzz("unique cas-register with misses", &spec, &checkers(true), 9);
}

/// Few values: the searches agree with brute force.
#[test]
fn small_registers_agree_with_brute_force() {
    let spec = RegisterSpec { cas: false, values: Some(2), observes: false };
    fuzz("small register", &spec, &checkers(false), 9);
}

/// Few values with cas.
#[test]
fn small_cas_registers_agree_with_brute_force() {
    let spec = RegisterSpec { cas: true, values: Some(3), observes: false };
    fuzz("small cas-register", &spec, &checkers(true), 9);
}

/// Few values with cas that observe when they fail.
#[test]
fn small_cas_registers_with_misses_agree_with_brute_force() {
    let spec = RegisterSpec { cas: true, values: Some(3), observes: true };
    fuzz("small cas-register with misses", &spec, &checkers(true), 9);
}
