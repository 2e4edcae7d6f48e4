//! The warden of a lab, who holds a node's machine from outside of it.

use std::time::Duration;

use async_trait::async_trait;
use deposed_core::{Hold, Loss, Machine, Warden, WardenError};
use deposed_lab::warden::Line;
use deposed_lab::{LabError, View, chain};

use crate::inventory::NodeSpec;

/// The warden of one node of a lab.
#[derive(Debug, Clone)]
pub struct LabWarden {
    node: String,
    line: Line,
}

impl LabWarden {
    /// Of a node, if its inventory names one. Touches nothing.
    pub fn of(spec: &NodeSpec) -> Option<Self> {
        let node = spec.node.name.to_string();
        let line = Line::new(spec.warden.as_ref()?, &*node);
        Some(Self { node, line })
    }

    /// Asks on a thread that may block.
    async fn ask<T: Send + 'static>(
        &self,
        action: &'static str,
        question: impl FnOnce(&Line) -> Result<T, LabError> + Send + 'static,
    ) -> Result<T, WardenError> {
        let line = self.line.clone();
        let answer = tokio::task::spawn_blocking(move || question(&line)).await;
        let failed = |reason: String| WardenError { node: self.node.clone(), action, reason };
        match answer {
            Ok(answer) => answer.map_err(|error| failed(chain(&error))),
            Err(panic) => Err(failed(panic.to_string())),
        }
    }
}

#[async_trait]
impl Warden for LabWarden {
    async fn check(&self, how: Hold) -> Result<(), WardenError> {
        self.ask(action(how), move |line| line.check(of_lab(how))).await
    }

    async fn hold(
        &self,
        how: Hold,
        ttl: Duration,
        start: Option<String>,
    ) -> Result<(), WardenError> {
        self.ask(action(how), move |line| line.hold(of_lab(how), ttl, start)).await
    }

    async fn renew(&self, ttl: Duration) -> Result<(), WardenError> {
        self.ask("go on to hold", move |line| line.renew(ttl)).await
    }

    async fn look(&self) -> Result<Machine, WardenError> {
        let View { held, processes, loss } = self.ask("look at", Line::look).await?;
        let held = held.map(|how| match how {
            deposed_lab::Hold::Frozen => Hold::Frozen,
            deposed_lab::Hold::Off => Hold::Off,
        });
        let loss = loss.map(|deposed_lab::Loss { synced, unsynced, lost }| Loss {
            synced,
            unsynced,
            lost,
        });
        Ok(Machine { held, processes, loss })
    }

    async fn release(&self) -> Result<(), WardenError> {
        self.ask("release", Line::release).await
    }
}

const fn action(how: Hold) -> &'static str {
    match how {
        Hold::Frozen => "freeze",
        Hold::Off => "cut the power of",
    }
}

const fn of_lab(how: Hold) -> deposed_lab::Hold {
    match how {
        Hold::Frozen => deposed_lab::Hold::Frozen,
        Hold::Off => deposed_lab::Hold::Off,
    }
}
