//! The settings of a node, from whatever layer they come: each may be absent.

use std::path::PathBuf;

use super::{ClockOwner, HostKeyPolicy, SecretSource, Sudo};

/// How to log in, whose the clock is and who holds the machine, as far as one layer says: flags, a node's table, the file's top level.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) user: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) key: Option<PathBuf>,
    pub(super) key_passphrase: Option<SecretSource>,
    pub(super) password: Option<SecretSource>,
    pub(super) sudo: Option<Sudo>,
    pub(super) sudo_password: Option<SecretSource>,
    pub(super) host_keys: Option<HostKeyPolicy>,
    pub(super) known_hosts: Option<PathBuf>,
    pub(super) clock: Option<ClockOwner>,
    pub(super) warden: Option<PathBuf>,
}

impl Settings {
    /// This layer, and beneath it another.
    pub(super) fn over(self, below: &Self) -> Self {
        let below = below.clone();
        Self {
            user: self.user.or(below.user),
            port: self.port.or(below.port),
            key: self.key.or(below.key),
            key_passphrase: self.key_passphrase.or(below.key_passphrase),
            password: self.password.or(below.password),
            sudo: self.sudo.or(below.sudo),
            sudo_password: self.sudo_password.or(below.sudo_password),
            host_keys: self.host_keys.or(below.host_keys),
            known_hosts: self.known_hosts.or(below.known_hosts),
            clock: self.clock.or(below.clock),
            warden: self.warden.or(below.warden),
        }
    }

    /// The same with every path run through `path`.
    pub(super) fn with_paths(mut self, path: impl Fn(PathBuf) -> PathBuf) -> Self {
        self.key = self.key.map(&path);
        self.known_hosts = self.known_hosts.map(&path);
        self.warden = self.warden.map(&path);
        for secret in [&mut self.key_passphrase, &mut self.password, &mut self.sudo_password] {
            if let Some(SecretSource::File(file)) = secret {
                *file = path(std::mem::take(file));
            }
        }
        self
    }
}

/// A node before its login is resolved: where it was written, and what was said there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NodeEntry {
    /// The place, for messages: `cluster.toml:7:1 nodes[1]` or `--nodes n2`.
    pub(super) at: String,
    pub(super) name: Option<String>,
    pub(super) addr: Option<String>,
    pub(super) settings: Settings,
}
