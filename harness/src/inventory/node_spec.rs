//! Everything needed to log in to one node.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use deposed_core::Node;

use super::Secret;

/// What to do about the key a node's SSH server shows.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    serde::Serialize,
    serde::Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum HostKeyPolicy {
    /// It must be in a known-hosts file.
    #[default]
    Strict,
    /// An unknown one is written to the known-hosts file; a changed one is refused.
    AcceptNew,
    /// It is not looked at.
    Off,
}

/// How commands become root's.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    serde::Serialize,
    serde::Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Sudo {
    /// Through sudo, unless the login user is root. Without a password if sudo allows it.
    #[default]
    Auto,
    /// Never: commands run as the login user.
    None,
}

/// Whose the clock of a node's machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockOwner {
    /// The machine's alone, and the machine is the node's alone: it may be set.
    Own,
    /// Somebody else's too, or that is not known: it is never set.
    #[default]
    Shared,
}

/// One node and the way in, with nothing left to look up.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct NodeSpec {
    /// Its name and address.
    pub node: Node,
    /// The host as the user names it: what known-hosts files are searched for, beside the address.
    pub host: String,
    /// The port of its SSH server.
    pub port: u16,
    /// The login user.
    pub user: String,
    /// Private keys the user named, tried first.
    pub keys: Vec<PathBuf>,
    /// The socket of an SSH agent, tried next, identity by identity.
    pub agent: Option<PathBuf>,
    /// Private keys tried after that where they exist: the usual files under `~/.ssh`.
    pub fallback_keys: Vec<PathBuf>,
    /// What decrypts the private keys.
    pub key_passphrase: Option<Secret>,
    /// The login password, tried last.
    pub password: Option<Secret>,
    /// How commands become root's.
    pub sudo: Sudo,
    /// The password sudo may ask for. Where absent, the login password.
    pub sudo_password: Option<Secret>,
    /// What to do about the server's key.
    pub host_keys: HostKeyPolicy,
    /// Known-hosts files. `accept-new` writes to the first.
    pub known_hosts: Vec<PathBuf>,
    /// Whose its clock is.
    pub clock: ClockOwner,
    /// The socket of who holds its machine, where it is that of a lab.
    pub warden: Option<PathBuf>,
}

impl NodeSpec {
    /// The port of an SSH server unless said otherwise.
    pub const PORT: u16 = 22;

    /// A node that root logs in to on port 22, with no key and no known hosts yet.
    pub fn new(name: impl Into<Arc<str>>, addr: IpAddr) -> Self {
        Self {
            node: Node { name: name.into(), addr },
            host: addr.to_string(),
            port: Self::PORT,
            user: "root".to_owned(),
            keys: Vec::new(),
            agent: None,
            fallback_keys: Vec::new(),
            key_passphrase: None,
            password: None,
            sudo: Sudo::Auto,
            sudo_password: None,
            host_keys: HostKeyPolicy::Strict,
            known_hosts: Vec::new(),
            clock: ClockOwner::Shared,
            warden: None,
        }
    }

    /// Where its SSH server listens.
    pub fn endpoint(&self) -> SocketAddr {
        SocketAddr::new(self.node.addr, self.port)
    }
}
