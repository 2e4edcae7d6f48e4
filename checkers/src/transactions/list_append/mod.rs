//! Transactions of appends to lists and reads of them.
//!
//! What is read shows the order of everything appended before it, so the version orders are known,
//! and with them nearly all dependencies.

mod edges;
mod reasons;
mod scan;
mod versions;

use deposed_history::History;

use super::certificate::{Because, Certificate, Found, Proof, Step};
use super::cycles::{self, Cycle};
use super::graph::{Edges, Rel};
use super::level::{Consistency, OrderKind};
use super::order::add_order;
use super::report::Report;
use super::txns::Txns;
use super::verify::Workload;
use crate::budget::Exhausted;
use crate::{Analysis, Budget, Checker};
use edges::Data;
use versions::{Longest, Versions};

/// Judges transactions whose micro-operations are `["append", key, element]` and
/// `["r", key, elements]`. Each element is appended to a key at most once.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListAppend {
    /// The level the history has to have.
    pub consistency: Consistency,
}

impl Checker for ListAppend {
    fn name(&self) -> &str {
        "list-append"
    }

    fn check(&self, history: &History, budget: &Budget) -> Analysis {
        let mut longest = Longest::default();
        let mut txns = Txns::of(history, &mut longest);
        let versions = Versions::of(&mut txns, &longest);
        let mut found = Found::default();
        scan::scan(&txns, &versions, &mut found);
        let mut report = Report::new(self.name(), self.consistency, Workload::Append);
        if let Err(exhausted) = self.find_cycles(&txns, &versions, budget, &mut found, &mut report)
        {
            report.exhausted(exhausted);
        }
        for certificate in found.shown.values_mut().flatten() {
            reasons::add_happened(&txns, &versions, certificate);
        }
        report.conclude(&txns, found)
    }
}

impl ListAppend {
    fn find_cycles<'h>(
        &self,
        txns: &Txns<'h>,
        versions: &Versions,
        budget: &Budget,
        found: &mut Found<'h>,
        report: &mut Report,
    ) -> Result<(), Exhausted> {
        let order = self.consistency.order();
        let data = Data::of(txns, versions);
        let mut edges = Edges::with_capacity(txns.mop_count() + 3 * txns.len());
        let real = txns.len() as u32;
        let nodes = data.add_edges(txns, versions, real, &mut edges);
        let nodes = add_order(order, txns, nodes, &mut edges);
        report.graph(edges.len());
        if !edges.fit(nodes) {
            report.too_large();
            return Ok(());
        }
        let graph = edges.into_graph(nodes as usize);
        let cycles = cycles::find(&graph, real, order, budget)?;
        for (name, count) in cycles.counts {
            *found.counts.entry(name).or_default() += count;
        }
        for cycle in cycles.shown {
            let proof = Proof::Cycle(steps(txns, versions, &data, order, &cycle));
            let certificate = Certificate { name: cycle.name, proof, happened: Vec::new() };
            found.shown.entry(cycle.name).or_default().push(certificate);
        }
        Ok(())
    }
}

/// A cycle with its reasons. An edge for which there is none is left out, and the verifier sees it.
fn steps<'h>(
    txns: &Txns<'h>,
    versions: &Versions,
    data: &Data,
    order: OrderKind,
    cycle: &Cycle,
) -> Vec<Step<'h>> {
    let next = cycle.steps.iter().cycle().skip(1);
    cycle
        .steps
        .iter()
        .zip(next)
        .filter_map(|(&(from, rel), &(to, _))| {
            let because = match (rel, order) {
                (Rel::ORDER, OrderKind::Process) => Because::Process,
                (Rel::ORDER, _) => Because::RealTime,
                _ => reasons::reason(txns, versions, data, (from, rel, to))?,
            };
            Some(Step { from: txns.invoke(from), to: txns.invoke(to), because })
        })
        .collect()
}
