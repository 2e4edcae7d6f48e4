//! Lists that are read over and over, and answers that repeat what was asked: what was skipped or
//! shared while reading is what it would have been if every value had been read by itself. (Unit tests
//! cut files into blocks too small for that.)

use deposed_history::{Header, History, Op, OpRef, OpType, Process, Value, edn, jsonl, read_str};

/// A small generator of random numbers (SplitMix64), the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ z >> 31) % bound
    }
}

/// An element: mostly a number, of any length, now and then something else.
fn element(random: &mut Random) -> Value {
    match random.below(40) {
        0 => Value::Nil,
        1 => Value::str("]"),
        2 => Value::Float(0.5),
        3 => Value::Int(i64::MIN),
        4 => Value::Int(-1),
        5 => Value::List(vec![Value::Int(1)]),
        n => Value::Int(random.below(10u64.pow(n as u32 % 18)) as i64),
    }
}

/// Reads of a few lists that grow, are read short, and sometimes begin anew.
fn reads(seed: u64) -> Vec<Op> {
    let mut random = Random(seed);
    let mut lists: Vec<Vec<Value>> = vec![Vec::new(); 3];
    let mut ops = Vec::new();
    for index in 0..400 {
        let key = random.below(3) as usize;
        let list = &mut lists[key];
        match random.below(12) {
            0 => list.truncate(random.below(4) as usize),
            1 => *list = vec![element(&mut random)],
            2..8 => list.extend((0..=random.below(3)).map(|_| element(&mut random))),
            _ => {}
        }
        let cut =
            if random.below(3) == 0 { random.below(list.len() as u64 + 1) as usize } else { 0 };
        let seen = list[..list.len() - cut].to_vec();
        let read = Value::List(vec![Value::str("r"), Value::Int(key as i64), Value::List(seen)]);
        let kind = if index % 2 == 0 { OpType::Invoke } else { OpType::Ok };
        let value = Value::List(vec![read]);
        ops.push(Op { index, ..Op::new(kind, Process::Client(0), "txn", value) });
    }
    ops
}

/// Calls of processes that take turns, and whose completions mostly repeat what was asked, or nearly.
fn calls(seed: u64) -> Vec<Op> {
    const PROCESSES: [u32; 4] = [0, 1, 64, 129];
    let mut random = Random(seed);
    let mut asked: [Option<Value>; 4] = [const { None }; 4];
    let mut ops = Vec::new();
    for index in 0..400 {
        let at = random.below(4) as usize;
        let value = match random.below(4) {
            0 => Value::Int(random.below(20) as i64),
            _ => Value::List((0..random.below(4)).map(|_| element(&mut random)).collect()),
        };
        let (kind, value) = match asked[at].take() {
            None => {
                asked[at] = Some(value.clone());
                (OpType::Invoke, value)
            }
            Some(same) if random.below(3) > 0 => (OpType::Fail, same),
            Some(Value::List(mut longer)) if random.below(2) > 0 => {
                longer.push(value);
                (OpType::Ok, Value::List(longer))
            }
            Some(_) => (OpType::Ok, value),
        };
        ops.push(Op { index, ..Op::new(kind, Process::Client(PROCESSES[at]), "txn", value) });
    }
    ops
}

fn ops(history: &History) -> Vec<Op> {
    history.ops().map(OpRef::to_op).collect()
}

/// Random lists, and calls, come back as they were written, as JSON and as EDN.
#[test]
fn lists_come_back() {
    for (seed, written) in (0..200).flat_map(|seed| [(seed, reads(seed)), (seed, calls(seed))]) {
        let history = History::from_ops(Header::default(), &written);
        let (mut json, mut other) = (Vec::new(), Vec::new());
        jsonl::write(&mut json, &history).expect("a Vec takes it");
        edn::write(&mut other, &history).expect("a Vec takes it");
        for text in [json, other] {
            let text = String::from_utf8(text).expect("text");
            let loaded = read_str(&text).expect("a history");
            assert_eq!(ops(&loaded.history), written, "seed {seed}");
        }
    }
}

/// A list is not taken for the one before because it begins or ends like it, and what is wrong in
/// one is found where it is, also behind a beginning that was seen before.
#[test]
fn what_is_wrong_is_still_found() {
    let line = |list: &str| {
        format!("{{\"process\":0,\"type\":\"invoke\",\"f\":\"r\",\"value\":{list}}}\n")
    };
    let flaw = |lists: [&str; 2]| {
        let text: String = lists.iter().map(|list| line(list)).collect();
        let error = read_str(&text).expect_err("no history").to_string();
        error.lines().find(|line| line.contains("line 2")).unwrap_or(&error).to_owned()
    };
    for wrong in ["[1,2,]", "[1,2,,3]", "[1,2,03]", "[1,2 3]", "[1,2,x]", "[1,2}"] {
        let said = flaw(["[1,2]", wrong]);
        assert!(said.contains("line 2, column "), "{wrong}: {said}");
    }
}
