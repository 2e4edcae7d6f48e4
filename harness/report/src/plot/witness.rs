//! The witness as a space-time picture: processes are rows, calls are bars, the order between them
//! arrows, and the order that cannot be is red and goes back in time.

use deposed_history::Effect;
use maud::{Markup, html};

use super::arrows::{arrows, dip};
use super::scale::px;
use crate::call_text::{outcome_word, process_name};
use crate::compressed_time::{CompressedTime, Grain, Stretch};
use crate::phrase;
use crate::witness::{Row, Witness, WitnessOp};

const GRAIN: Grain = Grain { step_min: 26.0, step_growth: 10.0 };
/// Room for the names of processes.
const GUTTER: f64 = 132.0;
/// Room left of the first and right of the last moment, where faults go on.
const MARGIN: f64 = 34.0;
/// Room for a call whose end is open.
const OPEN_END: f64 = 60.0;
const STRIP_HEIGHT: f64 = 26.0;
const ROW_HEIGHT: f64 = 84.0;
const BAR_HEIGHT: f64 = 36.0;
const AXIS_HEIGHT: f64 = 46.0;
/// Of the text in a bar.
const CHARACTER_WIDTH: f64 = 8.2;
/// Longest text in a bar, in characters.
const LABEL_CHARS_MAX: usize = 30;
/// A duration on the axis needs this much room.
const DURATION_WIDTH: f64 = 46.0;

/// Where a bar is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bar {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

impl Bar {
    pub(crate) const fn middle(&self) -> (f64, f64) {
        ((self.left + self.right) / 2.0, (self.top + self.bottom) / 2.0)
    }
}

/// Everything's place.
struct Layout {
    time: CompressedTime,
    bars: Vec<Bar>,
    rows_top: f64,
    axis_y: f64,
    width: f64,
    height: f64,
}

impl Layout {
    fn new(witness: &Witness) -> Self {
        let time = pixel_time(witness);
        let rows_top = 8.0 + STRIP_HEIGHT * witness.faults.len() as f64;
        let open = witness.ops.iter().any(|op| op.end_ns.is_none());
        let right = GUTTER + MARGIN + time.length() + if open { OPEN_END } else { 0.0 };
        let bars: Vec<Bar> = witness
            .ops
            .iter()
            .map(|op| {
                let top = rows_top + ROW_HEIGHT * op.row as f64 + (ROW_HEIGHT - BAR_HEIGHT) / 2.0;
                let left = GUTTER + MARGIN + time.at(op.start_ns);
                let end = op.end_ns.map_or(right, |end| GUTTER + MARGIN + time.at(end));
                let right = end.max(left + 6.0);
                Bar { left, right, top, bottom: top + BAR_HEIGHT }
            })
            .collect();
        let rows_bottom = rows_top + ROW_HEIGHT * witness.rows.len() as f64;
        let axis_y = rows_bottom.max(dip(&witness.edges, &bars) + 16.0);
        Self { time, bars, rows_top, axis_y, width: right + MARGIN, height: axis_y + AXIS_HEIGHT }
    }

    fn at(&self, ns: u64) -> f64 {
        GUTTER + MARGIN + self.time.at(ns)
    }
}

/// Draws it.
pub(crate) fn witness(witness: &Witness) -> Markup {
    let layout = Layout::new(witness);
    let (width, height) = (px(layout.width), px(layout.height));
    let style = format!(
        "max-width:{}px;min-width:{}px",
        px(layout.width * 1.3),
        px((layout.width * 0.72).min(layout.width))
    );
    let arrows = arrows(witness, &layout.bars);
    html! {
        svg.witness viewBox={ "0 0 " (width) " " (height) } style=(style) role="img" {
            title { "The calls of the proof in time, one row for each process" }
            (defs())
            (fault_strips(witness, &layout))
            @for (i, row) in witness.rows.iter().enumerate() { (row_line(row, i, &layout)) }
            (arrows.below)
            @for (i, (op, bar)) in witness.ops.iter().zip(&layout.bars).enumerate() {
                (call(op, bar, i))
            }
            (arrows.above)
            (axis(witness, &layout))
        }
    }
}

fn pixel_time(witness: &Witness) -> CompressedTime {
    let (first, last) = witness.span();
    let mut moments = Vec::new();
    let mut stretches = Vec::new();
    for op in &witness.ops {
        let to_ns = op.end_ns.unwrap_or(last);
        moments.extend([op.start_ns, to_ns]);
        let length_min = label(op).chars().count() as f64 * CHARACTER_WIDTH + 20.0;
        stretches.push(Stretch { from_ns: op.start_ns, to_ns, length_min });
    }
    let faults = witness.faults.iter().flat_map(|f| [Some(f.from_ns), f.to_ns]).flatten();
    moments.extend(faults.filter(|&at| first < at && at < last));
    CompressedTime::new(&moments, &stretches, GRAIN)
}

/// The text of a bar.
fn label(op: &WitnessOp) -> String {
    let text = phrase::cut(&op.text.line(), LABEL_CHARS_MAX);
    if op.accused { format!("✗ {text}") } else { text }
}

