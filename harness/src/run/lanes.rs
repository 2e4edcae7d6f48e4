//! The run loop's hold on the fault lanes.

use std::sync::mpsc;

use deposed_core::{EventSender, FaultError, Lane, Stop, StopSender};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::caught::caught;
use super::inbox::Message;

/// How a lane ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "how", rename_all = "kebab-case")]
pub enum LaneEnd {
    /// Whatever it had done was healed.
    Healed,
    /// It gave up; faults may still be in force.
    Failed {
        /// Why.
        reason: String,
    },
    /// It did not end in time and was dropped; faults may still be in force.
    Abandoned,
}

/// A lane and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LaneOutcome {
    /// Its name.
    pub lane: String,
    /// How.
    pub end: LaneEnd,
}

struct Running {
    name: String,
    task: AbortHandle,
    end: Option<LaneEnd>,
}

/// Every lane of a run.
pub(super) struct Lanes {
    lanes: Vec<Running>,
    stop: StopSender,
}

impl Lanes {
    /// Starts them all. Their events and ends go to the inbox.
    pub(super) fn start(
        runtime: &Handle,
        lanes: Vec<Box<dyn Lane>>,
        inbox: &mpsc::Sender<Message>,
    ) -> Self {
        let (stop_sender, stop) = Stop::channel();
        let to_loop = inbox.clone();
        // An event that comes after the end of the run is dropped, which tells its lane so.
        let events = EventSender::new(move |event| drop(to_loop.send(Message::Nemesis(event))));
        let start = |(position, lane): (usize, Box<dyn Lane>)| {
            let name = lane.name();
            let (events, stop, inbox) = (events.clone(), stop.clone(), inbox.clone());
            let task = runtime.spawn(async move {
                let result = caught(lane.drive(events, stop)).await;
                let _ = inbox.send(Message::LaneEnded { lane: position, result });
            });
            Running { name, task: task.abort_handle(), end: None }
        };
        Self { lanes: lanes.into_iter().enumerate().map(start).collect(), stop: stop_sender }
    }

    /// Tells them to heal and end.
    pub(super) fn stop(&self) {
        self.stop.set();
    }

    /// Whether all have ended.
    pub(super) fn ended(&self) -> bool {
        self.lanes.iter().all(|lane| lane.end.is_some())
    }

    /// Notes how one ended.
    pub(super) fn end(
        &mut self,
        lane: usize,
        result: Result<Result<(), FaultError>, String>,
    ) -> LaneOutcome {
        let end = match result {
            Ok(Ok(())) => LaneEnd::Healed,
            Ok(Err(error)) => LaneEnd::Failed { reason: error.to_string() },
            Err(panic) => LaneEnd::Failed { reason: panic },
        };
        let lane = &mut self.lanes[lane];
        lane.end = Some(end.clone());
        LaneOutcome { lane: lane.name.clone(), end }
    }

    /// Drops those that have not ended.
    pub(super) fn abandon(&mut self) -> Vec<LaneOutcome> {
        let mut abandoned = Vec::new();
        for lane in self.lanes.iter_mut().filter(|lane| lane.end.is_none()) {
            lane.task.abort();
            lane.end = Some(LaneEnd::Abandoned);
            abandoned.push(LaneOutcome { lane: lane.name.clone(), end: LaneEnd::Abandoned });
        }
        abandoned
    }

    /// How each ended, in the order they were given.
    pub(super) fn outcomes(&self) -> Vec<LaneOutcome> {
        self.lanes
            .iter()
            .map(|lane| LaneOutcome {
                lane: lane.name.clone(),
                end: lane.end.clone().unwrap_or(LaneEnd::Abandoned),
            })
            .collect()
    }
}
