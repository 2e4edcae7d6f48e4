//! Client programs of the user's: conformance, and every way to break the protocol.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "other tests use more of it")]
mod local_remote;

use std::path::Path;
use std::time::{Duration, Instant};

use deposed_core::{Client, ClientError, Invocation, Node, System};
use deposed_history::Value;
use deposed_workloads::{DescribedSystem, SystemOptions, load_system};

/// A client in shell: the key of an operation says how to answer it.
const CLIENT: &str = r#"
echo $$ >"$1/pid"
read -r hello
echo "$hello" >"$1/hello"
echo "ready for orders" >&2
echo '{"hello":1,"supports":["cas","read","write"],"also":"ignored"}'
while read -r line; do
    id=${line#*'"id":'} && id=${id%%,*}
    case $line in
    *'"bare"'*) echo "{\"id\":$id,\"type\":\"ok\"}" ;;
    *'"valued"'*) echo "{\"id\":$id,\"type\":\"ok\",\"value\":[\"valued\",[1,-2.5,\"x\",null]]}" ;;
    *'"false"'*) echo "{\"id\":$id,\"type\":\"fail\",\"error\":\"precondition\"}" ;;
    *'"refused"'*) echo "{\"id\":$id,\"type\":\"fail\",\"error\":\"refused\"}" ;;
    *'"doubt"'*) echo "{\"id\":$id,\"type\":\"info\",\"error\":\"timeout\"}" ;;
    *'"garbage"'*) echo "not json" ;;
    *'"extra"'*) echo "{\"id\":$id,\"type\":\"ok\",\"valeu\":1}" ;;
    *'"type"'*) echo "{\"id\":$id,\"type\":\"fine\"}" ;;
    *'"other id"'*) echo "{\"id\":77,\"type\":\"ok\"}" ;;
    *'"half"'*) printf '{"id"' && exit 0 ;;
    *'"exit"'*) exit 3 ;;
    *'"silence"'*) sleep 2 ;;
    esac
done
echo closed >"$1/closed"
"#;

struct Rig {
    dir: tempfile::TempDir,
    nodes: Vec<Node>,
    system: DescribedSystem,
}

