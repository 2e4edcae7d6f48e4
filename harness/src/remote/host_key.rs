//! Is this the server we know? Known-hosts files, read as OpenSSH reads them.
//!
//! Certificates (`@cert-authority`) are not supported: such lines are passed over, so that a host known
//! only by one counts as unknown.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ssh2::{CheckResult, HashType, KnownHostFileKind, MethodType, Session};

use super::handshake::Refused;
use crate::inventory::{HostKeyPolicy, NodeSpec, host_pattern};

/// A server's key, as people compare it: `ssh-ed25519 SHA256:…`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Fingerprint {
    /// The kind of key.
    pub algorithm: String,
    /// The SHA-256 of the key in base64, as ssh-keygen prints it.
    pub sha256: String,
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} SHA256:{}", self.algorithm, self.sha256)
    }
}

/// Why a host key is refused, and how to mend it.
#[derive(Debug)]
pub(super) enum HostKeyError {
    /// No file knows the host, or the file cannot be used.
    Unknown(String),
    /// A file knows the host by another key.
    Changed(String),
}

/// One line of a known-hosts file that speaks of the host.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    at: String,
    revoked: bool,
    algorithm: String,
    key: String,
}

/// Appending to a known-hosts file: one lane at a time, so that each key is written once.
static APPENDING: Mutex<()> = Mutex::new(());

/// Asks the server for the kind of key that is known, where one is: it may have several.
pub(super) fn prefer_known(session: &Session, spec: &NodeSpec) -> Result<(), Refused> {
    if spec.host_keys == HostKeyPolicy::Off {
        return Ok(());
    }
    let known = known(spec).map_err(Refused::Lasting)?;
    let is_known = |method: &str| known.iter().any(|line| line.algorithm == key_kind(method));
    // Without certificates, which could not be checked.
    let supported = session.supported_algs(MethodType::HostKey)?;
    let (mut first, rest): (Vec<&str>, Vec<&str>) = supported
        .into_iter()
        .filter(|method| !method.contains("-cert-"))
        .partition(|m| is_known(m));
    first.extend(rest);
    session.method_pref(MethodType::HostKey, &first.join(","))?;
    Ok(())
}

/// Checks the key of a session after its handshake.
pub(super) fn check(session: &Session, spec: &NodeSpec) -> Result<Fingerprint, HostKeyError> {
    let shown = session
        .host_key()
        .and_then(|(blob, _)| Some((key_algorithm(blob)?, STANDARD.encode(blob))))
        .zip(session.host_key_hash(HashType::Sha256));
    let Some(((algorithm, key), hash)) = shown else {
        return Err(HostKeyError::Unknown("the server showed no host key".to_owned()));
    };
    let fingerprint = Fingerprint { algorithm, sha256: STANDARD_NO_PAD.encode(hash) };
    if spec.host_keys == HostKeyPolicy::Off {
        return Ok(fingerprint);
    }
    let _one_at_a_time = APPENDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let known = known(spec).map_err(HostKeyError::Unknown)?;
    if let Some(line) = known.iter().find(|line| line.revoked && line.key == key) {
        return Err(HostKeyError::Changed(format!(
            "its host key {fingerprint} IS REVOKED by {}; do not log in with it",
            line.at
        )));
    }
    let valid: Vec<&Known> = known.iter().filter(|line| !line.revoked).collect();
    if valid.iter().any(|line| line.key == key) {
        return Ok(fingerprint);
    }
    match (valid.first(), spec.host_keys) {
        (Some(line), _) => Err(HostKeyError::Changed(changed(spec, &fingerprint, line))),
        (None, HostKeyPolicy::AcceptNew) => {
            append(spec, &fingerprint.algorithm, &key)?;
            Ok(fingerprint)
        }
        (None, _) => Err(HostKeyError::Unknown(unknown(spec, &fingerprint))),
    }
}

fn unknown(spec: &NodeSpec, fingerprint: &Fingerprint) -> String {
    let kind = fingerprint.algorithm.trim_start_matches("ssh-").split('-').next().unwrap_or("*");
    let file =
        spec.known_hosts.first().map_or("FILE".to_owned(), |file| file.display().to_string());
    format!(
        "its host key is not known: {fingerprint}. Compare it on the node itself (ssh-keygen -lf \
         /etc/ssh/ssh_host_{kind}_key.pub), then: ssh-keyscan -p {} {} >> {file}; or take new keys on \
         trust with --host-keys accept-new",
        spec.port, spec.host
    )
}

fn changed(spec: &NodeSpec, fingerprint: &Fingerprint, line: &Known) -> String {
    let file = line.at.rsplit_once(':').map_or(line.at.as_str(), |(file, _)| file);
    format!(
        "ITS HOST KEY HAS CHANGED. It shows {fingerprint}, but {} has another {} key. Either the node \
         was set up anew or someone sits in between. If you know that it was set up anew: ssh-keygen \
         -R '{}' -f {file}, then connect again",
        line.at,
        line.algorithm,
        names(spec)[0],
    )
}

