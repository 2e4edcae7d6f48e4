//! Partitions: what they cut, what they leave alone, and who is believed.

use std::time::{Duration, Instant};

use deposed_core::{FaultContext, FaultError};
use deposed_nemeses::{Agents, Claims};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::namespaces::Namespaces;
use crate::{NAME, agents, assert_doubted, assert_proven, hurt, nemesis, nemesis_with, store};

/// All rules of a node. Listing them first makes the empty tables that iptables makes anyway.
const RULES: &str = "iptables -S; ip6tables -S; nft list table inet deposed 2>/dev/null; find /run/deposed/faults -type f 2>/dev/null";

/// Rules a host may have of its own: the first lets everything pass that comes in after it.
const HOST_RULES: &str = "iptables -A INPUT -p icmp -j ACCEPT; iptables -N MINE; \
    iptables -A MINE -s 10.1.1.1 -j DROP; iptables -A INPUT -j MINE; iptables -A FORWARD -j MINE; \
    ip6tables -A INPUT -p ipv6-icmp -j ACCEPT; ip6tables -A INPUT -s fd55::1 -j DROP";

/// Leaves a node iptables alone.
const WITHOUT_NFT: &str = "mount --bind /dev/null $(readlink -f /usr/sbin/nft)";

/// A node cut off reaches nobody by IPv4 or IPv6 though the host's own rules accept the packets,
/// the others reach each other; packets are counted on every link; healing restores every link and
/// leaves the rules of the host as they were.
#[tokio::test]
async fn a_partition_cuts_both_ways_and_both_families() {
    let net = Namespaces::new(3);
    net.everywhere(HOST_RULES);
    let before = net.everywhere(RULES);
    let cx = store::running(&net).await;
    let mut partition = nemesis("partition:n1", &cx).await;
    let (choice, seen) = hurt(&mut *partition, &cx, NAME).await;
    assert_proven(&seen);
    assert_eq!(choice.what["cut"], "n1 | n2 n3");
    assert!(seen.figures["n1"]["dropped"]["n2"].as_u64().unwrap() >= 2, "{}", seen.figures);
    assert!(seen.figures["n3"]["dropped"]["n1"].as_u64().unwrap() >= 2, "{}", seen.figures);
    assert!(seen.figures["n3"]["dropped"].get("n2").is_none());
    let cut = [(1, "10.99.0.2"), (1, "fd99::3"), (2, "10.99.0.1"), (3, "fd99::1")];
    let whole = [(2, "10.99.0.3"), (3, "fd99::2")];
    assert_eq!(net.reached(&cut), []);
    assert_eq!(net.reached(&whole), whole);
    assert_proven(&partition.evidence(&cx, &choice, NAME).await.unwrap());
    assert_proven(&partition.heal(&cx, &choice, NAME).await.unwrap());
    assert_eq!(net.reached(&cut), cut);
    assert_eq!(net.everywhere(RULES), before);
}

/// Where nft is missing, iptables does the same, in both families.
#[tokio::test]
async fn iptables_serves_where_nft_is_missing() {
    let net = Namespaces::new(2);
    net.everywhere(HOST_RULES);
    net.everywhere(WITHOUT_NFT);
    let before = net.everywhere(RULES);
    let cx = store::running(&net).await;
    let mut partition = nemesis("partition:one", &cx).await;
    let (choice, seen) = hurt(&mut *partition, &cx, NAME).await;
    assert_proven(&seen);
    assert_eq!(seen.figures["n1"]["backend"], "iptables");
    assert!(seen.figures["n2"]["dropped"]["n1"].as_u64().unwrap() >= 2, "{}", seen.figures);
    let cut = [(1, "10.99.0.2"), (2, "fd99::1")];
    assert_eq!(net.reached(&cut), []);
    assert_proven(&partition.heal(&cx, &choice, NAME).await.unwrap());
    assert_eq!(net.reached(&cut), cut);
    assert_eq!(net.everywhere(RULES), before);
}

/// Where iptables is missing, nft needs none, and leaves other tables alone.
#[tokio::test]
async fn nft_serves_where_iptables_is_missing() {
    let net = Namespaces::new(2);
    net.everywhere(
        "nft add table inet mine; mount --bind /dev/null $(readlink -f /usr/sbin/iptables)",
    );
    let before = net.everywhere("nft list ruleset");
    let cx = store::running(&net).await;
    let mut partition = nemesis("partition:one", &cx).await;
    let (choice, seen) = hurt(&mut *partition, &cx, NAME).await;
    assert_proven(&seen);
    assert_eq!(seen.figures["n1"]["backend"], "nft");
    assert_eq!(seen.figures["n2"]["backend"], "nft");
    assert!(seen.figures["n2"]["dropped"]["n1"].as_u64().unwrap() >= 2, "{}", seen.figures);
    assert_proven(&partition.heal(&cx, &choice, NAME).await.unwrap());
    assert_eq!(net.everywhere("nft list ruleset"), before);
}

