//! Lines of JSON in a file: what survives a crash of the process.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A file that grows by lines.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens a journal and reads what it holds. A torn last line is cut off.
    pub(crate) fn open<T: DeserializeOwned>(path: PathBuf) -> io::Result<(Self, Vec<T>)> {
        let text = if path.exists() { std::fs::read_to_string(&path)? } else { String::new() };
        let whole = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
        let items = whole.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        file.set_len(whole.len() as u64)?;
        Ok((Self { path, file }, items))
    }

    /// Adds lines in one write.
    pub(crate) fn append<T: Serialize>(&mut self, items: &[T]) -> io::Result<()> {
        self.file.write_all(&lines(items)?)
    }

    /// Replaces all lines at once.
    pub(crate) fn replace<T: Serialize>(&mut self, items: &[T]) -> io::Result<()> {
        write_whole(&self.path, &lines(items)?)?;
        self.file = OpenOptions::new().append(true).open(&self.path)?;
        Ok(())
    }
}

fn lines<T: Serialize>(items: &[T]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for item in items {
        serde_json::to_writer(&mut bytes, item)?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}

/// Reads one small value, if it was ever written.
pub(crate) fn load<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes one small value, all or nothing.
pub(crate) fn store<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    write_whole(path, &serde_json::to_vec(value)?)
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, bytes)?;
    std::fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line torn by a crash is dropped, and what is written next is whole.
    #[test]
    fn a_torn_line_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        std::fs::write(&path, "1\n2\n3").unwrap();
        let (mut journal, items) = Journal::open::<u32>(path.clone()).unwrap();
        assert_eq!(items, [1, 2]);
        journal.append(&[4]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n2\n4\n");
        journal.replace(&[7]).unwrap();
        journal.append(&[8]).unwrap();
        assert_eq!(Journal::open::<u32>(path).unwrap().1, [7, 8]);
    }
}
