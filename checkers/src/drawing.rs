//! A violation as a graph: calls, and what is known of their order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use deposed_history::History;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::{Anomaly, Edge, EdgeKind};

impl Anomaly {
    /// The witness as a graph: nodes are positions of invocations, edges say who comes before whom.
    pub fn graph(&self) -> DiGraph<u32, Edge> {
        let mut graph = DiGraph::new();
        let mut nodes: BTreeMap<u32, NodeIndex> = BTreeMap::new();
        let ends = self.edges.iter().flat_map(|edge| [edge.from, edge.to]);
        for position in self.witness.iter().copied().chain(ends) {
            nodes.entry(position).or_insert_with(|| graph.add_node(position));
        }
        for edge in &self.edges {
            graph.add_edge(nodes[&edge.from], nodes[&edge.to], edge.clone());
        }
        graph
    }

    /// The graph in the language of Graphviz, with the calls' text.
    pub fn dot(&self, history: &History) -> String {
        let graph = self.graph();
        let mut dot = String::from("digraph witness {\n  rankdir=LR;\n  node [shape=box];\n");
        for node in graph.node_indices() {
            let position = graph[node];
            let _ = writeln!(dot, "  n{position} [label={}];", quoted(&title(history, position)));
        }
        for edge in graph.edge_weights() {
            let Edge { from, to, kind, because } = edge;
            let _ = writeln!(
                dot,
                "  n{from} -> n{to} [label={}, tooltip={}];",
                quoted(short(*kind)),
                quoted(because)
            );
        }
        dot.push_str("}\n");
        dot
    }
}

/// What is written into a node: `3: read 5`.
fn title(history: &History, position: u32) -> String {
    if position as usize >= history.len() {
        return position.to_string();
    }
    let op = history.op(position);
    let call = history.calls().binary_search_by_key(&position, |call| call.invoke).ok();
    let complete = call.and_then(|at| history.calls()[at].complete);
    let result = complete.map(|at| history.op(at).value()).filter(|value| !value.is_nil());
    format!("{}: {} {}", op.process(), op.f(), result.unwrap_or(op.value()))
}

/// An edge in few letters.
const fn short(kind: EdgeKind) -> &'static str {
    match kind {
        EdgeKind::RealTime => "rt",
        EdgeKind::Process => "process",
        EdgeKind::WriteRead => "wr",
        EdgeKind::WriteWrite => "ww",
        EdgeKind::ReadWrite => "rw",
        EdgeKind::TokenOrder => "token",
        EdgeKind::ResourceOrder => "resource",
        EdgeKind::GrantUse => "grant",
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use deposed_history::{Header, Op, OpType, Process, Value};

    use super::*;

    /// Calls become nodes with their results, edges keep their reasons, and quotes are escaped.
    #[test]
    fn a_witness_becomes_a_graph() {
        let op = |kind, f, value| Op::new(kind, Process::Client(1), f, value);
        let history = History::from_ops(
            Header::default(),
            &[
                op(OpType::Invoke, "write", Value::str("a")),
                op(OpType::Ok, "write", Value::str("a")),
                op(OpType::Invoke, "read", Value::Nil),
                op(OpType::Ok, "read", Value::str("b")),
            ],
        );
        let anomaly = Anomaly {
            name: "stale-read".into(),
            key: None,
            summary: String::new(),
            sentences: Vec::new(),
            witness: vec![0, 2],
            edges: vec![Edge {
                from: 0,
                to: 2,
                kind: EdgeKind::RealTime,
                because: "it had".into(),
            }],
        };
        assert_eq!(anomaly.graph().edge_count(), 1);
        assert_eq!(
            anomaly.dot(&history),
            "digraph witness {\n  rankdir=LR;\n  node [shape=box];\n  \
             n0 [label=\"1: write \\\"a\\\"\"];\n  n2 [label=\"1: read \\\"b\\\"\"];\n  \
             n0 -> n2 [label=\"rt\", tooltip=\"it had\"];\n}\n"
        );
    }
}
