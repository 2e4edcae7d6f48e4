//! What would have to be undone if this process died now: a file of the run folder, written before
//! anything is applied, and synced if the nodes do not know by themselves how to undo it.
//!
//! Lines are JSON objects, either an [`Entry`] or `{"undone": ID}`. A line that was cut short by a
//! crash was not acted upon and is passed over.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// A script that undoes a fault on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// The node.
    pub node: String,
    /// An idempotent script for `/bin/sh`, to be run as root.
    pub script: String,
}

/// A fault that may be in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Which injection of the run.
    pub id: u64,
    /// The fault.
    pub fault: String,
    /// The nodes it touches.
    pub nodes: Vec<String>,
    /// How to undo it, where that stands in no journal of a node.
    pub undo: Vec<Undo>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Entry(Entry),
    Undone { undone: u64 },
}

/// The journal of one run, shared by its lanes.
#[derive(Debug, Clone)]
pub struct Journal {
    file: Arc<Mutex<File>>,
}

impl Journal {
    /// Its name in the run folder.
    pub const NAME: &str = "undo.jsonl";

    /// Opens a journal for appending; makes it if it is not there.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::options().create(true).append(true).open(path)?;
        if file.metadata()?.len() > 0 {
            // Its last line may have been cut short.
            file.write_all(b"\n")?;
        }
        Ok(Self { file: Arc::new(Mutex::new(file)) })
    }

    /// Records that a fault is about to be applied; durably, if something is to be undone from here. What
    /// nodes have in journals of their own need not wait for this machine's disk, which may be busy.
    ///
    /// # Errors
    /// If it cannot be written; then the fault must not be applied.
    pub async fn begin(&self, entry: Entry) -> io::Result<()> {
        let sync = !entry.undo.is_empty();
        self.append(Line::Entry(entry), sync).await
    }

    /// Records that a fault was seen to be gone.
    ///
    /// # Errors
    /// If it cannot be written; then the fault is undone once more, in vain, by whoever heals next.
    pub async fn undone(&self, id: u64) -> io::Result<()> {
        self.append(Line::Undone { undone: id }, true).await
    }

    async fn append(&self, line: Line, sync: bool) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        let file = Arc::clone(&self.file);
        let write = move || {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(&bytes)?;
            if sync { file.sync_data() } else { Ok(()) }
        };
        tokio::task::spawn_blocking(write).await.map_err(io::Error::other)?
    }
}

/// The faults of a journal that may still be in force, in the order they were begun.
///
/// # Errors
/// If it cannot be read. A journal that is not there has nothing in it.
pub fn pending(path: &Path) -> io::Result<Vec<Entry>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut pending: BTreeMap<u64, Entry> = BTreeMap::new();
    for line in BufReader::new(file).split(b'\n') {
        match serde_json::from_slice(&line?) {
            Ok(Line::Entry(entry)) => {
                pending.insert(entry.id, entry);
            }
            Ok(Line::Undone { undone }) => {
                pending.remove(&undone);
            }
            Err(_) => {}
        }
    }
    Ok(pending.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u64) -> Entry {
        Entry {
            id,
            fault: "pause".into(),
            nodes: vec!["n1".into()],
            undo: vec![Undo { node: "n1".into(), script: "kill -CONT 7\n".into() }],
        }
    }

    /// What was begun and not undone is pending, even if the last line was cut short.
    #[tokio::test]
    async fn what_is_not_undone_is_pending() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(Journal::NAME);
        assert!(pending(&path).unwrap().is_empty());
        let journal = Journal::open(&path).unwrap();
        for id in 1..=3 {
            journal.begin(entry(id)).await.unwrap();
        }
        journal.undone(2).await.unwrap();
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"{\"undone\":1")
            .unwrap();
        assert_eq!(pending(&path).unwrap(), [entry(1), entry(3)]);
    }
}
