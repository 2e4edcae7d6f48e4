//! Calls answered per second, by outcome, one on top of the other.

use deposed_history::{Episode, History};
use maud::{Markup, html};

use super::buckets::Buckets;
use super::frame::{Frame, tick_text};
use super::scale::{Linear, px, ticks};
use crate::counts::Tally;

const HEIGHT: f64 = 150.0;

/// An outcome's style and how to read it from a tally.
type Layer = (&'static str, fn(&Tally) -> u64);

/// From the bottom up: failures first, so that they are not lost on top of a jagged line.
const LAYERS: [Layer; 3] = [("fail", |t| t.fail), ("info", |t| t.info), ("ok", |t| t.ok)];

/// Draws the rates.
pub(crate) fn rate(history: &History, span_ns: u64, episodes: &[Episode]) -> Markup {
    let buckets = Buckets::new(span_ns);
    let tallies = buckets.tallies(history);
    // The last stretch is only as long as the run.
    let seconds = |bucket: usize| {
        let end = buckets.start_ns(bucket + 1).min(span_ns.max(1));
        (end - buckets.start_ns(bucket)).max(buckets.width_ns / 4) as f64 / 1e9
    };
    let rates: Vec<[f64; 3]> = tallies
        .iter()
        .enumerate()
        .map(|(i, tally)| LAYERS.map(|(_, of)| of(tally) as f64 / seconds(i)))
        .collect();
    let most = rates.iter().map(|layers| layers.iter().sum::<f64>()).fold(1.0, f64::max);
    let ticks = ticks(most, 4);
    let top = ticks.last().copied().unwrap_or(1.0);
    let frame = Frame::new(span_ns, HEIGHT);
    let y = Linear { from: (0.0, top), to: (frame.bottom, frame.top) };
    let labels: Vec<(f64, String)> =
        ticks.iter().map(|&tick| (y.at(tick), tick_text(tick))).collect();
    let inside = html! {
        (frame.value_axis(&labels))
        @for (layer, (class, _)) in LAYERS.iter().enumerate() {
            path class={ "area " (class) } d=(area(&frame, &buckets, &rates, layer, y)) {}
        }
    };
    frame.svg("Calls answered per second, by outcome", episodes, &inside)
}

/// The outline of one layer: forward along its top, back along its bottom, in steps.
fn area(frame: &Frame, buckets: &Buckets, rates: &[[f64; 3]], layer: usize, y: Linear) -> String {
    if rates.iter().all(|layers| layers[layer] == 0.0) {
        return String::new();
    }
    let sum = |bucket: usize, layers: usize| rates[bucket][..layers].iter().sum::<f64>();
    let x = |bucket: usize| px(frame.at(buckets.start_ns(bucket)));
    let mut d = format!("M{},{}", x(0), px(y.at(sum(0, layer))));
    for bucket in 0..rates.len() {
        let height = px(y.at(sum(bucket, layer + 1)));
        d.push_str(&format!("L{},{height}H{}", x(bucket), x(bucket + 1)));
    }
    for bucket in (0..rates.len()).rev() {
        let height = px(y.at(sum(bucket, layer)));
        d.push_str(&format!("L{},{height}H{}", x(bucket + 1), x(bucket)));
    }
    d.push('Z');
    d
}
