//! Runs against clients in memory that do what a test tells them.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use deposed_core::generator::{from_fn, from_iter, once};
use deposed_core::{
    Client, ClientError, ClientFactory, EventSender, FaultError, Generator, Invocation, Lane, Node,
    Stop,
};
use deposed_history::{Header, OpType, Value};

use super::*;

/// Does what the operation is called.
struct Obedient;

#[async_trait]
impl Client for Obedient {
    async fn invoke(&mut self, op: &Invocation) -> Result<Value, ClientError> {
        match &*op.f {
            "ok" => Ok(op.value.clone()),
            "nap" => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok(op.value.clone())
            }
            "refuse" => Err(ClientError::Definite("refused".into())),
            "compare" => Err(ClientError::Precondition),
            "lose" => Err(ClientError::Indefinite("reset".into())),
            "panic" => panic!("boom"),
            "hang" => std::future::pending().await,
            "block" => {
                std::thread::sleep(Duration::from_millis(700));
                Ok(op.value.clone())
            }
            other => unreachable!("no such behaviour: {other}"),
        }
    }
}

/// How connecting goes.
#[derive(Clone, Copy)]
enum Connect {
    Works,
    Refused,
    Hangs,
    Panics,
}

struct Factory {
    connect: Connect,
    connects: AtomicUsize,
}

impl Factory {
    fn new(connect: Connect) -> Arc<Self> {
        Arc::new(Self { connect, connects: AtomicUsize::new(0) })
    }
}

#[async_trait]
impl ClientFactory for Factory {
    async fn connect(&self, _node: &Node, _process: u32) -> Result<Box<dyn Client>, ClientError> {
        self.connects.fetch_add(1, Ordering::Relaxed);
        match self.connect {
            Connect::Works => Ok(Box::new(Obedient)),
            Connect::Refused => Err(ClientError::Indefinite("refused".into())),
            Connect::Hangs => std::future::pending().await,
            Connect::Panics => panic!("no route"),
        }
    }
}

/// A recorded event, as far as tests look at it.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    time: u64,
    process: String,
    kind: String,
    f: String,
    error: String,
    node: String,
}

fn lines(folder: &Path) -> Vec<Line> {
    let text = fs::read_to_string(folder.join(HISTORY)).unwrap();
    let mut lines = text.lines();
    let header: Header = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert!(header.start_wall_ns.is_some());
    let parse = |(index, line): (usize, &str)| {
        let op: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(op["index"], index);
        let text = |key: &str| op[key].as_str().unwrap_or_default().to_owned();
        Line {
            time: op["time"].as_u64().unwrap(),
            process: op["process"].to_string(),
            kind: text("type"),
            f: text("f"),
            error: text("error"),
            node: text("node"),
        }
    };
    let lines: Vec<Line> = lines.enumerate().map(parse).collect();
    assert!(lines.is_sorted_by_key(|line| line.time), "times never go backwards");
    lines
}

/// The completions, as `(process, kind, error)`.
fn completions(folder: &Path) -> Vec<(String, String, String)> {
    lines(folder)
        .into_iter()
        .filter(|line| line.kind != "invoke")
        .map(|line| (line.process, line.kind, line.error))
        .collect()
}

fn op(f: &str) -> Invocation {
    Invocation::new(f, Value::Nil)
}

fn endless(f: &'static str) -> Box<dyn Generator> {
    from_fn(move |_, _| Some(op(f))).boxed()
}

fn ops(fs: &[&str]) -> Box<dyn Generator> {
    from_iter(fs.iter().map(|f| op(f)).collect::<Vec<_>>()).boxed()
}

fn spec(generator: Box<dyn Generator>, clients: Arc<dyn ClientFactory>) -> RunSpec {
    let node = |n: u8| Node { name: format!("n{n}").into(), addr: [127, 0, 0, n].into() };
    RunSpec {
        generator,
        recovery: None,
        final_generator: None,
        clients,
        nodes: (1..=3).map(node).collect(),
        concurrency: 1,
        rate: None,
        op_deadline: Duration::from_millis(300),
        time_limit: Duration::from_secs(10),
        heal_limit: Duration::from_secs(2),
        final_limit: Duration::from_secs(2),
        seed: 1,
    }
}

type Events = Arc<Mutex<Vec<RunEvent>>>;

struct Run {
    folder: tempfile::TempDir,
    outcome: Outcome,
    events: Vec<RunEvent>,
    took: Duration,
}

async fn perform(spec: RunSpec, lanes: Vec<Box<dyn Lane>>, interrupt: Interrupt) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(folder.path(), Header::default()).unwrap();
    let events = Events::default();
    let sink = Arc::clone(&events);
    let start = Instant::now();
    let outcome =
        run(spec, lanes, recorder, Box::new(move |e| sink.lock().unwrap().push(e)), interrupt)
            .await;
    let events = events.lock().unwrap().clone();
    Run { folder, outcome, events, took: start.elapsed() }
}

