//! Reads histories and says what is in them and what it cost:
//! `cargo run --release -p deposed-history --example load -- FILE...`

#![expect(clippy::print_stdout, reason = "it is a command")]

use std::fs::File;
use std::time::Instant;

use deposed_history::{OpType, Process, ReadOptions, read};

fn main() {
    for path in std::env::args().skip(1) {
        let start = Instant::now();
        let loaded = File::open(&path)
            .map_err(Into::into)
            .and_then(|file| read(file, &ReadOptions::default()));
        let seconds = start.elapsed().as_secs_f64();
        match loaded {
            Ok(loaded) => {
                let of = |kind| loaded.history.ops().filter(|op| op.kind() == kind).count();
                let nemesis = loaded.history.ops().filter(|op| op.process() == Process::Nemesis);
                println!(
                    "{path}: {}, {} events ({} invoke, {} ok, {} fail, {} info; {} of the nemesis), \
                     {} calls, keyed {}, {seconds:.4} s{}",
                    loaded.format,
                    loaded.history.len(),
                    of(OpType::Invoke),
                    of(OpType::Ok),
                    of(OpType::Fail),
                    of(OpType::Info),
                    nemesis.count(),
                    loaded.history.calls().len(),
                    loaded.history.header().keyed,
                    peak(),
                );
                if !loaded.warnings.is_empty() {
                    println!("{}", loaded.warnings);
                }
            }
            Err(error) => println!("{path}: {error}"),
        }
    }
}

/// The most memory this process has had so far, where /proc tells.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or_else(String::new, |size| format!(", peak {}", size.trim()))
}
