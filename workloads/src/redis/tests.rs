//! The client against Sentinels and masters that say what a test wants.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deposed_core::{Client, ClientError, Invocation};
use deposed_history::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::client::{ASK_EVERY, KIND};
use crate::endpoint::{Endpoint, EndpointPlan};

/// What a server replies to a command; `None`: it closes the connection.
type Script = Arc<dyn Fn(&[String]) -> Option<String> + Send + Sync>;

async fn server(script: Script) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(BufReader::new(stream), script.clone()));
        }
    });
    addr
}

async fn serve(mut stream: BufReader<TcpStream>, script: Script) -> Option<()> {
    loop {
        let mut words = Vec::new();
        for _ in 0..number(&mut stream).await? {
            let mut word = vec![0; number(&mut stream).await? + 2];
            stream.read_exact(&mut word).await.ok()?;
            word.truncate(word.len() - 2);
            words.push(String::from_utf8(word).unwrap());
        }
        let reply = script(&words)?;
        stream.get_mut().write_all(reply.as_bytes()).await.ok()?;
    }
}

async fn number(stream: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.get(1..)?.trim().parse().ok()
}

/// A Sentinel that names whoever stands in its book.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Option<(SocketAddr, i64)>>>);

impl Book {
    fn name(&self, master: SocketAddr, epoch: i64) {
        *self.0.lock().unwrap() = Some((master, epoch));
    }

    async fn sentinel(&self) -> SocketAddr {
        let book = self.clone();
        server(Arc::new(move |words| {
            let (master, epoch) = (*book.0.lock().unwrap())?;
            let (ip, port) = (master.ip().to_string(), master.port().to_string());
            Some(match &*words[1] {
                "MASTER" => bulks(&["name", "main", "config-epoch", &epoch.to_string()]),
                _ => bulks(&[&ip, &port]),
            })
        }))
        .await
    }
}

fn bulks(words: &[&str]) -> String {
    let words: String = words.iter().map(|w| format!("${}\r\n{w}\r\n", w.len())).collect();
    format!("*{}\r\n{words}", words.matches('$').count())
}

/// A master that has one list, or whatever says so of itself.
async fn redis(role: &'static str, push: &'static str) -> SocketAddr {
    let role = match role {
        "master" => "*3\r\n$6\r\nmaster\r\n:7\r\n*0\r\n".to_owned(),
        other => format!("*1\r\n${}\r\n{other}\r\n", other.len()),
    };
    server(Arc::new(move |words| match &*words[0] {
        "RPUSH" if push.is_empty() => None,
        "RPUSH" => Some(push.into()),
        "EXEC" => Some(format!("*2\r\n{role}{}", bulks(&["a1", "a2"]))),
        _ => Some("+QUEUED\r\n".into()),
    }))
    .await
}

fn endpoint(sentinels: &[SocketAddr]) -> Arc<dyn Endpoint> {
    let nodes = (1..).zip(sentinels).map(|(i, addr)| format!("n{i}={addr}"));
    let settings = [
        ("nodes", nodes.collect::<Vec<_>>().join(",")),
        ("port", "1".into()),
        ("master", "main".into()),
    ];
    let settings = BTreeMap::from(settings.map(|(name, value)| (name.into(), value)));
    let op_limit = Duration::from_secs(2);
    (KIND.endpoint)(EndpointPlan { addr: sentinels[0], settings, op_limit }).unwrap()
}

async fn append(client: &mut Box<dyn Client>) -> Result<Value, ClientError> {
    let argument = Value::Map(vec![("id".into(), "a1".into())]);
    client.invoke(&Invocation::new("append", Value::pair("log-0", argument))).await
}

async fn read(client: &mut Box<dyn Client>) -> Result<Value, ClientError> {
    client.invoke(&Invocation::new("read", Value::pair("log-0", Value::Nil))).await
}

fn epoch(value: &Value) -> i64 {
    value.as_list().unwrap()[1].get("epoch").and_then(Value::as_int).unwrap()
}

