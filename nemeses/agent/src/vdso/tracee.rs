//! A process that stands still, and a thread of it that does something for us meanwhile.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::machine::{self, Registers};
use super::patch::Error;
use super::ptrace::{self, Tid, Wait};

/// How long a thread may take to stop. One that waits for a disk stops only after that, and one
/// that waits for a child to begin a program only then.
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// How long a thread may take for what it does for us: a few microseconds of work on a machine
/// that may be busy.
const WORK_WITHIN: Duration = Duration::from_secs(4);

/// Signals that tell of what the thread itself does; those must get through.
const SYNCHRONOUS: [i32; 6] =
    [libc::SIGILL, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV, libc::SIGSYS];

/// All others, as the kernel keeps them: signal `n` as bit `n - 1`. Those of them that no thread can
/// block come all the same.
const ASYNCHRONOUS: u64 = {
    let mut mask = u64::MAX;
    let mut index = 0;
    while index < SYNCHRONOUS.len() {
        mask &= !(1 << (SYNCHRONOUS[index] - 1));
        index += 1;
    }
    mask
};

/// Runs `work` in a thread that may become a tracer. Whatever it leaves attached or about to stop,
/// the kernel lets go when that thread ends.
pub(super) fn as_tracer<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Waits until a thread is seen to do something else than run.
fn wait(tid: Tid, within: Duration) -> io::Result<Option<Wait>> {
    /// A stop takes some ten microseconds: so many looks before the processor is given up.
    const EAGER_LOOKS: u32 = 2000;
    let deadline = Instant::now() + within;
    let mut looks = 0;
    loop {
        match ptrace::look(tid)? {
            Wait::Running if Instant::now() >= deadline => return Ok(None),
            Wait::Running if looks < EAGER_LOOKS => std::hint::spin_loop(),
            Wait::Running => std::thread::sleep(Duration::from_micros(100)),
            other => return Ok(Some(other)),
        }
        looks += 1;
    }
}

/// Some or all threads of a process, stopped. They go on when this is dropped.
pub(super) struct Stopped {
    pid: u32,
    threads: BTreeSet<Tid>,
}

impl Stopped {
    /// Stops every thread.
    pub(super) fn all(pid: u32) -> Result<Self, Error> {
        let mut stopped = Self { pid, threads: BTreeSet::new() };
        let mut ended = BTreeSet::new();
        // A thread that still runs may start another: look until there is no new one.
        loop {
            let new: Vec<Tid> = tids(pid)?
                .into_iter()
                .filter(|tid| !stopped.threads.contains(tid) && !ended.contains(tid))
                .collect();
            if new.is_empty() {
                break;
            }
            for tid in new {
                if !stopped.stop(tid)? {
                    ended.insert(tid);
                }
            }
        }
        if stopped.threads.is_empty() { Err(Error::Gone { pid }) } else { Ok(stopped) }
    }

    /// Stops one thread, the first if possible.
    pub(super) fn one(pid: u32) -> Result<Self, Error> {
        let mut stopped = Self { pid, threads: BTreeSet::new() };
        for tid in tids(pid)? {
            if stopped.stop(tid)? {
                return Ok(stopped);
            }
        }
        Err(Error::Gone { pid })
    }

