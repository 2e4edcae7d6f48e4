//! The user's OpenSSH configuration, as far as it says where a host is and who logs in.
//!
//! `Host`, `Include`, `HostName`, `User`, `Port`, `IdentityFile` and `IdentitiesOnly` are honoured. What
//! leads through another host or program cannot be followed and is refused for the hosts it concerns;
//! what else would change a login is noted.

use std::path::{Path, PathBuf};

use super::host_pattern;

/// How deep files may include one another, as in OpenSSH.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Without these the host cannot be reached as the user means it to be.
const REFUSED: [&str; 2] = ["proxyjump", "proxycommand"];

/// These would change who is talked to or how; they are not followed.
const NOTED: [&str; 14] = [
    "addressfamily",
    "bindaddress",
    "bindinterface",
    "certificatefile",
    "ciphers",
    "hostkeyalgorithms",
    "hostkeyalias",
    "identityagent",
    "kexalgorithms",
    "pkcs11provider",
    "preferredauthentications",
    "securitykeyprovider",
    "stricthostkeychecking",
    "userknownhostsfile",
];

/// A configuration, with its includes read in place.
#[derive(Debug, Default)]
pub(super) struct SshConfig {
    lines: Vec<Line>,
    /// What was passed over for all hosts, a sentence each.
    pub(super) notes: Vec<String>,
}

#[derive(Debug)]
struct Line {
    /// The pattern lists of the `Host` lines above it. All must match.
    hosts: Vec<Vec<String>>,
    keyword: String,
    value: String,
    at: String,
}

/// What the configuration says of one host.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HostConfig {
    pub(super) hostname: Option<String>,
    pub(super) user: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) identity_files: Vec<String>,
    pub(super) identities_only: bool,
    /// Why it cannot be used, with the line and what to do.
    pub(super) refused: Vec<String>,
    /// What was passed over.
    pub(super) noted: Vec<String>,
}

impl SshConfig {
    /// Reads a file; a missing one says nothing. `home` is what `~` stands for.
    pub(super) fn read(file: &Path, home: &Path) -> Result<Self, String> {
        let mut config = Self::default();
        if file.exists() {
            config.include(file, home, &[], 0)?;
        }
        Ok(config)
    }

    /// What holds for a host, by the name the user gave it. The first value of each keyword counts.
    pub(super) fn host(&self, name: &str) -> HostConfig {
        let mut found = HostConfig::default();
        let mut identities_only = None;
        let mut refused_keywords = Vec::new();
        for line in &self.lines {
            let concerns = |list: &Vec<String>| {
                host_pattern::list_matches(list.iter().map(String::as_str), name)
            };
            if !line.hosts.iter().all(concerns) {
                continue;
            }
            let value = || line.value.clone();
            match line.keyword.as_str() {
                "hostname" => drop(found.hostname.get_or_insert_with(value)),
                "user" => drop(found.user.get_or_insert_with(value)),
                "port" if found.port.is_none() => match line.value.parse() {
                    Ok(port) if port > 0 => found.port = Some(port),
                    _ => found.refused.push(format!("{}: `{}` is no port", line.at, line.value)),
                },
                "identityfile" => found.identity_files.push(value()),
                "identitiesonly" => drop(identities_only.get_or_insert_with(value)),
                keyword if REFUSED.contains(&keyword) && !refused_keywords.contains(&keyword) => {
                    refused_keywords.push(keyword);
                    if line.value != "none" {
                        found.refused.push(format!(
                            "{} asks for {keyword} `{}`, which is not supported: give an `addr` that can \
                             be reached directly, or ignore that file with --ssh-config none",
                            line.at, line.value
                        ));
                    }
                }
                keyword if NOTED.contains(&keyword) => {
                    found.noted.push(format!("{}: {keyword} is not followed", line.at));
                }
                _ => {}
            }
        }
        found.identities_only = identities_only.is_some_and(|value| value == "yes");
        if let Some(hostname) = &mut found.hostname {
            *hostname = hostname.replace("%h", name);
        }
        found
    }

    fn include(
        &mut self,
        file: &Path,
        home: &Path,
        outer: &[Vec<String>],
        depth: usize,
    ) -> Result<(), String> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
        let mut hosts = outer.to_vec();
        let mut skipping = false;
        for (number, line) in text.lines().enumerate() {
            let at = format!("{}:{}", file.display(), number + 1);
            let Some((keyword, words)) = parse(line) else { continue };
            match (keyword.as_str(), words.as_slice()) {
                ("host", _) => {
                    hosts = [outer, &[words]].concat();
                    skipping = false;
                }
                ("match", [all]) if all == "all" => {
                    hosts = outer.to_vec();
                    skipping = false;
                }
                ("match", _) => {
                    skipping = true;
                    self.notes.push(format!("{at}: Match is not followed, nor what is under it"));
                }
                _ if skipping => {}
                ("include", _) => {
                    if depth == INCLUDE_DEPTH_MAX {
                        return Err(format!("{at}: includes are nested too deep"));
                    }
                    for pattern in &words {
                        for file in expand(pattern, home) {
                            self.include(&file, home, &hosts, depth + 1)?;
                        }
                    }
                }
                _ => {
                    let value = words.join(" ");
                    self.lines.push(Line { hosts: hosts.clone(), keyword, value, at });
                }
            }
        }
        Ok(())
    }
}

