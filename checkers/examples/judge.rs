//! Judges files by a model and says what it cost:
//! `cargo run --release -p deposed-checkers --example judge -- MODEL LEVEL FILE...`, where `-` is
//! the model's own level.

#![expect(clippy::print_stdout, reason = "it is a command")]

use std::error::Error;
use std::fs::File;
use std::time::{Duration, Instant};

use deposed_checkers::{Budget, ModelOptions, checker};
use deposed_history::{ReadOptions, read};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(name), Some(level)) = (args.next(), args.next()) else {
        return Err("usage: judge MODEL LEVEL FILE...".into());
    };
    let options = ModelOptions { keyed: false, consistency: (level != "-").then_some(level) };
    let checker = checker(&name, &options).ok_or("no such model")??;
    for path in args {
        let start = Instant::now();
        let loaded = read(File::open(&path)?, &ReadOptions::default())?;
        let parsed = start.elapsed();
        let start = Instant::now();
        let budget = Budget::new(move || start.elapsed(), Duration::from_secs(600), 8 << 30, 2);
        let analysis = checker.check(&loaded.history, &budget);
        let checked = start.elapsed();
        println!(
            "{path}: {}, {} (parse {parsed:.1?}, check {checked:.1?})",
            analysis.verdict, analysis.summary
        );
        let mut details = analysis.details;
        if let Some(details) = details.as_object_mut() {
            details.remove("other-anomalies");
        }
        println!("  {details}");
        for undecided in &analysis.undecided {
            println!("  undecided: {}", undecided.reason);
        }
        for anomaly in analysis.anomalies.iter().take(1) {
            println!("  {}: {}", anomaly.name, anomaly.summary);
            anomaly.sentences.iter().for_each(|sentence| println!("    {sentence}"));
        }
    }
    Ok(())
}
