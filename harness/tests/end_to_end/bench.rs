//! A place to run the binary, and what it said.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tempfile::TempDir;

static TURNS: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A place for results, and the right to use the machine.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let turn = &TURNS[NEXT.fetch_add(1, Ordering::Relaxed) % TURNS.len()];
        let turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        Self { folder: tempfile::tempdir().unwrap(), _turn: turn }
    }

    pub(crate) fn results(&self) -> PathBuf {
        self.folder.path().join("results")
    }

    /// The binary with results here, words split at spaces.
    pub(crate) fn deposed(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_deposed"));
        command
            .args(words.split_whitespace())
            .env("DEPOSED_RESULTS", self.results())
            .env_remove("DEPOSED_CLUSTER")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, words: &str) -> Ran {
        Ran::of(self.deposed(words).output().unwrap())
    }

    pub(crate) fn latest(&self) -> PathBuf {
        self.results().join("latest").canonicalize().unwrap()
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.latest().join(name)).unwrap()).unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Each of these was proven in the latest run, and nothing is left of it.
    #[track_caller]
    pub(crate) fn healed(&self, faults: &[&str]) {
        let results = self.json("results.json");
        for fault in faults {
            let counts = &results["faults"][fault];
            assert!(counts["proven"].as_u64().unwrap() >= 1, "{fault}: {counts}");
            let number = |of: &str| counts[of].as_u64().unwrap();
            assert_eq!(
                number("injected") - number("skipped"),
                number("healed"),
                "{fault}: {counts}"
            );
        }
    }
}

pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let text = [output.stdout, output.stderr].concat();
        Self { code: output.status.code(), text: String::from_utf8_lossy(&text).into_owned() }
    }

    #[track_caller]
    pub(crate) fn ends_with(self, code: u8) -> Self {
        assert_eq!(self.code, Some(i32::from(code)), "{}", self.text);
        self
    }

    #[track_caller]
    pub(crate) fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.text.contains(word), "{word:?} is not said in:\n{}", self.text);
        }
        self
    }
}