/// The own Sentinel says who is asked, the greatest epoch of that one counts; another master is found
/// within a moment, and whoever says READONLY is asked no more.
#[tokio::test]
async fn a_client_follows_its_sentinel() {
    let (old, new) = (redis("master", ":1\r\n").await, redis("master", ":2\r\n").await);
    let (own, others) = (Book::default(), Book::default());
    own.name(old, 1);
    others.name(new, 2);
    let sentinels = [own.sentinel().await, others.sentinel().await];
    let mut client = endpoint(&sentinels).connect(0).await.unwrap();
    assert_eq!(
        epoch(&append(&mut client).await.unwrap()),
        1,
        "it was cut off, and knows no better"
    );
    own.name(new, 2);
    tokio::time::sleep(ASK_EVERY * 2).await;
    let value = append(&mut client).await.unwrap();
    assert_eq!(epoch(&value), 2);
    assert_eq!(value.as_list().unwrap()[1].get("id"), Some(&Value::from("a1")));
    // The old one was promoted again, as others know.
    own.name(old, 1);
    others.name(old, 3);
    tokio::time::sleep(ASK_EVERY * 2).await;
    assert_eq!(epoch(&append(&mut client).await.unwrap()), 3);
    // A Sentinel that is gone leaves the client where it is; then the next one is asked.
    *own.0.lock().unwrap() = None;
    tokio::time::sleep(ASK_EVERY * 2).await;
    assert_eq!(epoch(&append(&mut client).await.unwrap()), 3);
    let mut client = endpoint(&sentinels).connect(1).await.unwrap();
    assert_eq!(epoch(&append(&mut client).await.unwrap()), 3);
    *others.0.lock().unwrap() = None;
    assert!(matches!(endpoint(&sentinels).connect(2).await, Err(ClientError::Definite(_))));
}

/// What was refused before its effect failed; what broke off is in doubt.
#[tokio::test]
async fn appends_are_in_doubt_once_they_were_sent() {
    for (push, definite) in [
        ("-READONLY You can't write against a read only replica.\r\n", true),
        ("-NOREPLICAS Not enough good replicas to write.\r\n", true),
        ("", false),
        ("+PONG\r\n", false),
        ("-ERR whatever\r\n", false),
    ] {
        let book = Book::default();
        book.name(redis("master", push).await, 1);
        let mut client = endpoint(&[book.sentinel().await]).connect(0).await.unwrap();
        match append(&mut client).await.unwrap_err() {
            ClientError::Definite(_) => assert!(definite, "{push}"),
            _ => assert!(!definite, "{push}"),
        }
    }
}

/// A replica answers reads, and is no leader for that.
#[tokio::test]
async fn only_a_master_is_read() {
    for (role, leads) in [("master", true), ("slave", false)] {
        let book = Book::default();
        book.name(redis(role, ":1\r\n").await, 4);
        let mut client = endpoint(&[book.sentinel().await]).connect(0).await.unwrap();
        match read(&mut client).await {
            Ok(value) => {
                assert!(leads);
                let seen = value.as_list().unwrap()[1].get("values").unwrap();
                assert_eq!(seen.as_list().unwrap().len(), 2);
                assert_eq!(epoch(&value), 4);
            }
            Err(error) => assert!(!leads && matches!(error, ClientError::Definite(_)), "{error}"),
        }
    }
}

/// Settings that are wrong are named.
#[test]
fn settings_are_checked() {
    let wrong = |nodes: &str, port: &str| {
        let settings = [("nodes", nodes), ("port", port), ("master", "main")];
        let settings = BTreeMap::from(settings.map(|(k, v)| (k.to_owned(), v.to_owned())));
        let addr = "127.0.0.1:1".parse().unwrap();
        let plan = EndpointPlan { addr, settings, op_limit: Duration::from_secs(1) };
        (KIND.endpoint)(plan).err().unwrap_or_default()
    };
    assert!(wrong("n1", "1").contains("NAME=ADDRESS:PORT"));
    assert!(wrong("n1=127.0.0.1:1", "x").contains("port"));
    assert_eq!(wrong("n1=127.0.0.1:1", "1"), "");
}
