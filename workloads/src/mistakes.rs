//! Everything wrong with a system.toml, gathered so that all of it is told at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::system_file::line_and_column;

/// Mistakes of one file.
pub(crate) struct Mistakes<'a> {
    file: &'a str,
    text: &'a str,
    node_count: usize,
    /// By place, then message: the nodes it concerns, none if it has nothing to do with nodes.
    found: BTreeMap<(usize, String), BTreeSet<String>>,
    elsewhere: Vec<String>,
}

impl<'a> Mistakes<'a> {
    /// None yet. `file` is how messages call it.
    pub(crate) const fn new(file: &'a str, text: &'a str, node_count: usize) -> Self {
        Self { file, text, node_count, found: BTreeMap::new(), elsewhere: Vec::new() }
    }

    /// A field that is wrong whatever the node.
    pub(crate) fn at(&mut self, offset: usize, field: &str, why: &str) {
        self.found.entry((offset, format!("{field}: {why}"))).or_default();
    }

    /// A field that is wrong when rendered for a node.
    pub(crate) fn on_node(&mut self, node: &str, offset: usize, field: &str, why: &str) {
        let nodes = self.found.entry((offset, format!("{field}: {why}"))).or_default();
        nodes.insert(node.to_owned());
    }

    /// Something wrong that is not in the file.
    pub(crate) fn elsewhere(&mut self, why: String) {
        self.elsewhere.push(why);
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty() && self.elsewhere.is_empty()
    }

    /// One line each, in the order of the file: `file:line:column: field: why`.
    pub(crate) fn lines(self) -> Vec<String> {
        let mut lines = self.elsewhere;
        for ((offset, message), nodes) in self.found {
            let (line, column) = line_and_column(self.text, offset);
            let mut said = format!("{}:{line}:{column}: {message}", self.file);
            if !nodes.is_empty() && nodes.len() < self.node_count {
                let nodes: Vec<String> = nodes.into_iter().collect();
                said += &format!(" (on {})", nodes.join(", "));
            }
            lines.push(said);
        }
        lines
    }
}
