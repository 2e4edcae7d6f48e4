//! The few calls that prove a violation, laid out by process, with the order among them that
//! cannot be. Knows nothing of how they are drawn.

use std::collections::{BTreeMap, BTreeSet};

use deposed_checkers::{Anomaly, EdgeKind};
use deposed_history::{Call, Effect, Episode, History, Outcome, Process};

use crate::call_text::{CallText, call_text, process_name};
use crate::fault_text::fault_name;
use crate::phrase;

/// Calls drawn; more would not fit a page, and no argument with more convinces anyone.
const OPS_MAX: usize = 24;
/// Edges drawn.
const EDGES_MAX: usize = 40;

/// A violation, ready to be drawn.
#[derive(Debug, Clone)]
pub(crate) struct Witness {
    /// The key all its calls are about, if there is one.
    pub(crate) key: Option<String>,
    /// One row for each process, in order of its first call.
    pub(crate) rows: Vec<Row>,
    /// Its calls in order of invocation.
    pub(crate) ops: Vec<WitnessOp>,
    /// The order that cannot be.
    pub(crate) edges: Vec<WitnessEdge>,
    /// Faults in force at some time between its first and last moment.
    pub(crate) faults: Vec<WitnessFault>,
    /// Calls that were left out.
    pub(crate) ops_omitted: usize,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) process: Process,
    pub(crate) node: Option<String>,
}

/// A call of the witness, or an event that is not part of one.
#[derive(Debug, Clone)]
pub(crate) struct WitnessOp {
    pub(crate) row: usize,
    /// What sentences call it: `T1` is the first of the anomaly's witness.
    pub(crate) name: Option<String>,
    /// The index that the recorder gave its invocation.
    pub(crate) index: u64,
    pub(crate) position: u32,
    pub(crate) text: CallText,
    pub(crate) outcome: Outcome,
    pub(crate) start_ns: u64,
    /// `None` if it may still be going on: an indeterminate call.
    pub(crate) end_ns: Option<u64>,
    /// Whether it is the one that returned what it could not.
    pub(crate) accused: bool,
}

/// `from` must come before `to`.
#[derive(Debug, Clone)]
pub(crate) struct WitnessEdge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) kind: EdgeKind,
    pub(crate) because: String,
    /// Whether time, or the rest of the order, says the opposite.
    pub(crate) impossible: bool,
    /// Whether it is time.
    pub(crate) against_time: bool,
}

/// A fault that was in force.
#[derive(Debug, Clone)]
pub(crate) struct WitnessFault {
    pub(crate) name: String,
    pub(crate) from_ns: u64,
    /// `None` if it was never undone.
    pub(crate) to_ns: Option<u64>,
    pub(crate) effect: Effect,
}

impl Witness {
    /// Lays out an anomaly; `None` if it names no event of this history.
    pub(crate) fn of(history: &History, anomaly: &Anomaly, episodes: &[Episode]) -> Option<Self> {
        let mut positions: BTreeSet<u32> = anomaly.witness.iter().copied().collect();
        positions.extend(anomaly.edges.iter().flat_map(|edge| [edge.from, edge.to]));
        let found: BTreeMap<u32, Found> = positions
            .into_iter()
            .filter(|&position| (position as usize) < history.len())
            .map(|position| (position, Found::at(history, position)))
            .collect();
        let mut starts: Vec<u32> = found.values().map(|f| f.start).collect();
        starts.sort_unstable();
        starts.dedup();
        let ops_omitted = starts.len().saturating_sub(OPS_MAX);
        starts.truncate(OPS_MAX);
        if starts.is_empty() {
            return None;
        }

        let mut witness = Self {
            key: anomaly.key.as_deref().map(phrase::unquoted),
            rows: Vec::new(),
            ops: Vec::new(),
            edges: Vec::new(),
            faults: Vec::new(),
            ops_omitted,
        };
        for &start in &starts {
            let found = &found.values().find(|f| f.start == start).expect("it came from there");
            witness.add_op(history, anomaly, found);
        }
        let op_at = |position: u32| {
            let start = found.get(&position)?.start;
            starts.binary_search(&start).ok()
        };
        for edge in anomaly.edges.iter().take(EDGES_MAX) {
            let (Some(from), Some(to)) = (op_at(edge.from), op_at(edge.to)) else { continue };
            let because = edge.because.clone();
            let kind = edge.kind;
            let against_time =
                witness.ops[to].end_ns.is_some_and(|end| end < witness.ops[from].start_ns);
            let impossible = against_time;
            witness.edges.push(WitnessEdge { from, to, kind, because, impossible, against_time });
        }
        witness.mark_impossible();
        witness.mark_accused();
        witness.add_faults(episodes);
        Some(witness)
    }

