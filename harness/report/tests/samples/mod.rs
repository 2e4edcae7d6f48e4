//! Made-up runs to render: a small imitation of a replicated register, hurt by faults, and the
//! answers that checkers would give. Deterministic.

mod store;

use std::collections::BTreeMap;

use deposed_checkers::{Analysis, Anomaly, Edge, EdgeKind, Undecided};
use deposed_history::{Header, History, Op, OpType, Outcome, Process, Value};
use deposed_report::{
    Check, Claim, ClusterPlan, Ending, Environment, FaultPlan, File, Host, Interest, Limits, Load,
    LogExcerpt, LogLine, PLAN_SCHEMA, Plan, PlannedNode, Report, Run, SystemPlan, WorkloadPlan,
};

use store::{Fault, Imitation};

/// Wall clock at the start of every sample: 2026-11-29T02:14:07Z.
const START_WALL_NS: i64 = 1_795_918_447_000_000_000;
const MS: u64 = 1_000_000;

/// A run that owns what it is made of.
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) plan: Plan,
    pub(crate) ending: Ending,
    pub(crate) history: History,
    pub(crate) checks: Vec<Check>,
    pub(crate) logs: Vec<LogExcerpt>,
    pub(crate) files: Vec<File>,
}

impl Sample {
    /// Its report.
    pub(crate) fn report(&self) -> Report<'_> {
        Report::new(Run {
            plan: &self.plan,
            ending: &self.ending,
            history: &self.history,
            checks: &self.checks,
            logs: &self.logs,
            files: &self.files,
        })
    }
}

/// Every sample.
pub(crate) fn all() -> Vec<Sample> {
    vec![stale_read(), valid(), quiet(), vacuous(), empty(), hostile(), interrupted(), tangle()]
}

/// Reads answered by a node that a partition cut off.
pub(crate) fn stale_read() -> Sample {
    let store = Imitation {
        seconds: 30,
        pause_ms: 150,
        stale_reads: true,
        faults: vec![
            Fault::partition(4_000, 7_500, &["n3"], &["n1", "n2", "n4", "n5"]),
            Fault::partition(12_000, 18_000, &["n1", "n2"], &["n3", "n4", "n5"]),
            Fault::partition(22_500, 26_000, &["n4", "n5"], &["n1", "n2", "n3"]),
        ],
    };
    let history = store.history(header());
    let anomalies = stale_reads(&history);
    let count = anomalies.len() as u64;
    let shown: Vec<Anomaly> = anomalies.into_iter().take(12).collect();
    let mut linearizable = Analysis::from_findings(
        "linearizable",
        "1 of 8 keys could be explained; 5 could not, 2 were not looked at",
        shown,
        Vec::new(),
    );
    linearizable.anomaly_count = count;
    let logs = logs(&history, &linearizable.anomalies[0]);
    let mut plan = plan(&["partition"], 30);
    plan.system.options.insert("read".into(), "serializable".into());
    plan.system.options.insert("client_port".into(), "2379".into());
    plan.argv.extend(["--read".into(), "serializable".into()]);
    Sample {
        name: "stale-read",
        plan,
        ending: Ending::Normal,
        checks: vec![stats(&history, &[]), check(linearizable, 84)],
        logs,
        files: files(),
        history,
    }
}

/// 20,000 calls under three kinds of faults, all of them explained.
pub(crate) fn valid() -> Sample {
    let store = Imitation {
        seconds: 60,
        pause_ms: 34,
        stale_reads: false,
        faults: vec![
            Fault::partition(5_000, 11_000, &["n1"], &["n2", "n3", "n4", "n5"]),
            Fault::on("kill", 15_000, 19_000, &["n4"], "pid 4711 gone"),
            Fault::on("pause", 17_000, 23_500, &["n2"], "state T"),
            Fault::partition(29_000, 35_000, &["n2", "n5"], &["n1", "n3", "n4"]),
            Fault::on("kill", 39_000, 44_000, &["n1", "n3"], "pids 4702, 4699 gone"),
            Fault::on("pause", 47_000, 52_000, &["n5"], "state T"),
        ],
    };
    let history = store.history(header());
    let calls = history.calls().len();
    let summary = format!("{calls} calls on 8 keys, each key linearizable");
    let linearizable = Analysis::valid("linearizable", summary);
    Sample {
        name: "valid",
        plan: plan(&["partition", "kill", "pause"], 60),
        ending: Ending::Normal,
        checks: vec![stats(&history, &[]), check(linearizable, 412)],
        logs: Vec::new(),
        files: files(),
        history,
    }
}

