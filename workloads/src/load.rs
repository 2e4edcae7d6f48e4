//! From a name or a path to a system: found, read, rendered for every node, checked.
//!
//! Nothing here touches a node. All mistakes are gathered before any is reported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use deposed_core::Node;

use crate::blueprint::{self, Blueprint, PrimariesBy, Readiness};
use crate::endpoint::{ClientKind, Endpoint, EndpointPlan};
use crate::guarantees;
use crate::mistakes::Mistakes;
use crate::on_nodes::OnNode;
use crate::program::{Hello, PROTOCOL};
use crate::registry::{BUNDLED, CLIENT_KINDS};
use crate::stdio::StdioEndpoint;
use crate::system::{DescribedSystem, NodePart, SystemOption, SystemSummary};
use crate::system_file::{self, SystemFile};

/// What a user may choose of a system, and what the run demands of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemOptions {
    /// Values of the options that the file declares, by name.
    pub set: BTreeMap<String, String>,
    /// The deadline of the run loop for one operation. Clients give up a little earlier, so that
    /// they can still say what they know.
    pub op_limit: Duration,
    /// Whether missing packages may be installed on nodes.
    pub install: bool,
    /// Whether clients run on the nodes they speak to.
    pub clients_on_nodes: bool,
}

impl Default for SystemOptions {
    fn default() -> Self {
        Self {
            set: BTreeMap::new(),
            op_limit: Duration::from_secs(5),
            install: true,
            clients_on_nodes: false,
        }
    }
}

/// Why a system cannot be used. Nothing was touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// No bundled system has the name and no file is there.
    #[error(
        "no system is called `{name}`: use {bundled}, or the path of a system.toml (with a slash)"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names there are.
        bundled: String,
    },
    /// The file cannot be read.
    #[error("read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        reason: String,
    },
    /// The file or the options are wrong: every mistake, each `file:line:column: field: why`.
    #[error("{}", .0.join("\n"))]
    Mistakes(Vec<String>),
}

/// Loads a bundled system by name, or one's own by the path of its `system.toml` (or of the
/// directory that holds it), and renders everything for every node. Touches nothing; all mistakes
/// are reported at once.
pub fn load_system(
    name_or_path: &str,
    nodes: &[Node],
    options: &SystemOptions,
) -> Result<DescribedSystem, LoadError> {
    let source = Source::find(name_or_path)?;
    build(&source, nodes, options).map_err(LoadError::Mistakes)
}

/// What is known of a system without a cluster.
pub fn describe_system(name_or_path: &str) -> Result<SystemSummary, LoadError> {
    let source = Source::find(name_or_path)?;
    let file = source.parse().map_err(LoadError::Mistakes)?;
    Ok(summary(&file))
}

/// The text of a system.toml and where it came from.
struct Source {
    label: String,
    text: String,
    dir: Option<PathBuf>,
}

impl Source {
    fn find(name_or_path: &str) -> Result<Self, LoadError> {
        if let Some((name, text)) = BUNDLED.iter().find(|(name, _)| *name == name_or_path) {
            return Ok(Self { label: format!("{name}.toml"), text: (*text).into(), dir: None });
        }
        if !name_or_path.contains('/') && !name_or_path.ends_with(".toml") {
            let bundled = BUNDLED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            return Err(LoadError::Unknown { name: name_or_path.into(), bundled });
        }
        let mut path = PathBuf::from(name_or_path);
        if path.is_dir() {
            path.push("system.toml");
        }
        let unreadable =
            |e: std::io::Error| LoadError::Unreadable { path: path.clone(), reason: e.to_string() };
        let text = std::fs::read_to_string(&path).map_err(unreadable)?;
        let absolute = path.canonicalize().map_err(unreadable)?;
        let dir = absolute.parent().map(Path::to_path_buf);
        Ok(Self { label: path.display().to_string(), text, dir })
    }

    fn parse(&self) -> Result<SystemFile, Vec<String>> {
        system_file::parse(&self.text).map_err(|e| vec![format!("{}:{e}", self.label)])
    }
}

