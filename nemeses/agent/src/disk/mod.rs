//! What happens to the disk that a store's data is on.

mod filesystem;
mod full;
mod power_cut;

pub use full::{DiskFull, Filled};
pub use power_cut::{Cut, PowerCut};
