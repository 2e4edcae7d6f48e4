//! List-append transactions against small cases with known answers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it stands")]

use deposed_checkers::{Analysis, Budget, Checker, Consistency, ListAppend, Verdict};
use deposed_history::read_str;

/// Judges events written as `process type [micro-operations in EDN]`, one a line.
fn judge(level: &str, events: &str) -> Analysis {
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
    let loaded = read_str(&edn).unwrap();
    let checker = ListAppend { consistency: Consistency::parse(level).unwrap() };
    checker.check(&loaded.history, &Budget::unlimited())
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
