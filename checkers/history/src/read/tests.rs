//! Blocks are a few bytes here, so every test crosses many cuts.

use std::io::Write;

use proptest::prelude::*;

use super::*;
use crate::{Op, OpRef, OpType, PRECONDITION, Process, Value, edn, elle, jsonl};

fn ops(text: &str) -> Vec<Op> {
    read_str(text)
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
        .history
        .ops()
        .map(OpRef::to_op)
        .collect()
}

fn values(text: &str) -> Vec<Value> {
    ops(text).into_iter().map(|op| op.value).collect()
}

fn flaws(text: &str) -> Vec<String> {
    match read_str(text) {
        Ok(loaded) => panic!("read {} events of {text}", loaded.history.len()),
        Err(ReadError::Flawed(flaws)) => flaws.listed().iter().map(ToString::to_string).collect(),
        Err(error) => panic!("{error}"),
    }
}

fn event(index: u64, kind: OpType, process: u32, f: &str, value: Value) -> Op {
    Op { index, ..Op::new(kind, Process::Client(process), f, value) }
}

/// Our own lines, header first, come back with everything they hold.
#[test]
fn own_lines() {
    let loaded = read_str(
        r#"{"schema":1,"plan":"2c9f","workload":"register","keyed":true,"start_wall_ns":5}
{"index":0,"time":10,"wall":-3,"process":0,"type":"invoke","f":"read","value":[1,null],"node":"n1"}
{"index":1,"time":20,"process":"nemesis","type":"info","f":"kill","value":{"nodes":["n1"]}}
{"index":2,"time":30,"process":0,"type":"info","f":"read","value":null,"error":"timeout","node":"n1"}
"#,
    )
    .unwrap();
    assert_eq!(loaded.format, Format::Jsonl);
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    let header = loaded.history.header();
    assert_eq!((header.plan.as_deref(), header.keyed), (Some("2c9f"), true));
    let ops: Vec<Op> = loaded.history.ops().map(OpRef::to_op).collect();
    assert_eq!(
        ops,
        [
            Op {
                time: 10,
                wall: Some(-3),
                node: Some("n1".into()),
                ..event(0, OpType::Invoke, 0, "read", Value::pair(1, Value::Nil))
            },
            Op {
                index: 1,
                time: 20,
                ..Op::new(
                    OpType::Info,
                    Process::Nemesis,
                    "kill",
                    Value::Map(vec![("nodes".into(), Value::List(vec!["n1".into()]))])
                )
            },
            Op {
                time: 30,
                error: "timeout".into(),
                node: Some("n1".into()),
                ..event(2, OpType::Info, 0, "read", Value::Nil)
            },
        ]
    );
    assert_eq!(loaded.history.op(2).line(), Some(4));
}

/// elle-cli's arrays: fields in any order, fields we do not know, missing ones, white space.
#[test]
fn elle_json() {
    let expected = [
        event(
            0,
            OpType::Invoke,
            0,
            "txn",
            Value::List(vec![Value::List(vec!["r".into(), 5.into(), Value::Nil])]),
        ),
        event(
            1,
            OpType::Ok,
            0,
            "txn",
            Value::List(vec![Value::List(vec!["r".into(), 5.into(), Value::List(vec![1.into()])])]),
        ),
    ];
    let compact = r#"[{"type":"invoke","f":"txn","value":[["r",5,null]],"op-index":7,"process":0,"index":0},{"type":"ok","value":[["r",5,[1]]],"process":0,"ext":{"a":[{}]}}]"#;
    assert_eq!(ops(compact), expected);
    let spread = compact.replace(',', " ,\n  ").replace('{', "{ ").replace(':', " : ");
    assert_eq!(ops(&spread), expected);
    let stream = &compact[1..compact.len() - 1].replace("},{", "}\n{");
    assert_eq!(ops(stream), expected);
}

