//! Every primitive there is: one line each.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::primitive::{Primitive, Sight};
use crate::{Home, Result};

/// Makes [`Spec`] and [`Undo`] and what passes through them to the primitives. In JSON both are an
/// object with one member, named after the fault: `{"stop":{…}}`.
macro_rules! primitives {
    ($($(#[$doc:meta])* $name:ident($primitive:ty),)*) => {
        /// What is to be done to a node.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Spec { $($(#[$doc])* $name($primitive),)* }

        /// How to undo it.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Undo { $($(#[$doc])* $name(<$primitive as Primitive>::Undo),)* }

        impl Spec {
            /// See [`Primitive::plan`].
            pub(crate) fn plan(&self, home: &Home) -> Result<Undo> {
                match self { $(Self::$name(it) => Ok(Undo::$name(it.plan(home)?)),)* }
            }

            /// See [`Primitive::apply`].
            pub(crate) fn apply(&self, undo: &Undo) -> Result<()> {
                match (self, undo) {
                    $((Self::$name(it), Undo::$name(undo)) => it.apply(undo),)*
                    _ => Err(mismatch()),
                }
            }

            /// See [`Primitive::hold`].
            pub(crate) fn hold(&self, undo: &Undo, ready: &Path) -> Result<()> {
                match (self, undo) {
                    $((Self::$name(it), Undo::$name(undo)) => it.hold(undo, ready),)*
                    _ => Err(mismatch()),
                }
            }

            /// See [`Primitive::prove`].
            pub(crate) fn prove(&self, undo: &Undo) -> Result<Sight> {
                match (self, undo) {
                    $((Self::$name(it), Undo::$name(undo)) => it.prove(undo),)*
                    _ => Err(mismatch()),
                }
            }

            /// See [`Primitive::HELD`].
            pub(crate) const fn held(&self) -> bool {
                match self { $(Self::$name(_) => <$primitive as Primitive>::HELD,)* }
            }

            /// See [`Primitive::SURVIVES_REBOOT`].
            pub(crate) const fn survives_reboot(&self) -> bool {
                match self { $(Self::$name(_) => <$primitive as Primitive>::SURVIVES_REBOOT,)* }
            }
        }

        impl Undo {
            /// See [`Primitive::release`].
            pub(crate) fn release(&self) -> Result<()> {
                match self { $(Self::$name(undo) => <$primitive as Primitive>::release(undo),)* }
            }

            /// See [`Primitive::accept`].
            pub(crate) fn accept(&self) -> Result<()> {
                match self { $(Self::$name(undo) => <$primitive as Primitive>::accept(undo),)* }
            }

            /// See [`Primitive::undo`].
            pub(crate) fn undo(&self) -> Result<()> {
                match self { $(Self::$name(undo) => <$primitive as Primitive>::undo(undo),)* }
            }

            /// See [`Primitive::prove_undone`].
            pub(crate) fn prove_undone(&self) -> Result<Sight> {
                match self { $(Self::$name(undo) => <$primitive as Primitive>::prove_undone(undo),)* }
            }
        }
    };
}

primitives! {
    /// Processes stand still (SIGSTOP).
    Stop(crate::stop::Stop),
    /// Wall clocks of processes go wrong.
    Clock(crate::clock::Clock),
    /// The wall clock of a machine goes wrong.
    Wall(crate::wall::Wall),
    /// Processes are killed (SIGKILL), and later started again.
    Kill(crate::kill::Kill),
    /// Packets from some addresses are dropped or refused.
    Cut(crate::cut::Cut),
    /// A cut that comes and goes.
    Flap(crate::flap::Flap),
    /// Processes are frozen by the kernel.
    Freeze(crate::freeze::Freeze),
    /// Processes run a part of the time only.
    Slow(crate::slow::Slow),
    /// The process that supervises a store is killed or stopped, alone.
    Supervisor(crate::supervisor::Supervisor),
    /// Processes get little memory or processor time.
    Limit(crate::limit::Limit),
    /// Links are bad, by the kernel's emulator.
    Netem(crate::netem::Netem),
    /// Links are bad, by a queue of netfilter.
    Nfqueue(crate::nfqueue::Nfqueue),
    /// The power of a disk is cut, and its store is down until it is undone.
    PowerCut(crate::disk::PowerCut),
    /// A disk is full.
    DiskFull(crate::disk::DiskFull),
    /// A store's data is damaged or gone, and the store is down until that is undone.
    Damage(crate::disk::Damage),
    /// A file system of our own lies over a disk.
    DiskLayer(crate::disk::Layer),
    /// What is done to a disk fails, or takes long, in a layer over it.
    DiskTrouble(crate::disk::Trouble),
}

fn mismatch() -> crate::Failure {
    crate::Failure::new("read a record", "its undo is of another fault than its specification")
}
