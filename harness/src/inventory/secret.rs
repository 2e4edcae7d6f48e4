//! Passwords and passphrases, which never show.

use std::fmt;

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
}
