//! Patching a process, taking the patch away, and reading the clock as the process sees it.

use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use super::image::{Image, parse_range};
use super::machine;
use super::tracee::{Borrowed, Stopped, as_tracer};
use crate::Process;

/// Size of a page; what is mapped is at least that.
const PAGE: u64 = 4096;

/// How often a process is tried anew that was caught in the middle of what is to be changed or of
/// becoming another program, or that somebody else had stopped, and how far apart.
const TRIES: u32 = 100;
const TRY_EVERY: Duration = Duration::from_millis(1);

/// Why a process could not be patched, read or restored. It runs on as it did before.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It has ended.
    #[error("process {pid} has ended")]
    Gone {
        /// The process.
        pid: u32,
    },
    /// It may not be traced.
    #[error(
        "process {pid} cannot be traced: {}",
        match tracer {
            0 => "CAP_SYS_PTRACE is missing, or /proc/sys/kernel/yama/ptrace_scope is 3".to_owned(),
            tracer => format!("process {tracer} traces it already (a debugger, strace)"),
        }
    )]
    NotAllowed {
        /// The process.
        pid: u32,
        /// Who traces it, or 0.
        tracer: u32,
    },
    /// It has no vDSO that could be patched.
    #[error("process {pid} cannot be patched: {reason}")]
    Unfit {
        /// The process.
        pid: u32,
        /// Why.
        reason: String,
    },
    /// A thread did not stop.
    #[error("a thread of process {pid} does not stop: it waits for a disk or for a new child")]
    Stuck {
        /// The process.
        pid: u32,
    },
    /// Some thread was always telling the time.
    #[error("process {pid} was telling the time whenever it was stopped")]
    Busy {
        /// The process.
        pid: u32,
    },
    /// A request to the kernel failed.
    #[error("failed to {attempted} of process {pid}: {source}")]
    Trace {
        /// The process.
        pid: u32,
        /// What was attempted.
        attempted: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A system call made in the process failed.
    #[error("{name} in process {pid} failed: {source}")]
    Call {
        /// The process.
        pid: u32,
        /// The call.
        name: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A borrowed thread was given a signal for something it did.
    #[error("a borrowed thread of process {pid} was given signal {signal}")]
    Faulted {
        /// The process.
        pid: u32,
        /// The signal.
        signal: i32,
    },
    /// A borrowed thread stopped somewhere else than it was to.
    #[error("a borrowed thread of process {pid} stopped at {at:#x}")]
    Strayed {
        /// The process.
        pid: u32,
        /// Where.
        at: u64,
    },
}

/// Something that is mapped into a process.
struct Mapping {
    range: Range<u64>,
    /// The file, if it is one.
    path: String,
}

fn mappings(pid: u32) -> Result<Vec<Mapping>, Error> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|_| Error::Gone { pid })?;
    let line = |line: &str| {
        // FROM-TO PERMISSIONS OFFSET DEVICE INODE PATH, the last padded and perhaps with blanks.
        let mut words = line.splitn(6, ' ');
        let range = parse_range(words.next()?)?;
        let path = words.nth(4).unwrap_or_default().trim_start();
        Some(Mapping { range, path: path.trim_end_matches(" (deleted)").to_owned() })
    };
    Ok(text.lines().filter_map(line).collect())
}

/// The vDSO of a process. One that is ending, or is just becoming another program, has none.
fn image(pid: u32) -> Result<Image, Error> {
    let mut tries = 0;
    let image = loop {
        let unfit = match Image::of(pid) {
            Ok(Some(image)) => break image,
            Ok(None) => Error::Unfit { pid, reason: "it has no vDSO".into() },
            Err(source) => Error::Trace { pid, attempted: "read the vDSO", source },
        };
        if Process::of(pid).is_none() {
            return Err(Error::Gone { pid });
        }
        if tries == TRIES {
            return Err(unfit);
        }
        tries += 1;
        std::thread::sleep(TRY_EVERY);
    };
    if image.is_native() {
        Ok(image)
    } else {
        Err(Error::Unfit { pid, reason: "it is a 32-bit program".into() })
    }
}

/// The instruction of a vDSO that enters the kernel.
fn entrance(pid: u32, image: &Image) -> Result<u64, Error> {
    image
        .system_call()
        .ok_or_else(|| Error::Unfit { pid, reason: "its vDSO never enters the kernel".into() })
}

/// The functions of a vDSO that tell the time of day, with their places in
/// [`machine::FUNCTIONS`]. Kernels need not have all of them.
fn functions(pid: u32, image: &Image) -> Result<Vec<(usize, Range<u64>)>, Error> {
    let named = machine::FUNCTIONS.iter().enumerate();
    let found: Vec<_> =
        named.filter_map(|(index, name)| Some((index, image.function(name)?))).collect();
    let short = found.iter().find(|(_, range)| range.end - range.start < machine::JUMP as u64);
    let reason = match (found.first(), short) {
        (Some((0, _)), None) => return Ok(found),
        (_, Some((index, _))) => format!("{} is too short", machine::FUNCTIONS[*index]),
        _ => format!("its vDSO has no {}", machine::FUNCTIONS[0]),
    };
    Err(Error::Unfit { pid, reason })
}

