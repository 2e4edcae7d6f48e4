//! The faults of a run: a row for each lane, a bar for each injection.

use std::collections::BTreeMap;

use deposed_history::Episode;
use maud::{Markup, html};

use super::bands::{BANDS_MAX, band_class, extent};
use super::frame::{Frame, LEFT};
use super::scale::px;
use crate::fault_text::{bite_text, fault_name};
use crate::phrase;

const ROW_HEIGHT: f64 = 26.0;
const CHARACTER_WIDTH: f64 = 6.3;
/// A longer name of a lane would begin left of the picture: there are `LEFT - 8` pixels for it.
const LANE_CHARS_MAX: usize = 14;
/// A shorter label says nothing.
const LABEL_CHARS_MIN: usize = 2;

/// Draws them; skipped injections are drawn too, as what they are.
pub(crate) fn faults(span_ns: u64, episodes: &[Episode]) -> Markup {
    let mut lanes: BTreeMap<&str, Vec<&Episode>> = BTreeMap::new();
    for episode in episodes.iter().take(BANDS_MAX) {
        lanes.entry(&episode.lane).or_default().push(episode);
    }
    let frame = Frame::new(span_ns, ROW_HEIGHT * lanes.len() as f64);
    let inside = html! {
        @for (row, (lane, episodes)) in lanes.iter().enumerate() {
            @let y = frame.top + ROW_HEIGHT * row as f64;
            text.tick x=(px(LEFT - 8.0)) y=(px(y + 17.0)) text-anchor="end" {
                (phrase::cut(&phrase::clean(lane), LANE_CHARS_MAX))
            }
            @for episode in episodes { (bar(&frame, episode, y)) }
        }
    };
    frame.svg("Faults over time", &[], &inside)
}

fn bar(frame: &Frame, episode: &Episode, y: f64) -> Markup {
    let (from, to) = extent(frame, episode);
    let name = fault_name(episode);
    // The lane already names the fault.
    let short = name.strip_prefix(&episode.fault).map_or(name.as_str(), str::trim_start);
    let room = ((to - from - 8.0) / CHARACTER_WIDTH).max(0.0) as usize;
    html! {
        g {
            title { (name) " · " (bite_text(episode)) }
            rect class={ (band_class(episode)) " bar" } x=(px(from)) width=(px((to - from).max(2.0)))
                y=(px(y + 3.0)) height=(px(ROW_HEIGHT - 6.0)) rx="2" {}
            @if room >= LABEL_CHARS_MIN {
                text.inbar x=(px(from + 5.0)) y=(px(y + 17.0)) { (phrase::cut(short, room)) }
            }
        }
    }
}