fn build(
    source: &Source,
    nodes: &[Node],
    options: &SystemOptions,
) -> Result<DescribedSystem, Vec<String>> {
    let file = source.parse()?;
    let mut mistakes = Mistakes::new(&source.label, &source.text, nodes.len());
    let name = file.name.get_ref();
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        mistakes.at(file.name.span().start, "name", "use letters, digits, `-`, `_` and `.` only");
    }
    for crash in &file.logs.crash {
        if let Err(e) = regex::Regex::new(crash.get_ref()) {
            let why = e.to_string();
            let why = why.lines().last().unwrap_or("not a regular expression");
            mistakes.at(crash.span().start, "logs.crash", why);
        }
    }
    let chosen = choose_options(&file, &options.set, &mut mistakes);
    let client = file.client.get_ref();
    if options.clients_on_nodes && client.kind.is_none() && client.on_nodes.is_empty() {
        let why = "`--clients on-nodes` needs `on_nodes`, the command that runs it on a node";
        mistakes.at(file.client.span().start, "client", why);
    }
    let kind = client_kind(&file, &mut mistakes);
    let mut parts = Vec::with_capacity(nodes.len());
    for index in 0..nodes.len() {
        let blueprint =
            blueprint::render(&file, source.dir.as_deref(), nodes, index, &chosen, &mut mistakes);
        let endpoint = match kind {
            Some(kind) => builtin_endpoint(kind, &file, &blueprint, options, &mut mistakes),
            None => stdio_endpoint(&file, source, &blueprint, nodes, options),
        };
        if let Some(endpoint) = endpoint {
            check_probes(&file, &blueprint, &*endpoint, &mut mistakes);
            let on_node = on_node(&file, &blueprint, nodes, options);
            parts.push(NodePart { blueprint, endpoint, on_node });
        }
    }
    let guarantees = guarantees::render(&file, nodes, &chosen, &mut mistakes);
    if !mistakes.is_empty() {
        return Err(mistakes.lines());
    }
    Ok(DescribedSystem {
        summary: summary(&file),
        options: chosen,
        crash: file.logs.crash.iter().map(|crash| crash.get_ref().clone()).collect(),
        install: options.install,
        parts,
        records: kind.and_then(|kind| kind.records),
        guarantees,
    })
}

fn choose_options(
    file: &SystemFile,
    set: &BTreeMap<String, String>,
    mistakes: &mut Mistakes<'_>,
) -> BTreeMap<String, String> {
    let name = file.name.get_ref();
    let mut chosen: BTreeMap<String, String> =
        file.options.iter().map(|(name, option)| (name.clone(), option.default.clone())).collect();
    for (option, value) in set {
        let Some(section) = file.options.get(option) else {
            let known: Vec<&str> = file.options.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            mistakes.elsewhere(format!("{name} has no option `{option}`; it has {known}"));
            continue;
        };
        if !section.values.is_empty() && !section.values.contains(value) {
            let values = section.values.join(" or ");
            mistakes.elsewhere(format!("{name}: option `{option}` is {values}, not `{value}`"));
        }
        chosen.insert(option.clone(), value.clone());
    }
    chosen
}

