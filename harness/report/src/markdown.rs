//! `report.md`: the story as Markdown, for issues, pull requests and step summaries.

use std::fmt::Write;

use deposed_checkers::{Anomaly, Verdict};

use crate::around::{Around, AroundRow};
use crate::call_text::outcome_word;
use crate::distribution::signed;
use crate::fault_text::{bite_text, fault_name, healing_text};
use crate::report::{clause, sentence};
use crate::witness::{Witness, edge_words};
use crate::{Report, exposures, glossary, phrase};

/// Further anomalies listed by their summaries.
const ANOMALIES_MAX: usize = 20;
/// Injections listed.
const FAULTS_MAX: usize = 50;
/// Undecided windows listed for each checker.
const UNDECIDED_MAX: usize = 10;
/// Log lines listed.
const LOG_LINES_MAX: usize = 60;

impl Report<'_> {
    /// The bytes of `report.md`.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        let witness = self.witness();
        self.md_headline(&mut out, witness.as_ref());
        if let Some((analysis, anomaly)) = self.first_anomaly() {
            md_why(&mut out, &analysis.checker, anomaly, self);
            md_witness(&mut out, anomaly, witness.as_ref());
            self.md_around(&mut out, anomaly);
            self.md_other_anomalies(&mut out);
        } else if self.counts.calls.total() > 0 {
            self.md_strength(&mut out);
        }
        self.md_undecided(&mut out);
        self.md_logs(&mut out);
        self.md_exposures(&mut out);
        self.md_measures(&mut out);
        self.md_faults(&mut out);
        self.md_calls(&mut out);
        self.md_checks(&mut out);
        self.md_reproduce(&mut out, witness.as_ref());
        heading(&mut out, "Assumptions and limits");
        for limit in self.limits() {
            line(&mut out, &format!("- {}", text(&limit)));
        }
        phrase::clean_lines(&out)
    }

    fn md_headline(&self, out: &mut String, witness: Option<&Witness>) {
        let plan = self.run.plan;
        let mark = match self.verdict {
            Verdict::Valid => "✓ valid",
            Verdict::Unknown => "? unknown",
            Verdict::Invalid => "✗ INVALID",
        };
        line(out, &format!("# {mark}: {}", text(&self.headline)));
        let version = plan.system_version().map_or(String::new(), |v| format!(" {v}"));
        line(out, "");
        line(
            out,
            &format!(
                "**{}{}** · {} · {} · run {} · seed {}",
                text(&plan.system.name),
                text(&version),
                text(&plan.cell()),
                phrase::date(&plan.created),
                code(&plan.id),
                code(&plan.seed.to_string()),
            ),
        );
        let Some(witness) = witness else { return };
        let weather = self.weather(witness).map(|weather| format!("it happened {weather}"));
        for circumstance in witness.lateness().into_iter().chain(weather) {
            line(out, "");
            line(out, &text(&sentence(&circumstance)));
        }
    }

    fn md_around(&self, out: &mut String, anomaly: &Anomaly) {
        let around = Around::of(self, anomaly);
        if around.rows.is_empty() {
            return;
        }
        heading(out, "What happened around it");
        table(out, &["", "index", "time", "process", "node", "call", "outcome", "took"]);
        for row in &around.rows {
            match row {
                AroundRow::Gap { calls, .. } => {
                    let calls = format!("{} not shown", phrase::counted(*calls, "call"));
                    cells_line(out, &["⋮", "", "", "", "", &calls, "", ""]);
                }
                AroundRow::Fault { time_ns, text: what } => {
                    let cells = ["⚡", "", &phrase::moment(*time_ns), "", "", &bold(what), "", ""];
                    cells_line(out, &cells);
                }
                AroundRow::Call(row) => {
                    let error = row.error.as_ref().map_or(String::new(), |e| format!(" {e}"));
                    cells_line(
                        out,
                        &[
                            &row.witness.as_ref().map_or(String::new(), |n| format!("**{n}**")),
                            &phrase::count(row.index),
                            &phrase::moment(row.time_ns),
                            &row.process,
                            &text(row.node.as_deref().unwrap_or("")),
                            &code(&row.text),
                            &format!("{}{}", outcome_word(row.outcome), text(&error)),
                            &row.took_ns.map_or("–".into(), phrase::duration),
                        ],
                    );
                }
            }
        }
    }

    fn md_other_anomalies(&self, out: &mut String) {
        let all = &self.anomalies;
        if self.anomaly_count() <= 1 {
            return;
        }
        heading(out, "How often");
        line(out, &format!("{} in this run.", phrase::counted(self.anomaly_count(), "violation")));
        line(out, "");
        for (analysis, anomaly) in all.iter().take(ANOMALIES_MAX) {
            let summary = format!("{}: {}", analysis.checker, clause(&anomaly.summary));
            line(out, &format!("- {}", text(&summary)));
        }
        let more = self.anomaly_count().saturating_sub(all.len().min(ANOMALIES_MAX) as u64);
        if more > 0 {
            line(out, &format!("- and {} more", phrase::count(more)));
        }
    }

    fn md_strength(&self, out: &mut String) {
        let grade = self.strength.grade.as_str();
        heading(out, &format!("How much this is worth: {grade} evidence"));
        table(out, &["measure", "figure", "", "why it matters"]);
        for m in &self.strength.measures {
            cells_line(out, &[&text(&m.name), &text(&m.figure), m.grade.as_str(), &text(&m.why)]);
        }
    }

    fn md_undecided(&self, out: &mut String) {
        let analyses = || self.run.checks.iter().map(|check| &check.analysis);
        if analyses().all(|analysis| analysis.undecided.is_empty()) {
            return;
        }
        heading(out, "What was not decided");
        for analysis in analyses() {
            for undecided in analysis.undecided.iter().take(UNDECIDED_MAX) {
                let key = undecided.key.as_ref().map_or(String::new(), |k| format!(" key {k}"));
                let known = undecided.known.as_ref().map_or(String::new(), |k| format!("; {k}"));
                let reason = &undecided.reason;
                let what = format!("{}{key}: {reason}{known}", analysis.checker);
                line(out, &format!("- {}", text(&clause(&what))));
            }
            let more = analysis.undecided.len().saturating_sub(UNDECIDED_MAX) as u64;
            if more > 0 {
                line(out, &format!("- {}: {} more", analysis.checker, phrase::count(more)));
            }
        }
    }

    fn md_logs(&self, out: &mut String) {
        let shown = self.log_lines(LOG_LINES_MAX);
        if shown.lines.is_empty() {
            return;
        }
        heading(out, "What the nodes wrote");
        let mut block = String::new();
        for entry in &shown.lines {
            let time = entry.wall_ns.map_or(" ".repeat(12), phrase::wall);
            let mark = if entry.crash { "!" } else { " " };
            let _ = writeln!(block, "{mark} {time} {:<4} {}", entry.node, entry.text);
        }
        fence(out, &block);
        if shown.omitted > 0 {
            line(out, "");
            line(out, &format!("{} left out.", phrase::counted(shown.omitted, "more line")));
        }
    }

    fn md_faults(&self, out: &mut String) {
        if self.coverage.is_empty() {
            return;
        }
        heading(out, "Faults");
        table(out, &["fault", "from", "to", "evidence that it bit", "evidence that it healed"]);
        for episode in self.episodes.iter().take(FAULTS_MAX) {
            let healed = episode.healed.map_or("–".into(), |m| phrase::moment(m.time));
            cells_line(
                out,
                &[
                    &text(&fault_name(episode)),
                    &phrase::moment(episode.begin.time),
                    &healed,
                    &text(&bite_text(episode)),
                    &text(&healing_text(episode)),
                ],
            );
        }
        for (fault, _) in self.coverage.iter().filter(|(_, c)| c.injected == 0) {
            cells_line(out, &[&text(fault), "–", "–", "asked for, never injected", "–"]);
        }
        let more = self.episodes.len().saturating_sub(FAULTS_MAX) as u64;
        if more > 0 {
            line(out, "");
            line(out, &format!("{} left out.", phrase::counted(more, "more injection")));
        }
    }

    fn md_exposures(&self, out: &mut String) {
        let exposures = self.exposures();
        if exposures.is_empty() {
            return;
        }
        heading(out, "What is legal and dangerous");
        line(out, "The system does not promise that this never happens, so it is no violation.");
        for exposure in &exposures {
            line(out, "");
            let meaning = glossary::anomaly(&exposure.name).unwrap_or("");
            line(out, text(&format!("{}: {meaning}", exposure.in_words())).trim_end());
            let Some(example) = exposure.examples.first() else { continue };
            line(out, "");
            line(out, &format!("- for instance: {}", text(&clause(&example.summary))));
            for sentence in exposures::argument(example) {
                line(out, &format!("- {}", text(&clause(sentence))));
            }
        }
    }

    fn md_measures(&self, out: &mut String) {
        let rows = self.measures();
        if rows.is_empty() {
            return;
        }
        heading(out, "How long the danger lasted");
        table(out, &["what", "", "times", "least", "middle", "99 of 100", "most"]);
        for (name, sizes) in &rows {
            let [least, middle, nearly, most] =
                [sizes.min_ns, sizes.p50_ns, sizes.p99_ns, sizes.max_ns].map(signed);
            cells_line(
                out,
                &[
                    &text(name),
                    &text(glossary::measure(name)),
                    &phrase::count(sizes.count),
                    &least,
                    &middle,
                    &nearly,
                    &most,
                ],
            );
        }
    }

    fn md_calls(&self, out: &mut String) {
        heading(out, "Calls");
        table(out, &["", "ok", "fail", "info"]);
        let rows = self.counts.by_f.iter().map(|(name, tally)| (code(name), tally));
        for (name, tally) in rows.chain([("all".into(), &self.counts.calls)]) {
            let figures = [tally.ok, tally.fail, tally.info].map(phrase::count);
            cells_line(out, &[&name, &figures[0], &figures[1], &figures[2]]);
        }
    }

    fn md_checks(&self, out: &mut String) {
        heading(out, "Checks");
        table(out, &["checker", "verdict", "found", "time", "what it cannot see"]);
        for check in self.run.checks {
            let analysis = &check.analysis;
            cells_line(
                out,
                &[
                    &text(&analysis.checker),
                    &format!("**{}**", analysis.verdict),
                    &text(&analysis.summary),
                    &phrase::duration_ms(check.elapsed_ms),
                    &text(glossary::property(&analysis.checker).blind_to),
                ],
            );
        }
    }

    fn md_reproduce(&self, out: &mut String, witness: Option<&Witness>) {
        heading(out, "How to see it again");
        for recipe in self.recipes(witness) {
            line(out, &format!("{}:", text(&recipe.what)));
            line(out, "");
            fence(out, &recipe.command);
            line(out, "");
        }
        while out.ends_with("\n\n") {
            out.pop();
        }
    }
}

