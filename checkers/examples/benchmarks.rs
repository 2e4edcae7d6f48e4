//! Measures what it takes to read and to judge histories, and prints the tables of `BENCHMARKS.md`:
//!
//!     cargo run --release -p deposed-checkers --example benchmarks
//!
//! Every history is made up, written to a file, and judged from there by a process of its own, so
//! that its peak of memory is its own. Times are the least of several runs. An argument picks the
//! rows whose name contains it; `--largest 1000000` leaves out longer histories; `--logs DIR` judges
//! all logs of a folder, such as Porcupine's test data, as cas-registers.

#![expect(clippy::print_stdout, reason = "it is a command")]

#[path = "../benches/histories/mod.rs"]
mod histories;
#[path = "../tests/simulator/mod.rs"]
mod simulator;
#[path = "../history/benches/histories/mod.rs"]
mod transactions;

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use deposed_checkers::{Budget, ModelOptions, Verdict, checker};
use deposed_history::{ReadOptions, edn, jsonl, read};
use histories::{Shape, registers};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use simulator::{Isolation, Simulation};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// One kind of history, at several lengths.
struct Series {
    name: &'static str,
    model: &'static str,
    /// The level that is demanded, if not the model's strongest.
    level: Option<&'static str>,
    make: Make,
    calls: &'static [usize],
    /// The answer, which is asserted.
    verdict: Verdict,
}

enum Make {
    Registers {
        processes: usize,
        keys: usize,
        values: Option<u64>,
        cas: bool,
        info: u64,
    },
    ListAppend,
    /// Transactions of a store with so much isolation, in EDN.
    Simulated {
        isolation: Isolation,
        append: bool,
    },
}

/// A series of which nothing special is to be said.
const fn series(
    name: &'static str,
    model: &'static str,
    make: Make,
    calls: &'static [usize],
) -> Series {
    Series { name, model, level: None, make, calls, verdict: Verdict::Valid }
}

const fn simulated(isolation: Isolation, append: bool) -> Make {
    Make::Simulated { isolation, append }
}

const fn few(processes: usize, info: u64) -> Make {
    Make::Registers { processes, keys: 0, values: Some(5), cas: true, info }
}

const LENGTHS: &[usize] = &[10_000, 100_000, 1_000_000, 10_000_000];

/// Decided in one pass, or by searches that have little choice: the cost of a call does not grow.
const GROWTH: &[Series] = &[
    series(
        "unique values, one key, cas, 0.5% info, 20 processes",
        "cas-register",
        Make::Registers { processes: 20, keys: 0, values: None, cas: true, info: 50 },
        LENGTHS,
    ),
    series(
        "unique values, 100 keys, 20 processes",
        "register",
        Make::Registers { processes: 20, keys: 100, values: None, cas: false, info: 0 },
        LENGTHS,
    ),
    series(
        "5 values, one key, cas, 5 processes",
        "cas-register",
        few(5, 0),
        &[10_000, 100_000, 1_000_000],
    ),
    series("list-append, all commit, 20 processes", "list-append", Make::ListAppend, LENGTHS),
];

/// Transactions of which many fail, as a store under contention has them.
const TRANSACTIONS: &[Series] = &[
    series(
        "list-append, strict-serializable store, strict-serializable",
        "list-append",
        simulated(Isolation::StrictSerializable, true),
        &[10_000, 100_000, 1_000_000],
    ),
    Series {
        level: Some("snapshot-isolation"),
        ..series(
            "list-append, snapshot store, snapshot-isolation",
            "list-append",
            simulated(Isolation::Snapshot, true),
            &[100_000, 1_000_000],
        )
    },
    Series {
        verdict: Verdict::Invalid,
        ..series(
            "list-append, snapshot store, strict-serializable",
            "list-append",
            simulated(Isolation::Snapshot, true),
            &[100_000, 1_000_000],
        )
    },
    Series {
        level: Some("read-committed"),
        ..series(
            "list-append, read-committed store, read-committed",
            "list-append",
            simulated(Isolation::ReadCommitted, true),
            &[100_000, 1_000_000],
        )
    },
    Series {
        verdict: Verdict::Invalid,
        ..series(
            "list-append, careless store, strict-serializable",
            "list-append",
            simulated(Isolation::ReadUncommitted, true),
            &[10_000],
        )
    },
    series(
        "rw-register, strict-serializable store, strict-serializable",
        "rw-register",
        simulated(Isolation::StrictSerializable, false),
        &[100_000, 1_000_000],
    ),
];

