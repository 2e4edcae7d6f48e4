//! `system.toml`: a store described as data, as its author wrote it.
//!
//! This is only the shape of the file. Text marked [`Template`] is rendered for each node by
//! [`crate::blueprint`], under the names listed in [`crate::template`].

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use deposed_core::OpSet;
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

/// The schema this build reads.
pub(crate) const SYSTEM_SCHEMA: u32 = 1;

/// Text rendered for each node, with its place in the file.
pub(crate) type Template = Spanned<String>;

/// A whole `system.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SystemFile {
    /// [`SYSTEM_SCHEMA`].
    pub(crate) schema: u32,
    /// The name of the system, also part of paths on the nodes.
    pub(crate) name: Spanned<String>,
    /// One line for `deposed list`.
    #[serde(default)]
    pub(crate) about: String,
    /// The operations clients perform. A client of [`ClientSection::run`] needs it; a built-in one
    /// knows by itself, and the file may narrow it.
    pub(crate) supports: Option<Spanned<OpSet>>,
    /// What a user may choose with `--set NAME=VALUE`.
    #[serde(default)]
    pub(crate) options: BTreeMap<String, OptionSection>,
    #[serde(default)]
    pub(crate) install: InstallSection,
    /// Configuration files, written before every start on empty data.
    #[serde(default)]
    pub(crate) files: Vec<FileSection>,
    pub(crate) service: ServiceSection,
    #[serde(default)]
    pub(crate) logs: LogsSection,
    pub(crate) primaries: Option<Spanned<PrimariesSection>>,
    pub(crate) client: Spanned<ClientSection>,
    /// What the vendor promises, by topic: quoted in reports.
    #[serde(default)]
    pub(crate) claims: BTreeMap<String, String>,
    /// What holds with the options chosen: `true`, `false` or a template that says so. Left out:
    /// all that can be promised.
    #[serde(default)]
    pub(crate) guarantees: BTreeMap<String, Spanned<toml::Value>>,
}

/// A choice of the user.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OptionSection {
    /// One line for `--help` and `deposed list`.
    #[serde(default)]
    pub(crate) about: String,
    /// Its value unless the user says otherwise.
    pub(crate) default: String,
    /// The only values it may have; empty: any.
    #[serde(default)]
    pub(crate) values: Vec<String>,
}

/// What must be on a node before anything starts. Runs as root.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct InstallSection {
    /// Programs that must be in the path, and the Debian packages that bring them.
    pub(crate) packages: BTreeMap<String, String>,
    /// Files of the controller, relative to this file, copied to the node.
    pub(crate) upload: Vec<UploadSection>,
    /// Shell commands run after that. They run before every run: make them harmless to repeat.
    pub(crate) run: Vec<Template>,
}

/// A file copied to the node as it is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UploadSection {
    pub(crate) from: Template,
    pub(crate) to: Template,
    #[serde(default)]
    pub(crate) mode: Mode,
}

/// A file rendered on the node.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileSection {
    pub(crate) to: Template,
    pub(crate) content: Template,
    #[serde(default)]
    pub(crate) mode: Mode,
}

/// How the store runs on a node.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServiceSection {
    /// A shell command that stays in the foreground. Also used after a kill, on the data there is.
    pub(crate) start: Template,
    pub(crate) ready: Spanned<ReadySection>,
    /// A shell command that ends it in good order before its data is removed. Optional: whatever
    /// is left is killed.
    pub(crate) stop: Option<Template>,
    /// The directory of its data, created before and **emptied by** teardown.
    pub(crate) data: Template,
    /// The TCP ports it listens on: numbers or templates. They must be free before it starts.
    #[serde(default)]
    pub(crate) ports: BTreeMap<String, Spanned<toml::Value>>,
    /// The user it runs as; root if absent.
    pub(crate) user: Option<Template>,
    /// Whether `start` becomes a process that only supervises the store, which are its children.
    #[serde(default)]
    pub(crate) supervised: bool,
}

/// When the store serves. Exactly one of `run`, `port` and `client`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadySection {
    /// A shell command on the node that succeeds.
    pub(crate) run: Option<Template>,
    /// Something listens on this one of the declared ports.
    pub(crate) port: Option<String>,
    /// The built-in client says so.
    #[serde(default)]
    pub(crate) client: bool,
    /// How long that may take.
    pub(crate) within: Span,
}

/// What the store writes for people.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LogsSection {
    /// Where its standard output and error go, as `NAME.log`. Default `/var/log/deposed/NAME`.
    pub(crate) dir: Option<Template>,
    /// Globs of its other log files. **Removed** before every run, so that no run is blamed for
    /// the crash of an earlier one.
    pub(crate) files: Vec<Template>,
    /// Regular expressions; any match in a log is the anomaly `crash`.
    pub(crate) crash: Vec<Spanned<String>>,
}