/// A ring of four is cut on exactly the two links between opposite nodes, both ways.
#[tokio::test]
async fn a_ring_cuts_opposite_nodes() {
    let net = Namespaces::new(4);
    let cx = store::running(&net).await;
    let mut partition = nemesis("partition:majorities-ring", &cx).await;
    let (choice, seen) = hurt(&mut *partition, &cx, NAME).await;
    assert_proven(&seen);
    assert!(seen.summary.ends_with("packets dropped on 4 links"), "{}", seen.summary);
    let everyone = [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)];
    let addrs = everyone.map(|(from, to)| (from, format!("10.99.0.{to}")));
    let links: Vec<(usize, &str)> = addrs.iter().map(|(from, to)| (*from, to.as_str())).collect();
    assert_eq!(net.reached(&links).len(), 4);
    assert_proven(&partition.heal(&cx, &choice, NAME).await.unwrap());
    assert_eq!(net.reached(&links), links);
}

/// One way, datagrams of the deaf side still arrive at the other, and none come back.
#[tokio::test]
async fn one_way_lets_the_other_direction_pass() {
    let net = Namespaces::new(2);
    net.everywhere("iptables -A INPUT -p udp --dport 777 -j ACCEPT");
    let cx = store::running(&net).await;
    let mut partition = nemesis("partition:one-way", &cx).await;
    let (choice, seen) = hurt(&mut *partition, &cx, NAME).await;
    assert_proven(&seen);
    let deaf = if choice.nodes == ["n1"] { 1 } else { 2 };
    let heard = 3 - deaf;
    for (from, to) in [(deaf, heard), (heard, deaf)] {
        net.node(from).sh(&format!("bash -c 'echo hello >/dev/udp/10.99.0.{to}/777'"));
    }
    let arrived = |node: usize| {
        net.node(node).sh("iptables -vS INPUT | sed -n 's/.*dport 777 -c \\([0-9]*\\) .*/\\1/p'")
    };
    assert_eq!((arrived(heard), arrived(deaf)), ("1".to_owned(), "0".to_owned()));
    assert_proven(&partition.heal(&cx, &choice, NAME).await.unwrap());
}

/// A firewall that accepts every command and does nothing is found out.
#[tokio::test]
async fn a_firewall_that_lies_proves_nothing() {
    let net = Namespaces::new(3);
    net.everywhere(WITHOUT_NFT);
    net.node(2).sh("printf '#!/bin/sh\\nexit 0\\n' >/run/liar; chmod +x /run/liar
         mount --bind /run/liar $(readlink -f /usr/sbin/iptables)");
    let cx = store::running(&net).await;
    let mut partition = nemesis("partition:n2", &cx).await;
    let (choice, seen) = hurt(&mut *partition, &cx, NAME).await;
    assert_doubted(&seen, "the rules are not on n2");
    // The others do drop its packets, so only what they send it gets through, unanswered.
    assert_eq!(seen.figures["n2"]["dropped"]["n1"], 0);
    assert!(seen.figures["n1"]["dropped"]["n2"].as_u64().unwrap() > 0);
    let error = partition.heal(&cx, &choice, NAME).await.unwrap_err().to_string();
    assert!(error.contains("the rules are still in iptables"), "{error}");
}

/// Rules that somebody removes while they should hold are missed before healing.
#[tokio::test]
async fn rules_that_vanish_are_missed() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    let mut partition = nemesis("partition:one", &cx).await;
    let (choice, seen) = hurt(&mut *partition, &cx, NAME).await;
    assert_proven(&seen);
    net.node(1).sh("nft delete table inet deposed");
    assert_doubted(
        &partition.evidence(&cx, &choice, NAME).await.unwrap(),
        "the rules are not on n1",
    );
    assert_proven(&partition.heal(&cx, &choice, NAME).await.unwrap());
}

