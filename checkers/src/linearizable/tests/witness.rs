//! What is said of a violation.

use crate::{Analysis, Budget, Checker, Linearizable, ModelKind, Verdict};
use deposed_history::{Header, History, Op, OpType, PRECONDITION, Process, Value};

/// One event in short: `0 invoke write 1`, values are numbers, `nil` or `a>b`.
fn event(line: &str) -> Op {
    let words: Vec<&str> = line.split_whitespace().collect();
    let value = |text: &str| match text.split_once('>') {
        Some((from, to)) => Value::List(vec![number(from), number(to)]),
        None => number(text),
    };
    let process = Process::Client(words[0].parse().expect("a process"));
    let value = words.get(3).map_or(Value::Nil, |text| value(text));
    let op = Op::new(OpType::parse(words[1]).expect("a kind"), process, words[2], value);
    let error = words.get(4).map_or(Value::Nil, |_| PRECONDITION.into());
    Op { error, ..op }
}

fn number(text: &str) -> Value {
    text.parse().map_or(Value::Nil, Value::Int)
}

fn judge(kind: ModelKind, text: &str) -> Analysis {
    let ops: Vec<Op> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .enumerate()
        .map(|(index, line)| Op { index: index as u64, ..event(line) })
        .collect();
    let history = History::from_ops(Header::default(), &ops);
    Linearizable::new(kind).check(&history, &Budget::unlimited())
}

fn say(analysis: &Analysis) -> String {
    let anomaly = &analysis.anomalies[0];
    let mut lines = vec![format!("{}: {}", anomaly.name, anomaly.summary)];
    lines.extend(anomaly.sentences.clone());
    lines.join("\n")
}

/// A stale read is told as the two writes and the read that prove it.
#[test]
fn a_stale_read_is_told_in_three_calls() {
    let analysis = judge(
        ModelKind::CasRegister,
        "0 invoke write 1\n0 ok write 1\n\
         1 invoke write 2\n1 ok write 2\n\
         3 invoke read\n3 ok read 2\n\
         2 invoke read\n2 ok read 1\n\
         0 invoke write 3\n0 ok write 3",
    );
    assert_eq!(
        say(&analysis),
        "stale-read: process 2 read 1 after the value had become 2\n\
         Let T1 = process 0 wrote 1 (ops 0 to 1).\n\
         Let T2 = process 1 wrote 2 (ops 2 to 3).\n\
         Let T3 = process 2 read 1 (ops 6 to 7).\n\
         Then T1 comes before T2, because T1 had returned before T2 was invoked.\n\
         Then T2 comes before T3, because T2 had returned before T3 was invoked.\n\
         Then T3 comes before T2, because 1 was current before 2 and, written only once, never \
         again after it, so T3, which saw 1, precedes what replaced it.\n\
         Each comes before the other: a contradiction."
    );
    assert_eq!(analysis.anomalies[0].witness, [0, 2, 6]);
}

/// Two cas that both succeeded on one value are a lost update.
#[test]
fn two_cas_on_one_value_are_a_lost_update() {
    let analysis = judge(
        ModelKind::CasRegister,
        "0 invoke write 1\n0 ok write 1\n\
         1 invoke cas 1>2\n2 invoke cas 1>3\n1 ok cas 1>2\n2 ok cas 1>3",
    );
    assert_eq!(analysis.anomalies[0].name, "lost-update");
    assert_eq!(analysis.anomalies[0].witness, [0, 2, 3]);
}

/// A value that only a failed call wrote is named, and so is that call.
#[test]
fn a_read_of_what_failed_names_the_failure() {
    let analysis =
        judge(ModelKind::Register, "0 invoke write 7\n0 fail write 7\n1 invoke read\n1 ok read 7");
    assert_eq!(analysis.anomalies[0].name, "read-of-unwritten-value");
    assert!(
        say(&analysis).contains("(the write of process 0 at op 0 failed, so it did not happen)")
    );
}

/// The first call of a history can be the violation, and be all of it.
#[test]
fn one_call_can_be_the_violation() {
    let analysis = judge(ModelKind::Register, "0 invoke read\n0 ok read 7");
    assert_eq!(analysis.verdict, Verdict::Invalid);
    assert_eq!(analysis.anomalies[0].witness, [0]);
}

