//! Registers and cas-registers: what most histories are about, so they have a compact form, the
//! zone algorithm and a search of their own.

mod compact;
mod frontier;
mod lagging;
mod proof;
mod search;
mod weaker;
mod zone;

use compact::F;
pub(crate) use compact::{Compact, Pieces, RegisterCall, Registers, Renumbering, compact, load};
pub(crate) use frontier::frontier;
pub(crate) use lagging::{Between, Lagging, Least};
pub(crate) use proof::{Conclusion, Proof, prove};
pub(crate) use search::{RegisterAutomaton, searchable};
pub(crate) use weaker::RegisterKinds;
pub(crate) use zone::{Zone, zone};
