//! Who judged, what they said, and what they cannot see.

use maud::{Markup, html};

use crate::report::clause;
use crate::{Report, glossary, phrase};

/// Undecided windows listed for each checker.
const UNDECIDED_MAX: usize = 30;

impl Report<'_> {
    pub(super) fn html_checks(&self) -> Markup {
        html! {
            section #checks {
                h2 { "Checks performed" }
                div.scroll {
                    table {
                        thead {
                            tr {
                                th { "checker" } th { "verdict" } th { "found" } th.num { "time" }
                                th { "what it cannot see" }
                            }
                        }
                        tbody {
                            @for check in self.run.checks {
                                @let analysis = &check.analysis;
                                tr {
                                    td { b { (phrase::clean(&analysis.checker)) } }
                                    td {
                                        span class={ "verdict " (analysis.verdict) } {
                                            (analysis.verdict)
                                        }
                                    }
                                    td { (phrase::clean(&analysis.summary)) }
                                    td.num { (phrase::duration_ms(check.elapsed_ms)) }
                                    td { (glossary::property(&analysis.checker).blind_to) }
                                }
                            }
                            @if self.run.checks.is_empty() {
                                tr { td colspan="5" { "No checker judged this history." } }
                            }
                        }
                    }
                }
            }
        }
    }

    pub(super) fn html_undecided(&self) -> Markup {
        let analyses = || self.run.checks.iter().map(|check| &check.analysis);
        html! {
            @if analyses().any(|analysis| !analysis.undecided.is_empty()) {
                section #undecided {
                    h2 { "What was not decided" }
                    ul {
                        @for analysis in analyses() {
                            @for undecided in analysis.undecided.iter().take(UNDECIDED_MAX) {
                                li {
                                    b { (phrase::clean(&analysis.checker)) }
                                    @if let Some(key) = &undecided.key {
                                        ", key " code { (phrase::clean(key)) }
                                    }
                                    ": " (clause(&undecided.reason))
                                    (self.window_text(undecided.window))
                                    @if let Some(known) = &undecided.known {
                                        " Known nevertheless: " (clause(known))
                                    }
                                }
                            }
                            @let more = analysis.undecided.len().saturating_sub(UNDECIDED_MAX) as u64;
                            @if more > 0 {
                                li { (phrase::clean(&analysis.checker)) ": " (phrase::count(more)) " more." }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Which part of the run a window of positions is, if it is not all of it.
    fn window_text(&self, (first, last): (u32, u32)) -> String {
        let history = self.run.history;
        let (first, last) = (first as usize, last as usize);
        if last >= history.len() || (first == 0 && last + 1 == history.len()) || first > last {
            return String::new();
        }
        let at = |position: usize| phrase::moment(history.op(position as u32).time());
        format!(" It concerns the run from {} to {}.", at(first), at(last))
    }
}
