//! Long forks: reads that saw single writes in orders that contradict each other.
//!
//! Each key is written once, so a read of a group of keys tells which of them were written before it, and
//! which after. Under snapshot isolation all of that fits one order of the writes; parallel snapshot
//! isolation allows a fork. Groups may be of any size and overlap: writes and reads are nodes of one graph,
//! in which a write leads to the reads that saw it, and a read to the writes that it missed. If it has no
//! cycle, any order along its edges explains every read; a cycle is a fork, of two reads if those share
//! two keys, or of more.

use deposed_history::{History, Outcome, ValueRef};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::json;

use super::cycles::{self, Cycle, Cycles};
use super::graph::{Graph, Rel, Stop};
use super::level::OrderKind;
use super::planted::{Bug, planted};
use crate::analysis::with_beginning;
use crate::budget::Held;
use crate::{Analysis, Anomaly, Budget, Checker, Undecided};

/// Open questions that are told.
const TOLD_MAX: usize = 8;

/// Judges transactions that write one key, `[["w", key, value]]`, or read a group of keys,
/// `[["r", key, value], ...]`, as Jepsen's `long-fork` does.
#[derive(Debug, Clone, Copy, Default)]
pub struct LongFork;

/// What an edge begins or ends at.
enum Node<'h> {
    /// The write of a key.
    Write {
        key: ValueRef<'h>,
        /// Who wrote it, if anybody is known to have tried.
        writer: Option<u32>,
        /// What was written, as far as anybody has said.
        value: Option<ValueRef<'h>>,
    },
    /// A read, by its invocation.
    Read(u32),
}

impl Checker for LongFork {
    fn name(&self) -> &str {
        "long-fork"
    }

    fn check(&self, history: &History, budget: &Budget) -> Analysis {
        with_beginning(history, "fork nowhere", |history| self.judge(history, budget))
    }
}

impl LongFork {
    fn judge(&self, history: &History, budget: &Budget) -> Analysis {
        let mut reads = Reads::new(history, budget);
        let cycles = reads.collect().and_then(|()| reads.cycles());
        let Reads { nodes, keys, reads, mut undecided, .. } = reads;
        let cycles = cycles.unwrap_or_else(|stop| {
            undecided
                .push(Undecided::whole(history, format!("{stop} before all reads were compared")));
            Cycles::default()
        });
        if reads == 0 && undecided.is_empty() {
            undecided.push(Undecided::untested(history, "no read of a group succeeded"));
        }
        let forks: u64 = cycles.counts.values().sum();
        let anomalies = cycles.shown.iter().map(|cycle| fork(history, &nodes, cycle)).collect();
        let keys = keys.len();
        Analysis {
            details: json!({ "forks": forks, "keys": keys, "reads": reads }),
            anomaly_count: forks,
            ..Analysis::from_findings(
                self.name(),
                format!("{reads} reads, {keys} keys, {forks} forks"),
                anomalies,
                undecided,
            )
        }
        .verified(history, budget, |anomaly| is_fork(history, anomaly))
    }
}

/// Bytes a call takes besides its edges.
const BYTES_PER_CALL: u64 = 2 * (size_of::<Node<'_>>() + size_of::<(ValueRef<'_>, u32)>()) as u64;

/// The graph, as far as the history was read.
struct Reads<'h, 'b> {
    history: &'h History,
    budget: &'b Budget,
    nodes: Vec<Node<'h>>,
    edges: Vec<(u32, u32, Rel)>,
    /// The memory of the edges.
    held: Vec<Held>,
    /// The node of each key.
    keys: FxHashMap<ValueRef<'h>, u32>,
    reads: u64,
    undecided: Vec<Undecided>,
}

impl<'h, 'b> Reads<'h, 'b> {
    fn new(history: &'h History, budget: &'b Budget) -> Self {
        Self {
            history,
            budget,
            nodes: Vec::new(),
            edges: Vec::new(),
            held: Vec::new(),
            keys: FxHashMap::default(),
            reads: 0,
            undecided: Vec::new(),
        }
    }