    /// By how much time forbids the order that cannot be, with the calls, who made them and where:
    /// `T3 (read → 659, process 35 on n1) began 4.44 s after T2 (write 704, process 14 on n5) was
    /// over`.
    pub(crate) fn lateness(&self) -> Option<String> {
        let (late, early, late_by_ns) = self.late()?;
        let late_by = phrase::duration(late_by_ns);
        let (late, early) = (self.with_author(late), self.with_author(early));
        Some(format!("{late} began {late_by} after {early} was over"))
    }

    /// By how much time forbids the order that cannot be.
    pub(crate) fn late_by_ns(&self) -> Option<u64> {
        self.late().map(|(_, _, ns)| ns)
    }

    /// The call that came late, the one it should have come before, and by how much.
    fn late(&self) -> Option<(&WitnessOp, &WitnessOp, u64)> {
        let edge = self.edges.iter().find(|edge| edge.against_time)?;
        let (late, early) = (&self.ops[edge.from], &self.ops[edge.to]);
        Some((late, early, late.start_ns.checked_sub(early.end_ns?)?))
    }

    fn with_author(&self, op: &WitnessOp) -> String {
        let row = &self.rows[op.row];
        let node =
            row.node.as_deref().map_or(String::new(), |n| format!(" on {}", phrase::clean(n)));
        let (text, process) = (op.text.line(), process_name(row.process));
        match &op.name {
            Some(name) => format!("{name} ({text}, {process}{node})"),
            None => format!("{text} ({process}{node})"),
        }
    }

    /// The numbers, from 1, of the edges that a sentence argues for.
    pub(crate) fn edges_told(&self, sentence: &str) -> Vec<usize> {
        let told = |edge: &WitnessEdge| {
            let names = [edge.from, edge.to].map(|at| self.ops[at].name.as_deref());
            !edge.because.is_empty()
                && sentence.contains(&edge.because)
                && names.iter().all(|name| name.is_some_and(|name| sentence.contains(name)))
        };
        (1..=self.edges.len()).filter(|number| told(&self.edges[number - 1])).collect()
    }

    /// The numbers of the edges that no sentence argues for.
    pub(crate) fn edges_untold(&self, sentences: &[String]) -> Vec<usize> {
        let told: BTreeSet<usize> =
            sentences.iter().flat_map(|sentence| self.edges_told(sentence)).collect();
        (1..=self.edges.len()).filter(|number| !told.contains(number)).collect()
    }

    /// First and last moment of its calls.
    pub(crate) fn span(&self) -> (u64, u64) {
        let first = self.ops.iter().map(|op| op.start_ns).min().unwrap_or(0);
        let last = self.ops.iter().map(|op| op.end_ns.unwrap_or(op.start_ns)).max().unwrap_or(0);
        (first, last)
    }

