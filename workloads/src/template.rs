//! Strict templates: what a system.toml may say in terms of a node.
//!
//! A name that does not exist is a mistake, found when the file is loaded and never on a node.
//!
//! | name | what |
//! |---|---|
//! | `node.name`, `node.addr`, `node.index` | the node it is rendered for; the index counts from 0 |
//! | `nodes` | every node, each with `name`, `addr`, `index` |
//! | `peers(port)`, `others(port)` | `addr:port` of every node, or of every other one, joined by commas |
//! | `addr \| host` | an address as URLs want it: IPv6 in brackets |
//! | `data`, `log` | the directories of `[service]` and `[logs]` |
//! | `ports.NAME` | a port of `[service]` |
//! | `options.NAME` | the value of an option |
//! | `program(name)` | a program of deposed on the controller: the file of that name beside the running one, or `standbyd`, which the running one is by that name |

use std::collections::BTreeMap;
use std::net::IpAddr;

use deposed_core::Node;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value};

/// Renders templates for one node.
pub(crate) struct Scope {
    environment: Environment<'static>,
    names: BTreeMap<&'static str, Value>,
}

impl Scope {
    /// The names every template may use.
    pub(crate) fn new(nodes: &[Node], index: usize, options: &BTreeMap<String, String>) -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.add_filter("host", |addr: String| {
            if addr.parse::<std::net::Ipv6Addr>().is_ok() { format!("[{addr}]") } else { addr }
        });
        let all: Vec<Value> = nodes.iter().enumerate().map(|(i, n)| describe(n, i)).collect();
        let names = BTreeMap::from([
            ("node", all[index].clone()),
            ("nodes", Value::from(all)),
            ("peers", joined(nodes.iter())),
            ("others", joined(nodes.iter().enumerate().filter(|(i, _)| *i != index).map(|x| x.1))),
            ("options", Value::from(options.clone())),
            ("program", Value::from_function(|name: String| program(&name))),
        ]);
        Self { environment, names }
    }

    /// Adds a name for the templates rendered from now on.
    pub(crate) fn define(&mut self, name: &'static str, value: impl Into<Value>) {
        self.names.insert(name, value.into());
    }

    /// Renders a template, or says what is wrong with it.
    pub(crate) fn render(&self, source: &str) -> Result<String, String> {
        let template =
            self.environment.template_from_str(source).map_err(|e| explain(source, &e))?;
        let known = |name: &str| {
            self.names.contains_key(name) || self.environment.globals().any(|(g, _)| g == name)
        };
        let mut unknown: Vec<String> =
            template.undeclared_variables(false).into_iter().filter(|n| !known(n)).collect();
        if unknown.is_empty() {
            let mut text = template.render(&self.names).map_err(|e| explain(source, &e))?;
            // The engine drops the last newline, which a configuration file wants to keep.
            if source.ends_with('\n') {
                text.push('\n');
            }
            return Ok(text);
        }
        unknown.sort();
        let names: Vec<&str> = self.names.keys().copied().collect();
        Err(format!(
            "`{}` is not a name here; there are {}",
            unknown.join("`, `"),
            names.join(", ")
        ))
    }
}

fn describe(node: &Node, index: usize) -> Value {
    Value::from(BTreeMap::from([
        ("name", Value::from(&*node.name)),
        ("addr", Value::from(node.addr.to_string())),
        ("index", Value::from(index)),
    ]))
}

fn joined<'a>(nodes: impl Iterator<Item = &'a Node>) -> Value {
    let addrs: Vec<IpAddr> = nodes.map(|node| node.addr).collect();
    Value::from_function(move |port: u16| {
        let sockets: Vec<String> =
            addrs.iter().map(|&addr| std::net::SocketAddr::new(addr, port).to_string()).collect();
        sockets.join(",")
    })
}

/// What the running program is, too, when it is called by that name.
const BUNDLED: [&str; 1] = ["standbyd"];

/// A program that comes with this one: installed beside it, or else this one, which looks at the
/// name it is called by.
fn program(name: &str) -> Result<String, minijinja::Error> {
    let this = std::env::current_exe().unwrap_or_default();
    let beside = this.with_file_name(name);
    if beside.is_file() {
        return Ok(beside.display().to_string());
    }
    if BUNDLED.contains(&name) {
        return Ok(this.display().to_string());
    }
    let absent = format!(
        "program('{name}'): {} is no file, and deposed brings no such program",
        beside.display()
    );
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, absent))
}

fn explain(source: &str, error: &minijinja::Error) -> String {
    let culprit = error.range().and_then(|range| source.get(range)).map(str::trim);
    match (error.kind(), culprit) {
        (ErrorKind::UndefinedError, Some(culprit)) => format!("`{culprit}` is undefined"),
        (kind, culprit) => {
            let detail = error.detail().map_or_else(|| kind.to_string(), str::to_owned);
            match culprit {
                Some(culprit) if !culprit.is_empty() => format!("{detail}, at `{culprit}`"),
                _ => detail,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        let node = |name: &str, addr: &str| Node { name: name.into(), addr: addr.parse().unwrap() };
        let nodes = [node("n1", "10.0.0.1"), node("n2", "fd00::2")];
        let options = BTreeMap::from([("read".to_owned(), "serializable".to_owned())]);
        let mut scope = Scope::new(&nodes, 1, &options);
        scope.define("ports", Value::from(BTreeMap::from([("client", 2379)])));
        scope
    }

    /// A node, its peers and its options can be spelled out, IPv6 in brackets where a port follows.
    #[test]
    fn names_render() {
        let scope = scope();
        let render = |text| scope.render(text).unwrap();
        assert_eq!(render("{{ node.name }} {{ node.index }} {{ node.addr }}"), "n2 1 fd00::2");
        assert_eq!(render("{{ node.addr | host }}:{{ ports.client }}"), "[fd00::2]:2379");
        assert_eq!(render("{{ peers(7) }} {{ others(8) }}"), "10.0.0.1:7,[fd00::2]:7 10.0.0.1:8");
        assert_eq!(render("{{ options.read }}"), "serializable");
        assert_eq!(
            render(
                "{% for n in nodes %}{{ n.name }}{% if not loop.last %},{% endif %}{% endfor %}\n"
            ),
            "n1,n2\n"
        );
    }

    /// A name that does not exist is an error that names it, even on a branch not taken.
    #[test]
    fn unknown_names_are_errors() {
        let scope = scope();
        let mistake = |text| scope.render(text).unwrap_err();
        assert_eq!(
            mistake("{% if false %}{{ nodee }}{% endif %}"),
            "`nodee` is not a name here; there are node, nodes, options, others, peers, ports, program"
        );
        assert_eq!(mistake("{{ node.nmae }}"), "`node.nmae` is undefined");
        assert_eq!(mistake("a {{ ports.peer }} b"), "`ports.peer` is undefined");
        assert!(mistake("{{ node.name | hots }}").contains("hots"));
        assert!(mistake("{{ node.name ").contains("unexpected end"));
        assert!(mistake("{{ peers('x') }}").contains("peers"));
        assert!(mistake("{{ program('python3') }}").contains("brings no such program"));
        assert!(scope.render("{{ program('standbyd') }}").is_ok());
    }
}
