//! Whole lanes: schedule, events, journal, and what is left when something goes wrong.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deposed_core::{EventSender, FaultContext, FaultError, NotRecorded, Stop};
use deposed_history::{Coverage, Effect, Header, History, Op, Process, coverage, episodes};
use deposed_nemeses::{
    Injection, Injections, Journal, LaneOptions, Timing, heal_all, heal_run, lanes, parse, pending,
};
use tempfile::TempDir;

use crate::namespaces::Namespaces;
use crate::store;

/// Everything on a node that a fault may change.
const STATE: &str = "iptables -S; ip6tables -S; nft list table inet deposed 2>/dev/null; ls /run/deposed/faults 2>/dev/null; grep -l '^State:.T' /proc/[0-9]*/status 2>/dev/null; \
    kill -0 $(cat /run/store.pid) && echo runs";

struct Run {
    folder: TempDir,
    events: Arc<Mutex<Vec<Op>>>,
    /// How many events may be recorded.
    room: usize,
    /// What is to be repeated, if anything is.
    repeat: Option<Vec<Injection>>,
}

impl Run {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            events: Arc::default(),
            room: usize::MAX,
            repeat: None,
        }
    }

    fn journal(&self) -> std::path::PathBuf {
        self.folder.path().join(Journal::NAME)
    }

    fn schedule(&self) -> std::path::PathBuf {
        self.folder.path().join(Injections::NAME)
    }

    fn injections(&self) -> Vec<Injection> {
        Injections::parse(&std::fs::read_to_string(self.schedule()).unwrap()).unwrap()
    }

    fn history(&self) -> History {
        History::from_ops(Header::default(), &*self.events.lock().unwrap())
    }

    fn sink(&self) -> EventSender {
        let (events, start, room) = (Arc::clone(&self.events), Instant::now(), self.room);
        EventSender::new(move |event| {
            let mut events = events.lock().unwrap();
            if events.len() >= room {
                event.answer(Err(NotRecorded { reason: "the disk is full".into() }));
                return;
            }
            let time = start.elapsed().as_nanos() as u64;
            let op = Op::new(event.kind, Process::Nemesis, &event.f, event.value.clone());
            events.push(Op { time, ..op });
            event.answer(Ok(()));
        })
    }

    /// Runs lanes for so long, calling `at` before each tenth of it, and returns what they said.
    async fn drive(
        &self,
        cx: &FaultContext,
        faults: &str,
        time: Duration,
        mut at: impl FnMut(u32),
    ) -> Vec<Result<(), FaultError>> {
        let names: Vec<String> = cx.cluster.nodes().map(|n| n.name.to_string()).collect();
        let options = LaneOptions {
            timing: Timing::default(),
            time_limit: Some(time),
            seed: 11,
            journal: Journal::open(&self.journal()).unwrap(),
            injections: Injections::create(&self.schedule()).unwrap(),
            repeat: self.repeat.clone(),
        };
        let specs = parse(faults, &names).unwrap();
        let (stop_sender, stop) = Stop::channel();
        let mut running = tokio::task::JoinSet::new();
        for mut lane in lanes(&specs, cx, &options).await.unwrap() {
            lane.baseline().await.unwrap();
            running.spawn(lane.drive(self.sink(), stop.clone()));
        }
        for tenth in 0..10 {
            at(tenth);
            tokio::time::sleep(time / 10).await;
        }
        stop_sender.set();
        let mut results = Vec::new();
        while let Some(done) = running.join_next().await {
            results.push(done.unwrap());
        }
        results
    }
}

/// In a run of a few seconds three lanes inject each fault, prove it, heal it, and leave every node
/// as it was, with nothing pending in the journal.
#[tokio::test]
async fn three_lanes_prove_and_heal_everything() {
    let net = Namespaces::new(3);
    let cx = store::running(&net).await;
    let before = net.everywhere(STATE);
    let run = Run::new();
    let time = Duration::from_secs(8);
    let results = run.drive(&cx, "partition,kill:one,pause:minority", time, |_| {}).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let history = run.history();
    let covered = coverage(&history);
    let said: Vec<String> = episodes(&history).iter().map(|e| format!("{e:?}")).collect();
    assert_eq!(covered.len(), 3);
    for (fault, seen) in covered {
        assert!(seen.proven >= 1, "{fault}: {seen:?}\n{}", said.join("\n"));
        assert_eq!(seen.unhealed(), 0, "{fault}: {seen:?}\n{}", said.join("\n"));
        assert_eq!(seen.indeterminate, 0, "{fault}: {seen:?}\n{}", said.join("\n"));
    }
    assert!(pending(&run.journal()).unwrap().is_empty());
    assert_eq!(net.everywhere(STATE), before);
}