/// Jepsen's EDN: a stream, a vector or a list; plain maps or records; missing fields; what
/// Clojure prints that is not EDN.
#[test]
fn jepsen_edn() {
    let stream = r#"{:process 0, :type :invoke, :f :cas, :value [0 1]} ; a comment {
#jepsen.history.Op{:index 1, :type :info, :process :nemesis, :f :start, :value #object[clojure.lang.Var 0x1f "x"], :exception {:via [#error {:a "\"}"}]}}
#_{:type :ok} {:process 0 :type :fail :f :cas :value #{0 1} :error [:timed-out nil]}
"#;
    let expected = vec![
        event(0, OpType::Invoke, 0, "cas", Value::pair(0, 1)),
        Op {
            index: 1,
            ..Op::new(
                OpType::Info,
                Process::Nemesis,
                "start",
                Value::List(vec!["clojure.lang.Var".into(), "0x1f".into(), "x".into()]),
            )
        },
        Op {
            error: Value::List(vec![Value::Keyword("timed-out".into()), Value::Nil]),
            ..event(2, OpType::Fail, 0, "cas", Value::pair(0, 1))
        },
    ];
    let whole = stream.replace("0x1f", "\"0x1f\"");
    assert_eq!(ops(&whole), expected);
    assert_eq!(ops(&format!("; first\n(\n{whole})")), expected);
    assert_eq!(ops(&format!("[{whole}]\n")), expected);
    assert_eq!(ops(&whole.replace(", ", "\n ")), expected);
}

/// Every kind of EDN value.
#[test]
fn edn_values() {
    let text = |t: &str| Value::str(t);
    let expected = vec![
        Value::Nil,
        Value::Bool(true),
        Value::Int(-7),
        Value::Int(7),
        Value::Int(0),
        Value::Int(7),
        Value::Float(1.5),
        Value::Float(-1000.0),
        Value::Float(2.5),
        Value::Float(f64::NAN),
        Value::Float(f64::NEG_INFINITY),
        text("a\né ü"),
        Value::Keyword("k/w".into()),
        text("a"),
        text("\n"),
        text("A"),
        text("sym"),
        text("1/3"),
        text("12345678901234567890N"),
        Value::Int(i64::MIN),
        text("0.12345678901234567890M"),
        text("2026-01-01"),
        Value::pair(1, 3),
        Value::Map(vec![(0.into(), 97.into()), (1.into(), 0.into())]),
        text("a\\\"b"),
        text("q"),
        text(""),
    ];
    let source = r#"{:type :invoke :value [nil true -7 +7 0 7N 1.5 -1e3 2.50M ##NaN ##-Inf
      "a\n\u00e9 ü" :k/w \a \newline \u0041 sym 1/3 12345678901234567890 -9223372036854775808
      0.12345678901234567890M #inst "2026-01-01" ^{:m 1} (1 #_2 3) {0 97, 1 0} #"a\"b" 'q ""]}"#;
    assert_eq!(values(source), [Value::List(expected)]);
}

