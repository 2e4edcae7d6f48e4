//! Arrows between the bars of a witness.

use deposed_checkers::EdgeKind;
use maud::{Markup, html};

use super::scale::px;
use super::signs::{Area, Point, Sign, Signs, Wish};
use super::witness::Bar;
use crate::phrase;
use crate::witness::{Witness, WitnessEdge, edge_words};

/// With more arrows than this, words would cover the picture; numbers remain.
const WORDS_MAX: usize = 6;
/// How far an arrow back in time dips below the lower of its bars.
const DIP: f64 = 46.0;
/// Room for the words below it.
const WORD_HEIGHT: f64 = 22.0;
/// Where along an arrow its number may be, best first.
const ALONG: [f64; 7] = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8];
/// Room for the name above a bar.
const NAME_HEIGHT: f64 = 16.0;

/// A cubic curve.
#[derive(Debug, Clone, Copy)]
struct Curve([Point; 4]);

impl Curve {
    fn at(&self, t: f64) -> Point {
        let [a, b, c, d] = self.0;
        let u = 1.0 - t;
        let mix = |a: f64, b: f64, c: f64, d: f64| {
            u * u * u * a + 3.0 * u * u * t * b + 3.0 * u * t * t * c + t * t * t * d
        };
        (mix(a.0, b.0, c.0, d.0), mix(a.1, b.1, c.1, d.1))
    }

    fn path(&self) -> String {
        let [a, b, c, d] = self.0.map(|(x, y)| format!("{},{}", px(x), px(y)));
        format!("M{a}C{b} {c} {d}")
    }
}

/// The lowest point that arrows reach, or 0.
pub(crate) fn dip(edges: &[WitnessEdge], bars: &[Bar]) -> f64 {
    let back = edges.iter().filter(|edge| goes_back(edge, bars));
    back.map(|e| bars[e.from].bottom.max(bars[e.to].bottom) + DIP + WORD_HEIGHT).fold(0.0, f64::max)
}

/// Whether clocks or a process's own order say so, rather than an observation.
const fn is_real_time(edge: &WitnessEdge) -> bool {
    matches!(edge.kind, EdgeKind::RealTime | EdgeKind::Process)
}

fn goes_back(edge: &WitnessEdge, bars: &[Bar]) -> bool {
    bars[edge.to].right < bars[edge.from].left
}

/// Every edge with its number: the impossible ones on top of the bars, the rest below them.
pub(crate) struct Arrows {
    pub(crate) below: Markup,
    pub(crate) above: Markup,
}

/// Draws them.
pub(crate) fn arrows(witness: &Witness, bars: &[Bar]) -> Arrows {
    let taken = bars.iter().map(|bar| Area {
        left: bar.left,
        right: bar.right,
        top: bar.top - NAME_HEIGHT,
        bottom: bar.bottom,
    });
    let mut signs = Signs::new(taken.collect());
    let worded = witness.edges.len() <= WORDS_MAX;
    let drawn: Vec<(bool, Markup)> = witness
        .edges
        .iter()
        .enumerate()
        .map(|(i, edge)| {
            let curve = curve(edge, bars);
            let points = ALONG.map(|t| curve.at(t));
            let below = goes_back(edge, bars);
            let words = worded.then(|| words(edge).chars().count());
            let sign = signs.place(Wish { points: &points, words, below });
            (edge.impossible, arrow(edge, &curve, sign, below, i + 1))
        })
        .collect();
    let layer = |impossible: bool| {
        html! { @for (_, arrow) in drawn.iter().filter(|(i, _)| *i == impossible) { (arrow) } }
    };
    Arrows { below: layer(false), above: layer(true) }
}

fn words(edge: &WitnessEdge) -> String {
    let cannot = if edge.impossible { " – cannot be" } else { "" };
    format!("{}{cannot}", edge_words(edge.kind))
}

fn arrow(edge: &WitnessEdge, curve: &Curve, sign: Sign, below: bool, number: usize) -> Markup {
    let (class, head) = if edge.impossible { (" bad", "head-bad") } else { ("", "head") };
    let inferred = if is_real_time(edge) { "" } else { " inferred" };
    let (x, y) = sign.number;
    html! {
        g class={ "edge" (class) (inferred) } {
            path.halo d=(curve.path()) {}
            path.arrow d=(curve.path()) marker-end={ "url(#" (head) ")" } {
                title { (edge_words(edge.kind)) ": " (phrase::clean(&edge.because)) }
            }
            circle.number cx=(px(x)) cy=(px(y)) r="9" {}
            text.number x=(px(x)) y=(px(y + 4.0)) text-anchor="middle" { (number) }
            @if let Some((x, y)) = sign.words {
                text.word x=(px(x)) y=(px(y)) text-anchor=(if below { "middle" } else { "start" }) {
                    (words(edge))
                }
            }
        }
    }
}

/// Real time runs from the end of one bar to the start of the next; what was observed, from
/// bar to bar; what goes back in time dips below both.
fn curve(edge: &WitnessEdge, bars: &[Bar]) -> Curve {
    let (from, to) = (&bars[edge.from], &bars[edge.to]);
    if goes_back(edge, bars) {
        let low = from.bottom.max(to.bottom) + DIP * 1.3;
        let (start, end) = ((from.middle().0, from.bottom), (to.middle().0, to.bottom));
        return Curve([start, (start.0, low), (end.0, low), end]);
    }
    let (from_y, to_y) = (from.middle().1, to.middle().1);
    if from.right <= to.left && from_y != to_y && !is_real_time(edge) {
        // Down (or up) the empty space at its start, then along the row of its end.
        let start_y = if from_y < to_y { from.bottom } else { from.top };
        let start = (from.left + (from.right - from.left).min(60.0) / 2.0, start_y);
        let end = (to.left, to_y + (to.bottom - to.top) / 5.0);
        return Curve([start, (start.0, end.1), (start.0 + 20.0, end.1), end]);
    }
    if from.right <= to.left {
        let (start, end) = ((from.right, from_y), (to.left, to_y));
        let pull = ((end.0 - start.0) / 2.0).max(18.0);
        return Curve([start, (start.0 + pull, start.1), (end.0 - pull, end.1), end]);
    }
    // They overlap in time: straight from one to the other, down and up side by side.
    let (left, right) = (from.left.max(to.left), from.right.min(to.right));
    let downward = from_y <= to_y;
    let x = left + (right - left) * if downward { 1.0 } else { 2.0 } / 3.0;
    let (start_y, end_y) = if downward { (from.bottom, to.top) } else { (from.top, to.bottom) };
    Curve([(x, start_y), (x, start_y), (x, end_y), (x, end_y)])
}
