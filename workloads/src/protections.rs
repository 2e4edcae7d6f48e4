//! Which protection holds against which fault, for which resource: the cells of `protections.toml`,
//! each a run and what has to come of it.

use serde::Deserialize;

/// The table, as it stands in the project.
const TABLE: &str = include_str!("../protections.toml");

/// One cell of the table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protection {
    /// What it is called.
    pub name: String,
    /// What is protected.
    pub resource: String,
    /// By what.
    pub mechanism: String,
    /// Against what.
    pub fault: String,
    /// What follows `deposed run`, besides time, seed and where results go.
    pub run: String,
    /// How long the run is at least, in seconds: some stores take long to get over a fault.
    #[serde(default)]
    pub seconds_min: u64,
    /// What has to come of it.
    pub expect: Expected,
    /// Anomalies, violations and exposures alike, of which one at least comes up where it breaks,
    /// and none where it holds.
    pub watch: Vec<String>,
    /// Other violations that may come up: what else the fault breaks.
    #[serde(default)]
    pub besides: Vec<String>,
    /// The measure or anomaly whose sizes tell how long the danger lasted.
    pub window: Option<String>,
    /// How long the danger lasts at least where it breaks, in seconds: a shorter one has shown nothing.
    pub window_over_s: Option<u64>,
    /// How long it lasts at most, in seconds: a longer one is not what the mechanism is for.
    pub window_under_s: Option<u64>,
    /// Whether it tests nothing unless another leader takes over.
    #[serde(default = "yes")]
    pub takeover: bool,
    /// Why that has to come of it.
    pub reason: String,
}

/// What has to come of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    /// The protection holds, in every run.
    Holds,
    /// It breaks, in one run of a few at least.
    Breaks,
}

const fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct Table {
    cells: Vec<Protection>,
}

/// Every cell, in the order of the table.
pub fn protections() -> Vec<Protection> {
    let table: Table = toml::from_str(TABLE).expect("the table is tested to load");
    table.cells
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Cells have names of their own, say what they look for, and none looks for what it allows.
    #[test]
    fn the_table_makes_sense() {
        let cells = protections();
        let names: BTreeSet<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(names.len(), cells.len());
        for cell in &cells {
            assert!(!cell.watch.is_empty(), "{}", cell.name);
            let both = cell.watch.iter().find(|name| cell.besides.contains(name));
            assert_eq!(both, None, "{}", cell.name);
            for name in cell.watch.iter().chain(&cell.besides) {
                assert!(
                    deposed_checkers::FENCING_NAMES.contains(&&**name),
                    "{}: {name}",
                    cell.name
                );
            }
            let bounded = cell.window_over_s.is_some() || cell.window_under_s.is_some();
            assert!(cell.window.is_some() || !bounded, "{}", cell.name);
            for part in ["--time", "--seed", "--results"] {
                assert!(!cell.run.contains(part), "{}: {part}", cell.name);
            }
        }
        assert!(cells.iter().any(|cell| cell.expect == Expected::Holds));
        assert!(cells.iter().any(|cell| cell.expect == Expected::Breaks));
    }
}
