//! Faults as shaded bands behind a picture.

use deposed_history::{Effect, Episode};
use maud::{Markup, html};

use super::frame::{Frame, RIGHT};
use super::scale::px;
use crate::fault_text::{bite_text, fault_name};

/// Bands drawn; with more the picture would be one grey.
pub(crate) const BANDS_MAX: usize = 200;

/// One band for each injection that was applied, hatched if it was not seen to bite.
pub(crate) fn bands(frame: &Frame, episodes: &[Episode]) -> Markup {
    let applied = episodes.iter().filter(|e| e.effect() != Effect::Skipped);
    html! {
        @for episode in applied.take(BANDS_MAX) {
            @let (from, to) = extent(frame, episode);
            rect class=(band_class(episode)) x=(px(from)) width=(px((to - from).max(1.0)))
                y=(px(frame.top)) height=(px(frame.bottom - frame.top)) {
                title { (fault_name(episode)) " · " (bite_text(episode)) }
            }
        }
    }
}

/// Where an injection begins and ends; one that was skipped ended when that was found.
pub(crate) fn extent(frame: &Frame, episode: &Episode) -> (f64, f64) {
    let skipped = episode.applied.filter(|_| episode.effect() == Effect::Skipped);
    let end = episode.healed.or(episode.heal).or(skipped);
    (frame.at(episode.begin.time), end.map_or(RIGHT, |moment| frame.at(moment.time)))
}

/// The style of a band.
pub(crate) fn band_class(episode: &Episode) -> &'static str {
    match episode.effect() {
        Effect::Proven => "band",
        Effect::Skipped | Effect::Indeterminate => "band unproven",
    }
}
