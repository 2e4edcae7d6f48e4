//! Other processes' way to the time: the *vDSO*, a few functions that the kernel maps into every
//! process so that it can read the clock without entering the kernel.
//!
//! A process is patched by overwriting the first bytes of `clock_gettime`, `gettimeofday` and `time`
//! in its own copy of the vDSO with a jump to code that asks the kernel and then adds what a shared
//! [`Cell`](crate::clock::Cell) says. Every program that reads the time in the usual way is reached: C
//! libraries, Go's runtime, virtual machines. Only clocks that show the time of day are moved;
//! `CLOCK_MONOTONIC` never jumps on a real machine either.
//!
//! Not reached: programs that make the system call themselves, timers that the kernel keeps
//! (timerfd, absolute waits on the time of day), and a process that has just begun a new program,
//! until it is patched anew. Interrupting a thread can end its wait early (`EINTR` from
//! `epoll_wait`), as stopping and continuing a process does.
//!
//! [`ptrace`] is the only file that speaks to the kernel about other processes, [`machine`] the only
//! one that knows the processor.

mod image;
mod machine;
mod patch;
mod ptrace;
mod tracee;

pub use patch::{Error, Reading, check, has_cell, is_patched, patch, read_clock, restore};
