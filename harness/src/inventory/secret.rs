//! Passwords and passphrases: where they come from, and that they never show.

use std::fmt;
use std::path::{Path, PathBuf};

use super::Surroundings;

/// A password or passphrase. `Debug` and `Serialize` show that there is one, never what it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one call that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl serde::Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("hidden")
    }
}

/// Where a secret is to be found. What users write is this, never the secret itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(try_from = "String")]
pub enum SecretSource {
    /// `env:NAME`: an environment variable.
    Env(String),
    /// `file:PATH`: the first line of a file that only its owner can read.
    File(PathBuf),
    /// `prompt`: asked for at the terminal, once.
    Prompt,
}

/// Said of anything else, without repeating it: it may well be the secret.
#[derive(Debug, thiserror::Error)]
#[error("a secret is not written down here: say env:NAME, file:PATH or prompt")]
pub struct NotASource;

impl TryFrom<String> for SecretSource {
    type Error = NotASource;

    fn try_from(text: String) -> Result<Self, NotASource> {
        text.parse()
    }
}

impl std::str::FromStr for SecretSource {
    type Err = NotASource;

    fn from_str(text: &str) -> Result<Self, NotASource> {
        match text.split_once(':') {
            None if text == "prompt" => Ok(Self::Prompt),
            Some(("env", name)) if !name.is_empty() => Ok(Self::Env(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            _ => Err(NotASource),
        }
    }
}

impl SecretSource {
    /// Finds the secret; `what` is asked for at the terminal. Errs with what to do.
    pub(super) fn find(&self, what: &str, around: &Surroundings) -> Result<Secret, String> {
        match self {
            Self::Env(name) => (around.env)(name)
                .map(Secret)
                .ok_or_else(|| format!("the environment variable {name} is not set")),
            Self::File(path) => read(path),
            Self::Prompt => (around.ask)(what)
                .map(Secret)
                .map_err(|error| format!("cannot ask at the terminal: {error}; use env:NAME")),
        }
    }
}

fn read(path: &Path) -> Result<Secret, String> {
    use std::os::unix::fs::PermissionsExt;
    let shown = path.display();
    let unreadable = |error: std::io::Error| format!("{shown} cannot be read: {error}");
    let mode = std::fs::metadata(path).map_err(unreadable)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(format!("{shown} can be read by others: chmod 600 {shown}"));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() {
        return Err(format!("the first line of {shown} is empty"));
    }
    Ok(Secret::new(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_neither_in_debug_nor_in_json() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?}"), "Secret(hidden)");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"hidden\"");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn a_secret_written_in_the_clear_is_refused_without_being_repeated() {
        let error = "hunter2".parse::<SecretSource>().unwrap_err().to_string();
        assert!(!error.contains("hunter2"));
        assert_eq!("env:X".parse::<SecretSource>().unwrap(), SecretSource::Env("X".to_owned()));
        assert!("env:".parse::<SecretSource>().is_err());
    }

    #[test]
    fn a_file_that_others_can_read_holds_no_secret() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "hunter2\nnext\n").unwrap();
        assert_eq!(read(file.path()).unwrap().expose(), "hunter2");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read(file.path()).unwrap_err().contains("chmod 600"));
    }
}