/// Arrow heads.
fn defs() -> Markup {
    html! {
        defs {
            @for (id, class) in [("head", "head"), ("head-bad", "head bad")] {
                marker id=(id) viewBox="0 0 10 10" refX="8.5" refY="5" markerWidth="8"
                    markerHeight="8" markerUnits="userSpaceOnUse" orient="auto-start-reverse" {
                    path class=(class) d="M0,0.8L9,5L0,9.2Z" {}
                }
            }
        }
    }
}

/// A strip with the name of each fault, and its shade over all rows.
fn fault_strips(witness: &Witness, layout: &Layout) -> Markup {
    let (first, last) = witness.span();
    let edge = layout.width - 4.0;
    html! {
        @for (i, fault) in witness.faults.iter().enumerate() {
            @let from = if fault.from_ns < first { GUTTER } else { layout.at(fault.from_ns) };
            @let to = fault.to_ns.filter(|&to| to <= last).map_or(edge, |to| layout.at(to));
            @let top = 4.0 + STRIP_HEIGHT * i as f64;
            @let unproven = if fault.effect == Effect::Proven { "" } else { " unproven" };
            rect class={ "band" (unproven) } x=(px(from)) width=(px((to - from).max(2.0)))
                y=(px(top)) height=(px(layout.axis_y - top)) {}
            rect class={ "strip" (unproven) } x=(px(from)) width=(px((to - from).max(2.0)))
                y=(px(top)) height=(px(STRIP_HEIGHT - 5.0)) rx="2" {}
            text.strip x=(px(from + 7.0)) y=(px(top + 15.0)) {
                "⚡ " (fault.name)
                tspan.when {
                    @if fault.from_ns < first { "  since " (phrase::moment(fault.from_ns)) }
                    @match fault.to_ns {
                        Some(to) if to > last => { "  until " (phrase::moment(to)) }
                        Some(_) => {}
                        None => { "  never healed" }
                    }
                }
            }
        }
    }
}

fn row_line(row: &Row, i: usize, layout: &Layout) -> Markup {
    let y = layout.rows_top + ROW_HEIGHT * (i as f64 + 0.5);
    let name = process_name(row.process);
    html! {
        line.lane x1=(px(GUTTER)) x2=(px(layout.width - 4.0)) y1=(px(y)) y2=(px(y)) {}
        text.process x="4" y=(px(y - 1.0)) { (name) }
        @if let Some(node) = &row.node {
            text.node x="4" y=(px(y + 15.0)) {
                "asks " (phrase::cut(&phrase::clean(node), 12))
            }
        }
    }
}

fn call(op: &WitnessOp, bar: &Bar, i: usize) -> Markup {
    let accused = if op.accused { " accused" } else { "" };
    let took = op.end_ns.map_or_else(
        || "end unknown".to_owned(),
        |end| format!("took {}", phrase::duration(end - op.start_ns)),
    );
    let open = if op.end_ns.is_none() { " open" } else { "" };
    html! {
        a href={ "#op-" (op.position) } class={ "call c" (i) } {
            title {
                (op.named()) " · " (outcome_word(op.outcome)) " · index "
                (phrase::count(op.index)) " · " (phrase::moment(op.start_ns)) " · " (took)
            }
            rect class={ "call " (outcome_word(op.outcome)) (accused) (open) } x=(px(bar.left))
                width=(px(bar.right - bar.left)) y=(px(bar.top)) height=(px(BAR_HEIGHT)) rx="4" {}
            text class={ "label" (accused) } x=(px(bar.left + 10.0)) y=(px(bar.top + 23.0)) {
                (label(op))
            }
            @if let Some(name) = &op.name {
                text.name x=(px(bar.left)) y=(px(bar.top - 5.0)) { (name) }
            }
        }
    }
}

/// Moments as ticks and the distances between them in words, since the axis is squeezed.
fn axis(witness: &Witness, layout: &Layout) -> Markup {
    let y = layout.axis_y;
    let (first, last) = witness.span();
    let stops = &layout.time.stops;
    html! {
        line.axis x1=(px(GUTTER)) x2=(px(layout.width - 4.0)) y1=(px(y)) y2=(px(y)) {}
        @for &(_, at) in stops {
            @let x = px(GUTTER + MARGIN + at);
            line.axis x1=(x) x2=(x) y1=(px(y - 4.0)) y2=(px(y + 4.0)) {}
        }
        @for pair in stops.windows(2) {
            @let (from, to) = (pair[0], pair[1]);
            @if to.1 - from.1 >= DURATION_WIDTH {
                text.tick x=(px(GUTTER + MARGIN + (from.1 + to.1) / 2.0)) y=(px(y + 16.0))
                    text-anchor="middle" { (phrase::duration(to.0 - from.0)) }
            }
        }
        text.tick.end x=(px(layout.at(first))) y=(px(y + 36.0)) text-anchor="middle" {
            (phrase::moment(first))
        }
        @if last > first {
            text.tick.end x=(px(layout.at(last))) y=(px(y + 36.0)) text-anchor="middle" {
                (phrase::moment(last))
            }
        }
        text.tick x="4" y=(px(y + 16.0)) { "time (squeezed)" }
    }
}
