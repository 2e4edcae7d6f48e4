//! A history split by object: each object's calls are judged on their own (Horn & Kroening 2015:
//! a history is linearizable if and only if that of each object is).

use deposed_history::{Call, History, Outcome, Value, ValueRef};
use rustc_hash::FxHashMap;

/// The calls on one object, in the order of their invocations.
#[derive(Debug)]
pub(crate) struct Object {
    /// Its key, if the history has several objects.
    pub(crate) key: Option<Value>,
    /// Indices into [`History::calls`].
    pub(crate) calls: Vec<u32>,
}

/// The objects of a history, in the order of their first call.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) objects: Vec<Object>,
    /// Calls that matter and name no key, in a keyed history.
    pub(crate) keyless: Vec<u32>,
}

/// Splits a history. With `keyed`, values are `[key, value]` pairs.
pub(crate) fn split(history: &History, keyed: bool) -> Objects {
    let calls = history.calls();
    if !keyed {
        let all = (0..calls.len() as u32).collect();
        return Objects { objects: vec![Object { key: None, calls: all }], keyless: Vec::new() };
    }
    let mut objects: Vec<Object> = Vec::new();
    let mut keyless = Vec::new();
    let mut by_int: FxHashMap<i64, u32> = FxHashMap::default();
    let mut by_value: FxHashMap<ValueRef<'_>, u32> = FxHashMap::default();
    for (index, call) in calls.iter().enumerate() {
        let Some(key) = key_of(history, *call) else {
            if call.outcome() != Outcome::Fail {
                keyless.push(index as u32);
            }
            continue;
        };
        let fresh = objects.len() as u32;
        let at = match key {
            ValueRef::Int(n) => *by_int.entry(n).or_insert(fresh),
            other => *by_value.entry(other).or_insert(fresh),
        };
        if at == fresh {
            objects.push(Object { key: Some(key.to_value()), calls: Vec::new() });
        }
        objects[at as usize].calls.push(index as u32);
    }
    Objects { objects, keyless }
}

/// The key of a call: its invocation's, else its completion's.
fn key_of(history: &History, call: Call) -> Option<ValueRef<'_>> {
    let of = |position| match history.op(position).value() {
        ValueRef::List(pair) if pair.len() == 2 => pair.get(0),
        _ => None,
    };
    of(call.invoke).or_else(|| call.complete().and_then(of))
}