/// A line as keyword, in lower case, and words: `Key word "two words"` or `Key=word`.
fn parse(line: &str) -> Option<(String, Vec<String>)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let end = line.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(line.len());
    let (keyword, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest);
    let mut words: Vec<String> = Vec::new();
    let (mut word, mut quoted, mut started) = (String::new(), false, false);
    for letter in rest.chars() {
        match letter {
            '"' => (quoted, started) = (!quoted, true),
            '#' if !quoted && !started => break,
            letter if letter.is_whitespace() && !quoted => {
                if started {
                    words.push(std::mem::take(&mut word));
                }
                started = false;
            }
            letter => {
                word.push(letter);
                started = true;
            }
        }
    }
    if started {
        words.push(word);
    }
    Some((keyword.to_lowercase(), words))
}

/// The files an `Include` means, in order: relative to `~/.ssh`, with `*` and `?` in the last part.
fn expand(pattern: &str, home: &Path) -> Vec<PathBuf> {
    let path = match pattern.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => home.join(".ssh").join(pattern),
    };
    let (Some(folder), Some(name)) =
        (path.parent(), path.file_name().and_then(|name| name.to_str()))
    else {
        return Vec::new();
    };
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .to_str()
                .is_some_and(|n| host_pattern::list_matches([name].into_iter(), n))
        })
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(files: &[(&str, &str)]) -> SshConfig {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = home.path().join(".ssh").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        SshConfig::read(&home.path().join(".ssh/config"), home.path()).unwrap()
    }

    #[test]
    fn the_first_value_that_concerns_a_host_counts() {
        let config = config(&[(
            "config",
            "# mine\nHost n1 n2\n  HostName %h.lab\n  User=ada\n  IdentityFile \"~/.ssh/lab key\"\n\
             Host * !n9\n User bob\n port 2222 # all of them\n IdentityFile ~/.ssh/other\n",
        )]);
        let n1 = config.host("n1");
        assert_eq!(n1.hostname.as_deref(), Some("n1.lab"));
        assert_eq!((n1.user.as_deref(), n1.port), (Some("ada"), Some(2222)));
        assert_eq!(n1.identity_files, ["~/.ssh/lab key", "~/.ssh/other"]);
        assert_eq!(config.host("n3").user.as_deref(), Some("bob"));
        assert_eq!(config.host("n9"), HostConfig::default());
    }

    #[test]
    fn includes_are_read_where_they_stand_and_hold_for_the_hosts_above() {
        let config = config(&[
            ("config", "Host n*\n Include conf.d/*\nHost *\n User last\n"),
            ("conf.d/a", "User first\nHost n2\n Port 2\n"),
            ("conf.d/b", "Host other\n Port 3\n"),
        ]);
        assert_eq!(config.host("n2").user.as_deref(), Some("first"));
        assert_eq!(config.host("n2").port, Some(2));
        assert_eq!(config.host("other").user.as_deref(), Some("last"));
        assert_eq!(config.host("other").port, None, "its block is included for n* only");
    }

    #[test]
    fn an_endless_include_is_refused() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".ssh")).unwrap();
        let file = home.path().join(".ssh/config");
        std::fs::write(&file, "Include config\n").unwrap();
        assert!(SshConfig::read(&file, home.path()).unwrap_err().contains("too deep"));
    }

    #[test]
    fn what_is_not_supported_is_refused_or_noted_where_it_concerns_the_host() {
        let config = config(&[(
            "config",
            "Host n1\n ProxyJump bastion\nHost n2\n ProxyJump none\n StrictHostKeyChecking no\n\
             Host n1 n2\n ProxyJump ignored\nMatch host n3\n User nobody\nMatch all\n User all\n",
        )]);
        let n1 = config.host("n1");
        assert!(n1.refused[0].contains("proxyjump `bastion`"), "{n1:?}");
        assert_eq!(n1.refused.len(), 1);
        let n2 = config.host("n2");
        assert!(n2.refused.is_empty() && n2.noted[0].contains("stricthostkeychecking"), "{n2:?}");
        assert!(config.notes[0].contains("Match is not followed"));
        assert_eq!(config.host("n3").user.as_deref(), Some("all"));
    }
}
