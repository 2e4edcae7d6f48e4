//! The run as a whole: rate, latency, availability and faults on one time axis.

use maud::{Markup, html};

use crate::counts::Tally;
use crate::offsets::offsets;
use crate::{Report, phrase, plot};

/// Functions and nodes listed.
const ROWS_MAX: usize = 40;

impl Report<'_> {
    pub(super) fn html_overview(&self) -> Markup {
        if self.run.history.calls().is_empty() {
            return html! {};
        }
        let (history, span) = (self.run.history, self.counts.span_ns);
        let episodes = &self.episodes;
        html! {
            section #run {
                h2 { "The whole run" }
                p.sub {
                    (phrase::counted(self.counts.calls.total(), "call")) " in "
                    (phrase::duration(span)) ". All pictures share one time axis; faults are shaded."
                }
                @if !episodes.is_empty() {
                    figure.plot {
                        figcaption { b { "Faults" } " by lane" (unproven_key(self)) }
                        div.scroll { (plot::faults(span, episodes)) }
                    }
                }
                figure.plot {
                    figcaption {
                        b { "Rate" } ", calls answered per second "
                        span.key.ok { "ok" } " " span.key.info { "info" } " " span.key.fail { "fail" }
                    }
                    div.scroll { (plot::rate(history, span, episodes)) }
                }
                figure.plot {
                    figcaption {
                        b { "Latency" } ", each call answered, logarithmic. Lines: "
                        span.line.q0 { "p50" } " " span.line.q1 { "p95" } " " span.line.q2 { "p99" }
                    }
                    div.scroll { (plot::latency(history, span, episodes)) }
                }
                (self.html_offsets())
                @if !self.counts.by_node.is_empty() {
                    figure.plot {
                        figcaption {
                            b { "Availability" } ", share of calls served, by node "
                            span.key.s5 { "all" } " " span.key.s3 { "some" } " " span.key.s0 { "none" }
                            " " span.key.silent { "no call" }
                        }
                        div.scroll { (plot::availability(history, span, episodes)) }
                    }
                }
                (self.html_counts())
            }
        }
    }

    /// The clocks that were moved, as they were read from inside of what saw them.
    fn html_offsets(&self) -> Markup {
        let nodes = offsets(self.run.history);
        html! {
            @if !nodes.is_empty() {
                figure.plot {
                    figcaption {
                        b { "Clocks" } ", how far ahead of the true time or behind it, read on each node "
                        "and as high as the reading may be off; logarithmic"
                        @for (number, node) in nodes.keys().enumerate() {
                            " " span class={ "key c" (number % plot::COLOURS) } { (phrase::clean(node)) }
                        }
                    }
                    div.scroll { (plot::offsets(&nodes, self.counts.span_ns, &self.episodes)) }
                }
            }
        }
    }

    fn html_counts(&self) -> Markup {
        let all = std::iter::once(("all calls".to_owned(), &self.counts.calls));
        let by_f = self.counts.by_f.iter().map(|(f, tally)| (phrase::clean(f), tally));
        let by_node = self.counts.by_node.iter().map(|(n, tally)| (phrase::clean(n), tally));
        html! {
            div.columns {
                (tally_table("by operation", by_f.take(ROWS_MAX).chain(all)))
                (tally_table("by node", by_node.take(ROWS_MAX)))
            }
        }
    }
}

fn unproven_key(report: &Report<'_>) -> Markup {
    use deposed_history::Effect;
    let doubtful = report.episodes.iter().any(|e| e.effect() != Effect::Proven);
    html! { @if doubtful { " " span.key.band { "proven" } " " span.key.band.unproven { "not proven" } } }
}

fn tally_table<'t>(title: &str, rows: impl Iterator<Item = (String, &'t Tally)>) -> Markup {
    html! {
        table.tally {
            thead {
                tr {
                    th { (title) } th.num { "ok" } th.num { "fail" } th.num { "info" } th.num { "ok share" }
                }
            }
            tbody {
                @for (name, tally) in rows {
                    tr {
                        td { (name) }
                        td.num { (phrase::count(tally.ok)) }
                        td.num { (phrase::count(tally.fail)) }
                        td.num { (phrase::count(tally.info)) }
                        td.num { (phrase::percent(tally.ok, tally.total())) }
                    }
                }
            }
        }
    }
}
