//! The protection table: which mechanism held against which fault for which resource, measured.

use std::fmt::Write as _;

use deposed_checkers::Verdict;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::html::{POLICY, STYLE};
use crate::phrase;

/// What came of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The protection held in every run.
    Held,
    /// It broke.
    Broke,
    /// Nothing was put to the test.
    Untested,
    /// A guarantee broke that the table does not speak of.
    Otherwise,
}

impl Outcome {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Broke => "broke",
            Self::Untested => "untested",
            Self::Otherwise => "broke otherwise",
        }
    }
}

/// One run of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLink {
    /// Its folder, as seen from the table's.
    pub folder: String,
    /// Its seed.
    pub seed: u64,
    /// What it came to.
    pub outcome: Outcome,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// What it is called.
    pub name: String,
    /// What is protected.
    pub resource: String,
    /// By what.
    pub mechanism: String,
    /// Against what.
    pub fault: String,
    /// What the project says has to come of it.
    pub expected: Outcome,
    /// Why.
    pub reason: String,
    /// What came of it.
    pub outcome: Outcome,
    /// What broke, or why nothing was tested, in a few words.
    pub told: String,
    /// How long the danger lasted, in words.
    pub window: String,
    /// Its runs, the telling one first.
    pub runs: Vec<RunLink>,
}

impl Cell {
    /// Whether it came out as the project says.
    pub fn is_as_expected(&self) -> bool {
        self.outcome == self.expected
    }
}

/// The cells that were run, and with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectionTable {
    /// In the order of the table.
    pub cells: Vec<Cell>,
    /// The version of deposed.
    pub deposed: String,
}

const COLUMNS: [&str; 7] =
    ["resource", "mechanism", "fault", "outcome", "what broke", "window", "run"];

