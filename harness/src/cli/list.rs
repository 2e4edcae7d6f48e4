//! `deposed list`: what there is to choose from.

use std::fmt::Write as _;

use deposed_checkers::Claims;
use deposed_nemeses::{KINDS, Preset};
use deposed_workloads::{systems, workloads};

use super::{Failure, out};
use crate::exit;

/// Show the systems, workloads, faults and models there are.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only these
    #[arg(value_enum)]
    what: Option<What>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    Systems,
    Workloads,
    Faults,
    Models,
}

pub(super) fn main(args: &Args) -> Result<u8, Failure> {
    let parts = [
        (What::Systems, systems_text as fn() -> String),
        (What::Workloads, workloads_text),
        (What::Faults, faults_text),
        (What::Models, models_text),
    ];
    let wanted = parts.iter().filter(|(what, _)| args.what.is_none_or(|only| only == *what));
    let text: Vec<String> = wanted.map(|(_, text)| text()).collect();
    out(&text.join("\n"))?;
    Ok(exit::VALID)
}

fn systems_text() -> String {
    let mut text = String::from("systems (deposed run SYSTEM)\n");
    for system in systems() {
        let _ = writeln!(text, "  {:<14} {}", system.name, system.about);
        let supports: Vec<&str> = system.supports.iter().map(String::as_str).collect();
        let _ = writeln!(text, "  {:<14}   supports {}", "", supports.join(", "));
        for (name, option) in &system.options {
            let values = if option.values.is_empty() {
                String::new()
            } else {
                format!(" ({})", option.values.join(" | "))
            };
            let _ = writeln!(
                text,
                "  {:<14}   --set {name}={}{values}: {}",
                "", option.default, option.about
            );
        }
    }
    text
}

fn workloads_text() -> String {
    let mut text = String::from("workloads (--workload)\n");
    for workload in workloads() {
        let _ = writeln!(text, "  {:<14} {}", workload.name(), workload.about());
        let checkers: Vec<String> = workload
            .checkers(&Claims::default())
            .iter()
            .map(|checker| checker.name().to_owned())
            .collect();
        let _ = writeln!(text, "  {:<14}   judged by {}", "", checkers.join(", "));
    }
    text
}

fn faults_text() -> String {
    let mut text = String::from("faults (--faults FAULT[:TARGET],…)\n");
    for kind in &KINDS {
        let _ = writeln!(text, "  {:<14} {}", kind.name, kind.about);
        for (word, about) in kind.words {
            let _ = writeln!(text, "  {:<14}   :{word:<16} {about}", "");
        }
        let _ = writeln!(text, "  {:<14}   :{:<16} these nodes", "", "n1+n2");
    }
    text += "faults under one name (--faults NAME)\n";
    for preset in &Preset::ALL {
        let _ = writeln!(text, "  {:<14} {}", preset.name, preset.about);
        let timing = preset.timing;
        let (every, hold) = (timing.every.as_secs(), timing.hold.as_secs());
        let _ =
            writeln!(text, "  {:<14}   {}, every {every} s, held {hold} s", "", preset.faults());
    }
    text
}

fn models_text() -> String {
    let mut text = String::from("models (deposed check FILE --model MODEL)\n");
    for model in deposed_checkers::MODELS {
        let _ = writeln!(text, "  {:<14} {}", model.name, model.about);
    }
    text
}
