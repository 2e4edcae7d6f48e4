//! Transactional checkers against small cases with known answers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it stands")]

use deposed_checkers::{
    Analysis, Bank, Budget, Checker, Consistency, ListAppend, LongFork, RwRegister, Verdict,
};
use deposed_history::{History, read_str};

/// Events written as `process type [micro-operations in EDN]`, one a line.
fn history(events: &str) -> History {
    let edn: String = events
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| {
            let mut parts = line.splitn(3, ' ');
            let (process, kind) = (parts.next().unwrap(), parts.next().unwrap());
            let value = parts.next().unwrap();
            format!("{{:process {process}, :type :{kind}, :f :txn, :value {value}}}\n")
        })
        .collect();
    read_str(&edn).unwrap().history
}

/// Judges lists.
fn judge(level: &str, events: &str) -> Analysis {
    let consistency = Consistency::parse(level).unwrap();
    ListAppend { consistency }.check(&history(events), &Budget::unlimited())
}

fn types(analysis: &Analysis) -> Vec<&str> {
    analysis.details["anomaly-types"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t.as_str().unwrap())
        .collect()
}

/// Judges at a level and compares the types of all anomalies found, and the verdict with them.
fn expect(level: &str, events: &str, expected: &[&str]) -> Analysis {
    let analysis = judge(level, events);
    assert_eq!(types(&analysis), expected, "{:#?}", analysis);
    let level = Consistency::parse(level).unwrap();
    let invalid = expected.iter().any(|name| level.is_ruled_out_by(name));
    assert_eq!(analysis.verdict == Verdict::Invalid, invalid, "{:#?}", analysis);
    assert!(analysis.anomalies.iter().all(|a| level.is_ruled_out_by(&a.name)));
    analysis
}

#[test]
fn write_skew_rules_out_serializability_but_not_snapshot_isolation() {
    let events = "
        0 invoke [[:r :x nil] [:append :y 1]]
        1 invoke [[:r :y nil] [:append :x 1]]
        0 ok [[:r :x []] [:append :y 1]]
        1 ok [[:r :y nil] [:append :x 1]]";
    let analysis = expect("serializable", events, &["G2-item"]);
    assert_eq!(analysis.anomalies[0].witness, [0, 1]);
    assert_eq!(analysis.anomalies[0].edges.len(), 2);
    let last = analysis.anomalies[0].sentences.last().unwrap();
    assert!(last.starts_with("However T2 < T1, because T2 read :y without the 1"), "{last}");
    let analysis = expect("snapshot-isolation", events, &["G2-item"]);
    assert_eq!(analysis.verdict, Verdict::Valid);
}

#[test]
fn a_stale_read_rules_out_strict_serializability_only() {
    let events = "
        0 invoke [[:append :x 1]]
        0 ok [[:append :x 1]]
        1 invoke [[:r :x nil]]
        1 ok [[:r :x nil]]";
    expect("strict-serializable", events, &["G-single-item-realtime"]);
    expect("strong-session-serializable", events, &[]);
    expect("serializable", events, &[]);
}

#[test]
fn reading_what_failed_is_g1a() {
    let events = "
        0 invoke [[:append :x 1]]
        0 fail [[:append :x 1]]
        1 invoke [[:r :x nil] [:append :x 2]]
        1 ok [[:r :x [1]] [:append :x 2]]
        1 invoke [[:r :x nil]]
        1 ok [[:r :x [1 2]]]";
    expect("read-committed", events, &["G1a", "dirty-update"]);
    expect("read-uncommitted", events, &["G1a", "dirty-update"]);
}

#[test]
fn an_indeterminate_append_counts_once_it_was_seen() {
    // Its own reads are unknown; its other append must have happened with the one that was seen.
    let events = "
        0 invoke [[:append :x 1] [:append :y 1]]
        0 info [[:append :x 1] [:append :y 1]]
        1 invoke [[:r :x nil] [:r :y nil]]
        1 ok [[:r :x [1]] [:r :y nil]]";
    let analysis = expect("serializable", events, &["G-single-item"]);
    assert!(analysis.anomalies[0].sentences.iter().any(|s| s.contains("must have happened")));
    let unseen = "
        0 invoke [[:append :x 1] [:append :y 1]]
        0 info [[:append :x 1] [:append :y 1]]
        1 invoke [[:r :x nil] [:r :y nil]]
        1 ok [[:r :x nil] [:r :y nil]]";
    expect("strict-serializable", unseen, &[]);
}

