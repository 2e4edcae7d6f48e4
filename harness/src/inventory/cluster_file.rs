//! `cluster.toml`: the nodes, and how to log in to all or one of them.
//!
//! ```toml
//! user = "root"                    # for all nodes, unless a node says otherwise
//! key = "keys/lab"                 # relative to this file; ~ is your home
//! sudo_password = "env:LAB_SUDO"   # secrets are never written down here
//!
//! [[nodes]]
//! name = "n1"
//! addr = "10.0.0.1"                # a name, IPv4 or IPv6; without it, `name` is looked up
//! port = 2222
//! clock = "own"                    # its machine's clock may be set; without it, never
//! ```
//!
//! A lab also writes `warden`, the socket of who holds its machines.
//!
//! Values are read one by one, so that every mistake in the file is told, each with its place. Lines
//! are never quoted in a message: one might hold a secret.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::settings::{NodeEntry, Settings};

/// What a file says, in its order.
#[derive(Debug, Default)]
pub(super) struct ClusterFile {
    pub(super) defaults: Settings,
    pub(super) nodes: Vec<NodeEntry>,
    pub(super) mistakes: Vec<String>,
}

/// Reads the text of a file; `path` is for messages.
pub(super) fn parse(text: &str, path: &Path) -> ClusterFile {
    let mut reader = Reader { text, path, file: ClusterFile::default() };
    match DeTable::parse(text) {
        Ok(table) => reader.top(table.into_inner()),
        Err(error) => {
            let at = reader.at(error.span().unwrap_or_default(), "");
            reader.file.mistakes.push(format!("{at}: {}", error.message()));
        }
    }
    reader.file
}

struct Reader<'a> {
    text: &'a str,
    path: &'a Path,
    file: ClusterFile,
}

impl Reader<'_> {
    fn top(&mut self, table: DeTable<'_>) {
        for (key, value) in table {
            if key.get_ref() != "nodes" {
                let defaults = std::mem::take(&mut self.file.defaults);
                self.file.defaults = self.setting(key, value, "", defaults);
                continue;
            }
            let span = value.span();
            match value.into_inner() {
                DeValue::Array(nodes) => {
                    for (index, node) in nodes.into_iter().enumerate() {
                        self.node(node, &format!("nodes[{index}]"));
                    }
                }
                _ => self.mistake(span, "nodes", "write every node as a [[nodes]] table"),
            }
        }
    }

    fn node(&mut self, node: Spanned<DeValue<'_>>, path: &str) {
        let span = node.span();
        let mut entry = NodeEntry { at: self.at(span.clone(), path), ..NodeEntry::default() };
        let DeValue::Table(table) = node.into_inner() else {
            return self.mistake(span, path, "write every node as a [[nodes]] table");
        };
        for (key, value) in table {
            let within = format!("{path}.");
            let place = match key.get_ref().as_ref() {
                "name" => &mut entry.name,
                "addr" => &mut entry.addr,
                _ => {
                    entry.settings = self.setting(key, value, &within, entry.settings);
                    continue;
                }
            };
            match value.get_ref().as_str() {
                Some(text) => *place = Some(text.to_owned()),
                None => {
                    self.mistake(
                        value.span(),
                        &format!("{within}{}", key.get_ref()),
                        "is not a string",
                    );
                }
            }
        }
        self.file.nodes.push(entry);
    }

    /// Reads one setting into a layer.
    fn setting(
        &mut self,
        key: Spanned<std::borrow::Cow<'_, str>>,
        value: Spanned<DeValue<'_>>,
        within: &str,
        layer: Settings,
    ) -> Settings {
        let path = format!("{within}{}", key.get_ref());
        let is_secret = key.get_ref().contains("pass");
        let (key_span, value_span) = (key.span(), value.span());
        let alone =
            Spanned::new(value_span.clone(), DeValue::Table([(key, value)].into_iter().collect()));
        match serde_path_to_error::deserialize(ValueDeserializer::from(alone)) {
            Ok(setting) => layer.over(&setting),
            Err(error) => {
                let reason = error.inner().message().to_owned();
                if reason.starts_with("unknown field") {
                    let reason = reason.replace("unknown field", "unknown setting");
                    self.mistake(key_span, &path, &reason);
                } else if is_secret {
                    self.mistake(value_span, &path, &super::secret::NotASource.to_string());
                } else {
                    self.mistake(value_span, &path, &reason);
                }
                layer
            }
        }
    }

    fn mistake(&mut self, span: Range<usize>, path: &str, reason: &str) {
        let at = self.at(span, path);
        self.file.mistakes.push(format!("{at}: {reason}"));
    }

    /// `cluster.toml:7:1 nodes[1].port`.
    fn at(&self, span: Range<usize>, path: &str) -> String {
        let before = &self.text[..span.start.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("{}:{line}:{column} {path}", self.path.display()).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{ClockOwner, HostKeyPolicy, SecretSource};

    #[test]
    fn defaults_and_nodes_are_read_with_their_places() {
        let text = "user = \"ada\"\nhost_keys = \"accept-new\"\n[[nodes]]\nname = \"n1\"\n\
            [[nodes]]\nname = \"n2\"\naddr = \"::1\"\nport = 2222\nclock = \"own\"\npassword = \"env:X\"\n";
        let file = parse(text, Path::new("cluster.toml"));
        assert_eq!(file.mistakes, [""; 0]);
        assert_eq!(file.defaults.user.as_deref(), Some("ada"));
        assert_eq!(file.defaults.host_keys, Some(HostKeyPolicy::AcceptNew));
        assert_eq!(file.nodes[0].at, "cluster.toml:3:1 nodes[0]");
        assert_eq!(file.nodes[1].addr.as_deref(), Some("::1"));
        assert_eq!(file.nodes[1].settings.port, Some(2222));
        assert_eq!(file.nodes[1].settings.clock, Some(ClockOwner::Own));
        assert_eq!(file.nodes[1].settings.password, Some(SecretSource::Env("X".to_owned())));
    }

    #[test]
    fn every_mistake_is_told_with_its_place_and_no_secret_is_repeated() {
        let text = "prot = 1\npassword = \"hunter2\"\nsudo_password = 271828\n[[nodes]]\nname = 7\n\
            port = 99999\nsudo = \"maybe\"\nhost = \"n1\"\n";
        let mistakes = parse(text, Path::new("c.toml")).mistakes;
        let starts = [
            "c.toml:1:1 prot: unknown setting `prot`, expected one of",
            "c.toml:2:12 password: a secret is not written down here",
            "c.toml:3:17 sudo_password: a secret is not written down here",
            "c.toml:5:8 nodes[0].name: is not a string",
            "c.toml:6:8 nodes[0].port: invalid value",
            "c.toml:7:8 nodes[0].sudo: unknown variant `maybe`",
            "c.toml:8:1 nodes[0].host: unknown setting `host`",
        ];
        assert_eq!(mistakes.len(), starts.len(), "{mistakes:#?}");
        for start in starts {
            assert!(
                mistakes.iter().any(|mistake| mistake.starts_with(start)),
                "{start}: {mistakes:#?}"
            );
        }
        assert!(!mistakes.concat().contains("hunter2") && !mistakes.concat().contains("271828"));
    }

    #[test]
    fn a_syntax_error_has_a_place_and_quotes_nothing() {
        let mistakes = parse("user = \"ada\"\npassword = hunter2\n", Path::new("c.toml")).mistakes;
        assert!(mistakes[0].starts_with("c.toml:2:12"), "{mistakes:?}");
        assert!(!mistakes[0].contains("hunter2"));
    }
}
