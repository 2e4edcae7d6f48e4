//! A witness as a picture: a row for each process, a bar for each call in the order of time, an arrow
//! for each edge.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use deposed_history::{History, Outcome};

use super::{short, title};
use crate::{Anomaly, Edge, EdgeKind};

/// Sizes in pixels.
const MARGIN: f64 = 16.0;
const NAMES: f64 = 90.0;
const ROW: f64 = 72.0;
const BAR: f64 = 24.0;
const STEP: f64 = 28.0;
const CHARACTER: f64 = 7.2;

/// A longer text is cut.
const TEXT_MAX: usize = 60;

/// One call, or an event that is none.
struct Bar {
    text: String,
    row: usize,
    /// When it began and ended, as positions.
    begin: u32,
    /// `None`: whether and when it happened is open.
    end: Option<u32>,
}

impl Anomaly {
    /// The witness as an SVG picture that needs nothing else. What is known of the order is said
    /// where the pointer rests on an arrow.
    pub fn svg(&self, history: &History) -> String {
        let mut rows = Vec::new();
        let ends = self.edges.iter().flat_map(|edge| [edge.from, edge.to]);
        let positions: BTreeSet<u32> = self.witness.iter().copied().chain(ends).collect();
        let known = positions.into_iter().filter(|position| (*position as usize) < history.len());
        let bars: BTreeMap<u32, Bar> =
            known.map(|position| (position, bar(history, position, &mut rows))).collect();
        let x = columns(&bars);
        let right = x.values().copied().fold(NAMES, f64::max) + STEP;
        let (width, height) = (right + MARGIN, MARGIN * 2.0 + ROW * rows.len() as f64);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"monospace\" font-size=\"12\">\n\
             <title>{}</title>\n\
             <defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" \
             markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"#444\"/></marker></defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
            escaped(&self.name)
        );
        for (row, name) in rows.iter().enumerate() {
            let y = middle(row) + 4.0;
            let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y}\">{}</text>", escaped(name));
        }
        for bar in bars.values() {
            draw_bar(&mut svg, bar, x[&bar.begin], bar.end.map_or(right, |end| x[&end]));
        }
        for edge in &self.edges {
            if let (Some(from), Some(to)) = (bars.get(&edge.from), bars.get(&edge.to)) {
                let span = |bar: &Bar| (x[&bar.begin], bar.end.map_or(right, |end| x[&end]));
                draw_edge(&mut svg, edge, (span(from), from.row), (span(to), to.row));
            }
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// The bar of an event, and a row for its process.
fn bar(history: &History, position: u32, rows: &mut Vec<String>) -> Bar {
    let process = history.op(position).process().to_string();
    let name = if process.parse::<u32>().is_ok() { format!("process {process}") } else { process };
    let row = rows.iter().position(|row| *row == name).unwrap_or_else(|| {
        rows.push(name);
        rows.len() - 1
    });
    let call = history.calls().binary_search_by_key(&position, |call| call.invoke).ok();
    let end = match call.map(|at| history.calls()[at]) {
        Some(call) if call.outcome() == Outcome::Info => None,
        Some(call) => call.complete(),
        None => Some(position),
    };
    let text = title(history, position);
    let text = text.split_once(": ").map_or(text.as_str(), |(_, deed)| deed);
    let mut cut: String = text.chars().take(TEXT_MAX).collect();
    if text.chars().nth(TEXT_MAX).is_some() {
        cut.push('…');
    }
    Bar { text: cut, row, begin: position, end }
}

/// Where each position is drawn: in order, and far enough apart for the texts.
fn columns(bars: &BTreeMap<u32, Bar>) -> BTreeMap<u32, f64> {
    let moments: BTreeSet<u32> =
        bars.values().flat_map(|bar| [Some(bar.begin), bar.end]).flatten().collect();
    let mut x: BTreeMap<u32, f64> = BTreeMap::new();
    let mut at = NAMES;
    for moment in moments {
        at += STEP;
        for bar in bars.values().filter(|bar| bar.end == Some(moment)) {
            let begin = x.get(&bar.begin).copied().unwrap_or(at);
            at = at.max(begin + width(bar));
        }
        // What never ends has room before whatever comes next in its row.
        for bar in bars.values().filter(|bar| bar.end.is_none() && bar.begin < moment) {
            at = at.max(x[&bar.begin] + width(bar));
        }
        x.insert(moment, at);
    }
    x
}

fn width(bar: &Bar) -> f64 {
    bar.text.chars().count() as f64 * CHARACTER + 12.0
}

fn middle(row: usize) -> f64 {
    MARGIN + ROW * row as f64 + ROW / 2.0
}

fn draw_bar(svg: &mut String, bar: &Bar, left: f64, right: f64) {
    let width = (right - left).max(width(bar));
    let (y, base) = (middle(bar.row) - BAR / 2.0, middle(bar.row) + 4.0);
    let dashes = if bar.end.is_none() { " stroke-dasharray=\"5 3\"" } else { "" };
    let text = escaped(&bar.text);
    let _ = writeln!(
        svg,
        "<rect x=\"{left}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"4\" \
         fill=\"#eef3fb\" stroke=\"#35547f\"{dashes}/><text x=\"{}\" y=\"{base}\">{text}</text>",
        left + 6.0
    );
}

/// An arrow between two bars, each given by where it begins and ends, and its row.
fn draw_edge(
    svg: &mut String,
    edge: &Edge,
    ((from_left, from_right), from_row): ((f64, f64), usize),
    ((to_left, to_right), to_row): ((f64, f64), usize),
) {
    // Who had returned before whom was invoked is seen at the ends, the rest at the middles.
    let (x1, x2) = match edge.kind {
        EdgeKind::RealTime | EdgeKind::Process => (from_right, to_left),
        _ => ((from_left + from_right) / 2.0, (to_left + to_right) / 2.0),
    };
    // Forwards above, backwards below, so that the two sides of a contradiction are told apart.
    let side = if edge.from <= edge.to { -1.0 } else { 1.0 };
    let (y1, y2) = (middle(from_row) + side * BAR / 2.0, middle(to_row) + side * BAR / 2.0);
    let (x, y) = ((x1 + x2) / 2.0, (y1 + y2) / 2.0 + side * ROW / 3.0);
    let (label_y, label) = ((y1 + y2) / 4.0 + y / 2.0 + side * 4.0, short(edge.kind));
    let _ = writeln!(
        svg,
        "<g><title>{}</title><path d=\"M{x1:.1} {y1:.1}Q{x:.1} {y:.1} {x2:.1} {y2:.1}\" fill=\"none\" \
         stroke=\"#444\" marker-end=\"url(#head)\"/><text x=\"{x:.1}\" y=\"{label_y:.1}\" \
         text-anchor=\"middle\" fill=\"#444\">{label}</text></g>",
        escaped(&edge.because)
    );
}

/// Text that XML takes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(' '),
            // XML has no way to write these.
            control if control.is_control() => out.push('\u{FFFD}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    /// Every call has a bar and every edge an arrow with its reason; the text is XML.
    #[test]
    fn a_witness_as_a_picture() {
        let (history, anomaly) = sample();
        let svg = anomaly.svg(&history);
        for part in [
            "<title>stale-read</title>",
            ">process 1</text>",
            ">write &quot;a&quot;</text>",
            ">read &quot;b&quot;</text>",
            "<g><title>it &lt; had</title><path d=",
        ] {
            assert_eq!(svg.matches(part).count(), 1, "{part} in {svg}");
        }
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    }

    /// Bars of one row do not overlap, and later positions are never drawn before earlier ones.
    #[test]
    fn bars_are_in_order_of_time() {
        let (history, _) = sample();
        let mut rows = Vec::new();
        let bars = [0, 2].map(|at| (at, bar(&history, at, &mut rows))).into();
        let x = columns(&bars);
        let at: Vec<f64> = x.values().copied().collect();
        assert_eq!(x.keys().copied().collect::<Vec<u32>>(), [0, 1, 2, 3]);
        assert!(at.is_sorted() && at[1] - at[0] >= width(&bars[&0]), "{at:?}");
    }

    /// A call that may or may not have happened is open to the right.
    #[test]
    fn what_is_open_is_dashed() {
        let (history, anomaly) = sample();
        assert!(!anomaly.svg(&history).contains("stroke-dasharray"));
        let ops: Vec<_> = history.ops().take(3).map(deposed_history::OpRef::to_op).collect();
        let open = History::from_ops(history.header().clone(), &ops);
        assert_eq!(anomaly.svg(&open).matches("stroke-dasharray").count(), 1);
    }
}
