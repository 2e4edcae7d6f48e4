//! The frame that all pictures of a run share: one width, one time axis, the faults as bands.

use deposed_history::Episode;
use maud::{Markup, html};

use super::bands::bands;
use super::scale::{Linear, px, ticks};

/// Width of every picture of the run; the page scales it.
pub(crate) const WIDTH: f64 = 960.0;
/// Where the plotting area begins, right of its labels, and ends.
pub(crate) const LEFT: f64 = 112.0;
pub(crate) const RIGHT: f64 = 944.0;
/// Room for the labels of the time axis.
const AXIS_HEIGHT: f64 = 26.0;

/// A picture's area and its time axis.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) top: f64,
    pub(crate) bottom: f64,
    /// Seconds to pixels.
    pub(crate) x: Linear,
}

impl Frame {
    /// A frame for a run of `span_ns`, with an area of the given height.
    pub(crate) fn new(span_ns: u64, height: f64) -> Self {
        let seconds = (span_ns as f64 / 1e9).max(0.001);
        let top = 10.0;
        Self { top, bottom: top + height, x: Linear { from: (0.0, seconds), to: (LEFT, RIGHT) } }
    }

    /// The place of a moment of the run.
    pub(crate) fn at(&self, ns: u64) -> f64 {
        self.x.at(ns as f64 / 1e9).clamp(LEFT, RIGHT)
    }

    /// The whole picture: bands behind, the time axis, and what is drawn inside. `title` is for
    /// those who cannot see it.
    pub(crate) fn svg(&self, title: &str, episodes: &[Episode], inside: &Markup) -> Markup {
        let height = self.bottom + AXIS_HEIGHT;
        html! {
            svg.plot viewBox={ "0 0 " (px(WIDTH)) " " (px(height)) } role="img" {
                title { (title) }
                (bands(self, episodes))
                (inside)
                (self.time_axis())
            }
        }
    }

    fn time_axis(&self) -> Markup {
        let seconds = self.x.from.1;
        html! {
            line.axis x1=(px(LEFT)) x2=(px(RIGHT)) y1=(px(self.bottom)) y2=(px(self.bottom)) {}
            @for tick in ticks(seconds, 10).into_iter().filter(|&tick| tick <= seconds * 1.0001) {
                @let x = px(self.x.at(tick));
                line.axis x1=(x) x2=(x) y1=(px(self.bottom)) y2=(px(self.bottom + 4.0)) {}
                text.tick x=(x) y=(px(self.bottom + 18.0)) text-anchor="middle" {
                    (tick_text(tick)) " s"
                }
            }
        }
    }

    /// Horizontal lines and labels at the ticks of a vertical axis.
    pub(crate) fn value_axis(&self, labels: &[(f64, String)]) -> Markup {
        html! {
            @for (y, label) in labels {
                line.grid x1=(px(LEFT)) x2=(px(RIGHT)) y1=(px(*y)) y2=(px(*y)) {}
                text.tick x=(px(LEFT - 8.0)) y=(px(y + 4.0)) text-anchor="end" { (label) }
            }
        }
    }
}

/// A tick without superfluous digits.
pub(crate) fn tick_text(tick: f64) -> String {
    let text = format!("{tick:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
