//! A node in one word: `[NAME=][USER@]HOST[:PORT]`.

use super::settings::{NodeEntry, Settings};

/// Reads a word of `--nodes` or a line of `--nodes-file`. Errs with what is wrong.
pub(super) fn parse(word: &str, at: &str) -> Result<NodeEntry, String> {
    let wrong = |why: &str| format!("{at}: `{word}` {why}; write [NAME=][USER@]HOST[:PORT]");
    let (name, rest) = match word.split_once('=') {
        Some((name, rest)) => (Some(name), rest),
        None => (None, word),
    };
    let (user, rest) = match rest.rsplit_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, rest),
    };
    if user.is_some_and(|user| user.contains(':')) {
        // Not the word itself: it holds a password.
        return Err(format!(
            "{at}: a password does not go into a node's address; say --password env:NAME"
        ));
    }
    let (host, port) = if let Some(rest) = rest.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(|| wrong("has no closing bracket"))?;
        (host, rest.strip_prefix(':'))
    } else if rest.matches(':').count() > 1 {
        // An IPv6 address without brackets can have no port.
        (rest, None)
    } else {
        rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port)))
    };
    if host.is_empty() {
        return Err(wrong("has no host"));
    }
    let port = match port.map(str::parse) {
        Some(Ok(0) | Err(_)) => return Err(wrong("has a port that is none")),
        Some(Ok(port)) => Some(port),
        None => None,
    };
    Ok(NodeEntry {
        at: at.to_owned(),
        name: Some(name.unwrap_or(host).to_owned()),
        addr: Some(host.to_owned()),
        settings: Settings { user: user.map(str::to_owned), port, ..Settings::default() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_users_ports_and_both_kinds_of_address_are_understood() {
        for (word, name, addr, user, port) in [
            ("n1", "n1", "n1", None, None),
            ("n1=10.0.0.1:22", "n1", "10.0.0.1", None, Some(22)),
            ("n1=ada@[fd00::1]:2222", "n1", "fd00::1", Some("ada"), Some(2222)),
            ("fd00::1", "fd00::1", "fd00::1", None, None),
            ("ada@host", "host", "host", Some("ada"), None),
        ] {
            let entry = parse(word, "--nodes").unwrap();
            assert_eq!(entry.name.as_deref(), Some(name));
            assert_eq!(entry.addr.as_deref(), Some(addr));
            assert_eq!(
                (entry.settings.user.as_deref(), entry.settings.port),
                (user, port),
                "{word}"
            );
        }
        for word in ["", "n1=", "host:0", "host:x", "host:70000", "[::1"] {
            assert!(parse(word, "--nodes").unwrap_err().contains("write [NAME=]"), "{word}");
        }
    }

    #[test]
    fn a_password_in_an_address_is_refused_and_not_repeated() {
        let error = parse("ada:hunter2@host", "--nodes").unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
