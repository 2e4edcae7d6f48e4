//! `report.html`: one file that needs nothing else. No script, no network, no font: a page that a
//! browser of any year, a printer and a screen reader can read.

mod appendix;
mod around;
mod checks;
mod exposures;
mod faults;
mod headline;
mod measures;
mod overview;
mod proof;
mod strength;

use deposed_checkers::Verdict;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::strength::Grade;
use crate::witness::Witness;
use crate::{Report, phrase};

pub(crate) const STYLE: &str = include_str!("style.css");

/// Nothing may be loaded and nothing may run, whatever ends up in the page.
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

impl Report<'_> {
    /// The bytes of `report.html`. Its size is bounded, whatever the size of the history.
    pub fn html(&self) -> String {
        let witness = self.witness();
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="color-scheme" content="light dark";
                    link rel="icon" href="data:,";
                    title { (self.page_title()) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    (self.html_headline(witness.as_ref()))
                    main { (self.html_sections(witness.as_ref())) }
                    footer {
                        p { "Written by deposed " (self.run.plan.deposed) ", run " (self.run.plan.id) "." }
                    }
                }
            }
        };
        let mut text = phrase::clean_lines(&page.into_string());
        text.push('\n');
        text
    }

    fn page_title(&self) -> String {
        let plan = self.run.plan;
        let system = phrase::clean(&plan.system.name);
        format!(
            "{} {system} {} {}",
            badge(self.verdict, self.strength.grade),
            phrase::clean(&plan.cell()),
            plan.id
        )
    }

    fn html_sections(&self, witness: Option<&Witness>) -> Markup {
        html! {
            @if let Some((analysis, anomaly)) = self.first_anomaly() {
                (self.html_proof(analysis, anomaly, witness))
                (self.html_why(analysis, anomaly))
            }
            @if self.verdict != Verdict::Invalid && self.counts.calls.total() > 0 {
                (self.html_strength())
            }
            (self.html_undecided())
            @if let Some((_, anomaly)) = self.first_anomaly() {
                (self.html_around(anomaly))
                (self.html_how_often())
            }
            (self.html_logs())
            (self.html_overview())
            (self.html_exposures())
            (self.html_measures())
            (self.html_faults())
            (self.html_checks())
            (self.html_again(witness))
            (self.html_limits())
            (self.html_appendix())
        }
    }
}

/// The verdict with a mark, so that colour is not needed to tell it. A `valid` that is worth little
/// says so.
const fn badge(verdict: Verdict, grade: Grade) -> &'static str {
    match (verdict, grade) {
        (Verdict::Valid, Grade::Weak) => "✓ Valid, on weak evidence",
        (Verdict::Valid, _) => "✓ Valid",
        (Verdict::Unknown, _) => "? Unknown",
        (Verdict::Invalid, _) => "✗ Invalid",
    }
}
