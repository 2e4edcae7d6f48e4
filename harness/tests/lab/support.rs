//! What the tests share: the program, a detached lab that goes with its test, and waiting.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_deposed");

/// How long a lab may take to come up, or to vanish, before a test fails. Far above what is promised: the
/// machine may be busy. The figures themselves are printed.
pub(crate) const BOUND: Duration = Duration::from_secs(10);

/// Runs `deposed lab …`.
pub(crate) fn program(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).arg("lab").args(arguments).output().unwrap()
}

/// Standard output of a command that must succeed.
pub(crate) fn succeeded(output: Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {error}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error of a command that must fail with this code.
pub(crate) fn failed(output: Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// A detached lab, taken down at the end of its test whatever its end.
pub(crate) struct TestLab {
    pub(crate) name: String,
}

impl TestLab {
    /// Brings up a lab with a name that is this test's.
    pub(crate) fn up(purpose: &str, nodes: u8) -> TestLab {
        let name = format!("test-{purpose}-{}", std::process::id());
        let lab = TestLab { name };
        let start = Instant::now();
        succeeded(program(&["up", "--name", &lab.name, "--nodes", &nodes.to_string()]));
        println!("{nodes} nodes up in {:?}", start.elapsed());
        assert!(start.elapsed() < BOUND);
        lab
    }

    /// Runs a command on a node.
    pub(crate) fn ssh(&self, node: &str, command: &str) -> Output {
        program(&["ssh", "--name", &self.name, node, command])
    }

    /// Runs a command in the lab's network.
    pub(crate) fn exec(&self, command: &[&str]) -> Output {
        program(&[&["exec", "--name", &self.name, "--"], command].concat())
    }

    /// What `status` says of it: its own lines.
    pub(crate) fn status(&self) -> String {
        let all = succeeded(program(&["status"]));
        let from = all.find(&format!("{}  ", self.name)).map_or("", |start| &all[start..]);
        let own = from.lines().enumerate().take_while(|(i, line)| *i == 0 || line.starts_with(' '));
        own.map(|(_, line)| format!("{line}\n")).collect()
    }
}

impl Drop for TestLab {
    fn drop(&mut self) {
        // A test may have taken its lab down already.
        program(&["down", "--name", &self.name]);
    }
}

/// Waits until something holds; returns how long it took.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < BOUND, "{what}: not within {BOUND:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
}

/// Whether a process runs (a zombie does not).
pub(crate) fn runs(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z'))
}

/// Kills one process of ours.
pub(crate) fn kill_9(pid: i32) {
    use nix::sys::signal::{Signal, kill};
    kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}