/// Numbers that differ stay different, however big, in JSON too.
#[test]
fn big_numbers_stay_apart() {
    let read =
        |number: &str| values(&format!("{{\"type\":\"invoke\",\"value\":{number}}}")).remove(0);
    assert_eq!(read("9223372036854775807"), Value::Int(i64::MAX));
    assert_eq!(read("999999999999999999"), Value::Int(999_999_999_999_999_999));
    assert_ne!(read("9223372036854775808"), read("9223372036854775809"));
    assert_ne!(read("1e999"), read("1e998"));
    assert_ne!(read("1"), read("1.0"));
    assert_eq!(read("-0"), Value::Int(0));
    assert_eq!(read("0.5e-1"), Value::Float(0.05));
    assert_eq!(read(r#""\ud834\udd1e\/""#), Value::str("𝄞/"));
}

/// Whole numbers in other radixes, as Clojure prints the addresses of objects that it cannot print.
#[test]
fn clojure_numbers() {
    let read = |number: &str| values(&format!("{{:type :invoke :value {number}}}")).remove(0);
    for (number, value) in [
        ("0x1b2C", 0x1b2c),
        ("-0X10", -16),
        ("017", 15),
        ("00", 0),
        ("+36rZz", 1295),
        ("2r101N", 5),
        ("0x7fffffffffffffff", i64::MAX),
    ] {
        assert_eq!(read(number), Value::Int(value), "{number}");
    }
    assert_eq!(read("0x8000000000000000"), Value::str("9223372036854775808N"));
    let thrown =
        r#"{:type :invoke, :value 1, :exception #object[java.net.Socket 0x1b2c "Socket[closed]"]}"#;
    assert_eq!(values(thrown), [Value::Int(1)]);
    for number in ["018", "0x", "0xg", "2r2", "37r1", "1r0", "0x+1", "0x1M"] {
        let text = format!("{{:type :invoke :value {number}}}");
        assert!(read_str(&text).is_err(), "{number}");
    }
}

/// Porcupine's etcd logs: an error may stand in the value's place, and a failed cas is an
/// observation. Lines of other loggers are passed over with a word.
#[test]
fn porcupine_etcd_log() {
    let loaded = read_str(
        "INFO  jepsen.core - Worker 0 starting\n\
         INFO  jepsen.util - 0\t:invoke\t:read\tnil\n\
         INFO  jepsen.util - 1\t:invoke\t:cas\t[3 4]\n\
         INFO  jepsen.util - 0\t:fail\t:read\t:timed-out\n\
         INFO  jepsen.util - 1   :fail   :cas    [3 4]\n\
         INFO  jepsen.util - 2\t:invoke\t:write\t4\n\
         INFO  jepsen.util - :nemesis\t:info\t:start\tnil\n\
         INFO  jepsen.util - 2\t:info\t:write\t:timed-out\n\
         INFO  jepsen.util - 3\t:invoke\t:write\t1\n\
         INFO  jepsen.util - 3\t:info\t:write\t1\tindeterminate: Connection refused",
    )
    .unwrap();
    assert_eq!(loaded.format, Format::Log);
    assert_eq!(loaded.warnings.count(), 1);
    let timed_out = Value::Keyword("timed-out".into());
    let ops: Vec<Op> = loaded.history.ops().map(OpRef::to_op).collect();
    assert_eq!(
        ops,
        [
            event(0, OpType::Invoke, 0, "read", Value::Nil),
            event(1, OpType::Invoke, 1, "cas", Value::pair(3, 4)),
            Op { error: timed_out.clone(), ..event(2, OpType::Fail, 0, "read", Value::Nil) },
            Op {
                error: PRECONDITION.into(),
                ..event(3, OpType::Fail, 1, "cas", Value::pair(3, 4))
            },
            event(4, OpType::Invoke, 2, "write", 4.into()),
            Op { index: 5, ..Op::new(OpType::Info, Process::Nemesis, "start", Value::Nil) },
            Op { error: timed_out, ..event(6, OpType::Info, 2, "write", Value::Nil) },
            event(7, OpType::Invoke, 3, "write", 1.into()),
            Op {
                error: "indeterminate: Connection refused".into(),
                ..event(8, OpType::Info, 3, "write", 1.into())
            },
        ]
    );
}

/// A log line that names an operation but cannot be read is an error, not passed over.
#[test]
fn a_damaged_log_line() {
    let found = flaws("INFO  jepsen.util - 0\t:invoke\t:read\tnil\nINFO  jeps:ok\t:read\tnil\n");
    assert!(found[0].starts_with("line 2, column 1: this names an operation"), "{found:?}");
}

/// Porcupine's key-value data: `:key` makes values `[key value]` pairs.
#[test]
fn porcupine_kv() {
    let loaded = read_str(
        "{:process 0, :type :invoke, :f :put, :key \"8\", :value \"x\"}\n\
         {:process 0, :type :ok, :f :put, :key \"8\", :value \"x\"}\n",
    )
    .unwrap();
    assert!(loaded.history.header().keyed);
    assert_eq!(loaded.history.op(1).pair().unwrap().0.as_str(), Some("8"));
}

/// Independent keys are a matter of a flag: nothing in the file shows them.
#[test]
fn keyed_by_flag() {
    let text = "{:process 0, :type :invoke, :f :read, :value [7 nil]}\n";
    let keyed = ReadOptions { keyed: true, ..ReadOptions::default() };
    assert!(!read_str(text).unwrap().history.header().keyed);
    assert!(read(text.as_bytes(), &keyed).unwrap().history.header().keyed);
    let unkeyed = "{:process 0, :type :invoke, :f :read, :value nil}\n";
    assert!(read(unkeyed.as_bytes(), &keyed).is_err());
}

/// Compression is told from the bytes, and a cut-short stream is an error.
#[test]
fn compressed() {
    let text = "{:process 0, :type :invoke, :f :read, :value nil}\n".to_owned()
        + &"{:process 0, :type :ok, :f :read, :value 1}\n{:process 0, :type :invoke, :f :read}\n"
            .repeat(50);
    let zst = zstd::encode_all(text.as_bytes(), 3).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    let gz = gz.finish().unwrap();
    for bytes in [&zst, &gz] {
        let loaded = read(bytes.as_slice(), &ReadOptions::default()).unwrap();
        assert_eq!(loaded.history.len(), 101);
        let cut = &bytes[..bytes.len() - 9];
        let error = read(cut, &ReadOptions::default()).unwrap_err().to_string();
        assert!(error.contains("cut short"), "{error}");
    }
}

/// Files with nothing in them are histories of nothing.
#[test]
fn empty_files() {
    for text in ["", "\n", "[]", "()", "; nothing", "{\"schema\":1}\n", "\u{FEFF}"] {
        assert_eq!(ops(text), [], "{text:?}");
    }
}

/// What is no history at all is called so.
#[test]
fn no_history() {
    assert!(flaws("hello\n")[0].contains("no history"), "{:?}", flaws("hello\n"));
    assert!(flaws("JEPSEN\0\0")[0].contains("history.edn"));
    assert!(flaws("{\"schema\":99}\n")[0].contains("schema 99"));
    assert!(flaws("[1,2]\n")[0].contains("an event"));
}

const TWO: &str = "{\"index\":0,\"time\":0,\"process\":0,\"type\":\"invoke\",\"f\":\"w\",\"value\":\"é\"}\n\
                   {\"index\":1,\"time\":1,\"process\":0,\"type\":\"ok\",\"f\":\"w\",\"value\":\"é\"}\n";

/// Cut anywhere, the file is read up to the last whole line, with a warning if any of a line is
/// left over.
#[test]
fn torn_last_lines() {
    let edn = "{:process 0, :type :invoke, :f :w, :value \"é\"}\n{:process 0, :type :ok, :f :w, :value \"é\"}\n";
    for text in [TWO, edn] {
        for cut in 1..text.len() {
            let bytes = &text.as_bytes()[..cut];
            let format = Some(if text == TWO { Format::Jsonl } else { Format::Edn });
            let loaded = read(bytes, &ReadOptions { format, keyed: false });
            let loaded = loaded.unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            let whole = bytes.iter().filter(|&&byte| byte == b'}').count();
            assert_eq!(loaded.history.len(), whole, "cut at {cut}");
            let left_over = !bytes.ends_with(b"}") && !bytes.ends_with(b"\n");
            assert_eq!(loaded.warnings.count(), u64::from(left_over), "cut at {cut}");
        }
    }
}

/// An array that was cut short loses its last event only, and says so.
#[test]
fn torn_array() {
    let array = format!("[{}]", TWO.trim_end().replace("}\n", "},\n"));
    let loaded = read_str(&array[..array.len() - 5]).unwrap();
    assert_eq!((loaded.history.len(), loaded.warnings.count()), (1, 1));
    let loaded = read_str(&array[..array.len() - 1]).unwrap();
    assert_eq!((loaded.history.len(), loaded.warnings.count()), (2, 1));
}

/// A fault in the middle is an error at its line and column, never a shorter history; all
/// lines are looked at.
#[test]
fn faults_in_the_middle() {
    let line = TWO.lines().next().unwrap();
    let text = format!("{}{}\n{}\n", TWO, &line[..40], "{\"type\":\"okay\"}");
    let found = flaws(&text);
    assert!(
        found[0].starts_with("line 3, column 41: a control character or line end"),
        "{found:?}"
    );
    assert!(
        found[1].starts_with("line 4, column 9: \"type\" is not invoke, ok, fail or info"),
        "{found:?}"
    );
    let found = flaws("{\"type\":\"ok\",\"é\":1 2}\n{}\n");
    assert!(found[0].starts_with("line 1, column 20: found '2' where"), "{found:?}");
    assert!(found[1].starts_with("line 2: this is no event"), "{found:?}");
}

/// A bracket that is missing in the middle of EDN is not taken for a torn end.
#[test]
fn an_unclosed_map() {
    let text = "{:process 0 :type :invoke\n{:process 0 :type :ok}\n{:process 1 :type :invoke}\n";
    let found = flaws(text);
    assert!(found[0].starts_with("line 1, column 1: the file ends inside"), "{found:?}");
    let found = flaws("[{:process 0 :type :invoke\n {:process 0 :type :ok}]\n");
    assert!(found[0].starts_with("line 2, column 24: found ']'"), "{found:?}");
}

/// Fields that do not fit are named, with what they should be.
#[test]
fn misfits() {
    for (field, value) in [
        ("process", "-1"),
        ("process", "4294967295"),
        ("process", "\"p1\""),
        ("time", "1.5"),
        ("time", "99999999999999999999"),
        ("index", "\"0\""),
        ("wall", "99999999999999999999"),
        ("node", "1"),
        ("f", "[]"),
        ("type", "7"),
    ] {
        let json = format!("{{\"type\":\"invoke\",\"{field}\":{value}}}")
            .replace("\"type\":\"invoke\",\"type\"", "\"type\"");
        let edn =
            format!("{{:type :invoke :{field} {value}}}").replace(":type :invoke :type", ":type");
        for text in [json, edn] {
            assert!(flaws(&text)[0].contains(" is not "), "{text}: {:?}", flaws(&text));
        }
    }
    assert!(flaws("{\"type\":\"ok\",\"type\":\"ok\"}")[0].contains("twice"));
    assert!(flaws("{:type :ok :type :ok}")[0].contains("twice"));
    assert!(flaws("{:type :invoke}\n{:type :ok :process 0}\n")[0].contains("no process"));
    assert!(flaws("{:type :invoke :key 1}\n{:type :ok}\n")[0].contains("no key"));
}

/// Nesting, not recursion, has a limit; it holds in both formats.
#[test]
fn nesting() {
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}{}", open.repeat(depth), close.repeat(depth))
    };
    let json = |depth| format!("{{\"type\":\"invoke\",\"value\":{}}}", nested("[", "]", depth));
    assert_eq!(ops(&json(NESTING_MAX)).len(), 1);
    assert!(flaws(&json(NESTING_MAX + 1))[0].contains("nested"));
    assert!(flaws(&json(100_000))[0].contains("nested"));
    for (open, close) in [("[", "]"), ("{:a ", "}"), ("#_ ", ""), ("^", ""), ("#{", "}")] {
        let edn = format!("{{:type :invoke :value {} 1}}", nested(open, close, 100_000));
        assert!(flaws(&edn)[0].contains("nested"), "{open}");
    }
    // Tags may be many: they are no nesting.
    let edn = format!("{{:type :invoke :value {} 1}}", "#a ".repeat(100_000));
    assert_eq!(values(&edn), [Value::Int(1)]);
}

