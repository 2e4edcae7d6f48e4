//! An imitation of a replicated register with faults: enough to make histories that look real.

use std::collections::BTreeMap;

use deposed_history::{
    Effect, FaultAction, FaultEvent, Header, History, Op, OpType, Process, Sighting, Value,
};

use super::{MS, START_WALL_NS};

const NODES: [&str; 5] = ["n1", "n2", "n3", "n4", "n5"];
const PROCESSES: u32 = 20;
const KEYS: u64 = 8;
const TIMEOUT_NS: u64 = 5_000 * MS;

/// What to imitate.
pub(crate) struct Imitation {
    pub(crate) seconds: u64,
    /// Mean pause of a process between calls.
    pub(crate) pause_ms: u64,
    /// Whether a node that is cut off answers reads from what it knew.
    pub(crate) stale_reads: bool,
    pub(crate) faults: Vec<Fault>,
}

/// One injection.
#[derive(Clone)]
pub(crate) struct Fault {
    kind: &'static str,
    from_ms: u64,
    to_ms: u64,
    /// Nodes that do not serve.
    down: Vec<&'static str>,
    rest: Vec<&'static str>,
    seen: &'static str,
    pub(crate) skipped: bool,
    pub(crate) indeterminate: bool,
}

impl Fault {
    /// The first side is the smaller one.
    pub(crate) fn partition(
        from_ms: u64,
        to_ms: u64,
        minority: &[&'static str],
        majority: &[&'static str],
    ) -> Self {
        let seen = "1,204 packets dropped";
        Self { rest: majority.to_vec(), ..Self::on("partition", from_ms, to_ms, minority, seen) }
    }

    /// A fault on single nodes.
    pub(crate) fn on(
        kind: &'static str,
        from_ms: u64,
        to_ms: u64,
        nodes: &[&'static str],
        seen: &'static str,
    ) -> Self {
        let (down, rest) = (nodes.to_vec(), vec![]);
        Self { kind, from_ms, to_ms, down, rest, seen, skipped: false, indeterminate: false }
    }

    fn hits(&self, node: &str, ns: u64) -> bool {
        let during = (self.from_ms * MS..self.to_ms * MS).contains(&ns);
        during && !self.skipped && self.down.contains(&node)
    }

    pub(super) fn events(&self, id: u64, end_ns: u64) -> Vec<(u64, Op)> {
        let cut = format!("{} | {}", self.down.join(" "), self.rest.join(" "));
        let choice = match self.rest.is_empty() {
            true => Value::Map(vec![("target".into(), "primaries".into())]),
            false => {
                Value::Map(vec![("shape".into(), "minority".into()), ("cut".into(), cut.into())])
            }
        };
        let mut nodes: Vec<String> =
            self.down.iter().chain(&self.rest).map(|&n| n.to_owned()).collect();
        nodes.sort();
        let event = |action, seen: Option<(Effect, &str)>| {
            FaultEvent {
                fault: self.kind.into(),
                id,
                lane: self.kind.into(),
                action,
                choice: choice.clone(),
                nodes: nodes.clone(),
                seen: seen.map(|(effect, summary)| Sighting {
                    effect,
                    summary: summary.into(),
                    figures: Value::Nil,
                }),
            }
            .to_op()
        };
        let effect = match (self.skipped, self.indeterminate) {
            (true, _) => Effect::Skipped,
            (_, true) => Effect::Indeterminate,
            _ => Effect::Proven,
        };
        let gone = match self.kind {
            "kill" => "running again, answers",
            "pause" => "state S, answers",
            _ => "all pairs reachable",
        };
        let (from, to) = (self.from_ms * MS, self.to_ms * MS);
        let mut events = vec![
            (from, event(FaultAction::Inject, None)),
            (from + 40 * MS, event(FaultAction::Inject, Some((effect, self.seen)))),
        ];
        if to < end_ns && !self.skipped {
            events.push((to, event(FaultAction::Hold, Some((effect, self.seen)))));
            events.push((to + MS, event(FaultAction::Heal, None)));
            let healed = event(FaultAction::Heal, Some((Effect::Proven, gone)));
            events.push((to + 90 * MS, healed));
        }
        events
    }
}

struct Planned {
    process: u32,
    node: &'static str,
    key: String,
    f: &'static str,
    start: u64,
    end: u64,
    cut_off: bool,
}

impl Imitation {
    /// Runs it.
    pub(crate) fn history(&self, header: Header) -> History {
        let end_ns = self.seconds * 1_000 * MS;
        let mut calls = self.calls(end_ns);
        calls.sort_by_key(|call| call.start + (call.end - call.start) / 2);
        let mut events: Vec<(u64, Op)> = Vec::new();
        for (i, fault) in self.faults.iter().enumerate() {
            events.extend(fault.events(i as u64 + 1, end_ns));
        }
        let mut current: BTreeMap<String, i64> = BTreeMap::new();
        let mut frozen: BTreeMap<&str, (u64, BTreeMap<String, i64>)> = BTreeMap::new();
        let mut last = 0;
        for call in calls {
            let cut_since = self.cut_since(call.node, call.start);
            let view = match cut_since {
                Some(since) if self.stale_reads => {
                    let kept = frozen.entry(call.node).or_insert((since, current.clone()));
                    if kept.0 != since {
                        *kept = (since, current.clone());
                    }
                    &kept.1
                }
                _ => &current,
            };
            let seen = view.get(&call.key).copied();
            last += i64::from(call.f == "write");
            let keyed = |value: Value| Value::pair(call.key.as_str(), value);
            let (asked, answered, kind, error) = match call.f {
                "read" if call.cut_off => (Value::Nil, Value::Nil, OpType::Fail, "no leader"),
                "read" => (Value::Nil, Value::from(seen), OpType::Ok, ""),
                "write" if call.cut_off => (last.into(), last.into(), OpType::Info, "timeout"),
                "write" => {
                    current.insert(call.key.clone(), last);
                    (last.into(), last.into(), OpType::Ok, "")
                }
                _ => {
                    let old = seen.unwrap_or(0);
                    let hit = last % 3 == 0;
                    last += 1;
                    let pair = Value::pair(if hit { old } else { old - 1 }, last);
                    if call.cut_off {
                        (pair.clone(), pair, OpType::Info, "timeout")
                    } else if hit && seen.is_some() {
                        current.insert(call.key.clone(), last);
                        (pair.clone(), pair, OpType::Ok, "")
                    } else {
                        (pair.clone(), pair, OpType::Fail, "precondition")
                    }
                }
            };
            let op = |kind, value| Op {
                node: Some(call.node.into()),
                ..Op::new(kind, Process::Client(call.process), call.f, value)
            };
            events.push((call.start, op(OpType::Invoke, keyed(asked))));
            let mut end = op(kind, keyed(answered));
            if !error.is_empty() {
                end.error = error.into();
            }
            events.push((call.end, end));
        }
        events.sort_by_key(|(time, _)| *time);
        let ops: Vec<Op> = events
            .into_iter()
            .enumerate()
            .map(|(i, (time, op))| {
                let wall = Some(START_WALL_NS + time as i64);
                Op { index: i as u64, time, wall, ..op }
            })
            .collect();
        History::from_ops(header, &ops)
    }

    fn calls(&self, end_ns: u64) -> Vec<Planned> {
        let mut dice = Dice(7);
        let mut calls = Vec::new();
        for worker in 0..PROCESSES {
            let mut process = worker;
            let mut at = dice.below(self.pause_ms * MS) + 20 * MS;
            while at < end_ns {
                let node = NODES[worker as usize % NODES.len()];
                let f = ["read", "read", "write", "cas"][dice.below(4) as usize];
                let key = format!("k{}", dice.below(KEYS));
                let cut = self.cut_since(node, at).is_some();
                let cut_off = cut && !(self.stale_reads && f == "read");
                let usual = 2 * MS + dice.below(3 * MS) + dice.below(40) * dice.below(40) * MS / 40;
                let slow = cut_off && f != "read";
                let took = if slow { TIMEOUT_NS } else { usual };
                calls.push(Planned { process, node, key, f, start: at, end: at + took, cut_off });
                if slow {
                    process += PROCESSES;
                }
                at += took + dice.below(2 * self.pause_ms * MS);
            }
        }
        calls
    }

    fn cut_since(&self, node: &str, ns: u64) -> Option<u64> {
        self.faults.iter().find(|fault| fault.hits(node, ns)).map(|fault| fault.from_ms)
    }
}

/// A linear congruential generator: samples must never change by themselves.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }
}