/// Nothing found because nothing was tried.
pub(crate) fn quiet() -> Sample {
    let store = Imitation { seconds: 5, pause_ms: 900, stale_reads: false, faults: vec![] };
    let history = store.history(header());
    let linearizable = Analysis::valid("linearizable", "a few calls on 8 keys");
    Sample {
        name: "quiet",
        plan: plan(&[], 5),
        ending: Ending::Normal,
        checks: vec![stats(&history, &[]), check(linearizable, 1)],
        logs: Vec::new(),
        files: files(),
        history,
    }
}

/// A fault that never bit, and a key on which the search ran out of time.
pub(crate) fn vacuous() -> Sample {
    let mut kill = Fault::on("kill", 6_000, 9_000, &["n2"], "no process of the store was found");
    kill.skipped = true;
    let store = Imitation { seconds: 15, pause_ms: 120, stale_reads: false, faults: vec![kill] };
    let history = store.history(header());
    let last = history.len() as u32 - 1;
    let linearizable = Analysis::from_findings(
        "linearizable",
        "7 of 8 keys linearizable, 1 not decided",
        Vec::new(),
        vec![Undecided {
            key: Some("k3".into()),
            window: (last / 3, last / 2),
            reason: "the time budget of 60s ran out".into(),
            known: Some("the 118 calls before it are linearizable".into()),
        }],
    );
    Sample {
        name: "vacuous",
        plan: plan(&["kill"], 15),
        ending: Ending::Normal,
        checks: vec![
            stats(&history, &["the fault kill was never seen to bite (1 injected)"]),
            check(linearizable, 60_003),
        ],
        logs: Vec::new(),
        files: files(),
        history,
    }
}

/// The cluster never came up.
pub(crate) fn empty() -> Sample {
    let history = History::from_ops(header(), &[]);
    let reason = "connecting to n3 (10.73.0.3:22) as root: connection refused; is sshd running \
                  there? `deposed doctor` says more";
    Sample {
        name: "empty",
        plan: Plan { environment: None, ..plan(&["partition"], 30) },
        ending: Ending::Infrastructure { reason: reason.into() },
        checks: vec![stats(&history, &["no operation was invoked"])],
        logs: Vec::new(),
        files: Vec::new(),
        history,
    }
}

/// Everything that comes from outside tries to be markup.
pub(crate) fn hostile() -> Sample {
    let evil = "</pre><script>alert('x')</script>\u{202e}`|*\u{0}\u{1b}[31m&amp;]]>";
    let call = |time: u64, process: u32, f: &str, asked: Value, answered: Value| {
        let op = |kind, time, value| Op {
            time,
            wall: Some(START_WALL_NS + time as i64),
            node: Some(evil.into()),
            ..Op::new(kind, Process::Client(process), f, value)
        };
        [
            op(OpType::Invoke, time * MS, Value::pair(evil, asked)),
            op(OpType::Ok, (time + 5) * MS, Value::pair(evil, answered)),
        ]
    };
    let ops: Vec<Op> = [
        call(10, 1, "write", evil.into(), evil.into()),
        call(20, 2, evil, "b".into(), "b".into()),
        call(30, 3, "read", Value::Nil, evil.into()),
    ]
    .concat();
    let ops: Vec<Op> =
        ops.into_iter().enumerate().map(|(i, op)| Op { index: i as u64, ..op }).collect();
    let history = History::from_ops(header(), &ops);
    let anomaly = Anomaly {
        name: evil.into(),
        key: Some(evil.into()),
        summary: format!("summary {evil}"),
        sentences: vec![format!("Let {evil}.")],
        witness: vec![0, 2, 4],
        edges: vec![edge(2, 4, EdgeKind::RealTime, evil), edge(4, 2, EdgeKind::ReadWrite, evil)],
    };
    let analysis = Analysis::from_findings(evil, evil, vec![anomaly], Vec::new());
    let mut plan = plan(&[evil], 1);
    plan.argv.push(evil.into());
    plan.system.name = evil.into();
    plan.system.claims[0].quote = evil.into();
    plan.cluster.nodes[0].name = evil.into();
    Sample {
        name: "hostile",
        plan,
        ending: Ending::Bug { reason: evil.into() },
        checks: vec![check(analysis, 1)],
        logs: vec![LogExcerpt {
            node: evil.into(),
            file: evil.into(),
            interest: Interest::Crash { pattern: evil.into() },
            lines: vec![LogLine { number: 1, wall_ns: None, text: evil.into() }],
            omitted: 3,
        }],
        files: vec![File { path: evil.into(), bytes: 1 }],
        history,
    }
}

