//! What is said of each event, as text.

use deposed_history::{Effect, FaultAction, FaultEvent, Header, History, Op};
use deposed_report::Plan;

use super::line::Tone;
use crate::progress::Step;
use crate::run::{Counts, LaneEnd, Outcome, Progress};

/// Minutes and seconds since the start of the run.
pub(super) fn clock(time_ns: u64) -> String {
    let seconds = time_ns / 1_000_000_000;
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}

pub(super) fn plan(plan: &Plan) -> String {
    let rate = plan.load.rate.map_or("unlimited".to_owned(), |rate| format!("~{rate:.0} op/s"));
    let lanes =
        if plan.faults.lanes.is_empty() { "none".into() } else { plan.faults.lanes.join(" ") };
    format!(
        "{}  seed {:#x}  {} {}  {} nodes  {} processes  {rate}  {} s  faults: {lanes}",
        plan.id,
        plan.seed,
        plan.system.name,
        plan.workload.name,
        plan.cluster.nodes.len(),
        plan.load.concurrency,
        plan.limits.time_ms / 1000,
    )
}

pub(super) const fn step(step: Step) -> &'static str {
    match step {
        Step::Connect => "connect",
        Step::Setup => "setup",
        Step::Heal => "heal",
        Step::Collect => "collect",
        Step::Teardown => "teardown",
        Step::Seal => "seal",
    }
}

/// Of all calls, how many ended how.
fn shares(counts: Counts) -> String {
    let share = |n: u64| n as f64 * 100.0 / counts.total().max(1) as f64;
    format!(
        "ok {:.1} %  fail {:.1} %  info {:.1} %",
        share(counts.ok),
        share(counts.fail),
        share(counts.info)
    )
}

fn sum<'a>(counts: impl IntoIterator<Item = &'a Counts>) -> Counts {
    counts.into_iter().fold(Counts::default(), |sum, counts| Counts {
        ok: sum.ok + counts.ok,
        fail: sum.fail + counts.fail,
        info: sum.info + counts.info,
    })
}

pub(super) fn progress(progress: &Progress, time_limit_ns: u64, fault: Option<&str>) -> String {
    let fault = fault.map_or_else(String::new, |fault| {
        // On a line of its own it is aligned in columns; here it is not.
        let words: Vec<&str> = fault.split_whitespace().collect();
        format!("  fault: {}", words.join(" "))
    });
    let latency = match progress.latency.p99_us {
        0 => "nothing answered".to_owned(),
        us => format!("p99 {:.0} ms", us as f64 / 1000.0),
    };
    format!(
        "{}/{}  {:.0} op/s  {}  {latency}{fault}",
        clock(progress.time.min(time_limit_ns)),
        clock(time_limit_ns),
        progress.rate,
        shares(sum(progress.total.values())),
    )
}

pub(super) fn outcome(outcome: &Outcome) -> String {
    let counts = outcome.totals.counts();
    format!(
        "{} operations in {:.1} s  {}  p50 {:.1} ms  p99 {:.0} ms",
        counts.total(),
        outcome.time as f64 / 1e9,
        shares(counts),
        outcome.totals.latency.p50_us as f64 / 1000.0,
        outcome.totals.latency.p99_us as f64 / 1000.0,
    )
}

pub(super) fn lane_ended(lane: &str, end: &LaneEnd) -> Option<String> {
    match end {
        LaneEnd::Healed => None,
        LaneEnd::Failed { reason } => Some(format!("the fault lane {lane} failed: {reason}")),
        LaneEnd::Abandoned => Some(format!("the fault lane {lane} did not heal in time")),
    }
}

/// What is said of a fault's event.
pub(super) struct FaultLine {
    /// `fault` or `heal`.
    pub(super) word: &'static str,
    /// What, where, and what was seen.
    pub(super) text: String,
    pub(super) tone: Tone,
    /// Whether the fault is in force from now on.
    pub(super) in_force: bool,
}

/// What is said of a fault's event; `None` for those that only prepare another.
pub(super) fn fault(op: &Op) -> Option<FaultLine> {
    let history = History::from_ops(Header::default(), [op]);
    let event = FaultEvent::parse(history.op(0))?;
    let seen = event.seen?;
    let (word, in_force) = match event.action {
        FaultAction::Inject => ("fault", seen.effect != Effect::Skipped),
        FaultAction::Heal => ("heal", false),
        FaultAction::Plan | FaultAction::Hold => return None,
    };
    let (mark, tone) = match seen.effect {
        Effect::Proven => ('✓', Tone::Plain),
        Effect::Skipped => ('–', Tone::Faint),
        Effect::Indeterminate => ('?', Tone::Doubt),
    };
    let nodes = event.nodes.join(" ");
    let text = format!("{:<10} {nodes:<22} {mark} {}", event.fault, seen.summary);
    Some(FaultLine { word, text, tone, in_force })
}

#[cfg(test)]
mod tests {
    use deposed_history::Sighting;

    use super::*;

    #[test]
    fn a_fault_is_said_when_it_bites_and_when_it_is_healed() {
        let event = FaultEvent {
            fault: "pause".into(),
            id: 1,
            lane: "pause:one".into(),
            action: FaultAction::Inject,
            choice: deposed_history::Value::Nil,
            nodes: vec!["n2".into()],
            seen: None,
        };
        assert!(fault(&event.to_op()).is_none(), "nothing was seen yet");
        let seen = Sighting {
            effect: Effect::Proven,
            summary: "state T".into(),
            figures: deposed_history::Value::Nil,
        };
        let bites = FaultEvent { seen: Some(seen.clone()), ..event.clone() };
        let line = fault(&bites.to_op()).unwrap();
        assert_eq!((line.word, line.in_force), ("fault", true));
        assert!(line.text.contains("n2") && line.text.contains("✓ state T"), "{}", line.text);
        let healed = FaultEvent { action: FaultAction::Heal, seen: Some(seen), ..event };
        assert_eq!(fault(&healed.to_op()).unwrap().word, "heal");
    }
}
