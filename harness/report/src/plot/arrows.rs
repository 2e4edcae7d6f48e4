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
    back.map(|e| bars[e.from].bottom.max(bars[e.to].bottom) + DIP).fold(0.0, f64::max)
}

fn goes_back(edge: &WitnessEdge, bars: &[Bar]) -> bool {
    bars[edge.to].right < bars[edge.from].left
}

/// Draws every edge with its number, the impossible ones last and on top.
pub(crate) fn arrows(witness: &Witness, bars: &[Bar]) -> Markup {
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
    let mut order: Vec<usize> = (0..curves.len()).collect();
    order.sort_by_key(|&i| witness.edges[i].impossible);
    html! {
        @for i in order { (arrow(&witness.edges[i], &curves[i], i, words)) }
    }
}

fn arrow(edge: &WitnessEdge, (curve, place): &(Curve, Point), i: usize, words: bool) -> Markup {
    let (class, head) = if edge.impossible { (" bad", "head-bad") } else { ("", "head") };
    let inferred = !matches!(edge.kind, EdgeKind::RealTime | EdgeKind::Process);
    let inferred = if inferred { " inferred" } else { "" };
    html! {
        g class={ "edge e" (i + 1) (class) (inferred) } {
            path.halo d=(curve.path()) {}
            path.arrow d=(curve.path()) marker-end={ "url(#" (head) ")" } {
                title { (edge_words(edge.kind)) ": " (crate::phrase::clean(&edge.because)) }
            }
            circle.number cx=(px(place.0)) cy=(px(place.1)) r="9" {}
            text.number x=(px(place.0)) y=(px(place.1 + 4.0)) text-anchor="middle" { (i + 1) }
            @if words {
                text.word x=(px(place.0 + 14.0)) y=(px(place.1 + 4.0)) {
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
    if from.right <= to.left {
        let (start, end) = ((from.right, from_y), (to.left, to_y));
        let pull = ((end.0 - start.0) / 2.0).max(18.0);
        return Curve([start, (start.0 + pull, start.1), (end.0 - pull, end.1), end]);
    }
    let (start_y, end_y) =
        if from_y <= to_y { (from.bottom, to.top) } else { (from.top, to.bottom) };
    let pull = (end_y - start_y) / 2.0;
    let (start, end) = ((from.middle().0, start_y), (to.middle().0, end_y));
    Curve([start, (start.0, start.1 + pull), (end.0, end.1 - pull), end])
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