/// Stopped by hand in the middle of a fault, with a crash in a log.
pub(crate) fn interrupted() -> Sample {
    let mut partition = Fault::partition(9_000, 99_000, &["n1"], &["n2", "n3", "n4", "n5"]);
    partition.indeterminate = true;
    let pause = Fault::on("pause", 3_000, 6_000, &["n2", "n4"], "state T");
    let store = Imitation {
        seconds: 13,
        pause_ms: 200,
        stale_reads: false,
        faults: vec![pause, partition],
    };
    let history = store.history(header());
    let crash = Anomaly {
        name: "crash".into(),
        key: None,
        summary: "n4 crashed 11.2 s into the run: “panic: tocommit(107) is out of range”".into(),
        sentences: vec![
            "Line 812 of etcd.log on n4 matches `panic:`.".into(),
            "No kill was in force on n4 at that time.".into(),
        ],
        witness: Vec::new(),
        edges: Vec::new(),
    };
    let crash = Analysis::from_findings(
        "log-patterns",
        "1 match of 4 patterns in 5 files",
        vec![crash],
        Vec::new(),
    );
    let lines =
        ["panic: tocommit(107) is out of range [lastIndex(102)]", "goroutine 171 [running]:"]
            .iter()
            .enumerate()
            .map(|(i, text)| LogLine {
                number: 812 + i as u64,
                wall_ns: Some(START_WALL_NS + 11_200 * MS as i64),
                text: (*text).into(),
            })
            .collect();
    Sample {
        name: "interrupted",
        plan: plan(&["pause", "partition"], 120),
        ending: Ending::Interrupted { by: "SIGINT".into() },
        checks: vec![
            stats(&history, &["the fault partition was never seen to bite (1 injected)"]),
            check(crash, 2),
        ],
        logs: vec![LogExcerpt {
            node: "n4".into(),
            file: "nodes/n4/etcd.log".into(),
            interest: Interest::Crash { pattern: "panic:".into() },
            lines,
            omitted: 40,
        }],
        files: files(),
        history,
    }
}