#[test]
fn intermediate_internal_future_duplicate_and_garbage_reads() {
    expect(
        "read-committed",
        "
        0 invoke [[:append :x 1] [:append :x 2]]
        1 invoke [[:r :x nil]]
        1 ok [[:r :x [1]]]
        0 ok [[:append :x 1] [:append :x 2]]",
        &["G-single-item", "G1b"],
    );
    expect(
        "read-atomic",
        "
        0 invoke [[:append :x 1] [:r :x nil]]
        0 ok [[:append :x 1] [:r :x []]]",
        &["internal"],
    );
    expect(
        "read-committed",
        "
        0 invoke [[:r :x nil] [:append :x 1]]
        0 ok [[:r :x [1]] [:append :x 1]]",
        &["future-read"],
    );
    expect(
        "read-uncommitted",
        "
        0 invoke [[:append :x 1]]
        0 ok [[:append :x 1]]
        0 invoke [[:r :x nil]]
        0 ok [[:r :x [1 1]]]",
        &["duplicate-elements"],
    );
    expect(
        "read-uncommitted",
        "
        0 invoke [[:r :x nil]]
        0 ok [[:r :x [7]]]",
        &["garbage-read"],
    );
}

#[test]
fn lists_that_cannot_have_grown_into_each_other() {
    expect(
        "read-committed",
        "
        0 invoke [[:append :x 1]]
        1 invoke [[:append :x 2]]
        0 ok [[:append :x 1]]
        1 ok [[:append :x 2]]
        0 invoke [[:r :x nil]]
        1 invoke [[:r :x nil]]
        0 ok [[:r :x [1 2]]]
        1 ok [[:r :x [2 1]]]",
        &["incompatible-order"],
    );
}

#[test]
fn one_transaction_appends_in_its_own_order() {
    expect(
        "read-uncommitted",
        "
        0 invoke [[:append :x 1] [:append :x 2]]
        0 ok [[:append :x 1] [:append :x 2]]
        1 invoke [[:r :x nil]]
        1 ok [[:r :x [2 1]]]",
        &["G1b", "cyclic-versions"],
    );
}