    fn collect(&mut self) -> Result<(), Stop> {
        let history = self.history;
        let _nodes = self.budget.hold(BYTES_PER_CALL * history.calls().len() as u64)?;
        for call in self.budget.pace(history.calls()) {
            let call = call?;
            let invoked = history.op(call.invoke).value();
            let completed =
                call.complete().map(|at| history.op(at).value()).filter(|v| !v.is_nil());
            let is_ok = call.outcome() == Outcome::Ok;
            let value = if is_ok { completed.unwrap_or(invoked) } else { invoked };
            if let Some(mops) = all(value, "r") {
                if is_ok || planted(Bug::UnfinishedReadsJudged) {
                    self.budget.make_room(&mut self.edges, mops.len(), &mut self.held)?;
                    self.read(call.invoke, &mops);
                }
            } else if let Some(&[(key, value)]) = all(value, "w").as_deref() {
                if call.outcome() != Outcome::Fail || planted(Bug::ForkFailedWrites) {
                    self.write(call.invoke, key, value);
                }
            } else if !planted(Bug::ForkOddIgnored) {
                let index = self.index(call.invoke);
                self.open(
                    call.invoke,
                    format!("op {index} neither writes one key nor reads a group: {value}"),
                );
            }
        }
        Ok(())
    }

    /// The cycles of the graph.
    fn cycles(&mut self) -> Result<Cycles, Stop> {
        let nodes = self.nodes.len();
        let graph = Graph::of(nodes, self.budget, |edges| {
            self.edges.iter().for_each(|&(from, to, rel)| edges.push(from, to, rel));
            nodes as u32
        })?;
        cycles::find(&graph, nodes as u32, OrderKind::Data, self.budget)
    }

    fn read(&mut self, invoke: u32, mops: &[(ValueRef<'h>, ValueRef<'h>)]) {
        self.reads += 1;
        let read = self.nodes.len() as u32;
        self.nodes.push(Node::Read(invoke));
        for &(key, value) in mops {
            let write = self.node_of(key);
            if value.is_nil() {
                if !planted(Bug::ForkMissedIgnored) {
                    self.edges.push((read, write, Rel::RW));
                }
            } else {
                self.see(invoke, write, value);
                if !planted(Bug::ForkSeenIgnored) {
                    self.edges.push((write, read, Rel::WR));
                }
            }
        }
    }

    fn write(&mut self, invoke: u32, key: ValueRef<'h>, value: ValueRef<'h>) {
        let node = self.node_of(key);
        self.see(invoke, node, value);
        if let Node::Write { writer, .. } = &mut self.nodes[node as usize]
            && let Some(before) = writer.replace(invoke)
            && !planted(Bug::ForkTwiceIgnored)
        {
            let (before, index) = (self.index(before), self.index(invoke));
            self.open(
                invoke,
                format!(
                    "ops {before} and {index} both write key {key}: each key must be written once"
                ),
            );
        }
    }

    fn node_of(&mut self, key: ValueRef<'h>) -> u32 {
        *self.keys.entry(key).or_insert_with(|| {
            self.nodes.push(Node::Write { key, writer: None, value: None });
            self.nodes.len() as u32 - 1
        })
    }

    /// An op has written a value, or seen it.
    fn see(&mut self, invoke: u32, write: u32, seen: ValueRef<'h>) {
        if let Node::Write { key, value, .. } = &mut self.nodes[write as usize] {
            let (key, value) = (*key, *value.get_or_insert(seen));
            if value != seen && !planted(Bug::ForkValuesIgnored) {
                let index = self.index(invoke);
                self.open(invoke, format!(
                    "op {index} says that key {key} is {seen}, another one that it is {value}: each \
                     key must be written once"
                ));
            }
        }
    }

    fn index(&self, position: u32) -> u64 {
        self.history.op(position).index()
    }

    /// Nothing is decided from a call on.
    fn open(&mut self, invoke: u32, reason: String) {
        if self.undecided.len() < TOLD_MAX {
            self.undecided.push(Undecided::since(self.history, invoke, reason));
        }
    }
}

