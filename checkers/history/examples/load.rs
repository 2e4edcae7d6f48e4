//! Reads histories and says what is in them and what it cost: how long it took from the file, how long
//! from its bytes in memory (the least of several runs each), and how much memory.
//! `cargo run --release -p deposed-history --example load -- FILE...`

#![expect(clippy::print_stdout, reason = "it is a command")]

use std::fs::{self, File};
use std::time::Instant;

use deposed_history::{Loaded, OpType, Process, ReadError, ReadOptions, read};

const RUNS: usize = 7;

fn main() {
    for path in std::env::args().skip(1) {
        match load(&path) {
            Ok(said) => println!("{path}: {said}"),
            Err(error) => println!("{path}: {error}"),
        }
    }
}

/// Reads a file and says what is in it.
fn load(path: &str) -> Result<String, ReadError> {
    let options = ReadOptions::default();
    let Loaded { history, format, warnings } = read(File::open(path)?, &options)?;
    let of = |kind| history.ops().filter(|op| op.kind() == kind).count();
    let nemesis = history.ops().filter(|op| op.process() == Process::Nemesis).count();
    let mut said = format!(
        "{format}, {} events ({} invoke, {} ok, {} fail, {} info; {nemesis} of the nemesis), \
         {} calls, keyed {}",
        history.len(),
        of(OpType::Invoke),
        of(OpType::Ok),
        of(OpType::Fail),
        of(OpType::Info),
        history.calls().len(),
        history.header().keyed,
    );
    for (name, what) in [("VmHWM:", "at most"), ("VmRSS:", "now")] {
        said += &memory(name).map_or_else(String::new, |size| format!(", {what} {size}"));
    }
    drop(history);
    let from_file = least(|| read(File::open(path)?, &options))?;
    let bytes = fs::read(path)?;
    let from_memory = least(|| read(bytes.as_slice(), &options))?;
    said += &format!("; {from_file:.4} s from the file, {from_memory:.4} s from memory");
    if !warnings.is_empty() {
        said += &format!("\n{warnings}");
    }
    Ok(said)
}

/// Seconds that it takes to read a history.
fn least(read: impl Fn() -> Result<Loaded, ReadError>) -> Result<f64, ReadError> {
    let mut least = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        let loaded = read()?;
        least = least.min(start.elapsed().as_secs_f64());
        drop(loaded);
    }
    Ok(least)
}

/// What this process has, or had, of memory, where /proc tells.
fn memory(name: &str) -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().to_owned())
}