    fn add_op(&mut self, history: &History, anomaly: &Anomaly, found: &Found) {
        let op = history.op(found.start);
        let node = op.node().map(str::to_owned);
        let row = Row { process: op.process(), node };
        let at = self.rows.iter().position(|r| r.process == row.process).unwrap_or_else(|| {
            self.rows.push(row);
            self.rows.len() - 1
        });
        let end_ns = match found.call.outcome() {
            Outcome::Info => None,
            _ => Some(found.call.complete().map_or(op.time(), |end| history.op(end).time())),
        };
        self.ops.push(WitnessOp {
            row: at,
            name: name_in(anomaly, found.start),
            index: op.index(),
            position: found.start,
            text: call_text(history, &found.call, self.key.is_some()),
            outcome: found.call.outcome(),
            start_ns: op.time(),
            end_ns,
            accused: false,
        });
    }

    /// If no edge goes against time, the cycle is what cannot be: every inferred edge of it is under
    /// suspicion, or every edge if none is inferred.
    fn mark_impossible(&mut self) {
        if self.edges.iter().any(|edge| edge.against_time) {
            return;
        }
        let on_cycle = |edge: &WitnessEdge| self.reaches(edge.to, edge.from);
        let cycle: Vec<bool> = self.edges.iter().map(on_cycle).collect();
        let inferred =
            |edge: &WitnessEdge| !matches!(edge.kind, EdgeKind::RealTime | EdgeKind::Process);
        let some_inferred = self.edges.iter().zip(&cycle).any(|(edge, &on)| on && inferred(edge));
        for (edge, on) in self.edges.iter_mut().zip(cycle) {
            edge.impossible = on && (inferred(edge) || !some_inferred);
        }
    }

    fn reaches(&self, from: usize, goal: usize) -> bool {
        let mut seen = vec![false; self.ops.len()];
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if at == goal {
                return true;
            }
            if !std::mem::replace(&mut seen[at], true) {
                open.extend(self.edges.iter().filter(|e| e.from == at).map(|e| e.to));
            }
        }
        false
    }

    /// The observer of an order that goes back in time is the one to look at first.
    fn mark_accused(&mut self) {
        let accused: Vec<usize> = self
            .edges
            .iter()
            .filter(|edge| edge.against_time)
            .map(|edge| if edge.kind == EdgeKind::WriteRead { edge.to } else { edge.from })
            .collect();
        for at in accused {
            self.ops[at].accused = true;
        }
        if let ([only], true) = (&mut self.ops[..], self.edges.is_empty()) {
            only.accused = true;
        }
    }

    fn add_faults(&mut self, episodes: &[Episode]) {
        let (first, last) = self.span();
        for episode in episodes.iter().filter(|e| e.effect() != Effect::Skipped) {
            let from_ns = episode.begin.time;
            let to_ns = episode.healed.or(episode.heal).map(|moment| moment.time);
            if from_ns <= last && to_ns.is_none_or(|to| to >= first) {
                let name = fault_name(episode);
                let effect = episode.effect();
                self.faults.push(WitnessFault { name, from_ns, to_ns, effect });
            }
        }
    }
}

impl WitnessOp {
    /// Its name and what it did: `T2 write 704`.
    pub(crate) fn named(&self) -> String {
        let text = self.text.line();
        self.name.as_ref().map_or_else(|| text.clone(), |name| format!("{name} {text}"))
    }
}

/// What sentences call the call that begins at a position: witnesses are numbered from `T1`.
pub(crate) fn name_in(anomaly: &Anomaly, position: u32) -> Option<String> {
    let at = anomaly.witness.iter().position(|&p| p == position)?;
    Some(format!("T{}", at + 1))
}

/// What stands at a position: a call, or an event alone.
struct Found {
    start: u32,
    call: Call,
}

impl Found {
    fn at(history: &History, position: u32) -> Self {
        let calls = history.calls();
        let by_invoke = calls.binary_search_by_key(&position, |call| call.invoke).ok();
        let at =
            by_invoke.or_else(|| calls.iter().position(|call| call.complete() == Some(position)));
        let alone = Call::completed(position, position, Outcome::Ok);
        let call = at.map_or(alone, |at| calls[at]);
        Self { start: call.invoke, call }
    }
}

