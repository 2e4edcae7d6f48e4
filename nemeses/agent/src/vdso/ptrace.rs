//! ptrace(2) and waitpid(2), as far as they are needed here, with errors instead of -1.
//!
//! The wrappers of the nix crate do not suffice: they know no real-time signals, and a stopped thread
//! that was about to get one would lose it.

#![expect(unsafe_code, reason = "ptrace takes untyped pointers; every call of it is in this file")]

use std::io;

use super::machine::Registers;

/// A thread, by its number.
pub(super) type Tid = libc::pid_t;

/// What waiting for a thread has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Nothing yet.
    Running,
    /// It is about to be given a signal.
    Signal(i32),
    /// It stands still because it was told to, or with the rest of its process.
    Stop,
    /// It has ended.
    Gone,
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A request whose arguments are plain numbers.
fn request(request: libc::c_uint, tid: Tid, address: u64, data: u64) -> io::Result<()> {
    // SAFETY: the requests made through this function take numbers, or addresses of the other
    // process: nothing of this one is read or written.
    check(unsafe { libc::ptrace(request, tid, address, data) })
}

/// Becomes the tracer of a thread, without stopping it. Ends with the calling thread.
pub(super) fn seize(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, 0)
}

/// Tells a thread to stop.
pub(super) fn interrupt(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Lets a stopped thread go on, with a signal or 0.
pub(super) fn resume(tid: Tid, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT, tid, 0, signal as u64)
}

/// Lets a stopped thread do one instruction.
pub(super) fn step(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_SINGLESTEP, tid, 0, 0)
}

/// Ceases to be the tracer of a stopped thread.
pub(super) fn detach(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, 0, 0)
}

/// Writes a word into the memory of a stopped thread, even where that may not write itself.
pub(super) fn poke(tid: Tid, address: u64, word: u64) -> io::Result<()> {
    request(libc::PTRACE_POKEDATA, tid, address, word)
}

/// Looks once what has become of a thread.
pub(super) fn look(tid: Tid) -> io::Result<Wait> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    match unsafe { libc::waitpid(tid, &raw mut status, libc::WNOHANG | libc::__WALL) } {
        0 => Ok(Wait::Running),
        -1 => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ECHILD) => Ok(Wait::Gone),
            error => Err(error),
        },
        _ if !libc::WIFSTOPPED(status) => Ok(Wait::Gone),
        _ if status >> 16 == 0 => Ok(Wait::Signal(libc::WSTOPSIG(status))),
        _ => Ok(Wait::Stop),
    }
}

/// The number of the kernel's set of general registers.
const NT_PRSTATUS: u64 = 1;

/// The registers of a stopped thread.
pub(super) fn registers(tid: Tid) -> io::Result<Registers> {
    // SAFETY: the registers are plain numbers, for which zero is a value.
    let mut registers: Registers = unsafe { std::mem::zeroed() };
    let mut part = libc::iovec {
        iov_base: (&raw mut registers).cast(),
        iov_len: std::mem::size_of::<Registers>(),
    };
    // SAFETY: the kernel writes at most `iov_len` bytes to `registers`, which outlives the call.
    check(unsafe { libc::ptrace(libc::PTRACE_GETREGSET, tid, NT_PRSTATUS, &raw mut part) })?;
    Ok(registers)
}

/// Sets the registers of a stopped thread.
pub(super) fn set_registers(tid: Tid, registers: &Registers) -> io::Result<()> {
    let mut part = libc::iovec {
        iov_base: std::ptr::from_ref(registers).cast_mut().cast(),
        iov_len: std::mem::size_of::<Registers>(),
    };
    // SAFETY: the kernel only reads `registers`.
    check(unsafe { libc::ptrace(libc::PTRACE_SETREGSET, tid, NT_PRSTATUS, &raw mut part) })
}

/// The signals a stopped thread has blocked, signal `n` as bit `n - 1`.
pub(super) fn blocked(tid: Tid) -> io::Result<u64> {
    let mut mask = 0_u64;
    let size = std::mem::size_of_val(&mask);
    // SAFETY: the kernel writes `size` bytes to `mask`, which outlives the call.
    check(unsafe { libc::ptrace(libc::PTRACE_GETSIGMASK, tid, size, &raw mut mask) })?;
    Ok(mask)
}

/// Sets the signals a stopped thread has blocked.
pub(super) fn set_blocked(tid: Tid, mask: u64) -> io::Result<()> {
    let size = std::mem::size_of_val(&mask);
    // SAFETY: the kernel reads `size` bytes of `mask`, which outlives the call.
    check(unsafe { libc::ptrace(libc::PTRACE_SETSIGMASK, tid, size, &raw const mask) })
}

/// Sends a signal to one thread of a process.
pub(super) fn signal(pid: u32, tid: Tid, signal: i32) -> io::Result<()> {
    // SAFETY: tgkill takes three integers and touches no memory.
    check(unsafe { libc::syscall(libc::SYS_tgkill, pid as libc::pid_t, tid, signal) })
}
