//! Writing EDN as Jepsen does: one map a line. [`read`](crate::read()) gives back the same history;
//! Jepsen's, Knossos's and Elle's tools read it too, for what is ours alone stands in a comment.

use std::io::{self, Write};

use crate::read::{EDN_HEADER, KEYWORD_TAG};
use crate::{Header, History, Op, Process, Value};

/// Writes a whole history.
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

/// Appends the header, as a comment.
fn write_header(out: &mut Vec<u8>, header: &Header) {
    out.extend_from_slice(EDN_HEADER.as_bytes());
    crate::jsonl::write_header(out, header);
}

/// Appends one event and a line end.
pub fn write_op(out: &mut Vec<u8>, op: &Op) {
    let mut number = itoa::Buffer::new();
    out.extend_from_slice(b"{:index ");
    out.extend_from_slice(number.format(op.index).as_bytes());
    out.extend_from_slice(b", :time ");
    out.extend_from_slice(number.format(op.time).as_bytes());
    if let Some(wall) = op.wall {
        out.extend_from_slice(b", :wall ");
        out.extend_from_slice(number.format(wall).as_bytes());
    }
    out.extend_from_slice(b", :type :");
    out.extend_from_slice(op.kind.as_str().as_bytes());
    out.extend_from_slice(b", :process ");
    match op.process {
        Process::Client(id) => out.extend_from_slice(number.format(id).as_bytes()),
        Process::Nemesis => out.extend_from_slice(b":nemesis"),
        Process::Log => out.extend_from_slice(b":log"),
    }
    out.extend_from_slice(b", :f ");
    if is_keyword(&op.f) {
        out.push(b':');
        out.extend_from_slice(op.f.as_bytes());
    } else {
        write_text(out, &op.f);
    }
    out.extend_from_slice(b", :value ");
    write_value(out, &op.value);
    if !op.error.is_nil() {
        out.extend_from_slice(b", :error ");
        write_value(out, &op.error);
    }
    if let Some(node) = &op.node {
        out.extend_from_slice(b", :node ");
        write_text(out, node);
    }
    out.extend_from_slice(b"}\n");
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Nil => out.extend_from_slice(b"nil"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(n) => out.extend_from_slice(itoa::Buffer::new().format(*n).as_bytes()),
        Value::Float(x) if x.is_nan() => out.extend_from_slice(b"##NaN"),
        Value::Float(x) if x.is_infinite() && *x > 0.0 => out.extend_from_slice(b"##Inf"),
        Value::Float(x) if x.is_infinite() => out.extend_from_slice(b"##-Inf"),
        Value::Float(x) => write!(out, "{x:?}").expect("a Vec takes it"),
        Value::Str(text) => write_text(out, text),
        Value::Keyword(name) if is_keyword(name) => {
            out.push(b':');
            out.extend_from_slice(name.as_bytes());
        }
        Value::Keyword(name) => {
            write!(out, "#{KEYWORD_TAG} ").expect("a Vec takes it");
            write_text(out, name);
        }
        Value::List(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b' ');
                }
                write_value(out, item);
            }
            out.push(b']');
        }
        Value::Map(pairs) => {
            out.push(b'{');
            for (i, (key, value)) in pairs.iter().enumerate() {
                if i > 0 {
                    out.extend_from_slice(b", ");
                }
                write_value(out, key);
                out.push(b' ');
                write_value(out, value);
            }
            out.push(b'}');
        }
    }
}

/// Whether a text can stand after a colon: letters, digits and the marks EDN allows.
fn is_keyword(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
        && text.bytes().all(|byte| {
            byte.is_ascii_alphanumeric()
                || matches!(byte, b'.' | b'*' | b'+' | b'!' | b'-' | b'_' | b'?' | b'/' | b'=')
        })
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for character in text.chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\0'..'\u{20}' => write!(out, "\\u{:04x}", character as u32).expect("a Vec takes it"),
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpType;

    /// The line looks as Jepsen's do.
    #[test]
    fn a_line() {
        let mut out = Vec::new();
        let op = Op {
            error: Value::Keyword("timed-out".into()),
            node: Some("n1".into()),
            ..Op::new(
                OpType::Info,
                Process::Client(3),
                "txn",
                Value::List(vec![
                    Value::List(vec![Value::Keyword("append".into()), 8.into(), 1.into()]),
                    Value::Map(vec![(0.into(), Value::Float(1.0)), ("k".into(), Value::Nil)]),
                ]),
            )
        };
        write_op(&mut out, &op);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{:index 0, :time 0, :type :info, :process 3, :f :txn, \
             :value [[:append 8 1] {0 1.0, \"k\" nil}], :error :timed-out, :node \"n1\"}\n"
        );
    }
}
