//! Every injection with the evidence that it bit and that it healed.

use deposed_history::Effect;
use maud::{Markup, html};

use crate::fault_text::{bite_text, fault_name, healing_text};
use crate::{Report, phrase};

/// Injections listed.
const FAULTS_MAX: usize = 200;

impl Report<'_> {
    pub(super) fn html_faults(&self) -> Markup {
        if self.coverage.is_empty() {
            return html! {};
        }
        let more = self.episodes.len().saturating_sub(FAULTS_MAX) as u64;
        html! {
            section #faults {
                h2 { "Faults injected" }
                p.sub { "A fault counts only if it was seen to bite." }
                div.scroll {
                    table {
                        thead {
                            tr {
                                th { "fault" } th.num { "from" } th { "evidence that it bit" }
                                th.num { "to" } th { "evidence that it healed" }
                            }
                        }
                        tbody {
                            @for episode in self.episodes.iter().take(FAULTS_MAX) {
                                tr {
                                    td { (fault_name(episode)) }
                                    td.num { (phrase::moment(episode.begin.time)) }
                                    td { (effect_mark(episode.effect())) " " (bite_text(episode)) }
                                    td.num {
                                        (episode.healed.map_or("–".into(), |m| phrase::moment(m.time)))
                                    }
                                    td {
                                        @if episode.is_healed() { (effect_mark(Effect::Proven)) " " }
                                        (healing_text(episode))
                                    }
                                }
                            }
                            @for (fault, _) in self.coverage.iter().filter(|(_, c)| c.injected == 0) {
                                tr {
                                    td { (phrase::clean(fault)) } td.num { "–" }
                                    td { (effect_mark(Effect::Skipped)) " asked for, never injected" }
                                    td.num { "–" } td { "nothing to heal" }
                                }
                            }
                        }
                    }
                }
                @if more > 0 { p.sub { (phrase::counted(more, "more injection")) " not listed." } }
            }
        }
    }
}

fn effect_mark(effect: Effect) -> Markup {
    let (class, mark) = match effect {
        Effect::Proven => ("good", "✓"),
        Effect::Indeterminate => ("doubt", "?"),
        Effect::Skipped => ("doubt", "–"),
    };
    html! { b class=(class) { (mark) } }
}
