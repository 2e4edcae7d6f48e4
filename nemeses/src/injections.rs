//! `schedule.jsonl`: what was injected, when, and for how long, so that another run can do the same.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use deposed_core::Choice;
use serde::{Deserialize, Serialize};

/// One injection of a lane: a line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Injection {
    /// When it was chosen, in milliseconds since its lane began.
    pub at_ms: u64,
    /// How long it was to be held.
    pub hold_ms: u64,
    /// The lane, as for `--faults`: `partition:one`.
    pub lane: String,
    /// What was chosen.
    pub choice: Choice,
}

/// The injections of a run that is under way, written down by its lanes.
#[derive(Debug, Clone)]
pub struct Injections {
    file: Arc<Mutex<File>>,
}

impl Injections {
    /// Its name in the run folder.
    pub const NAME: &str = "schedule.jsonl";

    /// Starts the file.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: Arc::new(Mutex::new(File::create(path)?)) })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn append(&self, injection: &Injection) -> io::Result<()> {
        let mut line = serde_json::to_string(injection)?;
        line.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes())
    }

    /// Reads a schedule. Blank lines are passed over.
    ///
    /// # Errors
    /// With every line that is none, and what is wrong with it.
    pub fn parse(text: &str) -> Result<Vec<Injection>, Vec<String>> {
        let mut injections = Vec::new();
        let mut mistakes = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str(line) {
                Ok(injection) => injections.push(injection),
                Err(error) => mistakes.push(format!("line {}: {error}", number + 1)),
            }
        }
        if mistakes.is_empty() { Ok(injections) } else { Err(mistakes) }
    }

    /// The lanes of a schedule as for `--faults`, in the order of their first injection.
    pub fn lanes(injections: &[Injection]) -> String {
        let mut lanes: Vec<&str> = Vec::new();
        for Injection { lane, .. } in injections {
            if !lanes.contains(&lane.as_str()) {
                lanes.push(lane);
            }
        }
        lanes.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn injection(at_ms: u64, lane: &str) -> Injection {
        let choice = Choice { nodes: vec!["n1".into()], what: serde_json::json!({ "a": 1 }) };
        Injection { at_ms, hold_ms: 1500, lane: lane.into(), choice }
    }

    /// What is written is read back, in its order.
    #[test]
    fn a_schedule_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(Injections::NAME);
        let written = [injection(1, "pause"), injection(2, "kill:one"), injection(3, "pause")];
        let file = Injections::create(&path).unwrap();
        written.iter().for_each(|injection| file.append(injection).unwrap());
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(Injections::parse(&text).unwrap(), written);
        assert_eq!(Injections::lanes(&written), "pause,kill:one");
    }

    /// Every line that is none is told.
    #[test]
    fn every_mistake_has_its_line() {
        let mistakes = Injections::parse("{}\n\nnonsense\n").unwrap_err();
        assert_eq!(mistakes.len(), 2);
        assert!(mistakes[0].starts_with("line 1: missing field"), "{mistakes:?}");
        assert!(mistakes[1].starts_with("line 3: "), "{mistakes:?}");
    }
}
