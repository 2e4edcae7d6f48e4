//! The proof of the first violation: a picture, an argument, and what it means.

use deposed_checkers::{Analysis, Anomaly};
use deposed_history::Outcome;
use maud::{Markup, html};

use crate::call_text::outcome_word;
use crate::report::clause;
use crate::witness::{Witness, WitnessOp, edge_words};
use crate::{Report, glossary, phrase, plot};

/// What the colours of bars mean.
const OUTCOMES: [(Outcome, &str); 3] =
    [(Outcome::Ok, "ok"), (Outcome::Info, "outcome unknown"), (Outcome::Fail, "did not happen")];

impl Report<'_> {
    pub(super) fn html_proof(
        &self,
        analysis: &Analysis,
        anomaly: &Anomaly,
        witness: Option<&Witness>,
    ) -> Markup {
        html! {
            section #proof {
                h2 { "The proof" }
                p.sub {
                    "Found by " b { (analysis.checker) } ", as " code { (phrase::clean(&anomaly.name)) }
                    @if let Some(key) = &anomaly.key {
                        ". Everything here is about key " code { (phrase::unquoted(key)) }
                    }
                    "."
                }
                @if let Some(witness) = witness { (figure(witness)) }
                @if !anomaly.sentences.is_empty() {
                    h3 { "In words" }
                    ul.argument {
                        @for sentence in &anomaly.sentences {
                            li { (phrase::clean(sentence)) (numbers(witness, sentence)) }
                        }
                    }
                }
                @if let Some(witness) = witness {
                    (edges(witness, &witness.edges_untold(&anomaly.sentences)))
                }
            }
        }
    }

    pub(super) fn html_why(&self, analysis: &Analysis, anomaly: &Anomaly) -> Markup {
        let property = glossary::property(&analysis.checker);
        html! {
            section #why {
                h2 { "Why it matters" }
                @if let Some(meaning) = glossary::anomaly(&anomaly.name) { p { (meaning) } }
                p { "What is violated: " b { (analysis.checker) } ". " (property.meaning) }
                @if let Some(standing) = analysis.details.get("standing").and_then(|v| v.as_str()) {
                    p { "What still holds on this history: " b { (phrase::clean(standing)) } "." }
                }
                @for claim in self.run.plan.claims(&analysis.checker) {
                    p { "What its makers promise:" }
                    blockquote {
                        p { "“" (phrase::clean(&claim.quote)) "”" }
                        cite { (phrase::clean(&claim.source)) }
                    }
                }
            }
        }
    }
}

fn figure(witness: &Witness) -> Markup {
    html! {
        figure {
            div.scroll { (plot::witness(witness)) }
            figcaption {
                "Each bar is a call, from the moment a client asked to the moment it was answered. "
                @for (outcome, words) in OUTCOMES {
                    @if witness.ops.iter().any(|op| op.outcome == outcome) {
                        span class={ "key " (outcome_word(outcome)) } { (words) } " "
                    }
                }
                @if !witness.faults.is_empty() { span.key.band { "fault in force" } " " }
                "Order is exact; distances are squeezed and written on the axis. "
                @if witness.edges.iter().any(|edge| edge.against_time) {
                    "The " b.bad { "red arrow" } " is what the answers demand and time forbids."
                } @else if witness.edges.iter().any(|edge| edge.impossible) {
                    "The " b.bad { "red arrows" } " are an order that cannot be."
                }
                @if witness.ops_omitted > 0 {
                    " " (phrase::counted(witness.ops_omitted as u64, "further call")) " not drawn."
                }
            }
        }
    }
}

/// The numbers of the arrows that a sentence argues for, as in the picture.
fn numbers(witness: Option<&Witness>, sentence: &str) -> Markup {
    html! {
        @if let Some(witness) = witness {
            @for number in witness.edges_told(sentence) {
                " " span.arrow.cannot[witness.edges[number - 1].impossible] { (number) }
            }
        }
    }
}

/// The arrows of these numbers, for which no sentence argues.
fn edges(witness: &Witness, numbers: &[usize]) -> Markup {
    html! {
        @if !numbers.is_empty() {
            h3 { "The arrows" }
            ul.arrows {
                @for &number in numbers {
                    @let edge = &witness.edges[number - 1];
                    li.bad[edge.impossible] {
                        span.arrow.cannot[edge.impossible] { (number) } " "
                        (op_link(&witness.ops[edge.from])) " " b { (edge_words(edge.kind)) } " "
                        (op_link(&witness.ops[edge.to]))
                        @if edge.impossible { b.bad { ", which cannot be" } }
                        ": " (clause(&edge.because))
                    }
                }
            }
        }
    }
}

/// A call, linked to its row in the table below.
fn op_link(op: &WitnessOp) -> Markup {
    html! { a.op href={ "#op-" (op.position) } { (op.named()) } }
}