/// A history of repeated values is cut down to the window in which it went wrong.
#[test]
fn a_long_history_is_cut_down() {
    let mut text = String::new();
    for round in 0..200 {
        let v = round % 3;
        text += &format!("0 invoke write {v}\n0 ok write {v}\n1 invoke read\n1 ok read {v}\n");
    }
    text += "0 invoke write 1\n0 ok write 1\n1 invoke read\n1 ok read 2\n";
    for _ in 0..200 {
        text += "0 invoke write 0\n0 ok write 0\n1 invoke read\n1 ok read 0\n";
    }
    let analysis = judge(ModelKind::CasRegister, &text);
    assert_eq!(analysis.anomalies[0].witness, [800, 802]);
    assert_eq!(
        say(&analysis),
        "stale-read: process 1 read 2, which no order of 2 calls allows\n\
         Let T1 = process 0 wrote 1 (ops 800 to 801).\n\
         Let T2 = process 1 read 2 (ops 802 to 803).\n\
         Whatever happened before, and whatever the state was then:\n\
         Then T1 comes before T2, because T1 had returned before T2 was invoked.\n\
         After T1 the value is 1, so T2 cannot have happened yet.\n\
         No order lets T2 happen before it returned, and yet process 1 read 2: a contradiction."
    );
}

/// Violations that a search found have the names of the field where these fit for certain.
#[test]
fn what_a_search_found_is_named() {
    let name = |kind, text: &str| judge(kind, text).anomalies[0].name.clone();
    let cas = |text: &str| name(ModelKind::CasRegister, text);
    // Values that are written twice keep the zones out.
    let twice = "0 invoke write 1\n0 ok write 1\n0 invoke write 2\n0 ok write 2\n\
                 0 invoke write 1\n0 ok write 1\n0 invoke write 2\n0 ok write 2\n";
    assert_eq!(cas(&format!("{twice}1 invoke read\n1 ok read 1")), "stale-read");
    assert_eq!(cas(&format!("{twice}1 invoke read\n1 ok read 3")), "read-of-unwritten-value");
    assert_eq!(
        cas(&format!("{twice}1 invoke read\n1 ok read 3\n0 invoke write 3\n0 ok write 3")),
        "future-read"
    );
    assert_eq!(cas(&format!("{twice}1 invoke read\n1 ok read nil")), "stale-read");
    // An open write of the value may yet have come in between.
    let open = format!("2 invoke write 1\n{twice}1 invoke read\n1 ok read 1\n");
    assert_eq!(
        cas(&format!("{open}1 invoke read\n1 ok read 2\n1 invoke read\n1 ok read 1")),
        "not-linearizable"
    );
    assert_eq!(
        cas(&format!(
            "{twice}0 invoke write 5\n0 ok write 5\n1 invoke cas 5>6\n2 invoke cas 5>7\n\
             1 ok cas 5>6\n2 ok cas 5>7"
        )),
        "lost-update"
    );
    let held = "0 invoke acquire\n0 ok acquire\n1 invoke acquire\n1 ok acquire\n";
    assert_eq!(name(ModelKind::Mutex, held), "held-twice");
    let missing = "0 invoke add 1\n0 ok add 1\n1 invoke read\n1 ok read 0>2";
    assert_eq!(name(ModelKind::Set, missing), "stale-read");
    let missing = "0 invoke append 1\n0 ok append 1\n1 invoke read\n1 ok read 2>3";
    assert_eq!(name(ModelKind::List, missing), "stale-read");
}

/// Nothing that succeeded is nothing judged; an unknown function is named.
#[test]
fn what_cannot_be_judged_is_said() {
    let analysis = judge(ModelKind::Register, "");
    assert_eq!(analysis.undecided[0].reason, "vacuous: no operation succeeded");
    let analysis = judge(ModelKind::Register, "0 invoke cas 1>2\n0 ok cas 1>2");
    assert_eq!(analysis.verdict, Verdict::Unknown);
    assert_eq!(
        analysis.undecided[0].reason,
        "op 0: the model register has no operation cas (it has read, write)"
    );
}

/// Each way in which a queue goes wrong has its name and its few calls.
#[test]
fn queues_go_wrong_by_name() {
    let name = |text: &str| {
        let analysis = judge(ModelKind::FifoQueue, text);
        (analysis.anomalies[0].name.clone(), analysis.anomalies[0].witness.clone())
    };
    let two = "0 invoke enqueue 1\n0 ok enqueue 1\n0 invoke enqueue 2\n0 ok enqueue 2\n";
    let got = |v| format!("1 invoke dequeue\n1 ok dequeue {v}\n");
    assert_eq!(name(&got("7")), ("dequeue-of-unknown-value".into(), vec![0]));
    let twice = format!("{two}{}{}", got("1"), got("1"));
    assert_eq!(name(&twice), ("duplicate-dequeue".into(), vec![0, 4, 6]));
    let overtaken = format!("{two}{}", got("2"));
    assert_eq!(name(&overtaken), ("out-of-order".into(), vec![0, 2, 4]));
    let empty = format!("{two}{}{}", got("1"), got("nil"));
    assert_eq!(name(&empty), ("false-empty".into(), vec![2, 6]));
}
