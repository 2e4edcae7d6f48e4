//! What patched processes of a node share: a page that says how their clocks differ from the
//! kernel's. It is a file, so that one write moves the clocks of all of them at once, and so that
//! whoever finds it later can set them right without knowing them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

/// Size of the page, in bytes.
const SIZE: usize = 4096;

/// Where the slots begin, their size and their number. The number of the one in force is at 0; it
/// is less than 256, so that no reader sees half of it written.
const SLOTS_AT: u64 = 64;
const SLOT_SIZE: u64 = 32;
const SLOTS: u8 = 126;

/// How a clock differs from the kernel's: at the kernel's time `t` it shows
/// `t + offset + (t - base) * rate`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Setting {
    /// How far ahead it is at `base_ns`, in nanoseconds.
    pub offset_ns: i64,
    /// A time of the kernel's clock, in nanoseconds since 1970.
    pub base_ns: i64,
    /// How much faster it runs, in units of 2^-32.
    pub rate: i64,
}

impl Setting {
    /// A rate in parts per million, in the units of a setting.
    pub fn rate_of_ppm(ppm: f64) -> i64 {
        (ppm / 1e6 * 2_f64.powi(32)) as i64
    }

    /// Its rate in parts per million.
    pub fn ppm(&self) -> f64 {
        self.rate as f64 / 2_f64.powi(32) * 1e6
    }

    /// How far ahead of the kernel's clock it is when that shows `at_ns`.
    pub fn offset_at(&self, at_ns: i64) -> i64 {
        let gained = (i128::from(at_ns - self.base_ns) * i128::from(self.rate)) >> 32;
        self.offset_ns + gained as i64
    }
}

/// A cell, open for writing. There is one writer.
#[derive(Debug)]
pub struct Cell {
    file: File,
    path: PathBuf,
    slot: u8,
}

impl Cell {
    /// Makes one that changes nothing. Everybody may read it: processes open it with the rights of
    /// whoever they run as.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o644).open(path)?;
        // Whatever the umask is.
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        // All of it, now: a page that could not be had later would kill who reads it.
        file.write_all_at(&[0; SIZE], 0)?;
        Ok(Self { file, path: path.to_owned(), slot: 0 })
    }

    /// Opens one that somebody else made.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut slot = [0];
        file.read_exact_at(&mut slot, 0)?;
        Ok(Self { file, path: path.to_owned(), slot: slot[0] % SLOTS })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the clocks of all processes that are patched with it, at once.
    pub fn set(&mut self, setting: Setting) -> io::Result<()> {
        let next = (self.slot + 1) % SLOTS;
        let mut slot = [0; SLOT_SIZE as usize];
        let words = [setting.offset_ns, setting.base_ns, setting.rate];
        for (bytes, word) in slot.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.file.write_all_at(&slot, SLOTS_AT + SLOT_SIZE * u64::from(next))?;
        // Not before the slot, whatever order the processor prefers.
        fence(Ordering::SeqCst);
        self.file.write_all_at(&[next], 0)?;
        self.slot = next;
        Ok(())
    }

    /// What is in force.
    pub fn setting(&self) -> io::Result<Setting> {
        let mut words = [[0; 8]; 3];
        for (index, word) in words.iter_mut().enumerate() {
            let at = SLOTS_AT + SLOT_SIZE * u64::from(self.slot) + 8 * index as u64;
            self.file.read_exact_at(word, at)?;
        }
        let [offset_ns, base_ns, rate] = words.map(i64::from_le_bytes);
        Ok(Setting { offset_ns, base_ns, rate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is set is in force, for whoever opens the cell later too, however often it is set.
    #[test]
    fn settings_are_in_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cell");
        let mut cell = Cell::create(&path).unwrap();
        assert_eq!(cell.setting().unwrap(), Setting::default());
        for round in 0..300 {
            let setting = Setting { offset_ns: -round, base_ns: round * 7, rate: round << 20 };
            cell.set(setting).unwrap();
            assert_eq!(Cell::open(&path).unwrap().setting().unwrap(), setting);
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), SIZE as u64);
        assert!(Cell::create(&path).is_err(), "a cell in use is not made anew");
    }

    /// Offset and rate add up as the code in the process adds them.
    #[test]
    fn offsets_add_up() {
        let ten_percent =
            Setting { offset_ns: 5_000, base_ns: 1_000_000, rate: Setting::rate_of_ppm(100_000.0) };
        assert_eq!(ten_percent.offset_at(1_000_000), 5_000);
        assert!((ten_percent.offset_at(2_000_000) - 105_000).abs() <= 1);
        let slow = Setting { rate: Setting::rate_of_ppm(-500.0), ..ten_percent };
        assert!((slow.offset_at(3_000_000) - 4_000).abs() <= 1);
    }
}