/// Bytes that are not UTF-8 are an error where they stand.
#[test]
fn not_utf8() {
    let mut bytes = TWO.as_bytes().to_vec();
    let at = bytes.len() - 4;
    bytes[at] = 0xFF;
    let error = read(bytes.as_slice(), &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.starts_with("line 2, column"), "{error}");
    assert!(error.contains("UTF-8"), "{error}");
}

/// All faults of a history are found at once; the same is only odd in a file of another harness.
#[test]
fn validation() {
    let lines = "\
{\"index\":0,\"time\":5,\"process\":0,\"type\":\"invoke\",\"f\":\"read\"}
{\"index\":1,\"time\":6,\"process\":0,\"type\":\"invoke\",\"f\":\"read\"}
{\"index\":1,\"time\":7,\"process\":0,\"type\":\"ok\",\"f\":\"write\"}
{\"index\":3,\"time\":4,\"process\":1,\"type\":\"ok\",\"f\":\"read\"}
{\"index\":4,\"time\":8,\"process\":2,\"type\":\"invoke\",\"f\":\"read\"}
{\"index\":5,\"time\":9,\"process\":2,\"type\":\"info\",\"f\":\"read\"}
{\"index\":6,\"time\":9,\"process\":2,\"type\":\"invoke\",\"f\":\"read\"}
";
    let found = flaws(&format!("{{\"schema\":1}}\n{lines}"));
    let starts = [
        "line 3: process 0 invokes \"read\" while its operation from line 2",
        "line 4: process 0 completes \"write\", but invoked \"read\" on line 3",
        "line 5: process 1 completes \"read\", but has invoked nothing",
        "line 8: process 2 goes on after the info on line 7",
        "line 5: the time runs back from 7 to 4 here",
        "line 4: index 1 was used before, on line 3",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (flaw, start) in found.iter().zip(starts) {
        assert!(flaw.starts_with(start), "{flaw}");
    }
    let fine = "\
{\"time\":8,\"process\":2,\"type\":\"invoke\",\"f\":\"read\"}
{\"time\":9,\"process\":2,\"type\":\"info\",\"f\":\"read\"}
{\"time\":7,\"process\":2,\"type\":\"invoke\",\"f\":\"read\"}
";
    assert_eq!(read_str(fine).unwrap().warnings.count(), 2);
    assert_eq!(flaws(&format!("{{\"schema\":1}}\n{fine}")).len(), 2);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,3}",
        "[a-z][-a-z0-9/?!]{0,12}",
        "(?s).{0,8}",
        "[\"\\\\\n\t;:#{}\\[\\]() ,\u{0}-\u{7f}]{0,6}"
    ]
}

fn leaf(edn: bool) -> BoxedStrategy<Value> {
    let common = prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-9..9i64).prop_map(Value::Int),
        any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Value::Float),
        text().prop_map(Value::from),
    ];
    let only_edn = prop_oneof![
        Just(Value::Float(f64::NAN)),
        Just(Value::Float(f64::INFINITY)),
        Just(Value::Float(f64::NEG_INFINITY)),
        text().prop_map(|name| Value::Keyword(name.into())),
    ];
    if edn { prop_oneof![3 => common, 1 => only_edn].boxed() } else { common.boxed() }
}

/// Any value that the format can hold.
fn value(edn: bool) -> impl Strategy<Value = Value> {
    leaf(edn).prop_recursive(4, 20, 5, move |inner| {
        let key = if edn { inner.clone().boxed() } else { text().prop_map(Value::from).boxed() };
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::List),
            prop::collection::vec((key, inner), 0..5).prop_map(Value::Map),
        ]
    })
}

/// A history that keeps the rules: calls one after another, some with nothing but what they need.
fn history(edn: bool) -> impl Strategy<Value = (Header, Vec<Op>)> {
    let extra = (
        prop::option::of(any::<i64>()),
        prop::option::of(text()),
        prop_oneof![Just(Value::Nil), value(edn)],
    );
    let call = (0..CLIENT_STEPS, 0..4u8, text(), value(edn), value(edn), extra, 0..1000u64);
    (prop::collection::vec(call, 0..12), prop::option::of(text()), any::<u32>()).prop_map(
        |(calls, plan, base)| {
            let header = Header { plan, ..Header::default() };
            let mut ops = Vec::new();
            let mut time = 0;
            for (i, (step, outcome, f, asked, answered, (wall, node, error), wait)) in
                calls.into_iter().enumerate()
            {
                let process = match step {
                    0 => Process::Nemesis,
                    1 => Process::Log,
                    // A new client for each call: some end in info.
                    step => Process::Client(
                        (base % 1_000_000).wrapping_add(i as u32 * CLIENT_STEPS + step),
                    ),
                };
                let kinds = [OpType::Ok, OpType::Fail, OpType::Info];
                let invoke = Op::new(OpType::Invoke, process, &f, asked);
                let mut events = vec![invoke];
                if let Some(&kind) = kinds.get(usize::from(outcome)) {
                    let wall = wall.filter(|&wall| wall != i64::MIN);
                    let node = node.map(Into::into);
                    events.push(Op { wall, node, error, ..Op::new(kind, process, &f, answered) });
                }
                for event in events {
                    time += wait;
                    let index = ops.len() as u64 * u64::from(step + 1);
                    ops.push(Op { index, time, ..event });
                }
            }
            for (i, op) in ops.iter_mut().enumerate() {
                op.index = if base % 2 == 0 { i as u64 } else { op.index * 1000 + i as u64 };
            }
            (header, ops)
        },
    )
}

const CLIENT_STEPS: u32 = 5;

fn back(bytes: &[u8]) -> (Header, Vec<Op>) {
    let loaded = read(bytes, &ReadOptions::default());
    let loaded =
        loaded.unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(bytes)));
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    (loaded.history.header().clone(), loaded.history.ops().map(OpRef::to_op).collect())
}

