//! A violation as a graph: calls, and what is known of their order; drawn by Graphviz ([`Anomaly::dot`])
//! or as it is ([`Anomaly::svg`]).

mod dot;
mod svg;

use std::collections::BTreeMap;

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
}

/// What is written into a node: `3: read 5`.
fn title(history: &History, position: u32) -> String {
    if position as usize >= history.len() {
        return position.to_string();
    }
    let op = history.op(position);
    let call = history.calls().binary_search_by_key(&position, |call| call.invoke).ok();
    let complete = call.and_then(|at| history.calls()[at].complete());
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

#[cfg(test)]
mod tests {
    use deposed_history::{Header, Op, OpType, Process, Value};

    use super::*;

    /// A write of `a`, a read of `b`, and the edge from one to the other.
    pub(super) fn sample() -> (History, Anomaly) {
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
        let kind = EdgeKind::RealTime;
        let anomaly = Anomaly {
            name: "stale-read".into(),
            key: None,
            summary: String::new(),
            sentences: Vec::new(),
            witness: vec![0, 2],
            edges: vec![Edge { from: 0, to: 2, kind, because: "it < had".into() }],
        };
        (history, anomaly)
    }

    /// Calls become nodes, and edges keep their reasons.
    #[test]
    fn a_witness_becomes_a_graph() {
        let (_, anomaly) = sample();
        let graph = anomaly.graph();
        assert_eq!(graph.node_weights().copied().collect::<Vec<u32>>(), [0, 2]);
        assert_eq!(graph.edge_weights().cloned().collect::<Vec<Edge>>(), anomaly.edges);
    }
}