/// One key, few values, many calls open at once: searches.
const SEARCHES: &[Series] = &[
    series("5 processes", "cas-register", few(5, 0), &[1_000, 10_000]),
    series("10 processes", "cas-register", few(10, 0), &[1_000, 10_000]),
    series("20 processes", "cas-register", few(20, 0), &[1_000, 10_000]),
    series("30 processes", "cas-register", few(30, 0), &[10_000]),
    series("20 processes, 0.1% info", "cas-register", few(20, 10), &[10_000]),
    series("30 processes, 0.1% info", "cas-register", few(30, 10), &[10_000]),
    series("30 processes, 0.5% info", "cas-register", few(30, 50), &[10_000]),
];

/// What one process measured.
#[derive(Serialize, Deserialize)]
struct Measured {
    verdict: Verdict,
    parse: Duration,
    check: Duration,
    /// From opening the file to the verdict, once, in a process that has done nothing before.
    first: Duration,
    peak_kib: u64,
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1).peekable();
    match args.peek().map(String::as_str) {
        Some("judge") => {
            let args: Vec<String> = args.skip(1).collect();
            let measured = judge(&args[0], &args[1], args[2].parse()?, &args[3..])?;
            println!("{}", serde_json::to_string(&measured)?);
            return Ok(());
        }
        Some("make") => {
            let args: Vec<String> = args.skip(1).collect();
            let mut all = GROWTH.iter().chain(TRANSACTIONS).chain(SEARCHES);
            let series = all.find(|series| series.name == args[0]);
            return make(series.ok_or("no such series")?, args[1].parse()?, Path::new(&args[2]));
        }
        _ => {}
    }
    let (mut wanted, mut largest, mut logs) = (String::new(), usize::MAX, None);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--largest" => largest = args.next().ok_or("--largest CALLS")?.parse()?,
            "--logs" => logs = Some(PathBuf::from(args.next().ok_or("--logs DIR")?)),
            _ => wanted = arg,
        }
    }
    let threads = std::thread::available_parallelism()?.get();
    println!("{threads} threads; times in ms, the least of several runs; memory in MiB.\n");
    table("How cost grows", GROWTH, &wanted, largest, threads)?;
    table("Transactions", TRANSACTIONS, &wanted, largest, threads)?;
    table("Searches: one cas-register, 5 values", SEARCHES, &wanted, largest, threads)?;
    if let Some(folder) = logs {
        let mut files: Vec<String> = fs::read_dir(&folder)?
            .map(|entry| Ok(entry?.path().to_string_lossy().into_owned()))
            .collect::<Outcome<_>>()?;
        files.sort();
        let measured = measure("cas-register", None, 1, &files)?;
        println!("{} logs of {}, one thread, in all:", files.len(), folder.display());
        println!("read in {}, judged in {}.", ms(measured.parse), ms(measured.check));
    }
    Ok(())
}

fn table(title: &str, all: &[Series], wanted: &str, largest: usize, threads: usize) -> Outcome<()> {
    println!("### {title}\n");
    println!(
        "| history | calls | file MB | parse 1 thread | parse {threads} | check 1 thread | \
         check {threads} | ns a call | file to verdict | peak memory | verdict |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|");
    let path = std::env::temp_dir().join(format!("deposed-benchmark-{}.jsonl", std::process::id()));
    for series in all.iter().filter(|series| series.name.contains(wanted)) {
        for calls in series.calls.iter().copied().filter(|calls| *calls <= largest) {
            let own = std::env::current_exe()?;
            let mut command = Command::new(own);
            let made =
                command.args(["make", series.name, &calls.to_string()]).arg(&path).status()?;
            if !made.success() {
                return Err("the history could not be made".into());
            }
            let files = [path.to_string_lossy().into_owned()];
            let one = measure(series.model, series.level, 1, &files)?;
            let all = measure(series.model, series.level, threads, &files)?;
            if [one.verdict, all.verdict] != [series.verdict; 2] {
                return Err(format!("{} of {calls} calls: {}", series.name, all.verdict).into());
            }
            println!(
                "| {} | {calls} | {:.1} | {} | {} | {} | {} | {} | {} | {} | {} |",
                series.name,
                fs::metadata(&path)?.len() as f64 / 1e6,
                ms(one.parse),
                ms(all.parse),
                ms(one.check),
                ms(all.check),
                one.check.as_nanos() / calls as u128,
                ms(all.first),
                all.peak_kib.max(one.peak_kib) >> 10,
                all.verdict,
            );
        }
    }
    println!();
    fs::remove_file(path).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error.into()),
    })
}

fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.2}") } else { format!("{ms:.0}") }
}

/// Writes a history of so many calls.
fn make(series: &Series, calls: usize, path: &Path) -> Outcome<()> {
    let mut out = BufWriter::new(File::create(path)?);
    match series.make {
        Make::Registers { processes, keys, values, cas, info } => {
            let history = registers(Shape { calls, processes, keys, values, cas, info }, 42);
            jsonl::write(&mut out, &history)?;
        }
        Make::ListAppend => {
            let [_, _, list_append, _] = transactions::KINDS;
            transactions::write(&mut out, list_append, calls as u64)?;
        }
        Make::Simulated { isolation, append } => {
            let invocations = calls;
            let simulation = Simulation { isolation, append, invocations, ..Default::default() };
            edn::write(&mut out, &simulation.run())?;
        }
    }
    Ok(out.flush()?)
}

/// Has files judged by a process of its own.
fn measure(
    model: &str,
    level: Option<&str>,
    threads: usize,
    files: &[String],
) -> Outcome<Measured> {
    let output = Command::new(std::env::current_exe()?)
        .args(["judge", model, level.unwrap_or_default(), &threads.to_string()])
        .args(files)
        .env("RAYON_NUM_THREADS", threads.to_string())
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The processor time that this process has used.
fn processor_time() -> Duration {
    let clock = ClockId::CLOCK_PROCESS_CPUTIME_ID;
    Duration::from(clock_gettime(clock).expect("Linux has this clock"))
}

/// How long is measured, and how often at least and at most.
const RUNS_TIME: Duration = Duration::from_secs(4);
const RUNS_MIN: usize = 3;
const RUNS_MAX: usize = 50;

/// Reads and judges files, at the model's strongest level if none is named; times are sums over all
/// of them.
fn judge(model: &str, level: &str, threads: usize, files: &[String]) -> Outcome<Measured> {
    let consistency = Some(level.to_owned()).filter(|level| !level.is_empty());
    let options = ModelOptions { consistency, ..ModelOptions::default() };
    let checker = checker(model, &options).ok_or("no such model")??;
    let start = Instant::now();
    // One thread alone: what it used does not depend on who else is busy.
    let clock = || if threads == 1 { processor_time() } else { start.elapsed() };
    let mut measured: Option<Measured> = None;
    for run in 0..RUNS_MAX {
        if run >= RUNS_MIN && start.elapsed() > RUNS_TIME {
            break;
        }
        let (mut parse, mut check, mut verdict) = (Duration::ZERO, Duration::ZERO, Verdict::Valid);
        for file in files {
            let began = clock();
            let loaded = read(File::open(file)?, &ReadOptions::default())?;
            parse += clock() - began;
            let (began, limits_began) = (clock(), Instant::now());
            let limit = Duration::from_secs(600);
            let elapsed = move || limits_began.elapsed();
            let budget = Budget::new(elapsed, limit, 16 << 30, threads);
            verdict = verdict.max(checker.check(&loaded.history, &budget).verdict);
            check += clock() - began;
        }
        measured = Some(match measured {
            None => Measured { verdict, parse, check, first: parse + check, peak_kib: peak_kib()? },
            Some(best) => {
                Measured { parse: best.parse.min(parse), check: best.check.min(check), ..best }
            }
        });
    }
    measured.ok_or_else(|| "nothing to judge".into())
}

/// The most memory that this process has had, where /proc tells.
fn peak_kib() -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no peak")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
