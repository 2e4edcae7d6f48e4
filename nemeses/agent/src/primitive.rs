//! What each fault must be able to do on a node.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Home, Result};

/// What was seen on the node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sight {
    /// Whether it is as it should be: in force after [`Primitive::apply`], gone after
    /// [`Primitive::undo`].
    pub holds: bool,
    /// For people, with figures; what speaks against it where it does not hold.
    pub summary: String,
    /// For machines. An object.
    pub figures: serde_json::Value,
}

/// One way to hurt a node. A value of the type is the specification of one injection, as it travels
/// from the controller.
pub trait Primitive: Serialize + DeserializeOwned {
    /// All that undoing takes, written to the journal before anything is applied: what is to be
    /// changed, how it was before, the names of what is going to be made. A process is named by pid
    /// *and* start time ([`crate::Process`]).
    type Undo: Serialize + DeserializeOwned;

    /// Whether the fault survives a reboot of the node (a file, a setting on disk). Its record then
    /// survives one as well. Others vanish with the machine's memory, and so do their records.
    const SURVIVES_REBOOT: bool = false;

    /// Whether the fault lives only while a process holds it: see [`Primitive::hold`].
    const HELD: bool = false;

    /// Looks at the node and says what undoing will take; touches nothing. Refuses with a reason
    /// where the node cannot suffer this.
    fn plan(&self, home: &Home) -> Result<Self::Undo>;

    /// Applies it. May fail half-way: it is undone then. Asked once for each record.
    fn apply(&self, undo: &Self::Undo) -> Result<()>;

    /// For a fault with [`Primitive::HELD`]: called after [`Primitive::apply`] in a process of its
    /// own, which outlives the agent and is killed (SIGKILL) before [`Primitive::undo`]. It must
    /// make an empty file at `ready` once the fault is in force, and return only on failure.
    fn hold(&self, _undo: &Self::Undo, _ready: &Path) -> Result<()> {
        Ok(())
    }

    /// For a fault with [`Primitive::HELD`]: called just before its holder is killed, if it is alive or
    /// not, to spare the node the sight of that. [`Primitive::undo`] must do without it.
    fn release(_undo: &Self::Undo) -> Result<()> {
        Ok(())
    }

    /// What can be seen of it now. Called any number of times while it is in force. Figures that
    /// count (packets, switches, offsets) count from the beginning, so that two looks can be
    /// compared.
    fn prove(&self, undo: &Self::Undo) -> Result<Sight>;

    /// Called before [`Primitive::undo`] where a controller asks for that, and so has seen what came of the fault;
    /// not where the node undoes it by itself.
    fn accept(_undo: &Self::Undo) -> Result<()> {
        Ok(())
    }

    /// Undoes it from the record alone: after the agent was killed, by another process, half-way
    /// applied or not at all, a second time. Touches nothing that is not ours.
    fn undo(undo: &Self::Undo) -> Result<()>;

    /// Whether it is gone.
    fn prove_undone(undo: &Self::Undo) -> Result<Sight>;
}
