//! Bad links, as pings see them, and who is believed.

use crate::namespaces::Namespaces;
use crate::{NAME, assert_doubted, assert_proven, hurt, nemesis, store};

/// How long a ping from a node to another takes at least, in milliseconds, as a program sees it.
fn ping(net: &Namespaces, from: usize, to: usize) -> f64 {
    let ping = format!("timeout 10 ping -U -n -q -c 10 -i 0.05 10.99.0.{to}");
    let said = net.node(from).sh(&ping);
    let times = said.lines().find(|line| line.starts_with("rtt")).expect("something came back");
    let least = times.split('/').nth(3).unwrap();
    least.trim_start_matches("mdev = ").parse().unwrap()
}

/// A link is slow in one direction; other links are not; and it is quick again.
#[tokio::test]
async fn a_link_is_slow_and_others_are_not() {
    let net = Namespaces::new(3);
    let cx = store::running(&net).await;
    let mut packets = nemesis("packets:delay=80ms:n1..n2", &cx).await;
    let (choice, seen) = hurt(&mut *packets, &cx, NAME).await;
    assert_eq!(choice.nodes, ["n1", "n2"]);
    assert_proven(&seen);
    // Where the kernel has an emulator it is used at the sender, elsewhere a queue at the receiver.
    let side = |node: &str, side: &str, peer: &str| seen.figures[node][side][peer].clone();
    let (emulated, queued) = (side("n1", "to", "10.99.0.2"), side("n2", "from", "10.99.0.1"));
    if let Some(packets) = emulated["packets"].as_u64() {
        assert!(packets >= 5, "{}", seen.figures);
    } else {
        let figure = |what: &str| queued[what].as_u64().unwrap();
        assert!(figure("passed") >= 5, "{queued}");
        assert!(figure("held_ns") / figure("passed") >= 80_000_000, "{queued}");
    }
    assert_ne!(emulated.is_null(), queued.is_null(), "the other direction is left alone");
    // There and back again, of which one way is slow.
    let slow = ping(&net, 1, 2);
    assert!(slow >= 79.0, "{slow} ms");
    assert!(ping(&net, 1, 3) < 40.0);
    assert_proven(&packets.heal(&cx, &choice, NAME).await.unwrap());
    assert!(ping(&net, 1, 2) < 40.0);
}

/// Rules that somebody removed hold no packets, whatever was counted before.
#[tokio::test]
async fn links_somebody_mended_are_not_believed() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    let mut packets = nemesis("packets:delay=60ms:n1", &cx).await;
    let (choice, seen) = hurt(&mut *packets, &cx, NAME).await;
    assert_proven(&seen);
    net.everywhere(
        "iptables -t mangle -F DEPOSED-QUEUE; ip6tables -t mangle -F DEPOSED-QUEUE
         tc qdisc del dev eth0 root",
    );
    let seen = packets.evidence(&cx, &choice, NAME).await.unwrap();
    assert_doubted(&seen, "has no rule of ours");
    assert_doubted(&seen, "a ping from n1 to n2 took");
    assert_proven(&packets.heal(&cx, &choice, NAME).await.unwrap());
}