/// Where the patched functions of a process go, if they are patched.
fn target(image: &Image) -> Option<u64> {
    let function = image.function(machine::FUNCTIONS[0])?;
    machine::jump_target(image.bytes(function)?)
}

/// Whether a process sees the time that the cell at `cell` says.
pub fn is_patched(pid: u32, cell: &Path) -> Result<bool, Error> {
    Ok(target(&image(pid)?).is_some() && mapping(pid, cell)?.is_some())
}

fn mapping(pid: u32, cell: &Path) -> Result<Option<Range<u64>>, Error> {
    let wanted = cell.to_string_lossy();
    Ok(mappings(pid)?.into_iter().find(|m| m.path == wanted).map(|m| m.range))
}

/// Whether a process has the cell at `cell` mapped, patched or not.
pub fn has_cell(pid: u32, cell: &Path) -> Result<bool, Error> {
    Ok(mapping(pid, cell)?.is_some())
}

/// Whether a process could be patched.
pub fn check(pid: u32) -> Result<(), Error> {
    let image = image(pid)?;
    if target(&image).is_some() {
        return Err(Error::Unfit { pid, reason: "another clock fault is in force on it".into() });
    }
    entrance(pid, &image)?;
    functions(pid, &image).map(drop)
}

/// Runs `change` while a process stands still with no thread of it at certain addresses.
fn while_still<T: Send>(
    pid: u32,
    ranges: &[Range<u64>],
    change: impl Fn(&mut Stopped) -> Result<T, Error> + Sync,
) -> Result<T, Error> {
    patiently(|| {
        as_tracer(|| {
            let mut stopped = Stopped::all(pid)?;
            if stopped.clear(ranges)? { change(&mut stopped) } else { Err(Error::Busy { pid }) }
        })
    })
}

/// Tries again while a process is busy, or traced by somebody else: by the holder, when the agent
/// looks at what it holds.
fn patiently<T>(attempt: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    let mut tries = 0;
    loop {
        match attempt() {
            Err(Error::Busy { .. } | Error::NotAllowed { .. }) if tries < TRIES => tries += 1,
            result => return result,
        }
        std::thread::sleep(TRY_EVERY);
    }
}

/// Makes a process see the time that the cell at `cell` says. Its children inherit that. Does
/// nothing to one that is patched already.
///
/// Every thread stands still meanwhile, for about a millisecond. The process opens the file itself,
/// with its own rights, and keeps it mapped.
pub fn patch(pid: u32, cell: &Path) -> Result<(), Error> {
    let image = image(pid)?;
    if target(&image).is_some() {
        return if mapping(pid, cell)?.is_some() {
            Ok(())
        } else {
            Err(Error::Unfit { pid, reason: "another clock fault is in force on it".into() })
        };
    }
    let entrance = entrance(pid, &image)?;
    let functions = functions(pid, &image)?;
    let ranges: Vec<Range<u64>> = functions.iter().map(|(_, range)| range.clone()).collect();
    let mut path = cell.to_string_lossy().into_owned().into_bytes();
    path.push(0);
    while_still(pid, &ranges, |stopped| {
        let mut thread = stopped.borrow()?;
        let protection = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let code_at = map(&mut thread, entrance, protection, None)?;
        let prepared = (|| {
            thread.write(code_at, &path)?;
            let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
            let arguments = [libc::AT_FDCWD as u64, code_at, flags, 0, 0, 0];
            let file = thread.system_call(entrance, "openat", libc::SYS_openat, arguments)?;
            let cell_at = map(&mut thread, entrance, libc::PROT_READ as u64, Some(file));
            thread.system_call(entrance, "close", libc::SYS_close, [file, 0, 0, 0, 0, 0])?;
            let cell_at = cell_at?;
            let (code, entries) = machine::code(cell_at);
            thread.write(code_at, &code)?;
            Ok(entries)
        })();
        let entries = match prepared {
            Ok(entries) => entries,
            Err(error) => {
                // Nothing jumps there yet.
                let _ = unmap(&mut thread, entrance, code_at);
                return Err(error);
            }
        };
        // The first function is what tells that a process is patched: it is changed last.
        for (index, range) in functions.iter().rev() {
            thread.write(range.start, &machine::jump(code_at + entries[*index]))?;
        }
        Ok(())
    })
}