/// The built-in client the file names, if it names one. `None` is a program of the user's.
fn client_kind(file: &SystemFile, mistakes: &mut Mistakes<'_>) -> Option<&'static ClientKind> {
    let section = file.client.get_ref();
    let at = file.client.span().start;
    match (&section.kind, section.run.is_empty()) {
        (Some(name), true) => {
            let kind = CLIENT_KINDS.iter().find(|kind| kind.name == name.get_ref());
            if kind.is_none() {
                let known: Vec<&str> = CLIENT_KINDS.iter().map(|kind| kind.name).collect();
                let why = format!("`{}` is not built in: {} is", name.get_ref(), known.join(", "));
                mistakes.at(name.span().start, "client.kind", &why);
            }
            if section.endpoint.is_none() {
                mistakes.at(at, "client", "needs `endpoint`, where the client connects");
            }
            for (setting, value) in &section.settings {
                if kind.is_some_and(|kind| !kind.settings.contains(&setting.as_str())) {
                    let field = format!("client.settings.{setting}");
                    mistakes.at(value.span().start, &field, "this client has no such setting");
                }
            }
            if let (Some(kind), Some(supports)) = (kind, &file.supports) {
                for op in supports.get_ref() {
                    if !kind.supports.contains(&op.as_str()) {
                        let why = format!("the client performs no `{op}`");
                        mistakes.at(supports.span().start, "supports", &why);
                    }
                }
            }
            kind
        }
        (None, false) => {
            if file.supports.as_ref().is_none_or(|supports| supports.get_ref().is_empty()) {
                let why = "needs a list `supports` at the top: the operations it performs";
                mistakes.at(at, "client", why);
            }
            None
        }
        _ => {
            mistakes.at(at, "client", "needs one of kind and run");
            None
        }
    }
}

/// How clients are made on a node; none if the file does not say.
fn on_node(
    file: &SystemFile,
    blueprint: &Blueprint,
    nodes: &[Node],
    options: &SystemOptions,
) -> Option<OnNode> {
    let (section, client) = (file.client.get_ref(), &blueprint.client);
    let op_limit = section.op_limit.map_or(options.op_limit, |limit| limit.0);
    let script = match &section.kind {
        Some(kind) => {
            let addr = client.endpoint.as_deref()?.parse().ok()?;
            OnNode::built_in(kind.get_ref(), addr, op_limit)
        }
        None if client.on_nodes.is_empty() => return None,
        None => OnNode::program(&client.on_nodes, &blueprint.daemon.log_of_clients()),
    };
    let hello = Hello {
        hello: PROTOCOL,
        node: blueprint.node.clone(),
        nodes: nodes.to_vec(),
        process: 0,
        settings: client.settings.clone(),
    };
    Some(OnNode { script, hello, op_limit, is_built_in: section.kind.is_some() })
}

fn builtin_endpoint(
    kind: &ClientKind,
    file: &SystemFile,
    blueprint: &Blueprint,
    options: &SystemOptions,
    mistakes: &mut Mistakes<'_>,
) -> Option<Arc<dyn Endpoint>> {
    let at = file.client.get_ref().endpoint.as_ref()?.span().start;
    let text = blueprint.client.endpoint.as_deref().filter(|text| !text.is_empty())?;
    let node = &blueprint.node.name;
    let Ok(addr) = text.parse() else {
        let why = format!("`{text}` is not an address and a port, such as 10.0.0.1:2379");
        mistakes.on_node(node, at, "client.endpoint", &why);
        return None;
    };
    let settings = blueprint.client.settings.clone();
    let plan = EndpointPlan { addr, settings, op_limit: options.op_limit };
    (kind.endpoint)(plan)
        .map_err(|why| mistakes.on_node(node, file.client.span().start, "client", &why))
        .ok()
}

fn stdio_endpoint(
    file: &SystemFile,
    source: &Source,
    blueprint: &Blueprint,
    nodes: &[Node],
    options: &SystemOptions,
) -> Option<Arc<dyn Endpoint>> {
    Some(Arc::new(StdioEndpoint {
        argv: blueprint.client.run.clone(),
        dir: source.dir.clone(),
        node: blueprint.node.clone(),
        nodes: nodes.to_vec(),
        settings: blueprint.client.settings.clone(),
        supports: file.supports.as_ref().map(|s| s.get_ref().clone()).unwrap_or_default(),
        op_limit: file.client.get_ref().op_limit.map_or(options.op_limit, |limit| limit.0),
    }))
}

/// What the file expects of the client beyond operations must be something it can do.
fn check_probes(
    file: &SystemFile,
    blueprint: &Blueprint,
    endpoint: &dyn Endpoint,
    mistakes: &mut Mistakes<'_>,
) {
    if endpoint.probe().is_some() {
        return;
    }
    let why = "`client = true` needs a built-in client";
    let ready = &file.service.ready;
    if ready.get_ref().client && matches!(blueprint.ready, Readiness::Client) {
        mistakes.at(ready.span().start, "service.ready", why);
    }
    if let (Some(section), Some(PrimariesBy::Client)) = (&file.primaries, &blueprint.primaries)
        && section.get_ref().client
    {
        mistakes.at(section.span().start, "primaries", why);
    }
}

fn summary(file: &SystemFile) -> SystemSummary {
    let kind = file.client.get_ref().kind.as_ref();
    let kind = kind.and_then(|name| CLIENT_KINDS.iter().find(|k| k.name == name.get_ref()));
    let builtin = || kind.map(|k| k.supports.iter().map(|op| (*op).to_owned()).collect());
    SystemSummary {
        name: file.name.get_ref().clone(),
        about: file.about.clone(),
        supports: (file.supports.as_ref().map(|s| s.get_ref().clone()))
            .or_else(builtin)
            .unwrap_or_default(),
        packages: file.install.packages.clone(),
        claims: file.claims.clone(),
        options: file
            .options
            .iter()
            .map(|(name, option)| {
                let option = SystemOption {
                    about: option.about.clone(),
                    default: option.default.clone(),
                    values: option.values.clone(),
                };
                (name.clone(), option)
            })
            .collect(),
    }
}
