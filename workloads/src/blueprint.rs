//! A system.toml rendered for one node: everything that will be done there, as plain text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use deposed_core::Node;
use toml::Spanned;

use crate::daemon::Daemon;
use crate::mistakes::Mistakes;
use crate::system_file::{ClientSection, SystemFile, Template};
use crate::template::Scope;

/// What to do on one node.
#[derive(Debug, Clone)]
pub(crate) struct Blueprint {
    pub(crate) node: Node,
    pub(crate) daemon: Daemon,
    pub(crate) ports: BTreeMap<String, u16>,
    pub(crate) upload: Vec<Upload>,
    pub(crate) install: Vec<String>,
    pub(crate) files: Vec<ConfigFile>,
    pub(crate) ready: Readiness,
    pub(crate) ready_within: Duration,
    pub(crate) stop: Option<String>,
    pub(crate) supervised: bool,
    /// Globs of logs besides the daemon's own.
    pub(crate) logs: Vec<String>,
    pub(crate) primaries: Option<PrimariesBy>,
    pub(crate) client: ClientPlan,
}

/// A file of the controller for the node.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    pub(crate) from: PathBuf,
    pub(crate) to: String,
    pub(crate) mode: u32,
}

/// A file to write on the node.
#[derive(Debug, Clone)]
pub(crate) struct ConfigFile {
    pub(crate) to: String,
    pub(crate) content: String,
    pub(crate) mode: u32,
}

/// How to see that it serves.
#[derive(Debug, Clone)]
pub(crate) enum Readiness {
    /// A script on the node succeeds.
    Run(String),
    /// Something listens on this port.
    Port(u16),
    /// The client says so.
    Client,
}

/// How to see who leads.
#[derive(Debug, Clone)]
pub(crate) enum PrimariesBy {
    /// A script on the node prints them.
    Run(String),
    /// The client asks.
    Client,
}

/// How clients of this node are made.
#[derive(Debug, Clone)]
pub(crate) struct ClientPlan {
    pub(crate) endpoint: Option<String>,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) run: Vec<String>,
    pub(crate) on_nodes: Vec<String>,
}

/// Renders one node's part; what is wrong goes to `mistakes`, and stands as empty text.
pub(crate) fn render(
    file: &SystemFile,
    dir: Option<&Path>,
    nodes: &[Node],
    index: usize,
    options: &BTreeMap<String, String>,
    mistakes: &mut Mistakes<'_>,
) -> Blueprint {
    let node = nodes[index].clone();
    let name = file.name.get_ref();
    let mut pen = Pen { scope: Scope::new(nodes, index, options), node: &node.name, mistakes };

    let ports: BTreeMap<String, u16> = file
        .service
        .ports
        .iter()
        .filter_map(|(name, port)| Some((name.clone(), pen.port(name, port)?)))
        .collect();
    pen.scope.define("ports", minijinja::Value::from(ports.clone()));
    let data = pen.text("service.data", &file.service.data);
    if let Some(why) = unsafe_to_empty(&data) {
        pen.mistake("service.data", &file.service.data, why);
    }
    pen.scope.define("data", data.clone());
    let log = match &file.logs.dir {
        Some(dir) => pen.path("logs.dir", dir),
        None => format!("/var/log/deposed/{name}"),
    };
    pen.scope.define("log", log.clone());

    let ready = &file.service.ready;
    let ready_by = match (&ready.get_ref().run, &ready.get_ref().port, ready.get_ref().client) {
        (Some(run), None, false) => Readiness::Run(pen.text("service.ready.run", run)),
        (None, Some(port), false) => match ports.get(port) {
            Some(port) => Readiness::Port(*port),
            None => {
                pen.mistake("service.ready", ready, format!("`{port}` is none of service.ports"));
                Readiness::Client
            }
        },
        (None, None, true) => Readiness::Client,
        _ => {
            pen.mistake("service.ready", ready, "needs one of run, port and client".into());
            Readiness::Client
        }
    };
    let primaries = file.primaries.as_ref().map(|section| {
        match (&section.get_ref().run, section.get_ref().client) {
            (Some(run), false) => PrimariesBy::Run(pen.text("primaries.run", run)),
            (None, true) => PrimariesBy::Client,
            _ => {
                pen.mistake("primaries", section, "needs one of run and client".into());
                PrimariesBy::Client
            }
        }
    });

    Blueprint {
        daemon: Daemon {
            run: format!("/run/deposed/{name}/{}", node.name),
            data,
            log_file: format!("{log}/{name}.log"),
            user: file.service.user.as_ref().map(|user| pen.text("service.user", user)),
            start: pen.text("service.start", &file.service.start),
        },
        ports,
        upload: uploads(file, dir, &mut pen),
        install: pen.all("install.run", &file.install.run),
        files: file
            .files
            .iter()
            .enumerate()
            .map(|(i, section)| ConfigFile {
                to: pen.path(&format!("files[{i}].to"), &section.to),
                content: pen.text(&format!("files[{i}].content"), &section.content),
                mode: section.mode.0,
            })
            .collect(),
        ready: ready_by,
        ready_within: ready.get_ref().within.0,
        stop: file.service.stop.as_ref().map(|stop| pen.text("service.stop", stop)),
        supervised: file.service.supervised,
        logs: pen.all("logs.files", &file.logs.files),
        primaries,
        client: client(file.client.get_ref(), &mut pen),
        node: node.clone(),
    }
}

