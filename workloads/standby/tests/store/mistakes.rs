//! Each planted mistake shows.

use std::time::Instant;

use deposed_standby::{Reply, Request};
use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::cluster::{Cluster, LIMIT, acquire, pause, put};

/// Writes to the volume as whoever holds a token.
async fn write(cluster: &Cluster, token: u64, id: u64) -> Reply {
    let grant = "a".to_owned();
    cluster
        .ask(4, Request::VolumeWrite { token, id: id.to_string(), value: id.into(), grant })
        .await
}

/// The volume refuses a stale token every time; comparing with the last one, only the first time.
#[tokio::test]
async fn last_token() {
    for (flags, fooled) in [("", false), ("--mistake last-token", true)] {
        let cluster = Cluster::start(flags);
        pause(100).await;
        assert!(matches!(write(&cluster, 1, 1).await, Reply::Ok { .. }));
        assert!(matches!(write(&cluster, 2, 2).await, Reply::Ok { .. }));
        assert_eq!(write(&cluster, 1, 3).await, Reply::Stale { token: 2 });
        let again = write(&cluster, 1, 4).await;
        assert_eq!(matches!(again, Reply::Ok { .. }), fooled, "{again:?}");
    }
}

/// Two holders of a lock in one term get one token.
#[tokio::test]
async fn shared_token() {
    let cluster = Cluster::start("--mistake shared-token");
    let (first, _) = cluster.done(acquire("p", 100)).await;
    pause(150).await;
    assert_eq!(cluster.done(acquire("q", 100)).await.0, first);
}

/// Tokens begin again with the next leader.
#[tokio::test]
async fn tokens_restart() {
    let mut cluster = Cluster::start("--mistake tokens-restart");
    for owner in ["p", "q", "r"] {
        cluster.done(acquire(owner, 1)).await;
        pause(20).await;
    }
    let leader = cluster.leader(None).await;
    cluster.kill(leader);
    cluster.leader(Some(leader)).await;
    assert!(cluster.done(acquire("s", 100)).await.0.as_u64() < Some(3));
}

/// A write that was at work when its leader was paused does no harm if the lease is looked at once
/// more, and is stale if not.
#[tokio::test]
async fn check_before_pause() {
    for (flags, fooled) in [("", false), ("--mistake check-before-pause", true)] {
        let cluster =
            Cluster::start(&format!("--failover lease --fencing none --work-ms 200 {flags}"));
        cluster.done(put(1)).await;
        let old = cluster.leader(None).await;
        let mut client = cluster.client(old);
        let request = put(2);
        let meanwhile = async {
            pause(100).await;
            cluster.signal(old, Signal::SIGSTOP);
            cluster.done(put(3)).await;
            cluster.signal(old, Signal::SIGCONT);
            pause(300).await;
        };
        let (_, ()) = tokio::join!(client.call(&request, LIMIT), meanwhile);
        let tokens = cluster.accepted();
        assert_eq!(tokens.windows(2).any(|pair| pair[1] < pair[0]), fooled, "{tokens:?}");
    }
}

/// A renewal that is answered when the term is over is worth nothing to who counts from the request;
/// counted from the reply, the lease begins when it has ended for everybody else.
#[tokio::test]
async fn renew_from_reply() {
    for (flags, fooled) in [("", false), ("--mistake renew-from-reply", true)] {
        let flags = format!("--failover lease --term-ms 2000 {flags}");
        let (cluster, observer) = Cluster::start_one(&flags);
        let start = Instant::now();
        while !matches!(cluster.ask(0, Request::Prepare { token: 1 }).await, Reply::Status { .. }) {
            assert!(start.elapsed() < LIMIT * 4, "it does not start");
            pause(20).await;
        }
        cluster.ask(0, Request::Promote { token: 1 }).await;
        // The test is the observer: it hears of the leader, and keeps it waiting for too long.
        observer.set_nonblocking(true).unwrap();
        let observer = tokio::net::TcpListener::from_std(observer).unwrap();
        let (stream, _) = observer.accept().await.unwrap();
        let mut stream = BufReader::new(stream);
        let mut asked = String::new();
        while !asked.contains("\"renewal\"") {
            asked.clear();
            assert_ne!(stream.read_line(&mut asked).await.unwrap(), 0, "it hung up");
        }
        pause(2100).await;
        let granted = serde_json::to_string(&Reply::Granted { until_ms: 0 }).unwrap();
        stream.write_all(format!("{granted}\n").as_bytes()).await.unwrap();
        let answered = Instant::now();
        let mut led = false;
        while answered.elapsed().as_millis() < 1000 && !led {
            let status = cluster.ask(0, Request::Status).await;
            led = matches!(status, Reply::Status { leads: true, .. });
            pause(10).await;
        }
        assert_eq!(led, fooled, "{flags}");
    }
}
