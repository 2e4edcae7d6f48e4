//! Clock faults of processes as the agent applies, proves and undoes them. Needs the right to trace.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each test uses a part of it")]
mod node;

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use deposed_agent::clock::{Clock, Motion, now_ns};
use deposed_agent::{Process, Spec};
use node::{Node, until};

const SECOND: i64 = 1_000_000_000;

/// Tells the time for each line it reads.
const TELL: &str = "BEGIN { $| = 1 } printf qq(%d\n), time * 1e9";

/// A store, as far as clocks are concerned: a session of its own that tells the time.
struct Store {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Store {
    fn new(program: &[&str]) -> Self {
        let mut session = Command::new("setsid");
        let mut child =
            session.args(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut store = Self { child, lines };
        store.ask();
        store
    }

    fn perl() -> Self {
        Self::new(&["perl", "-MTime::HiRes=time", "-ne", TELL])
    }

    fn process(&self) -> Process {
        Process::of(self.child.id()).unwrap()
    }

    /// How far its clock is ahead, to the second.
    fn ask(&mut self) -> i64 {
        writeln!(self.child.stdin.as_ref().unwrap()).unwrap();
        let told: i64 = self.lines.next().unwrap().unwrap().parse().unwrap();
        let off = (told - now_ns()) as f64 / SECOND as f64;
        off.round() as i64
    }

    fn moved(&self, motion: Motion) -> Spec {
        Spec::Clock(Clock { processes: vec![self.process()], motion })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The clock jumps in all processes of the store and in nobody else's, is read from inside, and is
/// right again after it.
#[test]
fn a_jump_hits_the_store_and_is_undone() {
    let (mut node, mut store, mut bystander) = (Node::new(), Store::perl(), Store::perl());
    let seen = node.apply(store.moved(Motion::Jump { offset_ms: -600_000 }));
    assert!(seen.summary.contains("jump: clock -"), "{}", seen.summary);
    assert_eq!((store.ask(), bystander.ask()), (-600, 0));
    let figures = &seen.figures["processes"][0];
    let (offset, error) =
        (figures["offset_ns"].as_i64().unwrap(), figures["error_ns"].as_u64().unwrap());
    assert!(offset.abs_diff(-600 * SECOND) <= error + 2, "{figures}");
    until("readings are kept", || {
        node.prove().figures["readings_ago_ms_ns_ns"].as_array().unwrap().len() >= 2
    });
    let gone = node.undo();
    assert!(gone.summary.contains("1 process"), "{}", gone.summary);
    assert_eq!((store.ask(), bystander.ask()), (0, 0));
    assert!(node.is_clean());
}

/// Virtual machines ask the kernel's functions for the time, too. (Go is met with etcd, in the labs.) Needs a JDK
/// and Erlang: `apt-get install default-jdk-headless erlang-base`.
#[test]
#[ignore = "needs java and erl"]
fn virtual_machines_are_hit() {
    let folder = tempfile::tempdir().unwrap();
    let java = folder.path().join("Tell.java");
    let tell = "public class Tell { public static void main(String[] a) throws Exception {
        while (System.in.read() > 0) System.out.println(System.currentTimeMillis() * 1000000); } }";
    std::fs::write(&java, tell).unwrap();
    let erlang = "F = fun(F) -> io:get_line(\"\"), io:format(\"~p~n\", [os:system_time(nanosecond)]), F(F) end, F(F).";
    let programs: [&[&str]; 2] =
        [&["java", java.to_str().unwrap()], &["erl", "-noshell", "-eval", erlang]];
    for program in programs {
        let (mut node, mut store) = (Node::new(), Store::new(program));
        let seen = node.apply(store.moved(Motion::Jump { offset_ms: -600_000 }));
        assert!(seen.holds, "{}", seen.summary);
        assert_eq!(store.ask(), -600, "{}", program[0]);
        node.undo();
        assert_eq!(store.ask(), 0, "{}", program[0]);
    }
}

/// A strobe goes there and back; a drift gains with time; a scramble leaves no time alone.
#[test]
fn other_motions() {
    let (mut node, mut store) = (Node::new(), Store::perl());
    node.apply(store.moved(Motion::Strobe { offset_ms: 100_000, period_ms: 30 }));
    for wanted in [100, 0, 100] {
        until("the strobe is there", || store.ask() == wanted);
    }
    node.undo();
    assert_eq!(store.ask(), 0);

    let first = node.apply(store.moved(Motion::Drift { rate_ppm: 900_000.0 }));
    until("a drift has gained", || store.ask() >= 1);
    let then = node.prove();
    assert!(then.holds, "{}", then.summary);
    let offset = |sight: &deposed_agent::Sight| sight.figures["processes"][0]["offset_ns"].as_i64();
    assert!(offset(&then) > offset(&first));
    node.undo();
    assert_eq!(store.ask(), 0);

    let scramble = Motion::Scramble { max_ms: 100_000, period_ms: 50, seed: 1 };
    node.apply(store.moved(scramble));
    until("the clock is ahead", || store.ask() > 5);
    until("the clock is behind", || store.ask() < -5);
    node.undo();
    assert_eq!(store.ask(), 0);
}

/// What the store begins, in its own place or as a child in another session, is found and moved.
#[test]
fn new_programs_are_followed() {
    let begins = [
        format!("exec perl -MTime::HiRes=time -ne '{TELL}'"),
        format!("setsid perl -MTime::HiRes=time -ne '{TELL}' <&0 & wait"),
    ];
    for begin in begins {
        let script = format!("read l; date +%s%N; read l; date +%s%N; {begin}");
        let (mut node, mut store) = (Node::new(), Store::new(&["bash", "-c", &script]));
        node.apply(store.moved(Motion::Jump { offset_ms: 50_000 }));
        store.ask();
        until("the new program is moved", || store.ask() == 50);
        assert!(node.prove().holds);
        node.undo();
        assert_eq!(store.ask(), 0);
    }
}

/// The agent is killed and nobody renews: the clock is right again when the lease is over.
#[test]
fn the_clock_is_right_after_the_agents_death() {
    let (mut node, mut store) = (Node::new(), Store::perl());
    node.apply(store.moved(Motion::Strobe { offset_ms: 70_000, period_ms: 20 }));
    node.renew(Duration::from_secs(1));
    node.kill_agent();
    until("it is undone", || node.is_clean());
    for _ in 0..5 {
        assert_eq!(store.ask(), 0);
        std::thread::sleep(Duration::from_millis(15));
    }
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", store.child.id())).unwrap();
    assert!(!maps.contains(".cell"));
}

/// A fault that does not last is not believed: a cell that somebody set back, a process that somebody
/// restored, a holder that died.
#[test]
fn a_clock_somebody_set_right_is_not_believed() {
    let (mut node, store) = (Node::new(), Store::perl());
    node.apply(store.moved(Motion::Jump { offset_ms: 9_000 }));
    let cell = std::fs::read_dir(node.home().volatile())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "cell"))
        .unwrap();
    deposed_agent::clock::Cell::open(&cell).unwrap().set(Default::default()).unwrap();
    let seen = node.prove();
    assert!(!seen.holds && seen.summary.contains("says nothing"), "{}", seen.summary);
    node.undo();
}

/// Where nothing runs, or everything would be hit, the fault is refused before anything is touched.
#[test]
fn refusals_have_reasons() {
    let (mut node, store) = (Node::new(), Store::perl());
    let jump = Motion::Jump { offset_ms: 1 };
    let mut spec = Clock { processes: vec![store.process()], motion: jump };
    spec.processes[0].start_ticks += 1;
    let nobody = node.try_apply(Spec::Clock(spec.clone())).unwrap_err();
    assert!(nobody.reason.contains("none of them runs"), "{nobody}");
    spec.processes = vec![Process::of(std::process::id()).unwrap()];
    let everybody = node.try_apply(Spec::Clock(spec)).unwrap_err();
    assert!(everybody.reason.contains("share their session"), "{everybody}");
    assert!(node.is_clean());
}