fn md_why(out: &mut String, checker: &str, anomaly: &Anomaly, report: &Report<'_>) {
    heading(out, "Why it matters");
    if let Some(meaning) = glossary::anomaly(&anomaly.name) {
        line(out, &text(meaning));
        line(out, "");
    }
    let property = glossary::property(checker);
    line(out, &format!("Violated: **{}**. {}", text(checker), text(property.meaning)));
    for claim in report.run.plan.claims(checker) {
        line(out, "");
        line(out, &format!("> “{}” — {}", text(&claim.quote), text(&claim.source)));
    }
}

fn md_witness(out: &mut String, anomaly: &Anomaly, witness: Option<&Witness>) {
    heading(out, "The proof");
    if let Some(witness) = witness {
        if let Some(key) = &witness.key {
            line(out, &format!("Everything here is about key {}.", code(key)));
            line(out, "");
        }
        fence(out, &witness.lanes());
        line(out, "");
    }
    for sentence in &anomaly.sentences {
        line(out, &format!("- {}", text(sentence)));
    }
    let Some(witness) = witness else { return };
    let untold = witness.edges_untold(&anomaly.sentences);
    if !untold.is_empty() {
        line(out, "");
    }
    for number in untold {
        let edge = &witness.edges[number - 1];
        let (from, to) = (&witness.ops[edge.from], &witness.ops[edge.to]);
        let impossible = if edge.impossible { " **which cannot be**" } else { "" };
        line(
            out,
            &format!(
                "- {} {} {}{impossible}: {}",
                code(&from.named()),
                edge_words(edge.kind),
                code(&to.named()),
                text(&clause(&edge.because)),
            ),
        );
    }
}

