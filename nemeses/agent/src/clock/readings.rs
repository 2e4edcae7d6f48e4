//! What a clock was seen to show while a fault was held, kept in a file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::lease::uptime;
use crate::vdso::Reading;

/// How often a clock is read while it is wrong.
pub(crate) const READ_EVERY: Duration = Duration::from_millis(500);

/// How many readings are handed out at most.
const READINGS_MAX: usize = 400;

impl Reading {
    /// One that was taken just now, as [`Readings::figures`] has it.
    pub(crate) fn figure(&self) -> Value {
        json!([0, self.offset_ns, self.error_ns])
    }
}

/// The readings of one injection, oldest first.
pub(crate) struct Readings {
    path: PathBuf,
}

impl Readings {
    /// Those of a fault whose cell is there.
    pub(crate) fn beside(cell: &Path) -> Self {
        Self { path: cell.with_extension("readings") }
    }

    /// Keeps one that was just taken. Without room there are no readings; the fault is held all the same.
    pub(crate) fn keep(&self, offset_ns: i64, error_ns: u64) {
        let Ok(now) = uptime() else { return };
        let line = json!([now.as_millis() as u64, offset_ns, error_ns]);
        let file = File::options().create(true).append(true).open(&self.path);
        let _ = file.and_then(|mut file| writeln!(file, "{line}"));
    }

    /// Those kept so far: how many milliseconds ago each was taken, how far the clock was ahead, and how
    /// far off that may be, both in nanoseconds. The `latest` was taken just now.
    pub(crate) fn figures(&self, latest: Option<Reading>) -> Vec<Value> {
        let now = uptime().unwrap_or_default().as_millis() as u64;
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        let taken: Vec<(u64, i64, u64)> = lines.collect();
        // Of a long hold, evenly chosen ones, and always the latest.
        let step = taken.len().div_ceil(READINGS_MAX).max(1);
        let last = taken.len().saturating_sub(1);
        let chosen = taken.iter().enumerate().filter(|(i, _)| (last - i).is_multiple_of(step));
        chosen
            .map(|(_, (at, offset, error))| json!([now.saturating_sub(*at), offset, error]))
            .chain(latest.map(|reading| reading.figure()))
            .collect()
    }

    /// Forgets them.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings come back in their order, not more than are wanted, the latest among them.
    #[test]
    fn readings_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let readings = Readings::beside(&folder.path().join("a.cell"));
        assert!(readings.figures(None).is_empty());
        for number in 0..1001 {
            readings.keep(number, 5);
        }
        let latest = Reading { at_ns: 9, offset_ns: 2000, error_ns: 7 };
        assert_eq!(readings.figures(Some(latest)).last(), Some(&json!([0, 2000, 7])));
        let figures = readings.figures(None);
        assert!(figures.len() <= READINGS_MAX && figures.len() > READINGS_MAX / 2);
        assert_eq!(figures.last().unwrap()[1], 1000);
        assert!(figures.windows(2).all(|two| two[0][1].as_i64() < two[1][1].as_i64()));
        assert!(figures.windows(2).all(|two| two[0][0].as_u64() >= two[1][0].as_u64()));
        readings.remove().unwrap();
        readings.remove().unwrap();
        assert!(readings.figures(None).is_empty());
    }
}
