//! Real labs, as root: each test brings up its own, and none depends on the names or addresses of another.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking, and show figures"
)]

mod crash;
mod detached;
mod install;
mod isolation;
mod library;
mod logins;
mod machines;
mod support;
