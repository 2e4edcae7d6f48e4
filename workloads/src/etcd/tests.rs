//! The client against a server that misbehaves on purpose.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes};
use deposed_core::{Client, ClientError, Invocation};
use deposed_history::Value;
use h2::Reason;
use h2::server::SendResponse;
use http::{HeaderMap, Response};
use prost::Message;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use super::client::{KIND, RECONNECT_SPACING};
use super::wire::{KeyValue, PutResponse, RangeResponse, TxnResponse};
use crate::endpoint::{Endpoint, EndpointPlan};

/// How the server answers a request.
#[derive(Debug, Clone)]
enum Script {
    /// A message, then `grpc-status` 0.
    Answer(Vec<u8>),
    /// `grpc-status` in the headers, as for errors before any message.
    Status(u32, &'static str),
    /// Half an answer, then an error status.
    LateStatus(u32, &'static str),
    /// A message and no status.
    NoTrailers,
    /// A status of HTTP.
    Http(u16),
    /// RST_STREAM.
    Reset(Reason),
    /// The connection breaks once the request is read.
    Hangup,
    /// Nothing, ever.
    Silence,
}

/// A server that plays one script for every request, and counts them.
async fn server(script: Script) -> (Arc<dyn Endpoint>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&listener);
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, script.clone(), count.clone()));
        }
    });
    (endpoint, seen)
}

fn endpoint(listener: &TcpListener) -> Arc<dyn Endpoint> {
    let settings = [("read", "linearizable"), ("token", "revision")];
    let settings = BTreeMap::from(settings.map(|(name, value)| (name.into(), value.into())));
    let op_limit = Duration::from_millis(400);
    (KIND.endpoint)(EndpointPlan { addr: listener.local_addr().unwrap(), settings, op_limit })
        .unwrap()
}

async fn serve(stream: TcpStream, script: Script, seen: Arc<AtomicUsize>) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    let mut held = Vec::new();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        seen.fetch_add(1, Ordering::Relaxed);
        assert_eq!(request.headers()["content-type"], "application/grpc");
        match &script {
            Script::Hangup => return,
            Script::Silence => held.push((request, respond)),
            script => play(script, &mut respond),
        }
    }
}

fn play(script: &Script, respond: &mut SendResponse<Bytes>) {
    let ok = || Response::builder().status(200).body(()).unwrap();
    let trailers = |code: u32, message: &str| {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", code.into());
        trailers.insert("grpc-message", message.parse().unwrap());
        trailers
    };
    match script {
        Script::Answer(message) => {
            let mut body = respond.send_response(ok(), false).unwrap();
            body.send_data(frame(message), false).unwrap();
            body.send_trailers(trailers(0, "")).unwrap();
        }
        Script::Status(code, message) => {
            let mut response = ok();
            *response.headers_mut() = trailers(*code, message);
            respond.send_response(response, true).unwrap();
        }
        Script::LateStatus(code, message) => {
            let mut body = respond.send_response(ok(), false).unwrap();
            body.send_data(Bytes::from_static(&[0, 0]), false).unwrap();
            body.send_trailers(trailers(*code, message)).unwrap();
        }
        Script::NoTrailers => {
            let mut body = respond.send_response(ok(), false).unwrap();
            body.send_data(frame(&[]), true).unwrap();
        }
        Script::Http(status) => {
            let response = Response::builder().status(*status).body(()).unwrap();
            respond.send_response(response, true).unwrap();
        }
        Script::Reset(reason) => respond.send_reset(*reason),
        Script::Hangup | Script::Silence => unreachable!("not answers"),
    }
}

fn frame(message: &[u8]) -> Bytes {
    let mut frame = Vec::new();
    frame.put_u8(0);
    frame.put_u32(message.len() as u32);
    frame.put_slice(message);
    frame.into()
}

fn read() -> Invocation {
    Invocation::new("read", Value::pair("k", Value::Nil))
}

fn write() -> Invocation {
    Invocation::new("write", Value::pair("k", 1))
}

fn cas() -> Invocation {
    Invocation::new("cas", Value::pair("k", Value::pair(1, 2)))
}

async fn client(endpoint: &Arc<dyn Endpoint>) -> Box<dyn Client> {
    endpoint.connect(0).await.unwrap()
}

/// Whatever goes wrong once a request is sent, a write and a cas are indeterminate, a read has
/// failed, and the server sees each of them once.
#[tokio::test]
async fn errors_after_sending() {
    let scripts = [
        Script::Status(14, "etcdserver: request timed out"),
        Script::Status(14, "etcdserver: leader changed"),
        Script::LateStatus(2, "raft proposal dropped"),
        Script::NoTrailers,
        Script::Answer(b"\xff\xff".to_vec()),
        Script::Http(503),
        Script::Reset(Reason::CANCEL),
        Script::Reset(Reason::INTERNAL_ERROR),
        Script::Hangup,
        Script::Silence,
    ];
    for script in scripts {
        let (endpoint, seen) = server(script.clone()).await;
        for op in [write(), cas()] {
            let answer = client(&endpoint).await.invoke(&op).await;
            assert!(matches!(answer, Err(ClientError::Indefinite(_))), "{script:?}: {answer:?}");
        }
        let answer = client(&endpoint).await.invoke(&read()).await;
        assert!(matches!(answer, Err(ClientError::Definite(_))), "{script:?}: {answer:?}");
        assert_eq!(seen.load(Ordering::Relaxed), 3, "{script:?}");
    }
}