/// A proof of many calls, one of them without an end, under two faults, with no arrow that goes
/// back in time.
pub(crate) fn tangle() -> Sample {
    let mut ops: Vec<Op> = Vec::new();
    let mut call = |process: u32, from: u64, to: Option<u64>, f: &str, asked: Value, got: Value| {
        let node = ["n1", "n2", "n3", "n4", "n5"][process as usize % 5];
        let op = |kind, ms: u64, value| Op {
            time: ms * MS,
            wall: Some(START_WALL_NS + (ms * MS) as i64),
            node: Some(node.into()),
            ..Op::new(kind, Process::Client(process), f, value)
        };
        ops.push(op(OpType::Invoke, from, Value::pair("k3", asked)));
        if let Some(to) = to {
            ops.push(op(OpType::Ok, to, Value::pair("k3", got)));
        }
    };
    let pair = Value::pair;
    call(0, 2_000, Some(2_004), "write", 1.into(), 1.into());
    call(1, 2_500, Some(2_900), "cas", pair(1, 2), pair(1, 2));
    call(2, 2_600, Some(2_700), "cas", pair(1, 3), pair(1, 3));
    call(3, 2_650, None, "write", 4.into(), Value::Nil);
    call(4, 2_800, Some(3_300), "read", Value::Nil, 4.into());
    call(5, 3_000, Some(3_010), "read", Value::Nil, 2.into());
    call(5, 3_100, Some(3_120), "read", Value::Nil, 3.into());
    call(6, 3_150, Some(3_400), "read", Value::Nil, 2.into());
    let faults = [
        Fault::partition(1_000, 3_050, &["n2"], &["n1", "n3", "n4", "n5"]),
        Fault::on("pause", 2_620, 9_000, &["n4"], "state T"),
    ];
    for (i, fault) in faults.iter().enumerate() {
        let events = fault.events(i as u64 + 1, 10_000 * MS);
        ops.extend(events.into_iter().map(|(time, op)| Op { time, ..op }));
    }
    ops.sort_by_key(|op| op.time);
    let ops: Vec<Op> =
        ops.into_iter().enumerate().map(|(i, op)| Op { index: i as u64, ..op }).collect();
    let history = History::from_ops(header(), &ops);
    let t: Vec<u32> = history.calls().iter().map(|call| call.invoke).collect();
    let real = |from: usize, to: usize| {
        let because = format!("T{} had returned before T{} was invoked", from + 1, to + 1);
        edge(t[from], t[to], EdgeKind::RealTime, &because)
    };
    let saw = |from: usize, to: usize| {
        let because = format!("T{} saw what T{}, and nobody else, wrote", to + 1, from + 1);
        edge(t[from], t[to], EdgeKind::WriteRead, &because)
    };
    let anomaly = Anomaly {
        name: "lost-update".into(),
        key: Some("k3".into()),
        summary: "process 1 cas 1 2 and process 2 cas 1 3, but it was 1 only once".into(),
        sentences: vec![
            "T4 must have happened, because T5 saw what only it wrote.".into(),
            "The value was 1 only once, and two calls replaced it: a contradiction.".into(),
        ],
        witness: t.clone(),
        edges: vec![
            real(0, 1),
            saw(0, 1),
            saw(0, 2),
            saw(3, 4),
            saw(1, 5),
            edge(t[5], t[6], EdgeKind::Process, "process 5 did one after the other"),
            saw(2, 6),
            real(6, 7),
            edge(t[1], t[2], EdgeKind::WriteWrite, "T2 replaced 1"),
            edge(t[2], t[1], EdgeKind::WriteWrite, "T3 replaced 1"),
        ],
    };
    let linearizable =
        Analysis::from_findings("linearizable", "8 calls on 1 key", vec![anomaly], Vec::new());
    Sample {
        name: "tangle",
        plan: plan(&["partition", "pause"], 10),
        ending: Ending::Untold,
        checks: vec![stats(&history, &[]), check(linearizable, 3)],
        logs: Vec::new(),
        files: files(),
        history,
    }
}

fn header() -> Header {
    Header {
        plan: Some("7f3a".into()),
        system: Some("etcd".into()),
        workload: Some("register".into()),
        start_wall_ns: Some(START_WALL_NS),
        keyed: true,
        ..Header::default()
    }
}

fn plan(lanes: &[&str], seconds: u64) -> Plan {
    let host = |packages: &[(&str, &str)]| Host {
        kernel: "Linux 6.1.0-28-amd64".into(),
        os: "Debian GNU/Linux 12 (bookworm)".into(),
        packages: packages.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
    };
    let node = |i: u8| PlannedNode { name: format!("n{i}"), addr: format!("10.73.0.{i}") };
    let faults = if lanes.is_empty() { String::new() } else { lanes.join(",") };
    let mut argv: Vec<String> = ["deposed", "run", "etcd"].map(Into::into).to_vec();
    argv.extend(["--time".into(), format!("{seconds}s")]);
    if !faults.is_empty() {
        argv.extend(["--faults".into(), faults]);
    }
    Plan {
        schema: PLAN_SCHEMA,
        id: "7f3a".into(),
        created: "2026-11-29T02:14:07Z".parse().expect("a date"),
        deposed: "0.1.0".into(),
        argv,
        seed: 6_840_112_233,
        system: SystemPlan {
            name: "etcd".into(),
            version: None,
            options: BTreeMap::new(),
            guarantees: None,
            claims: vec![Claim {
                checker: Some("linearizable".into()),
                quote: "etcd ensures linearizability for all other operations by default".into(),
                source: "https://etcd.io/docs/v3.4/learning/api_guarantees/".into(),
            }],
        },
        workload: WorkloadPlan {
            name: "register".into(),
            options: [("keys".to_owned(), "8".to_owned())].into(),
        },
        faults: FaultPlan {
            lanes: lanes.iter().map(|lane| (*lane).into()).collect(),
            interval_ms: 10_000,
            ..FaultPlan::default()
        },
        cluster: ClusterPlan { origin: "embedded lab".into(), nodes: (1..=5).map(node).collect() },
        load: Load { concurrency: 20, on_nodes: false, rate: None },
        limits: Limits {
            time_ms: seconds * 1_000,
            op_ms: 5_000,
            check_ms: 60_000,
            check_memory_bytes: 4 << 30,
        },
        checkers: vec!["stats".into(), "linearizable".into()],
        environment: Some(Environment {
            system_version: Some("3.4.23".into()),
            controller: host(&[]),
            nodes: (1..=5)
                .map(|i| (format!("n{i}"), host(&[("etcd-server", "3.4.23+dfsg-4+deb12u2")])))
                .collect(),
        }),
    }
}

