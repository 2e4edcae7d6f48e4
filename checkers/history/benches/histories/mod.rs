//! Histories to measure with, made up event by event: what a store that does one thing at a time
//! would have answered. The same seed gives the same bytes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use deposed_history::{Header, Op, OpType, Process, Value, edn, jsonl};

/// Clients that take turns.
const CLIENTS: u64 = 20;

/// Kinds of histories.
pub(crate) const KINDS: [&str; 4] =
    ["register", "keyed-register", "list-append", "list-append-edn"];

/// Writes a history of so many calls, so twice as many events.
pub(crate) fn write(out: &mut dyn Write, kind: &str, calls: u64) -> io::Result<()> {
    let mut line = Vec::new();
    if kind != "list-append-edn" {
        let header = Header { keyed: kind == "keyed-register", ..Header::default() };
        jsonl::write_header(&mut line, &header);
    }
    let mut store = Store { random: 1, written: 0, last: BTreeMap::new(), lists: BTreeMap::new() };
    let mut open: Vec<Option<(&str, Value)>> = (0..CLIENTS).map(|_| None).collect();
    let mut index = 0;
    let mut begun = 0;
    while begun < calls || open.iter().any(Option::is_some) {
        let client = store.below(CLIENTS) as usize;
        let (kind_of_event, f, value) = match open[client].take() {
            Some((f, result)) => (OpType::Ok, f, result),
            None if begun == calls => continue,
            None => {
                begun += 1;
                let call = match kind {
                    "register" => store.register(None),
                    "keyed-register" => {
                        let key = store.below(1000) as i64;
                        store.register(Some(key))
                    }
                    _ => store.transaction(),
                };
                open[client] = Some((call.f, call.result));
                (OpType::Invoke, call.f, call.argument)
            }
        };
        let op = Op {
            index,
            time: index * 2_500,
            ..Op::new(kind_of_event, Process::Client(client as u32), f, value)
        };
        index += 1;
        if kind == "list-append-edn" {
            edn::write_op(&mut line, &op);
        } else {
            jsonl::write_op(&mut line, &op);
        }
        if line.len() > 1 << 16 {
            out.write_all(&line)?;
            line.clear();
        }
    }
    out.write_all(&line)
}

/// What is asked, and what will be answered.
struct Call {
    f: &'static str,
    argument: Value,
    result: Value,
}

struct Store {
    random: u64,
    written: i64,
    last: BTreeMap<i64, i64>,
    lists: BTreeMap<i64, Vec<Value>>,
}

impl Store {
    /// A number below `bound`, by splitmix64.
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ z >> 31) % bound
    }

    fn register(&mut self, key: Option<i64>) -> Call {
        let keyed = |value: Value| match key {
            Some(key) => Value::pair(key, value),
            None => value,
        };
        let place = key.unwrap_or(0);
        if self.below(2) == 0 {
            let last = self.last.get(&place).copied();
            return Call { f: "read", argument: keyed(Value::Nil), result: keyed(last.into()) };
        }
        self.written += 1;
        self.last.insert(place, self.written);
        let value = keyed(self.written.into());
        Call { f: "write", argument: value.clone(), result: value }
    }

    /// Reads and appends on ten keys at a time, each retired after 32 appends.
    fn transaction(&mut self) -> Call {
        let mut asked = Vec::new();
        let mut answered = Vec::new();
        for _ in 0..=self.below(4) {
            let key = self.written / 32 + self.below(10) as i64;
            let list = self.lists.entry(key).or_default();
            let (asks, answers) = if self.random.is_multiple_of(2) {
                (
                    [Value::str("r"), key.into(), Value::Nil],
                    [Value::str("r"), key.into(), Value::List(list.clone())],
                )
            } else {
                let element = list.len() as i64 + 1;
                list.push(element.into());
                self.written += 1;
                let asks = [Value::str("append"), key.into(), element.into()];
                (asks.clone(), asks)
            };
            asked.push(Value::List(asks.into()));
            answered.push(Value::List(answers.into()));
        }
        Call { f: "txn", argument: Value::List(asked), result: Value::List(answered) }
    }
}
