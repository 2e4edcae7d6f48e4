//! Pictures as inline SVG. Text stays text, colours come from the page's style sheet, so that a
//! picture follows light, dark and print.

mod arrows;
mod availability;
mod bands;
mod buckets;
mod faults;
mod frame;
mod latency;
mod offsets;
mod quantiles;
mod rate;
mod scale;
mod signs;
mod witness;

pub(crate) use availability::availability;
pub(crate) use faults::faults;
pub(crate) use latency::latency;
pub(crate) use offsets::{COLOURS, offsets};
pub(crate) use quantiles::quantiles;
pub(crate) use rate::rate;
pub(crate) use witness::witness;
