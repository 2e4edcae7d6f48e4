//! What is dangerous and breaks no promise, with an example of each.

use maud::{Markup, html};

use crate::report::clause;
use crate::{Report, exposures, glossary};

impl Report<'_> {
    pub(super) fn html_exposures(&self) -> Markup {
        let exposures = self.exposures();
        html! {
            @if !exposures.is_empty() {
                section #exposures {
                    h2 { "What is legal and dangerous" }
                    p.sub {
                        "The system does not promise that this never happens, so it is no violation. "
                        "How long each danger lasted stands below."
                    }
                    @for exposure in &exposures {
                        h3 { (exposure.in_words()) }
                        @if let Some(meaning) = glossary::anomaly(&exposure.name) { p { (meaning) } }
                        @if let Some(example) = exposure.examples.first() {
                            p { "For instance: " (clause(&example.summary)) }
                            ul.argument {
                                @for sentence in exposures::argument(example) {
                                    li { (clause(sentence)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
