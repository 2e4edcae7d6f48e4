//! The flags that say which cluster.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;

use super::settings::{NodeEntry, Settings};
use super::{
    HostKeyPolicy, Inventory, InventoryError, NotASource, SecretSource, Sources, Sudo,
    Surroundings, cluster_file, node_word,
};

/// Flags for commands that work on a cluster. A flag outweighs the file.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// The nodes and how to log in to them, as TOML
    #[arg(long, value_name = "FILE", env = "DEPOSED_CLUSTER")]
    pub cluster: Option<PathBuf>,
    /// Nodes as [NAME=][USER@]HOST[:PORT]; with --cluster, the names of those to use
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    pub nodes: Vec<String>,
    /// The same from a file, one a line
    #[arg(long, value_name = "FILE")]
    pub nodes_file: Option<PathBuf>,
    /// Login user [default: root]
    #[arg(long)]
    pub user: Option<String>,
    /// Port of the SSH servers [default: 22]
    #[arg(long)]
    pub port: Option<u16>,
    /// Private key to log in with
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Where the key's passphrase is: env:NAME, file:PATH or prompt
    #[arg(long, value_name = "SOURCE", value_parser = SourceParser)]
    pub key_passphrase: Option<SecretSource>,
    /// Where the login password is: env:NAME, file:PATH or prompt
    #[arg(long, value_name = "SOURCE", value_parser = SourceParser)]
    pub password: Option<SecretSource>,
    /// How commands become root's [default: auto]
    #[arg(long, value_enum)]
    pub sudo: Option<Sudo>,
    /// Where sudo's password is, if not the login's: env:NAME, file:PATH or prompt
    #[arg(long, value_name = "SOURCE", value_parser = SourceParser)]
    pub sudo_password: Option<SecretSource>,
    /// What to do about the nodes' host keys [default: strict]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub host_keys: Option<HostKeyPolicy>,
    /// Known-hosts file [default: ~/.ssh/known_hosts and the system's]
    #[arg(long, value_name = "FILE")]
    pub known_hosts: Option<PathBuf>,
    /// OpenSSH configuration to honour, or none [default: ~/.ssh/config]
    #[arg(long, value_name = "FILE")]
    pub ssh_config: Option<PathBuf>,
}

impl ClusterArgs {
    /// Whether the flags name a cluster at all.
    pub fn name_a_cluster(&self) -> bool {
        self.cluster.is_some() || self.nodes_file.is_some() || !self.nodes.is_empty()
    }

    /// Where the nodes come from, for the plan.
    pub fn origin(&self) -> String {
        let file = self.cluster.as_ref().or(self.nodes_file.as_ref());
        file.map_or_else(|| "--nodes".to_owned(), |file| file.display().to_string())
    }

    /// The cluster the flags name. Reads files, looks host names up, asks for secrets; blocks.
    pub fn inventory(&self, around: &Surroundings) -> Result<Inventory, InventoryError> {
        let mut mistakes = Vec::new();
        let mut sources = Sources { flags: self.settings(around), ..Sources::default() };
        if let Some(path) = &self.cluster {
            match std::fs::read_to_string(path) {
                Ok(text) => {
                    let base = path.parent().unwrap_or(Path::new(""));
                    let file = cluster_file::parse(&text, path);
                    mistakes.extend(file.mistakes);
                    sources.defaults = file.defaults.with_paths(|path| around.path(&path, base));
                    sources.nodes = file.nodes;
                    for node in &mut sources.nodes {
                        let own = std::mem::take(&mut node.settings);
                        node.settings = own.with_paths(|path| around.path(&path, base));
                    }
                }
                Err(error) => mistakes.push(format!("{} cannot be read: {error}", path.display())),
            }
        }
        let words = self.words(&mut mistakes);
        if self.cluster.is_some() && !words.is_empty() {
            select(&mut sources.nodes, &words, &mut mistakes);
        } else {
            for (at, word) in &words {
                match node_word::parse(word, at) {
                    Ok(entry) => sources.nodes.push(entry),
                    Err(mistake) => mistakes.push(mistake),
                }
            }
        }
        sources.ssh_config = match &self.ssh_config {
            Some(none) if none.as_os_str() == "none" => None,
            Some(file) => Some(around.path(file, Path::new(""))),
            None => around.ssh_config.clone(),
        };
        sources.mistakes = mistakes;
        Inventory::resolve(sources, around)
    }

    /// The words of `--nodes` and the lines of `--nodes-file`, each with its place.
    fn words(&self, mistakes: &mut Vec<String>) -> Vec<(String, String)> {
        let mut words: Vec<_> =
            self.nodes.iter().map(|word| ("--nodes".to_owned(), word.trim().to_owned())).collect();
        let Some(file) = &self.nodes_file else { return words };
        match std::fs::read_to_string(file) {
            Ok(text) => {
                for (number, line) in text.lines().enumerate() {
                    let word = line.split('#').next().unwrap_or_default().trim();
                    if !word.is_empty() {
                        words.push((format!("{}:{}", file.display(), number + 1), word.to_owned()));
                    }
                }
            }
            Err(error) => mistakes.push(format!("{} cannot be read: {error}", file.display())),
        }
        words
    }

    fn settings(&self, around: &Surroundings) -> Settings {
        Settings {
            user: self.user.clone(),
            port: self.port,
            key: self.key.clone(),
            key_passphrase: self.key_passphrase.clone(),
            password: self.password.clone(),
            sudo: self.sudo,
            sudo_password: self.sudo_password.clone(),
            host_keys: self.host_keys,
            known_hosts: self.known_hosts.clone(),
            clock: None,
            warden: None,
        }
        .with_paths(|path| around.path(&path, Path::new("")))
    }
}

/// Keeps the nodes that are named, in the order of the file.
fn select(nodes: &mut Vec<NodeEntry>, words: &[(String, String)], mistakes: &mut Vec<String>) {
    let name = |node: &NodeEntry| node.name.clone().or(node.addr.clone());
    for (at, word) in words {
        if !nodes.iter().any(|node| name(node).as_ref() == Some(word)) {
            let names: Vec<String> = nodes.iter().filter_map(name).collect();
            mistakes
                .push(format!("{at}: there is no node `{word}`; there are {}", names.join(", ")));
        }
    }
    nodes.retain(|node| words.iter().any(|(_, word)| name(node).as_ref() == Some(word)));
}

/// Reads a [`SecretSource`]. clap's own errors repeat the value, which may well be the secret itself.
#[derive(Clone)]
struct SourceParser;

impl TypedValueParser for SourceParser {
    type Value = SecretSource;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<SecretSource, clap::Error> {
        value.to_str().unwrap_or_default().parse().map_err(|error: NotASource| {
            let flag = arg.map(ToString::to_string).unwrap_or_default();
            clap::Error::raw(ErrorKind::ValueValidation, format!("{flag}: {error}\n"))
                .with_cmd(command)
        })
    }
}