impl ProtectionTable {
    /// `27 cells: 15 held, 12 broke, all as expected`.
    pub fn summary(&self) -> String {
        let count = |outcome| self.cells.iter().filter(|cell| cell.outcome == outcome).count();
        let outcomes = [Outcome::Held, Outcome::Broke, Outcome::Untested, Outcome::Otherwise];
        let counts = outcomes.map(|outcome| (count(outcome), outcome.word()));
        let counts = counts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}"));
        let differ = self.cells.iter().filter(|cell| !cell.is_as_expected()).count();
        let end = match differ {
            0 => "all as expected".to_owned(),
            n => format!("{n} not as expected"),
        };
        let cells = phrase::counted(self.cells.len() as u64, "cell");
        format!("{cells}: {}; {end}", counts.collect::<Vec<_>>().join(", "))
    }

    /// As lines for a terminal.
    pub fn terminal(&self) -> String {
        let mut rows = vec![COLUMNS.map(str::to_owned)];
        rows.extend(self.cells.iter().map(Cell::columns));
        let width = |column: usize| {
            rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        // The last one needs no filling up.
        let widths: Vec<usize> = (0..COLUMNS.len() - 1).map(width).collect();
        let mut text = String::new();
        for row in &rows {
            for (cell, width) in row.iter().zip(&widths) {
                let fill = width.saturating_sub(cell.chars().count());
                let _ = write!(text, " {cell}{:fill$} ", "");
            }
            let _ = writeln!(text, " {}", row[COLUMNS.len() - 1]);
        }
        for cell in self.cells.iter().filter(|cell| !cell.is_as_expected()) {
            let (name, outcome, expected) = (&cell.name, cell.outcome, cell.expected.word());
            let _ = writeln!(
                text,
                "\n {name}: {}, and {expected} was expected: {}",
                outcome.word(),
                cell.reason
            );
        }
        let _ = writeln!(text, "\n {}", self.summary());
        text
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("# Protections\n\n{}.\n\n", self.summary());
        let _ = writeln!(text, "| {} | why |", COLUMNS.join(" | "));
        let _ = writeln!(text, "|{}", "---|".repeat(COLUMNS.len() + 1));
        for cell in &self.cells {
            let mut columns = cell.columns();
            if let Some(run) = cell.runs.first() {
                let name = &cell.name;
                columns[COLUMNS.len() - 1] = format!("[{name}]({}/report.html)", run.folder);
            }
            let escaped = columns.map(|column| column.replace('|', "\\|"));
            let _ = writeln!(text, "| {} | {} |", escaped.join(" | "), cell.reason);
        }
        text
    }

    /// As a page of its own.
    pub fn html(&self) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="color-scheme" content="light dark";
                    link rel="icon" href="data:,";
                    title { "Protections: " (self.summary()) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header {
                        h1 { "What the old leader can still do" }
                        p.lede { (self.summary()) "." }
                    }
                    main {
                        @for resource in self.resources() {
                            section {
                                h2 { (phrase::clean(resource)) }
                                div.scroll { (self.html_table(resource)) }
                            }
                        }
                    }
                    footer { p { "Written by deposed " (self.deposed) "." } }
                }
            }
        };
        page.into_string() + "\n"
    }

    /// Each resource once, in the order of the table.
    fn resources(&self) -> Vec<&str> {
        let mut resources: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !resources.contains(&cell.resource.as_str()) {
                resources.push(&cell.resource);
            }
        }
        resources
    }

    fn html_table(&self, resource: &str) -> Markup {
        let cells = self.cells.iter().filter(|cell| cell.resource == resource);
        html! {
            table {
                thead {
                    tr {
                        th { "mechanism" } th { "fault" } th { "outcome" } th { "what broke" }
                        th { "window" } th { "because" } th { "runs" }
                    }
                }
                tbody {
                    @for cell in cells {
                        tr id=(cell.name) {
                            td { b { (phrase::clean(&cell.mechanism)) } }
                            td { (phrase::clean(&cell.fault)) }
                            td {
                                span class={ "verdict " (colour(cell)) } { (cell.outcome.word()) }
                                @if !cell.is_as_expected() {
                                    br; b.bad { "expected: " (cell.expected.word()) }
                                }
                            }
                            td { (phrase::clean(&cell.told)) }
                            td { (phrase::clean(&cell.window)) }
                            td { (phrase::clean(&cell.reason)) }
                            td {
                                @for run in &cell.runs {
                                    a href={ (run.folder) "/report.html" } { (run.seed) } " "
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The colour of an outcome, by the verdict that has it. A protection that breaks as it was said to
/// is no alarm.
const fn colour(cell: &Cell) -> Verdict {
    match cell.outcome {
        Outcome::Held => Verdict::Valid,
        Outcome::Untested => Verdict::Unknown,
        Outcome::Broke | Outcome::Otherwise => Verdict::Invalid,
    }
}

impl Cell {
    fn columns(&self) -> [String; COLUMNS.len()] {
        let outcome = match self.is_as_expected() {
            true => self.outcome.word().to_owned(),
            false => format!("{} (!)", self.outcome.word()),
        };
        let run = self.runs.first().map_or_else(String::new, |run| run.folder.clone());
        let parts = [&self.resource, &self.mechanism, &self.fault, &outcome, &self.told];
        let [resource, mechanism, fault, outcome, told] = parts.map(|part| phrase::clean(part));
        [resource, mechanism, fault, outcome, told, phrase::clean(&self.window), run]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(name: &str, outcome: Outcome) -> Cell {
        Cell {
            name: name.into(),
            resource: "volume".into(),
            mechanism: "token".into(),
            fault: "pause".into(),
            expected: Outcome::Held,
            reason: "it <refuses>".into(),
            outcome,
            told: "2 stale-token-accepted".into(),
            window: "up to 1 s".into(),
            runs: vec![RunLink { folder: format!("{name}/x"), seed: 7, outcome }],
        }
    }

    /// A cell that differs is told in every format, with its reason; nothing becomes markup.
    #[test]
    fn what_differs_is_told() {
        let cells = vec![cell("a", Outcome::Held), cell("b", Outcome::Broke)];
        let table = ProtectionTable { cells, deposed: "0".into() };
        assert_eq!(table.summary(), "2 cells: 1 held, 1 broke; 1 not as expected");
        let terminal = table.terminal();
        assert!(terminal.contains("b: broke, and held was expected: it <refuses>"), "{terminal}");
        let markdown = table.markdown();
        assert!(markdown.contains("[b](b/x/report.html)"), "{markdown}");
        let html = table.html();
        assert!(html.contains("it &lt;refuses&gt;") && html.contains("expected: held"), "{html}");
        assert!(html.contains("href=\"a/x/report.html\""), "{html}");
    }
}
