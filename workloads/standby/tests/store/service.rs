//! What clients are served.

use deposed_standby::{Reply, Request};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::cluster::{Cluster, acquire, append, list, pause, put};

/// Whoever decides who leads, the leader serves every request, and followers say where it is.
#[tokio::test]
async fn the_leader_serves() {
    for failover in ["timeout", "lease", "quorum"] {
        let cluster = Cluster::start(&format!("--failover {failover}"));
        let key = || "k".to_owned();
        cluster.done(Request::Write { key: key(), value: 1.into() }).await;
        cluster.done(Request::Cas { key: key(), old: 1.into(), new: 2.into() }).await;
        let leader = cluster.leader(None).await;
        let cas = Request::Cas { key: key(), old: 1.into(), new: 3.into() };
        assert_eq!(cluster.ask(leader, cas).await, Reply::Precondition);
        assert_eq!(cluster.done(Request::Read { key: key() }).await.0, 2);
        cluster.done(append(7)).await;
        assert_eq!(cluster.done(list()).await.0, json!([7]));
        cluster.done(put(1)).await;
        assert_eq!(cluster.done(Request::Get).await.0, "1");
        cluster.done(Request::Call { id: "1".into(), value: "x".into() }).await;
        assert_eq!(cluster.record(4, "external.jsonl")[0]["performed"], true);
        let follower = (leader + 1) % 3;
        let refused = cluster.ask(follower, append(8)).await;
        let name = format!("n{}", leader + 1);
        assert_eq!(refused, Reply::NotLeader { leader: Some(name) }, "{failover}");
    }
}

/// A lock has one holder until it is released or its time is over, and tokens only rise.
#[tokio::test]
async fn locks_expire_and_tokens_rise() {
    let cluster = Cluster::start("--failover quorum");
    let (first, _) = cluster.done(acquire("p", 300)).await;
    let leader = cluster.leader(None).await;
    let lock = || "a".to_owned();
    assert!(matches!(cluster.ask(leader, acquire("q", 300)).await, Reply::Fail { .. }));
    let token = first.as_u64().unwrap();
    pause(200).await;
    cluster.done(Request::Renew { lock: lock(), token }).await;
    pause(200).await;
    assert!(matches!(cluster.ask(leader, acquire("q", 300)).await, Reply::Fail { .. }));
    pause(200).await;
    let (second, _) = cluster.done(acquire("q", 10_000)).await;
    assert!(second.as_u64() > first.as_u64(), "{second} {first}");
    let renewal = cluster.ask(leader, Request::Renew { lock: lock(), token }).await;
    assert!(matches!(renewal, Reply::Fail { .. }), "{renewal:?}");
    let token = second.as_u64().unwrap();
    cluster.done(Request::Release { lock: lock(), token }).await;
    cluster.done(acquire("r", 300)).await;
}

/// Under a lease a follower reads what was written before, and refuses once it has lost touch with
/// the leader for a term; a write is not held up for longer than that by a reader that is gone.
#[tokio::test]
async fn followers_read_under_a_lease() {
    let cluster = Cluster::start("--failover quorum --reads follower-lease");
    let key = || "k".to_owned();
    let write = |value: i64| Request::Write { key: key(), value: value.into() };
    cluster.done(write(1)).await;
    let leader = cluster.leader(None).await;
    let (reader, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let mut served = 0;
    for value in 2..40 {
        cluster.done(write(value)).await;
        if let Reply::Ok { value: read, .. } =
            cluster.ask(reader, Request::Read { key: key() }).await
        {
            assert_eq!(read, value);
            served += 1;
        }
        pause(10).await;
    }
    assert!(served > 10, "{served}");
    cluster.signal(other, Signal::SIGSTOP);
    cluster.done(write(100)).await;
    cluster.signal(other, Signal::SIGCONT);
    cluster.signal(leader, Signal::SIGSTOP);
    pause(600).await;
    let late = cluster.ask(reader, Request::Read { key: key() }).await;
    let led = matches!(&late, Reply::Ok { token, .. } if *token > 0);
    assert!(led || matches!(late, Reply::NotLeader { .. }), "{late:?}");
    cluster.signal(leader, Signal::SIGCONT);
}

/// With `any`, a follower that hears nothing answers from what it has, however old that is.
#[tokio::test]
async fn any_node_reads_old_data() {
    let cluster = Cluster::start("--failover quorum --reads any");
    cluster.done(append(1)).await;
    let leader = cluster.leader(None).await;
    cluster.signal(leader, Signal::SIGSTOP);
    let next = cluster.leader(Some(leader)).await;
    assert!(matches!(cluster.ask(next, append(2)).await, Reply::Ok { .. }));
    let mut old = cluster.client(leader);
    cluster.signal(leader, Signal::SIGCONT);
    let read = old.call(&list(), crate::cluster::LIMIT).await.unwrap();
    assert!(matches!(&read, Reply::Ok { value: Value::Array(list), .. } if list[0] == 1));
}

/// Regression: a client that was shut out could connect again, and now and then be listened to
/// before it was noticed.
#[tokio::test]
async fn who_is_shut_out_stays_out() {
    let cluster = Cluster::start("--fencing revoke");
    pause(200).await;
    let client = || "client".to_owned();
    let done = cluster.ask(4, Request::VolumeRead { grant: "a".into() }).await;
    assert!(matches!(done, Reply::Ok { .. }), "{done:?}");
    let mut observer = deposed_standby::Link::new(cluster.client(4).addr(), "n4");
    observer.call(&Request::Revoke { client: client() }, crate::cluster::LIMIT).await.unwrap();
    for id in 0..50 {
        let (id, grant) = (format!("w{id}"), "leader".into());
        let write = Request::VolumeWrite { token: 1, id, value: 1.into(), grant };
        let refused = cluster.ask(4, write).await;
        assert!(matches!(refused, Reply::Info { .. }), "{refused:?}");
    }
    observer.call(&Request::Admit { client: client() }, crate::cluster::LIMIT).await.unwrap();
    let done = cluster.ask(4, Request::VolumeRead { grant: "a".into() }).await;
    assert!(matches!(done, Reply::Ok { .. }), "{done:?}");
}