/// A run that repeats another injects the same into the same nodes, no earlier than it did and as
/// long; pids are those of now.
#[tokio::test]
async fn a_schedule_is_repeated() {
    let net = Namespaces::new(3);
    let cx = store::running(&net).await;
    let (faults, time) = ("partition,pause:one,kill:one", Duration::from_secs(6));
    let first = Run::new();
    first.drive(&cx, faults, time, |_| {}).await;
    // The first of each lane: however long one takes to heal, no other comes due meanwhile.
    let mut earlier = first.injections();
    let mut met = BTreeSet::new();
    earlier.retain(|injection| met.insert(injection.lane.clone()));
    assert_eq!(earlier.len(), 3, "{earlier:?}");
    let run = Run { repeat: Some(earlier.clone()), ..Run::new() };
    let results = run.drive(&cx, &Injections::lanes(&earlier), time, |_| {}).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let again = run.injections();
    assert_eq!(again.len(), 3, "{again:?}");
    for injection in &again {
        let same = earlier.iter().find(|earlier| earlier.lane == injection.lane).unwrap();
        assert!(injection.at_ms >= same.at_ms, "{injection:?} {same:?}");
        assert_eq!(
            (injection.hold_ms, &injection.choice.nodes),
            (same.hold_ms, &same.choice.nodes)
        );
        if injection.lane == "partition" {
            assert_eq!(injection.choice, same.choice);
        }
    }
    let proven = coverage(&run.history()).values().map(|seen| seen.proven).sum::<u64>();
    assert_eq!(proven as usize, again.len());
}

/// A node that is lost while a fault holds it: the fault is doubted, the lane says that it may
/// still be in force, and the journal knows how to undo it later.
#[tokio::test]
async fn a_lost_node_is_healed_later_from_the_journal() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    let before = net.everywhere(STATE);
    let run = Run::new();
    let results = run
        .drive(&cx, "pause:n1", Duration::from_secs(4), |tenth| {
            // The lane injects after 0.3 s and holds for a second or so.
            if tenth == 2 {
                net.node(1).set_cut(true);
            }
        })
        .await;
    let error = results[0].as_ref().unwrap_err().to_string();
    assert!(error.contains("may still be in force on n1"), "{error}");
    let episodes = episodes(&run.history());
    assert_eq!(episodes[0].effect(), Effect::Indeterminate);
    assert!(!episodes[0].is_healed());
    let left = pending(&run.journal()).unwrap();
    assert_eq!((left.len(), left[0].fault.as_str()), (1, "pause"));
    assert!(heal_run(&cx.cluster, &run.journal()).await.unwrap()["n1"].is_err());
    assert_eq!(pending(&run.journal()).unwrap(), left);
    net.node(1).set_cut(false);
    let healed = heal_run(&cx.cluster, &run.journal()).await.unwrap();
    assert!(healed.values().all(Result::is_ok), "{healed:?}");
    assert!(pending(&run.journal()).unwrap().is_empty());
    assert_eq!(net.everywhere(STATE), before);
}

/// The controller vanishes while faults are in force: healing from a cold start, without a journal,
/// finds what the nodes wrote down themselves.
#[tokio::test]
async fn a_cold_start_heals_what_a_dead_run_left() {
    let net = Namespaces::new(3);
    let cx = store::running(&net).await;
    let before = net.everywhere(STATE);
    for (fault, name) in [("partition:n1", "partition-1"), ("pause:n2", "pause-2")] {
        let mut nemesis = crate::nemesis(fault, &cx).await;
        crate::assert_proven(&crate::hurt(&mut *nemesis, &cx, name).await.1);
    }
    assert_ne!(net.everywhere(STATE), before);
    for _ in 0..2 {
        let healed = heal_all(&cx.cluster, &[]).await;
        assert!(healed.values().all(Result::is_ok), "{healed:?}");
        assert_eq!(net.everywhere(STATE), before);
    }
}

/// Told to stop while a fault is held, a lane heals at once and says so.
#[tokio::test]
async fn a_stop_heals_at_once() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    let run = Run::new();
    let options = LaneOptions {
        timing: Timing {
            quiet: Duration::from_millis(100),
            hold: Duration::from_secs(120),
            ..Timing::default()
        },
        time_limit: None,
        seed: 1,
        journal: Journal::open(&run.journal()).unwrap(),
        injections: Injections::create(&run.schedule()).unwrap(),
        repeat: None,
    };
    let specs = parse("pause:all", &net.names()).unwrap();
    let lane = lanes(&specs, &cx, &options).await.unwrap().remove(0);
    let (sender, stop) = Stop::channel();
    let driven = tokio::spawn(lane.drive(run.sink(), stop));
    while run.events.lock().unwrap().len() < 3 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let stopped = Instant::now();
    sender.set();
    driven.await.unwrap().unwrap();
    assert!(stopped.elapsed() < Duration::from_secs(30), "{:?}", stopped.elapsed());
    let expected = Coverage { injected: 1, proven: 1, healed: 1, ..Coverage::default() };
    assert_eq!(coverage(&run.history())["pause"], expected);
}

/// When the history takes no more events, nothing is applied any more, and what is in force is
/// healed.
#[tokio::test]
async fn a_full_history_ends_in_healing() {
    let end_with_room = async |room| {
        let net = Namespaces::new(1);
        let cx = store::running(&net).await;
        let before = net.everywhere(STATE);
        let run = Run { room, ..Run::new() };
        let results = run.drive(&cx, "pause:all", Duration::from_secs(2), |_| {}).await;
        assert!(results[0].is_ok(), "{results:?}");
        assert_eq!(run.events.lock().unwrap().len(), room);
        assert_eq!(net.everywhere(STATE), before);
    };
    tokio::join!(end_with_room(1), end_with_room(2), end_with_room(3));
}