fn files() -> Vec<File> {
    [
        ("plan.json", 2_310),
        ("history.jsonl.zst", 48_211),
        ("results.json", 9_544),
        ("run.log", 20_133),
        ("nodes/n1/etcd.log", 310_022),
        ("nodes/n2/etcd.log", 298_114),
    ]
    .map(|(path, bytes)| File { path: path.into(), bytes })
    .to_vec()
}

/// What the checker of that name would say.
fn stats(history: &History, vacuous: &[&str]) -> Check {
    let last = (history.len() as u32).saturating_sub(1);
    let undecided = vacuous
        .iter()
        .map(|reason| Undecided {
            key: None,
            window: (0, last),
            reason: format!("vacuous: {reason}"),
            known: None,
        })
        .collect();
    let summary = format!("{} calls", history.calls().len());
    check(Analysis::from_findings("stats", summary, Vec::new(), undecided), 1)
}

fn check(analysis: Analysis, elapsed_ms: u64) -> Check {
    Check { analysis, elapsed_ms }
}

fn edge(from: u32, to: u32, kind: EdgeKind, because: &str) -> Edge {
    Edge { from, to, kind, because: because.into() }
}

/// Reads that returned a value although a later write had been acknowledged before they began.
fn stale_reads(history: &History) -> Vec<Anomaly> {
    let mut writes: BTreeMap<(String, i64), (u32, u32)> = BTreeMap::new();
    let mut anomalies = Vec::new();
    let calls = history.calls();
    let pair = |position: u32| {
        let list = history.op(position).value().as_list()?;
        Some((list.get(0)?.as_str()?.to_owned(), list.get(1)?.as_int()?))
    };
    for call in calls.iter().filter(|call| call.outcome() == Outcome::Ok) {
        if history.op(call.invoke).f() == "write"
            && let (Some(what), Some(end)) = (pair(call.invoke), call.complete())
        {
            writes.insert(what, (call.invoke, end));
        }
    }
    for call in calls.iter().filter(|call| call.outcome() == Outcome::Ok) {
        let read = history.op(call.invoke);
        let Some((key, value)) = call.complete().and_then(pair) else { continue };
        let Some(&(old, old_end)) = writes.get(&(key.clone(), value)) else { continue };
        let overwritten = writes
            .range((key.clone(), 0)..=(key.clone(), i64::MAX))
            .filter(|(_, (start, end))| *start > old_end && *end < call.invoke)
            .min_by_key(|(_, (_, end))| *end);
        if read.f() != "read" {
            continue;
        }
        let Some(((_, new_value), &(new, new_end))) = overwritten else { continue };
        let late = (read.time() - history.op(new_end).time()) as f64 / 1e9;
        let who = |position: u32| history.op(position).process().to_string();
        let node = read.node().unwrap_or("?");
        anomalies.push(Anomaly {
            name: "stale-read".into(),
            key: Some(key.clone()),
            summary: format!(
                "process {} read {value} from {key} on {node}, {late:.2} s after the write of \
                 {new_value} by process {} was acknowledged",
                who(call.invoke),
                who(new)
            ),
            sentences: vec![
                format!("Let T1 = process {} write {value}.", who(old)),
                format!("Let T2 = process {} write {new_value}.", who(new)),
                format!("Let T3 = process {} read {value}.", who(call.invoke)),
                "Then T1 comes before T2, because T1 had returned before T2 was invoked.".into(),
                format!("Then T2 comes before T3, because T2 had returned {late:.2} s before T3 was invoked."),
                "However, T3 comes before T2, because T2 replaced the value that T3 saw: a contradiction.".into(),
            ],
            witness: vec![old, new, call.invoke],
            edges: vec![
                edge(old, new, EdgeKind::RealTime, "T1 had returned before T2 was invoked"),
                edge(old, call.invoke, EdgeKind::WriteRead, "T3 saw what T1, and nobody else, wrote"),
                edge(new, call.invoke, EdgeKind::RealTime, &format!("T2 had returned {late:.2} s before T3 was invoked")),
                edge(call.invoke, new, EdgeKind::ReadWrite, "T2 replaced the value that T3 saw"),
            ],
        });
    }
    anomalies.sort_by_key(|a| a.witness[2] - a.witness[1]);
    anomalies.reverse();
    anomalies
}

