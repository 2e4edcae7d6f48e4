//! How long calls took: a mark for each (as far as marks can be told apart), and quantiles.

use std::collections::BTreeMap;

use deposed_history::{Episode, History, Outcome};
use hdrhistogram::Histogram;
use maud::{Markup, html};

use super::buckets::Buckets;
use super::frame::Frame;
use super::scale::{Linear, px};
use crate::call_text::outcome_word;
use crate::phrase;

const HEIGHT: f64 = 220.0;
/// Marks of one outcome, at most: bounds the size of the picture.
const MARKS_MAX: usize = 6_000;
/// Marks of one outcome closer than this are one mark.
const CELL_MIN: f64 = 1.0;
/// Longest call that is told apart from longer ones, in microseconds: an hour.
const MICROS_MAX: u64 = 3_600_000_000;
const QUANTILES: [(f64, &str); 3] = [(0.50, "p50"), (0.95, "p95"), (0.99, "p99")];
/// Fewer calls than this in a stretch say nothing of its quantiles.
const CALLS_MIN: u64 = 5;

/// Draws them on a logarithmic axis.
pub(crate) fn latency(history: &History, span_ns: u64, episodes: &[Episode]) -> Markup {
    let timings = Timings::of(history, span_ns);
    let frame = Frame::new(span_ns, HEIGHT);
    let low = 10f64.powf((timings.least_us.max(1) as f64).log10().floor());
    let high = 10f64.powf((timings.most_us.max(2) as f64).log10().ceil());
    let y = Linear { from: (low.log10(), high.log10()), to: (frame.bottom, frame.top) };
    let decades = (high / low).log10().round() as i32;
    let labels: Vec<(f64, String)> = (0..=decades)
        .map(|i| low * 10f64.powi(i))
        .map(|us| (y.at(us.log10()), phrase::duration((us * 1e3) as u64)))
        .collect();
    let inside = html! {
        (frame.value_axis(&labels))
        @for outcome in [Outcome::Ok, Outcome::Fail, Outcome::Info] {
            path class={ "marks " (outcome_word(outcome)) }
                d=(marks(history, &frame, outcome, y)) {}
        }
        @for (i, (quantile, name)) in QUANTILES.iter().enumerate() {
            path class={ "quantile q" (i) } d=(timings.line(&frame, *quantile, y)) {
                title { (name) }
            }
        }
    };
    frame.svg("How long calls took, with the quantiles p50, p95 and p99", episodes, &inside)
}

/// One mark for each cell of a grid in which a call of this outcome falls, where the first of them
/// is. The grid is as fine as the limit on marks allows.
fn marks(history: &History, frame: &Frame, outcome: Outcome, y: Linear) -> String {
    let points: Vec<(f64, f64)> = history
        .calls()
        .iter()
        .filter(|call| call.outcome() == outcome)
        .filter_map(|call| {
            let end = history.op(call.complete()?).time();
            let us = micros(history.op(call.invoke).time(), end);
            Some((frame.at(end), y.at((us as f64).log10())))
        })
        .collect();
    let mut cell = CELL_MIN;
    let marks = loop {
        let mut marks: BTreeMap<(i32, i32), (f64, f64)> = BTreeMap::new();
        for &(x, y) in &points {
            marks.entry(((x / cell) as i32, (y / cell) as i32)).or_insert((x, y));
        }
        if marks.len() <= MARKS_MAX {
            break marks;
        }
        cell *= 1.25;
    };
    marks.values().map(|&(x, y)| format!("M{},{}h0", px(x), px(y))).collect()
}

/// Microseconds of a call, at least one.
fn micros(start_ns: u64, end_ns: u64) -> u64 {
    (end_ns.saturating_sub(start_ns) / 1_000).clamp(1, MICROS_MAX)
}

/// How long calls took, by the stretch of time in which they ended.
struct Timings {
    buckets: Buckets,
    histograms: Vec<Histogram<u32>>,
    least_us: u64,
    most_us: u64,
}

impl Timings {
    fn of(history: &History, span_ns: u64) -> Self {
        let buckets = Buckets::new(span_ns);
        let empty = Histogram::new_with_bounds(1, MICROS_MAX, 2).expect("the bounds are sound");
        let mut timings = Self {
            buckets,
            histograms: vec![empty; buckets.count],
            least_us: MICROS_MAX,
            most_us: 1,
        };
        for call in history.calls() {
            let Some(end) = call.complete() else { continue };
            let (start, end) = (history.op(call.invoke).time(), history.op(end).time());
            let us = micros(start, end);
            timings.least_us = timings.least_us.min(us);
            timings.most_us = timings.most_us.max(us);
            timings.histograms[buckets.of(end)].saturating_record(us);
        }
        timings.least_us = timings.least_us.min(timings.most_us);
        timings
    }

    /// A line through one quantile of each stretch, broken where there were too few calls.
    fn line(&self, frame: &Frame, quantile: f64, y: Linear) -> String {
        let mut d = String::new();
        let mut pen_is_down = false;
        for (bucket, histogram) in self.histograms.iter().enumerate() {
            if histogram.len() < CALLS_MIN {
                pen_is_down = false;
                continue;
            }
            let middle = self.buckets.start_ns(bucket) + self.buckets.width_ns / 2;
            let us = histogram.value_at_quantile(quantile).max(1) as f64;
            let command = if pen_is_down { 'L' } else { 'M' };
            d.push_str(&format!("{command}{},{}", px(frame.at(middle)), px(y.at(us.log10()))));
            pen_is_down = true;
        }
        d
    }
}
