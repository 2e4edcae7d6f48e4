//! The objects that come with the product.

mod register;

pub use register::{Register, RegisterOp};
