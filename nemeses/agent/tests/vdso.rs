//! The clock of a process, moved from outside and watched from inside. Needs the right to trace.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use deposed_agent::clock::{Cell, Setting, now_ns};
use deposed_agent::vdso;

const SECOND: i64 = 1_000_000_000;

/// What a program's numbers are rounded by: `clock_gettime`, `gettimeofday`, the coarse clock, which
/// the kernel sets with every tick, and `time`, which is of that.
const ROUNDED: [i64; 4] = [0, 1_000, 20_000_000, SECOND + 20_000_000];

/// A program that says what time it is whenever it is asked.
struct Watch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn run(program: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut watch = Self { child, lines };
        watch.assert_ahead(0);
        watch
    }

    /// A C program that says what each function of the C library tells. With `spin=N`, as many threads
    /// do nothing but tell the time, and are interrupted by a signal whose handler does so too; with
    /// `fork`, a child of it answers each time.
    fn new(mode: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let (source, program) = (dir.join("watch.c"), dir.join("watch"));
        std::fs::write(&source, include_str!("watch.c")).unwrap();
        let built = Command::new("cc")
            .arg("-O2")
            .arg("-pthread")
            .arg("-o")
            .args([&program, &source])
            .status();
        assert!(built.unwrap().success(), "these tests need a C compiler");
        Self::run(program.to_str().unwrap(), &[mode])
    }

    /// What it says when it is asked, and when that was.
    fn ask(&mut self) -> (i64, Vec<i64>, i64) {
        let before = now_ns();
        writeln!(self.child.stdin.as_ref().unwrap()).unwrap();
        let line = self.lines.next().unwrap().unwrap();
        (before, line.split(' ').map(|word| word.parse().unwrap()).collect(), now_ns())
    }

    /// Every number it says is a time of day in nanoseconds, to within what it was rounded by.
    #[track_caller]
    fn assert_ahead(&mut self, by: i64) {
        let (before, told, after) = self.ask();
        for (told, rounded) in told.iter().zip(ROUNDED) {
            let possible = before + by - rounded..=after + by;
            assert!(possible.contains(told), "{told} is not in {possible:?}");
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cell() -> (tempfile::TempDir, PathBuf, Cell) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cell");
    let cell = Cell::create(&path).unwrap();
    (dir, path, cell)
}

/// A program sees the time it is told, and its own again; so does a reading from inside of
/// it, to within the error it states.
#[test]
fn a_program_is_moved_and_comes_back() {
    let mut watch = Watch::new("");
    let pid = watch.child.id();
    let (_dir, path, mut cell) = cell();
    assert!(!vdso::is_patched(pid, &path).unwrap());
    vdso::patch(pid, &path).unwrap();
    assert!(vdso::is_patched(pid, &path).unwrap());
    watch.assert_ahead(0);
    for offset_ns in [-600 * SECOND, 7, 3600 * SECOND] {
        cell.set(Setting { offset_ns, ..Setting::default() }).unwrap();
        watch.assert_ahead(offset_ns);
        let reading = vdso::read_clock(pid).unwrap();
        let off = reading.offset_ns.abs_diff(offset_ns);
        assert!(off <= reading.error_ns, "{reading:?}, not {offset_ns}");
    }
    vdso::restore(pid, &path).unwrap();
    assert!(!vdso::is_patched(pid, &path).unwrap());
    watch.assert_ahead(0);
    let reading = vdso::read_clock(pid).unwrap();
    assert!(reading.offset_ns.unsigned_abs() <= reading.error_ns, "{reading:?}");
    assert!(!vdso::has_cell(pid, &path).unwrap());
}

/// Every function of the C library that tells the time of day is moved, and a program whose threads
/// and signal handlers tell the time all the time survives being patched and restored.
#[test]
fn a_busy_program_survives() {
    let (_dir, path, mut cell) = cell();
    let mut watch = Watch::new("spin=3");
    let pid = watch.child.id();
    for round in 1..=40 {
        let offset_ns = (round - 20) * 1000 * SECOND + round;
        cell.set(Setting { offset_ns, ..Setting::default() }).unwrap();
        vdso::patch(pid, &path).unwrap();
        watch.assert_ahead(offset_ns);
        vdso::restore(pid, &path).unwrap();
        watch.assert_ahead(0);
    }
}

/// A clock that runs fast gains what it should, and time in it goes on from where it was.
#[test]
fn a_clock_runs_fast() {
    let mut watch = Watch::new("");
    let (_dir, path, mut cell) = cell();
    vdso::patch(watch.child.id(), &path).unwrap();
    let base_ns = now_ns();
    cell.set(Setting { base_ns, offset_ns: 0, rate: Setting::rate_of_ppm(500_000.0) }).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    let (before, told, after) = watch.ask();
    let half_more = |at: i64| base_ns + (at - base_ns) * 3 / 2;
    assert!((half_more(before) - 1..=half_more(after)).contains(&told[0]));
}

/// A child has the clock of its parent.
#[test]
fn children_inherit() {
    let mut watch = Watch::new("fork");
    let (_dir, path, mut cell) = cell();
    vdso::patch(watch.child.id(), &path).unwrap();
    cell.set(Setting { offset_ns: 90 * SECOND, ..Setting::default() }).unwrap();
    watch.assert_ahead(90 * SECOND);
}

/// A stopped process can be patched, read and restored, and is stopped after it as before.
#[test]
fn a_stopped_process_stays_stopped() {
    let mut watch = Watch::new("");
    let pid = watch.child.id();
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &pid.to_string()]).status();
        assert!(sent.unwrap().success());
    };
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    };
    let until = |wanted| {
        for _ in 0..2000 {
            if state() == wanted {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("its state is {}, not {wanted}", state());
    };
    signal("-STOP");
    until('T');
    let (_dir, path, mut cell) = cell();
    vdso::patch(pid, &path).unwrap();
    cell.set(Setting { offset_ns: SECOND, ..Setting::default() }).unwrap();
    let reading = vdso::read_clock(pid).unwrap();
    assert!(reading.offset_ns.abs_diff(SECOND) <= reading.error_ns, "{reading:?}");
    until('T');
    signal("-CONT");
    watch.assert_ahead(SECOND);
    signal("-STOP");
    until('T');
    vdso::restore(pid, &path).unwrap();
    until('T');
    signal("-CONT");
    watch.assert_ahead(0);
}

/// What cannot be patched is left alone, and the reason is said.
#[test]
fn refusals_are_said() {
    let mut watch = Watch::new("");
    let pid = watch.child.id();
    let (dir, path, _cell) = cell();
    let missing = vdso::patch(pid, &dir.path().join("none")).unwrap_err();
    assert!(missing.to_string().contains("openat"), "{missing}");
    watch.assert_ahead(0);
    let kernel_thread = vdso::patch(2, &path).unwrap_err();
    assert!(
        kernel_thread.to_string().contains("vDSO") || kernel_thread.to_string().contains("ended")
    );
    let _ = watch.child.kill();
    let _ = watch.child.wait();
    assert!(vdso::patch(pid, &path).unwrap_err().to_string().contains("has ended"));
}
