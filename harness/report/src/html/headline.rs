//! The top of the page: what was found, in which store, when.

use deposed_checkers::Verdict;
use maud::{Markup, html};

use super::badge;
use crate::report::{clause, sentence};
use crate::witness::Witness;
use crate::{Ending, Report, phrase};

impl Report<'_> {
    pub(super) fn html_headline(&self, witness: Option<&Witness>) -> Markup {
        let plan = self.run.plan;
        let facts = [
            ("System", self.system_text()),
            ("Workload", phrase::clean(&plan.workload.name)),
            ("Faults", self.faults_text()),
            ("Date", phrase::date(&plan.created)),
            ("Run", phrase::clean(&plan.id)),
            ("Seed", plan.seed.to_string()),
        ];
        html! {
            header class={ (self.verdict) " " (self.strength.grade.as_str()) } {
                p.badge { (badge(self.verdict, self.strength.grade)) }
                h1 { (self.headline) }
                @if let Some(late) = witness.and_then(Witness::lateness) { p.lede { (sentence(&late)) } }
                @if let Some(weather) = witness.and_then(|witness| self.weather(witness)) {
                    p.lede { "It happened " (weather) "." }
                }
                @if self.verdict == Verdict::Invalid && self.anomaly_count() > 1 {
                    p.lede {
                        "One of " (phrase::counted(self.anomaly_count(), "violation")) " in this run."
                    }
                }
                @if let Some(note) = self.ending_note() { p.lede { (note) } }
                dl.facts {
                    @for (name, fact) in &facts {
                        div { dt { (name) } dd { (fact) } }
                    }
                }
            }
        }
    }

    fn system_text(&self) -> String {
        let plan = self.run.plan;
        let version = plan.system_version().map_or(String::new(), |v| format!(" {v}"));
        // What was asked for on the command line; the rest is in the appendix.
        let typed = |option: &str| {
            let flag = format!("--{}", option.replace('_', "-"));
            plan.argv.iter().any(|word| word.split('=').next() == Some(flag.as_str()))
        };
        let options = plan.system.options.iter().filter(|(option, _)| typed(option));
        let options: Vec<String> = options.map(|(k, v)| format!("{k} = {v}")).collect();
        let options =
            if options.is_empty() { String::new() } else { format!(" ({})", options.join(", ")) };
        phrase::clean(&format!("{}{version}{options}", plan.system.name))
    }

    fn faults_text(&self) -> String {
        let lanes = &self.run.plan.faults.lanes;
        if lanes.is_empty() { "none".into() } else { phrase::clean(&lanes.join(", ")) }
    }

    /// How the run ended, unless the headline says it or there is nothing to say.
    fn ending_note(&self) -> Option<String> {
        let told = self.verdict == Verdict::Unknown;
        Some(match self.run.ending {
            Ending::Infrastructure { .. } | Ending::Bug { .. } if told => return None,
            Ending::Normal => return None,
            Ending::Interrupted { by } => {
                format!("Stopped early by {}; judged on what was recorded.", phrase::clean(by))
            }
            Ending::Infrastructure { reason } => {
                format!("The run failed, not the store: {}", clause(reason))
            }
            Ending::Bug { reason } => {
                format!("The run ended by a bug of deposed: {}", clause(reason))
            }
            Ending::Untold => "How the run ended is not known.".into(),
        })
    }
}
