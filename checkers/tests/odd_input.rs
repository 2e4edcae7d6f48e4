//! Histories as nobody means them to be, for every model there is: nothing panics, a history in which
//! nothing succeeded is told as such, and a violation is one however little else there is.

use deposed_checkers::{Analysis, Budget, MODELS, ModelOptions, Verdict, checker};
use deposed_history::{History, read_str};

/// Of each model, a call that makes sense, and what is wrong whatever was before.
struct Case {
    model: &'static str,
    call: (&'static str, &'static str),
    violation: &'static [(&'static str, &'static str)],
}

const fn case(
    model: &'static str,
    call: (&'static str, &'static str),
    violation: &'static [(&'static str, &'static str)],
) -> Case {
    Case { model, call, violation }
}

const CASES: &[Case] = &[
    case("register", ("write", "1"), &[("read", "7")]),
    case("cas-register", ("cas", "[1 2]"), &[("read", "7")]),
    case("kv", ("put", r#"["x" "a"]"#), &[("get", r#"["x" "b"]"#)]),
    case("multi-register", ("txn", "[[:w :x 1]]"), &[("txn", "[[:r :x 7]]")]),
    case("mutex", ("acquire", "nil"), &[("release", "nil"), ("release", "nil")]),
    case("lock", ("acquire", "nil"), &[("release", "nil"), ("release", "nil")]),
    case("reentrant-lock", ("acquire", "nil"), &[("release", "nil"), ("release", "nil")]),
    case("semaphore", ("acquire", "nil"), &[("acquire", "nil"), ("acquire", "nil")]),
    case("fifo-queue", ("enqueue", "1"), &[("dequeue", "7")]),
    case("set", ("add", "1"), &[("read", "[7]")]),
    case("list", ("append", "1"), &[("read", "[7]")]),
    case("counter", ("add", "1"), &[("read", "7")]),
    case("staleness", ("write", "1"), &[]),
    case("set-full", ("add", "1"), &[("read", "[7]")]),
    case("total-queue", ("enqueue", "1"), &[("dequeue", "7")]),
    case("counter-bounds", ("add", "1"), &[("read", "7")]),
    case("unique-ids", ("generate", "1"), &[("generate", "7"), ("generate", "7")]),
    case("lease-expiry", ("read", "nil"), &[]),
    case("list-append", ("txn", "[[:append :x 1]]"), &[("txn", "[[:r :x [7]]]")]),
    case("fenced-lock", ("acquire", r#"["lock" nil]"#), &[]),
    case("rw-register", ("txn", "[[:w :x 1]]"), &[("txn", "[[:r :x 7]]")]),
    case("bank", ("read", "{0 10}"), &[("read", "{0 -1}")]),
    case(
        "long-fork",
        ("txn", "[[:r 0 nil] [:r 1 nil]]"),
        &[("txn", "[[:r 0 1] [:r 1 nil]]"), ("txn", "[[:r 0 nil] [:r 1 1]]")],
    ),
];

const FUNCTIONS: &[&str] = &[
    "read",
    "write",
    "cas",
    "get",
    "put",
    "append",
    "txn",
    "acquire",
    "release",
    "renew",
    "enqueue",
    "dequeue",
    "drain",
    "add",
    "generate",
    "grant",
    "transfer",
    "frobnicate",
    "\"\"",
];

const VALUES: &[&str] = &[
    "nil",
    "true",
    "0",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "1.5e300",
    "\"\"",
    "\"x\"",
    ":x",
    "[]",
    "[nil]",
    "[[]]",
    "[nil nil]",
    "[1 nil]",
    "[nil 1]",
    "[1 1]",
    "[1 2 3]",
    "[9223372036854775807 9223372036854775807]",
    "[[1 2] [1 2]]",
    "[\"x\" [nil nil]]",
    "[[nil nil nil]]",
    "[[:r]]",
    "[[:r nil nil]]",
    "[[:r nil [nil]]]",
    "[[:r :x [1 1]]]",
    "[[:r :x {}]]",
    "[[:w]]",
    "[[:w nil nil]]",
    "[[:w :x nil]]",
    "[[:append nil nil]]",
    "[[:append :x [1]] [:r :x nil]]",
    "[[:r :x nil] [:r :x 1]]",
    "[[[[[[1]]]]]]",
    "#{}",
    "#{1}",
    "{}",
    "{nil nil}",
    "{0 9223372036854775807, 1 9223372036854775807}",
    "{:from 0, :to 1, :amount -9223372036854775808}",
    "{:token -1, :key nil, :lease \"x\"}",
];

/// A history of calls of one process after the other; `None` leaves a call open.
fn history(calls: &[(&str, &str, Option<&str>)]) -> History {
    let mut text = String::new();
    for (process, (f, value, end)) in calls.iter().enumerate() {
        let f = if f.starts_with('"') { (*f).to_owned() } else { format!(":{f}") };
        for kind in std::iter::once("invoke").chain(*end) {
            text += &format!("{{:process {process}, :type :{kind}, :f {f}, :value {value}}}\n");
        }
    }
    read_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")).history
}

fn judge(model: &str, history: &History) -> Analysis {
    let checker = checker(model, &ModelOptions::default()).expect("a model").expect("no options");
    checker.check(history, &Budget::unlimited())
}

fn is_vacuous(analysis: &Analysis) -> bool {
    analysis.verdict == Verdict::Unknown
        && analysis.undecided.iter().all(|open| open.reason.starts_with("vacuous: "))
}

/// What every analysis keeps to.
fn is_sound(analysis: &Analysis) -> bool {
    (analysis.verdict == Verdict::Invalid) == (analysis.anomaly_count > 0)
        && (analysis.verdict != Verdict::Unknown || !analysis.undecided.is_empty())
}

#[test]
fn every_model_has_its_case() {
    let names = |names: &mut dyn Iterator<Item = &'static str>| names.collect::<Vec<_>>();
    let (cases, models) = (names(&mut CASES.iter().map(|case| case.model)), MODELS.iter());
    assert_eq!(cases, names(&mut models.map(|model| model.name)));
}

#[test]
fn a_history_in_which_nothing_succeeded_is_vacuous() {
    let nemesis = |kind| format!("{{:process :nemesis, :type :{kind}, :f :kill, :value nil}}\n");
    let faults = read_str(&[nemesis("info"), nemesis("info")].concat()).unwrap().history;
    for Case { model, call: (f, value), .. } in CASES {
        let one = |end| history(&[(*f, *value, end)]);
        for history in [&History::default(), &faults, &one(None), &one(Some("info"))] {
            let analysis = judge(model, history);
            assert!(is_vacuous(&analysis), "{model}: {analysis:#?}");
        }
        // That nothing happened is an answer where any answer is judged.
        let analysis = judge(model, &one(Some("fail")));
        let is_answer = matches!(analysis.checker.as_str(), "linearizable" | "staleness");
        assert!(is_vacuous(&analysis) != is_answer, "{model}: {analysis:#?}");
    }
}

#[test]
fn a_violation_is_one_however_little_else_there_is() {
    for Case { model, violation, .. } in CASES.iter().filter(|case| !case.violation.is_empty()) {
        let calls = violation.iter().map(|(f, value)| (*f, *value, Some("ok")));
        let analysis = judge(model, &history(&calls.collect::<Vec<_>>()));
        assert_eq!(analysis.verdict, Verdict::Invalid, "{model}: {analysis:#?}");
        assert!(analysis.undecided.is_empty(), "{model}: {analysis:#?}");
    }
}

#[test]
fn no_call_whatever_makes_a_checker_panic() {
    for f in FUNCTIONS {
        for value in VALUES {
            for end in [None, Some("ok"), Some("fail"), Some("info")] {
                let odd = (*f, *value, end);
                let alone = history(&[odd]);
                let twice = history(&[odd, odd]);
                for Case { model, call, .. } in CASES {
                    let call = (call.0, call.1, Some("ok"));
                    let among = history(&[call, odd, call]);
                    for history in [&alone, &twice, &among] {
                        let analysis = judge(model, history);
                        assert!(is_sound(&analysis), "{model} {odd:?}: {analysis:#?}");
                    }
                    // What a drain that crashed tells came out of the queue.
                    let tells = (*model, *f) == ("total-queue", "drain");
                    if matches!(end, None | Some("info")) && !tells {
                        let analysis = judge(model, &alone);
                        assert_eq!(analysis.verdict, Verdict::Unknown, "{model} {odd:?}");
                    }
                }
            }
        }
    }
}