impl Rig {
    fn new(client: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("client.sh"), client).unwrap();
        let text = format!(
            "schema = 1\nname = 'mine'\nsupports = ['read', 'write', 'cas']\n\
             [service]\nstart = 'x'\ndata = '/tmp/mine'\nready = {{ run = 'x', within = '1s' }}\n\
             [client]\nrun = ['sh', 'client.sh', '{dir}']\nop_limit = '500ms'\n\
             on_nodes = ['sh', '{dir}/client.sh', '{dir}']\n\
             settings = {{ tls = 'no', at = '{{{{ node.addr }}}}' }}\n\
             [logs]\ndir = '{dir}'\n",
            dir = dir.path().display()
        );
        std::fs::write(dir.path().join("system.toml"), text).unwrap();
        let node = |i: u8| Node { name: format!("n{i}").into(), addr: [127, 0, 0, i].into() };
        let nodes = vec![node(1), node(2)];
        let path = dir.path().to_str().unwrap();
        let system = load_system(path, &nodes, &SystemOptions::default()).unwrap();
        Self { dir, nodes, system }
    }

    async fn connect(&self) -> Result<Box<dyn Client>, ClientError> {
        self.system.clients().connect(&self.nodes[1], 3).await
    }

    /// The same on a node, which is this machine.
    async fn connect_on_node(&self) -> Result<Box<dyn Client>, ClientError> {
        let cluster = local_remote::cluster(&self.nodes);
        let clients = self.system.clients_on_nodes(&cluster).await.unwrap();
        clients.connect(&self.nodes[1], 3).await
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap()
    }

    async fn ended(&self) {
        let start = Instant::now();
        let status = format!("/proc/{}/status", self.file("pid").trim());
        while std::fs::read_to_string(&status).is_ok_and(|status| !status.contains("State:\tZ")) {
            assert!(start.elapsed() < Duration::from_secs(3), "the child lives on");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn op(how: &str) -> Invocation {
    Invocation::new("write", Value::pair(how, 3))
}

/// A child that keeps to the protocol: it is told who it talks to, its answers are taken as they
/// are, and the end of its input tells it to close.
#[tokio::test]
async fn a_conforming_client() {
    let rig = Rig::new(CLIENT);
    conforms(&rig, rig.connect().await.unwrap()).await;
}

/// The same on a node, where what it says for people is kept.
#[tokio::test]
async fn a_conforming_client_on_a_node() {
    let rig = Rig::new(CLIENT);
    conforms(&rig, rig.connect_on_node().await.unwrap()).await;
    assert_eq!(rig.file("clients.log"), "ready for orders\n");
}

/// A client on a node that falls silent is heard no more.
#[tokio::test]
async fn a_silent_client_on_a_node_is_given_up() {
    let rig = Rig::new(CLIENT);
    let mut client = rig.connect_on_node().await.unwrap();
    for how in ["silence", "bare"] {
        let result = client.invoke(&op(how)).await;
        assert!(matches!(result, Err(ClientError::Indefinite(_))), "{how}: {result:?}");
    }
    rig.ended().await;
}

/// Without a command for nodes, clients on nodes are refused before anything starts.
#[test]
fn a_program_without_a_command_for_nodes_stays_here() {
    let rig = Rig::new(CLIENT);
    let path = rig.dir.path().join("system.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("on_nodes =", "# on_nodes =")).unwrap();
    let options = SystemOptions { clients_on_nodes: true, ..SystemOptions::default() };
    let refused = load_system(path.to_str().unwrap(), &rig.nodes, &options).err().unwrap();
    assert!(refused.to_string().contains("client: `--clients on-nodes` needs"), "{refused}");
}

async fn conforms(rig: &Rig, mut client: Box<dyn Client>) {
    let hello: serde_json::Value = serde_json::from_str(&rig.file("hello")).unwrap();
    let node = |n: &Node| serde_json::json!({ "name": &*n.name, "addr": n.addr.to_string() });
    let expected = serde_json::json!({
        "hello": 1,
        "node": node(&rig.nodes[1]),
        "nodes": [node(&rig.nodes[0]), node(&rig.nodes[1])],
        "process": 3,
        "settings": { "at": rig.nodes[1].addr.to_string(), "tls": "no" },
    });
    assert_eq!(hello, expected);

    for _ in 0..3 {
        assert_eq!(client.invoke(&op("bare")).await, Ok(op("bare").value));
        let list = vec![Value::Int(1), Value::Float(-2.5), Value::str("x"), Value::Nil];
        let valued = Value::pair("valued", Value::List(list));
        assert_eq!(client.invoke(&op("valued")).await, Ok(valued));
        assert_eq!(client.invoke(&op("false")).await, Err(ClientError::Precondition));
        let refused = Err(ClientError::Definite("refused".into()));
        assert_eq!(client.invoke(&op("refused")).await, refused);
    }
    client.close().await;
    rig.ended().await;
    assert_eq!(rig.file("closed"), "closed\n");
}

/// Whatever a child does wrong, its operation is indeterminate, the child is killed, and the
/// client never mistakes a late answer for the next one's.
#[tokio::test]
async fn every_breach_is_indeterminate() {
    let breaches = [
        ("doubt", "timeout"),
        ("garbage", "a bad answer: not json"),
        ("extra", "unknown field `valeu`"),
        ("type", "unknown variant `fine`"),
        ("other id", "its id is not 1"),
        ("half", "it ended: exit status: 0"),
        ("exit", "it ended: exit status: 3"),
        ("silence", "no answer within 500ms"),
    ];
    let rig = Rig::new(CLIENT);
    for (how, says) in breaches {
        let mut client = rig.connect().await.unwrap();
        let answer = client.invoke(&op(how)).await;
        let Err(ClientError::Indefinite(why)) = &answer else { panic!("{how}: {answer:?}") };
        assert!(why.contains(says), "{how}: {why}");
        rig.ended().await;
        let next = client.invoke(&op("bare")).await;
        assert!(matches!(next, Err(ClientError::Indefinite(_))), "{how}: {next:?}");
        client.close().await;
    }
}

/// A child that cannot be started or does not say hello is a definite failure that says what it
/// said instead.
#[tokio::test]
async fn every_bad_hello_is_definite() {
    let hellos = [
        ("exit 4", "it ended: exit status: 4"),
        ("echo usage: client FILE", "not a hello: usage: client FILE"),
        ("read -r x; echo '{\"hello\":2,\"supports\":[]}'", "speaks protocol 2, not 1"),
        ("read -r x; echo '{\"hello\":1,\"supports\":[\"read\"]}'", "does not support `cas`"),
    ];
    for (client, says) in hellos {
        let error = Rig::new(client).connect().await.err().unwrap();
        let ClientError::Definite(why) = &error else { panic!("{error:?}") };
        assert!(why.starts_with("sh client.sh") && why.contains(says), "{why}");
    }
}

/// A client that is dropped in the middle of an operation takes its child with it.
#[tokio::test]
async fn a_dropped_client_leaves_no_child() {
    let rig = Rig::new(CLIENT);
    let mut client = rig.connect().await.unwrap();
    let op = op("silence");
    let cut = tokio::time::timeout(Duration::from_millis(100), client.invoke(&op)).await;
    assert!(cut.is_err());
    drop(client);
    rig.ended().await;
    assert!(!Path::new(&rig.dir.path().join("closed")).exists());
}
