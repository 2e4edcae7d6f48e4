//! Writing lines. It runs for every event while a run goes on, so it appends to a buffer the
//! caller reuses and allocates nothing itself.

use std::io::{self, Write};

use crate::{Header, History, Op, Process, Value};

/// Writes a whole history, header first.
///
/// # Errors
/// Those of `out`.
pub fn write(mut out: impl Write, history: &History) -> io::Result<()> {
    let mut line = Vec::new();
    write_header(&mut line, history.header());
    for op in history.ops() {
        write_op(&mut line, &op.to_op());
        out.write_all(&line)?;
        line.clear();
    }
    out.write_all(&line)?;
    out.flush()
}

/// Appends the header and a line end.
pub fn write_header(out: &mut Vec<u8>, header: &Header) {
    serde_json::to_writer(&mut *out, header).expect("a header is plain JSON and a Vec takes it");
    out.push(b'\n');
}

/// Appends one event and a line end. What an event does not have (wall clock, error, node) is
/// left out; its value is always there.
pub fn write_op(out: &mut Vec<u8>, op: &Op) {
    out.extend_from_slice(b"{\"index\":");
    write_integer(out, op.index);
    out.extend_from_slice(b",\"time\":");
    write_integer(out, op.time);
    if let Some(wall) = op.wall {
        out.extend_from_slice(b",\"wall\":");
        write_integer(out, wall);
    }
    out.extend_from_slice(b",\"process\":");
    match op.process {
        Process::Client(id) => write_integer(out, id),
        Process::Nemesis => out.extend_from_slice(b"\"nemesis\""),
        Process::Log => out.extend_from_slice(b"\"log\""),
    }
    out.extend_from_slice(b",\"type\":\"");
    out.extend_from_slice(op.kind.as_str().as_bytes());
    out.extend_from_slice(b"\",\"f\":");
    write_text(out, &op.f);
    out.extend_from_slice(b",\"value\":");
    write_value(out, &op.value);
    if !op.error.is_nil() {
        out.extend_from_slice(b",\"error\":");
        write_value(out, &op.error);
    }
    if let Some(node) = &op.node {
        out.extend_from_slice(b",\"node\":");
        write_text(out, node);
    }
    out.extend_from_slice(b"}\n");
}

/// Appends a value as JSON.
fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(n) => write_integer(out, *n),
        Value::Float(x) if x.is_finite() => write!(out, "{x:?}").expect("a Vec takes it"),
        Value::Float(x) => write!(out, "\"{x}\"").expect("a Vec takes it"),
        Value::Str(s) | Value::Keyword(s) => write_text(out, s),
        Value::List(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_value(out, item);
            }
            out.push(b']');
        }
        Value::Map(pairs) => {
            out.push(b'{');
            for (i, (key, value)) in pairs.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                match key.as_str() {
                    Some(text) => write_text(out, text),
                    None => write_text(out, &key.to_string()),
                }
                out.push(b':');
                write_value(out, value);
            }
            out.push(b'}');
        }
    }
}

fn write_integer(out: &mut Vec<u8>, n: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

/// Appends quoted text. Runs without anything to escape are copied whole.
fn write_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut copied = 0;
    for (i, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[copied..i]);
        copied = i + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => write!(out, "\\u{byte:04x}").expect("a Vec takes it"),
        }
    }
    out.extend_from_slice(&bytes[copied..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpType;

    fn line(op: &Op) -> String {
        let mut out = Vec::new();
        write_op(&mut out, op);
        String::from_utf8(out).unwrap()
    }

    /// An event without wall clock, error and node has none of the three.
    #[test]
    fn a_bare_event() {
        let op = Op::new(OpType::Invoke, Process::Nemesis, "partition", Value::Nil);
        assert_eq!(
            line(&op),
            "{\"index\":0,\"time\":0,\"process\":\"nemesis\",\"type\":\"invoke\",\
             \"f\":\"partition\",\"value\":null}\n"
        );
    }

    /// Another JSON parser reads back every kind of value.
    #[test]
    fn a_full_event() {
        let op = Op {
            index: 7,
            time: u64::MAX,
            wall: Some(-5),
            error: Value::str("quote \" slash \\ line\n bell \u{7} é 𝄞"),
            node: Some("n1".into()),
            ..Op::new(
                OpType::Info,
                Process::Client(u32::MAX),
                "txn",
                Value::List(vec![
                    Value::Bool(true),
                    Value::Int(i64::MIN),
                    Value::Float(1.0),
                    Value::Float(f64::NAN),
                    Value::Keyword("append".into()),
                    Value::Map(vec![(1.into(), Value::Nil), ("k".into(), Value::Bool(false))]),
                ]),
            )
        };
        let parsed: serde_json::Value = serde_json::from_str(&line(&op)).unwrap();
        assert_eq!(
            parsed,
            serde_json::json!({
                "index": 7, "time": u64::MAX, "wall": -5, "process": u32::MAX, "type": "info",
                "f": "txn", "error": "quote \" slash \\ line\n bell \u{7} é 𝄞", "node": "n1",
                "value": [true, i64::MIN, 1.0, "NaN", "append", {"1": null, "k": false}],
            })
        );
    }
}