#[test]
fn two_updates_of_one_version_lose_one() {
    let events = "
        0 invoke [[:r :x nil] [:append :x 1]]
        1 invoke [[:r :x nil] [:append :x 2]]
        0 ok [[:r :x nil] [:append :x 1]]
        1 ok [[:r :x nil] [:append :x 2]]";
    let analysis = expect("cursor-stability", events, &["G2-item", "lost-update"]);
    assert_eq!(analysis.anomalies.len(), 1);
    let not: Vec<&str> =
        analysis.details["not"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
    assert_eq!(not, ["cursor-stability", "update-atomic"]);
}

#[test]
fn a_value_written_twice_leaves_its_reads_open() {
    let events = "
        0 invoke [[:append :x 1]]
        0 ok [[:append :x 1]]
        1 invoke [[:append :x 1]]
        1 ok [[:append :x 1]]";
    let analysis = judge("serializable", events);
    assert_eq!(analysis.verdict, Verdict::Unknown);
    assert!(analysis.undecided[0].reason.contains("write each value once"), "{analysis:?}");
}

#[test]
fn no_transaction_at_all_proves_nothing() {
    let analysis = judge("serializable", "");
    assert_eq!(analysis.verdict, Verdict::Unknown);
    assert!(analysis.undecided[0].reason.starts_with("vacuous"));
}

mod registers {
    use super::*;

    /// As [`super::judge`], of registers.
    fn judge(level: &str, events: &str) -> Analysis {
        let consistency = Consistency::parse(level).unwrap();
        RwRegister { consistency }.check(&history(events), &Budget::unlimited())
    }

    #[test]
    fn a_value_that_nobody_wrote() {
        let analysis = judge(
            "read-uncommitted",
            "
            0 invoke [[:r :x nil]]
            0 ok [[:r :x 3]]",
        );
        assert_eq!(types(&analysis), ["garbage-read"]);
        assert_eq!(analysis.verdict, Verdict::Invalid);
    }

    /// What the model does not know may have written it, and another model may know it.
    #[test]
    fn a_value_that_some_other_operation_may_have_written() {
        let analysis = judge(
            "strict-serializable",
            "0 invoke [[:append :x 1]]
            0 ok [[:append :x 1]]
            1 invoke [[:r :x nil]]
            1 ok [[:r :x [1]]]",
        );
        assert_eq!(analysis.verdict, Verdict::Unknown, "{analysis:#?}");
        let reason = &analysis.undecided[0].reason;
        assert!(reason.contains("the model list-append knows it"), "{reason}");
        assert!(analysis.undecided[1].reason.contains("no transaction wrote"), "{analysis:#?}");
    }

    #[test]
    fn information_that_flows_in_a_circle() {
        let analysis = judge(
            "read-committed",
            "
            0 invoke [[:w :x 1] [:r :y nil]]
            1 invoke [[:w :y 1] [:r :x nil]]
            0 ok [[:w :x 1] [:r :y 1]]
            1 ok [[:w :y 1] [:r :x 1]]",
        );
        assert_eq!(types(&analysis), ["G1c"]);
        assert_eq!(analysis.anomalies[0].witness, [0, 1]);
    }

    /// The order of the writes is not known, but two readers each need another one.
    #[test]
    fn readers_that_need_different_orders_of_writes() {
        let events = "
            0 invoke [[:w :x 1]]
            0 ok [[:w :x 1]]
            1 invoke [[:w :x 2]]
            1 ok [[:w :x 2]]
            2 invoke [[:r :x nil]]
            2 ok [[:r :x 1]]";
        let analysis = judge("strict-serializable", events);
        assert_eq!(types(&analysis), ["PL-SS-cycle-exists"]);
        let anomaly = &analysis.anomalies[0];
        assert_eq!(anomaly.witness, [0, 2, 4]);
        assert!(anomaly.sentences.iter().any(|s| s.contains("T1 < T3, because T3 read 1 of :x")));
        assert!(anomaly.sentences.last().unwrap().contains("all were tried"));
        assert_eq!(judge("serializable", events).verdict, Verdict::Valid);
    }

    #[test]
    fn versions_are_not_cyclic_where_they_are_not() {
        // Linearizable key by key, with failed transactions in between.
        let analysis = judge(
            "strict-serializable",
            "
            0 invoke [[:w :x 1] [:w :x 2]]
            0 ok [[:w :x 1] [:w :x 2]]
            1 invoke [[:r :x nil] [:w :x 3]]
            2 invoke [[:w :x 4]]
            2 fail [[:w :x 4]]
            1 ok [[:r :x 2] [:w :x 3]]
            0 invoke [[:r :x nil]]
            0 ok [[:r :x 3]]",
        );
        assert_eq!(analysis.verdict, Verdict::Valid, "{analysis:#?}");
    }
}

#[test]
fn a_bank_keeps_its_total() {
    let reads = |second: &str| {
        let edn = format!(
            "{{:process 0, :type :invoke, :f :read, :value nil}}
             {{:process 0, :type :ok, :f :read, :value {{0 90, 1 10}}}}
             {{:process 0, :type :invoke, :f :read, :value nil}}
             {{:process 0, :type :ok, :f :read, :value {second}}}"
        );
        let history = read_str(&edn).unwrap().history;
        let analysis = Bank::default().check(&history, &Budget::unlimited());
        analysis.anomalies.first().map(|anomaly| (anomaly.name.clone(), anomaly.witness.clone()))
    };
    assert_eq!(reads("{0 10, 1 90}"), None);
    assert_eq!(reads("{0 10, 1 80}"), Some(("wrong-total".into(), vec![0, 2])));
    assert_eq!(reads("{0 -10, 1 110}"), Some(("negative-value".into(), vec![2])));
    assert_eq!(reads("{0 nil, 1 100}"), Some(("nil-balance".into(), vec![2])));
    assert_eq!(reads("{0 10, 2 90}"), Some(("unexpected-key".into(), vec![0, 2])));
    assert_eq!(reads("7"), Some(("not-balances".into(), vec![2])));
}

#[test]
fn two_reads_fork_if_each_saw_what_the_other_missed() {
    let judge = |last: &str| {
        let events = format!(
            "0 invoke [[:w 0 1]]
             1 invoke [[:w 1 1]]
             2 invoke [[:r 0 nil] [:r 1 nil]]
             3 invoke [[:r 1 nil] [:r 0 nil]]
             0 ok [[:w 0 1]]
             1 ok [[:w 1 1]]
             2 ok [[:r 0 1] [:r 1 nil]]
             3 ok {last}"
        );
        LongFork.check(&history(&events), &Budget::unlimited())
    };
    let forked = judge("[[:r 1 1] [:r 0 nil]]");
    assert_eq!(forked.verdict, Verdict::Invalid);
    assert_eq!(forked.anomalies[0].witness, [0, 1, 2, 3]);
    assert_eq!(judge("[[:r 1 1] [:r 0 1]]").verdict, Verdict::Valid);
    assert_eq!(judge("[[:r 1 nil] [:r 0 nil]]").verdict, Verdict::Valid);
}
