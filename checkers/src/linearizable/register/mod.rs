//! Registers and cas-registers: what most histories are about, so they have a compact form, the
//! zone algorithm and a search of their own.

mod compact;
mod frontier;
mod proof;
mod search;
mod zone;

pub(crate) use compact::{Compact, Renumbering, compact, load};
use compact::{F, RegisterCall};
pub(crate) use frontier::frontier;
pub(crate) use proof::{Conclusion, Proof, prove};
pub(crate) use search::{RegisterAutomaton, searchable};
pub(crate) use zone::{Zone, zone};
