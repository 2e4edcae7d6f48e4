//! Which nodes answered when: a strip for each node, a cell for each stretch of time.

use deposed_history::{Episode, History};
use maud::{Markup, html};

use super::buckets::{Buckets, Service};
use super::frame::{Frame, LEFT, RIGHT};
use super::scale::px;
use crate::phrase;

const ROW_HEIGHT: f64 = 24.0;
/// Strips drawn.
pub(crate) const NODES_MAX: usize = 20;
/// Shares of success are told apart in this many steps, 0 being none at all.
const STEPS: u64 = 5;

/// Draws the share of calls that were served.
pub(crate) fn availability(history: &History, span_ns: u64, episodes: &[Episode]) -> Markup {
    let buckets = Buckets::new(span_ns);
    let nodes = buckets.service_by_node(history);
    let shown = nodes.len().min(NODES_MAX);
    let frame = Frame::new(span_ns, ROW_HEIGHT * shown as f64);
    let inside = html! {
        @for (row, (node, services)) in nodes.iter().take(NODES_MAX).enumerate() {
            @let y = frame.top + ROW_HEIGHT * row as f64;
            text.tick x=(px(LEFT - 8.0)) y=(px(y + 16.0)) text-anchor="end" {
                (phrase::cut(&phrase::clean(node), 9))
            }
            rect.silent x=(px(LEFT)) width=(px(RIGHT - LEFT)) y=(px(y + 3.0))
                height=(px(ROW_HEIGHT - 6.0)) {}
            @for run in runs(services) {
                @let (from, to) = (buckets.start_ns(run.from), buckets.start_ns(run.to));
                @let (left, right) = (frame.at(from), frame.at(to));
                rect class={ "share s" (run.step) } x=(px(left)) width=(px(right - left))
                    y=(px(y + 3.0)) height=(px(ROW_HEIGHT - 6.0)) {
                    title {
                        (phrase::clean(node)) ", " (phrase::moment(from)) " to "
                        (phrase::moment(to)) ": " (phrase::count(run.service.served)) " of "
                        (phrase::counted(run.service.ended, "call")) " that ended served"
                    }
                }
            }
        }
    };
    frame.svg("Share of calls that were served, by node", episodes, &inside)
}

/// Neighbouring stretches of the same step.
struct Stretch {
    from: usize,
    to: usize,
    step: u64,
    service: Service,
}

fn runs(services: &[Service]) -> Vec<Stretch> {
    let mut runs: Vec<Stretch> = Vec::new();
    for (bucket, service) in services.iter().enumerate() {
        let Some(step) = step(service) else { continue };
        match runs.last_mut() {
            Some(run) if run.to == bucket && run.step == step => {
                run.to += 1;
                run.service.ended += service.ended;
                run.service.served += service.served;
            }
            _ => runs.push(Stretch { from: bucket, to: bucket + 1, step, service: *service }),
        }
    }
    runs
}

/// 0 for none, [`STEPS`] for all; nothing if nobody asked. Nothing but waiting is no service.
fn step(service: &Service) -> Option<u64> {
    match (service.served, service.ended) {
        (0, 0) => (service.waiting > 0).then_some(0),
        (0, _) => Some(0),
        (served, ended) => Some((served * STEPS / ended).max(1)),
    }
}
