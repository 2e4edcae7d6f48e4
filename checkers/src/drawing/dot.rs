//! A witness in the language of Graphviz.

use std::fmt::Write as _;

use deposed_history::History;

use super::{short, title};
use crate::{Anomaly, Edge};

impl Anomaly {
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

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;

    /// Calls are written with their results, and quotes are escaped.
    #[test]
    fn a_witness_in_words_of_graphviz() {
        let (history, anomaly) = sample();
        assert_eq!(
            anomaly.dot(&history),
            "digraph witness {\n  rankdir=LR;\n  node [shape=box];\n  \
             n0 [label=\"1: write \\\"a\\\"\"];\n  n2 [label=\"1: read \\\"b\\\"\"];\n  \
             n0 -> n2 [label=\"rt\", tooltip=\"it < had\"];\n}\n"
        );
    }
}
