//! Flags, file and OpenSSH configuration together.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    cluster: ClusterArgs,
}

struct Home(tempfile::TempDir);

impl Home {
    fn new(files: &[(&str, &str)]) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            let path = home.path(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn resolve(&self, line: &str) -> Result<Inventory, InventoryError> {
        let line = line.replace('%', self.0.path().to_str().unwrap());
        let cli = Cli::try_parse_from(format!("deposed {line}").split(' ')).unwrap();
        cli.cluster.inventory(&self.surroundings())
    }

    fn surroundings(&self) -> Surroundings {
        Surroundings {
            home: self.0.path().to_owned(),
            ssh_config: Some(self.path(".ssh/config")),
            agent: Some(self.path("agent")),
            env: Box::new(|name| (name == "SECRET").then(|| "hunter2".to_owned())),
            ask: Box::new(|what| Ok(format!("asked for {what}"))),
        }
    }
}

#[test]
fn flags_alone_make_a_cluster() {
    let home = Home::new(&[(".ssh/id_rsa", ""), ("key", "")]);
    let line = "--nodes n1=127.0.0.1,n2=ada@[::1]:23 --user bob --key %/key --password env:SECRET";
    let nodes = home.resolve(line).unwrap().nodes;
    assert_eq!(nodes[0].endpoint(), "127.0.0.1:22".parse().unwrap());
    assert_eq!(nodes[1].endpoint(), "[::1]:23".parse().unwrap());
    assert_eq!(nodes[1].user, "bob", "a flag outweighs");
    assert_eq!(nodes[0].keys, [home.path("key")]);
    assert_eq!(nodes[0].fallback_keys, [home.path(".ssh/id_rsa")]);
    assert_eq!(nodes[0].known_hosts[0], home.path(".ssh/known_hosts"));
    assert_eq!(nodes[0].password, Some(Secret::new("hunter2")));
    assert_eq!(nodes[0].agent, Some(home.path("agent")));
    let shown = format!("{nodes:?} {}", serde_json::to_string(&nodes).unwrap());
    assert!(!shown.contains("hunter2"));
}

#[test]
fn a_node_outweighs_the_file_and_the_file_outweighs_openssh() {
    let home = Home::new(&[
        (
            "lab/cluster.toml",
            "user = \"file\"\nkey = \"keys/all\"\n[[nodes]]\nname = \"n1\"\naddr = \"alias\"\n\
             [[nodes]]\nname = \"n2\"\naddr = \"127.0.0.2\"\nuser = \"own\"\nkey = \"~/mine\"\n",
        ),
        ("lab/keys/all", ""),
        ("mine", ""),
        (
            ".ssh/config",
            "Host alias\nHostName 127.0.0.1\nUser openssh\nPort 2201\nIdentitiesOnly yes\n",
        ),
    ]);
    let nodes = home.resolve("--cluster %/lab/cluster.toml").unwrap().nodes;
    assert_eq!(nodes[0].endpoint(), "127.0.0.1:2201".parse().unwrap());
    assert_eq!((&*nodes[0].user, &*nodes[1].user), ("file", "own"));
    assert_eq!(nodes[0].keys, [home.path("lab/keys/all")]);
    assert_eq!(nodes[1].keys, [home.path("mine")]);
    assert_eq!(nodes[0].agent, None);
    let one = home.resolve("--cluster %/lab/cluster.toml --nodes n2").unwrap().nodes;
    assert_eq!(one, nodes[1..]);
    let error = home.resolve("--cluster %/lab/cluster.toml --nodes n3").unwrap_err();
    assert!(error.to_string().contains("no node `n3`; there are n1, n2"), "{error}");
}

#[test]
fn a_nodes_file_has_a_node_a_line() {
    let home = Home::new(&[("nodes", "# lab\nn1=127.0.0.1\n\nn2=127.0.0.2:2222 # two\n")]);
    let nodes = home.resolve("--nodes-file %/nodes").unwrap().nodes;
    assert_eq!(nodes.len(), 2);
    assert_eq!(nodes[1].port, 2222);
}

#[test]
fn host_names_are_looked_up() {
    let node = Home::new(&[]).resolve("--nodes n1=localhost").unwrap().nodes.remove(0);
    assert!(node.node.addr.is_loopback());
    assert_eq!(node.host, "localhost");
}

#[test]
fn every_mistake_is_told_at_once() {
    let home = Home::new(&[
        (
            "cluster.toml",
            "key = \"missing\"\nprot = 1\n[[nodes]]\nname = \"n1\"\naddr = \"127.0.0.1\"\n\
             [[nodes]]\nname = \"n1\"\naddr = \"127.0.0.2\"\n[[nodes]]\nname = \"n3\"\naddr = \"127.0.0.1\"\n\
             port = 0\n[[nodes]]\nname = \"n/4\"\naddr = \"127.0.0.4\"\npassword = \"env:UNSET\"\n\
             [[nodes]]\nname = \"n5\"\naddr = \"no.such.invalid\"\n[[nodes]]\nname = \"jump\"\n",
        ),
        (".ssh/config", "Host jump\nHostName 127.0.0.9\nProxyJump gate\n"),
    ]);
    let error = home.resolve("--cluster %/cluster.toml").unwrap_err().to_string();
    for part in [
        "cluster.toml:2:1 prot: unknown setting",
        "missing cannot be read",
        "a node `n1` is there already",
        "n3 has the address of n1, 127.0.0.1",
        "port 0 is no port",
        "`n/4` cannot name a node",
        "the environment variable UNSET is not set",
        "`no.such.invalid` cannot be looked up",
        "proxyjump `gate`",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let error = home.resolve("--nodes-file %/none").unwrap_err().to_string();
    assert!(error.contains("cannot be read"), "{error}");
}

#[test]
fn a_secret_for_all_nodes_is_asked_for_once_and_never_before_mistakes_are_mended() {
    let home = Home::new(&[]);
    let around = Surroundings { ask: Box::new(|_| panic!("asked")), ..home.surroundings() };
    let args = |nodes: &str| ClusterArgs {
        nodes: nodes.split(',').map(str::to_owned).collect(),
        password: Some(SecretSource::Prompt),
        ..ClusterArgs::default()
    };
    assert!(args("n1=127.0.0.1,bad=127.0.0.1:0").inventory(&around).is_err());
    let asked = std::rc::Rc::new(std::cell::Cell::new(0));
    let counter = asked.clone();
    let ask = Box::new(move |what: &str| {
        counter.set(counter.get() + 1);
        Ok(what.to_owned())
    });
    let nodes = args("n1=127.0.0.1,n2=127.0.0.2")
        .inventory(&Surroundings { ask, ..home.surroundings() })
        .unwrap()
        .nodes;
    assert_eq!(asked.get(), 1);
    assert_eq!(nodes[1].password, Some(Secret::new("password for all nodes")));
}

#[test]
fn a_password_on_the_command_line_is_refused_and_not_repeated() {
    let parsed = Cli::try_parse_from(["deposed", "--nodes", "n1", "--password", "hunter2"]);
    let error = parsed.err().unwrap().to_string();
    assert!(!error.contains("hunter2"), "{error}");
}
