//! A fault lane: faults of one kind, one after another, beside the clients and the other lanes.
//!
//! A lane runs on its own and reports into the one ordered stream of events of the run. The run
//! loop starts it, tells it when to stop, and gives it a limited time to heal.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use deposed_history::{OpType, Value};
use tokio::sync::{oneshot, watch};

use crate::FaultError;

/// A source of faults that runs concurrently with clients and other lanes.
#[async_trait]
pub trait Lane: Send {
    /// Its name in events and reports: `partition`, `kill+pause`.
    fn name(&self) -> String;

    /// Looks at the nodes when the system serves and before any lane is driven.
    async fn baseline(&mut self) -> Result<(), FaultError> {
        Ok(())
    }

    /// Injects and heals until `stop` is set or there is nothing left to do. Whatever is in force
    /// then is healed before this returns, whether or not events can still be recorded.
    async fn drive(self: Box<Self>, events: EventSender, stop: Stop) -> Result<(), FaultError>;
}

/// An event of a lane on its way into the history.
#[derive(Debug)]
pub struct NemesisEvent {
    /// What is done: `start-partition`, `stop-kill`, ...
    pub f: Arc<str>,
    /// `Invoke` before, `Ok`, `Fail` or `Info` after.
    pub kind: OpType,
    /// Targets, evidence, whatever a report needs.
    pub value: Value,
    done: oneshot::Sender<Result<(), NotRecorded>>,
}

impl NemesisEvent {
    /// Tells the lane that the event is in the history, or why it cannot be.
    pub fn answer(self, result: Result<(), NotRecorded>) {
        // A lane that no longer waits has been stopped: nobody to tell.
        let _ = self.done.send(result);
    }
}

/// The history takes no more events. A lane heals and ends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the history takes no more events: {reason}")]
pub struct NotRecorded {
    /// Why: the disk is full, the run is over.
    pub reason: String,
}

/// The lanes' end of the stream of events.
#[derive(Clone)]
pub struct EventSender {
    deliver: Arc<dyn Fn(NemesisEvent) + Send + Sync>,
}

impl EventSender {
    /// A sender that hands every event to `deliver`, which must not block and answers it, now or
    /// later, by [`NemesisEvent::answer`].
    pub fn new(deliver: impl Fn(NemesisEvent) + Send + Sync + 'static) -> Self {
        Self { deliver: Arc::new(deliver) }
    }

    /// Records an event of process `nemesis` and returns once it is in the history. What it
    /// announces may only be done after that.
    pub async fn record_nemesis(
        &self,
        f: &str,
        kind: OpType,
        value: Value,
    ) -> Result<(), NotRecorded> {
        let (done, answer) = oneshot::channel();
        (self.deliver)(NemesisEvent { f: f.into(), kind, value, done });
        answer.await.unwrap_or_else(|_| Err(NotRecorded { reason: "the run is over".into() }))
    }
}

impl fmt::Debug for EventSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventSender")
    }
}

/// Says when a lane has to heal and end. Once set it stays set.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

/// Sets a [`Stop`]. Dropping it sets it too.
#[derive(Debug)]
pub struct StopSender(watch::Sender<bool>);

impl Stop {
    /// A stop that is not set, and the way to set it.
    pub fn channel() -> (StopSender, Self) {
        let (sender, receiver) = watch::channel(false);
        (StopSender(sender), Self(receiver))
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Returns when it is set.
    pub async fn wait(&mut self) {
        // An error means that the sender is gone, which counts as set.
        let _ = self.0.wait_for(|set| *set).await;
    }
}

impl StopSender {
    /// Tells every holder of the stop.
    pub fn set(&self) {
        self.0.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn an_event_is_waited_for_until_it_is_answered() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        let events = EventSender::new(move |event| {
            sink.lock().unwrap().push((event.f.to_string(), event.kind));
            event.answer(Ok(()));
        });
        let recorded = events.record_nemesis("start-kill", OpType::Invoke, Value::Nil).await;
        assert_eq!(recorded, Ok(()));
        assert_eq!(*seen.lock().unwrap(), [("start-kill".to_owned(), OpType::Invoke)]);
    }

    #[tokio::test]
    async fn an_event_nobody_answers_is_not_recorded() {
        let events = EventSender::new(drop);
        let refused = events.record_nemesis("start-kill", OpType::Invoke, Value::Nil).await;
        assert_eq!(refused.unwrap_err().reason, "the run is over");
    }

    #[tokio::test]
    async fn a_stop_is_set_by_its_sender_or_by_the_loss_of_it() {
        let (sender, mut stop) = Stop::channel();
        assert!(!stop.is_set());
        sender.set();
        assert!(stop.is_set());
        stop.wait().await;
        let (sender, mut stop) = Stop::channel();
        drop(sender);
        assert!(stop.is_set());
        stop.wait().await;
    }
}