proptest! {
    /// Ours to EDN to ours is the identity: integers, floats, strings and keywords stay apart.
    #[test]
    fn edn_round_trip((header, ops) in history(true)) {
        let mut bytes = Vec::new();
        edn::write(&mut bytes, &History::from_ops(header.clone(), &ops)).unwrap();
        prop_assert_eq!(back(&bytes), (header, ops));
    }

    /// Our own lines come back as they were, but for what JSON has no word for.
    #[test]
    fn jsonl_round_trip((header, ops) in history(false)) {
        let mut bytes = Vec::new();
        jsonl::write(&mut bytes, &History::from_ops(header.clone(), &ops)).unwrap();
        prop_assert_eq!(back(&bytes), (header, ops));
    }

    /// What is written for elle-cli comes back too, without a header.
    #[test]
    fn elle_round_trip((header, ops) in history(false)) {
        let mut bytes = Vec::new();
        elle::write(&mut bytes, &History::from_ops(header, &ops)).unwrap();
        prop_assert_eq!(back(&bytes), (Header::default(), ops));
    }

    /// A general JSON parser understands every line in the same way.
    #[test]
    fn json_is_json((_, ops) in history(true)) {
        for op in ops {
            let mut line = Vec::new();
            jsonl::write_op(&mut line, &op);
            let parsed: serde_json::Value = serde_json::from_slice(&line).unwrap();
            prop_assert_eq!(parsed["f"].as_str(), Some(&*op.f));
        }
    }

    /// Whatever the bytes, reading ends with a history or with flaws.
    #[test]
    fn no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..4usize) {
        let format = Some(Format::ALL[kind]);
        let _ = read(bytes.as_slice(), &ReadOptions { format, keyed: false });
    }

    /// The same for what looks like a history.
    #[test]
    fn no_panic_on_lookalikes(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "{", "}", "[", "]", "(", ")", "\"", ":", ",", "\n", " ", "\\", "#", "#_", "^", ";",
                ":type :ok", "\"type\":\"ok\"", ":process 1", "\"value\":", ":value ", "1", "-", "1.5", "1e",
                "nil", "null", "é", "\\u", "d834", "INFO  jepsen.util - 0\t:ok\t:read\t", "\0",
            ]),
            0..40,
        ),
        kind in 0..4usize,
    ) {
        let format = Some(Format::ALL[kind]);
        let _ = read(pieces.concat().as_bytes(), &ReadOptions { format, keyed: true });
    }
}

/// A value that is cut off at the end of its line in a log is said, with its place.
#[test]
fn values_cut_off_by_the_end_of_a_logged_line_are_flaws() {
    let line = b"INFO  jepsen.util - 4\t:invoke\t^^^^^^^^^^^^^epsen.uttil - 1\t:i\"\"\"\"#\"`jepsen.utilINF\\ O\\\
        \xff\xff\x03]\t:invoke\t:rel - 0\t:invoke\t:cas\t[3 1]";
    let options = ReadOptions { format: Some(Format::Log), keyed: false };
    let mut said = Vec::new();
    for end in 30..=line.len() {
        for rest in ["", "\n", "\n0' \nINFO  jepd r "] {
            let bytes = [&line[..end], rest.as_bytes()].concat();
            match read(bytes.as_slice(), &options) {
                Ok(_) => {}
                Err(ReadError::Flawed(flaws)) => {
                    said.extend(flaws.listed().iter().map(ToString::to_string));
                }
                Err(error) => panic!("{end}: {error}"),
            }
        }
    }
    assert!(said.iter().any(|flaw| flaw == "line 1, column 83: not a value"), "{said:#?}");
}
