//! SSH keys of a lab: made afresh, never the user's.

use std::path::Path;
use std::process::Command;

use crate::error::LabError;
use crate::packages::program;

/// A key pair in OpenSSH's text format.
#[derive(Debug, Clone)]
pub(crate) struct KeyPair {
    /// The private key file's content.
    pub(crate) private: String,
    /// The public key's line.
    pub(crate) public: String,
}

/// Makes a key pair at `path` and `path.pub`.
pub(crate) fn make(path: &Path, comment: &str) -> Result<KeyPair, LabError> {
    let output = Command::new(program("ssh-keygen")?)
        .args(["-q", "-t", "ed25519", "-N", "", "-C", comment, "-f"])
        .arg(path)
        .output()
        .map_err(|error| LabError::io("run ssh-keygen", error))?;
    if !output.status.success() {
        return Err(LabError::Command {
            command: format!("ssh-keygen -f {}", path.display()),
            output: String::from_utf8_lossy(&output.stderr).trim().into(),
        });
    }
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| LabError::path("read", path, error))
    };
    Ok(KeyPair { private: read(path)?, public: read(&path.with_extension("pub"))? })
}
