//! Compresses a recorded history.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read};
use std::path::{Path, PathBuf};

use super::HISTORY;

/// The name of a sealed history, in the run folder.
pub const SEALED: &str = "history.jsonl.zst";

/// How hard to compress: on JSON lines, higher levels cost much and gain little.
const LEVEL: i32 = 3;

/// Why a history was not sealed. The plain file is still there, unless it never was.
#[derive(Debug, thiserror::Error)]
#[error("{action} {}: {source}", .path.display())]
pub struct SealError {
    /// What was attempted.
    pub action: &'static str,
    /// On what.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// Turns `history.jsonl` in a run folder into `history.jsonl.zst` and returns its path. The plain
/// file is removed once the sealed one is on the disk and was read back whole. Blocks.
///
/// # Errors
/// If anything goes wrong; the plain file is kept then.
pub fn seal(folder: &Path) -> Result<PathBuf, SealError> {
    let plain = folder.join(HISTORY);
    let sealed = folder.join(SEALED);
    let beside = folder.join(format!(".{SEALED}.new"));
    let done = compress(&plain, &beside)
        .map_err(|source| (source, "compress", &plain))
        .and_then(|()| verify(&plain, &beside).map_err(|source| (source, "verify", &beside)))
        .and_then(|()| replace(folder, &beside, &sealed, &plain).map_err(|s| (s, "seal", &sealed)));
    match done {
        Ok(()) => Ok(sealed),
        Err((source, action, path)) => {
            let _ = fs::remove_file(&beside);
            Err(SealError { action, path: path.clone(), source })
        }
    }
}

fn compress(plain: &Path, sealed: &Path) -> io::Result<()> {
    let mut input = File::open(plain)?;
    let output = BufWriter::new(File::create(sealed)?);
    let mut encoder = zstd::Encoder::new(output, LEVEL)?;
    encoder.include_checksum(true)?;
    io::copy(&mut input, &mut encoder)?;
    encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// Compares what the sealed file holds with the plain one.
fn verify(plain: &Path, sealed: &Path) -> io::Result<()> {
    let mut plain = BufReader::new(File::open(plain)?);
    let mut unsealed = zstd::Decoder::new(File::open(sealed)?)?;
    let (mut ours, mut theirs) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let read = plain.read(&mut ours)?;
        if read == 0 {
            return match unsealed.read(&mut theirs)? {
                0 => Ok(()),
                _ => Err(io::Error::other("it is longer than the plain file")),
            };
        }
        unsealed.read_exact(&mut theirs[..read])?;
        if ours[..read] != theirs[..read] {
            return Err(io::Error::other("it differs from the plain file"));
        }
    }
}

fn replace(folder: &Path, beside: &Path, sealed: &Path, plain: &Path) -> io::Result<()> {
    fs::rename(beside, sealed)?;
    File::open(folder)?.sync_all()?;
    fs::remove_file(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_history_holds_the_same_bytes_and_the_plain_file_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> =
            (0..200_000_u32).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        fs::write(folder.path().join(HISTORY), &bytes).unwrap();
        let sealed = seal(folder.path()).unwrap();
        assert_eq!(zstd::decode_all(File::open(sealed).unwrap()).unwrap(), bytes);
        assert!(!folder.path().join(HISTORY).exists());
    }

    #[test]
    fn a_sealed_file_that_differs_is_found_out() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, sealed) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&plain, b"one\ntwo\n").unwrap();
        for other in ["one\n", "one\ntwo\nthree\n", "one\ntoo\n"] {
            fs::write(&sealed, zstd::encode_all(other.as_bytes(), 1).unwrap()).unwrap();
            assert!(verify(&plain, &sealed).is_err(), "{other:?}");
        }
    }

    #[test]
    fn a_history_that_cannot_be_sealed_stays_plain() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(HISTORY), b"line\n").unwrap();
        // A folder in the way of the new file stands for any reason not to write it.
        fs::create_dir(folder.path().join(format!(".{SEALED}.new"))).unwrap();
        let error = seal(folder.path()).unwrap_err();
        assert_eq!(error.action, "compress");
        assert_eq!(fs::read(folder.path().join(HISTORY)).unwrap(), b"line\n");
    }
}
