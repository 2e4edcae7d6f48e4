//! How to see it again, what not to conclude, and the plan.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::plan::Host;
use crate::witness::Witness;
use crate::{Report, phrase};

/// Nodes and files listed.
const ROWS_MAX: usize = 200;

impl Report<'_> {
    pub(super) fn html_again(&self, witness: Option<&Witness>) -> Markup {
        html! {
            section #again {
                h2 { "See it again" }
                @for recipe in self.recipes(witness) {
                    p.recipe { (recipe.what) ":" }
                    pre { code { (recipe.command) } }
                }
            }
        }
    }

    pub(super) fn html_limits(&self) -> Markup {
        html! {
            section #limits {
                h2 { "Assumptions and limits" }
                ul { @for limit in self.limits() { li { (limit) } } }
            }
        }
    }

    pub(super) fn html_appendix(&self) -> Markup {
        html! {
            section #appendix {
                h2 { "Appendix" }
                h3 { "Plan" }
                div.scroll { (self.html_plan()) }
                (self.html_machines())
                (self.html_files())
            }
        }
    }

    fn html_plan(&self) -> Markup {
        let plan = self.run.plan;
        let ms = phrase::duration_ms;
        let rate =
            plan.load.rate.map_or("as fast as answered".into(), |r| format!("{r} per second"));
        let place = if plan.load.on_nodes { " on the nodes they speak to" } else { "" };
        let rows: [(&str, String); 11] = [
            ("command", plan.argv.join(" ")),
            ("system", with_options(&plan.system.name, &plan.system.options)),
            ("workload", with_options(&plan.workload.name, &plan.workload.options)),
            ("faults", with_options(&plan.faults.lanes.join(", "), &plan.faults.options)),
            ("fault interval", ms(plan.faults.interval_ms)),
            ("cluster", plan.cluster.origin.clone()),
            ("clients", format!("{} at a time{place}, {rate}", plan.load.concurrency)),
            ("time limit", ms(plan.limits.time_ms)),
            ("limit of one call", ms(plan.limits.op_ms)),
            (
                "limits of a check",
                format!(
                    "{}, {}",
                    ms(plan.limits.check_ms),
                    phrase::memory(plan.limits.check_memory_bytes)
                ),
            ),
            ("checkers", plan.checkers.join(", ")),
        ];
        html! {
            table.plan {
                tbody {
                    @for (name, value) in &rows {
                        @if !value.is_empty() { tr { th { (name) } td { (phrase::clean(value)) } } }
                    }
                }
            }
        }
    }

    fn html_machines(&self) -> Markup {
        let plan = self.run.plan;
        let unknown = Host::default();
        let environment = plan.environment.as_ref();
        let host = |name: &str| environment.and_then(|e| e.nodes.get(name)).unwrap_or(&unknown);
        html! {
            h3 { "Machines" }
            div.scroll {
                table {
                    thead { tr { th { "machine" } th { "address" } th { "system" } th { "packages" } } }
                    tbody {
                        @if let Some(environment) = environment {
                            (machine("controller", "", &environment.controller))
                        }
                        @for node in plan.cluster.nodes.iter().take(ROWS_MAX) {
                            (machine(&node.name, &node.addr, host(&node.name)))
                        }
                    }
                }
            }
        }
    }

    fn html_files(&self) -> Markup {
        let more = self.run.files.len().saturating_sub(ROWS_MAX) as u64;
        html! {
            @if !self.run.files.is_empty() {
                h3 { "Files" }
                p.sub { "In the folder of this report." }
                ul.files {
                    @for file in self.run.files.iter().take(ROWS_MAX) {
                        li { code { (phrase::clean(&file.path)) } " " span.sub { (phrase::bytes(file.bytes)) } }
                    }
                    @if more > 0 { li { "and " (phrase::count(more)) " more" } }
                }
            }
        }
    }
}

fn machine(name: &str, addr: &str, host: &Host) -> Markup {
    let packages: Vec<String> = host.packages.iter().map(|(k, v)| format!("{k} {v}")).collect();
    let system: Vec<&str> =
        [host.os.as_str(), host.kernel.as_str()].into_iter().filter(|s| !s.is_empty()).collect();
    html! {
        tr {
            td { b { (phrase::clean(name)) } }
            td { (phrase::clean(addr)) }
            td { (phrase::clean(&system.join(", "))) }
            td { (phrase::clean(&packages.join(", "))) }
        }
    }
}

fn with_options(name: &str, options: &BTreeMap<String, String>) -> String {
    if options.is_empty() {
        return name.to_owned();
    }
    let options: Vec<String> = options.iter().map(|(k, v)| format!("{k} = {v}")).collect();
    format!("{name} ({})", options.join(", "))
}
