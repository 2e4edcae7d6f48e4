//! What a run shows while it goes on: a bar and lines on a terminal, plain lines elsewhere, or one
//! JSON object a line.

mod line;
mod wording;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deposed_report::{Ending, Plan, check_line};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Failure, out};
use crate::life::Conclusion;
use crate::progress::{Progress, Told};
use crate::run::{Phase, RunEvent};
use line::{Tone, row};

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Output {
    /// A bar and lines on a terminal, lines elsewhere.
    Auto,
    /// Lines.
    Plain,
    /// One JSON object a line.
    Json,
}

/// Without a bar, the run is reported on this often.
const LINE_EVERY_NS: u64 = 10_000_000_000;

/// Shows a run.
pub(super) struct Screen(Arc<Mutex<State>>);

struct State {
    json: bool,
    colour: bool,
    bar: Option<ProgressBar>,
    time_limit_ns: u64,
    next_line_ns: u64,
    /// What is in force now, for the bar.
    fault: Option<String>,
}

impl Output {
    /// A screen for a run, with the plan on it.
    pub(super) fn screen(self, plan: &Plan, folder: &Path) -> Screen {
        let terminal = self == Self::Auto && std::io::stdout().is_terminal();
        let state = State {
            json: self == Self::Json,
            colour: terminal && std::env::var_os("NO_COLOR").is_none(),
            bar: terminal.then(bar),
            time_limit_ns: plan.limits.time_ms * 1_000_000,
            next_line_ns: LINE_EVERY_NS,
            fault: None,
        };
        let screen = Screen(Arc::new(Mutex::new(state)));
        screen.progress().tell(Told::Planned {
            plan: Box::new(plan.clone()),
            folder: folder.display().to_string(),
        });
        screen
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout_with_hz(10));
    let style = ProgressStyle::with_template(" run       [{bar:24}] {msg}");
    bar.set_style(style.expect("a sound template").progress_chars("=> "));
    bar
}

impl Screen {
    /// Where the run tells what it does.
    pub(super) fn progress(&self) -> Progress {
        let state = Arc::clone(&self.0);
        Progress::new(move |told| state.lock().unwrap_or_else(PoisonError::into_inner).show(&told))
    }

    /// Shows how the run ended, and the exit code it ends with.
    pub(super) fn close(&self, conclusion: &Conclusion, exit: u8) -> Result<(), Failure> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = &state.bar {
            bar.finish_and_clear();
        }
        if state.json {
            let lines: Vec<_> = conclusion.closing.iter().map(ToString::to_string).collect();
            let closing = serde_json::json!({
                "event": "closed",
                "ending": conclusion.ending,
                "verdict": conclusion.verdict,
                "exit": exit,
                "lines": lines,
            });
            return out(&format!("{closing}\n"));
        }
        let mut text = String::from("\n");
        match &conclusion.ending {
            Ending::Normal | Ending::Untold => {}
            Ending::Interrupted { by } => {
                text += &state.row("ended", &format!("interrupted by {by}"), Tone::Doubt);
            }
            Ending::Infrastructure { reason } => text += &state.row("FAILED", reason, Tone::Bad),
            Ending::Bug { reason } => {
                text += &state.row("BUG", &format!("of deposed: {reason}"), Tone::Bad);
            }
        }
        for line in &conclusion.closing {
            text += &state.row(&line.label, &line.text, Tone::of(line.verdict));
        }
        out(&text)
    }
}

impl State {
    fn row(&self, label: &str, text: &str, tone: Tone) -> String {
        row(label, text, tone, self.colour)
    }

    /// A line above the bar, if there is one.
    fn print(&self, label: &str, text: &str, tone: Tone) {
        let row = self.row(label, text, tone);
        match &self.bar {
            Some(bar) => bar.suspend(|| drop(out(&row))),
            // Nobody can be told that nothing can be told.
            None => drop(out(&row)),
        }
    }

    fn show(&mut self, told: &Told) {
        if self.json {
            if let Ok(line) = serde_json::to_string(told) {
                let _ = out(&format!("{line}\n"));
            }
            return;
        }
        match told {
            Told::Planned { plan, folder } => {
                self.print("plan", &wording::plan(plan), Tone::Plain);
                self.print("", folder, Tone::Faint);
            }
            Told::Begun { .. } => {}
            Told::Done { step, detail, took_ms } => {
                let took = Duration::from_millis(*took_ms).as_secs_f64();
                let text = format!("{detail:<58} {took:>6.1} s");
                self.print(wording::step(*step), &text, Tone::Plain);
            }
            Told::Run { run } => self.show_run(run),
            Told::Checked { check } => {
                let line = check_line(check);
                self.print(&line.label, &line.text, Tone::of(line.verdict));
            }
            Told::Warned { warning } => self.print("warning", warning, Tone::Doubt),
        }
    }

    fn show_run(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Progress(progress) => {
                let text = wording::progress(progress, self.time_limit_ns, self.fault.as_deref());
                if let Some(bar) = &self.bar {
                    bar.set_length(self.time_limit_ns.max(1));
                    bar.set_position(progress.time.min(self.time_limit_ns));
                    bar.set_message(text);
                } else if progress.time >= self.next_line_ns && progress.time < self.time_limit_ns {
                    self.next_line_ns = progress.time + LINE_EVERY_NS;
                    self.print("run", &text, Tone::Plain);
                }
            }
            RunEvent::Fault { op } => {
                if let Some(line) = wording::fault(op) {
                    self.fault = line.in_force.then(|| line.text.clone());
                    let text = format!("{:<6} {}", line.word, line.text);
                    self.print(&wording::clock(op.time), &text, line.tone);
                }
            }
            RunEvent::LaneEnded { lane, end, .. } => {
                if let Some(text) = wording::lane_ended(lane, end) {
                    self.print("warning", &text, Tone::Doubt);
                }
            }
            RunEvent::Phase { phase: Phase::Final, time } => {
                self.print(&wording::clock(*time), "final reads", Tone::Plain);
            }
            RunEvent::Phase { .. } => {}
            RunEvent::Ended(outcome) => {
                if let Some(bar) = self.bar.take() {
                    bar.finish_and_clear();
                }
                self.print("run", &wording::outcome(outcome), Tone::Plain);
            }
        }
    }
}
