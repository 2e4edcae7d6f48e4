//! An anomaly's cycle as a graph to be drawn.

use std::collections::BTreeMap;
use std::fmt::Write;

use deposed_history::History;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::{Anomaly, Edge};

/// The calls of a witness, by the positions of their invocations, and why each precedes the next.
pub fn witness_graph(anomaly: &Anomaly) -> DiGraph<u32, Edge> {
    let mut graph = DiGraph::new();
    let mut nodes: BTreeMap<u32, NodeIndex> = BTreeMap::new();
    for &position in &anomaly.witness {
        nodes.insert(position, graph.add_node(position));
    }
    for edge in &anomaly.edges {
        let mut node =
            |position| *nodes.entry(position).or_insert_with(|| graph.add_node(position));
        let (from, to) = (node(edge.from), node(edge.to));
        graph.add_edge(from, to, edge.clone());
    }
    graph
}

/// The same in Graphviz's DOT.
pub fn witness_dot(history: &History, anomaly: &Anomaly) -> String {
    let graph = witness_graph(anomaly);
    let mut dot = format!("digraph \"{}\" {{\n  node [shape=box];\n", escaped(&anomaly.name));
    for node in graph.node_indices() {
        let op = history.op(graph[node]);
        let label = format!(
            "op {}\\nprocess {}\\n{}",
            op.index(),
            op.process(),
            escaped(&op.value().to_string())
        );
        let _ = writeln!(dot, "  n{} [label=\"{label}\"];", node.index());
    }
    for edge in graph.edge_indices() {
        let Some((from, to)) = graph.edge_endpoints(edge) else { continue };
        let label = escaped(&graph[edge].because);
        let _ = writeln!(dot, "  n{} -> n{} [label=\"{label}\"];", from.index(), to.index());
    }
    dot.push_str("}\n");
    dot
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ")
}
