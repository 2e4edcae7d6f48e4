//! The text formats of made-up runs, compared whole.

mod samples;

use deposed_report::{Results, check_line};

/// `results.json`, `junit.xml`, `report.md` and the closing lines of every sample are as reviewed.
#[test]
fn formats_are_as_reviewed() {
    for sample in samples::all() {
        let report = sample.report();
        let name = sample.name;
        let lines: Vec<String> = sample
            .checks
            .iter()
            .map(check_line)
            .chain(report.closing("results/etcd/7f3a/report.html", &sample.plan.id))
            .map(|line| line.to_string())
            .collect();
        insta::assert_snapshot!(format!("{name}.closing.txt"), lines.join("\n"));
        insta::assert_snapshot!(format!("{name}.report.md"), report.markdown());
        insta::assert_snapshot!(format!("{name}.junit.xml"), report.junit("report.html"));
        insta::assert_snapshot!(format!("{name}.results.json"), report.results_json());
    }
}

/// `results.json` is read back as what was written, so that a report can be told again from it.
#[test]
fn results_are_read_back() {
    for sample in samples::all() {
        let report = sample.report();
        let results: Results = serde_json::from_str(&report.results_json()).expect("our own JSON");
        assert_eq!(results, report.results(), "{}", sample.name);
    }
}

/// A plan survives being written and read.
#[test]
fn plans_are_read_back() {
    for sample in samples::all() {
        let text = serde_json::to_string(&sample.plan).expect("a plan is JSON");
        let plan: deposed_report::Plan = serde_json::from_str(&text).expect("our own JSON");
        assert_eq!(plan, sample.plan, "{}", sample.name);
    }
}

/// The same run gives the same bytes, in every format.
#[test]
fn bytes_are_the_same_every_time() {
    for (once, again) in samples::all().iter().zip(samples::all().iter()) {
        let (once, again) = (once.report(), again.report());
        assert_eq!(once.html(), again.html());
        assert_eq!(once.markdown(), again.markdown());
        assert_eq!(once.results_json(), again.results_json());
        assert_eq!(once.junit("r"), again.junit("r"));
    }
}

/// Nothing of the other sides's making can steer a terminal or a reader of Markdown.
#[test]
fn hostile_text_is_harmless() {
    let sample = samples::hostile();
    let report = sample.report();
    let lines: Vec<String> =
        report.closing("r", &sample.plan.id).iter().map(ToString::to_string).collect();
    for text in [lines.join("\n"), report.markdown(), check_line(&sample.checks[0]).to_string()] {
        let bad = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!text.contains(bad), "{text:?}");
    }
    let outside_code: String =
        report.markdown().lines().filter(|line| !line.contains('`')).collect();
    assert!(!outside_code.contains("<script"), "{outside_code}");
}