/// What an edge says, in two or three words.
pub(crate) const fn edge_words(kind: EdgeKind) -> &'static str {
    match kind {
        EdgeKind::RealTime => "was over before",
        EdgeKind::Process => "same process, before",
        EdgeKind::WriteRead => "was read by",
        EdgeKind::WriteWrite => "was overwritten by",
        EdgeKind::ReadWrite => "must come before",
        EdgeKind::TokenOrder => "has the lower token",
        EdgeKind::ResourceOrder => "reached the resource before",
        EdgeKind::GrantUse => "granted the token of",
    }
}

#[cfg(test)]
mod tests {
    use deposed_checkers::Edge;
    use deposed_history::{Header, Op, OpType, Value};

    use super::*;

    /// Calls one after the other, each by its own process; `None` has no completion.
    fn history(ends: &[Option<OpType>]) -> History {
        let mut ops: Vec<Op> = Vec::new();
        for (i, end) in ends.iter().enumerate() {
            let op = |kind, late| Op {
                time: i as u64 * 10 + late,
                ..Op::new(kind, Process::Client(i as u32), "read", Value::Nil)
            };
            ops.push(op(OpType::Invoke, 0));
            ops.extend(end.map(|kind| op(kind, 5)));
        }
        History::from_ops(Header::default(), &ops)
    }

    fn anomaly(witness: &[u32], edges: &[(u32, u32, EdgeKind)]) -> Anomaly {
        Anomaly {
            name: "stale-read".into(),
            key: None,
            summary: String::new(),
            sentences: vec![],
            witness: witness.to_vec(),
            edges: edges
                .iter()
                .map(|&(from, to, kind)| Edge { from, to, kind, because: String::new() })
                .collect(),
        }
    }

    const OK: Option<OpType> = Some(OpType::Ok);

    /// The edge that goes against time is the impossible one, and its observer is accused.
    #[test]
    fn an_edge_against_time_is_impossible() {
        let history = history(&[OK, OK]);
        let anomaly = anomaly(&[0, 2], &[(0, 2, EdgeKind::RealTime), (2, 0, EdgeKind::ReadWrite)]);
        let witness = Witness::of(&history, &anomaly, &[]).expect("it has calls");
        let impossible: Vec<bool> = witness.edges.iter().map(|edge| edge.impossible).collect();
        assert_eq!(impossible, [false, true]);
        let accused: Vec<bool> = witness.ops.iter().map(|op| op.accused).collect();
        assert_eq!(accused, [false, true]);
        assert_eq!(witness.ops[1].name.as_deref(), Some("T2"));
    }

    /// A cycle that time allows is impossible in what was inferred of it, and nobody is accused.
    #[test]
    fn a_cycle_of_concurrent_calls_is_impossible_where_inferred() {
        let history = history(&[None, None, OK]);
        let anomaly = anomaly(
            &[0, 1],
            &[
                (0, 1, EdgeKind::WriteRead),
                (1, 0, EdgeKind::WriteWrite),
                (0, 2, EdgeKind::WriteRead),
            ],
        );
        let witness = Witness::of(&history, &anomaly, &[]).expect("it has calls");
        let impossible: Vec<bool> = witness.edges.iter().map(|edge| edge.impossible).collect();
        assert_eq!(impossible, [true, true, false]);
        assert!(witness.ops.iter().all(|op| !op.accused && op.name != Some("T3".into())));
    }

    /// Positions that are not in the history, or none, make no picture and no panic.
    #[test]
    fn nonsense_is_no_witness() {
        let history = history(&[OK]);
        assert!(Witness::of(&history, &anomaly(&[], &[]), &[]).is_none());
        assert!(Witness::of(&history, &anomaly(&[99], &[]), &[]).is_none());
        let stray = anomaly(&[0], &[(0, 99, EdgeKind::RealTime)]);
        assert!(Witness::of(&history, &stray, &[]).expect("one call").edges.is_empty());
    }
}
