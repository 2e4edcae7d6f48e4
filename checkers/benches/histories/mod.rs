//! Histories made by a simulated store that does one thing at a time: linearizable by construction.

use deposed_history::{Header, History, HistoryBuilder, Op, OpType, Process, Value};

/// What a history looks like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) calls: usize,
    pub(crate) processes: usize,
    /// Keys used at the same time; 0: a history without keys.
    pub(crate) keys: usize,
    /// Values are drawn from so many, or are all different.
    pub(crate) values: Option<u64>,
    /// Whether there are cas.
    pub(crate) cas: bool,
    /// Indeterminate calls for every 10,000.
    pub(crate) info: u64,
}

/// A small generator of random numbers (SplitMix64), the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// What a process is doing.
#[derive(Clone)]
enum Stage {
    Idle,
    Waiting(Call),
    Done(Call),
}

#[derive(Clone)]
struct Call {
    key: usize,
    f: &'static str,
    from: i64,
    to: i64,
    ok: bool,
}

/// A history of calls on registers.
pub(crate) fn registers(shape: Shape, seed: u64) -> History {
    let mut random = Random::new(seed);
    let keyed = shape.keys > 0;
    let mut builder = HistoryBuilder::new(Header { keyed, ..Header::default() });
    let mut state = vec![0i64; shape.keys.max(1)];
    let mut stages = vec![Stage::Idle; shape.processes];
    let mut ids: Vec<u32> = (0..shape.processes as u32).collect();
    let (mut begun, mut serial, mut time) = (0, 0, 0);
    let mut loose: Vec<Call> = Vec::new();
    let nil = |v: i64| if v == 0 { Value::Nil } else { Value::Int(v) };
    while begun < shape.calls || stages.iter().any(|stage| !matches!(stage, Stage::Idle)) {
        let who = random.below(shape.processes as u64) as usize;
        let mut record = |kind, id: u32, call: &Call| {
            let value = match call.f {
                "read" => nil(if kind == OpType::Ok { call.to } else { 0 }),
                "write" => nil(call.to),
                _ => Value::List(vec![nil(call.from), nil(call.to)]),
            };
            let value = if keyed { Value::pair(Value::Int(call.key as i64), value) } else { value };
            let op = Op::new(kind, Process::Client(id), call.f, value);
            builder.push(&Op { index: time / 1000, time, ..op });
            time += 1000;
        };
        if !loose.is_empty() && random.below(50) == 0 {
            let mut call = loose.swap_remove(0);
            execute(&mut state, &mut call);
        }
        // Nobody rests: who is done begins again at once.
        let mut stage = std::mem::replace(&mut stages[who], Stage::Idle);
        if let Stage::Done(call) = stage {
            let kind = if call.ok { OpType::Ok } else { OpType::Fail };
            record(kind, ids[who], &call);
            stage = Stage::Idle;
        }
        match stage {
            Stage::Idle if begun < shape.calls => {
                begun += 1;
                let key = random.below(state.len() as u64) as usize;
                let f =
                    ["read", "write", "cas"][random.below(if shape.cas { 3 } else { 2 }) as usize];
                let mut value = |random: &mut Random| match shape.values {
                    Some(n) => 1 + random.below(n) as i64,
                    None => {
                        serial += 1;
                        serial
                    }
                };
                let to = value(&mut random);
                let from = match shape.values {
                    Some(_) => value(&mut random),
                    None => state[key],
                };
                let call = Call { key, f, from, to, ok: true };
                record(OpType::Invoke, ids[who], &call);
                stages[who] = Stage::Waiting(call);
            }
            Stage::Idle | Stage::Done(_) => {}
            Stage::Waiting(mut call) => {
                if random.below(10_000) < shape.info {
                    record(OpType::Info, ids[who], &call);
                    ids[who] += shape.processes as u32;
                    if random.below(2) == 0 {
                        loose.push(call);
                    }
                } else {
                    execute(&mut state, &mut call);
                    stages[who] = Stage::Done(call);
                }
            }
        }
    }
    builder.finish()
}

fn execute(state: &mut [i64], call: &mut Call) {
    let value = &mut state[call.key];
    match call.f {
        "read" => call.to = *value,
        "write" => *value = call.to,
        _ if *value == call.from => *value = call.to,
        _ => call.ok = false,
    }
}