async fn plain(spec: RunSpec) -> Run {
    perform(spec, Vec::new(), Interrupt::new()).await
}

fn completion(process: &str, kind: &str, error: &str) -> (String, String, String) {
    (process.to_owned(), kind.to_owned(), error.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_outcome_of_a_client_is_recorded_as_what_it_means() {
    let fs = ["ok", "refuse", "compare", "lose", "ok", "panic", "ok"];
    let factory = Factory::new(Connect::Works);
    let run = plain(spec(ops(&fs), factory.clone())).await;
    assert_eq!(run.outcome.ended, Ended::Exhausted);
    assert_eq!(
        completions(run.folder.path()),
        [
            completion("0", "ok", ""),
            completion("0", "fail", "refused"),
            completion("0", "fail", "precondition"),
            completion("0", "info", "reset"),
            completion("1", "ok", ""),
            completion("1", "info", "the client panicked: boom"),
            completion("2", "ok", ""),
        ]
    );
    // A client that lost its operation is never used again.
    assert_eq!(factory.connects.load(Ordering::Relaxed), 3);
    assert_eq!(run.outcome.totals.by_f["ok"], Counts { ok: 3, fail: 0, info: 0 });
    assert_eq!(run.outcome.totals.counts(), Counts { ok: 3, fail: 2, info: 2 });
}

/// Looks for its own invocation in the file before it answers.
struct Suspicious(std::path::PathBuf);

#[async_trait]
impl Client for Suspicious {
    async fn invoke(&mut self, op: &Invocation) -> Result<Value, ClientError> {
        let recorded = fs::read_to_string(self.0.join(HISTORY)).unwrap();
        let invocation = format!(r#""type":"invoke","f":"write","value":{}"#, op.value);
        assert!(recorded.contains(&invocation), "{invocation} is not in the file");
        Ok(op.value.clone())
    }
}

#[async_trait]
impl ClientFactory for Suspicious {
    async fn connect(&self, _node: &Node, _process: u32) -> Result<Box<dyn Client>, ClientError> {
        Ok(Box::new(Self(self.0.clone())))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invocation_is_in_the_file_before_its_client_hears_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(folder.path(), Header::default()).unwrap();
    let mut n = 0;
    let generator = from_fn(move |_, _| {
        n += 1;
        Some(Invocation::new("write", Value::Int(n)))
    });
    let factory = Arc::new(Suspicious(folder.path().to_owned()));
    let spec = RunSpec { concurrency: 5, ..spec(generator.limit(200).boxed(), factory) };
    let outcome = run(spec, Vec::new(), recorder, Box::new(drop), Interrupt::new()).await;
    assert_eq!(outcome.totals.counts(), Counts { ok: 200, fail: 0, info: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_talk_to_the_nodes_in_turn_and_every_event_says_to_which() {
    let spec = RunSpec {
        concurrency: 4,
        ..spec(endless("nap").limit(40).boxed(), Factory::new(Connect::Works))
    };
    let run = plain(spec).await;
    for line in lines(run.folder.path()) {
        let thread: usize = line.process.parse().unwrap();
        assert_eq!(line.node, format!("n{}", thread % 3 + 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_past_its_deadline_is_indeterminate_and_its_process_is_not_used_again() {
    let spec =
        RunSpec { concurrency: 3, ..spec(ops(&["hang", "hang"]), Factory::new(Connect::Works)) };
    let run = plain(spec).await;
    let lines = lines(run.folder.path());
    let ends: Vec<&Line> = lines.iter().filter(|line| line.kind == "info").collect();
    assert_eq!(ends.len(), 2);
    assert!(ends.iter().all(|line| line.error == "no answer within 300ms"), "{ends:?}");
    assert!(ends[0].time >= 300_000_000);

    let one = plain(self::spec(ops(&["hang", "ok"]), Factory::new(Connect::Works))).await;
    assert_eq!(
        completions(one.folder.path()),
        [completion("0", "info", "no answer within 300ms"), completion("1", "ok", "")]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_connection_an_operation_has_definitely_not_happened() {
    for (connect, error) in [
        (Connect::Refused, "no client: refused"),
        (Connect::Hangs, "no client: not connected and ready within 300ms"),
        (Connect::Panics, "no client: panicked: no route"),
    ] {
        let run = plain(spec(ops(&["ok", "ok"]), Factory::new(connect))).await;
        let expected = completion("0", "fail", error);
        assert_eq!(completions(run.folder.path()), [expected.clone(), expected]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_connections_are_spaced_out() {
    let factory = Factory::new(Connect::Refused);
    let spec =
        RunSpec { time_limit: Duration::from_millis(450), ..spec(endless("ok"), factory.clone()) };
    plain(spec).await;
    let connects = factory.connects.load(Ordering::Relaxed);
    assert!((2..=6).contains(&connects), "{connects} attempts in 450 ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_client_that_blocks_the_runtime_does_not_keep_the_run_from_ending() {
    let spec = RunSpec {
        concurrency: 2,
        op_deadline: Duration::from_millis(100),
        time_limit: Duration::from_millis(200),
        ..spec(endless("block"), Factory::new(Connect::Works))
    };
    let run = plain(spec).await;
    assert_eq!(run.outcome.ended, Ended::TimeLimit);
    // The loop itself was done at 200 + 100 ms; the rest is the runtime coming round.
    assert!(run.outcome.time < 600_000_000, "{}", run.outcome.time);
    assert!(run.took < Duration::from_secs(5), "{:?}", run.took);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_limit_ends_the_main_phase_and_final_operations_follow() {
    let spec = RunSpec {
        concurrency: 4,
        time_limit: Duration::from_millis(300),
        rate: Some(200.0),
        final_generator: Some(once(op("nap")).boxed()),
        ..spec(endless("nap"), Factory::new(Connect::Works))
    };
    let run = plain(spec).await;
    assert_eq!(run.outcome.ended, Ended::TimeLimit);
    assert_eq!(run.outcome.finals, Finals::Complete);
    let main = lines(run.folder.path()).iter().filter(|line| line.kind == "invoke").count() - 1;
    assert!((2..=100).contains(&main), "{main} operations in 300 ms at 200 a second");
    let phase = |event: &RunEvent| match event {
        RunEvent::Phase { phase, .. } => Some(*phase),
        _ => None,
    };
    let phases: Vec<Phase> = run.events.iter().filter_map(phase).collect();
    assert_eq!(phases, [Phase::Main, Phase::Heal, Phase::Final]);
    assert!(matches!(run.events.last(), Some(RunEvent::Ended(outcome)) if *outcome == run.outcome));
}

#[tokio::test(flavor = "multi_thread")]
async fn final_operations_that_never_succeed_are_cut_short() {
    let spec = RunSpec {
        final_limit: Duration::from_millis(200),
        final_generator: Some(endless("refuse").until_ok().stagger(100.0).boxed()),
        ..spec(ops(&["ok"]), Factory::new(Connect::Works))
    };
    let run = plain(spec).await;
    assert_eq!(run.outcome.finals, Finals::CutShort);
}

#[tokio::test(flavor = "multi_thread")]
async fn final_operations_wait_until_the_system_has_recovered() {
    let with = |recovery: Recovery| RunSpec {
        heal_limit: Duration::from_millis(300),
        recovery: Some(recovery),
        final_generator: Some(once(op("ok")).boxed()),
        ..spec(ops(&["ok"]), Factory::new(Connect::Works))
    };
    let run = plain(with(Box::pin(async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok(())
    })))
    .await;
    assert_eq!(run.outcome.recovered, Recovered::Yes);
    assert!(lines(run.folder.path()).last().unwrap().time >= 200_000_000);

    let run = plain(with(Box::pin(std::future::pending()))).await;
    let reason = "not within 300ms".to_owned();
    assert_eq!(run.outcome.recovered, Recovered::No { reason });
    assert_eq!(run.outcome.finals, Finals::Complete);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generator_that_panics_ends_the_phase_and_nothing_else() {
    let mut left = 3;
    let generator = from_fn(move |_, _| {
        left -= 1;
        assert!(left > 0, "out of ideas");
        Some(op("ok"))
    });
    let healed = Arc::new(AtomicUsize::new(0));
    let lanes: Vec<Box<dyn Lane>> = vec![Box::new(Harm::new(&healed))];
    let run =
        perform(spec(generator.boxed(), Factory::new(Connect::Works)), lanes, Interrupt::new())
            .await;
    let reason = "panicked: out of ideas".to_owned();
    assert_eq!(run.outcome.ended, Ended::GeneratorFailed { reason });
    assert_eq!(healed.load(Ordering::Relaxed), 1);
}

/// A lane with one fault, in force until it is stopped.
struct Harm {
    healed: Arc<AtomicUsize>,
}

impl Harm {
    fn new(healed: &Arc<AtomicUsize>) -> Self {
        Self { healed: Arc::clone(healed) }
    }
}

#[async_trait]
impl Lane for Harm {
    fn name(&self) -> String {
        "harm".into()
    }

    async fn drive(self: Box<Self>, events: EventSender, mut stop: Stop) -> Result<(), FaultError> {
        let _ = events.record_nemesis("harm", OpType::Invoke, Value::Nil).await;
        stop.wait().await;
        self.healed.fetch_add(1, Ordering::Relaxed);
        let _ = events.record_nemesis("harm", OpType::Info, "healed".into()).await;
        Ok(())
    }
}

/// A lane that does not stop.
struct Stubborn;

#[async_trait]
impl Lane for Stubborn {
    fn name(&self) -> String {
        "stubborn".into()
    }

    async fn drive(self: Box<Self>, _events: EventSender, _stop: Stop) -> Result<(), FaultError> {
        std::future::pending().await
    }
}

/// A lane that breaks.
struct Broken;

#[async_trait]
impl Lane for Broken {
    fn name(&self) -> String {
        "broken".into()
    }

    async fn drive(self: Box<Self>, _events: EventSender, _stop: Stop) -> Result<(), FaultError> {
        panic!("lost")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lanes_report_into_the_history_and_heal_before_the_run_ends() {
    let healed = Arc::new(AtomicUsize::new(0));
    let lanes: Vec<Box<dyn Lane>> =
        vec![Box::new(Harm::new(&healed)), Box::new(Broken), Box::new(Stubborn)];
    let spec = RunSpec {
        time_limit: Duration::from_millis(200),
        heal_limit: Duration::from_millis(200),
        ..spec(endless("nap"), Factory::new(Connect::Works))
    };
    let run = perform(spec, lanes, Interrupt::new()).await;
    let ends: Vec<LaneEnd> = run.outcome.lanes.into_iter().map(|lane| lane.end).collect();
    let reason = "panicked: lost".to_owned();
    assert_eq!(ends, [LaneEnd::Healed, LaneEnd::Failed { reason }, LaneEnd::Abandoned]);
    assert_eq!(healed.load(Ordering::Relaxed), 1);
    let lines = lines(run.folder.path());
    let faults: Vec<&Line> = lines.iter().filter(|line| line.process == "\"nemesis\"").collect();
    assert_eq!(faults.iter().map(|line| &*line.kind).collect::<Vec<_>>(), ["invoke", "info"]);
    assert!(faults[1].time >= 200_000_000);
    let shown = run.events.iter().filter(|event| matches!(event, RunEvent::Fault { .. })).count();
    assert_eq!(shown, 2);
}

async fn interrupted(times: usize, fs: &'static str) -> (Run, usize) {
    let healed = Arc::new(AtomicUsize::new(0));
    let lanes: Vec<Box<dyn Lane>> = vec![Box::new(Harm::new(&healed))];
    let interrupt = Interrupt::new();
    let spec = RunSpec {
        op_deadline: Duration::from_secs(2),
        final_generator: Some(once(op("ok")).boxed()),
        ..spec(endless(fs), Factory::new(Connect::Works))
    };
    let switch = interrupt.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        for _ in 0..times {
            switch.raise("SIGINT");
        }
    });
    let run = perform(spec, lanes, interrupt).await;
    (run, healed.load(Ordering::Relaxed))
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_once_it_waits_for_operations_in_flight_and_heals() {
    let (run, healed) = interrupted(1, "hang").await;
    assert_eq!(run.outcome.ended, Ended::Interrupted);
    assert_eq!(run.outcome.finals, Finals::Skipped);
    assert_eq!(healed, 1);
    assert_eq!(
        completions(run.folder.path()).into_iter().filter(|(p, ..)| p == "0").collect::<Vec<_>>(),
        [completion("0", "info", "no answer within 2s")]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_twice_it_only_heals() {
    let (run, healed) = interrupted(2, "hang").await;
    assert_eq!(run.outcome.ended, Ended::Interrupted);
    assert_eq!(run.outcome.interrupts, 2);
    assert_eq!(healed, 1);
    assert!(run.took < Duration::from_secs(1), "{:?}", run.took);
    assert!(completions(run.folder.path()).contains(&completion(
        "0",
        "info",
        "no answer before the run was interrupted"
    )));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_nobody_waits_for_heals_and_ends() {
    let healed = Arc::new(AtomicUsize::new(0));
    let lanes: Vec<Box<dyn Lane>> = vec![Box::new(Harm::new(&healed))];
    let spec = spec(endless("hang"), Factory::new(Connect::Works));
    let run = perform(spec, lanes, Interrupt::new());
    assert!(tokio::time::timeout(Duration::from_millis(100), run).await.is_err());
    for _ in 0..50 {
        if healed.load(Ordering::Relaxed) == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the lane was not told to heal within a second");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_written_as_json_for_machines() {
    let run = plain(spec(ops(&["ok", "lose"]), Factory::new(Connect::Works))).await;
    let text: Vec<String> =
        run.events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    assert!(text[0].starts_with(r#"{"event":"phase","time":"#), "{}", text[0]);
    let last = text.last().unwrap();
    assert!(last.contains(r#""event":"ended","ended":{"why":"exhausted"}"#), "{last}");
    assert!(last.contains(r#""errors":{"reset":1}"#), "{last}");
}