/// Who leads. Exactly one of `run` and `client`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PrimariesSection {
    /// A shell command, asked on every node, that prints the names or addresses of the nodes that
    /// lead as far as this node knows, one a line.
    pub(crate) run: Option<Template>,
    /// The built-in client knows.
    #[serde(default)]
    pub(crate) client: bool,
}

/// How to perform operations. Exactly one of `kind` and `run`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientSection {
    /// A client built into deposed.
    pub(crate) kind: Option<Spanned<String>>,
    /// Where the built-in client connects, `address:port`.
    pub(crate) endpoint: Option<Template>,
    /// What the client should know besides: the built-in one checks them, a program finds them in
    /// the hello line.
    #[serde(default)]
    pub(crate) settings: BTreeMap<String, Template>,
    /// A program that speaks the protocol of [`crate::program`], run on the controller in the
    /// directory of this file, one for each process.
    #[serde(default)]
    pub(crate) run: Vec<Template>,
    /// The same program as it is run on a node, for `--clients on-nodes`.
    #[serde(default)]
    pub(crate) on_nodes: Vec<Template>,
    /// How long an operation of that program may take. Default: the limit of the run.
    pub(crate) op_limit: Option<Span>,
}

/// A length of time: `500ms`, `30s`, `2m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit_ms = match &text[digits.len()..] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            _ => 0,
        };
        match digits.parse::<u32>() {
            Ok(n) if unit_ms > 0 && n > 0 => {
                Ok(Self(Duration::from_millis(u64::from(n) * unit_ms)))
            }
            _ => Err(de::Error::custom(format!("`{text}` is not a time such as 500ms, 30s or 2m"))),
        }
    }
}

/// Permissions of a file, written in octal: `"0755"`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode(pub(crate) u32);

impl Default for Mode {
    fn default() -> Self {
        Self(0o644)
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mode({:#o})", self.0)
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match u32::from_str_radix(&text, 8) {
            Ok(mode) if mode <= 0o7777 => Ok(Self(mode)),
            _ => Err(de::Error::custom(format!("`{text}` is not a file mode such as 0644"))),
        }
    }
}

/// Reads the shape of a file; templates are not looked at yet. `Err` is a message that starts with
/// the place, `line:column`, and the path of the field.
pub(crate) fn parse(text: &str) -> Result<SystemFile, String> {
    let place = |error: &toml::de::Error| {
        let offset = error.span().map_or(0, |span| span.start);
        let (line, column) = line_and_column(text, offset);
        format!("{line}:{column}: ")
    };
    let deserializer =
        toml::Deserializer::parse(text).map_err(|e| place(&e) + e.message().trim())?;
    let file: SystemFile = serde_path_to_error::deserialize(deserializer).map_err(|error| {
        // `Spanned` shows itself as a field.
        let path = error.path().to_string().replace(".$__serde_spanned_private_value", "");
        let inner = error.inner();
        let field = if path == "." { String::new() } else { format!("{path}: ") };
        place(inner) + &field + inner.message().trim()
    })?;
    if file.schema != SYSTEM_SCHEMA {
        return Err(format!("1:1: schema {} is not {SYSTEM_SCHEMA}, the one known", file.schema));
    }
    Ok(file)
}

/// A place in a text, both counted from 1, the column in characters.
pub(crate) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "schema = 1\nname = \"s\"\n[service]\nstart = \"s\"\ndata = \"/d/s\"\n\
                         ready = { run = \"true\", within = \"30s\" }\n[client]\nrun = [\"c\"]\n";

    /// The smallest file is a start command, a data directory, a readiness check and a client.
    #[test]
    fn the_smallest_file() {
        let file = parse(SMALL).unwrap();
        assert_eq!(file.service.ready.as_ref().within, Span(Duration::from_secs(30)));
        assert_eq!(line_and_column(SMALL, file.service.start.span().start), (4, 9));
    }

    /// A mistake in the shape of the file is reported with line, column and field.
    #[test]
    fn mistakes_have_a_place() {
        let mistake = |from: &str, to: &str| parse(&SMALL.replace(from, to)).unwrap_err();
        assert_eq!(
            mistake("30s", "30"),
            "6:34: service.ready.within: `30` is not a time such as 500ms, 30s or 2m"
        );
        assert!(mistake("data", "dta").starts_with("5:1: service.dta: unknown field `dta`"));
        assert!(mistake("start = \"s\"", "start = 3").starts_with("4:9: service.start: invalid"));
        assert!(mistake("[service]", "[service").starts_with("3:9: "));
        assert_eq!(mistake("schema = 1", "schema = 2"), "1:1: schema 2 is not 1, the one known");
    }
}
