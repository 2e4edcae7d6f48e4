//! What happens to the disk that a store's data is on.

mod filesystem;
mod power_cut;

pub use power_cut::{Cut, PowerCut};
