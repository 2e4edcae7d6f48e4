//! What is told to the kernel's packet filter, as the tool `nft` reads it. Needs root.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each test uses a part of it")]
mod node;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use deposed_agent::{Answer, Backend, Cut, Flap, Protocol, Scope, Spare, Spec};
use node::{Node, Place, until};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn cut() -> Cut {
    Cut {
        backend: Backend::Nft,
        chain: "DEPOSED".into(),
        spared: BTreeSet::from([
            Spare::ToSshd { from: ip("10.0.0.9"), port: 2222 },
            Spare::FromSshd { from: ip("fd00::2"), port: 22 },
        ]),
        sources: BTreeSet::from([ip("10.0.0.2"), ip("fd00::2")]),
        answer: Answer::Drop,
        scope: None,
    }
}

/// A table of the host's, and that of a partition as it is expected to be read, each rule a line.
const HOST: &str =
    "table inet mine { chain input { type filter hook input priority 0; accept; }; }";

fn table(place: &Place) -> Vec<String> {
    let text = place.sh("nft list table inet deposed");
    text.lines().map(|line| line.trim().to_owned()).filter(|line| line.len() > 1).collect()
}

fn expected(rules: &[&str]) -> Vec<String> {
    let mut lines = vec!["table inet deposed {", "chain cut {"];
    lines.extend(rules);
    lines.extend([
        "chain input {",
        "type filter hook input priority filter - 10; policy accept;",
        "jump cut",
        "chain forward {",
        "type filter hook forward priority filter - 10; policy accept;",
        "jump cut",
    ]);
    lines.into_iter().map(str::to_owned).collect()
}

/// Every kind of cut is read by the node's own tool as what it should be, replaces the one before, and
/// is gone with its table afterwards; a table of the host's is left alone.
#[test]
fn what_the_kernel_is_told_is_what_nft_reads() {
    let place = Place::new();
    place.sh(&format!("nft '{HOST}'"));
    let before = place.sh("nft list ruleset");
    assert!(before.contains("chain input"), "these tests need nft: {before}");
    let mut node = Node::inside(&place.enter());
    let spared =
        ["ip saddr 10.0.0.9 tcp dport 2222 return", "ip6 saddr fd00::2 tcp sport 22 return"];
    let refused = [
        "tcp flags & rst == rst return",
        "icmp type destination-unreachable icmp code port-unreachable return",
        "icmpv6 type destination-unreachable icmpv6 code port-unreachable return",
    ];
    let port = |protocol| Some(Scope { protocol, port: Some(2380) });
    for (answer, scope, rules) in [
        (
            Answer::Drop,
            None,
            vec![
                "ip saddr 10.0.0.2 counter packets 0 bytes 0 drop",
                "ip6 saddr fd00::2 counter packets 0 bytes 0 drop",
            ],
        ),
        (
            Answer::Drop,
            Some(Scope { protocol: Protocol::Udp, port: None }),
            vec![
                "ip saddr 10.0.0.2 meta l4proto udp counter packets 0 bytes 0 drop",
                "ip6 saddr fd00::2 meta l4proto udp counter packets 0 bytes 0 drop",
            ],
        ),
        (
            Answer::Reset,
            None,
            vec![
                "ip saddr 10.0.0.2 meta l4proto tcp counter packets 0 bytes 0 reject with tcp reset",
                "ip saddr 10.0.0.2 counter packets 0 bytes 0 reject",
                "ip6 saddr fd00::2 meta l4proto tcp counter packets 0 bytes 0 reject with tcp reset",
                "ip6 saddr fd00::2 counter packets 0 bytes 0 reject",
            ],
        ),
        (
            Answer::Reset,
            port(Protocol::Tcp),
            vec![
                "ip saddr 10.0.0.2 tcp dport 2380 counter packets 0 bytes 0 reject with tcp reset",
                "ip saddr 10.0.0.2 tcp sport 2380 counter packets 0 bytes 0 reject with tcp reset",
                "ip6 saddr fd00::2 tcp dport 2380 counter packets 0 bytes 0 reject with tcp reset",
                "ip6 saddr fd00::2 tcp sport 2380 counter packets 0 bytes 0 reject with tcp reset",
            ],
        ),
        (
            Answer::Reset,
            port(Protocol::Udp),
            vec![
                "ip saddr 10.0.0.2 udp dport 2380 counter packets 0 bytes 0 reject",
                "ip saddr 10.0.0.2 udp sport 2380 counter packets 0 bytes 0 reject",
                "ip6 saddr fd00::2 udp dport 2380 counter packets 0 bytes 0 reject",
                "ip6 saddr fd00::2 udp sport 2380 counter packets 0 bytes 0 reject",
            ],
        ),
    ] {
        node.apply(Spec::Cut(Cut { answer, scope, ..cut() }));
        let refused = if answer == Answer::Reset { &refused[..] } else { &[] };
        assert_eq!(table(&place), expected(&[&spared[..], refused, &rules].concat()));
    }
    node.undo();
    assert_eq!(place.sh("nft list ruleset"), before);
}

/// A cut that comes and goes keeps its rules, and its way in comes and goes.
#[test]
fn the_way_into_a_flapping_cut_comes_and_goes() {
    let place = Place::new();
    let before = place.sh("nft list ruleset");
    let mut node = Node::inside(&place.enter());
    node.apply(Spec::Flap(Flap { cut: cut(), cut_ms: 50, pass_ms: 50 }));
    let jumps = || table(&place).iter().filter(|line| *line == "jump cut").count();
    until("it is open", || jumps() == 0);
    until("it is closed", || jumps() == 2);
    until("it is open again", || jumps() == 0);
    assert!(table(&place).iter().any(|line| line.starts_with("ip saddr 10.0.0.2 counter")));
    node.undo();
    assert_eq!(place.sh("nft list ruleset"), before);
}

/// What is left of an earlier cut is replaced.
#[test]
fn leftovers_are_replaced() {
    let place = Place::new();
    place.sh("nft 'table inet deposed { chain cut { ip saddr 10.1.1.1 drop; }; chain input { jump cut; }; }'");
    assert_eq!(table(&place).len(), 5);
    let mut node = Node::inside(&place.enter());
    node.apply(Spec::Cut(Cut { spared: [].into(), sources: [ip("10.0.0.2")].into(), ..cut() }));
    assert_eq!(table(&place), expected(&["ip saddr 10.0.0.2 counter packets 0 bytes 0 drop"]));
    node.undo();
    assert_eq!(table(&place), [""; 0]);
}

/// A table that somebody removed is found out, and gone all the same when it is undone, by the keeper too.
#[test]
fn a_table_that_is_gone_is_found_out() {
    let place = Place::new();
    let mut node = Node::inside(&place.enter());
    node.apply(Spec::Cut(cut()));
    place.sh("nft delete table inet deposed");
    assert!(node.try_prove().is_err());
    node.renew(Duration::from_secs(1));
    node.kill_agent();
    until("it is undone", || node.is_clean());
    assert_eq!(table(&place), [""; 0]);
}
