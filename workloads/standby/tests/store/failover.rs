//! Another node leads, and the old one is alive.

use std::collections::BTreeSet;

use deposed_standby::Reply;
use nix::sys::signal::Signal;

use crate::cluster::{Cluster, LIMIT, append, list, pause, put};

/// When the leader is killed another takes over with everything that was acknowledged, by a greater
/// token, and the old one comes back as a follower.
#[tokio::test]
async fn a_killed_leader_is_replaced() {
    for failover in ["timeout", "lease", "quorum"] {
        let mut cluster = Cluster::start(&format!("--failover {failover}"));
        let mut tokens = BTreeSet::new();
        for n in 1..=20 {
            tokens.insert(cluster.done(append(n)).await.1);
        }
        let old = cluster.leader(None).await;
        cluster.kill(old);
        let next = cluster.leader(Some(old)).await;
        let token = cluster.done(append(21)).await.1;
        assert!(tokens.last() < Some(&token), "{failover}: {tokens:?}, then {token}");
        let all = cluster.done(list()).await.0;
        let list: Vec<i64> = all.as_array().unwrap().iter().filter_map(|v| v.as_i64()).collect();
        assert_eq!(list, (1..=21).collect::<Vec<_>>(), "{failover}");
        cluster.restart(old);
        pause(300).await;
        let leader = Some(format!("n{}", next + 1));
        assert_eq!(cluster.ask(old, append(22)).await, Reply::NotLeader { leader });
    }
}

/// A leader that was paused for longer than the term is not the leader when it wakes, in no mode:
/// what it was asked meanwhile it refuses, or leaves open and disconnects.
#[tokio::test]
async fn a_paused_leader_is_deposed() {
    for failover in ["timeout", "lease", "quorum"] {
        let cluster = Cluster::start(&format!("--failover {failover}"));
        cluster.done(append(1)).await;
        let old = cluster.leader(None).await;
        let mut client = cluster.client(old);
        client.open(LIMIT).await.unwrap();
        cluster.signal(old, Signal::SIGSTOP);
        let next = cluster.leader(Some(old)).await;
        assert!(matches!(cluster.ask(next, append(2)).await, Reply::Ok { .. }));
        let asked = append(3);
        let asked = client.call(&asked, LIMIT);
        let wake = async {
            pause(50).await;
            cluster.signal(old, Signal::SIGCONT);
        };
        let (answer, ()) = tokio::join!(asked, wake);
        assert!(!matches!(answer, Ok(Reply::Ok { .. })), "{failover}: {answer:?}");
        assert_eq!(cluster.done(list()).await.0, serde_json::json!([1, 2]), "{failover}");
    }
}

/// Writes acknowledged by a leader that was deposed before it delivered them are lost if it drops
/// them, and stale if a silent one delivers them when it leads again: the access list cannot tell
/// its second grant from its first, the token can.
#[tokio::test]
async fn two_quick_grants_to_one_node() {
    for (fencing, stale) in [("revoke", true), ("token", false)] {
        let cluster = Cluster::start(&format!(
            "--failover timeout --fencing {fencing} --acks local --on-stale silent --work-ms 150"
        ));
        let token = cluster.done(put(1)).await.1;
        let old = cluster.leader(None).await;
        for id in 2..=6 {
            assert!(matches!(cluster.ask(old, put(id)).await, Reply::Ok { .. }));
        }
        cluster.signal(old, Signal::SIGSTOP);
        let next = cluster.leader(Some(old)).await;
        assert!(matches!(cluster.ask(next, put(7)).await, Reply::Ok { .. }));
        pause(200).await;
        cluster.signal(next, Signal::SIGSTOP);
        cluster.signal(old, Signal::SIGCONT);
        // Of the two that are left either may be chosen; the older name is, if it has as much.
        let third = cluster.leader(Some(next)).await;
        if third != old {
            cluster.signal(third, Signal::SIGSTOP);
            cluster.signal(next, Signal::SIGCONT);
        }
        pause(1500).await;
        let tokens = cluster.accepted();
        let regressed = tokens.iter().skip_while(|t| **t == token).any(|t| *t == token);
        assert!(stale || !regressed, "{fencing}: {tokens:?}");
        if third == old {
            assert_eq!(regressed, stale, "{fencing}: {tokens:?}");
        }
        for i in 0..3 {
            cluster.signal(i, Signal::SIGCONT);
        }
    }
}
