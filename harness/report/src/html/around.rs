//! What happened around the proof: calls, faults and logs, and how often it happened at all.

use deposed_checkers::Anomaly;
use maud::{Markup, html};

use crate::around::{Around, AroundRow, CallRow};
use crate::call_text::outcome_word;
use crate::report::clause;
use crate::{Report, phrase};

/// Further anomalies listed by their summaries.
const ANOMALIES_MAX: usize = 50;
/// Log lines shown.
const LOG_LINES_MAX: usize = 200;

impl Report<'_> {
    pub(super) fn html_around(&self, anomaly: &Anomaly) -> Markup {
        let around = Around::of(self, anomaly);
        html! {
            @if !around.rows.is_empty() {
                section #around {
                    h2 { "What happened around it" }
                    p.sub {
                        @match &anomaly.key {
                            Some(key) => { "Calls on key " code { (phrase::unquoted(key)) } }
                            None => { "Calls" }
                        }
                        " and faults, within five seconds of the proof. An index is that of the history \
                         (in " code { "history.jsonl" } ", line = index + 2)."
                    }
                    div.scroll {
                        table.around {
                            thead {
                                tr {
                                    th.num { "index" } th.num { "time" } th { "process" } th { "node" }
                                    th { "call" } th { "outcome" } th.num { "took" }
                                }
                            }
                            tbody { @for row in &around.rows { (around_row(row)) } }
                        }
                    }
                }
            }
        }
    }

    pub(super) fn html_how_often(&self) -> Markup {
        let listed = &self.anomalies;
        let shown = listed.len().min(ANOMALIES_MAX);
        let more = self.anomaly_count().saturating_sub(shown as u64);
        let keys: std::collections::BTreeSet<&String> =
            listed.iter().filter_map(|(_, anomaly)| anomaly.key.as_ref()).collect();
        html! {
            @if self.anomaly_count() > 1 {
                section #often {
                    h2 { "How often" }
                    p {
                        (phrase::counted(self.anomaly_count(), "violation")) " in "
                        (phrase::counted(self.counts.calls.ok, "successful call"))
                        @if !keys.is_empty() {
                            "; those listed are on " (phrase::counted(keys.len() as u64, "key"))
                        }
                        "."
                    }
                    ol.anomalies {
                        @for (analysis, anomaly) in listed.iter().take(ANOMALIES_MAX) {
                            li { b { (phrase::clean(&analysis.checker)) } ": " (clause(&anomaly.summary)) }
                        }
                    }
                    @if more > 0 { p.sub { "and " (phrase::count(more)) " more, not listed." } }
                }
            }
        }
    }

    pub(super) fn html_logs(&self) -> Markup {
        let shown = self.log_lines(LOG_LINES_MAX);
        html! {
            @if !shown.lines.is_empty() {
                section #logs {
                    h2 { "What the nodes wrote" }
                    p.sub {
                        "In order of each node's own clock, in UTC; the clocks are not compared."
                        @if shown.omitted > 0 {
                            " " (phrase::counted(shown.omitted, "more line")) " left out."
                        }
                    }
                    div.scroll {
                        table.logs {
                            thead { tr { th { "time" } th { "node" } th { "line" } th { "where" } } }
                            tbody {
                                @for line in &shown.lines {
                                    tr.crash[line.crash] {
                                        td.num { @if let Some(ns) = line.wall_ns { (phrase::wall(ns)) } }
                                        td { (line.node) }
                                        td { code { @if line.crash { "✗ " } (line.text) } }
                                        td.place { (line.place) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn around_row(row: &AroundRow) -> Markup {
    match row {
        AroundRow::Call(row) => call_row(row),
        AroundRow::Gap { calls, .. } => html! {
            tr.gap {
                td {} td.num { "⋮" }
                td colspan="5" { (phrase::counted(*calls, "call")) " not shown" }
            }
        },
        AroundRow::Fault { time_ns, text } => html! {
            tr.fault { td {} td.num { (phrase::moment(*time_ns)) } td colspan="5" { "⚡ " (text) } }
        },
    }
}

fn call_row(row: &CallRow) -> Markup {
    html! {
        tr.proof[row.witness.is_some()] id=[row.witness.as_ref().map(|_| format!("op-{}", row.position))] {
            td.num { (phrase::count(row.index)) }
            td.num { (phrase::moment(row.time_ns)) }
            td { (row.process) }
            td { (row.node.as_deref().unwrap_or("")) }
            td { code { (row.text) } @if let Some(name) = &row.witness { span.mark { " ◄ " (name) } } }
            td {
                span class={ "key " (outcome_word(row.outcome)) } { (outcome_word(row.outcome)) }
                @if let Some(error) = &row.error { " " span.error { (error) } }
            }
            td.num { (row.took_ns.map_or("–".into(), phrase::duration)) }
        }
    }
}