/// Gives a process its own clock back, and takes away what was mapped into it for the cell. Does
/// nothing to one that is not patched.
pub fn restore(pid: u32, cell: &Path) -> Result<(), Error> {
    let image = image(pid)?;
    let cell_at = mapping(pid, cell)?;
    let Some(code_at) = target(&image).map(|to| to & !(PAGE - 1)) else {
        return Ok(());
    };
    let Some(cell_at) = cell_at else {
        return Ok(());
    };
    // All processes have the same vDSO, and this one's is whole.
    let whole = self::image(std::process::id())?;
    let entrance = entrance(pid, &image)?;
    let functions = functions(pid, &image)?;
    let mut ranges: Vec<Range<u64>> = functions.iter().map(|(_, range)| range.clone()).collect();
    ranges.push(code_at..code_at + PAGE);
    while_still(pid, &ranges, |stopped| {
        let mut thread = stopped.borrow()?;
        for (_, range) in &functions {
            let ours = range.start - image.base() + whole.base();
            let bytes = whole.bytes(ours..ours + machine::JUMP as u64).ok_or_else(|| {
                Error::Unfit { pid, reason: "its vDSO is not this program's".into() }
            })?;
            thread.write(range.start, bytes)?;
        }
        unmap(&mut thread, entrance, code_at)?;
        unmap(&mut thread, entrance, cell_at.start)
    })
}

/// Has a borrowed thread map a page: of a file, or of nothing.
fn map(
    thread: &mut Borrowed<'_>,
    entrance: u64,
    protection: u64,
    file: Option<u64>,
) -> Result<u64, Error> {
    let (flags, file) = match file {
        Some(file) => (libc::MAP_SHARED, file),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, u64::MAX),
    };
    let arguments = [0, PAGE, protection, flags as u64, file, 0];
    thread.system_call(entrance, "mmap", libc::SYS_mmap, arguments)
}

fn unmap(thread: &mut Borrowed<'_>, entrance: u64, at: u64) -> Result<(), Error> {
    thread.system_call(entrance, "munmap", libc::SYS_munmap, [at, PAGE, 0, 0, 0, 0]).map(drop)
}

/// The clock of a process beside that of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// When, by this process's clock, in nanoseconds since 1970: the middle of the call.
    pub at_ns: i64,
    /// How far the process's clock was ahead of it.
    pub offset_ns: i64,
    /// How far off both may be, either way: half of what the call took.
    pub error_ns: u64,
}

impl fmt::Display for Reading {
    /// `-600.000 s ± 0.1 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = (self.error_ns as f64 / 1e6).max(0.01);
        match self.offset_ns {
            ns if ns.unsigned_abs() < 1_000_000_000 => write!(f, "{:+.3} ms", ns as f64 / 1e6)?,
            ns => write!(f, "{:+.3} s", ns as f64 / 1e9)?,
        }
        write!(f, " ± {ms:.2} ms")
    }
}

/// Reads the time of day in a process as the process does: one of its threads is stopped and calls
/// the function of the vDSO that all programs call, on a stack of its own.
pub fn read_clock(pid: u32) -> Result<Reading, Error> {
    let image = image(pid)?;
    let entrance = entrance(pid, &image)?;
    let function = image.function(machine::FUNCTIONS[0]).ok_or_else(|| Error::Unfit {
        pid,
        reason: format!("its vDSO has no {}", machine::FUNCTIONS[0]),
    })?;
    let read = || {
        let mut stopped = Stopped::one(pid)?;
        let mut thread = stopped.borrow()?;
        let code = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let trap = map(&mut thread, entrance, code, None)?;
        let stack =
            match map(&mut thread, entrance, (libc::PROT_READ | libc::PROT_WRITE) as u64, None) {
                Ok(stack) => stack,
                Err(error) => {
                    let _ = unmap(&mut thread, entrance, trap);
                    return Err(error);
                }
            };
        let read = (|| {
            thread.write(trap, machine::BREAKPOINT)?;
            let arguments = [libc::CLOCK_REALTIME as u64, stack];
            let (result, span) =
                thread.call(function.start, arguments, stack + PAGE, trap, crate::clock::now_ns)?;
            if result != 0 {
                let source = io::Error::from_raw_os_error(-result as i32);
                return Err(Error::Call { pid, name: "clock_gettime", source });
            }
            let seconds = i64::from_le_bytes(thread.read(stack)?);
            let nanoseconds = i64::from_le_bytes(thread.read(stack + 8)?);
            let told = seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds);
            let half = (span.after - span.before) / 2;
            Ok(Reading {
                at_ns: span.before + half,
                offset_ns: told - (span.before + half),
                error_ns: half as u64 + 1,
            })
        })();
        unmap(&mut thread, entrance, stack)?;
        unmap(&mut thread, entrance, trap)?;
        read
    };
    patiently(|| as_tracer(read))
}
