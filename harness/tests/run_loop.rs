//! What is left of a history when its recording ends badly: the controller is killed, the disk is
//! full. Each recording is a process of its own, one of the ignored tests below.

#![expect(clippy::unwrap_used, reason = "clippy excuses test functions alone")]

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use deposed::run::{Ended, Finals, HISTORY, Interrupt, LaneEnd, Outcome, Recorder, RunSpec, run};
use deposed_core::generator::{from_fn, once};
use deposed_core::{
    Client, ClientError, ClientFactory, EventSender, FaultError, Generator, Invocation, Lane, Node,
    Stop,
};
use deposed_history::{Header, History, OpType, Process, ReadOptions, Value, read};

/// Tells an ignored test where to record.
const FOLDER: &str = "DEPOSED_TEST_FOLDER";

/// Notes each operation in a file of its own before it answers: what a store would have seen.
struct Witness(Arc<Mutex<File>>);

#[async_trait]
impl Client for Witness {
    async fn invoke(&mut self, op: &Invocation) -> Result<Value, ClientError> {
        writeln!(self.0.lock().unwrap(), "{}", op.value).unwrap();
        Ok(op.value.clone())
    }
}

struct Witnesses(Arc<Mutex<File>>);

#[async_trait]
impl ClientFactory for Witnesses {
    async fn connect(&self, _node: &Node, _process: u32) -> Result<Box<dyn Client>, ClientError> {
        Ok(Box::new(Witness(Arc::clone(&self.0))))
    }
}

/// Records unique writes into a folder, and what the clients saw into `seen` elsewhere.
async fn record(folder: &Path, seen: &Path, lanes: Vec<Box<dyn Lane>>) -> Outcome {
    let seen = OpenOptions::new().create(true).append(true).open(seen).unwrap();
    let mut n = 0;
    let generator = from_fn(move |_, _| {
        n += 1;
        Some(Invocation::new("write", Value::Int(n)))
    });
    let spec = RunSpec {
        generator: generator.boxed(),
        recovery: None,
        final_generator: Some(once(Invocation::new("read", Value::Nil)).boxed()),
        clients: Arc::new(Witnesses(Arc::new(Mutex::new(seen)))),
        nodes: vec![Node { name: "n1".into(), addr: [127, 0, 0, 1].into() }],
        concurrency: 20,
        rate: None,
        op_deadline: RunSpec::OP_DEADLINE,
        time_limit: Duration::from_secs(20),
        heal_limit: RunSpec::HEAL_LIMIT,
        final_limit: RunSpec::FINAL_LIMIT,
        seed: 1,
    };
    let recorder = Recorder::create(folder, Header::default()).unwrap();
    run(spec, lanes, recorder, Box::new(drop), Interrupt::new()).await
}

/// This program again, running one ignored test.
fn this_test(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]).env(FOLDER, folder);
    command
}

/// Reads a history as `deposed check` would, which finds no flaw in it.
fn history(folder: &Path) -> History {
    let file = File::open(folder.join(HISTORY)).unwrap();
    read(file, &ReadOptions::default()).unwrap().history
}

fn invoked(history: &History) -> BTreeSet<i64> {
    let writes = history.ops().filter(|op| op.kind() == OpType::Invoke);
    writes.filter_map(|op| op.value().as_int()).collect()
}

fn seen(path: &Path) -> BTreeSet<i64> {
    let lines = BufReader::new(File::open(path).unwrap()).lines();
    lines.filter_map(|line| line.unwrap().parse().ok()).collect()
}

/// A controller that is killed at any moment leaves a history that can be read, with the
/// invocation of every operation that any client saw.
#[test]
fn a_killed_controller_leaves_the_invocation_of_all_that_happened() {
    for after_ms in [30, 50, 80, 130, 210] {
        let folder = tempfile::tempdir().unwrap();
        let seen_path = folder.path().join("seen");
        let mut child =
            this_test("record_until_killed", folder.path()).stdout(Stdio::null()).spawn().unwrap();
        while fs::metadata(&seen_path).map_or(0, |file| file.len()) == 0 {
            std::thread::sleep(Duration::from_millis(1));
            assert_eq!(child.try_wait().unwrap(), None, "the recording ended by itself");
        }
        std::thread::sleep(Duration::from_millis(after_ms));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));

        let history = history(folder.path());
        let (invoked, seen) = (invoked(&history), seen(&seen_path));
        let missing: Vec<&i64> = seen.difference(&invoked).collect();
        assert!(missing.is_empty(), "{missing:?} happened and were never invoked");
        assert!(seen.len() > 100, "only {} operations", seen.len());
    }
}

#[test]
#[ignore = "a process that another test kills"]
fn record_until_killed() {
    let folder = std::env::var_os(FOLDER).map(std::path::PathBuf::from).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(record(&folder, &folder.join("seen"), Vec::new()));
}

/// A lane with a fault in force.
struct Harm(Arc<Mutex<bool>>);

#[async_trait]
impl Lane for Harm {
    fn name(&self) -> String {
        "harm".into()
    }

    async fn drive(self: Box<Self>, events: EventSender, mut stop: Stop) -> Result<(), FaultError> {
        events.record_nemesis("harm", OpType::Invoke, Value::Nil).await.unwrap();
        stop.wait().await;
        *self.0.lock().unwrap() = true;
        let refused = events.record_nemesis("harm", OpType::Info, Value::Nil).await.unwrap_err();
        assert!(refused.reason.contains("the disk is full"), "{refused}");
        Ok(())
    }
}

/// When the disk is full the run stops, heals, says so, and keeps what was recorded: whole lines,
/// with the invocation of every operation that any client saw.
#[test]
fn a_full_disk_ends_the_run_and_keeps_what_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    // A mount namespace of its own: the small disk is gone with the process.
    let on_a_small_disk =
        "mount -t tmpfs -o size=512k none \"$DEPOSED_TEST_FOLDER\" && exec \"$@\"";
    let recording = this_test("record_on_a_full_disk", folder.path());
    let status = Command::new("unshare")
        .args(["--mount", "sh", "-c", on_a_small_disk, "sh"])
        .arg(recording.get_program())
        .args(recording.get_args())
        .env(FOLDER, folder.path())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

#[test]
#[ignore = "a process that another test runs on a small disk"]
fn record_on_a_full_disk() {
    let folder = std::env::var_os(FOLDER).map(std::path::PathBuf::from).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let seen_path = elsewhere.path().join("seen");
    let healed = Arc::new(Mutex::new(false));
    let lanes: Vec<Box<dyn Lane>> = vec![Box::new(Harm(Arc::clone(&healed)))];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let outcome = runtime.block_on(record(&folder, &seen_path, lanes));

    let Ended::NotRecorded { reason } = outcome.ended else { panic!("{:?}", outcome.ended) };
    assert!(reason.contains("history.jsonl") && reason.contains("the disk is full"), "{reason}");
    assert_eq!(outcome.record_error, Some(reason));
    assert_eq!(outcome.finals, Finals::Skipped);
    assert_eq!(outcome.lanes[0].end, LaneEnd::Healed);
    assert!(*healed.lock().unwrap());

    let bytes = fs::read(folder.join(HISTORY)).unwrap();
    assert_eq!(bytes.last(), Some(&b'\n'), "whole lines only");
    let history = history(&folder);
    assert!(history.len() > 1000, "{} events", history.len());
    assert!(history.ops().any(|op| op.process() == Process::Nemesis));
    let missing: Vec<i64> = seen(&seen_path).difference(&invoked(&history)).copied().collect();
    assert!(missing.is_empty(), "{missing:?} happened and were never invoked");
}
