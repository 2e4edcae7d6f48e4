//! `report.html` is whole, small, and asks nobody for anything.

mod samples;

use std::collections::BTreeSet;

use deposed_checkers::{Budget, Checker, Linearizable, ModelKind};
use deposed_report::{Report, window_of_interest};

/// What the page may weigh, whatever the run.
const BYTES_MAX: usize = 3_000_000;
/// Elements that have no end.
const VOID: [&str; 4] = ["meta", "link", "br", "hr"];

/// A start or end tag with its attributes, as our own pages write them.
struct Tag<'p> {
    name: &'p str,
    ends: bool,
    attributes: Vec<(&'p str, &'p str)>,
}

/// The tags of a page. Our pages quote every attribute and escape `<` and `"` in text.
fn tags(page: &str) -> Vec<Tag<'_>> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        let mut end = start;
        let mut quoted = false;
        for (i, c) in rest[start..].char_indices() {
            quoted ^= c == '"';
            if c == '>' && !quoted {
                end = start + i;
                break;
            }
        }
        assert!(end > start, "a tag without an end: {:.80}", &rest[start..]);
        let inside = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if inside.starts_with('!') {
            continue;
        }
        let ends = inside.starts_with('/');
        let inside = inside.trim_start_matches('/');
        let (name, mut attributes_text) = inside.split_once(' ').unwrap_or((inside, ""));
        let mut attributes = Vec::new();
        while let Some((key, after)) = attributes_text.split_once("=\"") {
            let (value, after) = after.split_once('"').expect("a quote is closed");
            attributes.push((key.trim(), value));
            attributes_text = after;
        }
        assert!(attributes_text.trim().is_empty(), "a bare attribute in {inside:?}");
        tags.push(Tag { name, ends, attributes });
        if name == "style" && !ends {
            rest = &rest[rest.find("</style>").expect("style ends")..];
        }
    }
    tags
}

/// Every element is closed in order, every id is there once, every link within the page arrives.
#[test]
fn pages_are_well_formed() {
    for sample in samples::all() {
        let page = sample.report().html();
        assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">"), "{}", sample.name);
        let mut open: Vec<&str> = Vec::new();
        let mut ids: BTreeSet<&str> = BTreeSet::new();
        let mut goals: BTreeSet<&str> = BTreeSet::new();
        for tag in tags(&page) {
            for (key, value) in &tag.attributes {
                if *key == "id" {
                    assert!(ids.insert(value), "{}: id {value} twice", sample.name);
                }
                if let ("href", Some(goal)) = (*key, value.strip_prefix('#')) {
                    goals.insert(goal);
                }
            }
            if tag.ends {
                assert_eq!(open.pop(), Some(tag.name), "{}", sample.name);
            } else if !VOID.contains(&tag.name) {
                open.push(tag.name);
            }
        }
        assert!(open.is_empty(), "{}: {open:?} not closed", sample.name);
        let lost: Vec<_> = goals.difference(&ids).collect();
        assert!(lost.is_empty(), "{}: links to nowhere {lost:?}", sample.name);
    }
}

/// Nothing is loaded, nothing runs: no address, no script, no handler, no import.
#[test]
fn pages_need_nothing_else() {
    for sample in samples::all() {
        let page = sample.report().html();
        for tag in tags(&page) {
            assert!(
                !["script", "iframe", "img", "object", "embed", "base", "form"].contains(&tag.name),
                "{}: <{}>",
                sample.name,
                tag.name
            );
            for (key, value) in tag.attributes {
                assert!(!key.starts_with("on") && key != "src", "{}: {key}", sample.name);
                if key == "href" {
                    assert!(
                        value.starts_with('#') || value == "data:,",
                        "{}: {value}",
                        sample.name
                    );
                }
            }
        }
        let style = &page[page.find("<style>").unwrap()..page.find("</style>").unwrap()];
        assert!(!style.contains("@import") && !style.contains("url("), "{}", sample.name);
    }
}

/// Every picture has a title and every table a head or row labels, for those who cannot see them.
#[test]
fn pictures_have_titles() {
    for sample in samples::all() {
        let page = sample.report().html();
        let titled = page.matches("role=\"img\"><title>").count();
        assert_eq!(page.matches("<svg").count(), titled, "{}", sample.name);
    }
}

/// A value, a log or a name that looks like markup is shown, not obeyed.
#[test]
fn hostile_text_is_shown() {
    let sample = samples::hostile();
    let page = sample.report().html();
    assert!(!page.contains("<script"));
    assert!(page.contains("&lt;script&gt;alert('x')&lt;/script&gt;"));
    let bad = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!page.contains(bad));
}

/// However much happened, the page stays small: lists are cut and say so, points are thinned.
#[test]
fn size_is_bounded() {
    let sample = samples::enormous();
    let page = sample.report().html();
    assert!(page.len() < BYTES_MAX, "{} bytes", page.len());
    assert!(page.contains("not listed"));
    let markdown = sample.report().markdown();
    assert!(markdown.len() < 200_000, "{} bytes", markdown.len());
}

/// What the real checker proves is drawn: the calls by name, the late one accused, and the arrow
/// that cannot be.
#[test]
fn a_real_proof_is_drawn() {
    let mut sample = samples::stale_read();
    let checker = Linearizable::new(ModelKind::CasRegister).keyed(true);
    sample.checks[1].analysis = checker.check(&sample.history, &Budget::unlimited());
    let page = sample.report().html();
    for wanted in [">T3</text>", "class=\"call ok accused\"", "must come before", "cannot be"] {
        assert!(page.contains(wanted), "no {wanted}");
    }
}

/// A valid run on which little happened does not look like one on which much did.
#[test]
fn a_quiet_run_looks_weak() {
    let (quiet, valid) = (samples::quiet(), samples::valid());
    let (quiet, valid): (Report<'_>, Report<'_>) = (quiet.report(), valid.report());
    assert_eq!(quiet.verdict(), valid.verdict());
    assert!(quiet.headline().ends_with("The evidence is weak."), "{}", quiet.headline());
    assert!(!valid.headline().contains("weak"), "{}", valid.headline());
    assert!(quiet.html().contains("✓ Valid, on weak evidence"));
}

/// The logs that are worth excerpting are those around the violation that is told first.
#[test]
fn the_window_of_interest_is_around_the_first_violation() {
    let mut sample = samples::stale_read();
    let told = sample.report().headline().to_owned();
    let (first, last) = window_of_interest(&sample.history, &sample.checks).expect("a violation");
    sample.checks[1].analysis.anomalies.reverse();
    assert_eq!(sample.report().headline(), told, "the order of the checker is not what counts");
    assert_eq!(window_of_interest(&sample.history, &sample.checks), Some((first, last)));
    assert!(last - first > 5_000_000_000, "the read came 5.01 s after the write");
}