    /// Stops a thread; `false` if it has ended.
    fn stop(&mut self, tid: Tid) -> Result<bool, Error> {
        let failed = self.failed("stop a thread");
        match ptrace::seize(tid) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(false),
            // Threads that have ended and wait for the others cannot be traced either.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                return if is_zombie(self.pid, tid) {
                    Ok(false)
                } else {
                    Err(Error::NotAllowed { pid: self.pid, tracer: tracer(self.pid) })
                };
            }
            other => other.map_err(&failed)?,
        }
        ptrace::interrupt(tid).map_err(&failed)?;
        loop {
            match wait(tid, STOP_WITHIN).map_err(&failed)? {
                Some(Wait::Stop) => break,
                // A signal was on its way: it is delivered, and the stop comes next.
                Some(Wait::Signal(signal)) => ptrace::resume(tid, signal).map_err(&failed)?,
                Some(Wait::Gone) => return Ok(false),
                Some(Wait::Running) | None => return Err(Error::Stuck { pid: self.pid }),
            }
        }
        self.threads.insert(tid);
        Ok(true)
    }

    /// Sees to it that no thread is at one of these addresses, nor in a handler of a signal that came
    /// there, so that the bytes there may be changed; `false` if that cannot be had now.
    pub(super) fn clear(&self, ranges: &[Range<u64>]) -> Result<bool, Error> {
        for tid in &self.threads {
            if !self.leads_out(*tid, ranges).map_err(self.failed("look at a thread"))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lets a thread that is at one of these addresses go on to the end of what it does there.
    /// `false` if it does not end soon, or if the innermost part of its stack looks as if a signal
    /// had interrupted it there. (Bare addresses mean nothing: stacks are full of old ones.)
    fn leads_out(&self, tid: Tid, ranges: &[Range<u64>]) -> io::Result<bool> {
        /// Telling the time takes some hundred instructions.
        const STEPS_MAX: u32 = 5000;
        /// A signal frame with the largest registers there are, and what a handler needs.
        const STACK_LOOK: usize = 16 << 10;
        let hit = |address: u64| ranges.iter().any(|range| range.contains(&address));
        let (at, _) = machine::position(&ptrace::registers(tid)?);
        if hit(at) {
            let blocked = ptrace::blocked(tid)?;
            ptrace::set_blocked(tid, blocked | ASYNCHRONOUS)?;
            let left = (|| {
                for _ in 0..STEPS_MAX {
                    ptrace::step(tid)?;
                    if wait(tid, WORK_WITHIN)? != Some(Wait::Signal(libc::SIGTRAP)) {
                        return Ok(false);
                    }
                    if !hit(machine::position(&ptrace::registers(tid)?).0) {
                        return Ok(true);
                    }
                }
                Ok(false)
            })();
            ptrace::set_blocked(tid, blocked)?;
            if !matches!(left, Ok(true)) {
                return left;
            }
        }
        let (_, stack) = machine::position(&ptrace::registers(tid)?);
        let memory = File::open(format!("/proc/{}/mem", self.pid))?;
        let mut words = vec![0; STACK_LOOK];
        // What cannot be read is no stack.
        let read = memory.read_at(&mut words, stack & !7).unwrap_or(0);
        let words = words[..read].chunks_exact(8).filter_map(|word| word.try_into().ok());
        let words: Vec<u64> = words.map(u64::from_le_bytes).collect();
        let interrupted = |index| hit(words[index]) && machine::is_saved_position(&words[index..]);
        Ok(!(0..words.len()).any(interrupted))
    }

    fn failed(&self, attempted: &'static str) -> impl Fn(io::Error) -> Error + use<> {
        let pid = self.pid;
        move |source| Error::Trace { pid, attempted, source }
    }

    /// Borrows a stopped thread.
    pub(super) fn borrow(&mut self) -> Result<Borrowed<'_>, Error> {
        let tid = *self.threads.first().ok_or(Error::Gone { pid: self.pid })?;
        let failed = self.failed("borrow a thread");
        let saved = ptrace::registers(tid).map_err(&failed)?;
        let blocked = ptrace::blocked(tid).map_err(&failed)?;
        ptrace::set_blocked(tid, blocked | ASYNCHRONOUS).map_err(failed)?;
        Ok(Borrowed { stopped: self, tid, saved, blocked, deferred: Vec::new() })
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for tid in &self.threads {
            // One that was killed meanwhile is gone already.
            let _ = ptrace::detach(*tid);
        }
    }
}

/// A stopped thread that works for us. When this is dropped it is as it was before.
pub(super) struct Borrowed<'a> {
    stopped: &'a mut Stopped,
    tid: Tid,
    saved: Registers,
    blocked: u64,
    /// Signals that came in spite of everything (SIGSTOP), for later.
    deferred: Vec<i32>,
}

/// When a call was begun and when it was seen to be over.
pub(super) struct Span<T> {
    pub(super) before: T,
    pub(super) after: T,
}

