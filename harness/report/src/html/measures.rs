//! What checkers measured: how long each danger lasted, as a table with a picture a row.

use maud::{Markup, html};

use crate::distribution::signed;
use crate::{Report, glossary, phrase, plot};

impl Report<'_> {
    pub(super) fn html_measures(&self) -> Markup {
        let rows = self.measures();
        html! {
            @if !rows.is_empty() {
                section #measures {
                    h2 { "How long the danger lasted" }
                    p.sub {
                        "Measured between calls that clients saw answered and lines of the resources' "
                        "own logs, never between lines of a node's log. Each picture shows all values, "
                        "from the smallest to the greatest; its scale begins at zero."
                    }
                    div.scroll {
                        table {
                            thead {
                                tr {
                                    th { "what" } th.num { "times" } th.num { "least" }
                                    th.num { "middle" } th.num { "99 of 100" } th.num { "most" }
                                    th { "distribution" }
                                }
                            }
                            tbody {
                                @for (name, sizes) in &rows {
                                    tr {
                                        td { b { (phrase::clean(name)) } br; (glossary::measure(name)) }
                                        td.num { (phrase::count(sizes.count)) }
                                        td.num { (signed(sizes.min_ns)) }
                                        td.num { (signed(sizes.p50_ns)) }
                                        td.num { (signed(sizes.p99_ns)) }
                                        td.num { (signed(sizes.max_ns)) }
                                        td { (plot::quantiles(&sizes.curve_ns)) }
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
