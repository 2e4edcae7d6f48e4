//! What happens to the disk that a store's data is on.

mod damage;
mod filesystem;
mod full;
mod layer;
mod power_cut;

pub use damage::{Damage, Damaged, Harm};
pub use full::{DiskFull, Filled};
pub use layer::{Laid, Layer, Trouble, Troubled, Use};
pub use power_cut::{Cut, PowerCut};
