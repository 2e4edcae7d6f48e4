//! The calls on one register as numbers: values are interned, events are times.

use deposed_history::{History, Outcome, Symbol, ValueRef};
use rustc_hash::FxHashMap;

use crate::linearizable::NEVER;
use crate::linearizable::model::{CallView, Malformed, Model as _};
use crate::linearizable::models::Register;

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum F {
    /// The value was `a`.
    Read,
    /// The value becomes `a`.
    Write,
    /// The value was `a` and becomes `b`.
    Cas,
    /// The value was not `a`.
    Miss,
}

/// One call that matters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RegisterCall {
    /// Time of the invocation: its position + 1, so that 0 is before everything.
    pub(crate) inv: u32,
    /// Time of the return, [`NEVER`] if it may or may not have happened.
    pub(crate) ret: u32,
    pub(crate) a: u32,
    pub(crate) b: u32,
    /// Index into the history's calls.
    pub(crate) call: u32,
    pub(crate) f: F,
}

impl RegisterCall {
    /// Whether nobody knows if it happened.
    pub(crate) const fn is_optional(&self) -> bool {
        self.ret == NEVER
    }

    /// The value it leaves behind, if it changes anything.
    pub(crate) const fn product(&self) -> Option<u32> {
        match self.f {
            F::Write => Some(self.a),
            F::Cas => Some(self.b),
            F::Read | F::Miss => None,
        }
    }

    /// The one value it needs.
    pub(crate) const fn observed(&self) -> Option<u32> {
        match self.f {
            F::Read | F::Cas => Some(self.a),
            F::Write | F::Miss => None,
        }
    }
}

/// The calls on one register, in the order of their invocations.
#[derive(Debug)]
pub(crate) struct Compact {
    pub(crate) calls: Vec<RegisterCall>,
    /// Values are `0..values`; 0 is nil, the initial one.
    pub(crate) values: u32,
}

/// Reads the calls of one object; `calls` are indices into the history's. Indeterminate reads,
/// failed calls that observed nothing and indeterminate cas to the same value are left out, and
/// a cas to the same value that happened is a read. Errs with the first call that does not fit.
pub(crate) fn compact(
    history: &History,
    calls: &[u32],
    keyed: bool,
    model: Register,
) -> Result<Compact, (u32, Malformed)> {
    let mut values = Interner::new(calls.len());
    let mut functions: Vec<(Symbol, Option<F>)> = Vec::with_capacity(4);
    let mut compact = Vec::with_capacity(calls.len());
    for &index in calls {
        let call = history.calls()[index as usize];
        let view = CallView::new(history, call, keyed);
        if call.outcome == Outcome::Fail && !view.is_precondition() {
            continue;
        }
        let symbol = history.op(call.invoke).f_symbol();
        let f = match functions.iter().find(|(known, _)| *known == symbol) {
            Some((_, f)) => *f,
            None => {
                let f = function(history.text(symbol), model.cas);
                functions.push((symbol, f));
                f
            }
        };
        let (f, a, b) = match (f, call.outcome) {
            (Some(F::Read), Outcome::Ok) => (F::Read, values.intern(view.value()), 0),
            (Some(F::Read), _) | (Some(F::Write), Outcome::Fail) => continue,
            (Some(F::Write), _) => (F::Write, values.intern(view.value()), 0),
            (Some(_), outcome) => {
                let ValueRef::List(pair) = view.value() else {
                    return malformed(index, &view, model);
                };
                let (Some(from), Some(to), 2) = (pair.get(0), pair.get(1), pair.len()) else {
                    return malformed(index, &view, model);
                };
                let (a, b) = (values.intern(from), values.intern(to));
                match outcome {
                    Outcome::Fail => (F::Miss, a, 0),
                    Outcome::Ok if a == b => (F::Read, a, 0),
                    Outcome::Info if a == b => continue,
                    _ => (F::Cas, a, b),
                }
            }
            (None, _) => return malformed(index, &view, model),
        };
        let ret = match (call.outcome, call.complete) {
            (Outcome::Ok | Outcome::Fail, Some(position)) => position + 1,
            _ => NEVER,
        };
        compact.push(RegisterCall { inv: call.invoke + 1, ret, a, b, call: index, f });
    }
    Ok(Compact { calls: compact, values: values.next })
}

fn function(name: &str, cas: bool) -> Option<F> {
    match name {
        "read" => Some(F::Read),
        "write" => Some(F::Write),
        "cas" if cas => Some(F::Cas),
        _ => None,
    }
}

/// The model itself says best what is wrong with a call.
fn malformed<T>(index: u32, view: &CallView<'_>, model: Register) -> Result<T, (u32, Malformed)> {
    let why = model.parse(view).err().unwrap_or_else(|| view.bad_value("a register's value"));
    Err((index, why))
}

/// Values as numbers from 1; nil is 0. Small whole numbers, which most values are, need no hashing.
struct Interner<'h> {
    small: Vec<u32>,
    small_max: usize,
    others: FxHashMap<ValueRef<'h>, u32>,
    next: u32,
}

impl<'h> Interner<'h> {
    fn new(calls: usize) -> Self {
        let small_max = calls.saturating_mul(4) + 1024;
        Self { small: Vec::new(), small_max, others: FxHashMap::default(), next: 1 }
    }

    fn intern(&mut self, value: ValueRef<'h>) -> u32 {
        let id = match value {
            ValueRef::Nil => return 0,
            ValueRef::Int(n) if n >= 0 && (n as u64) < self.small_max as u64 => {
                let n = n as usize;
                if n >= self.small.len() {
                    let len = (n + 1).next_power_of_two().min(self.small_max);
                    self.small.resize(len, 0);
                }
                &mut self.small[n]
            }
            other => self.others.entry(other).or_insert(0),
        };
        if *id == 0 {
            *id = self.next;
            self.next += 1;
        }
        *id
    }
}
