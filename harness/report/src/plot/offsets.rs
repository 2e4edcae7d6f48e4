//! How far clocks were off: a mark for each reading, as high as it may be off, on an axis that is
//! logarithmic on both sides of the true time, as errors of milliseconds and of minutes matter alike.

use std::collections::BTreeMap;

use deposed_history::Episode;
use maud::{Markup, html};

use super::frame::Frame;
use super::scale::{Linear, px};
use crate::offsets::Offset;
use crate::phrase;

const HEIGHT: f64 = 180.0;
/// What is smaller is drawn in the middle: a millisecond.
const LEAST_NS: f64 = 1e6;
/// Marks of one node, at most: bounds the size of the picture.
const MARKS_MAX: usize = 2_000;
/// Colours that are told apart.
pub(crate) const COLOURS: usize = 3;

/// Draws them.
pub(crate) fn offsets(
    nodes: &BTreeMap<String, Vec<Offset>>,
    span_ns: u64,
    episodes: &[Episode],
) -> Markup {
    let frame = Frame::new(span_ns, HEIGHT);
    let all = nodes.values().flatten();
    let most = all.map(|offset| offset.offset_ns.unsigned_abs() + offset.error_ns).max();
    let decades = (most.unwrap_or(0) as f64 / LEAST_NS).log10().ceil().max(1.0);
    let y = Linear { from: (-decades, decades), to: (frame.bottom, frame.top) };
    let step = if decades > 4.0 { 2 } else { 1 };
    let powers: Vec<i32> = (1..=decades as i32).filter(|power| power % step == 0).collect();
    let label = |sign: f64, power: i32| {
        let ns = sign * LEAST_NS * 10f64.powi(power);
        let text = phrase::duration(ns.abs() as u64);
        (y.at(height(ns)), format!("{}{text}", if sign < 0.0 { "−" } else { "+" }))
    };
    let above = powers.iter().map(|&power| label(1.0, power));
    let below = powers.iter().map(|&power| label(-1.0, power));
    let labels: Vec<(f64, String)> =
        above.chain(below).chain([(y.at(0.0), "right".to_owned())]).collect();
    let inside = html! {
        (frame.value_axis(&labels))
        @for (number, (node, readings)) in nodes.iter().enumerate() {
            path class={ "marks offset c" (number % COLOURS) } d=(marks(readings, &frame, y)) {
                title { (phrase::clean(node)) }
            }
        }
    };
    frame.svg("How far clocks were off, by node", episodes, &inside)
}

/// How many decades beyond the least an offset is, on its side.
fn height(ns: f64) -> f64 {
    ns.signum() * (ns.abs() / LEAST_NS).max(1.0).log10()
}

fn marks(readings: &[Offset], frame: &Frame, y: Linear) -> String {
    let every = readings.len().div_ceil(MARKS_MAX).max(1);
    let mark = |reading: &Offset| {
        let (offset, error) = (reading.offset_ns as f64, reading.error_ns as f64);
        let (from, to) = (y.at(height(offset - error)), y.at(height(offset + error)));
        format!("M{},{}V{}", px(frame.at(reading.at_ns)), px(from), px(to))
    };
    readings.iter().step_by(every).map(mark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both sides of the true time are alike, and what is less than a millisecond is in the middle.
    #[test]
    fn both_sides_are_alike() {
        assert_eq!([0.0, 5e5, -1e6, 1e7, -1e9].map(height), [0.0, 0.0, 0.0, 1.0, -3.0]);
    }
}