/// A server that says it did not look at the request makes even a write fail.
#[tokio::test]
async fn refusals_are_definite() {
    let scripts = [
        Script::Reset(Reason::REFUSED_STREAM),
        Script::Status(8, "etcdserver: too many requests"),
        Script::Status(12, "unknown service etcdserverpb.KV"),
    ];
    for script in scripts {
        let (endpoint, seen) = server(script.clone()).await;
        let answer = client(&endpoint).await.invoke(&write()).await;
        assert!(matches!(answer, Err(ClientError::Definite(_))), "{script:?}: {answer:?}");
        assert_eq!(seen.load(Ordering::Relaxed), 1, "{script:?}");
    }
}

/// Where nobody listens, connecting fails at once and certainly.
#[tokio::test]
async fn connection_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&listener);
    drop(listener);
    let refused = endpoint.connect(0).await.err();
    let Some(ClientError::Definite(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("refused"), "{why}");
}

/// A connection that ended between two operations is made again for the next; if that is refused,
/// the operation certainly did not happen.
#[tokio::test]
async fn a_lost_connection_is_made_again_before_sending() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&listener);
    let seen = Arc::new(AtomicUsize::new(0));
    let script = Script::Answer(PutResponse::default().encode_to_vec());
    let mut client = client(&endpoint).await;
    for _ in 0..2 {
        let serve_one = async {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let (_, mut respond) = connection.accept().await.unwrap().unwrap();
            play(&script, &mut respond);
            seen.fetch_add(1, Ordering::Relaxed);
            connection.graceful_shutdown();
            while connection.accept().await.is_some() {}
        };
        let op = write();
        let ((), answer) = tokio::join!(serve_one, client.invoke(&op));
        assert_eq!(answer, Ok(write().value));
    }
    assert_eq!(seen.load(Ordering::Relaxed), 2);
    drop(listener);
    let start = Instant::now();
    for _ in 0..2 {
        let answer = client.invoke(&write()).await;
        assert!(matches!(answer, Err(ClientError::Definite(_))), "{answer:?}");
    }
    assert!(start.elapsed() >= RECONNECT_SPACING, "attempts are spaced");
}

/// A peer that takes bytes and never speaks HTTP costs no more than the time limit.
#[tokio::test]
async fn a_mute_peer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint(&listener);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        while stream.read(&mut [0; 1024]).await.unwrap() > 0 {}
    });
    let start = Instant::now();
    let answer = client(&endpoint).await.invoke(&write()).await;
    assert!(matches!(answer, Err(ClientError::Indefinite(_))), "{answer:?}");
    assert!(start.elapsed() < Duration::from_millis(900));
}

/// Answers become values: a read of nothing is nil, of garbage the garbage; a false comparison is
/// `precondition`.
#[tokio::test]
async fn answers() {
    let answer = |message: Vec<u8>| server(Script::Answer(message));
    let nothing = RangeResponse::default().encode_to_vec();
    let value = client(&answer(nothing).await.0).await.invoke(&read()).await;
    assert_eq!(value, Ok(Value::pair("k", Value::Nil)));
    for (kept, seen) in [("7", Value::Int(7)), ("x7", Value::str("x7"))] {
        let kv = KeyValue { value: kept.into(), create_revision: 1, mod_revision: 1 };
        let range = RangeResponse { kvs: vec![kv] }.encode_to_vec();
        let value = client(&answer(range).await.0).await.invoke(&read()).await;
        assert_eq!(value, Ok(Value::pair("k", seen)));
    }
    let done = TxnResponse { succeeded: true }.encode_to_vec();
    assert_eq!(client(&answer(done).await.0).await.invoke(&cas()).await, Ok(cas().value));
    let other = TxnResponse { succeeded: false }.encode_to_vec();
    let value = client(&answer(other).await.0).await.invoke(&cas()).await;
    assert_eq!(value, Err(ClientError::Precondition));
}

/// What is not an operation of this client is never sent.
#[tokio::test]
async fn malformed_operations() {
    let (endpoint, seen) = server(Script::Silence).await;
    let mut client = client(&endpoint).await;
    for op in [
        Invocation::new("append", Value::pair("k", 1)),
        Invocation::new("read", Value::Nil),
        Invocation::new("cas", Value::pair("k", 1)),
    ] {
        let answer = client.invoke(&op).await;
        assert!(matches!(answer, Err(ClientError::Definite(_))), "{answer:?}");
    }
    assert_eq!(seen.load(Ordering::Relaxed), 0);
}