fn uploads(file: &SystemFile, dir: Option<&Path>, pen: &mut Pen<'_, '_>) -> Vec<Upload> {
    let mut uploads = Vec::new();
    for (i, section) in file.install.upload.iter().enumerate() {
        let field = format!("install.upload[{i}]");
        let from = pen.text(&format!("{field}.from"), &section.from);
        let from = dir.unwrap_or(Path::new("")).join(from);
        if !from.is_file() {
            let why = format!("there is no file {}", from.display());
            pen.mistake(&format!("{field}.from"), &section.from, why);
        }
        let to = pen.path(&format!("{field}.to"), &section.to);
        uploads.push(Upload { from, to, mode: section.mode.0 });
    }
    uploads
}

fn client(section: &ClientSection, pen: &mut Pen<'_, '_>) -> ClientPlan {
    ClientPlan {
        endpoint: section.endpoint.as_ref().map(|at| pen.text("client.endpoint", at)),
        settings: section
            .settings
            .iter()
            .map(|(name, value)| {
                (name.clone(), pen.text(&format!("client.settings.{name}"), value))
            })
            .collect(),
        run: pen.all("client.run", &section.run),
        on_nodes: pen.all("client.on_nodes", &section.on_nodes),
    }
}

/// Renders fields and notes what is wrong with them.
struct Pen<'a, 'm> {
    scope: Scope,
    node: &'a str,
    mistakes: &'a mut Mistakes<'m>,
}

impl Pen<'_, '_> {
    fn text(&mut self, field: &str, template: &Template) -> String {
        self.scope.render(template.get_ref()).unwrap_or_else(|why| {
            self.mistake(field, template, why);
            String::new()
        })
    }

    fn all(&mut self, field: &str, templates: &[Template]) -> Vec<String> {
        templates.iter().enumerate().map(|(i, t)| self.text(&format!("{field}[{i}]"), t)).collect()
    }

    fn path(&mut self, field: &str, template: &Template) -> String {
        let path = self.text(field, template);
        if !path.is_empty() && !path.starts_with('/') {
            self.mistake(field, template, format!("`{path}` is not an absolute path"));
        }
        path
    }

    fn port(&mut self, name: &str, port: &Spanned<toml::Value>) -> Option<u16> {
        let field = format!("service.ports.{name}");
        let text = match port.get_ref() {
            toml::Value::String(template) => match self.scope.render(template) {
                Ok(text) => text,
                Err(why) => {
                    self.mistake(&field, port, why);
                    return None;
                }
            },
            other => other.to_string(),
        };
        match text.parse() {
            Ok(number) if number > 0 => Some(number),
            _ => {
                self.mistake(&field, port, format!("`{text}` is not a port"));
                None
            }
        }
    }

    fn mistake<T>(&mut self, field: &str, at: &Spanned<T>, why: String) {
        self.mistakes.on_node(self.node, at.span().start, field, &why);
    }
}

/// Why a directory must not be given to teardown, which removes all that is in it.
fn unsafe_to_empty(path: &str) -> Option<String> {
    if path.is_empty() {
        return None; // Its template is a mistake already.
    }
    let Some(rest) = path.strip_prefix('/') else {
        return Some(format!("`{path}` is not an absolute path"));
    };
    let parts: Vec<&str> = rest.trim_end_matches('/').split('/').collect();
    let plain = parts.iter().all(|part| !matches!(*part, "" | "." | ".."));
    let shallow_max = match parts[0] {
        "bin" | "boot" | "dev" | "etc" | "lib" | "lib64" | "proc" | "sbin" | "sys" | "usr" => {
            usize::MAX
        }
        "home" | "var" => 2,
        _ => 1,
    };
    (!plain || parts.len() <= shallow_max).then(|| {
        format!("`{path}` is too precious to be emptied: name a directory of the store's own")
    })
}

#[cfg(test)]
mod tests {
    use super::unsafe_to_empty;

    /// Teardown never gets a directory that holds more than the store's data.
    #[test]
    fn precious_directories() {
        for precious in [
            "data",
            "/",
            "//",
            "/var",
            "/var/lib",
            "/var/lib/",
            "/home/a",
            "/etc/x/y",
            "/a/../b",
            "/srv",
        ] {
            assert!(unsafe_to_empty(precious).is_some(), "{precious}");
        }
        for fine in ["/var/lib/etcd", "/data/etcd", "/tmp/x", "/home/a/data", "/srv/etcd/"] {
            assert_eq!(unsafe_to_empty(fine), None);
        }
    }
}
