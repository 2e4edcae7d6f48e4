//! Writes the history while the run goes on.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use deposed_history::{Header, Op, jsonl};

use super::Clock;

/// The name of a history that is being recorded, in the run folder.
pub const HISTORY: &str = "history.jsonl";

/// How many bytes are kept before they are handed over unasked.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// Why a history cannot be recorded any further. What was recorded before is kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{action} {}: {reason}", .path.display())]
pub struct RecordError {
    /// What was attempted.
    pub action: &'static str,
    /// The file.
    pub path: PathBuf,
    /// What the system said, and what to do about it.
    pub reason: String,
}

/// The history file of a run.
///
/// Events are collected and handed to the operating system together by [`Recorder::flush`], so
/// that they survive the end of this process, whatever it is. After a failure nothing more is
/// written, and the file ends with the last whole line that was.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    path: PathBuf,
    clock: Clock,
    buffer: Vec<u8>,
    next_index: u64,
    last_time: u64,
    bytes_written: u64,
    /// How many events are in the file, and the time of the last, in nanoseconds.
    written: (u64, u64),
    failed: Option<RecordError>,
}

impl Recorder {
    /// Starts the history of a run in its folder, and the run's clock, whose start is noted in the
    /// header.
    ///
    /// # Errors
    /// If there is a history already, or the file cannot be written.
    pub fn create(folder: &Path, header: Header) -> Result<Self, RecordError> {
        let path = folder.join(HISTORY);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|error| failure("create", &path, &error))?;
        let clock = Clock::start();
        let mut recorder = Self {
            file,
            path,
            clock,
            buffer: Vec::new(),
            next_index: 0,
            last_time: 0,
            bytes_written: 0,
            written: (0, 0),
            failed: None,
        };
        let header = Header { start_wall_ns: Some(clock.start_wall_ns()), ..header };
        jsonl::write_header(&mut recorder.buffer, &header);
        recorder.flush()?;
        Ok(recorder)
    }

    /// The clock events are stamped with.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// How many events were taken.
    pub const fn events(&self) -> u64 {
        self.next_index
    }

    /// Takes an event: gives it its index, and a time no earlier than that of the event before it.
    ///
    /// Events reach this in an order that is sound by itself: an invocation before it is
    /// dispatched, a completion after it has returned. Where a completion arrives with an earlier
    /// stamp than an invocation already taken, moving it to the same time makes its interval wider
    /// by the time it lay in the queue, never narrower.
    pub fn append(&mut self, op: &mut Op) {
        op.index = self.next_index;
        op.time = op.time.max(self.last_time);
        if self.failed.is_some() {
            return;
        }
        self.next_index += 1;
        self.last_time = op.time;
        jsonl::write_op(&mut self.buffer, op);
        if self.buffer.len() >= BUFFER_BYTES_MAX {
            // The next flush reports the error.
            let _ = self.flush();
        }
    }

    /// Hands everything taken so far to the operating system.
    ///
    /// # Errors
    /// If that fails, or has failed before.
    pub fn flush(&mut self) -> Result<(), RecordError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(&self.buffer);
        match written {
            Ok(()) => {
                self.bytes_written += self.buffer.len() as u64;
                self.written = (self.next_index, self.last_time);
                self.buffer.clear();
                Ok(())
            }
            Err(error) => Err(self.fail("write", &error)),
        }
    }

    /// Makes sure that everything taken is on the disk.
    ///
    /// # Errors
    /// If that fails, or writing has failed before.
    pub fn finish(&mut self) -> Result<(), RecordError> {
        self.flush()?;
        self.file.sync_all().map_err(|error| self.fail("sync", &error))
    }

    fn fail(&mut self, action: &'static str, error: &io::Error) -> RecordError {
        let mut error = failure(action, &self.path, error);
        let (events, last) = self.written;
        error.reason += &format!(
            "; recording stopped after {events} events, {:.1} s into the run: these are kept, and \
             `deposed check` judges them",
            last as f64 / 1e9
        );
        // Whole lines only. Where even this fails, readers drop a torn last line.
        let _ = self.file.set_len(self.bytes_written);
        self.buffer = Vec::new();
        self.failed = Some(error.clone());
        error
    }
}

fn failure(action: &'static str, path: &Path, error: &io::Error) -> RecordError {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " (the disk is full: free some space, or give another place with --results)"
        }
        io::ErrorKind::PermissionDenied => " (give a place you may write to with --results)",
        _ => "",
    };
    RecordError { action, path: path.to_owned(), reason: format!("{error}{hint}") }
}