/// The names a known-hosts file may list the host under.
fn names(spec: &NodeSpec) -> Vec<String> {
    let mut names = vec![spec.host.clone(), spec.node.addr.to_string()];
    names.dedup();
    if spec.port != NodeSpec::PORT {
        names.iter_mut().for_each(|name| *name = format!("[{name}]:{}", spec.port));
    }
    names
}

/// Every line of every known-hosts file that speaks of the host. A missing file is an empty one.
fn known(spec: &NodeSpec) -> Result<Vec<Known>, String> {
    let mut known = Vec::new();
    for file in &spec.known_hosts {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("known hosts {}: {error}", file.display())),
        };
        known.extend(matching(&text, file, &names(spec)));
    }
    Ok(known)
}

fn matching(text: &str, file: &Path, names: &[String]) -> Vec<Known> {
    let mut known = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace().peekable();
        let marker = words.next_if(|word| word.starts_with('@'));
        let (Some(hosts), Some(algorithm), Some(key)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        if hosts.starts_with('#') || marker == Some("@cert-authority") {
            continue;
        }
        if names.iter().any(|name| speaks_of(hosts, name)) {
            known.push(Known {
                at: format!("{}:{}", file.display(), number + 1),
                revoked: marker == Some("@revoked"),
                algorithm: algorithm.to_owned(),
                key: key.to_owned(),
            });
        }
    }
    known
}

fn speaks_of(hosts: &str, name: &str) -> bool {
    if hosts.starts_with("|1|") {
        return hashed_is(hosts, name).unwrap_or(false);
    }
    host_pattern::list_matches(hosts.split(','), name)
}

/// Whether a hashed name (HMAC-SHA1) is `name`. libssh2 knows how, if it is given a line.
fn hashed_is(hashed: &str, name: &str) -> Option<bool> {
    /// Any key: only the name is of interest.
    const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let mut hosts = Session::new().ok()?.known_hosts().ok()?;
    hosts.read_str(&format!("{hashed} ssh-ed25519 {KEY}"), KnownHostFileKind::OpenSSH).ok()?;
    let blob = STANDARD.decode(KEY).ok()?;
    Some(matches!(hosts.check(name, &blob), CheckResult::Match))
}

/// The kind of key a signature method needs.
fn key_kind(method: &str) -> &str {
    match method {
        "rsa-sha2-256" | "rsa-sha2-512" => "ssh-rsa",
        other => other,
    }
}

/// The name at the head of a public key: a length in four bytes, then that many.
fn key_algorithm(blob: &[u8]) -> Option<String> {
    let length = u32::from_be_bytes(blob.get(..4)?.try_into().ok()?) as usize;
    String::from_utf8(blob.get(4..4 + length)?.to_vec()).ok()
}

fn append(spec: &NodeSpec, algorithm: &str, key: &str) -> Result<(), HostKeyError> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    let Some(file) = spec.known_hosts.first() else {
        let reason = "accept-new needs a known-hosts file to write to: set `known_hosts`";
        return Err(HostKeyError::Unknown(reason.to_owned()));
    };
    let write = |file: &PathBuf| -> std::io::Result<()> {
        if let Some(folder) = file.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let ends_open =
            std::fs::read(file).is_ok_and(|old| old.last().is_some_and(|b| *b != b'\n'));
        let line = format!(
            "{}{} {algorithm} {key}\n",
            if ends_open { "\n" } else { "" },
            names(spec).join(",")
        );
        std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(file)?
            .write_all(line.as_bytes())
    };
    write(file).map_err(|error| {
        HostKeyError::Unknown(format!(
            "cannot write the new host key to {}: {error}",
            file.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, names: &[&str]) -> Vec<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        matching(text, Path::new("kh"), &names).into_iter().map(|line| line.at).collect()
    }

    #[test]
    fn names_are_found_plain_listed_hashed_and_by_pattern() {
        // The hashed line is what `ssh-keygen -H` made of 192.168.1.61.
        let text = "# n1 ssh-ed25519 AAAA\n\nn1,10.0.0.1 ssh-ed25519 AAAA\n[n1]:2222 ssh-rsa AAAA\n\
            *.lab,!bad.lab ssh-ed25519 AAAA\n@cert-authority n1 ssh-ed25519 AAAA\n\
            @revoked n1 ssh-ed25519 BBBB\n\
            |1|4cuRYQFOTKJJceyoI/zoYh9ls+4=|nJ/Us6agTFIDOt/KRLZvjNQkWgA= ssh-ed25519 AAAA\n";
        assert_eq!(found(text, &["n1"]), ["kh:3", "kh:7"]);
        assert_eq!(found(text, &["10.0.0.1"]), ["kh:3"]);
        assert_eq!(found(text, &["[n1]:2222"]), ["kh:4"]);
        assert_eq!(found(text, &["a.lab"]), ["kh:5"]);
        assert!(found(text, &["bad.lab"]).is_empty());
        assert_eq!(found(text, &["192.168.1.61"]), ["kh:8"]);
    }
}