fn logs(history: &History, anomaly: &Anomaly) -> Vec<LogExcerpt> {
    let around = anomaly.witness.last().map_or(0, |&p| history.op(p).wall().unwrap_or(0));
    let excerpt = |node: &str, lines: &[(i64, &str)]| LogExcerpt {
        node: node.into(),
        file: format!("nodes/{node}/etcd.log"),
        interest: Interest::Near,
        lines: lines
            .iter()
            .enumerate()
            .map(|(i, (ms, text))| LogLine {
                number: 400 + i as u64,
                wall_ns: Some(around + ms * MS as i64),
                text: (*text).into(),
            })
            .collect(),
        omitted: 120,
    };
    vec![
        excerpt(
            "n1",
            &[
                (
                    -2_950,
                    "raft2026/11/29 WARN: 8e9e05c52164694d stepped down to follower since quorum is not active",
                ),
                (
                    -2_950,
                    "raft2026/11/29 INFO: raft.node: 8e9e05c52164694d lost leader 8e9e05c52164694d at term 4",
                ),
                (
                    -900,
                    "etcdserver: timed out waiting for read index response (local node might have slow network)",
                ),
            ],
        ),
        excerpt(
            "n4",
            &[
                (-2_410, "raft2026/11/29 INFO: a8266ecf031671f3 became candidate at term 5"),
                (-2_380, "raft2026/11/29 INFO: a8266ecf031671f3 became leader at term 5"),
            ],
        ),
    ]
}

/// Hundreds of thousands of calls, hundreds of faults, thousands of violations, long lines.
#[allow(dead_code, reason = "one test uses it; the rest show or compare smaller ones")]
pub(crate) fn enormous() -> Sample {
    let faults = (0..400)
        .map(|i| Fault::on("pause", i * 450, i * 450 + 300, &["n1", "n4"], "state T"))
        .collect();
    let store = Imitation { seconds: 200, pause_ms: 20, stale_reads: false, faults };
    let history = store.history(header());
    let long = "x".repeat(2_000);
    let first = history.calls()[100].invoke;
    let anomalies: Vec<Anomaly> = (0..5_000)
        .map(|i| Anomaly {
            name: "stale-read".into(),
            key: Some(format!("k{i}")),
            summary: format!("violation {i} {long}"),
            sentences: vec![long.clone(); 3],
            witness: (first..first + 400).collect(),
            edges: (first..first + 400)
                .map(|at| edge(at, at + 1, EdgeKind::RealTime, &long))
                .collect(),
        })
        .take(60)
        .collect();
    let mut linearizable = Analysis::from_findings("linearizable", long.clone(), anomalies, vec![]);
    linearizable.anomaly_count = 5_000;
    let lines = (0..2_000).map(|number| LogLine { number, wall_ns: None, text: long.clone() });
    Sample {
        name: "enormous",
        plan: plan(&["pause"], 200),
        ending: Ending::Normal,
        checks: vec![stats(&history, &[]), check(linearizable, 3)],
        logs: vec![LogExcerpt {
            node: "n1".into(),
            file: "nodes/n1/etcd.log".into(),
            interest: Interest::Near,
            lines: lines.collect(),
            omitted: 0,
        }],
        files: files(),
        history,
    }
}
