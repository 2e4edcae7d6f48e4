//! How much a run that found nothing is worth.

use maud::{Markup, html};

use crate::Report;
use crate::strength::Grade;

impl Report<'_> {
    pub(super) fn html_strength(&self) -> Markup {
        let strength = &self.strength;
        let weak = strength.weaknesses();
        html! {
            section #strength {
                h2 { "How much this is worth" }
                div class={ "strength " (strength.grade.as_str()) } {
                    p.grade {
                        b { (strength.grade.as_str()) " evidence" }
                        @match strength.grade {
                            Grade::Strong => { " – as much as one run can give. More runs with other seeds give more." }
                            Grade::Fair => { " – worth something; a longer or harder run would be worth more." }
                            Grade::Weak => {
                                " – a violation could easily have been missed: see "
                                @for (i, measure) in weak.iter().enumerate() {
                                    @if i > 0 { ", " } "“" (measure.name) "”"
                                }
                                "."
                            }
                        }
                    }
                    table {
                        tbody {
                            @for measure in &strength.measures {
                                tr {
                                    td { (measure.name) }
                                    td.figure { b { (measure.figure) } }
                                    td { (meter(measure.grade)) }
                                    td.why { (measure.why) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Three dots and a word.
fn meter(grade: Grade) -> Markup {
    let (dots, word) = match grade {
        Grade::Weak => ("●○○", "weak"),
        Grade::Fair => ("●●○", "fair"),
        Grade::Strong => ("●●●", "strong"),
    };
    html! { span class={ "meter " (word) } { (dots) " " (word) } }
}
