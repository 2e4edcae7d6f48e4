//! Arrows between the bars of a witness.

use deposed_checkers::EdgeKind;
use maud::{Markup, html};

use super::scale::px;
use super::witness::Bar;
use crate::witness::{Witness, WitnessEdge, edge_words};

/// With more arrows than this, words would cover the picture; numbers remain.
const WORDS_MAX: usize = 6;
/// How far an arrow back in time dips below the lower of its bars.
const DIP: f64 = 46.0;
/// Room for the words below it.
const WORD_HEIGHT: f64 = 22.0;
/// Numbers closer than this would cover each other.
const CLEARANCE: f64 = 24.0;

type Point = (f64, f64);

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
    let mut taken: Vec<Point> = Vec::new();
    let curves: Vec<(Curve, Point)> = witness
        .edges
        .iter()
        .map(|edge| {
            let curve = curve(edge, bars);
            let place = free_place(&curve, &taken);
            taken.push(place);
            (curve, place)
        })
        .collect();
    let words = witness.edges.len() <= WORDS_MAX;
    let draw = |impossible: bool| {
        html! {
            @for (i, edge) in witness.edges.iter().enumerate() {
                @if edge.impossible == impossible {
                    (arrow(edge, &curves[i], i, words, goes_back(edge, bars)))
                }
            }
        }
    };
    Arrows { below: draw(false), above: draw(true) }
}

fn arrow(
    edge: &WitnessEdge,
    (curve, place): &(Curve, Point),
    i: usize,
    words: bool,
    back: bool,
) -> Markup {
    let (class, head) = if edge.impossible { (" bad", "head-bad") } else { ("", "head") };
    let inferred = if is_real_time(edge) { "" } else { " inferred" };
    // A long label of an arrow that dips has the room below its lowest point to itself.
    let (word_x, word_y, anchor) = if back {
        (place.0, place.1 + 24.0, "middle")
    } else {
        (place.0 + 14.0, place.1 + 4.0, "start")
    };
    html! {
        g class={ "edge e" (i + 1) (class) (inferred) } {
            path.halo d=(curve.path()) {}
            path.arrow d=(curve.path()) marker-end={ "url(#" (head) ")" } {
                title { (edge_words(edge.kind)) ": " (crate::phrase::clean(&edge.because)) }
            }
            circle.number cx=(px(place.0)) cy=(px(place.1)) r="9" {}
            text.number x=(px(place.0)) y=(px(place.1 + 4.0)) text-anchor="middle" { (i + 1) }
            @if words {
                text.word x=(px(word_x)) y=(px(word_y)) text-anchor=(anchor) {
                    (edge_words(edge.kind))
                    @if edge.impossible { tspan.cannot { " – cannot be" } }
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
        // Down (or up) the empty space under its start, then along the row of its end.
        let (start_y, sign) = if from_y < to_y { (from.bottom, 1.0) } else { (from.top, -1.0) };
        let start = (from.left + (from.right - from.left).min(60.0) / 2.0, start_y);
        let end = (to.left, to_y + sign * (to.bottom - to.top) / 5.0);
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

/// A place on the curve for its number that is not yet taken, the middle if all are.
fn free_place(curve: &Curve, taken: &[Point]) -> Point {
    let free = |&(x, y): &Point| {
        taken.iter().all(|&(a, b)| (a - x).abs() > CLEARANCE || (b - y).abs() > CLEARANCE)
    };
    [0.5, 0.35, 0.65, 0.25, 0.75]
        .into_iter()
        .map(|t| curve.at(t))
        .find(free)
        .unwrap_or_else(|| curve.at(0.5))
}