/// The controller's SSH passes even if the controller runs on the very node that is cut off: what
/// it sends to the other's sshd, and what that answers. Nothing else does.
#[tokio::test]
async fn ssh_of_the_controller_is_never_cut() {
    let net = Namespaces::new(2);
    net.node(1).set_ssh("10.99.0.2 50000 10.99.0.1 22");
    net.node(2).set_ssh("10.99.0.2 50001 10.99.0.2 22");
    let cx = store::running(&net).await;
    let mut partition = nemesis("partition:halves", &cx).await;
    let (choice, seen) = hurt(&mut *partition, &cx, NAME).await;
    assert_proven(&seen);
    // Nobody listens: a refusal says that a packet went there and another came back.
    let knock = |from: usize, to: usize, port: u16| {
        net.node(from).sh(&format!(
            "timeout 1 bash -c ': </dev/tcp/10.99.0.{to}/{port}' 2>&1 | grep -om1 refused | head -1"
        ))
    };
    assert_eq!(knock(2, 1, 22), "refused");
    assert_eq!(knock(2, 1, 2379), "");
    assert_eq!(knock(1, 2, 22), "");
    assert_proven(&partition.heal(&cx, &choice, NAME).await.unwrap());
    assert_eq!(knock(2, 1, 2379), "refused");
}

