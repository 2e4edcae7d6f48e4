//! A queue: first in, first out.

use std::collections::VecDeque;

use deposed_history::{Outcome, Value};

use crate::linearizable::model::{CallView, Leads, Malformed, Model};

/// A queue: `enqueue v`, `dequeue` that returns the oldest value, or nil if there is none.
#[derive(Debug, Clone, Copy)]
pub struct FifoQueue;

/// What a call on a queue says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum QueueOp {
    /// This is the youngest from now on.
    Enqueue(Value),
    /// This was the oldest and is gone.
    Dequeue(Value),
    /// The oldest, if there was one, is gone.
    DequeueSomething,
    /// There was none.
    FindEmpty,
}

/// What a queue holds, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueueState {
    items: VecDeque<Value>,
    /// Whether there is nothing before `items`.
    whole: bool,
}

impl Model for FifoQueue {
    type State = QueueState;
    type Op = QueueOp;

    fn name(&self) -> &str {
        "fifo-queue"
    }

    fn parse(&self, call: &CallView<'_>) -> Result<Option<QueueOp>, Malformed> {
        match (call.f(), call.outcome()) {
            ("enqueue" | "dequeue", Outcome::Fail) => Ok(None),
            ("enqueue", _) => Ok(Some(QueueOp::Enqueue(call.owned()))),
            ("dequeue", Outcome::Info) => Ok(Some(QueueOp::DequeueSomething)),
            ("dequeue", Outcome::Ok) => Ok(Some(match call.owned() {
                Value::Nil => QueueOp::FindEmpty,
                value => QueueOp::Dequeue(value),
            })),
            _ => Err(call.unknown_function(self.name(), "enqueue, dequeue")),
        }
    }

    fn init(&self) -> QueueState {
        QueueState { items: VecDeque::new(), whole: true }
    }

    fn step(&self, state: &QueueState, op: &QueueOp) -> Option<QueueState> {
        let mut state = state.clone();
        match op {
            QueueOp::Enqueue(v) => state.items.push_back(v.clone()),
            QueueOp::Dequeue(v) if state.items.front() == Some(v) => {
                state.items.pop_front();
            }
            // It came from before the items that are known.
            QueueOp::Dequeue(_) if !state.whole => {}
            QueueOp::Dequeue(_) => return None,
            // From a queue of which only the end is known, any of these may be gone by now.
            QueueOp::DequeueSomething => {
                state.items.pop_front();
            }
            QueueOp::FindEmpty if state.items.is_empty() => state.whole = true,
            QueueOp::FindEmpty => return None,
        }
        Some(state)
    }

    fn bytes_inside(&self, state: &QueueState) -> usize {
        state.items.capacity() * size_of::<Value>()
    }

    fn describe(&self, op: &QueueOp) -> String {
        match op {
            QueueOp::Enqueue(v) => format!("enqueued {v}"),
            QueueOp::Dequeue(v) => format!("dequeued {v}"),
            QueueOp::DequeueSomething => "tried to dequeue".into(),
            QueueOp::FindEmpty => "found the queue empty".into(),
        }
    }

    fn describe_state(&self, state: &QueueState) -> String {
        let items: Vec<String> = state.items.iter().map(ToString::to_string).collect();
        match (items.is_empty(), state.whole) {
            (true, true) => "the queue is empty".into(),
            (true, false) => "the queue could hold anything".into(),
            (false, true) => format!("the queue holds {}", items.join(", ")),
            (false, false) => format!("the queue ends with {}", items.join(", ")),
        }
    }

    fn is_pure(&self, op: &QueueOp) -> bool {
        *op == QueueOp::FindEmpty
    }

    fn requires(&self, op: &QueueOp) -> Option<QueueState> {
        (*op == QueueOp::FindEmpty).then(|| self.init())
    }

    fn leads_to(&self, op: &QueueOp) -> Leads<QueueState> {
        if *op == QueueOp::FindEmpty { Leads::Nowhere } else { Leads::Anywhere }
    }

    fn anything(&self) -> Option<QueueState> {
        Some(QueueState { items: VecDeque::new(), whole: false })
    }

    /// A value matters to those who got it, and can go with all who know of it. A dequeue that got
    /// it without telling goes too.
    fn dispensable(&self, op: &QueueOp, kept: &[&QueueOp]) -> bool {
        match op {
            QueueOp::Enqueue(v) => !kept.iter().any(|k| matches!(k, QueueOp::Dequeue(u) if u == v)),
            QueueOp::FindEmpty => true,
            QueueOp::Dequeue(v) => {
                let knows =
                    |k: &QueueOp| matches!(k, QueueOp::Enqueue(u) | QueueOp::Dequeue(u) if u == v);
                !kept.iter().any(|k| knows(k))
            }
            QueueOp::DequeueSomething => {
                !kept.iter().any(|k| matches!(k, QueueOp::Dequeue(_) | QueueOp::FindEmpty))
            }
        }
    }
}