fn heading(out: &mut String, title: &str) {
    while !out.is_empty() && !out.ends_with("\n\n") {
        out.push('\n');
    }
    let _ = writeln!(out, "## {}\n", text(title));
}

fn line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

fn table(out: &mut String, names: &[&str]) {
    cells_line(out, names);
    cells_line(out, &vec!["---"; names.len()]);
}

fn cells_line(out: &mut String, cells: &[&str]) {
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

/// Foreign text that stays text: nothing in it is markup, and it stays on its line.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in phrase::clean(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '$' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

fn bold(what: &str) -> String {
    format!("**{}**", text(what))
}

/// Foreign text as code, also inside a table.
fn code(text: &str) -> String {
    let text = phrase::clean(text).replace('|', "\\|");
    let fence = "`".repeat(longest_run(&text, '`') + 1);
    let pad =
        if text.starts_with('`') || text.ends_with('`') || text.is_empty() { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// A block of code whose fence is longer than any in it.
fn fence(out: &mut String, block: &str) {
    let fence = "`".repeat((longest_run(block, '`') + 1).max(3));
    let newline = if block.ends_with('\n') { "" } else { "\n" };
    let _ = writeln!(out, "{fence}text\n{block}{newline}{fence}");
}

fn longest_run(text: &str, c: char) -> usize {
    text.split(|other| other != c).map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither tags nor tables nor fences of a value become part of the document.
    #[test]
    fn values_stay_values() {
        assert_eq!(text("<script>|*"), "&lt;script&gt;\\|\\*");
        assert_eq!(code("a`|b"), "``a`\\|b``");
        let mut out = String::new();
        fence(&mut out, "```\n<script>");
        assert_eq!(out, "````text\n```\n<script>\n````\n");
    }
}