/// Nobody heals, and the nodes do it by themselves when the lease runs out, leaving nothing behind.
#[tokio::test]
async fn nodes_heal_themselves_when_the_lease_runs_out() {
    let net = Namespaces::new(2);
    let before = net.everywhere(RULES);
    let cx = store::running(&net).await;
    let mut partition = nemesis_with("partition:one", &cx, &agents(3)).await;
    let (_, seen) = hurt(&mut *partition, &cx, NAME).await;
    assert_proven(&seen);
    drop(partition);
    let patience = Instant::now() + Duration::from_secs(30);
    while net.everywhere(RULES) != before {
        assert!(Instant::now() < patience, "{:?}", net.everywhere(RULES));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let links = [(1, "10.99.0.2"), (2, "fd99::1")];
    assert_eq!(net.reached(&links), links);
}

/// Nodes that share an address, and nodes without a firewall, are refused before the run.
#[tokio::test]
async fn impossible_clusters_are_refused() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    let names = net.names();
    let refused = async |cx: &FaultContext, fault: &str| {
        let specs = deposed_nemeses::parse(fault, &names).unwrap();
        let mut nemesis = specs[0].nemesis(&names, &Claims::default(), &Agents::default()).unwrap();
        match nemesis.prepare(cx).await {
            Err(FaultError::Unsupported(reason)) => reason,
            other => panic!("not refused: {other:?}"),
        }
    };
    net.node(2).sh("mount --bind /dev/null $(readlink -f /usr/sbin/iptables)
         mount --bind /dev/null $(readlink -f /usr/sbin/nft)");
    let reason = refused(&cx, "partition").await;
    assert!(reason.contains("n2 has neither a working nft nor iptables"), "{reason}");
    net.node(2).sh("ip addr add 10.99.0.1/24 dev lo");
    let reason = refused(&cx, "partition").await;
    assert!(reason.contains("n1 at 10.99.0.1 cannot be told from other nodes"), "{reason}");
}

/// What is refused is answered at once with a reset, in both directions, and works again after healing.
#[tokio::test]
async fn a_refused_link_is_reset_at_once() {
    let net = Namespaces::new(3);
    let before = net.everywhere(RULES);
    let cx = store::running(&net).await;
    let listen = "perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(Listen=>9,ReuseAddr=>1,\
                  LocalPort=>7777) or die; while (1) { my $c = $s->accept; close $c }' \
                  >/dev/null 2>&1 </dev/null & sleep 0.3";
    net.everywhere(listen);
    // Prints what became of a connection, and how many seconds that took.
    let knock = |from: usize, to: usize| {
        let dial = format!(
            "s=$(date +%s%N); r=$(timeout 5 bash -c ': </dev/tcp/10.99.0.{to}/7777' 2>&1) && echo open \
             || case $r in *refused*) echo refused;; *) echo silent;; esac; \
             echo $((($(date +%s%N) - s) / 1000000000))"
        );
        net.node(from).sh(&dial)
    };
    assert_eq!((knock(1, 2), knock(3, 1)), ("open\n0".into(), "open\n0".into()));
    let mut reject = nemesis("reject:n1", &cx).await;
    let (choice, seen) = hurt(&mut *reject, &cx, NAME).await;
    assert_proven(&seen);
    assert!(seen.summary.contains("packets refused"), "{}", seen.summary);
    assert_eq!((knock(1, 2), knock(3, 1)), ("refused\n0".into(), "refused\n0".into()));
    assert_eq!(knock(2, 3), "open\n0");
    assert_proven(&reject.heal(&cx, &choice, NAME).await.unwrap());
    assert_eq!((knock(1, 2), knock(3, 1)), ("open\n0".into(), "open\n0".into()));
    assert_eq!(net.everywhere(RULES), before);
}

/// A flapping link loses some packets and lets some pass, and loses none when it is healed.
#[tokio::test]
async fn a_flapping_link_loses_some_and_lets_some_pass() {
    let net = Namespaces::new(3);
    net.everywhere(HOST_RULES);
    let before = net.everywhere(RULES);
    let cx = store::running(&net).await;
    let answered = |from: usize, to: usize| -> u32 {
        let ping = format!(
            "ping -n -c 24 -i 0.1 -W 1 10.99.0.{to} | sed -n 's/.* \\([0-9]*\\) received.*/\\1/p'"
        );
        net.node(from).sh(&ping).parse().unwrap()
    };
    let mut flap = nemesis("flap:n1", &cx).await;
    let (choice, seen) = hurt(&mut *flap, &cx, NAME).await;
    assert_proven(&seen);
    let some = answered(2, 1);
    assert!((1..24).contains(&some), "{some} of 24");
    assert_eq!(answered(2, 3), 24);
    assert_proven(&flap.evidence(&cx, &choice, NAME).await.unwrap());
    assert_proven(&flap.heal(&cx, &choice, NAME).await.unwrap());
    assert_eq!(answered(2, 1), 24);
    assert_eq!(net.everywhere(RULES), before);
}

/// Two faults of links are not in force at once: neither could be proven, nor its healing.
#[tokio::test]
async fn links_are_cut_by_one_fault_at_a_time() {
    let net = Namespaces::new(2);
    let cx = store::running(&net).await;
    let (claims, agents) = (Claims::default(), Agents::default());
    let specs = deposed_nemeses::parse("partition:one,reject:one", &net.names()).unwrap();
    let mut nemeses = Vec::new();
    for spec in &specs {
        let mut nemesis = spec.nemesis(&net.names(), &claims, &agents).unwrap();
        nemesis.prepare(&cx).await.unwrap();
        nemesis.baseline(&cx).await.unwrap();
        nemeses.push(nemesis);
    }
    let (choice, seen) = hurt(&mut *nemeses[0], &cx, NAME).await;
    assert_proven(&seen);
    let rng = &mut ChaCha8Rng::seed_from_u64(1);
    let refused = nemeses[1].choose(&cx, rng).await.unwrap_err();
    assert!(matches!(refused, FaultError::Nothing(_)), "{refused}");
    assert_proven(&nemeses[0].heal(&cx, &choice, NAME).await.unwrap());
    nemeses[1].choose(&cx, rng).await.unwrap();
}

/// Where a port alone is cut, everything else passes.
#[tokio::test]
async fn a_port_alone_is_cut() {
    let net = Namespaces::new(3);
    let before = net.everywhere(RULES);
    let cx = store::running(&net).await;
    // A port where nobody listens answers with a reset, which is an answer.
    let knock = |from: usize, to: usize, port: u16| {
        net.node(from).sh(&format!(
            "timeout 1 bash -c ': </dev/tcp/10.99.0.{to}/{port}' 2>&1 | grep -om1 refused | head -1"
        ))
    };
    let mut partition = nemesis("partition:n1@tcp/7001", &cx).await;
    let (choice, seen) = hurt(&mut *partition, &cx, NAME).await;
    assert_proven(&seen);
    assert!(seen.summary.contains("n1 | n2 n3 (tcp/7001): "), "{}", seen.summary);
    assert_eq!((knock(2, 1, 7001), knock(1, 3, 7001)), (String::new(), String::new()));
    assert_eq!((knock(2, 1, 7002), knock(2, 3, 7001)), ("refused".into(), "refused".into()));
    assert_eq!(net.reached(&[(2, "10.99.0.1")]), [(2, "10.99.0.1")]);
    assert_proven(&partition.heal(&cx, &choice, NAME).await.unwrap());
    assert_eq!(knock(2, 1, 7001), "refused");
    assert_eq!(net.everywhere(RULES), before);
}

/// A node that may not run what is put there says so before the run.
#[tokio::test]
async fn a_node_that_may_not_run_the_agent_is_refused() {
    let net = Namespaces::new(1);
    let cx = store::running(&net).await;
    net.node(1).sh("mount -o remount,noexec /var/lib");
    let specs = deposed_nemeses::parse("pause", &net.names()).unwrap();
    let mut pause = specs[0].nemesis(&net.names(), &Claims::default(), &Agents::default()).unwrap();
    let error = pause.prepare(&cx).await.unwrap_err().to_string();
    assert!(error.contains("n1 may not run") && error.contains("noexec"), "{error}");
}