/// The keys and values of a transaction in which every micro-operation has the same function.
fn all<'h>(txn: ValueRef<'h>, f: &str) -> Option<Vec<(ValueRef<'h>, ValueRef<'h>)>> {
    let of = |mop: ValueRef<'h>| {
        let parts = mop.as_list()?;
        let (is, key) = (parts.get(0)?.as_str()? == f, parts.get(1)?);
        is.then(|| (key, parts.get(2).unwrap_or(ValueRef::Nil)))
    };
    txn.as_list()?.iter().map(of).collect::<Option<Vec<_>>>().filter(|mops| !mops.is_empty())
}

/// Tells a cycle, in which writes and reads take turns.
fn fork(history: &History, nodes: &[Node<'_>], cycle: &Cycle) -> Anomaly {
    let length = cycle.steps.len();
    let node = |at: usize| &nodes[cycle.steps[at % length].0 as usize];
    let key = |at: usize| match node(at) {
        Node::Write { key, .. } => key.to_string(),
        Node::Read(_) => String::new(),
    };
    let (mut readers, mut written, mut sentences) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..length {
        let Node::Read(invoke) = node(at) else { continue };
        let op = history.op(*invoke);
        let reader = format!("process {} (op {})", op.process(), op.index());
        let (seen, missed) = (key(at + length - 1), key(at + 1));
        sentences.push(format!(
            "To {reader}, {seen} was written and {missed} was not, so {seen} was written first."
        ));
        readers.push(reader);
        written.push(missed);
    }
    if let Some(last) = sentences.last_mut() {
        last.push_str(" A contradiction!");
    }
    let order = if readers.len() > 2 { "orders that contradict" } else { "opposite orders" };
    let (readers, written) = (readers.join(" and "), written.join(" and "));
    let calls = cycle.steps.iter().filter_map(|&(node, _)| match &nodes[node as usize] {
        Node::Write { writer, .. } => *writer,
        Node::Read(invoke) => Some(*invoke),
    });
    let mut witness: Vec<u32> = calls.collect();
    witness.sort_unstable();
    Anomaly {
        name: "long-fork".into(),
        key: None,
        summary: format!("{readers} saw the writes of {written} in {order}"),
        sentences,
        witness,
        edges: Vec::new(),
    }
}

/// Whether no order of writes explains the reads of a witness, looked at once more.
pub(super) fn is_fork(history: &History, anomaly: &Anomaly) -> bool {
    let calls = anomaly.witness.iter().map(|&at| {
        let call = history.calls().iter().find(|call| call.invoke == at)?;
        let op = history.op(call.complete().unwrap_or(at));
        let txn = if op.value().is_nil() { history.op(at).value() } else { op.value() };
        Some((call.outcome() == Outcome::Ok, txn))
    });
    let Some(calls) = calls.collect::<Option<Vec<_>>>() else { return false };
    let reads = calls.into_iter().filter_map(|(is_ok, txn)| all(txn, "r").filter(|_| is_ok));
    // The keys of each read, and whether it saw them written.
    let reads: Vec<Vec<(ValueRef<'_>, bool)>> = reads
        .map(|mops| mops.into_iter().map(|(key, value)| (key, !value.is_nil())).collect())
        .collect();
    let mut left: FxHashSet<ValueRef<'_>> = reads.iter().flatten().map(|&(key, _)| key).collect();
    loop {
        let contradicts = |read: &Vec<(ValueRef<'_>, bool)>, key: ValueRef<'_>| {
            let saw_another = read.iter().any(|&(other, seen)| seen && left.contains(&other));
            saw_another && read.contains(&(key, false))
        };
        // What no read missed that saw another one of them can have been written before all of them.
        let first =
            left.iter().copied().find(|&key| !reads.iter().any(|read| contradicts(read, key)));
        let Some(first) = first else { return !left.is_empty() };
        left.remove(&first);
    }
}
