//! Layers of settings into [`NodeSpec`]s: flags, over the node's own, over the file's, over OpenSSH's.

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use deposed_core::Node;

use super::settings::{NodeEntry, Settings};
use super::ssh_config::{HostConfig, SshConfig};
use super::{NodeSpec, Secret, SecretSource, Surroundings};

/// The user's usual keys, in the order in which they are tried.
const USUAL_KEYS: [&str; 3] = ["id_ed25519", "id_ecdsa", "id_rsa"];
/// Where known hosts are looked for unless said otherwise; the first is the user's own.
const SYSTEM_KNOWN_HOSTS: &str = "/etc/ssh/ssh_known_hosts";

/// Turns entries into specs, collecting every mistake and note.
pub(super) struct Resolver<'a> {
    pub(super) flags: Settings,
    pub(super) defaults: Settings,
    pub(super) ssh_config: SshConfig,
    pub(super) around: &'a Surroundings,
    pub(super) mistakes: Vec<String>,
    pub(super) notes: Vec<String>,
    /// Secrets found so far, so that none is asked for twice.
    pub(super) secrets: BTreeMap<(SecretSource, String), Result<Secret, String>>,
}

impl Resolver<'_> {
    pub(super) fn nodes(&mut self, entries: Vec<NodeEntry>) -> Vec<NodeSpec> {
        if entries.is_empty() && self.mistakes.is_empty() {
            self.mistakes
                .push("there are no nodes: write [[nodes]] tables, or say --nodes".to_owned());
        }
        let places: Vec<String> = entries.iter().map(|entry| entry.at.clone()).collect();
        let specs: Vec<Option<NodeSpec>> =
            entries.into_iter().map(|entry| self.node(entry)).collect();
        self.check_distinct(&places, &specs);
        specs.into_iter().flatten().collect()
    }

    fn node(&mut self, entry: NodeEntry) -> Option<NodeSpec> {
        let NodeEntry { at, name, addr, settings: own } = entry;
        let Some(name) = name.or_else(|| addr.clone()) else {
            self.mistakes.push(format!("{at}: has no `name`"));
            return None;
        };
        if !is_name(&name) {
            self.mistakes.push(format!(
                "{at}: `{name}` cannot name a node: use letters, digits and . _ : -, a letter or digit first"
            ));
        }
        let written = addr.unwrap_or_else(|| name.clone());
        let HostConfig { hostname, user, port, identity_files, identities_only, refused, noted } =
            self.ssh_config.host(&written);
        self.mistakes.extend(refused.into_iter().map(|reason| format!("{name}: {reason}")));
        self.notes.extend(noted.into_iter().map(|reason| format!("{name}: {reason}")));
        let host = hostname.unwrap_or(written);
        let addr = self.lookup(&at, &host)?;

        let settings = self.flags.clone().over(&own).over(&self.defaults);
        let mut spec = NodeSpec::new(name, addr);
        spec.host = host;
        spec.user = settings.user.or(user).unwrap_or(spec.user);
        spec.port = settings.port.or(port).unwrap_or(spec.port);
        if spec.port == 0 {
            self.mistakes.push(format!("{at}: port 0 is no port"));
        }
        spec.sudo = settings.sudo.unwrap_or_default();
        spec.host_keys = settings.host_keys.unwrap_or_default();
        spec.clock = settings.clock.unwrap_or_default();
        spec.warden = settings.warden;
        let home = &self.around.home;
        spec.known_hosts = match settings.known_hosts {
            Some(file) => vec![file],
            None => vec![home.join(".ssh/known_hosts"), SYSTEM_KNOWN_HOSTS.into()],
        };
        spec.keys = match settings.key {
            Some(key) => vec![key],
            None => self.configured_keys(&identity_files, &spec.user, &spec.host),
        };
        for key in &spec.keys {
            if let Err(error) = std::fs::File::open(key) {
                self.mistakes.push(format!("{at}: key {} cannot be read: {error}", key.display()));
            }
        }
        if !identities_only {
            spec.agent.clone_from(&self.around.agent);
        }
        let usual = USUAL_KEYS.map(|name| home.join(".ssh").join(name));
        spec.fallback_keys = usual.into_iter().filter(|key| key.exists()).collect();

        let mut secret = |what: &str, source: Option<SecretSource>, is_own: bool| {
            let of = if is_own { spec.node.name.to_string() } else { "all nodes".to_owned() };
            self.secret(&at, what, &of, source?)
        };
        let key_passphrase =
            secret("passphrase of the key", settings.key_passphrase, own.key_passphrase.is_some());
        let password = secret("password", settings.password, own.password.is_some());
        let sudo_password =
            secret("sudo password", settings.sudo_password, own.sudo_password.is_some());
        Some(NodeSpec { key_passphrase, password, sudo_password, ..spec })
    }

    /// OpenSSH passes over an `IdentityFile` that is missing; so do we.
    fn configured_keys(&self, files: &[String], user: &str, host: &str) -> Vec<PathBuf> {
        let home = &self.around.home;
        files
            .iter()
            .map(|file| {
                let home = home.to_string_lossy();
                file.replace("%d", &home).replace("%h", host).replace("%r", user)
            })
            .map(|file| self.around.path(Path::new(&file), home))
            .filter(|file| file.exists())
            .collect()
    }

    fn lookup(&mut self, at: &str, host: &str) -> Option<IpAddr> {
        if let Ok(addr) = host.parse() {
            return Some(addr);
        }
        match (host, 0).to_socket_addrs().map(|mut found| found.next()) {
            Ok(Some(found)) => return Some(found.ip()),
            Ok(None) => self.mistakes.push(format!("{at}: `{host}` has no address")),
            Err(error) => self.mistakes.push(format!(
                "{at}: the host name `{host}` cannot be looked up ({error}): give an IP address as `addr`, \
                 or add the name to /etc/hosts"
            )),
        }
        None
    }

    fn secret(&mut self, at: &str, what: &str, of: &str, source: SecretSource) -> Option<Secret> {
        let label = format!("{what} for {of}");
        let key = (source.clone(), label.clone());
        // Nobody is asked for anything while there are mistakes to mend first.
        if source == SecretSource::Prompt && !self.mistakes.is_empty() {
            return None;
        }
        let found =
            self.secrets.entry(key).or_insert_with(|| source.find(&label, self.around)).clone();
        found.map_err(|reason| self.mistakes.push(format!("{at}: {what}: {reason}"))).ok()
    }

    fn check_distinct(&mut self, places: &[String], specs: &[Option<NodeSpec>]) {
        let mut names = BTreeMap::new();
        let mut addrs = BTreeMap::new();
        for (at, spec) in places.iter().zip(specs) {
            let Some(spec) = spec else { continue };
            let Node { name, addr } = &spec.node;
            if names.insert(name.clone(), ()).is_some() {
                self.mistakes.push(format!("{at}: a node `{name}` is there already"));
            } else if let Some(other) = addrs.insert(*addr, name.clone()) {
                self.mistakes.push(format!(
                    "{at}: {name} has the address of {other}, {addr}; faults could not tell them apart"
                ));
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || ".:_-".contains(c))
}