impl Borrowed<'_> {
    fn failed(&self, attempted: &'static str) -> impl Fn(io::Error) -> Error + use<> {
        self.stopped.failed(attempted)
    }

    /// Writes bytes into the process, even where it may not write itself.
    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        let failed = self.failed("write into the memory");
        for (index, chunk) in bytes.chunks(8).enumerate() {
            let at = address + 8 * index as u64;
            let mut word = [0; 8];
            if chunk.len() < 8 {
                word = self.read(at)?;
            }
            word[..chunk.len()].copy_from_slice(chunk);
            ptrace::poke(self.tid, at, u64::from_le_bytes(word)).map_err(&failed)?;
        }
        Ok(())
    }

    /// Reads bytes of the process.
    pub(super) fn read<const N: usize>(&self, address: u64) -> Result<[u8; N], Error> {
        let failed = self.failed("read the memory");
        let memory = File::open(format!("/proc/{}/mem", self.stopped.pid));
        let mut bytes = [0; N];
        let memory = memory.map_err(&failed)?;
        memory.read_exact_at(&mut bytes, address).map_err(failed)?;
        Ok(bytes)
    }

    /// Has the thread make a system call, by the instruction at an address.
    pub(super) fn system_call(
        &mut self,
        instruction: u64,
        name: &'static str,
        number: libc::c_long,
        arguments: [u64; 6],
    ) -> Result<u64, Error> {
        let mut registers = self.saved;
        machine::prepare_system_call(&mut registers, instruction, number, arguments);
        ptrace::set_registers(self.tid, &registers).map_err(self.failed("set registers"))?;
        self.go(ptrace::step)?;
        let registers = ptrace::registers(self.tid).map_err(self.failed("read registers"))?;
        let result = machine::returned(&registers);
        if (-4095..0).contains(&result) {
            let source = io::Error::from_raw_os_error(-result as i32);
            return Err(Error::Call { pid: self.stopped.pid, name, source });
        }
        Ok(result as u64)
    }

    /// Has the thread call a function, on a stack that ends at `stack_end`, to return to a
    /// breakpoint at `return_to`. `clock` is read just before and just after.
    pub(super) fn call<T>(
        &mut self,
        function: u64,
        arguments: [u64; 2],
        stack_end: u64,
        return_to: u64,
        clock: impl Fn() -> T,
    ) -> Result<(i64, Span<T>), Error> {
        let mut registers = self.saved;
        machine::prepare_call(&mut registers, function, arguments, stack_end, return_to);
        if let Some(at) = machine::return_on_stack(stack_end) {
            self.write(at, &return_to.to_le_bytes())?;
        }
        ptrace::set_registers(self.tid, &registers).map_err(self.failed("set registers"))?;
        let before = clock();
        self.go(|tid| ptrace::resume(tid, 0))?;
        let after = clock();
        let registers = ptrace::registers(self.tid).map_err(self.failed("read registers"))?;
        let (at, _) = machine::position(&registers);
        if !(return_to..=return_to + 4).contains(&at) {
            return Err(Error::Strayed { pid: self.stopped.pid, at });
        }
        Ok((machine::returned(&registers), Span { before, after }))
    }

    /// Lets the thread go on until it has done what it was prepared for.
    fn go(&mut self, start: impl Fn(Tid) -> io::Result<()>) -> Result<(), Error> {
        start(self.tid).map_err(self.failed("let a thread go on"))?;
        loop {
            match wait(self.tid, WORK_WITHIN).map_err(self.failed("wait for a thread"))? {
                Some(Wait::Signal(libc::SIGTRAP)) => return Ok(()),
                Some(Wait::Signal(signal)) if SYNCHRONOUS.contains(&signal) => {
                    return Err(Error::Faulted { pid: self.stopped.pid, signal });
                }
                Some(Wait::Signal(signal)) => self.deferred.push(signal),
                // The rest of the process was stopped (SIGSTOP); what is asked for goes first.
                Some(Wait::Stop) => {}
                Some(Wait::Gone) => return Err(Error::Gone { pid: self.stopped.pid }),
                Some(Wait::Running) | None => {
                    return Err(Error::Stuck { pid: self.stopped.pid });
                }
            }
            start(self.tid).map_err(self.failed("let a thread go on"))?;
        }
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        // Each fails only if the thread has been killed, which is no concern of ours.
        let _ = ptrace::set_registers(self.tid, &self.saved);
        let _ = ptrace::set_blocked(self.tid, self.blocked);
        for signal in &self.deferred {
            let _ = ptrace::signal(self.stopped.pid, self.tid, *signal);
        }
    }
}

/// The threads of a process, the first one first.
fn tids(pid: u32) -> Result<Vec<Tid>, Error> {
    let gone = |_| Error::Gone { pid };
    let entries = fs::read_dir(format!("/proc/{pid}/task")).map_err(gone)?;
    let mut tids: Vec<Tid> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    tids.sort_by_key(|tid| (*tid != pid as Tid, *tid));
    Ok(tids)
}

fn is_zombie(pid: u32, tid: Tid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Who traces a process already; 0 if nobody.
fn tracer(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    line.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
