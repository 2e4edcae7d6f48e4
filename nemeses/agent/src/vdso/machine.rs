//! The processor: registers, jumps, and the code that a patched process runs.

#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod processor;

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod processor;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!(
    "the clock of a process is moved by machine code, which is there for x86-64 and aarch64"
);

pub(super) use processor::*;
