//! A call in words: `write 5`, `read → 4`, `cas 3 4 → ?`.

use deposed_history::{Call, History, OpRef, OpType, Outcome, Process, ValueRef};

use crate::phrase;

/// Longest value in a table, in characters.
const VALUE_CHARS_MAX: usize = 80;

/// A call, split where a reader's eye splits it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallText {
    /// The function and what was asked: `write 5`.
    pub(crate) asked: String,
    /// What came back, if that says more than the outcome: `4`, `?`, `failed`.
    pub(crate) answer: Option<String>,
}

impl CallText {
    /// On one line, with an arrow.
    pub(crate) fn line(&self) -> String {
        match &self.answer {
            None => self.asked.clone(),
            Some(answer) => format!("{} → {answer}", self.asked),
        }
    }
}

/// The key an event concerns, in a history of keyed values.
pub(crate) fn key_value<'h>(history: &'h History, op: OpRef<'h>) -> Option<ValueRef<'h>> {
    split(history, op.value()).0
}

/// `process 3`, `nemesis`, `log`.
pub(crate) fn process_name(process: Process) -> String {
    match process {
        Process::Client(id) => format!("process {id}"),
        other => other.to_string(),
    }
}

fn key_text(key: ValueRef<'_>) -> String {
    phrase::clean(&key.as_str().map_or_else(|| key.to_string(), str::to_owned))
}

/// Key and value of a keyed pair; nothing and the whole otherwise.
fn split<'h>(history: &History, value: ValueRef<'h>) -> (Option<ValueRef<'h>>, ValueRef<'h>) {
    if history.header().keyed
        && let Some(pair) = value.as_list()
        && let (2, Some(key), Some(rest)) = (pair.len(), pair.get(0), pair.get(1))
    {
        return (Some(key), rest);
    }
    (None, value)
}

/// A call in words. Its key is left out if the reader knows it.
pub(crate) fn call_text(history: &History, call: &Call, key_is_known: bool) -> CallText {
    let invoke = history.op(call.invoke);
    let (key, asked_value) = split(history, invoke.value());
    let mut asked = phrase::clean(invoke.f());
    if let (Some(key), false) = (key, key_is_known) {
        asked.push(' ');
        asked.push_str(&key_text(key));
    }
    if !asked_value.is_nil() {
        asked.push(' ');
        asked.push_str(&value_text(asked_value));
    }
    let answer = match (call.outcome(), call.complete()) {
        (Outcome::Ok, Some(complete)) => {
            let value = split(history, history.op(complete).value()).1;
            (value != asked_value || (value.is_nil() && invoke.f().starts_with("read")))
                .then(|| value_text(value))
        }
        (Outcome::Fail, _) => Some("failed".into()),
        _ => Some("?".into()),
    };
    CallText { asked, answer }
}

/// A value: the elements of a flat list without brackets, the rest as written, cut if long.
fn value_text(value: ValueRef<'_>) -> String {
    let text = match value.as_list() {
        Some(list) if list.iter().all(|v| v.as_list().is_none() && v.as_map().is_none()) => {
            list.iter().map(|v| v.to_string()).collect::<Vec<_>>().join(" ")
        }
        _ => value.to_string(),
    };
    phrase::cut(&phrase::clean(&text), VALUE_CHARS_MAX)
}

/// Why a call failed or is indeterminate, if its completion says.
pub(crate) fn error_text(history: &History, call: &Call) -> Option<String> {
    let error = history.op(call.complete()?).error();
    if error.is_nil() {
        return None;
    }
    let text = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
    Some(phrase::cut(&phrase::clean(&text), VALUE_CHARS_MAX))
}

/// `ok`, `fail`, `info`.
pub(crate) const fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => OpType::Ok.as_str(),
        Outcome::Fail => OpType::Fail.as_str(),
        Outcome::Info => OpType::Info.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use deposed_history::{Header, Op, Value};

    use super::*;

    fn said(keyed: bool, f: &str, asked: Value, end: OpType, answered: Value) -> String {
        let ops = [
            Op::new(OpType::Invoke, Process::Client(0), f, asked),
            Op::new(end, Process::Client(0), f, answered),
        ];
        let history = History::from_ops(Header { keyed, ..Header::default() }, &ops);
        call_text(&history, &history.calls()[0], false).line()
    }

    /// The three outcomes of the usual functions read as a person would write them.
    #[test]
    fn calls_read_naturally() {
        let int = Value::Int;
        assert_eq!(said(false, "read", Value::Nil, OpType::Ok, int(4)), "read → 4");
        assert_eq!(said(false, "read", Value::Nil, OpType::Ok, Value::Nil), "read → nil");
        assert_eq!(said(false, "write", int(5), OpType::Ok, int(5)), "write 5");
        assert_eq!(said(false, "write", int(5), OpType::Info, int(5)), "write 5 → ?");
        assert_eq!(said(false, "write", int(5), OpType::Fail, int(5)), "write 5 → failed");
        let pair = Value::pair(3, 4);
        assert_eq!(said(false, "cas", pair.clone(), OpType::Ok, pair), "cas 3 4");
    }

    /// A key is set apart from the value, and only in a keyed history.
    #[test]
    fn keys_are_set_apart() {
        let asked = Value::pair("k1", Value::Nil);
        let answered = Value::pair("k1", 4);
        assert_eq!(said(true, "read", asked, OpType::Ok, answered), "read k1 → 4");
    }
}
