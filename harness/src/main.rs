//! The `deposed` binary.

fn main() {}
