//! What a run says of a cell of the protection table.

use deposed_checkers::{Analysis, Verdict};
use deposed_report::{Distribution, Outcome, Results};
use deposed_workloads::Protection;

/// What one run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether the protection held.
    pub outcome: Outcome,
    /// What broke, or why nothing was tested.
    pub told: String,
    /// How long the danger lasted.
    pub window: String,
}

impl Finding {
    /// Nothing was put to the test.
    pub fn untested(why: impl Into<String>) -> Self {
        Self { outcome: Outcome::Untested, told: why.into(), window: String::new() }
    }
}

/// Judges a run of a cell by its results.
pub fn find(cell: &Protection, results: &Results) -> Finding {
    let unproven = results.faults.iter().find(|(_, seen)| seen.proven == 0);
    if let Some((fault, _)) = unproven {
        return Finding::untested(format!("no {fault} was proven"));
    }
    let fencing = results.checks.iter().find(|check| check.analysis.checker == "fencing");
    let Some(check) = fencing else { return Finding::untested("nothing judged it") };
    judge(cell, results.verdict, &results.reason, &check.analysis)
}

fn judge(cell: &Protection, verdict: Verdict, reason: &str, analysis: &Analysis) -> Finding {
    let details = &analysis.details;
    let count = |kind: &str, name: &str| details[kind][name]["count"].as_u64().unwrap_or(0);
    let found = |name: &str| count("violations", name) + count("exposures", name);
    let sizes = |name: &str| {
        let of_kind = |kind: &str| details[kind][name].get("sizes");
        let sizes =
            of_kind("violations").or(of_kind("exposures")).or(details["measures"].get(name));
        sizes.and_then(Distribution::read)
    };
    let window = cell.window.as_deref().and_then(sizes);
    let longest_s = window.as_ref().map_or(0.0, |window| window.max_ns as f64 / 1e9);
    let window = window.map_or_else(String::new, |window| window.in_words());
    let violations = details["violations"].as_object();
    let otherwise: Vec<&String> = violations
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
        .filter(|name| !cell.watch.contains(name) && !cell.besides.contains(name))
        .collect();
    let broken: Vec<String> = cell
        .watch
        .iter()
        .filter(|name| found(name) > 0)
        .map(|name| format!("{} {name}", found(name)))
        .collect();
    let alone = cell.takeover && details["counts"]["epochs_served"].as_u64() < Some(2);
    let (outcome, told) = if let [name, ..] = otherwise[..] {
        (Outcome::Otherwise, format!("{} {name}", found(name)))
    } else if let Some(most) = cell.window_under_s.filter(|most| longest_s > *most as f64) {
        (Outcome::Otherwise, format!("for longer than {most} s"))
    } else if let Some(least) = cell.window_over_s.filter(|least| longest_s < *least as f64) {
        (Outcome::Untested, format!("for less than {least} s"))
    } else if !broken.is_empty() {
        (Outcome::Broke, broken.join(", "))
    } else if verdict == Verdict::Invalid || analysis.verdict == Verdict::Invalid {
        (Outcome::Otherwise, reason.to_owned())
    } else if analysis.verdict == Verdict::Unknown {
        (Outcome::Untested, analysis.undecided.first().map_or("not decided", |u| &u.reason).into())
    } else if alone {
        (Outcome::Untested, "nobody took over".into())
    } else {
        (Outcome::Held, String::new())
    };
    Finding { outcome, told, window }
}

#[cfg(test)]
mod tests {
    use deposed_workloads::protections;
    use serde_json::json;

    use super::*;

    fn finding(verdict: Verdict, details: serde_json::Value) -> Finding {
        finding_of("volume-token-pause", verdict, details)
    }

    fn finding_of(name: &str, verdict: Verdict, details: serde_json::Value) -> Finding {
        let cells = protections();
        let cell = cells.iter().find(|cell| cell.name == name).unwrap();
        let analysis = Analysis::from_findings("fencing", "", Vec::new(), Vec::new());
        judge(cell, verdict, "why", &Analysis { verdict, details, ..analysis })
    }

    /// What is watched for breaks a cell, claimed or not; what nobody spoke of is no expected end;
    /// where nobody took over nothing held.
    #[test]
    fn runs_are_judged() {
        let two = json!({ "epochs_served": 2 });
        let held = finding(Verdict::Valid, json!({ "counts": two }));
        assert_eq!((held.outcome, &*held.told), (Outcome::Held, ""));
        let alone = finding(Verdict::Valid, json!({ "counts": { "epochs_served": 1 } }));
        assert_eq!(alone.outcome, Outcome::Untested);
        let watched = json!({ "stale-token-accepted": { "count": 3 } });
        for kind in ["violations", "exposures"] {
            let broke = finding(Verdict::Invalid, json!({ "counts": two, kind: watched }));
            assert_eq!((broke.outcome, &*broke.told), (Outcome::Broke, "3 stale-token-accepted"));
        }
        let other = json!({ "duplicate-token": { "count": 1 } });
        let otherwise = finding(Verdict::Invalid, json!({ "counts": two, "violations": other }));
        assert_eq!(otherwise.outcome, Outcome::Otherwise);
        let crash = finding(Verdict::Invalid, json!({ "counts": two }));
        assert_eq!((crash.outcome, &*crash.told), (Outcome::Otherwise, "why"));
    }

    /// A window that has to be short must not be long, and the other way round.
    #[test]
    fn windows_are_bounded() {
        let lost = |seconds: i64| {
            let ns = seconds * 1_000_000_000;
            let sizes = json!({ "count": 1, "min_ns": ns, "p50_ns": ns, "p99_ns": ns, "max_ns": ns,
                "curve_ns": [ns] });
            json!({ "counts": { "epochs_served": 2 },
                "measures": { "lost_acknowledgements_window": sizes },
                "violations": { "lost-acked-write": { "count": 9 } } })
        };
        for (cell, short, long) in [
            ("redis-partition", Outcome::Untested, Outcome::Broke),
            ("redis-partition-min-replicas", Outcome::Broke, Outcome::Otherwise),
        ] {
            assert_eq!(finding_of(cell, Verdict::Invalid, lost(1)).outcome, short, "{cell}");
            assert_eq!(finding_of(cell, Verdict::Invalid, lost(9)).outcome, long, "{cell}");
        }
    }
}
